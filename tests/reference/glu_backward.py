"""Reference of the backward of the gated linear unit, along any axis of any rank, and of its chain of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import AnyArray, Inputs, Outputs, carried, rounded, widened
from tests.reference.glu import halves
from tests.reference.logistic import logistic
from tests.reference.tolerance import Measurement, assert_glu


def backward(inputs: Inputs, dim: int = -1) -> Outputs:
    """Return `out`, the gradient of `self`, from `gradOut` and `self`."""
    value, gate = halves(inputs["self"], dim)
    upstream = widened(inputs["gradOut"])
    opened, closed = logistic(gate)
    return {"out": np.concatenate([upstream * opened, upstream * value * opened * closed], axis=dim)}


def composite(inputs: Inputs, dim: int = -1, dtype: str = "bfloat16") -> Outputs:
    """Return `out` as the chain of library kernels makes it, every kernel rounding its result to the dtype once.

    Products that lack the fused kernel run sigmoid, mul, mul, sub, mul. A float32 sigmoid may fall on the other side
    of a rounding tie than this float64 one; all later steps are exact before they are rounded.
    """
    value, gate = halves(inputs["self"], dim)
    opened = rounded(logistic(gate)[0], dtype)
    value_grad = rounded(widened(inputs["gradOut"]) * opened, dtype)
    slope = rounded(value - rounded(value * opened, dtype), dtype)
    return {"out": np.concatenate([value_grad, rounded(value_grad * slope, dtype)], axis=dim)}


def tolerance_scale(inputs: Inputs, dim: int = -1) -> Outputs:
    """Return for each element of `out` the magnitude that its absolute tolerance is relative to.

    That is |gradOut| in the first half and |gradOut * a| in the second, where a - a*s(b) cancels.
    """
    value, _ = halves(inputs["self"], dim)
    upstream = np.abs(widened(inputs["gradOut"]))
    return {"out": np.concatenate([upstream, upstream * np.abs(value)], axis=dim)}


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return the output of `backward` along the axis of a call."""
    return backward(inputs, call.attributes["dim"])


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the output of a plan is from `values`, within tolerance; the chain in bfloat16 equals `composite`.

    exp overflows in float32 where the sigmoid is subnormal, so that the chain is 0 there.
    """
    dim, dtype = plan.call.attributes["dim"], plan.call.dtype
    if plan.route == "composite" and dtype == "bfloat16":
        np.testing.assert_allclose(widened(outputs["out"]), composite(inputs, dim)["out"], rtol=0, atol=1e-36)
        return []
    return assert_glu(outputs, values, tolerance_scale(inputs, dim), dtype)


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
