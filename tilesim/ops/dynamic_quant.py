"""Rows as int8 and a float32 scale each: scale = max|x| / 127, y = round(x / scale). A row of zeros has scale 0."""

from __future__ import annotations

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    FAMILIES,
    LONG,
    WHOLE,
    Kernel,
    Phase,
    Range,
    Target,
    Value,
    column_tiles,
    dim,
    load_as,
    row_tiles,
)
from tilesim.operators import (
    Argument,
    Call,
    Dimension,
    KernelCall,
    KernelRow,
    Operator,
    call_of_shapes,
    dtype_is,
    dtype_supported,
    in_range,
    not_null,
    result,
    shape,
)

X, D = Dimension("X", least=0), Dimension("D")
ROWS, ROW = dim("X"), dim("D")
LEVELS = 127.0
TINY = 2.0**-126
"""Least divisor: it stands for the largest element of a row of zeros."""


def variants(_: Call, __: Chip) -> tuple[str, ...]:
    """Whole rows, then long ones; narrow rows are padded, because rows of int8 and of floats differ in pitch."""
    return WHOLE, LONG


def steps(p: Phase, largest: Value, scale: Target, inverse: Target) -> tuple[Value, Value]:
    """Return (scale, 1/scale) of rows from their largest absolute elements."""
    size = p.muls(largest, 1 / LEVELS, out=scale)
    return size, p.rec(p.maxs(size, TINY, out=inverse), out=inverse)


def kernel(k: Kernel) -> None:
    """Record the phase; every row is one instruction after another, as in the vendor's kernel."""
    if k.variant == LONG:
        long_rows(k)
        return
    with k.vector("dynamic_quant", "keeps whole rows") as p:
        for t in row_tiles(k, p, ROWS, ROW):
            rows = t.shape[0]
            raw = t.load("x", widen=False)
            wide, work = (None if k.dtype == "float32" else t.buffer("x32")), t.buffer("size")
            y, largest = t.buffer("yOut", "int8"), p.buffer("largest", rows)
            for r in p.loop("r", rows, carry=(largest, work) if wide is None else (largest, work, wide)):
                x = raw[r.start] if wide is None else p.cast(raw[r.start], out=wide[r.start])
                p.row_max(p.abs(x, out=work[r.start]), out=largest[Range(r.start, r.size)])
            scale = p.buffer("scaleOut", rows, slots=2)
            step, inverse = steps(p, p.read(largest), scale, p.buffer("inverse", rows))
            p.store(step, t.of_row(k["scale"]))
            source = raw if wide is None else p.read(wide)
            for r in p.loop("q", rows, carry=(work, y)):
                scaled = p.muls(source[r.start], inverse[r.start], out=work[r.start])
                p.cast(p.rint(scaled, out=work[r.start]), out=y[r.start])
            t.store(p.read(y), "y")


def long_rows(k: Kernel) -> None:
    """Record two passes over every row, for rows that do not fit."""
    x, y, scales = k["x"].reshape(ROWS, ROW), k["y"].reshape(ROWS, ROW), k["scale"].reshape(ROWS)
    with k.vector("dynamic_quant", "two passes over rows that do not fit") as p:
        for n in p.loop("row", ROWS, split="block"):
            largest = p.buffer("largest", 1)
            most = p.fill(0.0, out=largest)
            for c in column_tiles(k, p, ROW, carry=(largest,)):
                part = load_as(p, x[n.start, c], "float32", name="first")
                size = p.row_max(p.abs(part, out=p.buffer("size", c.size)), out=p.buffer("part", 1))
                most = p.maximum(most, size, out=largest)
            step, inverse = steps(p, most, p.buffer("scaleOut", 1, slots=2), p.buffer("inverse", 1))
            p.store(step, scales[n])
            for c in column_tiles(k, p, ROW):
                part = load_as(p, x[n.start, c], "float32", name="second")
                work = p.buffer("scaled", c.size)
                scaled = p.rint(p.muls(part, inverse[0], out=work), out=work)
                p.store(p.cast(scaled, out=p.buffer("yOut", c.size, "int8", slots=2)), y[n.start, c])


def kernel_call(row: KernelRow) -> KernelCall:
    """Return the call of a measured kernel; its optional second input, the smoothing factors, has the dtype of x."""
    return call_of_shapes(dynamic_quant, row, operands=2)


dynamic_quant = Operator(
    name="dynamic_quant",
    api="aclnnDynamicQuant",
    about="rows as int8 and a scale each",
    dims=(X, D),
    tensors=(
        Argument("x", "*X D"),
        result("y", "*X D", dtype="int8", alias="yOut"),
        result("scale", "*X", dtype="float32", alias="scaleOut"),
    ),
    lead="x",
    dtypes=FAMILIES,
    dtype="float16",
    rules=(
        *not_null("x", "y", "scale"),
        dtype_supported("x"),
        dtype_is("y", "int8"),
        dtype_is("scale", "float32"),
        in_range(D, "x"),
        shape("y"),
        shape("scale"),
    ),
    kernel=kernel,
    variant=variants,
    kernel_names=("DynamicQuant",),
    accuracy_class="quant",
    kernel_call=kernel_call,
)
