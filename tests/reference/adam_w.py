"""Reference of a step of AdamW."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import Inputs, Outputs, widened


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return `varOut`, `mOut` and `vOut` after one step with decoupled decay.

    `step` counts from 1 for the bias correction.
    """
    number = call.attributes
    grad = -widened(inputs["grad"]) if call.options["maximize"] else widened(inputs["grad"])
    m = number["beta1"] * widened(inputs["m"]) + (1.0 - number["beta1"]) * grad
    v = number["beta2"] * widened(inputs["v"]) + (1.0 - number["beta2"]) * grad**2
    mean, square = m / (1.0 - number["beta1"] ** number["step"]), v / (1.0 - number["beta2"] ** number["step"])
    decayed = widened(inputs["var"]) * (1.0 - number["lr"] * number["weight_decay"])
    return {"varOut": decayed - number["lr"] * mean / (np.sqrt(square) + number["epsilon"]), "mOut": m, "vOut": v}
