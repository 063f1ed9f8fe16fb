"""Gradient of Sinkhorn's normalisation, from the normalised matrices and sums that its forward saved of every step.

Source: the vendor's document of aclnnMhcSinkhornBackward, and its public host code (ops-transformer 577814407,
mhc/mhc_sinkhorn_backward and mhc_sinkhorn_common). What is saved must come from a forward with the same split over
cores and tiles: another layout is misread without an error. The vendor's kernel copies the sums of rows in n padded
copies where a tile is no multiple of 8 tokens, which by reading overruns its slot (n = 8: for every such tile); here
they are one copy of n values a token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, REGISTERS, Buffer, Kernel, Phase, Range, Size, Value
from tilesim.operators import (
    INNER_NULLPTR,
    PARAM_INVALID,
    SUCCESS,
    UNKNOWN,
    Argument,
    Arrays,
    Call,
    Numbers,
    Operator,
    Rule,
    Texts,
    Tolerance,
    VendorTiling,
    about,
    absent,
    any_of,
    dtype_same,
    dtype_supported,
    elements,
    equal,
    in_range,
    not_null,
    rank,
    result,
    shape,
    shape_of,
    sizes_exist,
    unknown,
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


def kernel(k: Kernel) -> None:
    """Record the steps of the forward from the last to the first, on the gradient in its dense form.

    The tiling counts what is saved twice: once for the steps of the loop and once for the first two.
    """
    keep_back(k)
    if k.variant == EMPTY:
        k.route = EMPTY
        return
    grad_y, grad_input = (k[name].reshape(T, N, N) for name in ("grad_y", "grad_input"))
    with k.vector("backward", "8 tokens in a register") as p:
        tokens = p.tile("tokens")
        for t in p.loop("token", T, tokens, split="block"):
            grad = p.buffer("gradYIn", (t.size, N, N), slots=2, allocated=(tokens, N, N))
            p.load(grad_y[t], out=grad)
            norm, first = (
                p.buffer(name, (N * t.size, LANES), slots=2, allocated=(N * tokens, LANES))
                for name in ("normIn", "firstNormIn")
            )
            column_sums = p.buffer("columnSumIn", (t.size, LANES), slots=2)
            row_sums = p.buffer("rowSumIn", N * t.size, slots=2, allocated=(LANES * tokens,))
            for s in p.loop("iteration", K - 1, carry=(grad, column_sums)):
                columns(k, p, t, 2 * K - 1 - 2 * s.start, grad, norm, column_sums)
                rows(k, p, t, 2 * K - 2 - 2 * s.start, grad, norm, row_sums)
            columns(k, p, t, Size.of(1), grad, first, column_sums)
            out = p.buffer("gradInputOut", (t.size, N, N), slots=2, allocated=(tokens, N, N))
            saved = load_norm(k, t, Size.of(0), p, first)
            for i in p.loop("softmax", N, carry=(out,)):
                g, n = row(p, "grad", p.read(grad[:, i.start])), row(p, "norm", saved[rows_of(t, i), :N])
                g = p.sub_rows(g, inner(p, g, n), out=g)
                p.vst(p.mul(g, n, out=g), out=out[:, i.start])
            p.store(p.read(out), grad_input[t])


def load_norm(k: Kernel, t: Range, step: Size, p: Phase, out: Buffer) -> Value:
    """The matrices of a tile after a step."""
    saved = k["norm"].reshape(2 * K * T * N, LANES)
    return p.load(saved[Range(2 * K * N * t.start + step * N * t.size, N * t.size)], out=out)


def inner(p: Phase, g: Value, n: Value) -> Value:
    """The sum of g*n over every row."""
    product = p.mul(g, n, out=p.buffer("product", g.shape, space=REGISTERS))
    return p.row_sum(product, out=p.buffer("inner", g.shape[0], space=REGISTERS))


def columns(k: Kernel, p: Phase, t: Range, step: Size, grad: Buffer, norm: Buffer, sums: Buffer) -> None:
    """The gradient of a division by the sums of columns: (g - sum of g*N over rows) / S."""
    saved = load_norm(k, t, step, p, norm)
    divisor = p.load(k["sum"].reshape(2 * K * T, LANES)[Range(2 * K * t.start + step * t.size, t.size)], out=sums)
    total = p.buffer("total", (t.size, N), space=REGISTERS)
    p.fill(0.0, out=total)
    for i in p.loop("add", N, carry=(total,)):
        g, n = row(p, "grad", p.read(grad[:, i.start])), row(p, "norm", saved[rows_of(t, i), :N])
        p.add(p.read(total), p.mul(g, n, out=g), out=total)
    by = row(p, "sum", divisor[:, :N])
    for i in p.loop("divide", N, carry=(grad,)):
        g = row(p, "grad", p.read(grad[:, i.start]))
        p.vst(p.div(p.sub(g, p.read(total), out=g), by, out=g), out=grad[:, i.start])


def rows(k: Kernel, p: Phase, t: Range, step: Size, grad: Buffer, norm: Buffer, sums: Buffer) -> None:
    """The gradient of a division by the sums of rows: (g - sum of g*N over columns) / S."""
    saved = load_norm(k, t, step, p, norm)
    divisor = p.load(k["sum"][Range(LANES * (2 * K * t.start + step * t.size), N * t.size)], out=sums)
    for i in p.loop("row", N, carry=(grad,)):
        g, n = row(p, "grad", p.read(grad[:, i.start])), row(p, "norm", saved[rows_of(t, i), :N])
        g = p.sub_rows(g, inner(p, g, n), out=g)
        p.vst(p.div_rows(g, row(p, "sum", divisor[rows_of(t, i)]), out=g), out=grad[:, i.start])


def variant(call: Call, _: Chip) -> str:
    """EMPTY without tokens."""
    return "" if call.dims.get("T", 1) else EMPTY


def tokens_of_a_tile(call: Call, chip: Chip) -> int:
    """The tile of the forward and the backward: the backward needs more bytes."""
    return tile_of(call, chip, call.operator.record(call, chip, ""))


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """The vendor's tile; a token where the vendor's is none."""
    return {"tokens": max(tokens_of_a_tile(call, chip), 1)}


def tiling(call: Call, chip: Chip, _: Mapping[str, int]) -> VendorTiling:
    """The 16 fields of the vendor's tiling. Source: its host code, mhc/mhc_sinkhorn_backward."""
    tokens, side = call.dims["T"], call.dims["N"]
    if not tokens:
        return VendorTiling(None, None, 0, 0)
    spec, tile = call.spec("grad_y"), tokens_of_a_tile(call, chip)
    batch = spec.shape[:2] if spec and len(spec.shape) == 4 else (0, 0)
    each = -(-tokens // chip.cores.vector)
    used = -(-tokens // each)
    last = tokens - each * (used - 1)
    (loops, rest), (tail_loops, tail_rest) = (loops_of(share, tile) for share in (each, last))
    data = {
        "totalLength": tokens,
        "tSize": 0 if any(batch) else tokens,
        "bSize": batch[0],
        "sSize": batch[1],
        "nSize": side,
        "nAlignSize": LANES,
        "numIters": call.dims["num_iters"],
        "needCoreNum": used,
        "coreTSize": each,
        "normCoreTLoops": loops,
        "normCorePerLoopTSize": tile,
        "normCoreLastLoopTSize": rest,
        "tailCoreTSize": last,
        "tailCoreLoops": tail_loops,
        "tailCorePerLoopTSize": tile,
        "tailCoreLastLoopTSize": tail_rest,
    }
    return VendorTiling(data, None, used, 0, template=(0,))


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The gradient from what was saved, in the layout of the plan's split."""
    g = given["grad_y"]
    side, steps = g.shape[-1], 2 * int(numbers["num_iters"])
    out = np.empty((int(numbers["T"]), side, side))
    for start, size in tiles_of(numbers):
        at, tile = start * steps * LANES, slice(start, start + size)
        norm = given["norm"][at * side :][: size * steps * side * LANES].reshape(steps, side, size, LANES)[..., :side]
        sums = given["sum"][at:][: size * steps * LANES].reshape(steps, size * LANES)
        own = g.reshape(out.shape)[tile].transpose(1, 0, 2)  # [row, token, column], as it is saved
        for step in range(steps - 1, 0, -1):
            if step % 2:
                by = sums[step].reshape(1, size, LANES)[..., :side]
                own = (own - (own * norm[step]).sum(axis=0)) / by
            else:
                by = sums[step, : size * side].reshape(side, size, 1)
                own = (own - (own * norm[step]).sum(axis=2, keepdims=True)) / by
        own = (own - (own * norm[0]).sum(axis=2, keepdims=True)) * norm[0]
        out[tile] = own.transpose(1, 0, 2)
    return {"grad_input": out.reshape(g.shape)}


def magnitude(given: Arrays, numbers: Numbers) -> Arrays:
    """What the absolute error is a share of: at least one, and 10 of the gradient."""
    (out,) = reference(given, numbers).values()
    return {"grad_input": np.maximum(1.0, abs(given["grad_y"]).max(initial=0.0) / 4) + 5 * abs(out)}


def tolerance(_: str, __: Kernel) -> Tolerance:
    """Source: 8.2e-7 measured at 100 iterations in float32."""
    return Tolerance("float32, step by step", ulps=0.0, share=4e-6)


def saved(name: str, part: Size, ranked: int, sized: int) -> tuple[Rule, Rule]:
    """The rules of the tiling, in its places, that a saved tensor has one axis, of `part` for every iteration."""
    size = elements(shape_of(name))
    free = any_of(absent(name), unknown("T", "N"), equal(T, 0), equal(N, 0))
    whole = ~unknown("num_iters") & equal(size, part * K)

    def texts(call: Call, _: Chip) -> Texts:
        spec = call.spec(name)
        known = spec is not None and part.names() <= call.dims.keys()
        expected = f"{part.bind(call.dims)} for each iteration" if known else f"{part} for each iteration"
        return Texts(expected, str(math.prod(spec.shape)) if spec else UNKNOWN)

    return (
        rank(name, 1, status=INNER_NULLPTR, tiling=(ranked, "rank")),
        Rule(f"{name} length", INNER_NULLPTR, free | whole, name, texts, (sized, "length")),
    )


mhc_sinkhorn_backward = Operator(
    name="mhc_sinkhorn_backward",
    api="aclnnMhcSinkhornBackward",
    about="gradient of Sinkhorn's normalisation of small matrices",
    dims=(replace(TOKENS, least=0), SIDE, ITERATIONS),
    tensors=(
        Argument("grad_y", "*T N N", alias="gradOutput"),
        Argument("norm", SAVED_NORM, alias="normOut"),
        Argument("sum", SAVED_SUM, alias="sumOut"),
        result("grad_input", "*T N N", alias="out"),
    ),
    lead="grad_y",
    dtypes={"950": ("float32",)},
    dtype="float32",
    rules=(
        *not_null("grad_y", "norm", "sum", "grad_input"),
        dtype_supported("grad_y", tiling=(1, "dtype")),
        dtype_same("norm", "grad_y", tiling=(2, "dtype")),
        dtype_same("sum", "grad_y", tiling=(3, "dtype")),
        dtype_same("grad_input", "grad_y", tiling=(4, "dtype")),
        shape("grad_input"),
        rank("grad_y", 3, 4, tiling=(7, "rank")),
        sizes_exist("grad_y"),
        shape("grad_y", tiling=(11, "square")),
        about(N, "n", "4, 6 or 8", ONE_OF_THREE, "grad_y", PARAM_INVALID, (8, "n")),
        in_range(ITERATIONS, "norm", status=INNER_NULLPTR, tiling=(10, "num_iters")),
        *saved("norm", 2 * LANES * T * N, 5, 12),
        *saved("sum", 2 * LANES * T, 6, 13),
    ),
    kernel=kernel,
    variant=variant,
    tiles=tiles,
    tiling=tiling,
    # The tiling takes a tile of no tokens where none fits.
    overflow=SUCCESS,
    forward="mhc_sinkhorn",
    reference=reference,
    magnitude=magnitude,
    tolerance=tolerance,
    kernel_names=("MhcSinkhornBackward",),
)
