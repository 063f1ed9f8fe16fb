"""Reference of the quantisation of rows to int8."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import Inputs, Outputs, widened
from tests.reference.tolerance import Measurement, assert_dynamic_quant


def expected(_: Call, inputs: Inputs) -> Outputs:
    """Return `y` = round(x / scale), ties to even, in -127..127, and `scale` = max|x| / 127 of each row.

    A row of zeros has scale 0 and stays zero.
    """
    x = widened(inputs["x"])
    scale = np.max(np.abs(x), axis=-1) / 127.0
    divisor = np.where(scale == 0, 1.0, scale)[..., None]
    return {"y": np.rint(x / divisor), "scale": scale}


def compare(_: Plan, inputs: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within tolerance."""
    return assert_dynamic_quant(outputs, values, inputs["x"])
