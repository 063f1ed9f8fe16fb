"""The gated hyper-connection TextGatedResidual, with the tensors that its backward reads.

Source: the forward formulas in the vendor's document of TextGatedResidualGrad (ops-transformer, pull request 15537).
The vendor documents no interface of its own for it, so its ranges and status codes are those of the backward.
"""

from __future__ import annotations

import numpy as np

from tilesim.kernels import EMPTY, Kernel, Tensor, attribute, matmul, sigmoid
from tilesim.operators import (
    INNER_NULLPTR,
    Argument,
    Arrays,
    Attribute,
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
    usual,
    whole_group,
)
from tilesim.ops.text_gated_residual_grad import (
    BATCH,
    CHANNELS,
    DEPTH,
    FEATURES,
    K_BLOCK,
    SEQUENCE,
    C,
    D,
    H,
    N,
    R,
    derived_sizes,
    tolerance,
    variant,
)

TENSORS = (
    Argument("x", "B S D"),
    Argument("wDown", "R D", fan_in="D"),
    Argument("wUp", "D R", fan_in="R"),
    Argument("wGate", "C D", option="inject", fan_in="D"),
    Argument("gamma", "D", dtype="float32", option="gamma"),
    result("mixed", "B S H"),
    result("invRms", "B S C", dtype="float32"),
    result("downPreAct", "B S R"),
    result("up", "B S D"),
    result("inject", "B S C", option="inject"),
)


def kernel(k: Kernel) -> None:
    """Record the phases, none of them without tokens.

    Products are summed in float32 and rounded when they are stored; their factors are rounded to the dtype first.
    """
    if k.variant == EMPTY:
        k.route = EMPTY
        return
    x_norm, act = k.workspace("xNorm", (N, D), k.dtype), k.workspace("act", (N, R), k.dtype)
    down, up = k.workspace("down32", (N, R), "float32"), k.workspace("up32", (N, D), "float32")
    normalise(k, x_norm)
    matmul(k, "down = xNorm wDown", x_norm, k["wDown"], down, transpose_b=True, k_block=K_BLOCK)
    if k.options["inject"]:
        gate = k.workspace("gate32", (N, C), "float32")
        matmul(k, "gate = xNorm wGate", x_norm, k["wGate"], gate, transpose_b=True, k_block=K_BLOCK)
    activate(k, down, act)
    matmul(k, "up = act wUp", act, k["wUp"], up, transpose_b=True, k_block=K_BLOCK)
    mix(k, x_norm, up)


def normalise(k: Kernel, x_norm: Tensor) -> None:
    """invRms = (mean(x^2) + eps)^(-1/2) and xNorm = x*invRms*(1 + gamma) of every channel row."""
    x, x_norm = k["x"].reshape(N, C, H), x_norm.reshape(N, C, H)
    with k.vector("normalise", "keeps whole rows of H; tiles over channels") as p:
        rows = p.tile("rows", C)
        for n in p.loop("n", N, split=True):
            for c in p.loop("c", C, rows):
                x32 = p.cast(p.load(x[n.start, c], name="xIn"), dtype="float32", name="x32")
                work = p.buffer("work32", (c.size, H))
                inverse = p.row_sum(p.mul(x32, x32, out=work), name="invRmsOut", slots=2)
                inverse = p.adds(p.muls(inverse, 1 / H, out=inverse), attribute("eps"), out=inverse)
                inverse = p.rec(p.sqrt(inverse, out=inverse), out=inverse)
                p.store(inverse, k["invRms"].reshape(N, C)[n.start, c])
                scaled = p.mul_rows(x32, inverse, out=x32)
                if k.options["gamma"]:
                    one_more = p.adds(p.load(k["gamma"].reshape(C, H)[c], name="gammaIn"), 1.0, out=work)
                    scaled = p.mul(scaled, one_more, out=x32)
                p.store(p.cast(scaled, dtype=k.dtype, name="xNormOut", slots=2), x_norm[n.start, c])


