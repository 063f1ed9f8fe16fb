"""Gradients of the gated hyper-connection TextGatedResidual.

Source: the vendor's document of TextGatedResidualGrad (ops-transformer, pull request 15537). It states ranges,
inequalities and status codes; the order of the checks follows its table of codes, and that a size which is no multiple of
16 counts as a combination is inferred from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesim.chip import Chip
from tilesim.functions import compensated_add, one_minus, sigmoid
from tilesim.matmul import matmul
from tilesim.operator import Argument, Attribute, Call, Dimension, Operator, Option, Outcome, Rule, result
from tilesim.program import Kernel, Phase
from tilesim.rules import (
    UNKNOWN,
    countable,
    dtype_is,
    dtype_same,
    dtype_supported,
    in_range,
    multiple,
    not_null,
    shape,
    whole_group,
)
from tilesim.sizes import Size, align, ceil_div, dim
from tilesim.status import INNER_NULLPTR, PARAM_INVALID
from tilesim.views import Buffer, Range, Tensor, Value

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
"""Elements of k that one mmad sums, in every product: part of the operator, so that values do not depend on the chip."""
MOST_PARTIALS, LEAST_TOKENS = 8, 256
"""Partial sums of a weight gradient: at most so many, of at least so many tokens, whatever the chip's cores."""

TENSORS = (
    Argument("gradMixed", "B S H"),
    Argument("x", "B S D"),
    Argument("wDown", "R D"),
    Argument("wUp", "D R"),
    Argument("invRms", "B S C", dtype="float32"),
    Argument("downPreAct", "B S R"),
    Argument("up", "B S D"),
    Argument("gradInject", "B S C", option="inject"),
    Argument("wGate", "C D", option="inject"),
    Argument("gamma", "D", dtype="float32", option="gamma"),
    Argument("inject", "B S C", option="inject"),
    result("dx", "B S D"),
    result("dwDown", "R D"),
    result("dwUp", "D R"),
    result("dwGate", "C D", option="inject"),
    result("dgamma", "D", dtype="float32", option="gamma"),
)
INJECT = ("wGate", "gradInject", "inject", "dwGate")
GAMMA = ("gamma", "dgamma")


def variant(call: Call, _: Chip) -> str:
    """ "empty" where there is no token."""
    return "" if call.dims.get("B", 1) and call.dims.get("S", 1) else "empty"


