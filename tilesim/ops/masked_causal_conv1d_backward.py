"""Gradients of a masked, causal, depthwise convolution over tokens, of width 3.

Source: the vendor's document of aclnnMaskedCausalConv1dBackward, and its public host code of 2026-08-21: the first call
checks for null, then the dtypes of the operator definition, then runs the tiling, which has its own order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import REGISTERS, Buffer, Kernel, Phase, Size, Value, View, bit_length, ceil_div, itemsize
from tilesim.operators import (
    SUCCESS,
    TILING_ERROR,
    Argument,
    Arrays,
    Call,
    Dimension,
    Numbers,
    Operator,
    Option,
    Rule,
    Tolerance,
    VendorTiling,
    Work,
    about,
    at_most,
    axis,
    dtype_is,
    dtype_same,
    dtype_supported,
    in_range,
    multiple,
    not_null,
    of_magnitudes,
    product_at_most,
    rank,
    result,
    shape,
    ub_beyond,
)
from tilesim.program.units import LANES, VECTOR_BYTES

TAPS = 3
S = Dimension("S")
B = Dimension("B", most=32)
H = Dimension("H", least=384, most=24576, multiple_of=64)
W = Dimension("W", least=TAPS, most=TAPS, default=TAPS)

MOST_TOKENS = 524288
"""Most tokens of all sequences together, S*B."""
KEPT_BYTES = 8192
"""Bytes of the unified buffer that the tiling leaves to the library."""
TILING_KEYS = {"bfloat16": 10000, "float16": 10001}


def kernel(k: Kernel) -> None:
    """Record the backward: a core owns columns of H, and sums its weight gradients over S by a binary counter.

    Tiles of S are equal within a row. The vector function holds its values in registers, so that only planes of
    products, the counter and what is copied take bytes. `vendor_counters` has the vendor's count of each.

    On a unified buffer so small that a tile has one row, the second-last tile here reads one row of halo, the last of
    the tensor, and zeroes the other; the vendor's kernel reads both, the second beyond the end. So a row of the batch
    has 1 register more to zero, and 1 row less to read and mask. For S=50, B=32 with a mask in 8193 bytes, which
    the vendor's tiling takes although it does not fit: 256 registers zeroed against 224, 812,000 bytes read against
    816,128, 4,704 loads and stores of the mask's broadcast against 4,736, 3,136 products with it against 3,168.
    """
    k.reserve("library", KEPT_BYTES, "left to the library by the tiling; source: its host code")
    grad_y, x = k["gradY"], k["x"]
    weight, grad_weight = (k[name].reshape(TAPS, H.size) for name in ("weight", "gradWeight"))
    masked = k.options["mask"]
    with k.vector("backward") as p:
        rows = p.tile("rows", S.size)
        levels = bit_length(ceil_div(S.size, rows))
        for h in p.loop("h", H.size, LANES, split=True, unit=LANES):
            sums = p.buffer("sums", (TAPS, B.size, LANES))
            p.fill(0.0, out=sums)
            taps = p.load(weight[:, h], name="weightIn")
            row = p.buffer("rowSum", LANES)
            for b in p.loop("b", B.size, carry=(sums, row)):
                counter = p.buffer("levels", (TAPS, levels, LANES))
                for s in p.loop("s", S.size, rows, even=True, halo=TAPS - 1, carry=(row, counter)):
                    filled = s.size + s.after
                    g = p.buffer("gradYIn", (s.size + TAPS - 1, LANES), k.dtype, slots=2)
                    p.load(grad_y[s.with_halo(), b.start, h], out=g[:filled])
                    p.fill(0.0, out=g[filled:])
                    if masked:
                        plane = mask_plane(p, k["mask"][b.start, s.with_halo()], k.dtype, s.size + TAPS - 1, filled)
                        p.mul(p.read(g[:filled]), plane, out=g[:filled])
                    planes, grad_x = products(p, k.dtype, p.read(g), p.load(x[s, b.start, h], name="xIn"), taps, s.size)
                    for tap in reversed(range(TAPS)):
                        p.push(p.column_sum(p.read(planes[tap]), out=row), s.index, out=counter[tap])
                    p.store(grad_x, k["gradX"][s, b.start, h])
                for tap in reversed(range(TAPS)):
                    p.fill(0.0, out=row)
                    total = p.drain(p.read(counter[tap]), ceil_div(S.size, rows), out=row)
                    p.move(total, out=sums[tap, b.start])
            out = p.buffer("gradWeightOut", (TAPS, LANES), k.dtype, slots=2)
            for tap in range(TAPS):
                p.cast(p.column_sum(p.read(sums[tap]), out=row), out=out[tap])
            p.store(p.read(out), grad_weight[:, h])


def mask_plane(p: Phase, mask: View, dtype: str, rows: Size, filled: Size) -> Value:
    """The mask bits of `filled` of the rows, as 0 or 1 in every column."""
    bits = p.buffer("maskIn", rows, "bool", slots=2)
    vector = p.buffer("maskVector", rows, dtype)
    plane = p.buffer("maskPlane", (rows, LANES), dtype)
    p.load(mask, out=bits[:filled])
    p.cast(p.read(bits[:filled]), out=vector[:filled])
    p.move(p.read(vector[:filled]), out=vector[:filled])
    return p.broadcast(p.read(vector[:filled]), out=plane[:filled])


def register(p: Phase, name: str, dtype: str, *shape: Size | int) -> Buffer:
    """Vector registers for rows of up to 64 columns."""
    return p.buffer(name, shape, dtype, space=REGISTERS, allocated=(*shape[:-1], VECTOR_BYTES // itemsize(dtype)))


def widened(p: Phase, name: str, value: Value) -> Value:
    """A value of a buffer in float32 registers."""
    raw = p.vld(value, out=register(p, f"{name}16", value.dtype, *value.shape))
    return p.cast(raw, out=register(p, f"{name}32", "float32", *value.shape))


def products(p: Phase, dtype: str, g: Value, x_in: Value, taps: Value, rows: Size) -> tuple[Buffer, Value]:
    """The plane of products of each tap, and gradX, computed in float32 registers, a row of 64 columns each."""
    weights = [widened(p, f"w{tap}", taps[tap]) for tap in range(TAPS)]
    column = widened(p, "x", x_in)
    shifted = [widened(p, f"g{i}", g[i : rows + i]) for i in range(TAPS)]
    total = register(p, "gradX32", "float32", rows, LANES)
    grad_x = p.mul(shifted[0], weights[TAPS - 1].over(rows), out=total)
    for i in range(1, TAPS):
        grad_x = p.madd(shifted[i], weights[TAPS - 1 - i].over(rows), out=total)
    narrow = p.cast(grad_x, out=register(p, "gradX16", dtype, rows, LANES))
    grad_x_out = p.vst(narrow, out=p.buffer("gradXOut", (rows, LANES), dtype, slots=2))
    planes = p.buffer("planes", (TAPS, rows, LANES))
    product = register(p, "product", "float32", rows, LANES)
    for i in range(TAPS):
        p.vst(p.mul(shifted[i], column, out=product), out=planes[TAPS - 1 - i])
    return planes, grad_x_out


NAMES = {
    ("cast", "maskVector"): "mask_cast",
    ("move", "maskVector"): "mask_copy_or_cast",
    ("mul", "gradYIn"): "mask_mul",
    ("cast", "gradWeightOut"): "final_cast",
    ("fill", ""): "duplicate_registers",
    ("vld", ""): "load",
    ("vst", ""): "store",
    ("move", ""): "ub_copy",
    ("drain", ""): "",
}
"""(instruction, buffer that it writes, "" for any) -> the vendor's counter; others count under their own name."""


