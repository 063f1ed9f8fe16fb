"""Error metrics and tolerances of the operators, and assertions that state the metric and both numbers.

fro = |e| / |ref| over the whole tensor; t = max |e| / (|ref| + rms(ref)), which stays meaningful next to zeros.
Each assertion looks at every output before it fails, and returns what it measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tests.reference.formats import FORMATS, AnyArray, Array, ulp, widened


class Measurement(NamedTuple):
    """One metric of one output: the value seen and the value allowed."""

    output: str
    metric: str
    seen: float
    allowed: float

    @property
    def within(self) -> bool:
        """Whether the value seen is allowed; a nan is not."""
        return self.seen <= self.allowed


class Limits(NamedTuple):
    """The allowed fro and t of one tensor."""

    fro: float
    t: float


GATED_RESIDUAL = {
    "bfloat16": {"dgamma": Limits(3e-3, 1e-2), "other": Limits(5e-3, 4e-2)},
    "float16": {"dgamma": Limits(4e-4, 1.2e-3), "other": Limits(6e-4, 5e-3)},
}
"""Worst seen over N = 1..2048, C = 1..20, H = 48..2560 with 16-bit workspace rows, and a margin of about 1.4."""

GLU_ULPS = {"float64": 4.0, "float32": 2.0, "float16": 0.55, "bfloat16": 0.55}
GLU_SCALE = {"float64": 4e-16, "float32": 2e-7, "float16": 2e-7, "bfloat16": 2e-7}
COMPOSITE_FRO = 5e-3
CONV_ULPS, CONV_TERMS = 0.55, 1e-6
LIBRARY_ULPS = {"float64": 8.0, "float32": 4.0, "float16": 0.55, "bfloat16": 0.55}
LIBRARY_SCALE = {"float64": 1e-14, "float32": 2e-6, "float16": 2e-6, "bfloat16": 2e-6}
QUOTIENT_TIE = 1e-4
"""How close to a half a float32 quotient may be for its rounding to go either way."""


def fro(actual: Array, expected: Array) -> float:
    """Return the norm of the error relative to that of the reference; 0 for two zeros, inf for an error on zero."""
    error, size = float(np.linalg.norm(actual - expected)), float(np.linalg.norm(expected))
    if not size:
        return 0.0 if error == 0 else float("inf")
    return error / size


def t(actual: Array, expected: Array) -> float:
    """Return the worst error relative to |ref| + rms(ref), with 0 and inf as in `fro`."""
    if not expected.size:
        return 0.0
    error, scale = np.abs(actual - expected), np.abs(expected) + np.sqrt(np.mean(expected**2))
    if not scale.max():
        return 0.0 if not error.any() else float("inf")
    return float(np.max(error / scale))


def _finite(actual: AnyArray, expected: AnyArray, dtype: str) -> tuple[Array, Array]:
    """Return both as float64, entries set to 0 in both where the reference and the result overflow alike."""
    wide, reference = widened(actual), widened(expected)
    beyond = (np.abs(reference) > FORMATS[dtype].greatest) & np.isinf(wide) & (np.sign(wide) == np.sign(reference))
    return np.where(beyond, 0.0, wide), np.where(beyond, 0.0, reference)


def _pairs(actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], subject: str) -> list[str]:
    """Return the names of the outputs; fail if outputs are missing, unexpected or of another shape."""
    faults = [f"{name} is missing" for name in expected if name not in actual]
    faults += [f"{name} is not expected" for name in actual if name not in expected]
    faults += [
        f"{name} has shape {np.shape(actual[name])}, expected {np.shape(expected[name])}"
        for name in expected
        if name in actual and np.shape(actual[name]) != np.shape(expected[name])
    ]
    if faults:
        raise AssertionError(f"{subject}: " + "; ".join(faults))
    return list(expected)


def _judged(subject: str, dtype: str, seen: list[Measurement]) -> list[Measurement]:
    """Return the measurements; fail with all that are out of tolerance."""
    faults = [f"{m.output}: {m.metric} {m.seen:.4g} above {m.allowed:.4g}" for m in seen if not m.within]
    if faults:
        raise AssertionError(f"{subject} in {dtype}: " + "; ".join(faults))
    return seen


def _elementwise(name: str, metric: str, actual: Array, expected: Array, allowed: Array) -> Measurement:
    """Return the worst error in units of what is allowed at its element; nothing is allowed means exactly equal."""
    error = np.abs(actual - expected)
    ratio = np.where(error == 0, 0.0, np.divide(error, allowed, out=np.full(error.shape, np.inf), where=allowed > 0))
    return Measurement(name, metric, float(ratio.max(initial=0.0)), 1.0)


def assert_text_gated_residual(
    actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], dtype: str
) -> list[Measurement]:
    """Return fro and t of every output of the gated residual, forward or backward, all within the table.

    A tensor whose reference is zero everywhere must be exactly zero.
    """
    subject, seen = "text_gated_residual", []
    for name in _pairs(actual, expected, subject):
        limits = GATED_RESIDUAL[dtype].get(name, GATED_RESIDUAL[dtype]["other"])
        result, reference = _finite(actual[name], expected[name], "float32" if name == "dgamma" else dtype)
        seen.append(Measurement(name, "fro", fro(result, reference), limits.fro))
        seen.append(Measurement(name, "t", t(result, reference), limits.t))
    return _judged(subject, dtype, seen)


def assert_masked_causal_conv1d(
    actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], terms: Mapping[str, Array], dtype: str
) -> list[Measurement]:
    """Return the worst error of every output in units of 0.55 ulp + 1e-6 * the sum of its absolute terms.

    `terms` is that sum (`backward_terms` or `forward_terms`). Where it is zero the result must be zero.
    """
    subject, metric = "masked_causal_conv1d", "error over (0.55 ulp + 1e-6 of its terms)"
    seen = []
    for name in _pairs(actual, expected, subject):
        result, reference = _finite(actual[name], expected[name], dtype)
        allowed = CONV_ULPS * np.where(reference == 0, 0.0, ulp(reference, dtype)) + CONV_TERMS * terms[name]
        seen.append(_elementwise(name, metric, result, reference, allowed))
    return _judged(subject, dtype, seen)


def assert_glu(
    actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], scale: Mapping[str, Array], dtype: str
) -> list[Measurement]:
    """Return the worst error of `out` in units of its ulps plus a share of `tolerance_scale`.

    Where that scale is zero too, so that the reference is exactly zero, the result must be zero.
    """
    subject = "glu"
    metric = f"error over ({GLU_ULPS[dtype]:g} ulp + {GLU_SCALE[dtype]:g} of its scale)"
    seen = []
    for name in _pairs(actual, expected, subject):
        result, reference = _finite(actual[name], expected[name], dtype)
        nearby = np.where(reference == 0, 0.0, ulp(reference, dtype))
        allowed = GLU_ULPS[dtype] * nearby + GLU_SCALE[dtype] * scale[name]
        seen.append(_elementwise(name, metric, result, reference, allowed))
    return _judged(subject, dtype, seen)


def assert_glu_composite(actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray]) -> list[Measurement]:
    """Return fro of `out` from the chain of library kernels in bfloat16, which rounds between kernels."""
    seen = []
    for name in _pairs(actual, expected, "glu composite"):
        result, reference = _finite(actual[name], expected[name], "bfloat16")
        seen.append(Measurement(name, "fro", fro(result, reference), COMPOSITE_FRO))
    return _judged("glu composite", "bfloat16", seen)


def assert_library(
    actual: Mapping[str, AnyArray],
    expected: Mapping[str, AnyArray],
    dtypes: Mapping[str, str],
    subject: str = "library operator",
) -> list[Measurement]:
    """Return the worst error of every output in units of its ulps plus a share of |ref| + rms(ref).

    One rounding of a float32 result is 0.5 ulp; the share covers what float32 loses before it. `dtypes` names the
    dtype of each output, and integers must be equal.
    """
    seen = []
    for name in _pairs(actual, expected, subject):
        dtype = dtypes[name]
        if dtype not in FORMATS:
            differing = int(np.count_nonzero(widened(actual[name]) != widened(expected[name])))
            seen.append(Measurement(name, "differing integers", differing, 0))
            continue
        result, reference = _finite(actual[name], expected[name], dtype)
        scale = np.abs(reference) + np.sqrt(np.mean(reference**2)) if reference.size else reference
        allowed = LIBRARY_ULPS[dtype] * np.where(scale == 0, 0.0, ulp(reference, dtype)) + LIBRARY_SCALE[dtype] * scale
        seen.append(_elementwise(name, "error over its tolerance", result, reference, allowed))
    return _judged(subject, ", ".join(sorted(set(dtypes.values()))), seen)


def assert_terms(
    subject: str,
    actual: Mapping[str, AnyArray],
    expected: Mapping[str, AnyArray],
    terms: Mapping[str, Array],
    dtypes: Mapping[str, str],
    shares: Mapping[str, float],
) -> list[Measurement]:
    """Return the worst error of every output in units of one rounding plus a share of the sum of its absolute terms.

    The rounding is half an ulp, 0.55 next to a power of two; a float32 output has none beside that of its sum.
    """
    seen = []
    for name in _pairs(actual, expected, subject):
        dtype = dtypes[name]
        result, reference = _finite(actual[name], expected[name], dtype)
        once = 0.0 if dtype == "float32" else 0.55 * np.where(reference == 0, 0.0, ulp(reference, dtype))
        allowed = once + shares[dtype] * terms[name]
        seen.append(_elementwise(name, "error over a rounding and its terms", result, reference, allowed))
    return _judged(subject, ", ".join(sorted(set(dtypes.values()))), seen)


def assert_absolute(
    subject: str,
    actual: Mapping[str, AnyArray],
    expected: Mapping[str, AnyArray],
    allowed: Mapping[str, AnyArray],
) -> list[Measurement]:
    """Return the worst error of every output in units of what is allowed there; NaN says nothing of its element."""
    seen = []
    for name in _pairs(actual, expected, subject):
        stated = ~np.isnan(expected[name])
        result, reference = (np.where(stated, widened(values[name]), 0.0) for values in (actual, expected))
        limit = np.where(stated, allowed[name], 1.0)
        seen.append(_elementwise(name, "error over its tolerance", result, reference, limit))
    return _judged(subject, "float32", seen)


def assert_dynamic_quant(
    actual: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], x: AnyArray
) -> list[Measurement]:
    """Return the worst error of `scale` (2 ulp of float32) and the count of wrong integers in `y`.

    An integer may differ by one only where x / scale is so close to a half that float32 can not tell.
    """
    subject = "dynamic_quant"
    _pairs(actual, expected, subject)
    reference = widened(expected["scale"])
    limit = 2.0 * ulp(reference, "float32") * (reference != 0)
    quotient = widened(x) / np.where(reference == 0, 1.0, reference)[..., None]
    tie = np.abs(np.abs(quotient - np.trunc(quotient)) - 0.5) < QUOTIENT_TIE
    error = np.abs(widened(actual["y"]) - widened(expected["y"]))
    wrong = int(np.count_nonzero(~((error == 0) | ((error == 1) & tie))))
    seen = [
        _elementwise("scale", "error over 2 ulp", widened(actual["scale"]), reference, limit),
        Measurement("y", "wrong integers", wrong, 0),
    ]
    return _judged(subject, "int8", seen)
