"""Reference of the logistic function."""

from __future__ import annotations

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.logistic import logistic


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return `y` = 1 / (1 + e**-x)."""
    return {"y": logistic(widened(inputs["x"]))[0]}
