"""A masked, causal, depthwise convolution over tokens, of width 3.

Source: the vendor's document of aclnnMaskedCausalConv1d and its public host code and kernel (ops-transformer,
attention/masked_causal_conv1d), which unlike the backward's do not limit B by itself and look at dtypes before sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import Buffer, Kernel, Phase, Range, Size, Value, align
from tilesim.operators import (
    TILING_ERROR,
    Argument,
    Arrays,
    Call,
    Dimension,
    Numbers,
    Operator,
    Option,
    VendorTiling,
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
from tilesim.ops.masked_causal_conv1d_backward import (
    KEPT_BYTES,
    MOST_TOKENS,
    TAPS,
    TILING_KEYS,
    H,
    W,
    register,
    tolerance,
    widened,
)
from tilesim.program.sizes import maximum
from tilesim.program.units import BLOCK_BYTES, LANES

S, B = Dimension("S"), Dimension("B")
WORKSPACE_BYTES = 16 << 20
"""What the host code asks for."""


@dataclass(frozen=True)
class Grid:
    """The variant: shares of H, B and S, of which every core has one of each."""

    h: int
    b: int
    s: int

    @property
    def cores(self) -> int:
        """The cores that it uses."""
        return self.h * self.b * self.s


@functools.lru_cache(maxsize=1024)
def grid_of(columns: int, batches: int, tokens: int, cores: int) -> Grid:
    """The grid that the vendor's tiling takes: the first with most cores, with most shares of H, then of B."""
    best = Grid(1, 1, 1)
    for h in range(min(columns, cores), 0, -1):
        for b in range(min(batches, cores // h), 0, -1):
            grid = Grid(h, b, min(tokens, cores // h // b))
            best = max(best, grid, key=lambda g: g.cores)
            if best.cores == cores:
                return best
    return best


def variant(call: Call, chip: Chip) -> Grid:
    """The grid of a call, of one core for sizes that are not known or that it refuses."""
    dims = call.dims
    return grid_of(dims.get("H", 0) // LANES, dims.get("B", 0), dims.get("S", 0), chip.cores.vector)


def shares(call: Call, chip: Chip) -> dict[str, tuple[int, int, int]]:
    """(main share, tail share, number of main ones) [elements] of H, B and S."""
    grid, dims = variant(call, chip), call.dims
    out = {}
    for name, extent, parts, unit in (
        ("H", dims["H"] // LANES, grid.h, LANES),
        ("B", dims["B"], grid.b, 1),
        ("S", dims["S"], grid.s, 1),
    ):
        each, more = divmod(extent, parts)
        out[name] = ((each + (more > 0)) * unit, each * unit, more)
    return out


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """The tile of the vendor's tiling, whose buffers the program has, with those of a mask in any case.

    All batches and tokens of a core where one column of 64 fits, then as many columns as fit; else as many batches;
    else as many tokens of one batch.
    """
    (phase,) = call.operator.record(call, chip, variant(call, chip)).phases
    taken, room = phase.bytes("ub"), chip.memory.ub.visible_bytes - KEPT_BYTES
    parts = shares(call, chip)
    batches, tokens = parts["B"][0], parts["S"][0]

    def fits(h: int, b: int, s: int) -> bool:
        return bool(taken.bind({"columns": h, "batches": b, "rows": s}) <= room)

    if fits(LANES, batches, tokens):
        widest = min(parts["H"][:2])
        columns = last(lambda n: n * LANES <= widest and fits(n * LANES, batches, tokens), widest // LANES)
        return {"columns": columns * LANES, "batches": batches, "rows": tokens}
    if fits(LANES, 1, tokens):
        return {"columns": LANES, "batches": last(lambda b: fits(LANES, b, tokens), batches), "rows": tokens}
    return {"columns": LANES, "batches": 1, "rows": last(lambda s: fits(LANES, 1, s), tokens)}


def last(holds: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` for which something holds that holds for all smaller ones; 1 if none."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def kernel(k: Kernel) -> None:
    """Record the forward: cores share out H, B and S; tiles of S also read the two tokens before them.

    The results take the place of the rows of x. A token is masked after it is rounded, in its own dtype. Of the
    vendor's two slots for rows of the mask, the bits take one here, and their values in the dtype the other.
    """
    k.reserve("library", KEPT_BYTES, "left to the library by the tiling, as in the backward")
    x, weight = k["x"], k["weight"].reshape(TAPS, H.size)
    grid = k.variant if isinstance(k.variant, Grid) else Grid(1, 1, 1)
    with k.vector("forward") as p:
        columns, batches, rows = p.tile("columns", multiple_of=LANES), p.tile("batches"), p.tile("rows")
        for h in p.loop("h", H.size, columns, split=True, unit=LANES, shares=grid.h):
            taps = p.load(weight[:, h], name="weightIn")
            for b in p.loop("b", B.size, batches, split=True, shares=grid.b):
                for s in p.loop("s", S.size, rows, split=True, shares=grid.s, lead=TAPS - 1):
                    missing = TAPS - 1 - s.before
                    io = p.buffer("io", (s.size + TAPS - 1, b.size, h.size), k.dtype, slots=2)
                    p.load(x[s.with_halo(), b, h], out=io[missing:])
                    p.fill(0.0, out=io[:missing])
                    for i in p.loop("batch", b.size, carry=(io,)):
                        for c in p.loop("lanes", h.size, LANES, carry=(io,)):
                            lanes = Range(c.start, Size.of(LANES))
                            y = convolved(p, p.read(io[:, i.start, lanes]), taps[:, lanes], s.size)
                            p.vst(y, out=io[: s.size, i.start, lanes])
                    silence(p, k, io, (s, b, h), (rows, batches, columns))
                    p.store(p.read(io[: s.size]), k["out"][s, b, h])


def convolved(p: Phase, x: Value, taps: Value, rows: Size) -> Value:
    """The sum over taps in float32 registers, a row of 64 columns each, rounded to the dtype."""
    weights = [widened(p, f"w{tap}", taps[tap]) for tap in range(TAPS)]
    shifted = [widened(p, f"x{tap}", x[tap : rows + tap]) for tap in range(TAPS)]
    total, product = (register(p, name, "float32", rows, LANES) for name in ("total", "product"))
    y = p.mul(shifted[0], weights[0].over(rows), out=total)
    for tap in range(1, TAPS):
        y = p.add(y, p.mul(shifted[tap], weights[tap].over(rows), out=product), out=total)
    return p.cast(y, out=register(p, "out16", x.dtype, rows, LANES))


def silence(p: Phase, k: Kernel, io: Buffer, tile: tuple[Range, Range, Range], room: tuple[Size, Size, Size]) -> None:
    """Multiply the results by the mask; its buffers are counted without a mask too."""
    (s, b, h), (rows, batches, columns) = tile, room
    on, high = k.options["mask"], align(rows, BLOCK_BYTES)
    bits = p.buffer("maskIn", (b.size, s.size), "bool", slots=2, reserved=not on)
    values = p.buffer("maskRow", (b.size, s.size), k.dtype, allocated=(batches, high), reserved=not on)
    wide = (high, maximum(batches, columns))
    plane = p.buffer("maskPlane", (s.size, h.size), k.dtype, slots=2, allocated=wide, reserved=not on)
    if on:
        p.load(k["mask"][b, s], out=bits)
        p.move(p.cast(p.read(bits), out=values), out=values)
        for i in p.loop("masked", b.size, carry=(io,)):
            p.broadcast(p.read(values)[i.start], out=plane)
            p.mul(p.read(io[: s.size, i.start]), p.read(plane), out=io[: s.size, i.start])


AXIS_FIELDS = "CoreCnt MainCnt BlockFactor BlockTailFactor"
LOOP_FIELDS = "loopNum{} ubTailFactor{}", "tailBlockLoopNum{} tailBlockUbTailFactor{}"


def tiling(call: Call, chip: Chip, sizes: Mapping[str, int]) -> VendorTiling:
    """The 32 fields of the vendor's tiling."""
    grid, parts = variant(call, chip), shares(call, chip)
    factors = {"H": sizes["columns"], "B": sizes["batches"], "S": sizes["rows"]}
    data = {name: call.dims[name] for name in "SBH"}
    for name, (main, tail, count) in parts.items():
        values = (getattr(grid, name.lower()), count, main, tail)
        data |= {name.lower() + f: v for f, v in zip(AXIS_FIELDS.split(), values, strict=True)}
    data |= {f"ubFactor{name}": factor for name, factor in factors.items()}
    for i, fields in enumerate(LOOP_FIELDS):
        for name, factor in factors.items():
            share = parts[name][i]
            trips = -(-share // factor)
            data |= dict(zip(fields.format(name, name).split(), (trips, share - (trips - 1) * factor), strict=True))
    data |= {"realCoreNum": grid.cores, "isMaskNone": int(not call.options["mask"])}
    return VendorTiling(data, TILING_KEYS[call.dtype], grid.cores, WORKSPACE_BYTES)


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The convolution: tap k takes the token W-1-k before."""
    x, out = given["x"], np.zeros_like(given["x"])
    for tap in range(TAPS):
        before = min(TAPS - 1 - tap, len(x))
        out[before:] += given["weight"][tap] * x[: len(x) - before]
    return {"out": np.where(given["mask"].T[:, :, None], out, 0.0) if "mask" in given else out}


masked_causal_conv1d = Operator(
    name="masked_causal_conv1d",
    api="aclnnMaskedCausalConv1d",
    about="masked causal depthwise convolution over tokens",
    dims=(S, B, H, W),
    tensors=(
        Argument("x", "S B H"),
        Argument("weight", "W H", fan_in="W"),
        Argument("mask", "B S", dtype="bool", option="mask", alias="maskOptional"),
        result("out", "S B H"),
    ),
    lead="x",
    options=(Option("mask", default=False),),
    dtypes={"950": ("bfloat16", "float16")},
    dtype="bfloat16",
    rules=(
        *not_null("x", "weight", "out"),
        dtype_supported("x", tiling=(2, "dtype")),
        dtype_same("weight", "x", tiling=(3, "weight-dtype")),
        dtype_is("mask", "bool", tiling=(4, "mask-dtype")),
        dtype_same("out", "x"),
        rank("x", 3, status=TILING_ERROR, tiling=(1, "rank")),
        in_range(S, "x", status=TILING_ERROR, tiling=(5, "empty")),
        in_range(B, "x", status=TILING_ERROR, tiling=(6, "empty")),
        in_range(H, "x", status=TILING_ERROR, tiling=(7, "H-range")),
        product_at_most(("S", "B"), MOST_TOKENS, "x", status=TILING_ERROR, tiling=(8, "B*S")),
        multiple(H, "x", status=TILING_ERROR, tiling=(9, "H-multiple")),
        rank("weight", 2, status=TILING_ERROR, tiling=(10, "weight-rank")),
        in_range(W, "weight", status=TILING_ERROR, tiling=(11, "weight-rows")),
        axis("weight", 1, "H", status=TILING_ERROR, tiling=(12, "weight-columns")),
        rank("mask", 2, status=TILING_ERROR, tiling=(13, "mask-rank")),
        axis("mask", 0, "B", status=TILING_ERROR, tiling=(14, "mask-rows")),
        axis("mask", 1, "S", status=TILING_ERROR, tiling=(15, "mask-columns")),
        shape("out", status=TILING_ERROR),
        ub_beyond(KEPT_BYTES, (16, "ub")),
    ),
    kernel=kernel,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    reference=reference,
    magnitude=of_magnitudes(reference),
    tolerance=tolerance,
)
