"""x * gamma / sqrt(mean(x^2) + epsilon) over the axes of gamma, and the reciprocal root of every row in float32.

Source: the vendor's public host code and kernels (ops-nn, norm/rms_norm). Its tiling refuses an x without elements,
which its document takes: the first call answers before it asks the tiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    EMPTY,
    FAMILIES,
    LONG,
    REGISTERS,
    Buffer,
    Kernel,
    Phase,
    Size,
    Target,
    Tensor,
    Value,
    align,
    attribute,
    ceil_div,
    column_tiles,
    dim,
    itemsize,
    load_as,
    row_tiles,
    row_variants,
)
from tilesim.operators import (
    FAMILY,
    PARAM_INVALID,
    TILING_ERROR,
    UNKNOWN,
    Argument,
    Arrays,
    Attribute,
    Call,
    Dimension,
    Numbers,
    OneOf,
    Operator,
    Rule,
    SameWord,
    Texts,
    VendorTiling,
    absent,
    any_of,
    at_most,
    dtype_of,
    dtype_same,
    dtype_supported,
    in_range,
    not_null,
    rank,
    result,
    shape,
    shape_of,
    unknown,
)
from tilesim.ops._rms_norm_tiling import FULL, MERGE, ONE, ROW_OF_BYTES, RULES, SINGLE, SPLIT, sizes_of
from tilesim.ops._rms_norm_tiling import ROWS as ROWS_STORED
from tilesim.program.buffers import view
from tilesim.program.sizes import pow2_floor
from tilesim.program.sizes import rank as axes_count
from tilesim.program.units import BLOCK_BYTES, LANES

X, D = Dimension("X", least=0), Dimension("D")
ROWS, ROW = dim("X"), dim("D")
BLOCK_WORDS = 8
"""Words of float32 in a block of 32 bytes."""
LEVEL_WORDS = 704
"""Of the partial sums of the 950, beyond those of the first level and what sums a vector: 5120 bytes together."""
WITH_FLOAT32_GAMMA = ("a2", "a3", "950")
"""Families of chips that take a gamma of float32 with x of 16 bits."""


def variants(call: Call, chip: Chip) -> tuple[str, ...]:
    """EMPTY without rows; the vendor's template where its tiling is public; else whole rows, then long ones."""
    if not call.dims.get("X", 1):
        return (EMPTY,)
    rules = RULES.get(chip.family)
    if rules is None:
        return row_variants(call.dtype, call.dims.get("D", 1))
    return (rules.template(sizes_of(call, chip), bytes_of(call, chip)),)


def bytes_of(call: Call, chip: Chip) -> Callable[[str, Mapping[str, int]], int]:
    """What the buffers of a template take at its tiles."""

    def taken(template: str, tiles: Mapping[str, int]) -> int:
        (phase,) = call.operator.record(call, chip, template).phases
        return int(phase.bytes("ub").bind({**call.env, **tiles}))

    return taken


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """Rows of a tile or columns of a part of a row, as the vendor's tiling has them."""
    rules, (template, *_) = RULES.get(chip.family), variants(call, chip)
    return rules.tiles(sizes_of(call, chip), template, bytes_of(call, chip)) if rules and template != EMPTY else {}


def tiling(call: Call, chip: Chip, sizes: Mapping[str, int]) -> VendorTiling | None:
    """The fields of the vendor's tiling; None on products whose tiling is not public."""
    rules, (template, *_) = RULES.get(chip.family), variants(call, chip)
    if template == EMPTY:
        return VendorTiling(None, None, 0, 0)
    return rules.data(call, sizes_of(call, chip), template, sizes) if rules else None


def reciprocal_root(p: Phase, squares: Value, out: Target) -> Value:
    """1 / sqrt(sum / D + epsilon) of the sums of squares of rows."""
    mean = p.adds(p.muls(squares, 1 / ROW, out=out), attribute("epsilon"), out=out)
    return p.rec(p.sqrt(mean, out=out), out=out)


def kernel(k: Kernel) -> None:
    """Record the phase: of the vendor's template, or on products whose kernel is not public of rows or their parts."""
    templates = {MERGE: merged_rows, ONE: one_row, SINGLE: one_row, FULL: whole_loads, SPLIT: parts_of_rows}
    if k.variant == EMPTY:
        k.route = EMPTY
    elif k.variant in templates:
        with k.vector("rms_norm", str(k.variant)) as p:
            templates[str(k.variant)](k, p)
    elif k.variant == LONG:
        long_rows(k)
    else:
        whole_rows(k)


