"""Reference of the backward of the masked causal depthwise convolution over tokens, for any width W."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import AnyArray, Inputs, Outputs, carried, widened
from tests.reference.masked_causal_conv1d import magnitudes, masked
from tests.reference.tolerance import Measurement, assert_masked_causal_conv1d


def backward(inputs: Inputs) -> Outputs:
    """Return `gradX` and `gradWeight` from `gradY`, `x`, `weight` and the optional `mask`."""
    x, weight = widened(inputs["x"]), widened(inputs["weight"])
    upstream = masked(widened(inputs["gradY"]), inputs)
    tokens, width = x.shape[0], weight.shape[0]
    grad_x, grad_weight = np.zeros_like(x), np.zeros_like(weight)
    for tap in range(width):
        delay = min(width - 1 - tap, tokens)
        grad_x[: tokens - delay] += upstream[delay:] * weight[tap]
        grad_weight[tap] = np.einsum("sbh,sbh->h", upstream[delay:], x[: tokens - delay])
    return {"gradX": grad_x, "gradWeight": grad_weight}


def backward_terms(inputs: Inputs) -> Outputs:
    """Return the sum of the absolute values of the products that each element of `gradX`, `gradWeight` adds up."""
    return backward(magnitudes(inputs))


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `backward`."""
    return backward(inputs)


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within tolerance."""
    return assert_masked_causal_conv1d(outputs, values, backward_terms(inputs), plan.call.dtype)


def random_inputs(
    dims: Mapping[str, int], dtype: str = "bfloat16", *, mask: bool = True, seed: int = 0
) -> dict[str, AnyArray]:
    """Return `gradY`, `x`, `weight` and `mask` for dims S, B, H and W (3 if absent), rounded to the dtype."""
    rng = np.random.default_rng(seed)
    tokens, batch, features = dims["S"], dims["B"], dims["H"]
    inputs: dict[str, AnyArray] = {
        "gradY": carried(rng.standard_normal((tokens, batch, features)), dtype),
        "x": carried(rng.standard_normal((tokens, batch, features)), dtype),
        "weight": carried(rng.standard_normal((dims.get("W", 3), features)) * 0.5, dtype),
    }
    if mask:
        inputs["mask"] = rng.random((batch, tokens)) < 0.75
    return inputs
