"""The gated linear unit: the first half of `self` along one axis times the sigmoid of the second.

Source: the vendor's document of aclnnGlu and its public host code (ops-nn, activation/sigmoid) for the order of the
checks. The result may have another dtype than `self` if `self` can be cast to it, as every float can.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, WHOLE, Kernel, Parts, Phase, View, load_as, sigmoid, store_as
from tilesim.kernels.elementwise import computed_in
from tilesim.operators import (
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    Operator,
    axis_even,
    axis_exists,
    dtype_supported,
    logistic,
    not_null,
    rank,
    result,
    shape,
    sizes_exist,
)
from tilesim.ops._axes import X, Y
from tilesim.ops.glu_backward import DTYPES, HALF, MOST_AXES, N, tolerance
from tilesim.program.units import LANES


def kernel(k: Kernel) -> None:
    """Record one phase: several rows at a time, or parts of rows that are too large; no phase without elements."""
    if k.variant == EMPTY:
        k.route = EMPTY
        return
    halves, out = k["self"].reshape(X.size, 2, HALF), k["out"].reshape(X.size, HALF)
    with k.vector("forward") as p:
        if isinstance(k.variant, Parts):
            for t in p.loop("block", HALF, p.tile("part", multiple_of=LANES), split="cyclic", rows=X.size):
                gated(p, halves[t.row, 0, t], halves[t.row, 1, t], out[t.row, t])
        else:
            for t in p.loop("row", X.size, p.tile("rows"), split=True):
                gated(p, halves[t, 0], halves[t, 1], out[t])


def gated(p: Phase, a_view: View, b_view: View, out: View) -> None:
    """Store a*s(b), computed in float32 or wider and rounded once."""
    a, b = (load_as(p, x, computed_in(x.dtype), name=name) for name, x in (("a", a_view), ("b", b_view)))
    gate = sigmoid(p, b, out=b)
    store_as(p, p.mul(a, gate, out=gate), out, name="out")


def variants(call: Call, _: Chip) -> tuple[Hashable, ...]:
    """Whole rows, then rows in parts; EMPTY without elements."""
    return (WHOLE, Parts()) if math.prod(call.dims.values()) else (EMPTY,)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The first half times the sigmoid of the second."""
    a, b = np.split(given["self"], 2, axis=int(numbers["dim"]))
    return {"out": a * logistic(b)}


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """|a|, which bounds the result."""
    return {"out": abs(np.split(given["self"], 2, axis=int(numbers["dim"]))[0])}


glu = Operator(
    name="glu",
    api="aclnnGlu",
    about="gated linear unit",
    dims=(X, N, Y),
    tensors=(Argument("self", "*X 2*N *Y"), result("out", "*X N *Y")),
    lead="self",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("self", "out"),
        dtype_supported("self", everywhere=True),
        dtype_supported("out", everywhere=True),
        rank("self", 0, MOST_AXES),
        rank("out", 0, MOST_AXES),
        rank("self", 1, MOST_AXES),
        sizes_exist("self"),
        axis_exists("dim", "self", tiling=(3, "dim-range")),
        axis_even("dim", "self", "self", tiling=(4, "odd-split")),
        shape("out"),
    ),
    kernel=kernel,
    variant=variants,
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
)
