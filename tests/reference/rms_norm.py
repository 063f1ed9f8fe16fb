"""Reference of the norm by the root of the mean square."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = x * gamma * rstd over the last axis, and `rstd`, one value a row with an axis of size 1."""
    x = widened(inputs["x"])
    rstd = 1.0 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + call.attributes["epsilon"])
    return {"y": x * rstd * widened(inputs["gamma"]), "rstd": rstd}
