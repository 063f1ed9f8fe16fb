"""Reference of a power with a scale and a shift."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `y` = base ** (scale*x + shift); a base that is not positive stands for e."""
    base = call.attributes["base"]
    power = call.attributes["scale"] * widened(inputs["x"]) + call.attributes["shift"]
    return {"y": np.exp(power) if base <= 0 else np.power(float(base), power)}
