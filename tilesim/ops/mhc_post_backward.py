"""Gradients of the mixing of channels of a manifold hyper-connection after a layer.

Source: the vendor's document of aclnnMhcPostBackward, and its public host code (ops-transformer 577814407,
mhc/mhc_post_backward) for the tiling. Without h_res, grad_h_res is computed by the same formula. On A2 and A3 the
tiling takes any n and D: their ranges are checks of the first call alone. The vendor's 950 kernel multiplies offsets in
32 bits, so that tensors of 2^32 elements wrap around; its A2 kernel rounds halves away from zero, this one to even.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import REGISTERS, Buffer, Kernel, Phase, Size, Value, View, align, matmul
from tilesim.operators import (
    INNER_NULLPTR,
    PARAM_INVALID,
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
    in_range,
    not_null,
    null,
    of_magnitudes,
    rank,
    result,
    shape,
    sizes_exist,
    within,
)
from tilesim.ops.mhc_post import ON_950, STEP, D, N, T

TOKENS, CHANNELS, FEATURES = (Dimension(name) for name in ("T", "N", "D"))
BLOCK = 16
"""Columns of 16 bits in a block of 32 bytes."""
MOST_FEATURES = 100_000
MOST_COLUMNS = 1024
"""Columns of a piece on A2 and A3, whatever the unified buffer."""
MATMUL = "matmulTiling"
NOT_PUBLIC = "a structure of the library, whose rule is not public: n x n x D, 16-bit, B transposed, float32 result"


def kernel(k: Kernel) -> None:
    """Record the kernel of 950, on both kinds of cores, or that of A2 and A3, on vector cores alone."""
    if not k.registers:
        on_vector_cores(k)
        return
    x, grad_y, grad_h_res = k["x"].reshape(T, N, D), k["grad_y"].reshape(T, N, D), k["grad_h_res"].reshape(T, N, N)
    note = "a product for each token; the vendor's vector cores do not wait for them"
    matmul(k, "product", x, grad_y, grad_h_res, transpose_b=True, batched=True, note=note)
    grad_x, h_out, h_post = k["grad_x"].reshape(T, N, D), k["h_out"].reshape(T, D), k["h_post"].reshape(T, N)
    mixed, weights = k.options["h_res"], None
    with k.vector("gradients", "computes in registers, nothing is double-buffered") as p:
        columns = p.tile("columns", multiple_of=BLOCK)
        res_in = p.buffer("hResIn", (N, N), allocated=(N, N), reserved=not mixed)
        p.buffer("hResSpare", (N, N), allocated=(N, N), reserved=True)  # the tiling counts it, the kernel has none
        p.buffer("halves", columns, reserved=True)  # of the halving sum, which is one instruction here
        for t in p.loop("token", T, split=True):
            post = p.load(h_post[t.start], name="hPostIn", slots=1)
            if mixed:
                weights = p.load(k["h_res"].reshape(T, N, N)[t.start], out=res_in)
            post_sums, sums = p.buffer("gradHPostOut", N), p.buffer("sums", (N, 1), allocated=(align(N, 8), 1))
            p.fill(0.0, out=post_sums)
            for c in p.loop("column", D, columns, carry=(post_sums,)):
                out_in = p.load(h_out[t.start, c], name="hOutIn", slots=1)
                grad_in = p.load(grad_y[t.start, :, c], name="gradYIn", slots=1)
                grad = p.cast(grad_in, dtype="float32", name="gradY32")
                out32, product = p.cast(out_in, dtype="float32", name="hOut32"), p.buffer("product", c.size)
                for i in p.loop("i", N, carry=(sums,)):
                    p.row_sum(p.mul(grad[i.start], out32, out=product), out=sums[i.start])
                p.add(p.read(post_sums), p.read(sums)[:, 0], out=post_sums)
                out = p.buffer("gradHOutOut", c.size, k.dtype)
                p.store(weighted(p, grad, post, out), k["grad_h_out"].reshape(T, D)[t.start, c])
                x_out = p.buffer("gradXOut", (N, c.size), k.dtype)
                if weights is None:
                    p.move(grad_in, out=x_out)
                else:
                    for j in p.loop("j", N, carry=(x_out,)):
                        weighted(p, grad, weights[j.start], x_out[j.start])
                p.store(p.read(x_out), grad_x[t.start, :, c])
            p.store(p.read(post_sums), k["grad_h_post"].reshape(T, N)[t.start])


def weighted(p: Phase, rows: Value, weights: Value, out: Buffer | View) -> Value:
    """The sum of rows times their weights, from 0 on in order, in float32 registers, rounded once into `out`."""
    total = p.buffer("total", out.shape, space=REGISTERS)
    p.fill(0.0, out=total)
    for i in p.loop("row", N, carry=(total,)):
        p.axpy(p.vld(rows[i.start], out=p.buffer("row32", out.shape, space=REGISTERS)), weights[i.start], out=total)
    narrow = p.cast(p.read(total), out=p.buffer("total16", out.shape, out.dtype, space=REGISTERS))
    return p.vst(narrow, out=out)


def on_vector_cores(k: Kernel) -> None:
    """The kernel of A2 and A3: pieces of 1024 columns, one slot of every buffer, weights spread over whole rows."""
    x, grad_y, grad_x = (k[name].reshape(T, N, D) for name in ("x", "grad_y", "grad_x"))
    h_out, grad_h_out = k["h_out"].reshape(T, D), k["grad_h_out"].reshape(T, D)
    mixed, weights = k.options["h_res"], None
    with k.vector("gradients", "nothing is double-buffered") as p:
        columns = p.tile("columns", MOST_COLUMNS, cap_reason="the kernel's pieces")
        p.buffer("scratch", N * N, "int8", reserved=True)  # of the library's row sums
        p.buffer("spare", (N, N), allocated=(N, N), reserved=True)
        res_in = p.buffer("hResIn", (N, N), allocated=(N, N), reserved=not mixed)
        for t in p.loop("token", T, split=True):
            post = p.load(k["h_post"].reshape(T, N)[t.start], name="hPostIn", slots=1)
            if mixed:
                weights = p.load(k["h_res"].reshape(T, N, N)[t.start], out=res_in)
            post_sums, res_sums, sums = p.buffer("gradHPost", N), p.buffer("gradHRes", (N, N)), p.buffer("sums", (N, N))
            p.fill(0.0, out=post_sums)
            p.fill(0.0, out=res_sums)
            for c in p.loop("column", D, columns, carry=(post_sums, res_sums)):
                grad, out32, x32 = (
                    p.cast(p.load(source, name=f"{name}In", slots=1), dtype="float32", name=f"{name}32")
                    for name, source in (
                        ("gradY", grad_y[t.start, :, c]), ("hOut", h_out[t.start, c]), ("x", x[t.start, :, c]),
                    )
                )  # fmt: skip
                product, spread = p.buffer("product", (N, c.size)), p.buffer("spread", (N, N, c.size))
                p.row_sum(p.mul(grad, out32.over(N), out=product), out=sums[0])
                p.add(p.read(post_sums), p.read(sums[0]), out=post_sums)
                for j in p.loop("j", N, carry=(sums, product)):
                    p.row_sum(p.mul(grad, x32[j.start].over(N), out=product), out=sums[j.start])
                p.add(p.read(res_sums), p.read(sums), out=res_sums)
                row, rows = p.buffer("gradHOut32", c.size), p.buffer("gradX32", (N, c.size))
                p.fill(0.0, out=row)
                p.broadcast(post, out=spread[0])
                for i in p.loop("i", N, carry=(row,)):
                    p.madd(grad[i.start], p.read(spread[0, i.start]), out=row)
                if weights is None:  # which the first call refuses
                    p.move(grad, out=rows)
                else:
                    p.fill(0.0, out=rows)
                    p.broadcast(weights, out=spread)
                    for j in p.loop("out", N, carry=(rows,)):
                        for i in p.loop("in", N, carry=(rows,)):
                            p.madd(grad[i.start], p.read(spread[j.start, i.start]), out=rows[j.start])
                p.store(p.cast(p.read(row), dtype=k.dtype, name="gradHOutOut"), grad_h_out[t.start, c])
                p.store(p.cast(p.read(rows), dtype=k.dtype, name="gradXOut"), grad_x[t.start, :, c])
            p.store(p.read(post_sums), k["grad_h_post"].reshape(T, N)[t.start])
            p.store(p.read(res_sums), k["grad_h_res"].reshape(T, N, N)[t.start])


def tiles(call: Call, chip: Chip) -> Mapping[str, int]:
    """The columns of a piece on A2 and A3; on 950 as many as fit."""
    return {} if chip.vector.registers else {"columns": min(call.dims.get("D", 1), MOST_COLUMNS)}


def tiling(call: Call, chip: Chip, tiles: Mapping[str, int]) -> VendorTiling:
    """The fields of the vendor's tiling: 16 of 32 bits on 950, 17 of 64 bits on A2 and A3. Source: its host code."""
    tokens, channels, features = (call.dims[name] for name in ("T", "N", "D"))
    columns, aligned = tiles["columns"], -(-channels // 8) * 8
    if not chip.vector.registers:
        cores = chip.cores.vector
        front = tokens % cores or cores
        tail = 0 if tokens <= cores else cores - front
        data: dict[str, int | None] = {
            "coreUsed": front + tail,
            "frontCore": front,
            "tailCore": tail,
            "singleCoreBS": -(-tokens // cores),
            "tailBS": tokens // cores,
            "dFPostResSize": tokens * channels * features,
            "xSize": tokens * channels * features,
            "hResSize": tokens * channels * channels,
            "hOutSize": tokens * features,
            "hPostSize": tokens * channels,
            "channel": features,
            "blockChannel": columns,
            "n": channels,
            "alignN": aligned,
            "tileC": 0,
            "tailC": features % columns,
            "loopC": features // columns,
        }
        return VendorTiling(data, 0, front + tail, chip.workspace.system_bytes, template=(0,))
    used, used_cube = min(tokens, 2 * chip.cores.cube), min(tokens, chip.cores.cube)
    whole = -(-features // BLOCK) * BLOCK
    trips = -(-whole // columns)
    spec = call.spec("x")
    data = {
        "totalItems": tokens,
        "itemsPerCore": tokens // used,
        "remainderItems": tokens % used,
        "usedCores": used,
        "S": spec.shape[1] if spec and len(spec.shape) == 4 else 1,
        "n": channels,
        "D": features,
        "tileD": columns,
        "nTilesD": trips,
        "alignedD": whole,
        "lastTileD": whole - (trips - 1) * columns,
        "alignedN": aligned,
        "alignedNN": -(-channels * channels // 8) * 8,
        "itemsPerAic": tokens // used_cube,
        "remainderItemsAic": tokens % used_cube,
        MATMUL: None,
    }
    template = (1, int(call.options["h_res"]))
    workspace = chip.workspace.system_bytes
    return VendorTiling(data, None, used_cube, workspace, template=template, unknown={MATMUL: NOT_PUBLIC})


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The gradients; grad_h_res is no derivative without h_res, but written all the same."""
    grad, x = given["grad_y"], given["x"]
    return {
        "grad_x": np.einsum("...ji,...id->...jd", given["h_res"], grad) if "h_res" in given else grad,
        "grad_h_res": np.einsum("...jd,...id->...ji", x, grad),
        "grad_h_out": np.einsum("...i,...id->...d", given["h_post"], grad),
        "grad_h_post": np.einsum("...d,...id->...i", given["h_out"], grad),
    }


def tolerance(name: str, _: Kernel) -> Tolerance:
    """What was measured in blocked float32 with a margin: 4.1 * 2^-24 of the terms of grad_x, 0.93 of grad_h_res."""
    if name in ("grad_h_res", "grad_h_post"):
        return Tolerance("float32 sums of its terms", ulps=0.0, share=8 * 2**-24)
    return Tolerance("one rounding to the dtype, and float32 sums of its terms", ulps=0.55, share=16 * 2**-24)


def ranged(size: Size, name: str, expected: str, where: Condition, holds: Condition) -> Rule:
    """The rule of the first call about a size, on some products."""
    return about(size, name, expected, ~where | holds, "x", PARAM_INVALID)


ONE_OF_THREE = any_of(*(equal(N, n) for n in (4, 6, 8)))

mhc_post_backward = Operator(
    name="mhc_post_backward",
    api="aclnnMhcPostBackward",
    about="gradients of mixing channels after a layer of a manifold hyper-connection",
    dims=(TOKENS, CHANNELS, FEATURES),
    tensors=(
        Argument("grad_y", "*T N D", alias="gradOutput"),
        Argument("x", "*T N D"),
        Argument("h_res", "*T N N", dtype="float32", option="h_res", alias="hRes"),
        Argument("h_out", "*T D", alias="hOut"),
        Argument("h_post", "*T N", dtype="float32", alias="hPost"),
        result("grad_x", "*T N D", alias="gradX"),
        result("grad_h_res", "*T N N", dtype="float32", alias="gradHRes"),
        result("grad_h_out", "*T D", alias="gradHOut"),
        result("grad_h_post", "*T N", dtype="float32", alias="gradHPost"),
    ),
    lead="x",
    options=(Option("h_res"),),
    dtypes=dict.fromkeys(("950", "a3", "a2"), ("bfloat16", "float16")),
    dtype="bfloat16",
    rules=(
        *not_null("grad_y", "x"),
        *(replace(rule, test=ON_950 | ~null("h_res")) for rule in not_null("h_res")),
        *not_null("h_out", "h_post", "grad_x", "grad_h_res", "grad_h_out", "grad_h_post"),
        *(in_range(d, "x", tiling=(19, "dims")) for d in (TOKENS, FEATURES)),
        dtype_supported("grad_y", tiling=(1, "dtype")),
        dtype_supported("x"),
        dtype_is("h_res", "float32", tiling=(4, "dtype")),
        dtype_supported("h_out"),
        dtype_is("h_post", "float32", tiling=(5, "dtype")),
        dtype_same("grad_x", "x", tiling=(6, "dtype")),
        dtype_is("grad_h_res", "float32", tiling=(8, "dtype")),
        dtype_same("grad_h_out", "h_out", tiling=(7, "dtype")),
        dtype_is("grad_h_post", "float32", tiling=(9, "dtype")),
        rank("x", 3, 4, tiling=(10, "rank")),
        sizes_exist("x"),
        replace(ranged(N, "n of 950", "4, 6 or 8", ON_950, ONE_OF_THREE), tiling=(18, "n")),
        ranged(N, "n of A2 and A3", "4", ~ON_950, equal(N, 4)),
        ranged(D, "D of A2 and A3", f"1..{MOST_FEATURES}", ~ON_950, within(1, D, MOST_FEATURES)),
        ranged(D, "D multiple", f"a multiple of {STEP}", ~ON_950, equal(D % STEP, 0)),
        *(shape(name) for name in ("grad_y", "h_res", "h_out", "h_post")),
        *(shape(name) for name in ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post")),
        dtype_same("x", "grad_y", status=INNER_NULLPTR, tiling=(2, "dtype")),
        dtype_same("h_out", "grad_y", status=INNER_NULLPTR, tiling=(3, "dtype")),
    ),
    kernel=kernel,
    tiles=tiles,
    tiling=tiling,
    # The tiling of A2 and A3 does not look at the unified buffer.
    overflow=SUCCESS,
    forward="mhc_post",
    reference=reference,
    magnitude=of_magnitudes(reference),
    tolerance=tolerance,
    kernel_names=("MhcPostBackward", "mhc_post_bwd"),
)
