"""The vendor's two calls: parameters, statuses and messages, workspace, outputs written in place."""

import inspect

import ml_dtypes
import numpy as np
import pytest

from tests.reference import glu_backward, masked_causal_conv1d_backward, text_gated_residual_grad, tolerance
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, Unsupported
from tilesim.execution.aclnn import get_workspace_size, operator_of, parameters_of
from tilesim.operators.shapes import TensorSpec
from tilesim.operators.status import INNER, PARAM_INVALID, PARAM_NULLPTR, SUCCESS, TILING_ERROR
from tilesim.program.dtypes import DTYPES, numpy_dtype

GLU, CONV, GATED = "aclnnGluBackward", "aclnnMaskedCausalConv1dBackward", "aclnnTextGatedResidualGrad"
PR = load_chip("ascend950pr")
MIB = 1 << 20


def glu_arrays(shape=(2, 4, 6), dim=-1, dtype="float32"):
    """gradOut, self, dim and out."""
    given = glu_backward.random_inputs(shape, dim, dtype, seed=3)
    kind = numpy_dtype(dtype)
    out = np.full(shape, 77, kind)
    return {"gradOut": given["gradOut"].astype(kind), "self": given["self"].astype(kind), "dim": dim, "out": out}


def conv_arrays(dims=None, dtype="bfloat16", *, mask=True):
    """The tensors of the convolution under the vendor's names."""
    dims = dims or {"S": 5, "B": 2, "H": 384}
    kind = numpy_dtype(dtype)
    given = masked_causal_conv1d_backward.random_inputs(dims, dtype, mask=mask, seed=3)
    bits = given["mask"] if mask else None
    made = {name: given[name].astype(kind) for name in ("gradY", "x", "weight")}
    made |= {"maskOptional": bits}
    return made | {"gradXOut": np.zeros_like(made["x"]), "gradWeightOut": np.zeros_like(made["weight"])}


def gated_arrays():
    """The document's example: dx is 125 everywhere and the other gradients are 0."""
    b, s, c, h, r = 1, 2, 4, 16, 16
    kind, d = ml_dtypes.bfloat16, c * h
    zero, one = (lambda *shape: np.zeros(shape, kind)), (lambda *shape: np.ones(shape, kind))
    given = {"gradMixed": one(b, s, h), "x": zero(b, s, d), "wDown": zero(r, d), "wUp": zero(d, r)}
    given |= {"invRms": np.full((b, s, c), 1000, np.float32), "downPreAct": zero(b, s, r), "up": zero(b, s, d)}
    given |= {"gradInject": one(b, s, c), "wGate": zero(c, d), "gamma": np.zeros(d, np.float32)}
    given |= {"inject": one(b, s, c), "channels": c, "dx": zero(b, s, d), "dwDown": one(r, d), "dwUp": one(d, r)}
    return given | {"dwGate": one(c, d), "dgamma": np.ones(d, np.float32)}


def conv_specs(**changes):
    token, weight = TensorSpec((5, 2, 384), "float16"), TensorSpec((3, 384), "float16")
    made = {"gradY": token, "x": token, "weight": weight, "maskOptional": TensorSpec((2, 5), "bool")}
    return made | {"gradXOut": token, "gradWeightOut": weight} | changes


# -------------------------------------------------------------------- parameters
def test_parameters_are_the_documented_ones_in_order():
    assert parameters_of(GLU) == ("gradOut", "self", "dim", "out")
    assert parameters_of(CONV) == ("gradY", "x", "weight", "maskOptional", "gradXOut", "gradWeightOut")
    assert parameters_of(GATED + "GetWorkspaceSize") == (
        *("gradMixed", "x", "wDown", "wUp", "invRms", "downPreAct", "up"),
        *("gradInject", "wGate", "gamma", "inject", "channels"),
        *("dx", "dwDown", "dwUp", "dwGate", "dgamma"),
    )


def test_no_parameter_name_collides_with_the_function():
    own = inspect.signature(get_workspace_size).parameters
    for api in (GLU, CONV, GATED):
        assert not {n for n, p in own.items() if p.kind is p.KEYWORD_ONLY} & set(parameters_of(api))


