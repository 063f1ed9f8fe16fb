"""Mixing of the channels of a manifold hyper-connection after a layer: y_i = h_post_i * h_out + sum_j h_res_ji * x_j.

Source: the vendor's document of aclnnMhcPost, and its public host code (ops-transformer 577814407, mhc/mhc_post).
Unit tests of the vendor expect success on A2 for n = 6, n = 7 and D = 30000; its tiling refuses them, and so does this.
A macro of the vendor packs the template parameters into a key; its unit tests expect 1 for (1,) and 0 for (0,) on A2,
and 2 for register code on 950, as of a template without the third parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, REGISTERS, Kernel, Phase, Size, Value, dim
from tilesim.operators import (
    INNER_NULLPTR,
    RUNTIME_ERROR,
    SUCCESS,
    Argument,
    Arrays,
    Call,
    Condition,
    Dimension,
    Numbers,
    Operator,
    Option,
    Rule,
    Tolerance,
    VendorTiling,
    about,
    any_of,
    dtype_is,
    dtype_same,
    dtype_supported,
    equal,
    less,
    not_null,
    null,
    of_magnitudes,
    rank,
    result,
    shape,
    sizes_exist,
    unknown,
)

TOKENS = Dimension("T", least=0)
"""Tokens: the product of the axes before the last two of `x`."""
CHANNELS = Dimension("N", least=0)
FEATURES = Dimension("D", least=0)
T, N, D = TOKENS.size, CHANNELS.size, FEATURES.size

REGISTER, NO_RES = "register", "no h_res"
"""The variants of 950 that compute in vector registers, with h_res and without."""
BLOCK = 16
"""Columns of 16 bits in a block of 32 bytes, to which tiles are rounded up."""
LEAST_COLUMNS, LEAST_CHANNELS = 32, 4
"""What a tile in registers has at least."""
LEAST_PIECE = 256
"""No piece of this many columns or fewer is halved."""


@dataclass(frozen=True)
class Base:
    """The variant that reads h_res and h_post by the scalar unit; `kept` says whether x of all channels stays on chip.

    `least` columns are in a tile: more than a block where the vendor's rule has a tile that overflows.
    """

    kept: bool
    least: int = BLOCK


def kernel(k: Kernel) -> None:
    """Record the variant that the vendor's tiling takes; nothing is launched without elements."""
    if k.variant == EMPTY:
        k.route = EMPTY
    elif isinstance(k.variant, Base):
        base(k, k.variant)
    else:
        register(k)


def base(k: Kernel, variant: Base) -> None:
    """Pieces of tokens dealt to the cores; without `kept`, every row of x is read for every channel of y.

    On A2 and A3 the vendor's kernel switches the L2 cache off for its inputs.
    """
    x, y = k["x"].reshape(T, N, D), k["y"].reshape(T, N, D)
    h_out, h_res, h_post = k["h_out"].reshape(T, D), k["h_res"].reshape(T, N, N), k["h_post"].reshape(T, N)
    if not k.registers:
        k.bypass("x", "h_out")
    with k.vector("mix", "keeps x of all channels" if variant.kept else "reads x for every channel") as p:
        columns = p.tile("columns", multiple_of=BLOCK, least=variant.least)
        for c in p.loop("piece", D, columns, split="cyclic", rows=T):
            out32 = p.cast(p.load(h_out[c.row, c], name="hOutIn"), dtype="float32", name="hOut32")
            if variant.kept:
                channels = p.cast(p.load(x[c.row, :, c], name="xIn"), dtype="float32", name="x32")
            for i in p.loop("out", N):
                total = p.buffer("y32", c.size)
                p.muls(out32, h_post[c.row, i.start], out=total)
                for j in p.loop("in", N, carry=(total,)):
                    if variant.kept:
                        channel = channels[j.start]
                    else:
                        channel = p.cast(p.load(x[c.row, j.start, c], name="xIn"), dtype="float32", name="x32")
                    p.axpy(channel, h_res[c.row, j.start, i.start], out=total)
                p.store(p.cast(p.read(total), dtype=k.dtype, name="yOut", slots=2), y[c.row, i.start, c])


