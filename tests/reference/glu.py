"""Reference of the gated linear unit, y = a * s(b), and of its backward, along any axis of any rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.formats import AnyArray, Array, carried, rounded, widened
from tests.reference.logistic import logistic


def _halves(values: AnyArray, dim: int) -> tuple[Array, Array]:
    first, second = np.split(widened(values), 2, axis=dim)
    return first, second


def forward(inputs: Mapping[str, AnyArray], dim: int = -1) -> dict[str, Array]:
    """Return `out` [*1, N/2, *2] from `self` [*1, N, *2]."""
    value, gate = _halves(inputs["self"], dim)
    return {"out": value * logistic(gate)[0]}


def backward(inputs: Mapping[str, AnyArray], dim: int = -1) -> dict[str, Array]:
    """Return `out`, the gradient of `self`, from `gradOut` and `self`."""
    value, gate = _halves(inputs["self"], dim)
    upstream = widened(inputs["gradOut"])
    opened, closed = logistic(gate)
    return {"out": np.concatenate([upstream * opened, upstream * value * opened * closed], axis=dim)}


def composite(inputs: Mapping[str, AnyArray], dim: int = -1, dtype: str = "bfloat16") -> dict[str, Array]:
    """Return `out` as the chain of library kernels makes it, every kernel rounding its result to the dtype once.

    Products that lack the fused kernel run sigmoid, mul, mul, sub, mul. A float32 sigmoid may fall on the other side
    of a rounding tie than this float64 one; all later steps are exact before they are rounded.
    """
    value, gate = _halves(inputs["self"], dim)
    opened = rounded(logistic(gate)[0], dtype)
    value_grad = rounded(widened(inputs["gradOut"]) * opened, dtype)
    slope = rounded(value - rounded(value * opened, dtype), dtype)
    return {"out": np.concatenate([value_grad, rounded(value_grad * slope, dtype)], axis=dim)}


def tolerance_scale(inputs: Mapping[str, AnyArray], dim: int = -1) -> dict[str, Array]:
    """Return for each element of `out` the magnitude that its absolute tolerance is relative to.

    That is |gradOut| in the first half and |gradOut * a| in the second, where a - a*s(b) cancels.
    """
    value, _ = _halves(inputs["self"], dim)
    upstream = np.abs(widened(inputs["gradOut"]))
    return {"out": np.concatenate([upstream, upstream * np.abs(value)], axis=dim)}


def random_inputs(
    shape: Sequence[int], dim: int = -1, dtype: str = "bfloat16", *, seed: int = 0, spread: float = 2.0
) -> dict[str, AnyArray]:
    """Return `gradOut` and `self` of the given shape, rounded to the dtype; a large spread saturates the gates."""
    rng = np.random.default_rng(seed)
    half = list(shape)
    half[dim] //= 2
    return {
        "gradOut": carried(rng.standard_normal(half), dtype),
        "self": carried(rng.standard_normal(tuple(shape)) * spread, dtype),
    }
