"""Reference of the gated linear unit with a swish."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.logistic import logistic


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x0 * s(x0) * x1 of the two halves of `x` along dim."""
    first, second = np.split(widened(inputs["x"]), 2, axis=call.attributes["dim"])
    return {"y": first * logistic(first)[0] * second}
