"""The references against finite differences, against autodiff and against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad

from tests.reference import (
    formats,
    glu,
    glu_backward,
    masked_causal_conv1d,
    masked_causal_conv1d_backward,
    reference_of,
    text_gated_residual,
    text_gated_residual_grad,
)
from tests.reference.call import Stated
from tests.reference.formats import AnyArray, Array, widened

OPTIONS = [(True, True), (True, False), (False, True), (False, False)]
DIMS = {"B": 2, "S": 3, "C": 4, "H": 16, "R": 16}

Outputs = Mapping[str, AnyArray]
Tensors = dict[str, Array]


def _wide(inputs: Outputs) -> dict[str, AnyArray]:
    return {name: value if value.dtype == bool else widened(value) for name, value in inputs.items()}


def _assert_close(actual: Outputs, expected: Outputs, share: float) -> None:
    """Fail unless every output agrees within a share of its largest value."""
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=share, atol=share * np.abs(value).max(initial=1e-300))


def _differences(loss: Callable[[Tensors], float], tensors: Tensors, step: float = 1e-5) -> Tensors:
    """Return central finite differences of the loss in every element of every tensor."""
    slopes = {}
    for name, value in tensors.items():
        slope = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            moved = [value.copy(), value.copy()]
            moved[0][index] += step
            moved[1][index] -= step
            high, low = (loss({**tensors, name: each}) for each in moved)
            slope[index] = (high - low) / (2.0 * step)
        slopes[name] = slope
    return slopes


def _autodiff(loss: Callable[[dict[str, Any]], Any], tensors: Tensors) -> Tensors:
    """Return the gradients of a loss written in autograd.numpy."""
    gradients: Tensors = grad(loss)(tensors)
    return gradients


# --- text_gated_residual ---------------------------------------------------------------------------------------

GRADIENT_OF = {"x": "dx", "wDown": "dwDown", "wUp": "dwUp", "wGate": "dwGate", "gamma": "dgamma"}


def _gated_inputs(dims: Mapping[str, int], *, inject: bool, gamma: bool, eps: float = 1e-6) -> dict[str, AnyArray]:
    """Return inputs whose saved tensors come from a float64 forward, unrounded: only then the gradient is exact."""
    made = _wide(text_gated_residual_grad.random_inputs(dims, inject=inject, gamma=gamma, seed=3, eps=eps))
    saved = text_gated_residual.forward(made, dims["C"], eps)
    return {**made, **{name: value for name, value in saved.items() if name in made}}


def _gated_loss(inputs: Outputs, channels: int, eps: float) -> Callable[[Any], Any]:
    """Return the loss as a function of the parameters, written out a second time in autograd.numpy."""

    def loss(p: Any) -> Any:
        rows = inputs["x"].shape[0] * inputs["x"].shape[1]
        lanes = anp.reshape(p["x"], (rows, channels, -1))
        norm = lanes / anp.sqrt(anp.mean(lanes**2, axis=2, keepdims=True) + eps)
        if "gamma" in p:
            norm = norm * (1.0 + anp.reshape(p["gamma"], norm.shape[1:]))
        flat = anp.reshape(norm, (rows, -1))
        pre = anp.dot(flat, anp.transpose(p["wDown"])) / channels
        up = anp.dot(pre / (1.0 + anp.exp(-pre)), anp.transpose(p["wUp"]))
        mixed = anp.mean(norm / (1.0 + anp.exp(-anp.reshape(up, norm.shape))), axis=1)
        total = anp.sum(mixed * np.reshape(inputs["gradMixed"], (rows, -1)))
        if "wGate" in p:
            gate = anp.dot(flat, anp.transpose(p["wGate"])) / channels
            total = total + anp.sum(2.0 / (1.0 + anp.exp(-gate)) * np.reshape(inputs["gradInject"], (rows, -1)))
        return total

    return loss


def _gated_parameters(inputs: Outputs) -> Tensors:
    return {name: widened(inputs[name]) for name in GRADIENT_OF if name in inputs}


@pytest.mark.parametrize(("inject", "gamma"), OPTIONS)
@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_gated_residual_equals_autodiff(inject: bool, gamma: bool, eps: float, channels: int) -> None:
    inputs = _gated_inputs({**DIMS, "C": channels}, inject=inject, gamma=gamma, eps=eps)
    expected = _autodiff(_gated_loss(inputs, channels, eps), _gated_parameters(inputs))
    actual = text_gated_residual_grad.backward(inputs, channels)
    _assert_close(actual, {GRADIENT_OF[name]: value for name, value in expected.items()}, 1e-12)


@pytest.mark.parametrize(("inject", "gamma"), OPTIONS)
def test_gated_residual_equals_finite_differences(inject: bool, gamma: bool) -> None:
    dims = {"B": 1, "S": 2, "C": 2, "H": 4, "R": 3}
    inputs = _gated_inputs(dims, inject=inject, gamma=gamma)

    def loss(parameters: Tensors) -> float:
        outputs = text_gated_residual.forward({**inputs, **parameters}, dims["C"])
        total = np.sum(inputs["gradMixed"] * outputs["mixed"])
        return float(total + (np.sum(inputs["gradInject"] * outputs["inject"]) if inject else 0.0))

    expected = _differences(loss, _gated_parameters(inputs))
    actual = text_gated_residual_grad.backward(inputs, dims["C"])
    _assert_close(actual, {GRADIENT_OF[name]: value for name, value in expected.items()}, 1e-8)


def test_gated_residual_documented_example_is_125_and_zeros() -> None:
    lead, channels, features, rank = (1, 2), 4, 16, 16
    depth = channels * features
    inputs: dict[str, AnyArray] = {
        "gradMixed": np.ones((*lead, features)),
        "x": np.zeros((*lead, depth)),
        "wDown": np.zeros((rank, depth)),
        "wUp": np.zeros((depth, rank)),
        "gradInject": np.ones((*lead, channels)),
        "wGate": np.zeros((channels, depth)),
        "gamma": np.zeros(depth),
    }
    saved = text_gated_residual.forward(inputs, channels)
    assert np.all(np.abs(saved["invRms"] - 1000.0) < 1e-9)
    assert np.all(saved["inject"] == 1.0)
    assert not saved["up"].any()
    outputs = text_gated_residual_grad.backward(
        inputs | saved | {"invRms": np.full((*lead, channels), 1000.0)}, channels
    )
    assert np.all(outputs.pop("dx") == 125.0)
    assert set(outputs) == {"dwDown", "dwUp", "dwGate", "dgamma"}
    assert not any(value.any() for value in outputs.values())


def test_gated_residual_of_one_feature_by_hand() -> None:
    # One row, channel and feature: xhat = 2*0.5 = 1, sigmoid(0) = 1/2, and the branch through wDown is shut by
    # dwUp's own sigmoid slope 1/4: dUp = 4*1*1/4 = 1; downPreAct = 0, so act = 0 and silu' = 1/2.
    one = np.ones((1, 1, 1))
    inputs = {
        "gradMixed": 4 * one, "x": 2 * one, "wDown": 3 * one[0], "wUp": 5 * one[0],
        "invRms": 0.5 * one, "downPreAct": 0 * one, "up": 0 * one,
    }  # fmt: skip
    outputs = text_gated_residual_grad.backward(inputs, 1)
    # dDown = 1*5*1/2 = 2.5; dxNorm = 4/2 + 2.5*3 = 9.5; with H = 1 the norm removes all of it: 9.5 - 1*(9.5*1) = 0.
    assert {name: float(value.squeeze()) for name, value in outputs.items()} == {"dx": 0.0, "dwDown": 2.5, "dwUp": 0.0}


@pytest.mark.parametrize("lead", [(0, 5), (5, 0)])
def test_gated_residual_without_rows_has_zero_weight_gradients(lead: tuple[int, int]) -> None:
    inputs = text_gated_residual_grad.random_inputs({**DIMS, "B": lead[0], "S": lead[1]})
    outputs = text_gated_residual_grad.backward(inputs, DIMS["C"])
    assert outputs["dx"].shape == (*lead, 64)
    assert outputs["dwDown"].shape == (16, 64)
    assert not any(outputs[name].any() for name in ("dwDown", "dwUp", "dwGate", "dgamma"))


def test_gated_residual_inputs_repeat_and_keep_their_formats() -> None:
    first, second = (text_gated_residual_grad.random_inputs(DIMS, "float16", seed=7) for _ in range(2))
    assert tuple(first) == text_gated_residual_grad.BACKWARD_INPUTS
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])
        dtype = "float32" if name in {"invRms", "gamma"} else "float16"
        np.testing.assert_array_equal(formats.rounded(value, dtype), value)


# --- masked_causal_conv1d --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize(("tokens", "width"), [(1, 3), (2, 3), (7, 3), (5, 1), (6, 4)])
def test_conv1d_equals_autodiff(mask: bool, tokens: int, width: int) -> None:
    inputs = _wide(masked_causal_conv1d_backward.random_inputs({"S": tokens, "B": 2, "H": 5, "W": width}, mask=mask))
    keep = inputs["mask"].T[:, :, None] if mask else np.ones((tokens, 2, 1))

    def loss(p: Any) -> Any:
        padded = anp.concatenate([np.zeros((width - 1, 2, 5)), p["x"]])
        y = sum(p["weight"][k] * padded[k : k + tokens] for k in range(width))
        return anp.sum(inputs["gradY"] * keep * y)

    expected = _autodiff(loss, {"x": inputs["x"], "weight": inputs["weight"]})
    actual = masked_causal_conv1d_backward.backward(inputs)
    _assert_close(actual, {"gradX": expected["x"], "gradWeight": expected["weight"]}, 1e-13)


@pytest.mark.parametrize("mask", [True, False])
def test_conv1d_equals_finite_differences(mask: bool) -> None:
    inputs = _wide(masked_causal_conv1d_backward.random_inputs({"S": 4, "B": 2, "H": 3}, mask=mask))

    def loss(p: Tensors) -> float:
        return float(np.sum(inputs["gradY"] * masked_causal_conv1d.forward({**inputs, **p})["out"]))

    expected = _differences(loss, {"x": inputs["x"], "weight": inputs["weight"]})
    actual = masked_causal_conv1d_backward.backward(inputs)
    _assert_close(actual, {"gradX": expected["x"], "gradWeight": expected["weight"]}, 1e-8)


def test_conv1d_by_hand() -> None:
    def column(*values: float) -> Array:
        return np.array(values).reshape(-1, 1, 1)

    inputs: dict[str, AnyArray] = {"x": column(1, 2, 3), "weight": np.array([[1.0], [10.0], [100.0]])}
    assert masked_causal_conv1d.forward(inputs)["out"].ravel().tolist() == [100, 210, 321]
    inputs |= {"gradY": column(1, 1, 2), "mask": np.array([[True, False, True]])}
    assert masked_causal_conv1d.forward(inputs)["out"].ravel().tolist() == [100, 0, 321]
    outputs = masked_causal_conv1d_backward.backward(inputs)
    assert outputs["gradX"].ravel().tolist() == [100 + 2 * 1, 2 * 10, 2 * 100]
    assert outputs["gradWeight"].ravel().tolist() == [2 * 1, 2 * 2, 1 * 1 + 2 * 3]
    assert masked_causal_conv1d_backward.backward_terms(inputs)["gradX"].ravel().tolist() == [102, 20, 200]


# --- glu -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "dim"), [((6,), 0), ((2, 4, 6), -1), ((4, 3), 0), ((2, 2, 4, 3), 2), ((2,) * 8, -8)])
def test_glu_equals_autodiff_and_finite_differences(shape: tuple[int, ...], dim: int) -> None:
    inputs = _wide(glu_backward.random_inputs(shape, dim))
    half = shape[dim] // 2
    first, second = (
        tuple(part if axis == dim % len(shape) else slice(None) for axis in range(len(shape)))
        for part in (slice(half), slice(half, None))
    )

    def traced(p: Any) -> Any:
        return anp.sum(inputs["gradOut"] * p["self"][first] / (1.0 + anp.exp(-p["self"][second])))

    def loss(p: Tensors) -> float:
        return float(np.sum(inputs["gradOut"] * glu.forward(p, dim)["out"]))

    actual = glu_backward.backward(inputs, dim)
    parameters = {"self": inputs["self"]}
    _assert_close(actual, {"out": _autodiff(traced, parameters)["self"]}, 1e-13)
    _assert_close(actual, {"out": _differences(loss, parameters)["self"]}, 1e-8)


def test_glu_keeps_its_relative_accuracy_where_gates_saturate() -> None:
    gate = np.array([0.0, 40.0, -40.0, 700.0, -700.0, 1e4, -1e4])
    with np.errstate(over="raise", invalid="raise"):
        out = glu_backward.backward({"self": np.stack([np.full(7, 2.0), gate]), "gradOut": np.full((1, 7), 3.0)}, 0)[
            "out"
        ]
    far = np.exp(-np.abs(gate))
    np.testing.assert_allclose(out[0], 3.0 * np.where(gate < 0, far, 1.0) / (1.0 + far), rtol=1e-15)
    np.testing.assert_allclose(out[1], 6.0 * far / (1.0 + far) ** 2, rtol=1e-15)
    assert out[:, 0].tolist() == [1.5, 1.5]
    scale = glu_backward.tolerance_scale({"self": np.array([-2.0, 9.0]), "gradOut": np.array([-3.0])}, 0)["out"]
    assert scale.tolist() == [3.0, 6.0]


# --- library ---------------------------------------------------------------------------------------------------


def _expected(name: str, inputs: Outputs, options: Mapping[str, bool] | None = None, **numbers: float) -> Outputs:
    """Return what the reference of a library operator says of a call with those numbers."""
    outputs: Outputs = reference_of(name).expected(Stated(numbers, options or {}), inputs)
    return outputs


ROWS = np.array([[-1.0, 0.0, 2.0], [3.0, -3.0, 0.0]])


def test_library_elementwise_by_hand() -> None:
    inputs = {"x": ROWS, "x1": ROWS, "x2": np.array([1.0, 2.0, 4.0]), "x3": np.full((2, 3), 2.0)}
    e = np.e
    expected: dict[str, AnyArray] = {
        "exp": np.array([[1, e**2, e**6], [e**8, e**-4, e**2]]),
        "sigmoid": np.array([[1 / (1 + e), 0.5, e**2 / (1 + e**2)], [e**3 / (1 + e**3), 1 / (1 + e**3), 0.5]]),
        "add": np.array([[0, 2, 6], [4, -1, 4]]),
        "mul": np.array([[-1, 0, 8], [3, -6, 0]]),
        "maximum": np.array([[1, 2, 4], [3, 2, 4]]),
        "addcdiv": np.array([[0.5, 3, 8], [4.5, 0, 6]]),
        "copy": ROWS,
    }
    numbers: dict[str, dict[str, Any]] = {"exp": {"base": -1, "scale": 2, "shift": 2}, "addcdiv": {"scalar": 3.0}}
    for name, value in expected.items():
        actual = _expected(name, inputs, **numbers.get(name, {}))["y"]
        np.testing.assert_allclose(actual, value, rtol=1e-15, err_msg=name)
    power = _expected("exp", {"x": ROWS}, base=2.0, scale=1.0, shift=0.0)["y"]
    np.testing.assert_allclose(power, [[0.5, 1, 4], [8, 0.125, 1]], rtol=1e-15)


def test_library_activations_at_published_values() -> None:
    x = {"x": np.array([-3.0, -1.0, 0.0, 1.0, 3.0])}
    exact = [-0.004049694, -0.158655254, 0.0, 0.841344746, 2.995950306]
    np.testing.assert_allclose(_expected("gelu", x, {"approximate": False})["y"], exact, atol=1e-9)
    tanh_form = [-0.003637392, -0.158808009, 0.0, 0.841191991, 2.996362608]
    np.testing.assert_allclose(_expected("gelu", x, {"approximate": True})["y"], tanh_form, atol=1e-9)
    mish = [-0.145647461, -0.303401461, 0.0, 0.865098388, 2.986535129]
    np.testing.assert_allclose(_expected("mish", x)["y"], mish, atol=1e-8)


def test_library_row_operators_by_hand() -> None:
    swi = _expected("swi_glu", {"x": np.array([[0.0, 0.0], [5.0, 7.0]])}, dim=0)
    assert swi["y"].tolist() == [[0.0, 0.0]]
    np.testing.assert_allclose(
        _expected("swi_glu", {"x": np.array([2.0, 3.0])}, dim=-1)["y"], [6 / (1 + np.exp(-2.0))], rtol=1e-15
    )
    softmax = _expected("softmax", {"x": np.array([[0.0, np.log(3.0)], [1000.0, 1000.0]])}, dim=-1)["y"]
    np.testing.assert_allclose(softmax, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-15)
    norm = _expected("rms_norm", {"x": np.array([[3.0, 4.0]]), "gamma": np.array([1.0, 2.0])}, epsilon=0.0)
    np.testing.assert_allclose(norm["y"], [[3 / 12.5**0.5, 8 / 12.5**0.5]], rtol=1e-15)
    np.testing.assert_allclose(norm["rstd"], [[1 / 12.5**0.5]], rtol=1e-15)
    quant = _expected("dynamic_quant", {"x": np.array([[-254.0, 1.0, 3.0, 100.0], [0.0, 0.0, 0.0, 0.0]])})
    assert quant["scale"].tolist() == [2.0, 0.0]
    assert quant["y"].tolist() == [[-127, 0, 2, 50], [0, 0, 0, 0]]


def test_library_adam_w_and_matmul_by_hand() -> None:
    state = {name: np.array([value]) for name, value in {"var": 2.0, "grad": 4.0, "m": 0.0, "v": 0.0}.items()}
    first = _expected(
        "adam_w", state, {"maximize": False}, lr=0.5, beta1=0.5, beta2=0.75, weight_decay=0.1, epsilon=0.0, step=1
    )
    # The first step from zero moments moves by lr against the sign of the gradient, after decay by 1 - lr*0.1.
    assert [float(first[name][0]) for name in ("mOut", "vOut")] == [2.0, 4.0]
    np.testing.assert_allclose(first["varOut"], [2.0 * 0.95 - 0.5], rtol=1e-15)
    up = _expected(
        "adam_w", state, {"maximize": True}, lr=0.5, beta1=0.5, beta2=0.75, weight_decay=0.0, epsilon=0.0, step=1
    )
    np.testing.assert_allclose(up["varOut"], [2.5], rtol=1e-15)
    left, right = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])
    assert _expected("matmul", {"x1": left, "x2": right})["y"].tolist() == [[13, 16]]