def register(k: Kernel) -> None:
    """Tokens in blocks, channels and columns in tiles, sums in float32 registers.

    x is read whole for every block of channels; without h_res, the channels of the block only.
    """
    mixed = k.options["h_res"]
    x, y = k["x"].reshape(T, N, D), k["y"].reshape(T, N, D)
    h_out, h_post = k["h_out"].reshape(T, D), k["h_post"].reshape(T, N)
    k.reserve("strict", 1, "the tiling leaves at least one byte; source: its host code")
    with k.vector("mix", "computes in registers") as p:
        columns = p.tile("columns", multiple_of=BLOCK if mixed else 32, least=LEAST_COLUMNS, equal=True)
        channels = p.tile("channels", multiple_of=LEAST_CHANNELS if mixed else 8, equal=True)
        for t in p.loop("token", T, split="block"):
            for b in p.loop("channel", N, channels):
                if mixed:
                    weights = p.load(k["h_res"].reshape(T, N, N)[t.start, :, b], name="hResIn")
                post = p.load(h_post[t.start, b], name="hPostIn")
                for c in p.loop("column", D, columns):
                    out_in = p.load(h_out[t.start, c], name="hOutIn")
                    x_in = p.load(x[t.start, :, c] if mixed else x[t.start, b, c], name="xIn")
                    work = p.buffer("yWork", (b.size, c.size))
                    for i in p.loop("out", b.size, carry=(work,)):
                        total = p.buffer("y32", c.size, space=REGISTERS)
                        p.muls(widened(p, "hOut", out_in), post[i.start], out=total)
                        if mixed:
                            for j in p.loop("in", N, carry=(total,)):
                                p.axpy(widened(p, "x", x_in[j.start]), weights[j.start, i.start], out=total)
                        else:
                            p.add(p.read(total), widened(p, "x", x_in[i.start]), out=total)
                        p.vst(p.read(total), out=work[i.start])
                    p.store(p.cast(p.read(work), dtype=k.dtype, name="yOut", slots=2), y[t.start, b, c])


def widened(p: Phase, name: str, value: Value) -> Value:
    """A row of 16 bits in float32 registers."""
    raw = p.vld(value, out=p.buffer(f"{name}16", value.shape, value.dtype, space=REGISTERS))
    return p.cast(raw, out=p.buffer(f"{name}32", value.shape, space=REGISTERS))


def variant(call: Call, chip: Chip) -> str | Base:
    """The variant that the vendor's tiling takes; EMPTY without elements."""
    if not math.prod(call.dims.values()):
        return EMPTY
    if not call.options["h_res"]:
        return NO_RES
    visible = chip.memory.ub.visible_bytes
    many = call.dims.get("T", 1) >= chip.cores.vector // 2 and call.dims.get("N", 1) >= LEAST_CHANNELS
    if chip.vector.registers and many and ub_bytes(call, chip, REGISTER) < visible:
        return REGISTER
    columns = base_columns(call, chip)
    if ub_bytes(call, chip, Base(kept=True), columns=columns) <= visible:
        return Base(kept=True)
    overflows = ub_bytes(call, chip, Base(kept=False), columns=columns) > visible
    return Base(kept=False, least=columns if overflows else BLOCK)


