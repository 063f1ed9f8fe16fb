"""The references against golden gradients, and the golden tables against themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests import golden
from tests.golden import packing
from tests.reference import formats, glu_backward, reference_of
from tests.reference.call import Stated
from tests.reference.formats import AnyArray, Array, carried

SHARED = Path(__file__).parents[3] / "shared" / "golden" / "numerics"


def _backward(operator: str, inputs: Mapping[str, AnyArray], attributes: Mapping[str, int]) -> dict[str, Array]:
    gradients: dict[str, Array] = reference_of(operator).expected(Stated(attributes), inputs)
    return gradients


@pytest.mark.parametrize("case", golden.gradient_cases(), ids=lambda case: case.name)
def test_reference_equals_golden_gradients(case: golden.GradientCase) -> None:
    actual = _backward(case.operator, case.inputs, case.attributes)
    assert set(actual) == set(case.expected)
    for name, value in case.expected.items():
        bound = case.errors[name] * 1.000001 + 1e-13 * np.abs(value).max(initial=0.0)
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=bound, err_msg=name)


SHARED_OPERATORS = {"tgr": "text_gated_residual_grad", "con": "masked_causal_conv1d_backward", "glu": "glu_backward"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the full-precision golden gradients are not next to this checkout")
@pytest.mark.parametrize("path", sorted(SHARED.glob("*.npz")), ids=lambda path: path.stem)
def test_reference_equals_full_precision_gradients(path: Path) -> None:
    with np.load(path) as case:
        tensors = {name: case[name] for name in case.files}
    attributes = {name: int(tensors[name]) for name in ("channels", "dim") if name in tensors}
    inputs = {name[3:]: value for name, value in tensors.items() if name.startswith("in_")}
    expected = {name[4:]: value for name, value in tensors.items() if name.startswith("exp_")}
    actual = _backward(SHARED_OPERATORS[path.stem[:3]], inputs, attributes)
    assert set(actual) == set(expected)
    for name, value in expected.items():
        bound = 1e-13 * np.abs(value).max(initial=0.0)
        np.testing.assert_allclose(actual[name], value, rtol=1e-12, atol=bound, err_msg=name)
    if "atol_scale" in tensors:
        np.testing.assert_array_equal(
            glu_backward.tolerance_scale(inputs, attributes["dim"])["out"], tensors["atol_scale"]
        )


def test_golden_tables_load_and_hold_together() -> None:
    assert [len(golden.gradient_cases(name)) for name in SHARED_OPERATORS.values()] == [9, 4, 5]
    tilings = golden.conv1d_tilings()
    assert len(tilings) == 113
    for tiling in tilings:
        used = tiling.tiling["hMainCoreCnt"] + tiling.tiling["hTailCoreCnt"]
        assert tiling.block_dim == used, tiling.name
        assert tiling.fits == (tiling.ub_used_bytes <= tiling.ub_available_bytes), tiling.name
        assert {key: tiling.tiling[key] for key in "SBHW"} == tiling.dims
    assert len(golden.glu_tilings()) == 143
    for row in golden.glu_tilings():
        assert row.block_dim == row.tiling["realCoreNum"], row.name
        assert row.tiling_key >> 8 == (row.mode == "big"), row.name
    assert {refusal.status for refusal in golden.conv1d_refusals()} == {161002, 561002}
    checks = {refusal.check for refusal in golden.glu_refusals()}
    assert checks == {"odd-split", "dtype", "dim-range", "ub", "undefined"}
    assert {status.status for status in golden.glu_statuses()} == {0, 161001, 161002}
    limits = golden.gated_residual_limits()
    assert len(limits) == 72
    for limit in limits:
        if limit.reason == "capacity":
            assert limit.capacity_words is not None
            assert 13 * limit.dims["H"] > limit.capacity_words


def test_golden_packing_restores_what_it_stored(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {kind: carried(rng.standard_normal((3, 5)), kind) for kind in formats.FORMATS}
    tensors: dict[str, tuple[AnyArray, str]] = {kind: (value, kind) for kind, value in values.items()}
    tensors |= {"empty": (np.zeros((0, 4), np.float32), "float16"), "flag": (np.array([True, False]), "bool")}
    tensors["steps"] = (np.array([0.5, -1.0, 0.0]), "fixed")
    packing.save(tmp_path / "case.npz", {"about": "test"}, tensors)
    header, restored, errors = packing.load(tmp_path / "case.npz")
    assert header == {"about": "test"}
    assert list(restored) == list(tensors)
    for name, (value, kind) in tensors.items():
        np.testing.assert_allclose(restored[name], value, rtol=0, atol=errors[name] * 1.000001)
        assert (errors[name] > 0) == (kind in {"fixed", "float32"})
