"""Golden data: gradients of three operators, their tilings, limits and status codes, as typed cases.

Each file states where its figures come from. `gradients` are .npz files (see `packing`), the rest is JSON with one
case a line under named columns.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden.cases import (
    Conv1dRefusal,
    Conv1dTiling,
    GatedResidualLimit,
    GluRefusal,
    GluStatus,
    GluTiling,
    GradientCase,
    KinTiling,
    MhcTiling,
    TensorSpec,
)
from tests.golden.packing import load

__all__ = [
    "Conv1dRefusal",
    "Conv1dTiling",
    "GatedResidualLimit",
    "GluRefusal",
    "GluStatus",
    "GluTiling",
    "GradientCase",
    "KinTiling",
    "MhcTiling",
    "TensorSpec",
    "conv1d_refusals",
    "conv1d_tilings",
    "gated_residual_limits",
    "glu_refusals",
    "glu_statuses",
    "glu_tilings",
    "gradient_cases",
    "kin_tilings",
    "mhc_tilings",
]

HERE = Path(__file__).parent

Row = dict[str, Any]


@cache
def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return document


def _rows(document: str, section: str) -> list[Row]:
    """Return the cases of a section, each as a mapping of its columns."""
    table = _document(document)[section]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def _named(document: str, names: str, values: list[int | None]) -> dict[str, int]:
    """Return the values under the field names that the document lists once; None marks an absent field."""
    pairs = zip(_document(document)[names], values, strict=True)
    return {name: value for name, value in pairs if value is not None}


def _spec(value: list[Any] | None) -> TensorSpec | None:
    return None if value is None else TensorSpec(tuple(value[0]), value[1])


def gradient_cases(operator: str | None = None) -> list[GradientCase]:
    """Return the gradient cases of an operator, or of all three, in the order of their names."""
    cases = []
    for path in sorted((HERE / "gradients").glob("*.npz")):
        if operator is not None and not path.stem.startswith(operator):
            continue
        header, tensors, errors = load(path)
        expected = set(header["expected"])
        cases.append(
            GradientCase(
                name=path.stem,
                about=header["about"],
                operator=header["operator"],
                dtype=header["dtype"],
                attributes=header["attributes"],
                inputs={name: value for name, value in tensors.items() if name not in expected},
                expected={name: tensors[name].astype(np.float64) for name in header["expected"]},
                errors={name: errors[name] for name in header["expected"]},
            )
        )
    return cases


def conv1d_tilings() -> list[Conv1dTiling]:
    """Return the accepted tilings of masked_causal_conv1d_backward."""
    name = "conv1d_tiling"
    return [
        Conv1dTiling(
            **{
                **row,
                "dims": dict(zip("SBHW", row["dims"], strict=True)),
                "mask": bool(row["mask"]),
                "fits": bool(row["fits"]),
                "tiling": _named(name, "fields", row["tiling"]),
                "transfers": _named(name, "transfer_fields", row["transfers"]),
                "vector": _named(name, "vector_fields", row["vector"]),
            }
        )
        for row in _rows(name, "accepted")
    ]


def conv1d_refusals() -> list[Conv1dRefusal]:
    """Return the inputs that masked_causal_conv1d_backward refuses."""
    tensors = ("gradY", "x", "weight", "mask")
    return [
        Conv1dRefusal(
            tensors={tensor: _spec(row.pop(tensor)) for tensor in tensors},
            **row,
        )
        for row in _rows("conv1d_tiling", "refused")
    ]


def glu_tilings() -> list[GluTiling]:
    """Return the accepted tilings of glu_backward."""
    name = "glu_tiling"
    return [
        GluTiling(
            **{
                **row,
                "shape": tuple(row["shape"]),
                "fits": bool(row["fits"]),
                "tiling": _named(name, "fields", row["tiling"]),
                "work": _named(name, "work_fields", row["work"]),
            }
        )
        for row in _rows(name, "accepted")
    ]


def glu_refusals() -> list[GluRefusal]:
    """Return the shapes that the tiling of glu_backward refuses or does not define."""
    return [GluRefusal(**{**row, "shape": tuple(row["shape"])}) for row in _rows("glu_tiling", "refused")]


def glu_statuses() -> list[GluStatus]:
    """Return what the first call of glu_backward answers, accepted or not."""
    tensors = ("gradOut", "self", "out")
    return [
        GluStatus(
            tensors={tensor: _spec(row.pop(tensor)) for tensor in tensors},
            **row,
        )
        for row in _rows("glu_tiling", "statuses")
    ]


def kin_tilings(operator: str) -> list[KinTiling]:
    """Return the calls of a gated unit, its gradients, a norm or the convolution, accepted ones first."""
    table = _document("kin_tiling")[operator]
    cases = []
    for row in (dict(zip(table["columns"], row, strict=True)) for row in table["rows"]):
        fields, values = table["fields"][row.pop("form")], row.pop("tiling")
        options = {
            name: _spec(value) if isinstance(value, list) else value
            for name, value in zip(table["options"], row.pop("options"), strict=True)
        }
        tiling = None if values is None else dict(zip(fields, values, strict=True))
        cases.append(KinTiling(**{**row, "shape": tuple(row["shape"])}, options=options, tiling=tiling))
    return cases


def gated_residual_limits() -> list[GatedResidualLimit]:
    """Return the status and the limits of shapes of text_gated_residual_grad."""
    name = "gated_residual_limits"
    return [
        GatedResidualLimit(
            **{
                **row,
                "dims": dict(zip("CHR", row["dims"], strict=True)),
                "stage_words": _named(name, "stages", row["stage_words"]),
            }
        )
        for row in _rows(name, "limits")
    ]


def mhc_tilings(operator: str) -> list[MhcTiling]:
    """Return the calls of an operator of manifold hyper-connections, accepted ones first."""
    table = _document("mhc_tiling")[operator]
    cases = []
    for row in (dict(zip(table["columns"], row, strict=True)) for row in table["rows"]):
        form, values, template = row.pop("form"), row.pop("tiling"), row.pop("template")
        cases.append(
            MhcTiling(
                **{**row, "shape": tuple(row["shape"])},
                tiling=None if values is None else dict(zip(table["fields"][form], values, strict=True)),
                template=None if template is None else tuple(template),
            )
        )
    return cases
