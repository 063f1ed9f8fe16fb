"""Gradients of the gated hyper-connection TextGatedResidual.

Source: the vendor's document of TextGatedResidualGrad (ops-transformer, pull request 15537). It states ranges,
inequalities and status codes. The order of the checks follows its table of codes; the status of a size that is not a
multiple of 16 is inferred from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import (
    EMPTY,
    ONE,
    Buffer,
    FixedOrderSum,
    Kernel,
    Phase,
    Range,
    Value,
    View,
    align,
    ceil_div,
    compensated_add,
    dim,
    matmul,
    one_minus,
    sigmoid,
)
from tilesim.kernels.elementwise import zeros
from tilesim.operators import (
    INNER_NULLPTR,
    Argument,
    Arrays,
    Attribute,
    Call,
    Dimension,
    Numbers,
    Operator,
    Option,
    Tolerance,
    countable,
    divides,
    dtype_is,
    dtype_same,
    dtype_supported,
    in_range,
    logistic,
    multiple,
    not_null,
    result,
    shape,
    whole_group,
)

BATCH = Dimension("B", least=0)
SEQUENCE = Dimension("S", least=0)
CHANNELS = Dimension("C", most=20)
FEATURES = Dimension("H", multiple_of=16)
DEPTH = Dimension("R", most=640, multiple_of=16)
C, H, R = CHANNELS.size, FEATURES.size, DEPTH.size
D = C * H
N = dim("N")
"""Tokens, B*S."""
G = dim("G")
"""Tokens whose weight gradients one partial sum holds."""

K_BLOCK = 64
"""Elements of k that one mmad sums, in every product; fixed, so that values do not depend on the chip."""
LARGEST_LOSS_SCALE = 16
"""float16 would lose gradients below 6e-5. The dUp, dDown and dGate of a token are multiplied by a loss scale of
1/max|gradient|, from 1 to 16C; act and xNorm, by which the weight gradients multiply them, are divided by it, and so is
dXn after its sum."""
FEW = "few"
"""The variant for at most FEW_TOKENS tokens."""
FEW_TOKENS = 32
"""Most tokens whose weight gradients are products of float32: a sum of few terms does not average out rounding, and
the slower products of the cube hide behind the copies of the partial sums."""
MOST_PARTIALS, LEAST_TOKENS = 8, 256
"""Most partial sums of a weight gradient, and least tokens of each; neither depends on the chip's cores."""

STAGED = {
    "api": (8192, "the vendor's API, at the top, with the 256 bytes that the platform hides"),
    "staging": (25600, "10 rows of R=640 in float32 from L0C; a guess, the total is documented"),
}
RESERVED_BY_FAMILY: Mapping[str, Mapping[str, tuple[int, str]]] = {"a2": STAGED, "a3": STAGED}
"""Bytes beside those of every product that the document leaves out of its capacity numbers, by the chip's family."""

TENSORS = (
    Argument("gradMixed", "B S H"),
    Argument("x", "B S D"),
    Argument("wDown", "R D", fan_in="D"),
    Argument("wUp", "D R", fan_in="R"),
    Argument("invRms", "B S C", dtype="float32"),
    Argument("downPreAct", "B S R"),
    Argument("up", "B S D"),
    Argument("gradInject", "B S C", option="inject"),
    Argument("wGate", "C D", option="inject", fan_in="D"),
    Argument("gamma", "D", dtype="float32", option="gamma"),
    Argument("inject", "B S C", option="inject"),
    result("dx", "B S D"),
    result("dwDown", "R D"),
    result("dwUp", "D R"),
    result("dwGate", "C D", option="inject"),
    result("dgamma", "D", dtype="float32", option="gamma"),
)


def variant(call: Call, _: Chip) -> str:
    """EMPTY without tokens, FEW for up to FEW_TOKENS, else ""."""
    tokens = call.dims.get("B", 1) * call.dims.get("S", 1)
    return EMPTY if not tokens else FEW if tokens <= FEW_TOKENS else ""