def vendor_counters(work: Work) -> Mapping[str, int]:
    """Counts of the vendor's kernel for one run of an instruction, in registers of 256 bytes and in transfers.

    Loads, casts, products and stores are those of the row function. A column sum is one instruction here and loads,
    adds and stores of a library function there (`folded`). A push stands for one cached add and one copy: of n tiles
    the vendor's adds n - ones(n) while it tiles and ones(n) at the end, so that the drain adds nothing to their sum.
    """
    op, target = work.instr.op, work.instr.dst.base.name
    if op == "copy":
        way = "in" if work.instr.pipe == "mte2" else "out"
        return {f"transfers_{way}": 1, f"bytes_{way}": work.bytes}
    if op == "column_sum":
        (source,) = work.instr.reads()
        return folded("reduce" if source.base.name == "planes" else "breduce", work.vectors)
    if op == "push":
        return {"cache_add": 1, "ub_copy": 1}
    if op == "broadcast":
        return {"mask_broadcast_load": work.rows, "mask_broadcast_store": work.rows}
    name = NAMES.get((op, target)) or NAMES.get((op, ""), op)
    return {name: work.vectors} if name else {}


def folded(name: str, rows: int) -> Mapping[str, int]:
    """Loads, stores and adds of the vendor's column sum of `rows` registers, which folds four halvings at a time.

    Source: the reduction of the arch 3510 library, which the kernel reuses.
    """
    if rows == 1:
        return {f"{name}_load": 1, f"{name}_store": 1, f"{name}_add": 0}
    halvings = rows.bit_length() - 1
    power, fours = 1 << halvings, halvings // 4
    tail = rows - power
    loads = 2 * tail + sum(power >> 4 * i for i in range(fours)) + (1 << halvings % 4)
    stores = tail + sum(power >> 4 * i for i in range(1, fours + 1)) + 1
    return {f"{name}_load": loads, f"{name}_store": stores, f"{name}_add": rows - 1}


