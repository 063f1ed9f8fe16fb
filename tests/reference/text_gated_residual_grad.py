"""Reference of the backward of the gated hyper-connection, with or without injection and gamma.

It takes the saved tensors as they are given (invRms, downPreAct, up, inject): it is the gradient of the loss with those
values, not of a recomputed forward. eps enters through invRms alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.call import Call
from tests.reference.formats import AnyArray, Inputs, Outputs, carried, widened
from tests.reference.logistic import logistic
from tests.reference.text_gated_residual import compare, forward, normalised, rows_of

__all__ = ["backward", "compare", "expected", "random_inputs"]

BACKWARD_INPUTS = (
    "gradMixed", "x", "wDown", "wUp", "invRms", "downPreAct", "up", "gradInject", "wGate", "gamma", "inject",
)  # fmt: skip


def backward(inputs: Inputs, channels: int) -> Outputs:
    """Return `dx`, `dwDown`, `dwUp`, and `dwGate` and `dgamma` if their option groups are given."""
    w_down, w_up = widened(inputs["wDown"]), widened(inputs["wUp"])
    inv_rms, up = rows_of(inputs["invRms"]), rows_of(inputs["up"])
    xhat, scale, x_norm = normalised(inputs, inv_rms)

    opened, closed = logistic(up)
    upstream = np.tile(rows_of(inputs["gradMixed"]), (1, channels)) / channels
    d_up = upstream * x_norm * opened * closed
    pre = rows_of(inputs["downPreAct"]) / channels
    pre_open, pre_closed = logistic(pre)
    d_down = (d_up @ w_up) * pre_open * (1.0 + pre * pre_closed) / channels
    d_norm = upstream * opened + d_down @ w_down
    outputs = {"dwDown": d_down.T @ x_norm, "dwUp": d_up.T @ (pre * pre_open)}
    if "wGate" in inputs:
        inject = rows_of(inputs["inject"])
        d_gate = rows_of(inputs["gradInject"]) * inject * (1.0 - inject / 2.0) / channels
        d_norm += d_gate @ widened(inputs["wGate"])
        outputs["dwGate"] = d_gate.T @ x_norm

    d_lanes = d_norm.reshape(xhat.shape)
    if "gamma" in inputs:
        outputs["dgamma"] = np.sum(d_lanes * xhat, axis=0).reshape(-1)
    d_hat = d_lanes * scale
    along = np.mean(d_hat * xhat, axis=2, keepdims=True)
    d_x = inv_rms[:, :, None] * (d_hat - xhat * along)
    return {"dx": d_x.reshape(inputs["x"].shape), **outputs}


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `backward` at the channels of a call."""
    return backward(inputs, call.attributes["channels"])


def random_inputs(
    dims: Mapping[str, int],
    dtype: str = "bfloat16",
    *,
    inject: bool = True,
    gamma: bool = True,
    seed: int = 0,
    eps: float = 1e-6,
    grad_scale: float = 1.0,
) -> dict[str, AnyArray]:
    """Return all inputs of the backward for dims B, S, C, H, R, in the order of the operator's document.

    The saved tensors are those of a float64 forward at the rounded inputs, each rounded to its own dtype. The
    weights are scaled so that neither sigmoid is saturated.
    """
    rng = np.random.default_rng(seed)
    channels, rank, depth = dims["C"], dims["R"], dims["C"] * dims["H"]
    lead = (dims["B"], dims["S"])

    def draw(shape: tuple[int, ...], spread: float, kind: str = dtype) -> AnyArray:
        return carried(rng.standard_normal(shape) * spread, kind)

    made = {
        "gradMixed": draw((*lead, dims["H"]), grad_scale),
        "x": draw((*lead, depth), 1.0),
        "wDown": draw((rank, depth), channels / depth**0.5),
        "wUp": draw((depth, rank), 2.0 / rank**0.5),
    }
    if inject:
        made["gradInject"] = draw((*lead, channels), grad_scale)
        made["wGate"] = draw((channels, depth), channels / depth**0.5)
    if gamma:
        made["gamma"] = draw((depth,), 0.3, "float32")
    for name, value in forward(made, channels, eps).items():
        if name != "mixed":
            made[name] = carried(value, "float32" if name == "invRms" else dtype)
    return {name: made[name] for name in BACKWARD_INPUTS if name in made}