def derived_sizes(dims: Mapping[str, int]) -> Mapping[str, int]:
    """N tokens, and G tokens of a partial sum."""
    tokens = dims.get("B", 0) * dims.get("S", 0)
    partials = max(1, min(MOST_PARTIALS, -(-tokens // LEAST_TOKENS)))
    return {"N": tokens, "G": max(1, -(-tokens // (partials * K_BLOCK))) * K_BLOCK}


def kernel(k: Kernel) -> None:
    """Record the nine phases, or the zero fill of a call without tokens."""
    keep_back(k)
    if k.variant == EMPTY:
        outputs = [("dwDown", R * C, H), ("dwUp", D, R), ("dwGate", C * C, H), ("dgamma", C, H)]
        zeros(k, "zero fill", [k[name].reshape(r, w) for name, r, w in outputs if k.tensors[name] is not None])
        return
    half, full, w = k.dtype, "float32", k.workspaces
    few = k.variant == FEW
    factor = full if few else half
    rows = {"xNorm": (D, factor), "dUp": (D, half), "mixGrad": (D, full), "dXn": (D, full)}
    rows |= {"dAct": (R, full), "act": (R, factor), "dDown": (R, half)}
    if few:
        rows |= {"dUp32": (D, full), "dDown32": (R, full)}
    if k.options["inject"]:
        rows |= {"dGate": (C, full), "dGateFactor": (C, factor)}
    if half == "float16":
        rows |= {"unscale": (ONE, full)}
    for name, (width, dtype) in rows.items():
        k.workspace(name, (N, width), dtype)
    gate_backward(k)
    matmul(k, "dAct = dUp wUp", w["dUp"], k["wUp"], w["dAct"], k_block=K_BLOCK)
    activation_backward(k)
    matmul(k, "dXn = dDown wDown", w["dDown"], k["wDown"], w["dXn"], k_block=K_BLOCK)
    down, up, groups = ("dDown32", "dUp32", ceil_div(N, G)) if few else ("dDown", "dUp", ceil_div(N, G))
    partials = {"dwDown": (down, "xNorm", R, D), "dwUp": (up, "act", D, R), "dwGate": ("dGateFactor", "xNorm", C, D)}
    for name, (left, right, *both) in partials.items():
        if left in w:
            total = k.workspace(f"{name}Partial", (groups, *both), full)
            matmul(k, f"{name} partials", w[left], w[right], total, transpose_a=True, group=G, k_block=K_BLOCK)
    norm_backward(k)
    reduction(k)


def keep_back(k: Kernel) -> None:
    """Reserve what the document's capacity numbers leave out, and the channel pool."""
    k.whole_memories = ("ub",)
    k.reserve("scratch", 4096, "reduction and broadcast scratch, 16-bit channel rows of a token")
    k.reserve("scalars", 64, "two scalar blocks")
    for name, (size_bytes, reason) in RESERVED_BY_FAMILY.get(k.family, {}).items():
        k.reserve(name, size_bytes, reason)
    k.static("invRmsRow", (align(C, 8),), "float32", (C,))
    k.static("channelGrad", (align(C, 8),), "float32", (C,))


def gate_backward(k: Kernel) -> None:
    """xNorm, dUp = gradMixed*xNorm*s*(1-s)/C and mixGrad = gradMixed*s/C of every channel row; dGate of every token."""
    inv_rms, _ = k.statics
    x, up = k["x"].reshape(N, C, H), k["up"].reshape(N, C, H)
    x_norm, d_up, mix_grad = (k.workspaces[name].reshape(N, C, H) for name in ("xNorm", "dUp", "mixGrad"))
    unscale = k.workspaces.get("unscale")
    with k.vector("gate backward", "keeps whole rows of H; tiles over channels") as p:
        rows = p.tile("rows", C)
        for n in p.loop("n", N, split=True):
            grad_in = p.load(k["gradMixed"].reshape(N, H)[n.start], name="gradMixedIn")
            scale = p.load(k["invRms"].reshape(N, C)[n.start], out=inv_rms)
            inject_in = None
            if k.options["inject"]:
                row = p.buffer("gradInjectIn", C, k.dtype, pool="scratch")
                inject_in = p.load(k["gradInject"].reshape(N, C)[n.start], out=row)
            grad32 = p.buffer("gradMixed32", H)
            loss_scale = (
                None if unscale is None else token_loss_scale(k, p, grad_in, grad32, inject_in, unscale[n.start])
            )
            if loss_scale is not None:
                scale = p.muls(scale, loss_scale[1, 0], out=inv_rms)
            if inject_in is not None:
                channel_gradient(k, p, n, inject_in, loss_scale)
            grad = p.cast(grad_in, out=grad32)
            for c in p.loop("c", C, rows):
                xn32 = p.buffer("xNorm32", (c.size, H))
                xn = p.cast(p.load(x[n.start, c], name="xIn"), out=xn32)
                for r in p.loop("r", c.size, carry=(xn32,)):
                    xn = p.muls(p.read(xn32[r.start]), scale[c.start + r.start], out=xn32[r.start])
                xn = p.read(xn32)
                work = p.buffer("work32", (c.size, H))
                if k.options["gamma"]:
                    one_more = p.adds(p.load(k["gamma"].reshape(C, H)[c], name="gammaIn"), 1.0, out=work)
                    xn = p.mul(xn, one_more, out=xn32)
                else:
                    p.buffer("gammaIn", (c.size, H), slots=2, reserved=True)
                store_factor(p, xn, "xNormOut", x_norm[n.start, c])
                gate32 = p.buffer("gate32", (c.size, H))
                s = sigmoid(p, p.cast(p.load(up[n.start, c], name="upIn"), out=gate32), out=gate32)
                mix = p.mul(grad.over(c.size), s, name="mixGradOut", slots=2)
                mix = p.muls(mix, 1 / C, out=mix)
                p.store(mix, mix_grad[n.start, c])
                slope = p.mul(p.mul(one_minus(p, s, out=work), mix, out=work), xn, out=work)
                if loss_scale is not None:  # twice: xNorm is unscaled
                    slope = p.muls(p.muls(slope, loss_scale[0, 0], out=work), loss_scale[0, 0], out=work)
                p.store(p.cast(slope, dtype=k.dtype, name="dUpOut", slots=2), d_up[n.start, c])
                if "dUp32" in k.workspaces:
                    p.store(slope, k.workspaces["dUp32"].reshape(N, C, H)[n.start, c])


def token_loss_scale(
    k: Kernel, p: Phase, grad_in: Value, grad32: Buffer, inject_in: Value | None, unscale: View
) -> Value:
    """Return the loss scale of a token and its inverse, [2, 1], after storing the inverse in `unscale`."""
    _, channel_grad = k.statics
    both = p.buffer("lossScale", (2, 1), pool="scratch")
    p.row_max(p.abs(p.cast(grad_in, out=grad32), out=grad32), out=both[0])
    if inject_in is not None:
        p.row_max(p.abs(p.cast(inject_in, out=channel_grad), out=channel_grad), out=both[1])
        p.maximum(p.read(both[0]), p.read(both[1]), out=both[0])
    loss_scale = p.mins(p.rec(p.read(both[0]), out=both[0]), LARGEST_LOSS_SCALE * C, out=both[0])
    inverse = p.rec(p.maxs(loss_scale, 1.0, out=both[0]), out=both[1])
    p.store(inverse, unscale)
    return p.read(both)


def channel_gradient(k: Kernel, p: Phase, n: Range, grad_in: Value, loss_scale: Value | None) -> None:
    """dGate = gradInject*inject*(1 - inject/2)/C of one token."""
    _, channel_grad = k.statics
    half = p.buffer("inject32", C, pool="scratch")
    inject_in = p.buffer("injectIn", C, k.dtype, pool="scratch")
    inject = p.cast(p.load(k["inject"].reshape(N, C)[n.start], out=inject_in), out=half)
    grad = p.mul(p.cast(grad_in, out=channel_grad), inject, out=channel_grad)
    slope = p.adds(p.muls(inject, -0.5, out=half), 1.0, out=half)
    grad = p.muls(p.mul(grad, slope, out=channel_grad), 1 / C, out=channel_grad)
    p.store(grad, k.workspaces["dGate"][n.start])
    grad = grad if loss_scale is None else p.muls(grad, loss_scale[0, 0], out=half)
    store_factor(p, grad, "dGateOut", k.workspaces["dGateFactor"][n.start], pool="scratch")


def store_factor(p: Phase, value: Value, name: str, target: View, pool: str = "") -> None:
    """Store a factor of weight gradients: 16-bit from two slots, or float32 from one slot of the same bytes."""
    wide = target.dtype == "float32"
    out = p.buffer(name, value.shape, target.dtype, slots=1 if wide or pool else 2, pool=pool)
    p.store(p.move(value, out=out) if wide else p.cast(value, out=out), target)


def activation_backward(k: Kernel) -> None:
    """act and dDown = dAct*s(a)*(1 + a*(1-s(a)))/C with a = downPreAct/C; mixGrad += dGate @ wGate."""
    d_act, act, d_down = (k.workspaces[name] for name in ("dAct", "act", "dDown"))
    mix_grad = k.workspaces["mixGrad"].reshape(N, C, H)
    _, channel_grad = k.statics
    with k.vector("activation backward", "keeps whole rows of R and H, one token at a time") as p:
        for n in p.loop("n", N, split=True):
            upstream = p.load(d_act[n.start], name="dActIn")
            pre_in = p.load(k["downPreAct"].reshape(N, R)[n.start], name="downPreActIn")
            a = p.cast(pre_in, dtype="float32", name="pre32")
            a = p.muls(a, 1 / C, out=a)
            s = sigmoid(p, a, out=p.buffer("sigmoid32", R))
            work = p.buffer("workR32", R)
            acted = unscaled(k, p, n, p.mul(a, s, out=work), out=work)
            store_factor(p, acted, "actOut", act[n.start])
            slope = p.adds(p.mul(one_minus(p, s, out=work), a, out=work), 1.0, out=work)
            slope = p.mul(p.mul(slope, s, out=work), upstream, out=work)
            slope = p.muls(slope, 1 / C, out=work)
            p.store(p.cast(slope, dtype=k.dtype, name="dDownOut", slots=2), d_down[n.start])
            if "dDown32" in k.workspaces:
                p.store(slope, k.workspaces["dDown32"][n.start])
            if not k.options["inject"]:
                p.buffer("wGateIn", H, k.dtype, slots=2, reserved=True)
                p.buffer("wGate32", H, reserved=True)
                p.buffer("mixGrad", H, reserved=True)
                continue
            weights = k["wGate"].reshape(C, C, H)
            share = p.load(k.workspaces["dGate"][n.start], out=channel_grad)
            for c in p.loop("c", C):
                mix = p.buffer("mixGrad", H)
                total = p.load(mix_grad[n.start, c.start], out=mix)
                for i in p.loop("i", C, carry=(mix,)):
                    w = p.cast(p.load(weights[i.start, c.start], name="wGateIn"), dtype="float32", name="wGate32")
                    total = p.axpy(w, share[i.start], out=mix)
                p.store(total, mix_grad[n.start, c.start])


def unscaled(k: Kernel, p: Phase, n: Range, row: Value, out: Buffer) -> Value:
    """Return a row of a token times the inverse of its loss scale, the row itself without one."""
    unscale = k.workspaces.get("unscale")
    if unscale is None:
        return row
    return p.muls(row, p.load(unscale[n.start], out=p.buffer("unscaleIn", 1, pool="scalars"))[0], out=out)


def norm_backward(k: Kernel) -> None:
    """dx = invRms*(g - xHat*dot(g, xHat)/H) with g = (dXn + mixGrad)*(1+gamma); partials of dgamma."""
    inv_rms, _ = k.statics
    gamma = k.options["gamma"]
    x, dx = k["x"].reshape(N, C, H), k["dx"].reshape(N, C, H)
    d_x_norm, mix_grad = (k.workspaces[name].reshape(N, C, H) for name in ("dXn", "mixGrad"))
    with k.vector("norm backward", "keeps whole rows of H; channel outer, token inner") as p:
        if gamma:
            k.workspace("dgammaPartial", (p.cores, C, H), "float32")
        for c in p.loop("c", C):
            total, lost = p.buffer("dgammaSum", H, reserved=not gamma), p.buffer("dgammaComp", H, reserved=not gamma)
            if gamma:
                factor = p.load(k["gamma"].reshape(C, H)[c.start], name="gammaIn", slots=1)
                factor = p.adds(factor, 1.0, out=factor)
                gamma_sum, gamma_lost = p.fill(0.0, out=total), p.fill(0.0, out=lost)
            else:
                p.buffer("gammaIn", H, reserved=True)
            for n in p.loop("n", N, split=True, carry=(total, lost)):
                scale = p.load(k["invRms"].reshape(N, C)[n.start], out=inv_rms)[c.start]
                hat = p.cast(p.load(x[n.start, c.start], name="xIn"), dtype="float32", name="xHat32")
                hat = p.muls(hat, scale, out=hat)
                from_cube = p.load(d_x_norm[n.start, c.start], name="dXnIn")
                direct = p.load(mix_grad[n.start, c.start], name="mixGradIn")
                grad32 = p.buffer("grad32", H)
                grad = p.add(unscaled(k, p, n, from_cube, out=grad32), direct, out=grad32)
                work, prod = p.buffer("work32", H), p.buffer("prod32", H)
                if gamma:
                    addend = p.mul(grad, hat, out=work)
                    gamma_sum, gamma_lost = compensated_add(p, gamma_sum, gamma_lost, addend, prod)
                    grad = p.mul(grad, factor, out=grad)
                dot = p.row_sum(p.mul(grad, hat, out=prod), out=p.buffer("dot", 1, pool="scalars"))
                mean = p.muls(dot, -(1 / H), out=dot)
                correction = p.muls(hat, mean[0], out=work)
                grad = p.muls(p.add(grad, correction, out=grad), scale, out=grad)
                p.store(p.cast(grad, dtype=k.dtype, name="dxOut", slots=2), dx[n.start, c.start])
            if gamma:
                p.store(gamma_sum, k.workspaces["dgammaPartial"][p.core, c.start])


def reduction(k: Kernel) -> None:
    """The weight gradients and dgamma: partial sums added in order, with compensation, then cast out."""
    with k.vector("fixed-order reduction", "keeps whole rows of H and R, one row at a time") as p:
        wide = FixedOrderSum(p, "H", H)
        out = p.buffer("outH", H, k.dtype, slots=2)
        for name in (n for n in ("dwDown", "dwGate") if k.tensors[n] is not None):
            partial = k.workspaces[f"{name}Partial"]
            groups, rows, _ = partial.shape
            source, target = partial.reshape(groups, rows * C, H), k[name].reshape(rows * C, H)
            for r in p.loop(name, rows * C, split=True):
                p.store(p.cast(wide.total(source, r), out=out), target[r.start])
        gamma_partial = k.workspaces.get("dgammaPartial")
        gamma_out = p.buffer("dgammaOut", H, reserved=gamma_partial is None)
        if gamma_partial is not None:
            for c in p.loop("dgamma", C, split=True):
                p.store(p.move(wide.total(gamma_partial, c), out=gamma_out), k["dgamma"].reshape(C, H)[c.start])
        narrow = FixedOrderSum(p, "R", R)
        out_r = p.buffer("outR", R, k.dtype, slots=2)
        for d in p.loop("dwUp", D, split=True):
            p.store(p.cast(narrow.total(k.workspaces["dwUpPartial"], d), out=out_r), k["dwUp"][d.start])


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The gradients in float64, from the saved tensors as they are given."""
    batch, tokens, depth = given["x"].shape
    n, c = batch * tokens, int(numbers["channels"])
    x, inv_rms = given["x"].reshape(n, c, depth // c), given["invRms"].reshape(n, c, 1)
    scale = 1 + given["gamma"].reshape(x.shape[1:]) if "gamma" in given else np.ones(x.shape[1:])
    x_hat = x * inv_rms
    x_norm, up = (x_hat * scale).reshape(n, depth), given["up"].reshape(n, depth)
    direct = np.tile(given["gradMixed"].reshape(n, depth // c), (1, c)) * logistic(up) / c
    a = given["downPreAct"].reshape(n, given["wDown"].shape[0]) / c
    d_up = direct * x_norm * logistic(-up)
    d_down = d_up @ given["wUp"] * logistic(a) * (1 + a * logistic(-a)) / c
    d_norm = direct + d_down @ given["wDown"]
    out = {"dwDown": d_down.T @ x_norm, "dwUp": d_up.T @ (a * logistic(a))}
    if "wGate" in given:
        inject, upstream = given["inject"].reshape(n, c), given["gradInject"].reshape(n, c)
        d_gate = upstream * inject * (1 - inject / 2) / c
        d_norm, out["dwGate"] = d_norm + d_gate @ given["wGate"], d_gate.T @ x_norm
    d_norm = d_norm.reshape(x.shape)
    if "gamma" in given:
        out["dgamma"] = (d_norm * x_hat).sum(axis=0).reshape(depth)
    v = d_norm * scale
    dx = inv_rms * (v - x_hat * (v * x_hat).mean(axis=2, keepdims=True))
    return {"dx": dx.reshape(batch, tokens, depth), **out}


def tolerance(name: str, k: Kernel) -> Tolerance:
    """1.4 times the largest fro and t measured for N up to 2048, C up to 20, H up to 2560."""
    bounds = {"bfloat16": ((5e-3, 4e-2), (3e-3, 1e-2)), "float16": ((6e-4, 5e-3), (4e-4, 1.2e-3))}
    return Tolerance("measured", *bounds[k.dtype][name == "dgamma"])


text_gated_residual_grad = Operator(
    name="text_gated_residual_grad",
    api="aclnnTextGatedResidualGrad",
    about="gradients of the gated hyper-connection of a language model",
    dims=(BATCH, SEQUENCE, CHANNELS, FEATURES, DEPTH),
    derived={"D": "C*H"},
    tensors=TENSORS,
    lead="x",
    options=(Option("inject"), Option("gamma")),
    attributes=(Attribute("channels", dim="C"),),
    dtypes=dict.fromkeys(("950", "a3", "a2"), ("bfloat16", "float16")),
    dtype="bfloat16",
    rules=(
        *not_null(*(t.name for t in TENSORS if not t.option)),
        whole_group("inject", ("wGate", "gradInject", "inject", "dwGate")),
        whole_group("gamma", ("gamma", "dgamma")),
        dtype_supported("x"),
        *(dtype_same(t.name, "x") for t in TENSORS if not t.dtype and t.name != "x"),
        *(dtype_is(t.name, t.dtype) for t in TENSORS if t.dtype),
        in_range(CHANNELS, "channels"),
        divides("channels", "x"),
        in_range(FEATURES, "gradMixed"),
        in_range(DEPTH, "wDown"),
        *countable(("B", "S"), "x"),
        *(shape(t.name) for t in TENSORS),
        multiple(FEATURES, "gradMixed", status=INNER_NULLPTR),
        multiple(DEPTH, "wDown", status=INNER_NULLPTR),
    ),
    kernel=kernel,
    variant=variant,
    derived_sizes=derived_sizes,
    overflow=INNER_NULLPTR,
    forward="text_gated_residual",
    reference=reference,
    tolerance=tolerance,
)
