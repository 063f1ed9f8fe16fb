"""Reference of the mixing of channels after a layer of a manifold hyper-connection."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.tolerance import Measurement, assert_terms

TERMS = {"bfloat16": 16 * 2.0**-24, "float16": 16 * 2.0**-24, "float32": 8 * 2.0**-24}
"""What the sum may lose of its terms, by the dtype of the output; 16-bit outputs are rounded once beside it."""


def forward(inputs: Inputs) -> Outputs:
    """Return `y` [.., n, D]: y_i is h_post_i * h_out plus the sum of h_res_ji * x_j, or x_i without `h_res`."""
    x, h_out, h_post = (widened(inputs[name]) for name in ("x", "h_out", "h_post"))
    y = h_post[..., :, None] * h_out[..., None, :]
    if inputs.get("h_res") is None:
        return {"y": y + x}
    h_res = widened(inputs["h_res"])
    for i in range(x.shape[-2]):
        for j in range(x.shape[-2]):
            y[..., i, :] += h_res[..., j, i, None] * x[..., j, :]
    return {"y": y}


def magnitudes(inputs: Inputs) -> Outputs:
    """Return the absolute values of the inputs: of them, a sum of products is the sum of its absolute terms."""
    return {name: np.abs(widened(value)) for name, value in inputs.items() if value is not None}


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `forward`."""
    return forward(inputs)


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within the documented tolerance."""
    return assert_terms("mhc_post", outputs, values, forward(magnitudes(inputs)), {"y": plan.call.dtype}, TERMS)
