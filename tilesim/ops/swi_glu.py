"""The gated unit x0 * sigmoid(x0) * x1 of the two halves of `x` along one axis.

Source: the vendor's public host code and kernel (ops-nn, activation/swi_glu), one tiling for all of its products.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, Kernel, Range
from tilesim.operators import (
    FAMILY,
    TILING_ERROR,
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    OneOf,
    Operator,
    VendorTiling,
    axis_exists,
    dtype_same,
    dtype_supported,
    logistic,
    not_null,
    rank,
    result,
    shape,
)
from tilesim.ops import _strips
from tilesim.ops._strips import (
    ROW,
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

WITH_BFLOAT16 = ("float32", "float16", "bfloat16")
DTYPES = {"950": WITH_BFLOAT16, "a3": WITH_BFLOAT16, "a2": WITH_BFLOAT16, "inference": ("float32", "float16")}
KEY_OF_EMPTY = 100


def empty(call: Call) -> bool:
    """Whether there are no elements; sizes that are not known are some."""
    return 0 in call.dims.values()


def variant(call: Call, chip: Chip) -> str | Strips:
    """EMPTY without elements; else tiles of two slots, or of one where that spares every core its second tile."""
    return EMPTY if empty(call) else _strips.variant(call, chip)


def kernel(k: Kernel) -> None:
    """Record the phase; nothing is launched without elements."""
    if not isinstance(k.variant, Strips):
        k.route = EMPTY
        return
    x, y, slots = k["x"].reshape(X.size, 2 * ROW), k["y"].reshape(X.size, ROW), k.variant.slots
    with k.vector("swi_glu") as p:
        full = tile_sizes(p)
        ones = p.fill(1.0, out=p.buffer("ones", full)) if k.dtype == "float32" else None
        for t in strip_tiles(p, *full):
            size = (t.rows, t.size)
            gate = p.load(x[t.strip, t], out=p.buffer("gateIn", size, k.dtype, slots=slots))
            second = Range(t.start + ROW, t.size)
            value = p.load(x[t.strip, second], out=p.buffer("valueIn", size, k.dtype, slots=slots))
            out = p.buffer("yOut", size, k.dtype, slots=slots)
            if ones is not None:
                e = p.adds(p.exp(p.muls(gate, -1.0, out=out), out=out), 1.0, out=out)
                silu = p.mul(p.div(ones[: t.rows, : t.size], e, out=out), gate, out=out)
                product = p.mul(silu, value, out=out)
            else:
                wide, work = (p.buffer(n, size, allocated=room(*full, k.dtype)) for n in ("wide", "work"))
                gate = p.cast(gate, out=wide)
                e = p.adds(p.exp(p.muls(gate, -1.0, out=work), out=work), 1.0, out=work)
                silu = p.div(gate, e, out=work)
                product = p.cast(p.mul(silu, p.cast(value, out=wide), out=work), out=out)
            p.store(product, y[t.strip, t])


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """Rows and columns of a tile, as the vendor's tiling has them."""
    return {} if empty(call) else _strips.tiles(call, chip)


def tiling(call: Call, chip: Chip, _: Mapping[str, int]) -> VendorTiling:
    """The 14 fields of the vendor's tiling; none without elements, for which every core is launched and returns."""
    return VendorTiling({}, KEY_OF_EMPTY, chip.cores.vector, 0) if empty(call) else _strips.tiling(call, chip)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The unit in float64."""
    first, second, _ = parted(given["x"], numbers)
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
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("x", "y"),
        dtype_supported("x", tiling=(1, "dtype on 310P"), everywhere=True),
        dtype_same("y", "x"),
        rank("x", 1, 8),
        axis_exists("dim", "x", status=TILING_ERROR, tiling=(2, "dim")),
        halves("x", "x", 3),
        columns_of_inference("x", 4),
        elements_exist("x", 5, OneOf(FAMILY, ("950",))),
        shape("y"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    kernel_names=("SwiGlu",),
    accuracy_class="glu",
)
