"""Reference of the softmax."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y`, which sums to 1 along dim."""
    x, dim = widened(inputs["x"]), call.attributes["dim"]
    weight = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return {"y": weight / np.sum(weight, axis=dim, keepdims=True)}
