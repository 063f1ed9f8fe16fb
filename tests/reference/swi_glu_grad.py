"""Reference of the gradient of the linear unit gated with a swish, and how far a kernel may be from it."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.glu import halves
from tests.reference.logistic import logistic


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `xGrad`, by the derivatives of x0 * s(x0) * x1 along dim."""
    gate, value = halves(inputs["x"], call.attributes["dim"])
    upstream = widened(inputs["yGrad"])
    s, rest = logistic(gate)
    first, second = upstream * value * s * (1 + gate * rest), upstream * gate * s
    return {"xGrad": np.concatenate([first, second], axis=call.attributes["dim"] % inputs["x"].ndim)}
