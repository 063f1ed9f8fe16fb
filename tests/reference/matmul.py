"""Reference of a matrix product."""

from __future__ import annotations

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x1 @ x2."""
    return {"y": widened(inputs["x1"]) @ widened(inputs["x2"])}