def test_an_unknown_api_is_bad_input():
    with pytest.raises(BadInput, match="did you mean 'aclnnGluBackward'"):
        get_workspace_size("aclnnGluBackwards", chip=PR)
    assert operator_of("aclnnGluBackwardGetWorkspaceSize").name == "glu_backward"


def test_wrong_calls_are_bad_input_with_all_problems():
    own = glu_arrays()
    for wrong, text in (
        ({}, "out is missing"),
        ({"out": own["out"], "outt": None}, "did you mean 'out'"),
        ({"out": [1, 2]}, "out is of type list"),
        ({"out": own["out"], "dim": None}, "dim is None"),
        ({"out": own["out"], "dim": 0.5}, "dim is 0.5"),
        ({"out": own["out"], "dim": True}, "dim is True"),
    ):
        with pytest.raises(BadInput, match=text):
            get_workspace_size(GLU, chip=PR, **{"gradOut": own["gradOut"], "self": own["self"], "dim": 1} | wrong)
    with pytest.raises(BadInput, match=r"2 problems: 5 parameters given, at most 4 are expected.*dim is given twice"):
        get_workspace_size(GLU, *own.values(), None, chip=PR, dim=1)


def test_names_and_positions_mean_the_same():
    by_name, by_place = glu_arrays(), glu_arrays()
    for status, size, executor in (
        get_workspace_size(GLU, chip="ascend950pr", **by_name),
        get_workspace_size(GLU, *by_place.values(), chip=PR),
    ):
        assert (status, size) == (SUCCESS, 0)
        assert executor.run(None) == SUCCESS
    np.testing.assert_array_equal(by_name["out"], by_place["out"])
    assert not (by_name["out"] == 77).any()


@pytest.mark.parametrize("kind", [int, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.array])
def test_dim_may_be_any_integer(kind):
    own = glu_arrays(dim=1)
    assert get_workspace_size(GLU, **own | {"dim": kind(1)}, chip=PR)[0].ok


def test_a_chip_without_the_operator_is_unsupported():
    with pytest.raises(Unsupported, match="is not made for") as caught:
        get_workspace_size(CONV, **conv_specs(), chip="ascend910b1")
    assert caught.value.verdict.status is None


# -------------------------------------------------------------------- statuses
@pytest.mark.parametrize("name", ["gradOut", "self", "out"])
def test_a_null_of_glu(name):
    status, size, executor = get_workspace_size(GLU, **glu_arrays() | {name: None}, chip=PR)
    assert (status, size, executor) == (PARAM_NULLPTR, 0, None)
    assert (status.code, status.parameter) == (161001, name)
    assert status.message == f"{name}: {name} given: expected a tensor, given null"


@pytest.mark.parametrize("name", ["gradY", "x", "weight", "gradXOut", "gradWeightOut"])
def test_a_null_of_the_convolution(name):
    status, _, executor = get_workspace_size(CONV, **conv_specs() | {name: None}, chip=PR)
    assert (status, status.parameter, executor) == (PARAM_NULLPTR, name, None)


@pytest.mark.parametrize("name", [n for n in parameters_of(GATED) if n != "channels"])
def test_a_null_of_the_gated_residual(name):
    given = gated_arrays()
    status, _, executor = get_workspace_size(GATED, **given | {name: None}, chip=PR)
    assert (status, executor) == (PARAM_NULLPTR, None)
    assert name in status.message


def test_null_comes_before_dtype_before_shape():
    wrong = {"gradOut": None, "self": TensorSpec((2, 3), "int64"), "dim": 9, "out": TensorSpec((1,), "float32")}
    assert get_workspace_size(GLU, **wrong, chip=PR)[0] == PARAM_NULLPTR
    wrong["gradOut"] = TensorSpec((2, 3), "float32")
    status, *_ = get_workspace_size(GLU, **wrong, chip=PR)
    assert (status, status.parameter) == (PARAM_INVALID, "self")
    assert "float32 or float16 or bfloat16 or float64, given int64" in status.message
    assert len(status.verdict.broken) > 3


