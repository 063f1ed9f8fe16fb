"""The logistic function, 1 / (1 + e^-x)."""

from __future__ import annotations

from tilesim.kernels import Kernel, composites, flat_tiles, pointwise
from tilesim.operators import Arrays, Numbers, logistic


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("sigmoid") as p:
        for t in flat_tiles(k, p):
            t.store(composites.sigmoid(p, t.load("x"), out=t.room("y")), "y")


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The function in float64."""
    return {"y": logistic(given["x"])}


sigmoid = pointwise(
    "sigmoid",
    kernel,
    about="logistic function",
    inputs="x",
    reference=reference,
    kernel_names=("Sigmoid",),
    accuracy_class="elementwise",
)