def computed(dims: Mapping[str, int]) -> Mapping[str, int]:
    """N tokens, and G tokens of a partial sum."""
    tokens = dims.get("B", 0) * dims.get("S", 0)
    partials = max(1, min(MOST_PARTIALS, -(-tokens // LEAST_TOKENS)))
    return {"N": tokens, "G": max(1, -(-tokens // (partials * K_BLOCK))) * K_BLOCK}


def kernel(k: Kernel) -> None:
    """Record the nine phases, or the zero fill of a call without tokens."""
    keep_back(k)
    if k.variant == "empty":
        zero_fill(k)
        return
    inject, gamma = k.options["inject"], k.options["gamma"]
    x_norm = k.workspace("xNorm", (N, D), k.dtype)
    d_up = k.workspace("dUp", (N, D), k.dtype)
    mix_grad = k.workspace("mixGrad", (N, C, H), "float32")
    d_act = k.workspace("dAct", (N, R), "float32")
    act = k.workspace("act", (N, R), k.dtype)
    d_down = k.workspace("dDown", (N, R), k.dtype)
    d_x_norm = k.workspace("dXn", (N, D), "float32")
    d_gate = k.workspace("dGate", (N, C), "float32") if inject else None
    d_gate16 = k.workspace("dGate16", (N, C), k.dtype) if inject else None

    gate_backward(k, x_norm, d_up, mix_grad, d_gate, d_gate16)
    matmul(k, "dAct = dUp wUp", d_up, k["wUp"], d_act, k_block=K_BLOCK)
    activation_backward(k, d_act, act, d_down, mix_grad, d_gate)
    matmul(k, "dXn = dDown wDown", d_down, k["wDown"], d_x_norm, k_block=K_BLOCK)
    partials = {"dwDown": (d_down, x_norm, (R, D)), "dwUp": (d_up, act, (D, R))}
    if d_gate16 is not None:
        partials["dwGate"] = (d_gate16, x_norm, (C, D))
    groups = ceil_div(N, G)
    sums: dict[str, Tensor] = {}
    for name, (left, right, shape) in partials.items():
        sums[name] = k.workspace(f"{name}Partial", (groups, *shape), "float32")
        matmul(k, f"{name} partials", left, right, sums[name], transpose_a=True, group=G, k_block=K_BLOCK)
    norm = norm_backward(k, mix_grad, d_x_norm)
    reduction(k, sums, norm if gamma else None)


def keep_back(k: Kernel) -> None:
    """Reserve what the document's capacity numbers leave out, and the channel pool."""
    k.counted_from = "size"
    k.reserve("scratch", 4096, "reduction and broadcast scratch, 16-bit channel rows of a token")
    k.reserve("scalars", 64, "two scalar blocks")
    if k.family in ("a2", "a3"):
        k.reserve(
            "api",
            8192,
            "top 8 KiB of the unified buffer, used by the vendor's API, with the 256 bytes that the platform hides",
        )
        k.reserve(
            "staging",
            25600,
            "10 rows of R=640 in float32, since L0C has no path to the unified buffer; the split is a guess, the total is documented",
        )
    k.static("invRmsRow", (align(C, 8),), "float32", (C,))
    k.static("channelGrad", (align(C, 8),), "float32", (C,))


def gate_backward(
    k: Kernel, x_norm: Tensor, d_up: Tensor, mix_grad: Tensor, d_gate: Tensor | None, d_gate16: Tensor | None
) -> None:
    """xNorm, dUp = gradMixed*xNorm*s*(1-s)/C and mixGrad = gradMixed*s/C of every channel row; dGate of every token."""
    inv_rms, channel_grad = k.statics
    x, up = k["x"].reshape(N, C, H), k["up"].reshape(N, C, H)
    x_norm, d_up = x_norm.reshape(N, C, H), d_up.reshape(N, C, H)
    with k.vector("gate backward", "keeps whole rows of H; tiles over channels") as p:
        rows = p.tile("rows", C)
        for n in p.loop("n", N, split=True):
            grad_in = p.load(k["gradMixed"].reshape(N, H)[n.start], name="gradMixedIn")
            grad = p.cast(grad_in, dtype="float32", name="gradMixed32")
            scale = p.load(k["invRms"].reshape(N, C)[n.start], out=inv_rms)
            if d_gate is not None and d_gate16 is not None:
                channel_gradient(k, p, n, channel_grad, d_gate, d_gate16)
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
                p.store(p.cast(xn, dtype=k.dtype, name="xNormOut", slots=2), x_norm[n.start, c])
                gate32 = p.buffer("gate32", (c.size, H))
                s = sigmoid(p, p.cast(p.load(up[n.start, c], name="upIn"), out=gate32), out=gate32)
                mix = p.mul(grad.over(c.size), s, name="mixGradOut", slots=2)
                mix = p.muls(mix, 1 / C, out=mix)
                p.store(mix, mix_grad[n.start, c])
                slope = p.mul(p.mul(one_minus(p, s, out=work), mix, out=work), xn, out=work)
                p.store(p.cast(slope, dtype=k.dtype, name="dUpOut", slots=2), d_up[n.start, c])


def channel_gradient(k: Kernel, p: Phase, n: Range, channel_grad: Buffer, d_gate: Tensor, d_gate16: Tensor) -> None:
    """dGate = gradInject*inject*(1 - inject/2)/C of one token."""
    half = p.buffer("inject32", C, pool="scratch")
    inject_in = p.buffer("injectIn", C, k.dtype, pool="scratch")
    grad_in = p.buffer("gradInjectIn", C, k.dtype, pool="scratch")
    out16 = p.buffer("dGateOut", C, k.dtype, pool="scratch")
    inject = p.cast(p.load(k["inject"].reshape(N, C)[n.start], out=inject_in), out=half)
    grad = p.cast(p.load(k["gradInject"].reshape(N, C)[n.start], out=grad_in), out=channel_grad)
    grad = p.mul(grad, inject, out=channel_grad)
    rest = p.adds(p.muls(inject, -0.5, out=half), 1.0, out=half)
    grad = p.muls(p.mul(grad, rest, out=channel_grad), 1 / C, out=channel_grad)
    p.store(grad, d_gate[n.start])
    p.store(p.cast(grad, out=out16), d_gate16[n.start])


def activation_backward(
    k: Kernel, d_act: Tensor, act: Tensor, d_down: Tensor, mix_grad: Tensor, d_gate: Tensor | None
) -> None:
    """act and dDown = dAct*s(a)*(1 + a*(1-s(a)))/C with a = downPreAct/C; mixGrad += dGate @ wGate."""
    _, channel_grad = k.statics
    with k.vector("activation backward", "keeps whole rows of R and H, one token at a time") as p:
        for n in p.loop("n", N, split=True):
            upstream = p.load(d_act[n.start], name="dActIn")
            pre_in = p.load(k["downPreAct"].reshape(N, R)[n.start], name="downPreActIn")
            a = p.cast(pre_in, dtype="float32", name="pre32")
            a = p.muls(a, 1 / C, out=a)
            s = sigmoid(p, a, out=p.buffer("sigmoid32", R))
            work = p.buffer("workR32", R)
            p.store(p.cast(p.mul(a, s, out=work), dtype=k.dtype, name="actOut", slots=2), act[n.start])
            slope = p.adds(p.mul(one_minus(p, s, out=work), a, out=work), 1.0, out=work)
            slope = p.mul(p.mul(slope, s, out=work), upstream, out=work)
            slope = p.muls(slope, 1 / C, out=work)
            p.store(p.cast(slope, dtype=k.dtype, name="dDownOut", slots=2), d_down[n.start])
            if d_gate is None:
                p.buffer("wGateIn", H, k.dtype, slots=2, reserved=True)
                p.buffer("wGate32", H, reserved=True)
                p.buffer("mixGrad", H, reserved=True)
                continue
            weights = k["wGate"].reshape(C, C, H)
            share = p.load(d_gate[n.start], out=channel_grad)
            for c in p.loop("c", C):
                mix = p.buffer("mixGrad", H)
                total = p.load(mix_grad[n.start, c.start], out=mix)
                for i in p.loop("i", C, carry=(mix,)):
                    w = p.cast(p.load(weights[i.start, c.start], name="wGateIn"), dtype="float32", name="wGate32")
                    total = p.axpy(w, share[i.start], out=mix)
                p.store(total, mix_grad[n.start, c.start])


def norm_backward(k: Kernel, mix_grad: Tensor, d_x_norm: Tensor) -> Tensor:
    """dx = invRms*(g - xHat*dot(g, xHat)/H) with g = (dXn + mixGrad)*(1+gamma); returns the cores' partials of dgamma."""
    inv_rms, _ = k.statics
    gamma = k.options["gamma"]
    x, dx, d_x_norm = k["x"].reshape(N, C, H), k["dx"].reshape(N, C, H), d_x_norm.reshape(N, C, H)
    with k.vector("norm backward", "keeps whole rows of H; channel outer, token inner") as p:
        partial = k.workspace("dgammaPartial", (p.cores, C, H), "float32") if gamma else d_x_norm
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
                grad = p.add(from_cube, direct, name="grad32")
                work, prod = p.buffer("work32", H), p.buffer("prod32", H)
                if gamma:
                    addend = p.mul(grad, hat, out=work)
                    gamma_sum, gamma_lost = compensated_add(p, gamma_sum, gamma_lost, addend, prod)
                    grad = p.mul(grad, factor, out=grad)
                dot = p.row_sum(p.mul(grad, hat, out=prod), out=p.buffer("dot", 1, pool="scalars"))
                mean = p.muls(dot, -(1 / H), out=dot)
                rest = p.muls(hat, mean[0], out=work)
                grad = p.muls(p.add(grad, rest, out=grad), scale, out=grad)
                p.store(p.cast(grad, dtype=k.dtype, name="dxOut", slots=2), dx[n.start, c.start])
            if gamma:
                p.store(gamma_sum, partial[p.core, c.start])
    return partial


def reduction(k: Kernel, sums: dict[str, Tensor], gamma_partial: Tensor | None) -> None:
    """The weight gradients and dgamma: partial sums added in order, with compensation, then cast out."""
    with k.vector("fixed-order reduction", "keeps whole rows of H and R, one row at a time") as p:
        wide = Adder(p, "H", H)
        out = p.buffer("outH", H, k.dtype, slots=2)
        for name in (n for n in ("dwDown", "dwGate") if n in sums):
            groups, rows, _ = sums[name].shape
            source, target = sums[name].reshape(groups, rows * C, H), k[name].reshape(rows * C, H)
            for r in p.loop(name, rows * C, split=True):
                p.store(p.cast(wide.total(source, r), out=out), target[r.start])
        gamma_out = p.buffer("dgammaOut", H, reserved=gamma_partial is None)
        if gamma_partial is not None:
            for c in p.loop("dgamma", C, split=True):
                p.store(p.move(wide.total(gamma_partial, c), out=gamma_out), k["dgamma"].reshape(C, H)[c.start])
        narrow = Adder(p, "R", R)
        out_r = p.buffer("outR", R, k.dtype, slots=2)
        for d in p.loop("dwUp", D, split=True):
            p.store(p.cast(narrow.total(sums["dwUp"], d), out=out_r), k["dwUp"][d.start])


class Adder:
    """Adds the partial sums of one row in order: partial (two slots), sum, compensation and work."""

    def __init__(self, p: Phase, suffix: str, width: Size) -> None:
        self.p = p
        self.partial = p.buffer(f"partial{suffix}", width, slots=2)
        self.sum, self.lost, self.work = (p.buffer(f"{name}{suffix}", width) for name in ("sum", "comp", "work"))

    def total(self, source: Tensor, row: Range) -> Value:
        """The sum over the first axis of source[:, row]."""
        p = self.p
        total, lost = p.fill(0.0, out=self.sum), p.fill(0.0, out=self.lost)
        for g in p.loop("g", source.shape[0], carry=(self.sum, self.lost)):
            one = p.load(source[g.start, row.start], out=self.partial)
            total, lost = compensated_add(p, total, lost, one, self.work)
        return total


def zero_fill(k: Kernel) -> None:
    """Without tokens every weight gradient is zero; outputs are overwritten all the same."""
    with k.vector("zero fill") as p:
        outputs = [("dwDown", R * C, H), ("dwUp", D, R), ("dwGate", C * C, H), ("dgamma", C, H)]
        for name, rows, width in outputs:
            if k.tensors.get(name) is not None:
                target = k[name].reshape(rows, width)
                zero = p.buffer(f"{name}Zero", width, target.dtype)
                for r in p.loop(name, rows, split=True):
                    p.store(p.fill(0.0, out=zero), target[r.start])


def channels_divide(call: Call, _: Chip) -> Outcome:
    """Whether the last axis of x is a whole number of channels."""
    x, channels = call.spec("x"), call.attributes.get("channels")
    if x is None or len(x.shape) != 3 or channels is None:
        return Outcome(ok=True, expected="a divisor of D", given=UNKNOWN)
    ok = channels > 0 and x.shape[-1] % channels == 0
    return Outcome(ok, f"a divisor of D = {x.shape[-1]}", str(channels))


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
        whole_group("inject", INJECT),
        whole_group("gamma", GAMMA),
        dtype_supported("x"),
        *(dtype_same(t.name, "x") for t in TENSORS if not t.dtype and t.name != "x"),
        *(dtype_is(t.name, t.dtype) for t in TENSORS if t.dtype),
        in_range(CHANNELS, "channels"),
        Rule("channels divide D", PARAM_INVALID, channels_divide, "channels"),
        in_range(FEATURES, "gradMixed"),
        in_range(DEPTH, "wDown"),
        *countable(("B", "S"), "x"),
        *(shape(t.name) for t in TENSORS),
        multiple(FEATURES, "gradMixed", status=INNER_NULLPTR),
        multiple(DEPTH, "wDown", status=INNER_NULLPTR),
    ),
    kernel=kernel,
    variant=variant,
    computed=computed,
    overflow=INNER_NULLPTR,
)
