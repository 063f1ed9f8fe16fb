"""Reference of the gradient of Sinkhorn's normalisation, from what its forward saved."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import Array, Inputs, Outputs, widened
from tests.reference.mhc_sinkhorn import LANES, Split, split_of
from tests.reference.tolerance import Measurement, assert_absolute


def unpacked(norm: Array, sums: Array, n: int, iterations: int, tiles: Split) -> tuple[Array, Array]:
    """Return N [2K, T, n, n] and S [2K, T, n] from the flat tensors."""
    tokens = sum(count for _, count in tiles)
    values, totals = np.empty((2 * iterations, tokens, n, n)), np.empty((2 * iterations, tokens, n))
    for first, count in tiles:
        start = 2 * iterations * first * LANES
        for step in range(2 * iterations):
            at = start + step * count * LANES
            rows = norm[at * n : (at + count * LANES) * n].reshape(n, count, LANES)
            values[step, first : first + count] = rows[:, :, :n].swapaxes(0, 1)
            lanes = sums[at : at + count * LANES]
            by_column = step % 2
            part = lanes.reshape(count, LANES)[:, :n] if by_column else lanes[: n * count].reshape(n, count).T
            totals[step, first : first + count] = part
    return values, totals


def backward(grad: Array, values: Array, totals: Array) -> Array:
    """Return the gradient [T, n, n] of the input, from the last step to the first."""
    g = grad.reshape(-1, *grad.shape[-2:])
    for step in range(len(values) - 1, 0, -1):
        axis = 1 if step % 2 else 2
        inner = (g * values[step]).sum(axis=axis, keepdims=True)
        g = (g - inner) / np.expand_dims(totals[step], axis)
    return ((g - (g * values[0]).sum(axis=2, keepdims=True)) * values[0]).reshape(grad.shape)


def expected(_: Call, __: Inputs) -> Outputs:
    """Return nothing: the layout of what is saved is the plan's, so `compare` makes the values."""
    return {}


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, _: Outputs) -> list[Measurement]:
    """Return how far the gradient of a plan is from the reference, within tolerance."""
    grad, norm, sums = (widened(inputs[name]) for name in ("grad_y", "norm", "sum"))
    n = grad.shape[-1]
    iterations = norm.size // max(2 * LANES * grad.size // n, 1)
    saved = unpacked(norm, sums, n, iterations, split_of(plan))
    value = backward(grad, *saved) if grad.size else grad
    scale = max(1.0, np.abs(grad).max(initial=0.0) / 4)
    return assert_absolute(
        "mhc_sinkhorn_backward", outputs, {"grad_input": value}, {"grad_input": 4e-6 * scale + 2e-5 * np.abs(value)}
    )
