"""Reference of the gradients of the mixing of channels after a layer of a manifold hyper-connection."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.mhc_post import TERMS, magnitudes
from tests.reference.tolerance import Measurement, assert_terms


def backward(inputs: Inputs) -> Outputs:
    """Return the four gradients; `grad_h_res` by the same formula without `h_res`, where `grad_x` is `grad_y`."""
    g, x, h_out, h_post = (widened(inputs[name]) for name in ("grad_y", "x", "h_out", "h_post"))
    n = g.shape[-2]
    grad_x = g.copy()
    if inputs.get("h_res") is not None:
        h_res = widened(inputs["h_res"])
        grad_x = np.stack([(h_res[..., j, :, None] * g).sum(axis=-2) for j in range(n)], axis=-2)
    return {
        "grad_x": grad_x,
        "grad_h_res": np.stack([(x[..., j, None, :] * g).sum(axis=-1) for j in range(n)], axis=-2),
        "grad_h_out": (h_post[..., None] * g).sum(axis=-2),
        "grad_h_post": (h_out[..., None, :] * g).sum(axis=-1),
    }


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `backward`."""
    return backward(inputs)


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within the documented tolerance."""
    narrow = plan.call.dtype
    dtypes = {"grad_x": narrow, "grad_h_res": "float32", "grad_h_out": narrow, "grad_h_post": "float32"}
    terms = backward(magnitudes(inputs))
    return assert_terms("mhc_post_backward", outputs, values, terms, dtypes, TERMS)
