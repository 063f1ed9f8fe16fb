"""Reference of the masked causal depthwise convolution over tokens, for any width W."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import AnyArray, Array, Inputs, Outputs, widened
from tests.reference.tolerance import Measurement, assert_masked_causal_conv1d


def masked(values: Array, inputs: Inputs) -> Array:
    """Return [S, B, H] values with the masked-out tokens set to zero; an absent mask keeps them all."""
    mask = inputs.get("mask")
    return values if mask is None else np.where(np.asarray(mask, dtype=bool).T[:, :, None], values, 0.0)


def forward(inputs: Inputs) -> Outputs:
    """Return `out` [S, B, H] from `x` [S, B, H], `weight` [W, H] and the optional `mask` [B, S]."""
    x, weight = widened(inputs["x"]), widened(inputs["weight"])
    tokens, width = x.shape[0], weight.shape[0]
    y = np.zeros_like(x)
    for tap in range(width):
        delay = min(width - 1 - tap, tokens)
        y[delay:] += weight[tap] * x[: tokens - delay]
    return {"out": masked(y, inputs)}


def magnitudes(inputs: Inputs) -> dict[str, AnyArray]:
    return {name: tensor if name == "mask" else np.abs(widened(tensor)) for name, tensor in inputs.items()}


def forward_terms(inputs: Inputs) -> Outputs:
    """Return the sum of the absolute values of the products that each element of `out` adds up."""
    return forward(magnitudes(inputs))


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `forward`."""
    return forward(inputs)


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within tolerance."""
    return assert_masked_causal_conv1d(outputs, values, forward_terms(inputs), plan.call.dtype)
