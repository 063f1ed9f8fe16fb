"""Reference of a sum with a quotient."""

from __future__ import annotations

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x1 + scalar * x2 / x3."""
    return {"y": widened(inputs["x1"]) + call.attributes["scalar"] * widened(inputs["x2"]) / widened(inputs["x3"])}
