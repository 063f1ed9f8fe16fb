"""The logistic function, 1 / (1 + e^-x)."""

from __future__ import annotations

from tilesim import functions
from tilesim.pointwise import flat_tiles, pointwise
from tilesim.program import Kernel


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("sigmoid") as p:
        for t in flat_tiles(k, p):
            t.store(functions.sigmoid(p, t.load("x"), out=t.room("y")), "y")


sigmoid = pointwise("sigmoid", kernel, about="logistic function", inputs="x")
