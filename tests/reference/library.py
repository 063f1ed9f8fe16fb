"""References of the library operators whose times are compared: elementwise, normalisation, products."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from tests.reference.formats import AnyArray, Array, carried, widened
from tests.reference.logistic import logistic

Inputs = Mapping[str, AnyArray]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def exp(inputs: Inputs, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> dict[str, Array]:
    """Return `y` = base ** (scale*x + shift); a base that is not positive stands for e."""
    power = scale * widened(inputs["x"]) + shift
    return {"y": np.exp(power) if base <= 0 else np.power(float(base), power)}


def sigmoid(inputs: Inputs) -> dict[str, Array]:
    """Return `y` = 1 / (1 + e**-x)."""
    return {"y": logistic(widened(inputs["x"]))[0]}


def gelu(inputs: Inputs, *, approximate: str = "none") -> dict[str, Array]:
    """Return `y` = x * Phi(x) with the exact error function, or with its tanh form."""
    x = widened(inputs["x"])
    if approximate == "tanh":
        return {"y": 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))}
    if approximate != "none":
        raise ValueError(f"gelu: approximate is {approximate!r}, not 'none' or 'tanh'")
    return {"y": 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))}


def mish(inputs: Inputs) -> dict[str, Array]:
    """Return `y` = x * tanh(log(1 + e**x))."""
    x = widened(inputs["x"])
    return {"y": x * np.tanh(np.logaddexp(0.0, x))}


def add(inputs: Inputs) -> dict[str, Array]:
    """Return `y` = x1 + x2, broadcast."""
    return {"y": widened(inputs["x1"]) + widened(inputs["x2"])}


def mul(inputs: Inputs) -> dict[str, Array]:
    """Return `y` = x1 * x2, broadcast."""
    return {"y": widened(inputs["x1"]) * widened(inputs["x2"])}


def maximum(inputs: Inputs) -> dict[str, Array]:
    """Return `y`, the greater of x1 and x2, broadcast; integers up to 2**53 are exact."""
    return {"y": np.maximum(widened(inputs["x1"]), widened(inputs["x2"]))}


def swi_glu(inputs: Inputs, *, dim: int = -1) -> dict[str, Array]:
    """Return `y` = x0 * s(x0) * x1 of the two halves of `x` along dim."""
    first, second = np.split(widened(inputs["x"]), 2, axis=dim)
    return {"y": first * logistic(first)[0] * second}


def softmax(inputs: Inputs, *, dim: int = -1) -> dict[str, Array]:
    """Return `y`, which sums to 1 along dim."""
    x = widened(inputs["x"])
    weight = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return {"y": weight / np.sum(weight, axis=dim, keepdims=True)}


def rms_norm(inputs: Inputs, *, epsilon: float = 1e-6) -> dict[str, Array]:
    """Return `y` = x * gamma * rstd over the last axis, and `rstd`, one value a row with an axis of size 1."""
    x = widened(inputs["x"])
    rstd = 1.0 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + epsilon)
    return {"y": x * rstd * widened(inputs["gamma"]), "rstd": rstd}


def addcdiv(inputs: Inputs, *, scalar: float = 1.0) -> dict[str, Array]:
    """Return `y` = x1 + scalar * x2 / x3."""
    return {"y": widened(inputs["x1"]) + scalar * widened(inputs["x2"]) / widened(inputs["x3"])}


def adam_w(
    inputs: Inputs,
    *,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    weight_decay: float = 0.0,
    epsilon: float = 1e-8,
    maximize: bool = False,
    step: int = 1,
) -> dict[str, Array]:
    """Return `var`, `m` and `v` after one step with decoupled decay; `step` counts from 1 for the bias correction."""
    grad = -widened(inputs["grad"]) if maximize else widened(inputs["grad"])
    m = beta1 * widened(inputs["m"]) + (1.0 - beta1) * grad
    v = beta2 * widened(inputs["v"]) + (1.0 - beta2) * grad**2
    mean, square = m / (1.0 - beta1**step), v / (1.0 - beta2**step)
    decayed = widened(inputs["var"]) * (1.0 - lr * weight_decay)
    return {"var": decayed - lr * mean / (np.sqrt(square) + epsilon), "m": m, "v": v}


def dynamic_quant(inputs: Inputs) -> dict[str, Array]:
    """Return `y` = round(x / scale), ties to even, in -127..127, and `scale` = max|x| / 127 of each row.

    A row of zeros has scale 0 and stays zero.
    """
    x = widened(inputs["x"])
    scale = np.max(np.abs(x), axis=-1) / 127.0
    divisor = np.where(scale == 0, 1.0, scale)[..., None]
    return {"y": np.rint(x / divisor), "scale": scale}


def matmul(inputs: Inputs, *, transpose1: bool = False, transpose2: bool = False) -> dict[str, Array]:
    """Return `y` = x1 @ x2, either factor transposed in its last two axes first if asked."""
    left, right = widened(inputs["x1"]), widened(inputs["x2"])
    left = np.swapaxes(left, -1, -2) if transpose1 else left
    right = np.swapaxes(right, -1, -2) if transpose2 else right
    return {"y": left @ right}


def copy(inputs: Inputs) -> dict[str, Array]:
    """Return `y`, equal to `x`."""
    return {"y": widened(inputs["x"]).copy()}


def random_inputs(
    shapes: Mapping[str, tuple[int, ...]], dtype: str = "float32", *, positive: Collection[str] = (), seed: int = 0
) -> dict[str, AnyArray]:
    """Return a normal tensor of each shape, rounded to the dtype; those named positive lie in 0.5..1.5."""
    rng = np.random.default_rng(seed)
    return {
        name: carried(rng.uniform(0.5, 1.5, shape) if name in positive else rng.standard_normal(shape), dtype)
        for name, shape in shapes.items()
    }
