"""Reference of the gated hyper-connection and of its backward, with or without injection and gamma.

The backward takes the saved tensors as they are given (invRms, downPreAct, up, inject): it is the gradient of
the loss with those values, not of a recomputed forward. eps enters through invRms alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.formats import AnyArray, Array, carried, widened
from tests.reference.logistic import logistic

BACKWARD_INPUTS = (
    "gradMixed", "x", "wDown", "wUp", "invRms", "downPreAct", "up", "gradInject", "wGate", "gamma", "inject",
)  # fmt: skip


def _normalised(inputs: Mapping[str, AnyArray], inv_rms: Array) -> tuple[Array, Array, Array]:
    """Return x / rms as [N, C, H], the scale 1 + gamma as [C, H], and their product as [N, D]."""
    rows, channels = inv_rms.shape
    depth = inputs["x"].shape[2]
    xhat = widened(inputs["x"]).reshape(rows, channels, depth // channels) * inv_rms[:, :, None]
    scale = np.ones(xhat.shape[1:])
    if "gamma" in inputs:
        scale = scale + widened(inputs["gamma"]).reshape(scale.shape)
    return xhat, scale, (xhat * scale).reshape(rows, depth)


def _rows(values: AnyArray) -> Array:
    """Return [B, S, n] values as [B*S, n]; a reshape to -1 would not do for empty ones."""
    batch, tokens, width = values.shape
    return widened(values).reshape(batch * tokens, width)


def forward(inputs: Mapping[str, AnyArray], channels: int, eps: float = 1e-6) -> dict[str, Array]:
    """Return `mixed`, `invRms`, `downPreAct`, `up` and, if `wGate` is given, `inject`."""
    batch, tokens, depth = inputs["x"].shape
    rows, features = batch * tokens, depth // channels
    lanes = widened(inputs["x"]).reshape(rows, channels, features)
    inv_rms = 1.0 / np.sqrt(np.mean(lanes**2, axis=2) + eps)
    _, _, x_norm = _normalised(inputs, inv_rms)
    down = x_norm @ widened(inputs["wDown"]).T
    scaled = down / channels
    up = (scaled * logistic(scaled)[0]) @ widened(inputs["wUp"]).T
    mixed = np.mean((x_norm * logistic(up)[0]).reshape(rows, channels, features), axis=1)
    outputs = {"mixed": mixed, "invRms": inv_rms, "downPreAct": down, "up": up}
    if "wGate" in inputs:
        outputs["inject"] = 2.0 * logistic(x_norm @ widened(inputs["wGate"]).T / channels)[0]
    return {name: value.reshape(batch, tokens, value.shape[1]) for name, value in outputs.items()}


def backward(inputs: Mapping[str, AnyArray], channels: int) -> dict[str, Array]:
    """Return `dx`, `dwDown`, `dwUp`, and `dwGate` and `dgamma` if their option groups are given."""
    w_down, w_up = widened(inputs["wDown"]), widened(inputs["wUp"])
    inv_rms, up = _rows(inputs["invRms"]), _rows(inputs["up"])
    xhat, scale, x_norm = _normalised(inputs, inv_rms)

    opened, closed = logistic(up)
    upstream = np.tile(_rows(inputs["gradMixed"]), (1, channels)) / channels
    d_up = upstream * x_norm * opened * closed
    pre = _rows(inputs["downPreAct"]) / channels
    pre_open, pre_closed = logistic(pre)
    d_down = (d_up @ w_up) * pre_open * (1.0 + pre * pre_closed) / channels
    d_norm = upstream * opened + d_down @ w_down
    outputs = {"dwDown": d_down.T @ x_norm, "dwUp": d_up.T @ (pre * pre_open)}
    if "wGate" in inputs:
        inject = _rows(inputs["inject"])
        d_gate = _rows(inputs["gradInject"]) * inject * (1.0 - inject / 2.0) / channels
        d_norm += d_gate @ widened(inputs["wGate"])
        outputs["dwGate"] = d_gate.T @ x_norm

    d_lanes = d_norm.reshape(xhat.shape)
    if "gamma" in inputs:
        outputs["dgamma"] = np.sum(d_lanes * xhat, axis=0).reshape(-1)
    d_hat = d_lanes * scale
    along = np.mean(d_hat * xhat, axis=2, keepdims=True)
    d_x = inv_rms[:, :, None] * (d_hat - xhat * along)
    return {"dx": d_x.reshape(inputs["x"].shape), **outputs}


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
