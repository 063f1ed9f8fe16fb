"""Reference of Sinkhorn's normalisation, and of the layout of what it saves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import Array, Inputs, Outputs, widened
from tests.reference.tolerance import Measurement, assert_absolute

LANES = 8
Split = list[tuple[int, int]]
"""(first token, tokens) of every tile, core by core."""


def steps(x: Array, eps: float, iterations: int) -> Iterator[tuple[Array, Array]]:
    """Yield N [T, n, n] and S [T, n] of every step; S of step 0 is NaN."""
    eps = float(np.float32(eps))
    matrices = x.reshape(-1, *x.shape[-2:])
    shifted = np.exp(matrices - matrices.max(axis=2)[:, :, None])
    values = shifted / shifted.sum(axis=2)[:, :, None]
    yield values, np.full(values.shape[:2], np.nan)
    values = values + eps
    for step in range(1, 2 * iterations):
        if step % 2:
            sums = values.sum(axis=1) + eps
            values = values / sums[:, None, :]
        else:
            sums = values.sum(axis=2) + eps
            values = values / sums[:, :, None]
        yield values, sums


def split(tokens: int, cores: int, tile: int) -> Split:
    """Return the tiles of `tokens` shared out in equal blocks over cores."""
    each = -(-tokens // cores)
    blocks = [(start, min(start + each, tokens)) for start in range(0, tokens, each)] if tokens else []
    return [(at, min(tile, end - at)) for start, end in blocks for at in range(start, end, tile)]


def packed(x: Array, eps: float, iterations: int, tiles: Split) -> Outputs:
    """Return `norm_out` and `sum_out`, flat; NaN in padding and where nothing is written."""
    tokens, n = int(np.prod(x.shape[:-2])), x.shape[-1]
    every = list(steps(x, eps, iterations))
    norm_out, sum_out = [], []
    for first, count in tiles:
        for step, (values, sums) in enumerate(every):
            rows = np.full((n, count, LANES), np.nan)
            rows[:, :, :n] = values[first : first + count].swapaxes(0, 1)
            norm_out.append(rows.ravel())
            lanes = np.full((count, LANES), np.nan)
            if step % 2:
                lanes[:, :n] = sums[first : first + count]
            else:
                lanes.ravel()[: n * count] = sums[first : first + count].T.ravel()
            sum_out.append(lanes.ravel())
    norm, total = (np.concatenate(parts) if parts else np.zeros(0) for parts in (norm_out, sum_out))
    assert (norm.size, total.size) == (16 * iterations * tokens * n, 16 * iterations * tokens)
    return {"norm_out": norm, "sum_out": total}


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y`."""
    x = widened(inputs["x"])
    *_, (y, _) = steps(x, call.attributes["eps"], call.attributes["num_iters"])
    return {"y": y.reshape(x.shape)}


def split_of(plan: Plan) -> Split:
    """Return the tiles of a plan."""
    return split(plan.call.dims["T"], plan.phases[0].cores, plan.phases[0].tiles["tokens"]) if plan.phases else []


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values` and from what it saves, all within tolerance."""
    attributes = plan.call.attributes
    if "norm_out" in outputs:
        values = values | packed(widened(inputs["x"]), attributes["eps"], attributes["num_iters"], split_of(plan))
    allowed = {n: np.full_like(v, 4e-6) if n == "sum_out" else 2e-6 + 2e-5 * np.abs(v) for n, v in values.items()}
    return assert_absolute("mhc_sinkhorn", outputs, values, allowed)