def matrices(k: Kernel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, y, gamma and rstd with one axis of rows and one of columns."""
    x, y, gamma = k["x"].reshape(ROWS, ROW), k["y"].reshape(ROWS, ROW), k["gamma"].reshape(ROW)
    return x, y, gamma, k["rstd"].reshape(ROWS)


def padded(k: Kernel) -> Size:
    """Elements of a row with its padding to blocks of the dtype of x."""
    return align(ROW, BLOCK_BYTES // itemsize(k.dtype))


def merged_rows(k: Kernel, p: Phase) -> None:
    """Several rows a tile, every buffer of one slot; gamma lands in the place of x and is repeated for every row."""
    x, y, gamma, rstd = matrices(k)
    rows, narrow = p.tile("rows"), k.dtype != "float32"
    whole = (rows, padded(k))
    x_in = p.buffer("xIn", (rows, ROW), k.dtype, allocated=whole)
    plane = p.buffer("gamma", (rows, ROW), allocated=whole)
    if gamma.dtype == "float32":
        p.load(gamma, out=plane[0])
    else:
        p.cast(p.load(gamma, out=x_in[0]), out=plane[0])
    p.move(p.read(plane[0]).over(rows), out=plane)
    for n in p.loop("row", ROWS, rows, split="block", carry=(x_in,)):
        size = (n.size, ROW)
        value = p.load(x[n], out=x_in[: n.size])
        wide = p.buffer("x32", size, allocated=whole) if narrow else None
        value = p.cast(value, out=wide) if wide else value
        squares = p.buffer("squares", size, allocated=whole)
        p.mul(value, value, out=squares)
        lanes = p.buffer("reduce", (n.size, LANES))
        p.fill(0.0, out=lanes)
        for c in p.loop("lanes", ROW, LANES, carry=(lanes,)):
            p.add(p.read(lanes[:, : c.size]), p.read(squares)[:, c], out=lanes[:, : c.size])
        sums = p.buffer("rstd", n.size, allocated=(rows,))
        root = reciprocal_root(p, p.row_sum(p.read(lanes), out=sums), sums)
        p.store(root, rstd[n])
        out = p.buffer("yOut", size, k.dtype, allocated=whole)
        target = wide or out
        scaled = p.mul(value, p.broadcast(root, out=squares), out=target)
        scaled = p.mul(scaled, p.read(plane)[: n.size], out=target)
        p.store(p.cast(scaled, out=out) if narrow else scaled, y[n])


def one_row(k: Kernel, p: Phase) -> None:
    """A row a tile, in buffers of a fixed size or, of SINGLE and with a gamma of float32, of its size.

    Of SINGLE the results take the place of x; in the vendor's kernel the squares do, in twice the bytes of x, and the
    results have a buffer of their own.
    """
    x, y, gamma, rstd = matrices(k)
    narrow, mixed = k.dtype != "float32", gamma.dtype != k.dtype
    whole = (padded(k) if mixed else Size.of(ROW_OF_BYTES[itemsize(k.dtype)]),)
    scale = p.load(gamma, out=p.buffer("gammaIn", ROW, gamma.dtype, allocated=whole))
    for n in p.loop("row", ROWS, ROWS_STORED, split="block"):
        roots = p.buffer("rstd", n.size, allocated=(ROWS_STORED,))
        for i in p.loop("each", n.size, carry=(roots,)):
            at = n.start + i.start
            x_in = p.buffer("xIn", ROW, k.dtype, allocated=whole)
            value = p.load(x[at], out=x_in)
            wide = p.buffer("x32", ROW, allocated=whole) if narrow else None
            value = p.cast(value, out=wide) if wide else value
            squares = p.buffer("squares", ROW, allocated=whole)
            total = p.buffer("reduce", 1, allocated=(LANES,))
            sums = p.row_sum(p.mul(value, value, out=squares), out=total)
            root = p.move(reciprocal_root(p, sums, total), out=roots[i.start : i.start + 1])
            out = x_in if k.variant == SINGLE else p.buffer("yOut", ROW, k.dtype, allocated=whole)
            target = wide or out
            factor = p.cast(scale, out=squares) if gamma.dtype != "float32" else scale
            scaled = p.mul(p.muls(value, root[0], out=target), factor, out=target)
            p.store(p.cast(scaled, out=out) if narrow else scaled, y[at])
        p.store(p.read(roots), rstd[n])


def parts_of_rows(k: Kernel, p: Phase) -> None:
    """Two passes over the parts of 64 rows: sums of their squares, then their scaling, a part of gamma at a time.

    On the 950 values are in registers and copies have two slots. Its partial sums have three levels, of which the bytes
    alone are here, as are those of its plane of float32.
    """
    x, y, gamma, rstd = matrices(k)
    columns, slots, fused = p.tile("columns"), 2 if k.registers else 1, k.registers > 0
    for n in p.loop("row", ROWS, ROWS_STORED, split="block"):
        roots = p.buffer("rstd", n.size, slots=slots, allocated=(ROWS_STORED,))
        partial = p.buffer("partial", (n.size, 1), allocated=(ROWS_STORED, BLOCK_WORDS))
        total = p.buffer("reduce", 1, allocated=(LANES,))
        x_in = p.buffer("xIn", columns, k.dtype, slots=slots)
        wide = p.buffer("x32", columns, reserved=fused) if fused or k.dtype != "float32" else None
        squares = None if fused else p.buffer("squares", columns)
        if fused:
            p.buffer("levels", LEVEL_WORDS, reserved=True)
        p.fill(0.0, out=partial)
        for i in p.loop("each", n.size, carry=(partial,)):
            for c in p.loop("first", ROW, columns, carry=(partial,)):
                part = p.load(x[n.start + i.start, c], out=x_in[: c.size])
                if squares is None:
                    value = widened(p, "x", part)
                    square = p.mul(value, value, out=p.buffer("square", c.size, space=REGISTERS))
                    sums = p.vst(p.row_sum(square, out=p.buffer("sum", 1, space=REGISTERS)), out=total)
                else:
                    value = p.cast(part, out=wide[: c.size]) if wide else part
                    sums = p.row_sum(p.mul(value, value, out=squares[: c.size]), out=total)
                p.add(p.read(partial[i.start]), sums, out=partial[i.start])
        root = reciprocal_root(p, p.row_sum(p.read(partial), out=roots), roots)
        p.store(root, rstd[n])
        for c in p.loop("second", ROW, columns):
            scale = p.load(gamma[c], out=p.buffer("gammaIn", c.size, gamma.dtype, slots=slots))
            for i in p.loop("again", n.size):
                part = p.load(x[n.start + i.start, c], out=x_in[: c.size])
                out = p.buffer("yOut", c.size, k.dtype, slots=slots)
                if squares is None:
                    value, factor = widened(p, "again", part), widened(p, "gamma", scale)
                    scaled = p.muls(value, root[i.start], out=p.buffer("scaled", c.size, space=REGISTERS))
                    result_value = narrowed(p, p.mul(scaled, factor, out=scaled), out)
                else:
                    value = p.cast(part, out=wide[: c.size]) if wide else part
                    target = wide[: c.size] if wide else view(out)
                    factor = p.cast(scale, out=squares[: c.size]) if gamma.dtype != "float32" else scale
                    scaled = p.mul(p.muls(value, root[i.start], out=target), factor, out=target)
                    result_value = p.cast(scaled, out=out) if wide else scaled
                p.store(result_value, y[n.start + i.start, c])


def whole_loads(k: Kernel, p: Phase) -> None:
    """Several rows a tile on the 950: buffers of two slots, values in registers.

    Of the partial sums of a row, and of the refinement of the root, the bytes alone are here.
    """
    x, y, gamma, rstd = matrices(k)
    rows, sums = p.tile("rows"), align(ceil_div(pow2_floor(padded(k) - 1), LANES), BLOCK_WORDS)
    scale_in = p.load(gamma, out=p.buffer("gammaIn", ROW, gamma.dtype, allocated=(padded(k),)))
    for n in p.loop("row", ROWS, rows, split="block"):
        size, whole, few = (n.size, ROW), (rows, padded(k)), (align(rows, BLOCK_WORDS),)
        value = widened(p, "x", p.load(x[n], out=p.buffer("xIn", size, k.dtype, slots=2, allocated=whole)))
        squares = p.mul(value, value, out=p.buffer("squares", size, space=REGISTERS))
        p.buffer("partial", (rows, sums), reserved=True)
        p.buffer("refined", n.size, allocated=few, reserved=True)
        total = p.buffer("total", n.size, space=REGISTERS)
        root = reciprocal_root(p, p.row_sum(squares, out=total), total)
        p.store(p.vst(root, out=p.buffer("rstd", n.size, slots=2, allocated=few)), rstd[n])
        scaled = p.mul(value, p.broadcast(root, out=squares), out=squares)
        scaled = p.mul(scaled, widened(p, "gamma", scale_in).over(n.size), out=squares)
        out = p.buffer("yOut", size, k.dtype, slots=2, allocated=whole)
        p.store(narrowed(p, scaled, out), y[n])


def widened(p: Phase, name: str, value: Value) -> Value:
    """A value of a buffer in float32 registers."""
    raw = p.vld(value, out=p.buffer(f"{name}Raw", value.shape, value.dtype, space=REGISTERS))
    return raw if value.dtype == "float32" else p.cast(raw, out=p.buffer(f"{name}32", value.shape, space=REGISTERS))


def narrowed(p: Phase, value: Value, out: Buffer) -> Value:
    """A value of float32 registers in a buffer, rounded to its dtype."""
    if out.dtype != "float32":
        value = p.cast(value, out=p.buffer("rounded", value.shape, out.dtype, space=REGISTERS))
    return p.vst(value, out=out)


def whole_rows(k: Kernel) -> None:
    """Several rows a tile, of no vendor's tiling."""
    with k.vector("rms_norm", "keeps whole rows") as p:
        gamma = load_as(p, k["gamma"], "float32", name="gamma", slots=1)
        slots = 1 if k.dtype == "float32" else 2
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
    x, gamma = given["x"], given["gamma"]
    rows = x.reshape(*x.shape[: x.ndim - gamma.ndim], -1)
    root = 1 / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + numbers["epsilon"])
    return {"y": (rows * root).reshape(x.shape) * gamma, "rstd": root}


