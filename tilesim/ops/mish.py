"""x * tanh(ln(1 + e^x)), with the logarithm taken so that small powers keep their digits.

The cap of the tile is inferred from the times of the vendor's kernel.
"""

from __future__ import annotations

import numpy as np

from tilesim.kernels import ElementTile, Kernel, Value, flat_tiles, pointwise
from tilesim.operators import Arrays, Numbers

MOST_ELEMENTS = 2048


def softplus(t: ElementTile, x: Value) -> Value:
    """ln(1 + e^x) = max(x, 0) + log1p(u) with u = e^-|x|; log1p(u) = ln(w) * u / (w - 1) with w = 1 + u."""
    p = t.phase
    small, log, work = t.buffer("power"), t.buffer("log"), t.buffer("rest")
    u = p.exp(p.muls(p.abs(x, out=small), -1.0, out=small), out=small)
    w = p.adds(u, 1.0, out=work)
    ln = p.ln(w, out=log)
    above = p.adds(w, -1.0, out=work)
    corrected = p.div(p.mul(ln, u, out=log), above, out=log)
    log1p = p.select(above, corrected, u, out=log)
    return p.add(log1p, p.maxs(x, 0.0, out=work), out=log)


def tanh(t: ElementTile, x: Value) -> Value:
    """1 - 2 / (1 + e^2x), for x that is not negative; 2x is kept where e^2x is finite."""
    p, y = t.phase, x
    e = p.exp(p.muls(p.mins(y, 40.0, out=y), 2.0, out=y), out=y)
    inverse = p.rec(p.adds(e, 1.0, out=y), out=y)
    return p.adds(p.muls(inverse, -2.0, out=y), 1.0, out=y)


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("mish") as p:
        for t in flat_tiles(k, p, cap=MOST_ELEMENTS, cap_reason="cap of the vendor's kernel"):
            x = t.load("x")
            t.store(p.mul(x, tanh(t, softplus(t, x)), out=t.room("y")), "y")


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The function in float64."""
    return {"y": given["x"] * np.tanh(np.logaddexp(0.0, given["x"]))}


mish = pointwise(
    "mish",
    kernel,
    about="mish activation",
    inputs="x",
    reference=reference,
    kernel_names=("Mish",),
    accuracy_class="elementwise",
)
