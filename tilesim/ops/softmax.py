"""e^(x - max) / sum along one axis, default the last.

Along the last axis a tile is whole rows. Along another it is columns of all rows of the axis, computed in place and
read twice if they do not fit; a vector then holds one row of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    FAMILIES,
    LONG,
    Buffer,
    Kernel,
    Phase,
    Value,
    ceil_div,
    column_tiles,
    load_as,
    row_tiles,
    row_variants,
)
from tilesim.kernels.broadcast import SHORT_BURSTS
from tilesim.kernels.elementwise import copy_elements
from tilesim.operators import (
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    Operator,
    axis_exists,
    dtype_same,
    dtype_supported,
    in_range,
    not_null,
    rank,
    result,
    shape,
)
from tilesim.ops._axes import N, X, Y

ROWS, AXIS, INNER = X.size, N.size, Y.size
LEAST_COLUMNS = 16
"""Least columns of a tile along another axis than the last: a block of 16-bit elements."""

SLOTS = 2
"""Tiles in flight along another axis than the last; tiles of the whole axis overlap only if a core has that many."""


@dataclass(frozen=True)
class Columns:
    """The variant for another axis than the last: tiles of `number` columns.

    With `once` a tile has all of the axis, else parts of it in two passes. With `by_rows` cores share the axes before
    it, else the columns.
    """

    number: int
    by_rows: bool
    once: bool = False


def variants(call: Call, chip: Chip) -> tuple[Hashable, ...]:
    """Whole rows, then long ones; of another axis than the last all of it at once, then in two passes."""
    x, n, y = (call.dims.get(name, 1) for name in ("X", "N", "Y"))
    if y <= 1:
        return row_variants(call.dtype, n)
    cores = chip.cores.vector
    block = -(-math.ceil(y / cores) // LEAST_COLUMNS) * LEAST_COLUMNS
    by_rows = -(-x // cores) * y <= SHORT_BURSTS * x * min(y, block)
    share = -(-math.ceil(y if by_rows else y / cores) // LEAST_COLUMNS) * LEAST_COLUMNS
    columns = max(1, min(y, chip.tiling.axis_columns, share))
    twice = Columns(columns, by_rows)
    return (replace(twice, once=True), twice) if -(-y // columns) * x >= SLOTS * cores else (twice,)


def kernel(k: Kernel) -> None:
    """Record the phase."""
    if isinstance(k.variant, Columns):
        along_axis(k, k.variant)
    elif k.variant == LONG:
        long_rows(k)
    else:
        whole_rows(k)


def whole_rows(k: Kernel) -> None:
    """Record rows that fit."""
    with k.vector("softmax", "keeps whole rows") as p:
        for t in row_tiles(k, p, ROWS, AXIS):
            x, y = t.load("x"), t.room("y")
            p.buffer("scratch", t.shape, reserved=True)
            largest, total = p.buffer("largest", t.shape[0]), p.buffer("total", t.shape[0])
            e = p.exp(p.sub_rows(x, p.row_max(x, out=largest), out=y), out=y)
            t.store(p.div_rows(e, p.row_sum(e, out=total), out=y), "y")


def long_rows(k: Kernel) -> None:
    """Record three passes over every row, for rows that do not fit."""
    x, y = k["x"].reshape(ROWS, AXIS), k["y"].reshape(ROWS, AXIS)
    with k.vector("softmax", "three passes over rows that do not fit") as p:
        for n in p.loop("row", ROWS, split="block"):
            largest, total = p.buffer("largest", 1), p.buffer("total", 1)
            most = p.fill(-math.inf, out=largest)
            for c in column_tiles(k, p, AXIS, carry=(largest,)):
                part = load_as(p, x[n.start, c], "float32", name="first")
                most = p.maximum(most, p.row_max(part, out=p.buffer("partMax", 1)), out=largest)
            negated = p.muls(most, -1.0, out=largest)
            powers = p.fill(0.0, out=total)
            for c in column_tiles(k, p, AXIS, carry=(total,)):
                part = load_as(p, x[n.start, c], "float32", name="second")
                e = p.buffer("power", c.size)
                power = p.exp(p.adds(part, negated[0], out=e), out=e)
                powers = p.add(powers, p.row_sum(power, out=p.buffer("partSum", 1)), out=total)
            inverse = p.rec(powers, out=total)
            for c in column_tiles(k, p, AXIS):
                part = load_as(p, x[n.start, c], "float32", name="third")
                e = p.buffer("share", c.size)
                share = p.muls(p.exp(p.adds(part, negated[0], out=e), out=e), inverse[0], out=e)
                p.store(rounded(k, p, share), y[n.start, c])


def rounded(k: Kernel, p: Phase, value: Value) -> Value:
    """Return the value in the dtype of the result, in a buffer of two slots."""
    if k.dtype == "float32":
        return p.move(value, name="yOut", slots=2)
    return p.cast(value, dtype=k.dtype, name="yOut", slots=2)


def along_axis(k: Kernel, variant: Columns) -> None:
    """Record tiles of columns: of all of the axis, or of parts of it in two passes."""
    columns, once, by_rows = variant.number, variant.once, variant.by_rows
    x, y = k["x"].reshape(ROWS, AXIS, INNER), k["y"].reshape(ROWS, AXIS, INNER)
    with k.vector("softmax", "all of the axis" if once else "two passes over the axis") as p:
        depth = AXIS if once else p.tile("depth", ceil_div(copy_elements(k.dtype), columns))
        for x_row in p.loop("row", ROWS, split="block" if by_rows else ""):
            for c in p.loop("column", INNER, columns, split="" if by_rows else "block", unit=columns):
                largest, total = p.buffer("largest", c.size), p.buffer("total", c.size)
                p.fill(-math.inf, out=largest)
                p.fill(0.0, out=total)
                for d in p.loop("d", AXIS, depth, carry=(largest, total)):
                    raw = p.load(x[x_row.start, d, c], name="first", slots=SLOTS)
                    first = raw if k.dtype == "float32" else p.cast(raw, dtype="float32", name="power")
                    accumulate(p, first, largest, total, restart=not once)
                    if once:
                        share = p.div(p.read(first.buffer), p.read(total).over(d.size), out=first.buffer)
                        p.store(share if k.dtype == "float32" else p.cast(share, out=raw), y[x_row.start, d, c])
                if once:
                    continue
                for d in p.loop("e", AXIS, depth):
                    second = load_as(p, x[x_row.start, d, c], "float32", name="second")
                    work = p.buffer("share", (d.size, c.size))
                    power2 = p.exp(p.sub(second, p.read(largest).over(d.size), out=work), out=work)
                    share = p.div(power2, p.read(total).over(d.size), out=work)
                    p.store(rounded(k, p, share), y[x_row.start, d, c])


def accumulate(p: Phase, x: Value, largest: Buffer, total: Buffer, *, restart: bool) -> None:
    """Take the rows of `x` into the largest elements and the sums of powers so far; `x` becomes e^(x - largest)."""
    rows, power = x.shape[0], x.buffer
    before = p.move(p.read(largest), out=p.buffer("before", largest.shape)) if restart else None
    for r in p.loop("r", rows, carry=(largest,)):
        p.maximum(p.read(largest), x[r.start], out=largest)
    if before is not None:
        change = p.exp(p.sub(before, p.read(largest), out=before), out=before)
        p.mul(p.read(total), change, out=total)
    p.exp(p.sub(x, p.read(largest).over(rows), out=power), out=power)
    for r in p.loop("s", rows, carry=(total,)):
        p.add(p.read(total), p.read(power[r.start]), out=total)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The softmax in float64."""
    axis = int(numbers["dim"])
    power = np.exp(given["x"] - given["x"].max(axis=axis, keepdims=True))
    return {"y": power / power.sum(axis=axis, keepdims=True)}


softmax = Operator(
    name="softmax",
    api="aclnnSoftmax",
    about="softmax along one axis",
    dims=(X, N, Y),
    tensors=(Argument("x", "*X N *Y", alias="self"), result("y", "*X N *Y", alias="out")),
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
        in_range(N, "x"),
        shape("y"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variants,
    kernel_names=("Softmax", "SoftmaxV2"),
    accuracy_class="softmax",
)
