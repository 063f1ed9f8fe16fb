"""Reference of a maximum."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return `y`, the greater of x1 and x2, broadcast; integers up to 2**53 are exact."""
    return {"y": np.maximum(widened(inputs["x1"]), widened(inputs["x2"]))}