@pytest.mark.parametrize(
    ("changes", "status", "parameter"),
    [
        ({}, SUCCESS, ""),
        ({"maskOptional": None}, SUCCESS, ""),
        ({"x": TensorSpec((5, 2, 384), "bfloat16")}, PARAM_INVALID, "x"),
        ({"maskOptional": TensorSpec((2, 5), "uint8")}, PARAM_INVALID, "maskOptional"),
        ({"gradXOut": TensorSpec((5, 2, 384), "float32")}, PARAM_INVALID, "gradXOut"),
        ({"maskOptional": TensorSpec((5, 2), "bool")}, TILING_ERROR, "maskOptional"),
        ({"x": TensorSpec((5, 2, 448), "float16")}, TILING_ERROR, "x"),
        ({"weight": TensorSpec((4, 384), "float16")}, TILING_ERROR, "weight"),
        ({"gradY": TensorSpec((5, 33, 384), "float16")}, TILING_ERROR, "gradY"),
        ({n: TensorSpec((0, 2, 384), "float16") for n in ("gradY", "x")}, TILING_ERROR, "maskOptional"),
        (
            {n: TensorSpec((0, 2, 384), "float16") for n in ("gradY", "x")} | {"maskOptional": None},
            TILING_ERROR,
            "gradY",
        ),
        ({"gradXOut": TensorSpec((7,), "float16")}, SUCCESS, ""),  # the tiling does not look at outputs
    ],
)
def test_statuses_of_the_convolution(changes, status, parameter):
    found, _, executor = get_workspace_size(CONV, **conv_specs(**changes), chip=PR)
    assert (found, found.parameter) == (status, parameter)
    assert (executor is None) == (status != SUCCESS)
    assert bool(found.message) == (status != SUCCESS)


def _calls():
    """(api, its parameters, a tensor among them)."""
    for api, given in ((GLU, glu_arrays()), (CONV, conv_arrays()), (GATED, gated_arrays())):
        yield from ((api, given, name) for name, value in given.items() if isinstance(value, np.ndarray))


@pytest.mark.parametrize(("api", "given", "name"), [pytest.param(*c, id=f"{c[0]}-{c[2]}") for c in _calls()])
def test_a_dtype_that_the_operator_does_not_take_is_an_invalid_parameter(api, given, name):
    op = operator_of(api)
    taken = {dtype for some in op.dtypes.values() for dtype in some} | {t.dtype for t in op.tensors}
    for dtype in set(DTYPES) - taken:
        wrong = given | {name: np.zeros(given[name].shape, numpy_dtype(dtype))}
        status, size, executor = get_workspace_size(api, **wrong, chip=PR)
        assert (status, size, executor) == (PARAM_INVALID, 0, None)
        assert dtype in status.message


@pytest.mark.parametrize("kind", [object, "U3", "datetime64[s]", "V2", [("a", "f4")]])
def test_an_array_that_is_no_tensor_is_bad_input(kind):
    with pytest.raises(BadInput, match=r"self: .* is not a dtype"):
        get_workspace_size(GLU, **glu_arrays() | {"self": np.zeros((2, 4, 6), kind)}, chip=PR)


def test_an_array_in_another_byte_order_is_told_as_such():
    swapped = np.zeros((2, 4, 6), np.dtype("float32").newbyteorder("S"))
    with pytest.raises(BadInput, match=r"self: .* is float32 in another byte order; astype\('float32'\) changes it"):
        get_workspace_size(GLU, **glu_arrays() | {"self": swapped}, chip=PR)


def test_an_optional_tensor_may_be_left_out():
    given = conv_specs()
    del given["maskOptional"]
    assert get_workspace_size(CONV, **given, chip=PR)[0].ok


def test_outputs_with_gaps():
    given = conv_arrays()
    wide = np.zeros((5, 2, 768), given["x"].dtype)
    status, _, executor = get_workspace_size(CONV, **given | {"gradXOut": wide[..., ::2]}, chip=PR)
    assert (status, status.parameter, executor) == (PARAM_INVALID, "gradXOut", None)
    assert "contiguous" in status.message
    null = given | {"gradXOut": wide[..., ::2], "x": None}
    assert get_workspace_size(CONV, **null, chip=PR)[0] == PARAM_NULLPTR
    wrong_shape = given | {"gradXOut": wide[..., ::2], "weight": given["weight"][:2]}
    assert get_workspace_size(CONV, **wrong_shape, chip=PR)[0] == PARAM_INVALID
    gaps = given | {"x": np.repeat(given["x"], 2, axis=1)[:, ::2]}
    assert get_workspace_size(CONV, **gaps, chip=PR)[0].ok


