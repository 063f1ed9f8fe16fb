"""Reference of the gated linear unit, y = a * s(b), along any axis of any rank."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import AnyArray, Array, Inputs, Outputs, widened
from tests.reference.logistic import logistic
from tests.reference.tolerance import Measurement, assert_glu


def halves(values: AnyArray, dim: int) -> tuple[Array, Array]:
    first, second = np.split(widened(values), 2, axis=dim)
    return first, second


def forward(inputs: Inputs, dim: int = -1) -> Outputs:
    """Return `out` [*1, N/2, *2] from `self` [*1, N, *2]."""
    value, gate = halves(inputs["self"], dim)
    return {"out": value * logistic(gate)[0]}


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return the output of `forward` along the axis of a call."""
    return forward(inputs, call.attributes["dim"])


def compare(plan: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the output of a plan is from `values`, within tolerance relative to the gated half."""
    value, _ = halves(inputs["self"], plan.call.attributes["dim"])
    return assert_glu(outputs, values, {"out": np.abs(value)}, plan.call.dtype)
