"""base^(scale*x + shift); a base that is not positive stands for e.

The scalars are spread over vectors first, as the vendor's fused kernel does.
"""

from __future__ import annotations

import math

import numpy as np

from tilesim.kernels import Kernel, attribute, flat_tiles, ln, pointwise
from tilesim.operators import Arrays, Attribute, Numbers


def _log_base(base: float) -> float:
    """ln(base), 1 for a base that is not positive."""
    return math.log(base) if base > 0 else 1.0


LOG_BASE = ln(attribute("base"), otherwise=1.0)


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("exp") as p:
        for t in flat_tiles(k, p):
            y, factor = t.room("y"), t.buffer("factor")
            power = p.mul(t.load("x"), p.fill(attribute("scale"), out=factor), out=y)
            power = p.add(power, p.fill(attribute("shift"), out=factor), out=y)
            power = p.mul(power, p.fill(LOG_BASE, out=factor), out=y)
            t.store(p.exp(power, out=y), "y")


ATTRIBUTES = (Attribute("base", default=-1.0), Attribute("scale", default=1.0), Attribute("shift", default=0.0))


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The function in float64."""
    power = numbers["scale"] * given["x"] + numbers["shift"]
    return {"y": np.exp(power * _log_base(numbers["base"]))}


exp = pointwise(
    "exp",
    kernel,
    about="exponential of a scaled input",
    inputs="x",
    attributes=ATTRIBUTES,
    reference=reference,
    kernel_names=("Exp",),
    accuracy_class="elementwise",
)
