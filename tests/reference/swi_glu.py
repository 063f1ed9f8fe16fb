"""Reference of the gated linear unit with a swish."""

from __future__ import annotations

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs
from tests.reference.glu import halves
from tests.reference.logistic import logistic


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x0 * s(x0) * x1 of the two halves of `x` along dim."""
    gate, value = halves(inputs["x"], call.attributes["dim"])
    return {"y": gate * logistic(gate)[0] * value}
