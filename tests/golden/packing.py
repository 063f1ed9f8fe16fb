"""The file form of one gradient case: an .npz with a JSON header and one stream of bytes for each kind of number.

The streams hold all tensors of a kind end to end, the bytes of equal significance next to each other, which
compresses far better than whole numbers and spares the header that an .npz spends on each of its members.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

STORED = {"bfloat16": "<u2", "float16": "<u2", "float32": "<f4", "float64": "<f8", "bool": "u1", "fixed": "<i2"}
"""The numbers behind each kind; `fixed` are multiples of a step that the header gives for each tensor."""

SIXTEEN_BIT: dict[str, np.dtype[Any]] = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}

FIXED_GREATEST = 32767


def _stored(values: AnyArray, kind: str, step: float) -> AnyArray:
    """Return the numbers that are written for the values."""
    if kind in SIXTEEN_BIT:
        return values.astype(SIXTEEN_BIT[kind]).view(np.uint16)
    if kind == "fixed":
        return np.rint(values / step if step else values).astype(np.int16)
    numbers: AnyArray = values.astype(STORED[kind])
    return numbers


def _restored(numbers: AnyArray, kind: str, step: float) -> AnyArray:
    """Return the values in the type that carries them exactly: 16-bit floats in float32, fixed ones in float64."""
    if kind in SIXTEEN_BIT:
        return numbers.view(SIXTEEN_BIT[kind]).astype(np.float32)
    if kind == "fixed":
        return numbers.astype(np.float64) * step
    return numbers.astype(np.bool_) if kind == "bool" else numbers


def save(path: Path, header: Mapping[str, Any], tensors: Mapping[str, tuple[AnyArray, str]]) -> None:
    """Write the tensors, each with its kind, and the header; the keys of the tensors are kept in order."""
    rows, streams = [], dict[str, list[AnyArray]]()
    for name, (values, kind) in tensors.items():
        step = float(np.abs(values).max(initial=0.0)) / FIXED_GREATEST if kind == "fixed" else 0.0
        rows.append([name, kind, list(values.shape), step])
        numbers = _stored(np.ascontiguousarray(values).reshape(-1), kind, step).astype(STORED[kind])
        streams.setdefault(kind, []).append(numbers)
    planes: dict[str, Any] = {
        kind: np.concatenate(parts).view(np.uint8).reshape(-1, np.dtype(STORED[kind]).itemsize).T.copy()
        for kind, parts in streams.items()
    }
    text = json.dumps({**header, "tensors": rows}, separators=(",", ":"))
    np.savez_compressed(path, header=np.frombuffer(text.encode(), np.uint8), **planes)


def load(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray], dict[str, float]]:
    """Return the header, the tensors by name, and a bound on the error of the elements of each.

    The bound is half a step of fixed point, and for float32 what rounding a float64 to it may cost. The bound of the
    other kinds is 0: they are meant for values that they hold exactly.
    """
    with np.load(path, allow_pickle=False) as archive:
        header: dict[str, Any] = json.loads(archive["header"].tobytes())
        streams = {
            kind: np.ascontiguousarray(archive[kind].T).reshape(-1).view(STORED[kind])
            for kind in archive.files
            if kind != "header"
        }
    tensors: dict[str, AnyArray] = {}
    errors: dict[str, float] = {}
    taken = dict.fromkeys(streams, 0)
    for name, kind, shape, step in header.pop("tensors"):
        start, count = taken[kind], int(np.prod(shape, dtype=np.int64))
        taken[kind] = start + count
        tensors[name] = _restored(streams[kind][start : start + count], kind, step).reshape(shape)
        greatest = float(np.abs(tensors[name]).max(initial=0.0)) if kind == "float32" else 0.0
        errors[name] = max(step / 2, greatest * 2.0**-24)
    return header, tensors, errors
