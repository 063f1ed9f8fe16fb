"""x1 + scalar * x2 / x3. The result takes the place of x1 in the unified buffer, so that tiles follow one another."""

from __future__ import annotations

from tilesim.kernels import Kernel, attribute, flat_tiles, pointwise
from tilesim.operators import Arrays, Attribute, Numbers


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("addcdiv") as p:
        for t in flat_tiles(k, p, slots=1):
            raw = t.load("x1", widen=False)
            x1, x2, x3 = t.widened(raw, "x1"), t.load("x2"), t.load("x3")
            quotient = p.muls(p.div(x2, x3, out=x2), attribute("scalar"), out=x2)
            t.store(p.add(x1, quotient, out=x1), "y", out=raw)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": given["x1"] + numbers["scalar"] * given["x2"] / given["x3"]}


addcdiv = pointwise(
    "addcdiv",
    kernel,
    about="x1 + scalar * x2 / x3",
    inputs="x1 x2 x3",
    reference=reference,
    attributes=(Attribute("scalar", default=1.0),),
    kernel_names=("Addcdiv", "ForeachAddcdivScalar"),
    accuracy_class="elementwise",
)
