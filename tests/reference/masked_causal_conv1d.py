"""Reference of the masked causal depthwise convolution over tokens, and of its backward, for any width W."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.formats import AnyArray, Array, carried, widened


def _masked(values: Array, inputs: Mapping[str, AnyArray]) -> Array:
    """Return [S, B, H] values with the masked-out tokens set to zero; an absent mask keeps them all."""
    mask = inputs.get("mask")
    return values if mask is None else np.where(np.asarray(mask, dtype=bool).T[:, :, None], values, 0.0)


def forward(inputs: Mapping[str, AnyArray]) -> dict[str, Array]:
    """Return `y` [S, B, H] from `x` [S, B, H], `weight` [W, H] and the optional `mask` [B, S]."""
    x, weight = widened(inputs["x"]), widened(inputs["weight"])
    tokens, width = x.shape[0], weight.shape[0]
    y = np.zeros_like(x)
    for tap in range(width):
        delay = min(width - 1 - tap, tokens)
        y[delay:] += weight[tap] * x[: tokens - delay]
    return {"y": _masked(y, inputs)}


def backward(inputs: Mapping[str, AnyArray]) -> dict[str, Array]:
    """Return `gradX` and `gradWeight` from `gradY`, `x`, `weight` and the optional `mask`."""
    x, weight = widened(inputs["x"]), widened(inputs["weight"])
    upstream = _masked(widened(inputs["gradY"]), inputs)
    tokens, width = x.shape[0], weight.shape[0]
    grad_x, grad_weight = np.zeros_like(x), np.zeros_like(weight)
    for tap in range(width):
        delay = min(width - 1 - tap, tokens)
        grad_x[: tokens - delay] += upstream[delay:] * weight[tap]
        grad_weight[tap] = np.einsum("sbh,sbh->h", upstream[delay:], x[: tokens - delay])
    return {"gradX": grad_x, "gradWeight": grad_weight}


def _magnitudes(inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name: tensor if name == "mask" else np.abs(widened(tensor)) for name, tensor in inputs.items()}


def forward_terms(inputs: Mapping[str, AnyArray]) -> dict[str, Array]:
    """Return the sum of the absolute values of the products that each element of `y` adds up."""
    return forward(_magnitudes(inputs))


def backward_terms(inputs: Mapping[str, AnyArray]) -> dict[str, Array]:
    """Return the sum of the absolute values of the products that each element of `gradX`, `gradWeight` adds up."""
    return backward(_magnitudes(inputs))


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
