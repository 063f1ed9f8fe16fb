"""The gated unit x0 * sigmoid(x0) * x1 of the two halves of `x` along one axis."""

from __future__ import annotations

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import FAMILIES, WHOLE, Kernel, Parts, Range, grid_tiles, itemsize, load_as
from tilesim.operators import (
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    Operator,
    axis_even,
    axis_exists,
    dtype_same,
    dtype_supported,
    logistic,
    not_null,
    rank,
    result,
    shape,
)
from tilesim.ops._axes import N, X, Y

ROW = N.size * Y.size
"""Elements of half a row."""


def variant(call: Call, chip: Chip) -> str | Parts:
    """Whole rows, or with fewer rows than cores parts of rows: enough for every core, each at most `copy_bytes`."""
    rows = max(call.dims.get("X", 0), 1)
    if rows >= chip.cores.vector:
        return WHOLE
    share = -(-call.dims.get("N", 1) * call.dims.get("Y", 1) // (chip.cores.vector // rows))
    copies = -(-share * itemsize(call.dtype) // chip.tiling.copy_bytes)
    return Parts(chip.cores.vector // rows * max(copies, 1))


def kernel(k: Kernel) -> None:
    """Record the phase."""
    x, y = k["x"].reshape(X.size, 2 * ROW), k["y"].reshape(X.size, ROW)
    with k.vector("swi_glu") as p:
        for n, c in grid_tiles(k, p, X.size, ROW):
            gate = load_as(p, x[n, c], "float32", name="gate")
            value = p.load(x[n, Range(c.start + ROW, c.size)], name="valueIn")
            work = p.buffer("work", (n.size, c.size))
            e = p.adds(p.exp(p.muls(gate, -1.0, out=work), out=work), 1.0, out=work)
            silu = p.div(gate, e, out=work)
            out = p.buffer("yOut", (n.size, c.size), k.dtype, slots=2)
            if k.dtype == "float32":
                p.store(p.mul(silu, value, out=out), y[n, c])
            else:
                product = p.mul(silu, p.cast(value, out=gate), out=work)
                p.store(p.cast(product, out=out), y[n, c])


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The unit in float64."""
    first, second = np.split(given["x"], 2, axis=int(numbers["dim"]))
    return {"y": first * logistic(first) * second}


swi_glu = Operator(
    name="swi_glu",
    api="aclnnSwiGlu",
    about="gated unit with silu",
    dims=(X, N, Y),
    tensors=(Argument("x", "*X 2*N *Y", alias="self"), result("y", "*X N *Y", alias="out")),
    lead="x",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=FAMILIES,
    dtype="float32",
    rules=(
        *not_null("x", "y"),
        dtype_supported("x"),
        dtype_same("y", "x"),
        rank("x", 1, 8),
        axis_exists("dim", "x"),
        axis_even("dim", "x", ""),
        shape("y"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variant,
    kernel_names=("SwiGlu",),
    accuracy_class="glu",
)
