"""Gradient of swi_glu: both halves of `x` along one axis, from that of x0 * sigmoid(x0) * x1.

Source: the vendor's public host code and kernel (ops-nn, activation/swi_glu_grad; activation/swi_glu for the tiling of
chips without vector registers). That tiling does not look at yGrad; here its shape is checked on every product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import REGISTERS, Buffer, Kernel, Phase, Range, Value, itemsize, one_minus
from tilesim.operators import (
    FAMILY,
    TILING_ERROR,
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    OfOperator,
    OneOf,
    Operator,
    Rule,
    Tolerance,
    VendorTiling,
    axis_even,
    axis_exists,
    dtype_same,
    dtype_supported,
    logistic,
    not_null,
    rank,
    result,
    shape,
    sizes_exist,
)
from tilesim.ops import _strips
from tilesim.ops._strips import (
    ROW,
    WORKSPACE_BYTES,
    N,
    Strips,
    X,
    Y,
    columns_of_inference,
    elements_exist,
    halves,
    parted,
    room,
    strip_tiles,
    tile_sizes,
)
from tilesim.ops.swi_glu import DTYPES
from tilesim.program.units import BLOCK_BYTES

LINE_BYTES = 512
"""Columns are shared out in lines of it, where there are vector registers."""
LEAST_ELEMENTS = 8192
"""Of a core, for which it is used."""
WIDE_BYTES = 1024
"""Half a row of at least so many is copied by itself; of fewer, whole rows are."""
BYTES_A_CORE = 32
"""Of workspace."""
QUEUE_BYTES = 256
"""What the bytes of a buffer are a multiple of."""
QUEUES = 10
"""Equal buffers of the kernel for wide rows: five of two slots."""
WORK_BUFFERS = 4
KEY, KEY_OF_DTYPE = 1000000, {"float16": 0, "float32": 10, "bfloat16": 20}


@dataclass(frozen=True)
class Blocks:
    """The variant of a grid of cores: parts of the rows by parts of a row; of `short` rows both halves are one copy."""

    rows: int
    columns: int
    short: bool


@functools.lru_cache(maxsize=1024)
def blocks_of(rows: int, row: int, item_bytes: int, cores: int) -> Blocks:
    """The grid that the vendor's tiling takes for `rows` half rows of `row` elements.

    An exact split over all cores, else the one whose last block is least below the others, then with fewest columns.
    """
    line = LINE_BYTES // item_bytes
    lines, short = -(-row // line), row * item_bytes < WIDE_BYTES
    wanted = max(min(cores, (rows * lines * line // LEAST_ELEMENTS) & 0xFFFFFFFF), 1)
    some = range(1, math.ceil(math.sqrt(wanted) + 1))
    grids = []
    for high in sorted({*some, *(wanted // part for part in some)}):
        wide = max(1, wanted // high)
        if high > rows or wide > lines or (short and wide > 1):
            continue
        block = (-(-rows // high), -(-lines // wide))
        rest = (rows % high, lines % wide)
        if high * wide == wanted and not any(rest):
            return Blocks(high, wide, short)
        last = (rows % block[0] if rest[0] else block[0]) * (lines % block[1] if rest[1] else block[1])
        if high * wide == wanted and not rest[1]:
            last = rows % block[0] * wide
        grids.append((block[0] * block[1] - (last if high * wide == wanted else 0), wide, high))
    return Blocks(*min(grids)[:0:-1], short) if grids else Blocks(1, 1, short)


def in_blocks(call: Call, chip: Chip) -> Blocks:
    """The grid for a call; one core where it has no elements."""
    dims = call.dims
    rows, row = dims.get("X", 0), dims.get("N", 0) * dims.get("Y", 0)
    return blocks_of(rows, row, itemsize(call.dtype), chip.cores.vector)


def variant(call: Call, chip: Chip) -> Strips | Blocks:
    """A grid of cores where there are vector registers, elsewhere tiles that are dealt to the cores."""
    return in_blocks(call, chip) if chip.vector.registers else _strips.variant(call, chip)


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """Rows and columns of a tile, as the vendor's tiling and kernel have them; those of the cores with most columns."""
    if not chip.vector.registers:
        return _strips.tiles(call, chip)
    grid, dims = in_blocks(call, chip), call.dims
    row, item = dims["N"] * dims["Y"], itemsize(call.dtype)
    queue = chip.memory.ub.visible_bytes // QUEUES // QUEUE_BYTES * QUEUE_BYTES
    columns = row - row // grid.columns * (grid.columns - 1)
    rows = dims["X"] - dims["X"] // grid.rows * (grid.rows - 1)
    if grid.short:
        half = queue // 2 // QUEUE_BYTES * QUEUE_BYTES
        return {"rows": max(min(half // (row * item), rows), 1)}
    pitch = -(-columns * item // BLOCK_BYTES) * BLOCK_BYTES
    return {"columns": min(columns, queue // item), "rows": max(min(queue // pitch, rows), 1)}


def kernel(k: Kernel) -> None:
    """Record the phase."""
    if isinstance(k.variant, Strips):
        in_strips(k, k.variant.slots)
    elif isinstance(k.variant, Blocks):
        (short_rows if k.variant.short else wide_rows)(k, k.variant)


def in_strips(k: Kernel, slots: int) -> None:
    """Tiles that are dealt to the cores, without vector registers; the gradient of x1 is stored first."""
    x, out = k["x"].reshape(X.size, 2 * ROW), k["xGrad"].reshape(X.size, 2 * ROW)
    upstream = k["yGrad"].reshape(X.size, ROW)
    with k.vector("swi_glu_grad") as p:
        full = tile_sizes(p)
        for t in strip_tiles(p, *full):
            size, second = (t.rows, t.size), Range(t.start + ROW, t.size)
            sources = {"gate": x[t.strip, t], "grad": upstream[t.strip, t], "value": x[t.strip, second]}
            gate, grad, value = (
                p.load(v, out=p.buffer(f"{n}In", size, k.dtype, slots=slots)) for n, v in sources.items()
            )
            outs = [p.buffer(n, size, k.dtype, slots=slots) for n in ("gateOut", "valueOut")]
            names = ("s", "work") if k.dtype == "float32" else ("gate", "grad", "value", "s", "work")
            planes = {n: p.buffer(n, size, allocated=room(*full, k.dtype)) for n in names}
            if k.dtype != "float32":
                gate, grad = p.cast(gate, out=planes["gate"]), p.cast(grad, out=planes["grad"])
            s, work = planes["s"], planes["work"]
            e = p.adds(p.exp(p.muls(gate, -1.0, out=s), out=s), 1.0, out=s)
            s_value = p.div(p.fill(1.0, out=work), e, out=s)
            if k.dtype == "float32":
                product = p.mul(p.mul(gate, s_value, out=outs[1]), grad, out=outs[1])
            else:
                product = p.cast(p.mul(p.mul(gate, s_value, out=work), grad, out=work), out=outs[1])
            p.store(product, out[t.strip, second])
            rest = one_minus(p, s_value, out=work)
            slope = p.mul(p.mul(rest, s_value, out=work), gate, out=work)
            slope = p.mul(p.add(slope, s_value, out=work), grad, out=work)
            if k.dtype == "float32":
                product = p.mul(slope, value, out=outs[0])
            else:
                product = p.cast(p.mul(slope, p.cast(value, out=planes["value"]), out=work), out=outs[0])
            p.store(product, out[t.strip, t])


def wide_rows(k: Kernel, grid: Blocks) -> None:
    """Half rows of 1024 bytes and more: each core has a part of the rows and of the columns, in two slots a buffer.

    The vendor's kernel gives the last column part of the second-last row part as many rows as the last one, which
    repeats values; here no row is computed twice.
    """
    x, out = k["x"].reshape(X.size, 2 * ROW), k["xGrad"].reshape(X.size, 2 * ROW)
    upstream = k["yGrad"].reshape(X.size, ROW)
    with k.vector("swi_glu_grad") as p:
        rows, columns = p.tile("rows"), p.tile("columns")
        for n in p.loop("row", X.size, rows, split="block_floor", shares=grid.rows):
            for c in p.loop("column", ROW, columns, split="block_floor", shares=grid.columns):
                second = Range(c.start + ROW, c.size)
                gate = p.load(x[n, c], name="gateIn")
                grad = p.load(upstream[n, c], name="gradIn")
                value = p.load(x[n, second], name="valueIn")
                for name, gradient, columns_out in zip(
                    ("gateOut", "valueOut"), gradients(p, gate, value, grad), (c, second), strict=True
                ):
                    stored = p.vst(gradient, out=p.buffer(name, (n.size, c.size), k.dtype, slots=2))
                    p.store(stored, out[n, columns_out])


def short_rows(k: Kernel, grid: Blocks) -> None:
    """Rows of which both halves are one copy; the kernel parts the halves in its work buffers, by an index."""
    x, out = k["x"].reshape(X.size, 2 * ROW), k["xGrad"].reshape(X.size, 2 * ROW)
    upstream = k["yGrad"].reshape(X.size, ROW)
    with k.vector("swi_glu_grad") as p:
        rows = p.tile("rows")
        for n in p.loop("row", X.size, rows, split="block_floor", shares=grid.rows):
            whole, half = (rows, 2 * ROW), (rows, ROW)
            both = p.load(x[n], out=p.buffer("xIn", (n.size, 2 * ROW), k.dtype, slots=2, allocated=whole))
            grad = p.load(upstream[n], out=p.buffer("gradIn", (n.size, ROW), k.dtype, slots=2, allocated=half))
            for i in range(WORK_BUFFERS):
                p.buffer(f"work{i}", (n.size, ROW), k.dtype, allocated=half, reserved=True)
            p.buffer("index", QUEUE_BYTES, "bool", reserved=True)
            result_out = p.buffer("xOut", (n.size, 2 * ROW), k.dtype, slots=2, allocated=whole)
            for i, gradient in enumerate(gradients(p, both[:, :ROW], both[:, ROW:], grad)):
                p.vst(gradient, out=result_out[:, i * ROW : (i + 1) * ROW])
            p.store(p.read(result_out), out[n])


def gradients(p: Phase, gate_in: Value, value_in: Value, grad_in: Value) -> tuple[Value, Value]:
    """grad*s*(1 + (1 - s)*gate)*value and grad*s*gate, in registers of float32, rounded to the dtype."""
    dtype, size = grad_in.dtype, grad_in.shape

    def register(name: str, of: str = "float32") -> Buffer:
        return p.buffer(name, size, of, space=REGISTERS)

    def widened(value: Value, name: str) -> Value:
        raw = p.vld(value, out=register(f"{name}Raw", dtype))
        return raw if dtype == "float32" else p.cast(raw, out=register(name))

    def narrowed(value: Value, name: str) -> Value:
        return value if dtype == "float32" else p.cast(value, out=register(name, dtype))

    gate, value, grad = (widened(v, n) for v, n in ((gate_in, "gate"), (value_in, "value"), (grad_in, "grad")))
    s = register("s")
    e = p.adds(p.exp(p.muls(gate, -1.0, out=s), out=s), 1.0, out=s)
    logistic_value = p.div(p.fill(1.0, out=register("ones")), e, out=s)
    scaled = p.mul(grad, logistic_value, out=register("scaled"))
    rest = register("rest")
    slope = p.adds(p.mul(one_minus(p, logistic_value, out=rest), gate, out=rest), 1.0, out=rest)
    first = p.mul(p.mul(scaled, slope, out=rest), value, out=rest)
    second = p.mul(scaled, gate, out=register("second"))
    return narrowed(first, "first16"), narrowed(second, "second16")


def tiling(call: Call, chip: Chip, _: Mapping[str, int]) -> VendorTiling:
    """The 14 fields of the vendor's tiling, 10 where there are vector registers."""
    if not chip.vector.registers:
        return _strips.tiling(call, chip)
    grid, rows, row = in_blocks(call, chip), call.dims["X"], call.dims["N"] * call.dims["Y"]
    high, wide, used = rows // grid.rows, row // grid.columns, grid.rows * grid.columns
    data = {
        "rowTotal": rows,
        "colTotal": row,
        "rowBase": high,
        "colBase": wide,
        "rowTail": rows - high * (grid.rows - 1),
        "colTail": row - wide * (grid.columns - 1),
        "ubSize": chip.memory.ub.visible_bytes,
        "rowTileNum": grid.rows,
        "colTileNum": grid.columns,
        "usedCoreNum": used,
    }
    key = KEY + KEY_OF_DTYPE[call.dtype] + (not grid.short)
    return VendorTiling(data, key, used, WORKSPACE_BYTES + BYTES_A_CORE * used)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """Both halves of the gradient, [yGrad*x1*(s + x0*s*(1 - s)), yGrad*x0*s]."""
    upstream, (a, b, axis) = given["yGrad"], parted(given["x"], numbers)
    s = logistic(a)
    return {"xGrad": np.concatenate([upstream * b * (s + a * s * logistic(-a)), upstream * a * s], axis=axis)}


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """What the sums of each half are made of: |yGrad*x1| and |yGrad*x0|."""
    upstream, (a, b, axis) = abs(given["yGrad"]), parted(abs(given["x"]), numbers)
    return {"xGrad": np.concatenate([upstream * b, upstream * a], axis=axis)}


def tolerance(_: str, k: Kernel) -> Tolerance:
    """One rounding and the float32 before it."""
    ulps = 12.0 if k.dtype == "float32" else 0.55
    return Tolerance("steps in float32, and one rounding to the dtype", ulps=ulps, share=3e-7)


def on_950(rule: Rule) -> Rule:
    """The rule, for the products that ask it."""
    return replace(rule, test=OfOperator(lambda op: ~OneOf(FAMILY, ("950",)) | rule.of(op).condition))


swi_glu_grad = Operator(
    name="swi_glu_grad",
    api="aclnnSwiGluGrad",
    about="gradient of the gated unit with silu",
    dims=(X, N, Y),
    tensors=(
        Argument("yGrad", "*X N *Y"),
        Argument("x", "*X 2*N *Y"),
        result("xGrad", "*X 2*N *Y", alias="out"),
    ),
    lead="x",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("yGrad", "x", "xGrad"),
        dtype_supported("x", tiling=(1, "dtype on 310P"), everywhere=True),
        dtype_same("yGrad", "x"),
        dtype_same("xGrad", "x"),
        rank("x", 1, 8),
        sizes_exist("x"),
        axis_exists("dim", "x", status=TILING_ERROR, tiling=(2, "dim")),
        on_950(axis_even("dim", "x", "x", status=TILING_ERROR, tiling=(3, "shapes"))),
        halves("x", "x", 4),
        shape("yGrad", status=TILING_ERROR, tiling=(5, "shapes")),
        columns_of_inference("x", 6),
        elements_exist("x", 7),
        shape("xGrad"),
    ),
    kernel=kernel,
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    forward="swi_glu",
    kernel_names=("SwiGluGrad",),
)