def activate(k: Kernel, down: Tensor, act: Tensor) -> None:
    """downPreAct, act = a*s(a) with a = downPreAct/C, and inject = 2*s(gate/C), several tokens at a time."""
    with k.vector("activate", "tiles over tokens") as p:
        for n in p.loop("n", N, p.tile("rows"), split=True):
            down_in = p.load(down[n], name="downIn")
            p.store(p.cast(down_in, dtype=k.dtype, name="downOut", slots=2), k["downPreAct"].reshape(N, R)[n])
            a = p.muls(down_in, 1 / C, out=down_in)
            acted = sigmoid(p, a, out=p.buffer("sigmoid32", (n.size, R)))
            acted = p.mul(acted, a, out=acted)
            p.store(p.cast(acted, dtype=k.dtype, name="actOut", slots=2), act[n])
            if k.options["inject"]:
                gate = p.load(k.workspaces["gate32"][n], name="gateIn")
                gate = sigmoid(p, p.muls(gate, 1 / C, out=gate), out=gate)
                gate = p.muls(gate, 2.0, out=gate)
                p.store(p.cast(gate, dtype=k.dtype, name="injectOut", slots=2), k["inject"].reshape(N, C)[n])


def mix(k: Kernel, x_norm: Tensor, up: Tensor) -> None:
    """up, and mixed = the mean over channels of xNorm*s(up), channel after channel."""
    x_norm, up, up_out = x_norm.reshape(N, C, H), up.reshape(N, C, H), k["up"].reshape(N, C, H)
    with k.vector("mix", "keeps whole rows of H; token outer, channel inner") as p:
        for n in p.loop("n", N, split=True):
            mixed = p.buffer("mixed32", H)
            total = p.fill(0.0, out=mixed)
            for c in p.loop("c", C, carry=(mixed,)):
                xn = p.cast(p.load(x_norm[n.start, c.start], name="xNormIn"), dtype="float32", name="xNorm32")
                gate = p.load(up[n.start, c.start], name="upIn")
                p.store(p.cast(gate, dtype=k.dtype, name="upOut", slots=2), up_out[n.start, c.start])
                gate = sigmoid(p, gate, out=gate)
                total = p.madd(xn, gate, out=mixed)
            total = p.muls(total, 1 / C, out=mixed)
            p.store(p.cast(total, dtype=k.dtype, name="mixedOut", slots=2), k["mixed"].reshape(N, H)[n.start])


def tolerance_of(name: str, k: Kernel) -> Tolerance:
    """Return the tolerance of the gradients, but of float32 for invRms."""
    return usual("float32") if name == "invRms" else tolerance(name, k)


def reference(given: Arrays, numbers: Numbers) -> Arrays:
    """The results in float64."""
    batch, tokens, depth = given["x"].shape
    n, c = batch * tokens, int(numbers["channels"])
    x = given["x"].reshape(n, c, depth // c)
    inv_rms = ((x**2).mean(axis=2) + numbers["eps"]) ** -0.5
    x_norm = (x * inv_rms[:, :, None]).reshape(n, depth) * (1 + given.get("gamma", np.zeros(depth)))
    down = x_norm @ given["wDown"].T
    up = (down / c * logistic(down / c)) @ given["wUp"].T
    mixed = (x_norm * logistic(up)).reshape(x.shape).mean(axis=1)
    out = {"mixed": mixed, "invRms": inv_rms, "downPreAct": down, "up": up}
    if "wGate" in given:
        out["inject"] = 2 * logistic(x_norm @ given["wGate"].T / c)
    return {name: value.reshape(batch, tokens, value.shape[1]) for name, value in out.items()}


text_gated_residual = Operator(
    name="text_gated_residual",
    api="",
    about="gated hyper-connection of a language model",
    dims=(BATCH, SEQUENCE, CHANNELS, FEATURES, DEPTH),
    derived={"D": "C*H"},
    tensors=TENSORS,
    lead="x",
    options=(Option("inject"), Option("gamma")),
    attributes=(Attribute("channels", dim="C"), Attribute("eps", default=1e-6)),
    dtypes=dict.fromkeys(("950", "a3", "a2"), ("bfloat16", "float16")),
    dtype="bfloat16",
    rules=(
        *not_null(*(t.name for t in TENSORS if not t.option)),
        whole_group("inject", ("wGate", "inject")),
        dtype_supported("x"),
        *(dtype_same(t.name, "x") for t in TENSORS if not t.dtype and t.name != "x"),
        *(dtype_is(t.name, t.dtype) for t in TENSORS if t.dtype),
        in_range(CHANNELS, "channels"),
        divides("channels", "x"),
        in_range(FEATURES, "mixed"),
        in_range(DEPTH, "wDown"),
        *countable(("B", "S"), "x"),
        *(shape(t.name) for t in TENSORS),
        multiple(FEATURES, "mixed", status=INNER_NULLPTR),
        multiple(DEPTH, "wDown", status=INNER_NULLPTR),
    ),
    kernel=kernel,
    variant=variant,
    derived_sizes=derived_sizes,
    overflow=INNER_NULLPTR,
    reference=reference,
    tolerance=tolerance_of,
)