def gamma_dtype() -> Rule:
    """The rule that gamma has the dtype of x, or is float32 on products that take it so."""

    def texts(call: Call, _: Chip) -> Texts:
        x, gamma = call.spec("x"), call.spec("gamma")
        return Texts(f"{x.dtype if x else UNKNOWN} or float32", gamma.dtype if gamma else UNKNOWN)

    wide = OneOf(dtype_of("gamma"), ("float32",)) & OneOf(FAMILY, WITH_FLOAT32_GAMMA)
    test = any_of(absent("gamma", "x"), SameWord(dtype_of("gamma"), dtype_of("x")), wide)
    return Rule("gamma dtype as x", PARAM_INVALID, test, "gamma", texts)


def gamma_axes() -> Rule:
    """The rule that gamma has no more axes than x."""

    def texts(call: Call, _: Chip) -> Texts:
        x, gamma = call.spec("x"), call.spec("gamma")
        return Texts(f"at most {len(x.shape) if x else UNKNOWN}", str(len(gamma.shape) if gamma else UNKNOWN))

    test = absent("x", "gamma") | at_most(axes_count(shape_of("gamma")), axes_count(shape_of("x")))
    return Rule("gamma rank as x", TILING_ERROR, test, "gamma", texts, (3, "gamma rank above x"))


