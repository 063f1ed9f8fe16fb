"""Reference of the gated hyper-connection, with or without injection and gamma."""

from __future__ import annotations

import numpy as np

from tests.reference.call import Call, Plan
from tests.reference.formats import AnyArray, Array, Inputs, Outputs, widened
from tests.reference.logistic import logistic
from tests.reference.tolerance import Measurement, assert_text_gated_residual


def normalised(inputs: Inputs, inv_rms: Array) -> tuple[Array, Array, Array]:
    """Return x / rms as [N, C, H], the scale 1 + gamma as [C, H], and their product as [N, D]."""
    rows, channels = inv_rms.shape
    depth = inputs["x"].shape[2]
    xhat = widened(inputs["x"]).reshape(rows, channels, depth // channels) * inv_rms[:, :, None]
    scale = np.ones(xhat.shape[1:])
    if "gamma" in inputs:
        scale = scale + widened(inputs["gamma"]).reshape(scale.shape)
    return xhat, scale, (xhat * scale).reshape(rows, depth)


def rows_of(values: AnyArray) -> Array:
    """Return [B, S, n] values as [B*S, n]; a reshape to -1 would not do for empty ones."""
    batch, tokens, width = values.shape
    return widened(values).reshape(batch * tokens, width)


def forward(inputs: Inputs, channels: int, eps: float = 1e-6) -> Outputs:
    """Return `mixed`, `invRms`, `downPreAct`, `up` and, if `wGate` is given, `inject`."""
    batch, tokens, depth = inputs["x"].shape
    rows, features = batch * tokens, depth // channels
    lanes = widened(inputs["x"]).reshape(rows, channels, features)
    inv_rms = 1.0 / np.sqrt(np.mean(lanes**2, axis=2) + eps)
    _, _, x_norm = normalised(inputs, inv_rms)
    down = x_norm @ widened(inputs["wDown"]).T
    scaled = down / channels
    up = (scaled * logistic(scaled)[0]) @ widened(inputs["wUp"]).T
    mixed = np.mean((x_norm * logistic(up)[0]).reshape(rows, channels, features), axis=1)
    outputs = {"mixed": mixed, "invRms": inv_rms, "downPreAct": down, "up": up}
    if "wGate" in inputs:
        outputs["inject"] = 2.0 * logistic(x_norm @ widened(inputs["wGate"]).T / channels)[0]
    return {name: value.reshape(batch, tokens, value.shape[1]) for name, value in outputs.items()}


def expected(call: Call, inputs: Inputs) -> Outputs:
    """Return the outputs of `forward` at the numbers of a call."""
    return forward(inputs, call.attributes["channels"], call.attributes["eps"])


def compare(plan: Plan, _: Inputs, outputs: Inputs, values: Outputs) -> list[Measurement]:
    """Return how far the outputs of a plan are from `values`, all within tolerance."""
    return assert_text_gated_residual(outputs, values, plan.call.dtype)
