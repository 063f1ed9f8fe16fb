"""Reference of the Gaussian error linear unit."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened

_erf = np.vectorize(math.erf, otypes=[np.float64])


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x * Phi(x) with the exact error function, or with its tanh form."""
    x = widened(inputs["x"])
    if call.options["approximate"]:
        return {"y": 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))}
    return {"y": 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))}
