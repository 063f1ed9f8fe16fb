"""A masked, causal, depthwise convolution over tokens, of width 3.

Source: the vendor's document of aclnnMaskedCausalConv1d (ops-transformer, attention/masked_causal_conv1d), which unlike
the backward's does not limit B by itself. The order of its tiling checks is taken from the backward.
"""

from __future__ import annotations

import numpy as np

from tilesim.kernels import Kernel, Phase, Size, Value
from tilesim.operators import (
    TILING_ERROR,
    Argument,
    Arrays,
    Dimension,
    Numbers,
    Operator,
    Option,
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
    H,
    S,
    W,
    mask_plane,
    register,
    tokens_exist,
    tolerance,
    widened,
)
from tilesim.program.units import LANES

B = Dimension("B")


def kernel(k: Kernel) -> None:
    """Record the forward: cores take blocks of 64 columns of a sequence in turn, in which tiles of S are equal.

    A tile also reads the two tokens before it, which are zero before the first token. Every token is masked before it
    is rounded, so that an infinite token becomes zero.
    """
    k.reserve("library", KEPT_BYTES, "left to the library by the tiling, as in the backward")
    x, weight = k["x"], k["weight"].reshape(TAPS, H.size)
    with k.vector("forward") as p:
        rows = p.tile("rows", S.size)
        for h in p.loop("h", H.size, LANES, split="cyclic", unit=LANES, rows=B.size):
            taps = p.load(weight[:, h], name="weightIn")
            for s in p.loop("s", S.size, rows, even=True, lead=TAPS - 1):
                missing = TAPS - 1 - s.before
                x_in = p.buffer("xIn", (s.size + TAPS - 1, LANES), k.dtype, slots=2)
                p.load(x[s.with_halo(), h.row, h], out=x_in[missing:])
                p.fill(0.0, out=x_in[:missing])
                plane = None
                if k.options["mask"]:
                    plane = mask_plane(p, k["mask"][h.row, s], k.dtype, s.size, s.size)
                p.store(convolved(p, p.read(x_in), taps, plane, s.size), k["out"][s, h.row, h])


def convolved(p: Phase, x: Value, taps: Value, plane: Value | None, rows: Size) -> Value:
    """The sum over taps, times the mask, computed in float32 registers, a row of 64 columns each."""
    weights = [widened(p, f"w{tap}", taps[tap]) for tap in range(TAPS)]
    shifted = [widened(p, f"x{tap}", x[tap : rows + tap]) for tap in range(TAPS)]
    total = register(p, "total", "float32", rows, LANES)
    y = p.mul(shifted[0], weights[0].over(rows), out=total)
    for tap in range(1, TAPS):
        y = p.madd(shifted[tap], weights[tap].over(rows), out=total)
    if plane is not None:
        y = p.mul(y, widened(p, "mask", plane), out=total)
    narrow = p.cast(y, out=register(p, "out16", x.dtype, rows, LANES))
    return p.vst(narrow, out=p.buffer("out", (rows, LANES), x.dtype, slots=2))


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
        dtype_supported("x", tiling=(12, "dtype")),
        dtype_same("weight", "x", tiling=(13, "dtype")),
        dtype_is("mask", "bool", tiling=(14, "dtype")),
        dtype_same("out", "x"),
        rank("x", 3, status=TILING_ERROR, tiling=(1, "rank")),
        in_range(B, "x", status=TILING_ERROR, tiling=(2, "batch")),
        product_at_most(("S", "B"), MOST_TOKENS, "x", status=TILING_ERROR, tiling=(3, "batch-times-seq")),
        in_range(H, "x", status=TILING_ERROR, tiling=(4, "hidden-range")),
        multiple(H, "x", status=TILING_ERROR, tiling=(5, "hidden-multiple")),
        rank("weight", 2, status=TILING_ERROR, tiling=(6, "rank")),
        in_range(W, "weight", status=TILING_ERROR, tiling=(7, "width")),
        axis("weight", 1, "H", status=TILING_ERROR, tiling=(8, "columns")),
        rank("mask", 2, status=TILING_ERROR, tiling=(9, "rank")),
        axis("mask", 0, "B", status=TILING_ERROR, tiling=(10, "rows")),
        axis("mask", 1, "S", status=TILING_ERROR, tiling=(11, "columns")),
        shape("out", status=TILING_ERROR),
        ub_beyond(KEPT_BYTES, (15, "ub")),
        tokens_exist("x", 16),
    ),
    kernel=kernel,
    reference=reference,
    magnitude=of_magnitudes(reference),
    tolerance=tolerance,
)