def test_a_status_reads_well():
    status, *_ = get_workspace_size(GLU, **glu_arrays() | {"dim": 3}, chip=PR)
    assert str(status) == "ACLNN_ERR_PARAM_INVALID (161002): dim: dim range: expected -3..2, given 3"
    assert str(get_workspace_size(GLU, **glu_arrays(), chip=PR)[0]) == "ACLNN_SUCCESS (0)"


# -------------------------------------------------------------------- the second call
def test_workspace_of_the_second_call():
    given = conv_arrays()
    status, size, executor = get_workspace_size(CONV, **given, chip=PR)
    assert (status, size, executor.workspace_size) == (SUCCESS, 16 * MIB, 16 * MIB)
    for small in (None, np.zeros(size - 1, np.uint8), bytearray(7), memoryview(bytearray(8)), b""):
        status = executor.run(small)
        assert (status, status.code, status.parameter) == (INNER, 561000, "workspace")
        assert f"expected {size} B, given {'null' if small is None else len(small)}" in status.message
        assert not given["gradXOut"].any()
    for enough in (np.zeros(size // 4, np.float32), bytearray(size), memoryview(bytearray(size))):
        given["gradXOut"][...] = 0
        assert executor.run(enough) == SUCCESS
        assert given["gradXOut"].any()
    with pytest.raises(BadInput, match="is of type int, must be a buffer of bytes or None"):
        executor.run(size)


def test_descriptions_cannot_run():
    status, _, executor = get_workspace_size(CONV, **conv_specs() | {"x": conv_arrays(dtype="float16")["x"]}, chip=PR)
    assert status.ok
    with pytest.raises(BadInput, match="gradY, weight, maskOptional, gradXOut, gradWeightOut described without values"):
        executor.run(bytearray(16 * MIB))


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1", "ascend310p3"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_values_of_glu(chip, dtype):
    given = glu_arrays((3, 10, 7), 1, dtype)
    status, size, executor = get_workspace_size(GLU, **given, chip=chip)
    assert status.ok
    assert executor.run(bytearray(size)) == SUCCESS
    exact = {name: given[name].astype(np.float64) for name in ("gradOut", "self")}
    tolerance.assert_glu(
        {"out": given["out"].astype(np.float64)},
        glu_backward.backward(exact, 1),
        glu_backward.tolerance_scale(exact, 1),
        dtype,
    )


def test_glu_writes_through_gaps_and_reads_through_gaps():
    plain, gaps = glu_arrays((4, 6, 8)), glu_arrays((4, 6, 8))
    room = np.zeros((4, 6, 16), np.float32)
    gaps["out"] = room[:, :, ::-2]
    gaps["self"] = np.asfortranarray(gaps["self"])
    for given in (plain, gaps):
        assert get_workspace_size(GLU, **given, chip=PR)[2].run() == SUCCESS
    np.testing.assert_array_equal(gaps["out"], plain["out"])
    assert not room[:, :, ::2].any()


def test_an_output_of_one_row_for_all_is_refused():
    given = glu_arrays((4, 6))
    given["out"] = np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (4, 6), (0, 4))
    executor = get_workspace_size(GLU, **given, chip=PR)[2]
    with pytest.raises(BadInput, match="its elements share memory"):
        executor.run()
    assert not given["out"].any()


def test_glu_in_place():
    plain, same = glu_arrays((4, 6)), glu_arrays((4, 6))
    same["out"] = same["self"]
    for given in (plain, same):
        assert get_workspace_size(GLU, **given, chip=PR)[2].run() == SUCCESS
    np.testing.assert_array_equal(same["out"], plain["out"])


@pytest.mark.parametrize("shape", [(0,), (2, 0, 6), (0, 4), (4, 0)])
def test_an_empty_glu_launches_nothing(shape):
    half = tuple(n // (2 if i == len(shape) - 1 else 1) for i, n in enumerate(shape))
    out = np.zeros(shape, np.float32)
    status, size, executor = get_workspace_size(
        GLU, np.zeros(half, np.float32), np.zeros(shape, np.float32), -1, out, chip=PR
    )
    assert (status, size, executor.plan.route, executor.plan.phases) == (SUCCESS, 0, "empty", ())
    assert executor.run() == SUCCESS


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_of_the_convolution(dtype, mask):
    given = conv_arrays({"S": 70, "B": 3, "H": 384}, dtype, mask=mask)
    _, size, executor = get_workspace_size(CONV, **given, chip=PR)
    assert executor.run(bytearray(size)) == SUCCESS
    names = {"gradX": "gradXOut", "gradWeight": "gradWeightOut"}
    exact = {name: given[name].astype(np.float64) for name in ("gradY", "x", "weight")}
    exact |= {"mask": given["maskOptional"]} if mask else {}
    tolerance.assert_masked_causal_conv1d(
        {own: given[name].astype(np.float64) for own, name in names.items()},
        masked_causal_conv1d_backward.backward(exact),
        masked_causal_conv1d_backward.backward_terms(exact),
        dtype,
    )


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1"])
def test_the_documented_example_of_the_gated_residual(chip):
    given = gated_arrays()
    status, size, executor = get_workspace_size(GATED, *given.values(), chip=chip)
    assert status.ok
    assert size > 16 * MIB
    assert executor.run(bytearray(size)) == SUCCESS
    assert (given["dx"] == 125).all()
    for name in ("dwDown", "dwUp", "dwGate", "dgamma"):
        assert not given[name].any(), name


def test_the_gated_residual_without_tokens_zeroes_its_gradients():
    given = {n: v[:, :0] if getattr(v, "ndim", 0) == 3 else v for n, v in gated_arrays().items()}
    status, size, executor = get_workspace_size(GATED, **given, chip=PR)
    assert status.ok
    assert executor.run(bytearray(size)) == SUCCESS
    assert not any(given[name].any() for name in ("dwDown", "dwUp", "dwGate", "dgamma"))


def test_the_gated_residual_without_options():
    dims = {"B": 2, "S": 3, "C": 2, "H": 32, "R": 16}
    inputs = text_gated_residual_grad.random_inputs(dims, "float16", seed=1, inject=False, gamma=False)
    floats = {"invRms"}
    given = {n: v.astype(np.float32 if n in floats else np.float16) for n, v in inputs.items()}
    absent = dict.fromkeys(("gradInject", "wGate", "gamma", "inject", "dwGate", "dgamma"))
    outputs = {n: np.zeros(s, np.float16) for n, s in {"dx": (2, 3, 64), "dwDown": (16, 64), "dwUp": (64, 16)}.items()}
    status, size, executor = get_workspace_size(GATED, **given, **absent, **outputs, channels=2, chip=PR)
    assert status.ok, status
    assert executor.run(bytearray(size)) == SUCCESS
    assert all(np.isfinite(v.astype(np.float32)).all() and v.any() for v in outputs.values())
    status, *_ = get_workspace_size(
        GATED, **given, **absent | {"gamma": np.zeros(64, np.float32)}, **outputs, channels=2, chip=PR
    )
    assert (status, status.parameter) == (PARAM_NULLPTR, "dgamma")


def test_what_the_vendor_launches_although_it_does_not_fit():
    given = conv_arrays({"S": 6, "B": 32, "H": 384})
    chip = PR.override({"memory.ub.size_bytes": 8193})
    status, size, executor = get_workspace_size(CONV, **given, chip=chip)
    assert (status, executor.plan.ok, executor.plan.verdict.verdict) == (SUCCESS, False, "overflow")
    assert "still returns" in status.message
    found = executor.run(bytearray(size))
    assert found == INNER
    assert "needs 31,200 B of ub, has 1 B" in found.message
    assert not given["gradXOut"].any()


def test_an_output_of_another_shape_is_not_written():
    given = conv_arrays() | {"gradXOut": np.zeros(7, ml_dtypes.bfloat16)}
    status, size, executor = get_workspace_size(CONV, **given, chip=PR)
    assert status.ok
    found = executor.run(bytearray(size))
    assert (found, found.message) == (INNER, "gradXOut: expected [5, 2, 384], given [7]")
    assert not given["gradWeightOut"].any()
