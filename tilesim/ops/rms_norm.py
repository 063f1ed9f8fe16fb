"""x * gamma / sqrt(mean(x^2) + epsilon) over the last axis, and the reciprocal root of every row in float32."""

from __future__ import annotations

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    EMPTY,
    FAMILIES,
    LONG,
    Kernel,
    Phase,
    Target,
    Value,
    attribute,
    column_tiles,
    dim,
    itemsize,
    load_as,
    row_tiles,
    row_variants,
)
from tilesim.operators import (
    Argument,
    Arrays,
    Attribute,
    Call,
    Dimension,
    KernelCall,
    KernelRow,
    Numbers,
    Operator,
    Unmapped,
    call_of_shapes,
    dtype_same,
    dtype_supported,
    in_range,
    not_null,
    result,
    shape,
)

X, D = Dimension("X", least=0), Dimension("D")
ROWS, ROW = dim("X"), dim("D")
SLOTS = {(False, 4): 1, (False, 2): 2, (True, 4): 2, (True, 2): 2}
"""Tiles in flight by (vector registers or none, bytes of an element), from the times of the vendor's kernel."""


def variants(call: Call, _: Chip) -> tuple[str, ...]:
    """Whole rows, then long ones; EMPTY without rows."""
    return row_variants(call.dtype, call.dims.get("D", 1)) if call.dims.get("X", 1) else (EMPTY,)


def reciprocal_root(p: Phase, squares: Value, out: Target) -> Value:
    """1 / sqrt(sum / D + epsilon) of the sums of squares of rows."""
    mean = p.adds(p.muls(squares, 1 / ROW, out=out), attribute("epsilon"), out=out)
    return p.rec(p.sqrt(mean, out=out), out=out)


def kernel(k: Kernel) -> None:
    """Record the phase; nothing is launched without rows."""
    if k.variant == EMPTY:
        k.route = EMPTY
        return
    if k.variant == LONG:
        long_rows(k)
        return
    with k.vector("rms_norm", "keeps whole rows") as p:
        gamma = load_as(p, k["gamma"], "float32", name="gamma", slots=1)
        slots = SLOTS[k.registers > 0, itemsize(k.dtype)]
        for t in row_tiles(k, p, ROWS, ROW, slots=slots):
            x = t.load("x")
            y = t.room("y") if k.dtype == "float32" else x
            sums = p.buffer("rstd", t.shape[0], slots=2)
            squares = t.buffer("square")
            rstd = reciprocal_root(p, p.row_sum(p.mul(x, x, out=squares), out=sums), sums)
            p.store(rstd, t.of_row(k["rstd"]))
            spread = p.broadcast(rstd, out=squares)
            scaled = p.mul(x, spread, out=y)
            out = p.mul(scaled, p.move(gamma.over(t.shape[0]), out=squares), out=y)
            t.store(out, "y")


def long_rows(k: Kernel) -> None:
    """Record two passes over every row, for rows that do not fit."""
    x, y, rstd = k["x"].reshape(ROWS, ROW), k["y"].reshape(ROWS, ROW), k["rstd"].reshape(ROWS)
    with k.vector("rms_norm", "two passes over rows that do not fit") as p:
        for n in p.loop("row", ROWS, split="block"):
            total = p.buffer("total", 1)
            sums = p.fill(0.0, out=total)
            for c in column_tiles(k, p, ROW, carry=(total,)):
                part = load_as(p, x[n.start, c], "float32", name="first")
                square = p.mul(part, part, out=p.buffer("square", c.size))
                sums = p.add(sums, p.row_sum(square, out=p.buffer("part", 1)), out=total)
            root = reciprocal_root(p, sums, total)
            p.store(root, rstd[n])
            for c in column_tiles(k, p, ROW):
                part = load_as(p, x[n.start, c], "float32", name="second")
                scaled = p.muls(part, root[0], out=p.buffer("scaled", c.size))
                gamma = load_as(p, k["gamma"][c], "float32", name="gamma")
                out = p.mul(scaled, gamma, out=scaled)
                p.store(
                    out if k.dtype == "float32" else p.cast(out, dtype=k.dtype, name="yOut", slots=2), y[n.start, c]
                )


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """Both results in float64."""
    x = given["x"]
    root = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + numbers["epsilon"])
    return {"y": x * root * given["gamma"], "rstd": root}


def kernel_call(row: KernelRow) -> KernelCall:
    """Return the call of a measured kernel, whose gamma covers the last axis."""
    call = call_of_shapes(rms_norm, row)
    if len(row.inputs) > 1 and row.inputs[1] != row.inputs[0][-1:]:
        raise Unmapped(f"gamma {list(row.inputs[1])} covers more than the last axis of {list(row.inputs[0])}")
    return call


rms_norm = Operator(
    name="rms_norm",
    api="aclnnRmsNorm",
    about="normalisation by the root mean square",
    dims=(X, D),
    tensors=(
        Argument("x", "*X D"),
        Argument("gamma", "D"),
        result("y", "*X D", alias="yOut"),
        result("rstd", "*X 1", dtype="float32", alias="rstdOut"),
    ),
    lead="x",
    attributes=(Attribute("epsilon", default=1e-6),),
    dtypes=FAMILIES,
    dtype="float32",
    rules=(
        *not_null("x", "gamma", "y", "rstd"),
        dtype_supported("x"),
        dtype_same("gamma", "x"),
        dtype_same("y", "x"),
        in_range(D, "x"),
        shape("gamma"),
        shape("y"),
        shape("rstd"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variants,
    kernel_names=("RmsNorm",),
    accuracy_class="norm",
    kernel_call=kernel_call,
)