def rows_exist() -> Rule:
    """The rule of the tiling that there are rows, which it is not asked about without."""

    def texts(call: Call, _: Chip) -> Texts:
        return Texts("at least 1", str(call.dims.get("X", UNKNOWN)))

    return Rule("x rows", None, unknown("X") | at_most(1, ROWS), "x", texts, (6, "x empty"))


def gamma_fits() -> Rule:
    """The rule that x ends in the axes of gamma."""
    return replace(shape("x", status=TILING_ERROR, tiling=(5, "gamma shape")), name="gamma shape", parameter="gamma")


def epsilon_positive() -> Rule:
    """The rule that epsilon is not below 0."""

    def texts(call: Call, _: Chip) -> Texts:
        return Texts("at least 0", str(call.attributes["epsilon"]))

    return Rule("epsilon range", TILING_ERROR, at_most(0, dim("epsilon")), "epsilon", texts, (9, "epsilon"))


rms_norm = Operator(
    name="rms_norm",
    api="aclnnRmsNorm",
    about="normalisation by the root mean square",
    dims=(X, D),
    tensors=(
        Argument("x", "*X *D"),
        Argument("gamma", "*D", others=("float32",)),
        result("y", "*X *D", alias="yOut"),
        result("rstd", "*X 1", dtype="float32", alias="rstdOut"),
    ),
    lead="x",
    attributes=(Attribute("epsilon", default=1e-6),),
    dtypes=FAMILIES,
    dtype="float32",
    rules=(
        *not_null("x", "gamma", "y", "rstd"),
        dtype_supported("x", everywhere=True),
        gamma_dtype(),
        dtype_same("y", "x"),
        rank("x", 1, 8, status=TILING_ERROR, tiling=(1, "x rank")),
        rank("gamma", 1, 8, status=TILING_ERROR, tiling=(2, "gamma rank")),
        gamma_axes(),
        in_range(D, "gamma", status=TILING_ERROR, tiling=(4, "gamma empty")),
        gamma_fits(),
        shape("y", status=TILING_ERROR, tiling=(7, "y shape")),
        shape("rstd", status=TILING_ERROR, tiling=(8, "rstd shape")),
        epsilon_positive(),
    ),
    tiling_only_rules=(rows_exist(),),
    kernel=kernel,
    reference=reference,
    variant=variants,
    tiles=tiles,
    tiling=tiling,
    kernel_names=("RmsNorm",),
    accuracy_class="norm",
)