def tiling(call: Call, chip: Chip, tiles: Mapping[str, int]) -> VendorTiling:
    """The 23 fields of the vendor's tiling. Source: its host code, attention/masked_causal_conv1d_backward."""
    dims, rows = call.dims, tiles["rows"]
    columns = dims["H"] // LANES
    used = min(columns, chip.cores.vector)
    each, more = divmod(columns, used)
    main, tail = (more, used - more) if more else (used, 0)
    main_size, tail_size = (each + (more > 0)) * LANES, each * LANES
    trips = -(-dims["S"] // rows)
    small, larger = divmod(dims["S"], trips)
    split = {"MainFactorS": small + (larger > 0), "TailFactorS": small}
    data = {
        "hMainCoreCnt": main,
        "hTailCoreCnt": tail,
        "hMainSize": main_size,
        "hTailSize": tail_size,
        "hLoopCnt": main_size // LANES,
        "sLoopCnt": trips,
        "ubMainFactorH": LANES,
        "ubTailFactorH": LANES,
        "ubMainFactorS": split["MainFactorS"],
        "ubTailFactorS": split["TailFactorS"],
        "ubMainFactorSCount": larger,
        "ubTailFactorSCount": trips - larger,
        "tailHLoopCnt": (tail_size if tail else main_size) // LANES,
        "tailSLoopCnt": trips,
        "tailCoreUbMainFactorH": LANES,
        "tailCoreUbTailFactorH": LANES,
        "tailCoreUbMainFactorS": split["MainFactorS"],
        "tailCoreUbTailFactorS": split["TailFactorS"],
        "hasMask": int(call.options["mask"]),
        **{name: dims[name] for name in ("S", "B", "H", "W")},
    }
    return VendorTiling(data, TILING_KEYS[call.dtype], used, chip.workspace.system_bytes)


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The gradients: every tap k pairs gradY of W-1-k tokens later."""
    upstream = np.where(given["mask"].T[:, :, None], given["gradY"], 0.0) if "mask" in given else given["gradY"]
    x, weight = given["x"], given["weight"]
    grad_x, grad_weight = np.zeros_like(x), np.zeros_like(weight)
    for tap in range(TAPS):
        later = min(TAPS - 1 - tap, len(x))
        grad_x[: len(x) - later] += upstream[later:] * weight[tap]
        grad_weight[tap] = (upstream[later:] * x[: len(x) - later]).sum(axis=(0, 1))
    return {"gradX": grad_x, "gradWeight": grad_weight}


def tolerance(_: str, __: Kernel) -> Tolerance:
    """One rounding of a sum in float32."""
    return Tolerance("one rounding to the dtype, and float32 sums of its terms", ulps=0.55, share=1e-6)


def tokens_exist(parameter: str, place: int) -> Rule:
    """The rule that S is not 0, which the vendor's checks do not have."""
    expected = "at least 1; the vendor's code would divide by zero"
    return about(S.size, "S range", expected, at_most(1, S.size), parameter, TILING_ERROR, (place, "empty"))


masked_causal_conv1d_backward = Operator(
    name="masked_causal_conv1d_backward",
    api="aclnnMaskedCausalConv1dBackward",
    about="gradients of a masked causal depthwise convolution over tokens",
    dims=(S, B, H, W),
    tensors=(
        Argument("gradY", "S B H"),
        Argument("x", "S B H"),
        Argument("weight", "W H", fan_in="W"),
        Argument("mask", "B S", dtype="bool", option="mask", alias="maskOptional"),
        result("gradX", "S B H", alias="gradXOut", contiguous=True),
        result("gradWeight", "W H", alias="gradWeightOut", contiguous=True),
    ),
    lead="gradY",
    options=(Option("mask", default=False),),
    dtypes={"950": ("bfloat16", "float16")},
    dtype="bfloat16",
    rules=(
        *not_null("gradY", "x", "weight", "gradX", "gradWeight"),
        dtype_supported("gradY", tiling=(14, "dtype")),
        dtype_same("x", "gradY", tiling=(15, "dtype")),
        dtype_same("weight", "gradY", tiling=(16, "dtype")),
        dtype_is("mask", "bool", tiling=(17, "dtype")),
        dtype_same("gradX", "gradY"),
        dtype_same("gradWeight", "gradY"),
        rank("gradY", 3, status=TILING_ERROR, tiling=(1, "rank")),
        in_range(B, "gradY", status=TILING_ERROR, tiling=(2, "batch")),
        product_at_most(("S", "B"), MOST_TOKENS, "gradY", status=TILING_ERROR, tiling=(3, "batch-times-seq")),
        in_range(H, "gradY", status=TILING_ERROR, tiling=(4, "hidden-range")),
        multiple(H, "gradY", status=TILING_ERROR, tiling=(5, "hidden-multiple")),
        rank("x", 3, status=TILING_ERROR, tiling=(6, "rank")),
        shape("x", status=TILING_ERROR, tiling=(7, "shape")),
        rank("weight", 2, status=TILING_ERROR, tiling=(8, "rank")),
        in_range(W, "weight", status=TILING_ERROR, tiling=(9, "width")),
        axis("weight", 1, "H", status=TILING_ERROR, tiling=(10, "columns")),
        rank("mask", 2, status=TILING_ERROR, tiling=(11, "rank")),
        axis("mask", 0, "B", status=TILING_ERROR, tiling=(12, "rows")),
        axis("mask", 1, "S", status=TILING_ERROR, tiling=(13, "columns")),
        ub_beyond(KEPT_BYTES, (18, "ub")),
        tokens_exist("gradY", 19),
    ),
    kernel=kernel,
    tiling=tiling,
    vendor_counters=vendor_counters,
    # The tiling keeps one row even where that does not fit, so the first call succeeds.
    overflow=SUCCESS,
    forward="masked_causal_conv1d",
    reference=reference,
    magnitude=of_magnitudes(reference),
    tolerance=tolerance,
)