def base_columns(call: Call, chip: Chip) -> int:
    """Columns of a piece: D is halved until every second core has one and a tile fits, compared before rounding up."""
    width = whole = call.dims.get("D", 1)
    pieces = 1
    most = chip.memory.ub.visible_bytes // (ub_bytes(call, chip, Base(kept=False)) // BLOCK)
    while (call.dims.get("T", 1) * pieces <= chip.cores.vector // 2 or width >= most) and width > LEAST_PIECE:
        pieces *= 2
        width = whole // pieces
    return -(-width // BLOCK) * BLOCK


def ub_bytes(call: Call, chip: Chip, variant: str | Base, **tiles: int) -> int:
    """Bytes of the unified buffer that a variant takes, at its smallest tiles unless told."""
    (phase,) = call.operator.record(call, chip, variant).phases
    smallest = {tile.name: tile.smallest for tile in phase.tiles.values()}
    return int(phase.bytes("ub").bind({**call.env, **smallest, **tiles}))


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """The columns of a piece of the base variant; tiles of the others are the largest equal ones that fit."""
    return {"columns": base_columns(call, chip)} if isinstance(variant(call, chip), Base) else {}


def tiling(call: Call, chip: Chip, tiles: Mapping[str, int]) -> VendorTiling:
    """The 12 fields of the vendor's tiling and its template parameters. Source: its host code, mhc/mhc_post."""
    taken = variant(call, chip)
    if taken == EMPTY:
        return VendorTiling(None, None, 0, 0)
    tokens, channels, features = (call.dims[name] for name in ("T", "N", "D"))
    columns = tiles["columns"]
    pieces = -(-features // columns)
    tail = features - (pieces - 1) * columns
    items = tokens * pieces if isinstance(taken, Base) else tokens
    each = -(-items // min(items, chip.cores.vector))
    used = -(-items // each)
    last = items - (used - 1) * each
    column_fields = {"dInner": columns, "dOuter": pieces, "dTail": tail}
    if isinstance(taken, Base):
        shares = {
            "normalCoreProcessNum": each,
            "tailCoreProcessNum": last,
            "bsInner": 1,
            "bsOuter": tokens,
            "bsTail": 1,
        }
        column_fields["dTailAlign"] = -(-tail // BLOCK) * BLOCK
    else:
        block = tiles["channels"]
        blocks = -(-channels // block)
        shares = {"bsInner": each, "bsOuter": used, "bsTail": last}
        shares |= {"nInner": block, "nOuter": blocks, "nTail": channels - (blocks - 1) * block}
    data = {"n": channels, "d": features, "usedCoreNum": used, **shares, **column_fields}
    kept = isinstance(taken, Base) and taken.kept
    template = (kept, not isinstance(taken, Base), call.options["h_res"]) if chip.vector.registers else (kept,)
    visible = chip.memory.ub.visible_bytes
    return VendorTiling(data, None, used, chip.workspace.system_bytes, visible, tuple(map(int, template)))


def reference(given: Arrays, _: Numbers) -> Arrays:
    """y in float64; h_res is used transposed."""
    own = given["h_post"][..., None] * given["h_out"][..., None, :]
    x = given["x"]
    return {"y": own + (np.einsum("...ji,...jd->...id", given["h_res"], x) if "h_res" in given else x)}


def tolerance(_: str, __: Kernel) -> Tolerance:
    """One rounding, and float32 multiply-adds, fused or not. Source: 4.7 * 2^-24 of the terms measured, n = 8."""
    return Tolerance("one rounding to the dtype, and float32 sums of its terms", ulps=0.55, share=16 * 2**-24)


ON_950 = less(0, dim("vector.registers"))
"""The condition that the chip has vector registers, as 950 has, where n and D have no range."""
FREE = any_of(unknown("T", "N", "D"), ON_950, equal(T, 0), equal(N, 0), equal(D, 0))
"""The condition that n and D have no range: on 950, and without elements."""
MOST_FEATURES, STEP = 100_000, 128


def elsewhere(size: Size, name: str, expected: str, condition: Condition, place: tuple[int, str]) -> Rule:
    """The rule of the tiling of A2 and A3 about a size."""
    return about(size, name, expected, FREE | condition, "x", INNER_NULLPTR, place)


mhc_post = Operator(
    name="mhc_post",
    api="aclnnMhcPost",
    about="mixing of channels after a layer of a manifold hyper-connection",
    dims=(TOKENS, CHANNELS, FEATURES),
    tensors=(
        Argument("x", "*T N D"),
        Argument("h_res", "*T N N", dtype="float32", option="h_res", alias="hRes"),
        Argument("h_out", "*T D", alias="hOut"),
        Argument("h_post", "*T N", dtype="float32", alias="hPost"),
        result("y", "*T N D", alias="out"),
    ),
    lead="x",
    options=(Option("h_res"),),
    dtypes=dict.fromkeys(("950", "a3", "a2"), ("bfloat16", "float16")),
    dtype="bfloat16",
    rules=(
        *(replace(rule, test=ON_950 | ~null("h_res")) for rule in not_null("h_res", status=RUNTIME_ERROR)),
        *not_null("x", "h_out", "h_post", "y"),
        dtype_supported("x"),
        dtype_is("h_res", "float32"),
        dtype_same("h_out", "x"),
        dtype_is("h_post", "float32"),
        dtype_same("y", "x"),
        rank("x", 3, 4),
        sizes_exist("x"),
        shape("h_res"),
        shape("h_out"),
        shape("h_post"),
        shape("y"),
        elsewhere(D, "D range", f"1..{MOST_FEATURES - 1}", less(0, D) & less(D, MOST_FEATURES), (1, "d")),
        elsewhere(D, "D multiple", f"a multiple of {STEP}", equal(D % STEP, 0), (2, "d")),
        elsewhere(N, "n of A2 and A3", "4", equal(N, LEAST_CHANNELS), (3, "n")),
    ),
    kernel=kernel,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    # The tiling halves pieces by their width before it is rounded up, and takes a tile that overflows.
    overflow=SUCCESS,
    reference=reference,
    magnitude=of_magnitudes(reference),
    tolerance=tolerance,
    kernel_names=("MhcPost",),
)
