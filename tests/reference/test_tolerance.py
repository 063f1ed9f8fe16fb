"""The rounding and the tolerances that outputs are judged by: what they accept, refuse, and say of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference import (
    dynamic_quant,
    formats,
    glu_backward,
    masked_causal_conv1d_backward,
    rms_norm,
    text_gated_residual_grad,
    tolerance,
)
from tests.reference.call import Stated
from tests.reference.formats import carried, ulp

DIMS = {"B": 2, "S": 3, "C": 4, "H": 16, "R": 16}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rounding_equals_numpy(dtype: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal(20000) * 10.0 ** rng.integers(-50, 42, 20000)
    edges = [0.0, -0.0, 65519.0, 65520.0, 2.0**-25, 1.5 * 2.0**-24, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    values = np.concatenate([values, edges])
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(formats.rounded(values, dtype), values.astype(dtype).astype(np.float64))


def test_rounding_to_bfloat16_is_single() -> None:
    # Just above a tie by less than float32 can show: through float32 it would fall back to the even neighbour.
    values = [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3961775292304953e38, 2.0**-134]
    assert formats.rounded(values, "bfloat16").tolist() == [1 + 2.0**-7, 1.0, 1 + 2.0**-6, float("inf"), 0.0]
    assert ulp([1.0, 1.99, 2.0, 0.0, -4.0], "bfloat16").tolist() == [2.0**-7, 2.0**-7, 2.0**-6, 2.0**-133, 2.0**-5]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tolerances_accept_one_rounding_and_name_what_fails(dtype: str) -> None:
    inputs = text_gated_residual_grad.random_inputs(DIMS, dtype)
    expected = text_gated_residual_grad.backward(inputs, DIMS["C"])
    good = {name: carried(value, dtype) for name, value in expected.items()}
    assert all(measured.within for measured in tolerance.assert_text_gated_residual(good, expected, dtype))
    bad = good | {"dx": good["dx"] * 1.1, "dwUp": good["dwUp"] * np.nan}
    with pytest.raises(AssertionError, match=rf"in {dtype}: dx: fro 0\.\d+ above .*dwUp: fro nan above .*dwUp: t nan"):
        tolerance.assert_text_gated_residual(bad, expected, dtype)

    inputs = masked_causal_conv1d_backward.random_inputs({"S": 9, "B": 2, "H": 64}, dtype)
    expected, terms = (
        masked_causal_conv1d_backward.backward(inputs),
        masked_causal_conv1d_backward.backward_terms(inputs),
    )
    good = {name: carried(value, dtype) for name, value in expected.items()}
    tolerance.assert_masked_causal_conv1d(good, expected, terms, dtype)
    bad = good | {"gradX": good["gradX"] + ulp(good["gradX"], dtype)}
    with pytest.raises(AssertionError, match=r"gradX: error over \(0\.55 ulp \+ 1e-6 of its terms\) .* above 1"):
        tolerance.assert_masked_causal_conv1d(bad, expected, terms, dtype)


@pytest.mark.parametrize("dtype", list(formats.FORMATS))
def test_glu_tolerance_accepts_one_rounding_only(dtype: str) -> None:
    inputs = glu_backward.random_inputs((4, 64), -1, dtype, spread=30.0)
    expected, scale = glu_backward.backward(inputs), glu_backward.tolerance_scale(inputs)
    good = {"out": carried(expected["out"], dtype)}
    tolerance.assert_glu(good, expected, scale, dtype)
    with pytest.raises(AssertionError, match="out: error over"):
        tolerance.assert_glu({"out": good["out"] + 10 * ulp(good["out"], dtype)}, expected, scale, dtype)


def test_glu_composite_tolerance_accepts_a_rounding_for_each_kernel() -> None:
    inputs = glu_backward.random_inputs((64, 128), 0)
    expected, chain = glu_backward.backward(inputs, 0), glu_backward.composite(inputs, 0)
    (measured,) = tolerance.assert_glu_composite(chain, expected)
    assert measured.seen > 1e-3
    with pytest.raises(AssertionError, match="glu composite in bfloat16: out: fro"):
        tolerance.assert_glu_composite({"out": chain["out"] * 1.01}, expected)


def test_tolerances_demand_exact_zeros_shapes_and_names() -> None:
    zero, tiny = {"dx": np.zeros((2, 2))}, {"dx": np.full((2, 2), 1e-30)}
    with pytest.raises(AssertionError, match="dx: fro inf above"):
        tolerance.assert_text_gated_residual(tiny, zero, "float16")
    with pytest.raises(AssertionError, match=r"dx: .* inf above 1"):
        tolerance.assert_masked_causal_conv1d(tiny, zero, zero, "float16")
    with pytest.raises(AssertionError, match=r"dx has shape \(4,\), expected \(2, 2\)"):
        tolerance.assert_text_gated_residual({"dx": np.zeros(4)}, zero, "float16")
    with pytest.raises(AssertionError, match="dx is missing; dy is not expected"):
        tolerance.assert_text_gated_residual({"dy": zero["dx"]}, zero, "float16")
    beyond = {"dx": np.array([1e6, 1.0])}
    tolerance.assert_text_gated_residual({"dx": np.array([np.inf, 1.0])}, beyond, "float16")
    with pytest.raises(AssertionError, match="fro inf above"):
        tolerance.assert_text_gated_residual({"dx": np.array([-np.inf, 1.0])}, beyond, "float16")


def test_library_tolerance_covers_float32_arithmetic() -> None:
    rng = np.random.default_rng(0)
    inputs = {
        "x": carried(rng.standard_normal((8, 256)), "float32"),
        "gamma": carried(rng.uniform(0.5, 1.5, 256), "float32"),
    }
    single = {name: value.astype(np.float32) for name, value in inputs.items()}
    root = np.float32(1) / np.sqrt(np.mean(single["x"] ** 2, axis=-1, keepdims=True) + np.float32(1e-6))
    actual = {"y": single["x"] * root * single["gamma"], "rstd": root}
    dtypes = {"y": "float32", "rstd": "float32"}
    expected = rms_norm.expected(Stated({"epsilon": 1e-6}), inputs)
    tolerance.assert_library(actual, expected, dtypes, "rms_norm")
    with pytest.raises(AssertionError, match="rms_norm in float32: y: error over its tolerance"):
        tolerance.assert_library(actual | {"y": actual["y"] * 1.0001}, expected, dtypes, "rms_norm")
    with pytest.raises(AssertionError, match="y: differing integers 1 above 0"):
        tolerance.assert_library({"y": np.array([1, 3])}, {"y": np.array([1, 2])}, {"y": "int32"})
    expected = dynamic_quant.expected(Stated(), inputs)
    tolerance.assert_dynamic_quant(expected, expected, inputs["x"])
    with pytest.raises(AssertionError, match="y: wrong integers 2048 above 0"):
        tolerance.assert_dynamic_quant(expected | {"y": expected["y"] + 1}, expected, inputs["x"])
