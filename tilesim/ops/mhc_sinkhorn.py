"""Sinkhorn's normalisation: softmax of the rows of small matrices, then columns and rows divided by their sums in turn.

Source: the vendor's document of aclnnMhcSinkhorn, and its public host code (ops-transformer 577814407,
mhc/mhc_sinkhorn and mhc_sinkhorn_common) for the tiling. Step 0 is saved as the softmax without eps, although the
document writes softmax + eps; the sums of step 0 are never written. The strings of the vendor's tiling test are those
of mhc_post; its folder says 50..200 iterations and 2-D matrices, which the code does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import REGISTERS, Buffer, Kernel, Phase, Range, Size, attribute
from tilesim.operators import (
    PARAM_INVALID,
    SUCCESS,
    Argument,
    Arrays,
    Attribute,
    Call,
    Numbers,
    Operator,
    Option,
    Tolerance,
    VendorTiling,
    about,
    dtype_same,
    dtype_supported,
    in_range,
    not_null,
    rank,
    result,
    shape,
    sizes_exist,
    whole_group,
)
from tilesim.ops._sinkhorn import (
    ITERATIONS,
    LANES,
    ONE_OF_THREE,
    SAVED_NORM,
    SAVED_SUM,
    SIDE,
    TOKENS,
    K,
    N,
    T,
    keep_back,
    loops_of,
    row,
    rows_of,
    tile_of,
    tiles_of,
)
from tilesim.ops.mhc_sinkhorn_backward import mhc_sinkhorn_backward

EPS = attribute("eps")


def kernel(k: Kernel) -> None:
    """Record softmax, columns, then rows and columns for every further iteration, in place on a tile of tokens.

    The sums of columns are gathered in the step before the one that divides by them.
    """
    keep_back(k)
    saving = k.options["out_flag"]
    with k.vector("sinkhorn", "8 tokens in a register") as p:
        tokens = p.tile("tokens")
        for t in p.loop("token", T, tokens, split="block"):
            x_in = p.buffer("xIn", (t.size, N, N), slots=2, allocated=(tokens, N, N))
            norm = p.buffer("norm", (N * t.size, LANES), slots=2, allocated=(N * tokens, LANES))
            column_sums = p.buffer("columnSums", (t.size, LANES), slots=2)
            row_sums = p.buffer("rowSums", N * t.size, slots=2, allocated=(LANES * tokens,)) if saving else None
            total = p.buffer("total", (t.size, N), space=REGISTERS)
            matrices = p.load(k["x"].reshape(T, N, N)[t], out=x_in)
            p.fill(0.0, out=norm)
            p.fill(0.0, out=column_sums)
            p.fill(0.0, out=total)
            for i in p.loop("softmax", N, carry=(norm, total)):
                values = row(p, "row", matrices[:, i.start])
                values = p.sub_rows(values, p.row_max(values, out=lanes(p, "most", t)), out=values)
                values = p.exp(values, out=values)
                values = p.div_rows(values, p.row_sum(values, out=lanes(p, "sum", t)), out=values)
                p.vst(values, out=norm[rows_of(t, i), :N])
                p.add(p.read(total), p.adds(values, EPS, out=values), out=total)
            p.vst(p.read(total), out=column_sums[:, :N])
            save_norm(k, p, t, Size.of(0), norm)
            columns(k, p, t, Size.of(1), norm, column_sums)
            for s in p.loop("iteration", K - 1, carry=(norm, column_sums, total)):
                p.fill(0.0, out=total)
                for i in p.loop("row", N, carry=(norm, total, *((row_sums,) if row_sums else ()))):
                    values = row(p, "row", p.read(norm[rows_of(t, i), :N]))
                    sums = p.adds(p.row_sum(values, out=lanes(p, "sum", t)), EPS, out=lanes(p, "divisor", t))
                    if row_sums:
                        p.vst(sums, out=row_sums[rows_of(t, i)])
                    values = p.div_rows(values, sums, out=values)
                    p.vst(values, out=norm[rows_of(t, i), :N])
                    p.add(p.read(total), values, out=total)
                p.vst(p.read(total), out=column_sums[:, :N])
                save_norm(k, p, t, 2 * s.start + 2, norm)
                if row_sums:
                    start = LANES * (2 * K * t.start + (2 * s.start + 2) * t.size)
                    p.store(p.read(row_sums), k["sum_out"][Range(start, N * t.size)])
                columns(k, p, t, 2 * s.start + 3, norm, column_sums)
            out = p.buffer("yOut", (t.size, N, N), slots=2, allocated=(tokens, N, N))
            for i in p.loop("out", N, carry=(out,)):
                p.vst(row(p, "row", p.read(norm[rows_of(t, i), :N])), out=out[:, i.start])
            p.store(p.read(out), k["y"].reshape(T, N, N)[t])


def lanes(p: Phase, name: str, t: Range) -> Buffer:
    """A value of every matrix of a tile, in registers."""
    return p.buffer(name, t.size, space=REGISTERS)


def columns(k: Kernel, p: Phase, t: Range, step: Size, norm: Buffer, sums: Buffer) -> None:
    """Columns divided by their sums plus eps; eps is added to the softmax before its first division."""
    divisor = row(p, "divisor", p.read(sums[:, :N]))
    divisor = p.adds(divisor, EPS, out=divisor)
    if k.options["out_flag"]:
        p.vst(divisor, out=sums[:, :N])
    for i in p.loop("column", N, carry=(norm,)):
        values = row(p, "row", p.read(norm[rows_of(t, i), :N]))
        if step.constant == 1:
            values = p.adds(values, EPS, out=values)
        p.vst(p.div(values, divisor, out=values), out=norm[rows_of(t, i), :N])
    save_norm(k, p, t, step, norm)
    if k.options["out_flag"]:
        saved = k["sum_out"].reshape(2 * K * T, LANES)
        p.store(p.read(sums), saved[Range(2 * K * t.start + step * t.size, t.size)])


def save_norm(k: Kernel, p: Phase, t: Range, step: Size, norm: Buffer) -> None:
    """Store the matrices of a tile after a step, where they are wanted."""
    if k.options["out_flag"]:
        saved = k["norm_out"].reshape(2 * K * T * N, LANES)
        p.store(p.read(norm), saved[Range(2 * K * N * t.start + step * N * t.size, N * t.size)])


def tokens_of_a_tile(call: Call, chip: Chip) -> int:
    """The smaller tile of the forward, of 8 tokens at least, and of the backward."""
    backward = tile_of(call, chip, mhc_sinkhorn_backward.record(call, chip, ""))
    return min(max(tile_of(call, chip, call.operator.record(call, chip, "")), LANES), backward)


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """The vendor's tile; a token where the vendor's is none."""
    return {"tokens": max(tokens_of_a_tile(call, chip), 1)}


def tiling(call: Call, chip: Chip, _: Mapping[str, int]) -> VendorTiling:
    """The 11 fields of the vendor's tiling. Source: its host code, mhc/mhc_sinkhorn."""
    tokens, flag, tile = call.dims["T"], int(call.options["out_flag"]), tokens_of_a_tile(call, chip)
    each = -(-tokens // chip.cores.vector)
    used = -(-tokens // each)
    (loops, rest), (tail_loops, tail_rest) = (loops_of(share, tile) for share in (each, tokens - each * (used - 1)))
    data = {
        "eps": call.attributes["eps"],
        "num_iters": call.dims["num_iters"],
        "out_flag": flag,
        "n": call.dims["N"],
        "usedCoreNum": used,
        "tNormCoreLoop": loops,
        "tUbFactor": tile,
        "tUbFactorTail": rest,
        "tTailCoreLoop": tail_loops,
        "tUbTailTail": tail_rest,
        "tNormCore": each,
    }
    return VendorTiling(data, None, used, 0, template=(flag,))


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """y, and what is saved in the layout of the plan's split; NaN where nothing is written and in padding."""
    x, eps, iterations = given["x"], float(np.float32(numbers["eps"])), int(numbers["num_iters"])
    side = x.shape[-1]
    own = np.exp(x - x.max(axis=-1, keepdims=True)).reshape(-1, side, side)
    own /= own.sum(axis=-1, keepdims=True)
    norms, sums = [own], [np.full(own.shape[:2], np.nan)]
    own = own + eps
    for step in range(1, 2 * iterations):
        by = own.sum(axis=1 if step % 2 else 2, keepdims=True) + eps
        own = own / by
        norms.append(own)
        sums.append(by.reshape(-1, side))
    norm_out, sum_out = (np.full(2 * iterations * len(own) * lanes, np.nan) for lanes in (LANES * side, LANES))
    for start, size in tiles_of(numbers):
        tile = slice(start, start + size)
        for step, (norm, total) in enumerate(zip(norms, sums, strict=True)):
            at = LANES * (2 * iterations * start + step * size)
            block = norm_out[at * side :][: size * side * LANES].reshape(side, size, LANES)
            block[..., :side] = norm[tile].transpose(1, 0, 2)
            if step % 2:
                sum_out[at:][: size * LANES].reshape(size, LANES)[:, :side] = total[tile]
            else:
                sum_out[at:][: size * side] = total[tile].T.ravel()
    return {"y": own.reshape(x.shape), "norm_out": norm_out, "sum_out": sum_out}


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """What the absolute error is a share of: one and 10 of the values, of sums two."""
    out = reference(given, numbers)
    return {n: np.full_like(v, 2.0) if n == "sum_out" else 1 + 10 * v for n, v in out.items()}


def tolerance(_: str, __: Kernel) -> Tolerance:
    """Source: 4.4e-7 and 1.0e-5 of the value measured at 100 iterations in float32; sums 5.8e-7."""
    return Tolerance("float32, step by step", ulps=0.0, share=2e-6)


mhc_sinkhorn = Operator(
    name="mhc_sinkhorn",
    api="aclnnMhcSinkhorn",
    about="Sinkhorn's normalisation of small matrices",
    dims=(TOKENS, SIDE, ITERATIONS),
    tensors=(
        Argument("x", "*T N N"),
        result("y", "*T N N", alias="output"),
        result("norm_out", SAVED_NORM, option="out_flag", alias="normOut", unwanted=(1,)),
        result("sum_out", SAVED_SUM, option="out_flag", alias="sumOut", unwanted=(1,)),
    ),
    lead="x",
    options=(Option("out_flag", default=False, words=("0", "1")),),
    attributes=(Attribute("eps", default=1e-6), Attribute("num_iters", dim="num_iters", alias="numIters")),
    dtypes={"950": ("float32",)},
    dtype="float32",
    rules=(
        whole_group("out_flag", ("norm_out", "sum_out"), status=PARAM_INVALID),
        *not_null("x", "y"),
        dtype_supported("x", tiling=(3, "dtype")),
        *(dtype_same(name, "x", tiling=(4, "dtype")) for name in ("y", "norm_out", "sum_out")),
        shape("y", tiling=(12, "shape")),
        in_range(ITERATIONS, "num_iters", tiling=(1, "num_iters")),
        rank("x", 3, 4, tiling=(6, "rank")),
        sizes_exist("x"),
        shape("x", tiling=(7, "square")),
        about(N, "n", "4, 6 or 8", ONE_OF_THREE, "x", PARAM_INVALID, (8, "n")),
        shape("norm_out", tiling=(13, "length")),
        shape("sum_out", tiling=(14, "length")),
        in_range(TOKENS, "x", tiling=(5, "empty")),
    ),
    kernel=kernel,
    tiles=tiles,
    tiling=tiling,
    # The tiling takes a tile of no tokens where none fits.
    overflow=SUCCESS,
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
    kernel_names=("MhcSinkhorn",),
)
