"""Reference of the mish activation."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x * tanh(log(1 + e**x))."""
    x = widened(inputs["x"])
    return {"y": x * np.tanh(np.logaddexp(0.0, x))}
