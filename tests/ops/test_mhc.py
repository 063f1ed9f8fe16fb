"""Manifold hyper-connections: statuses in the documents' order, words, examples by hand, what is saved."""

import itertools
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.reference import mhc_sinkhorn as sinkhorn
from tests.reference import mhc_sinkhorn_backward as sinkhorn_backward
from tests.sample_calls import executed, judge, made_up
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.execution.aclnn import get_workspace_size, parameters_of
from tilesim.execution.run import run
from tilesim.execution.verify import verify
from tilesim.feasibility.verdict import check
from tilesim.operators.binding import bind, parse
from tilesim.operators.shapes import TensorSpec
from tilesim.ops import load_operator
from tilesim.planning.plan import plan

SHARED = Path(__file__).parents[3] / "shared" / "golden" / "numerics_kin"
A2, PR = "ascend910b1", "ascend950pr"
SYSTEM = 16 << 20


def spec(*shape, dtype="bfloat16"):
    return TensorSpec(shape, dtype)


def f32(*shape):
    return spec(*shape, dtype="float32")


def post(*lead, n=4, d=256):
    """The parameters of the mixing in the vendor's order."""
    return {
        "x": spec(*lead, n, d),
        "hRes": f32(*lead, n, n),
        "hOut": spec(*lead, d),
        "hPost": f32(*lead, n),
        "out": spec(*lead, n, d),
    }


def post_backward(*lead, n=4, d=256):
    """The parameters of its gradients."""
    p = post(*lead, n=n, d=d)
    x, res, out, weights = p["x"], p["hRes"], p["hOut"], p["hPost"]
    inputs = {"gradOutput": x, "x": x, "hRes": res, "hOut": out, "hPost": weights}
    return inputs | {"gradX": x, "gradHRes": res, "gradHOut": out, "gradHPost": weights}


def normalised(*lead, n=4, k=3, saved=True):
    """The parameters of the normalisation."""
    tokens = int(np.prod(lead))
    out = {"normOut": f32(16 * k * tokens * n), "sumOut": f32(16 * k * tokens)} if saved else {}
    return {"x": f32(*lead, n, n), "eps": 1e-6, "numIters": k, "output": f32(*lead, n, n), **out}


def normalised_backward(*lead, n=4, k=3):
    """The parameters of its gradient."""
    tokens, x = int(np.prod(lead)), f32(*lead, n, n)
    return {"gradOutput": x, "normOut": f32(16 * k * tokens * n), "sumOut": f32(16 * k * tokens), "out": x}


CALLS = {
    "aclnnMhcPost": post,
    "aclnnMhcPostBackward": post_backward,
    "aclnnMhcSinkhorn": normalised,
    "aclnnMhcSinkhornBackward": normalised_backward,
}


def status(api, parameters, chip=PR):
    """(code, parameter that is at fault) of the first call."""
    found, size, executor = get_workspace_size(api, **parameters, chip=chip)
    assert (found.code == 0) == (executor is not None)
    assert size in (0, SYSTEM)
    return found.code, found.parameter


@pytest.mark.parametrize("api", CALLS)
def test_parameters_are_the_vendors_and_good_calls_pass(api):
    for lead in ((6,), (2, 3)):
        parameters = CALLS[api](*lead)
        assert parameters_of(api) == tuple(parameters)
        assert status(api, parameters) == (0, "")
        if "Post" in api:
            assert status(api, parameters, A2) == (0, "")


@pytest.mark.parametrize("api", CALLS)
def test_null_comes_before_everything_else(api):
    parameters = CALLS[api](6)
    tensors = [name for name, value in parameters.items() if isinstance(value, TensorSpec)]
    wrong = parameters | {name: spec(3, dtype="int8") for name in tensors}
    for name in tensors:
        if name == "hRes" or (api == "aclnnMhcSinkhorn" and name in ("normOut", "sumOut")):
            continue
        saved = {"normOut": None, "sumOut": None} if api == "aclnnMhcSinkhorn" else {}
        assert status(api, wrong | saved | {name: None}) == (161001, name)


def test_a_missing_h_res_is_right_on_950_only():
    assert status("aclnnMhcPost", post(6) | {"hRes": None}) == (0, "")
    assert status("aclnnMhcPostBackward", post_backward(6) | {"hRes": None}) == (0, "")
    # On A2 and A3 the mixing looks at it first of all, its gradients in their order.
    assert status("aclnnMhcPost", post(6) | {"hRes": None, "x": None}, A2) == (361001, "hRes")
    assert status("aclnnMhcPostBackward", post_backward(6) | {"hRes": None}, A2) == (161001, "hRes")
    assert status("aclnnMhcPostBackward", post_backward(6) | {"hRes": None, "x": None}, A2) == (161001, "x")


@pytest.mark.parametrize("api", CALLS)
def test_other_dtypes_ranks_and_sizes_are_invalid(api):
    parameters = CALLS[api](6)
    late = {"normOut", "sumOut"} if api == "aclnnMhcSinkhornBackward" else set()
    for name, value in parameters.items():
        if not isinstance(value, TensorSpec):
            continue
        assert status(api, parameters | {name: TensorSpec(value.shape, "int32")})[0] == 161002, name
        for shape in ((*value.shape, 1), value.shape[:-1], (*value.shape[:-1], value.shape[-1] + 1)):
            expected = 561103 if name in late else 161002
            assert status(api, parameters | {name: TensorSpec(shape, value.dtype)})[0] == expected, (name, shape)


def test_the_other_format_of_16_bits_reaches_the_tiling_of_the_gradients():
    parameters = post_backward(6)
    other = {"x": spec(6, 4, 256, dtype="float16"), "gradX": spec(6, 4, 256, dtype="float16")}
    assert status("aclnnMhcPostBackward", parameters | other) == (561103, "x")
    assert status("aclnnMhcPostBackward", parameters | {"gradX": other["gradX"]}) == (161002, "gradX")
    assert status("aclnnMhcPost", post(6) | {"hOut": spec(6, 256, dtype="float16")}) == (161002, "hOut")


@pytest.mark.parametrize(
    ("n", "d", "on_950", "on_a2"), [(4, 256, 0, 0), (6, 256, 0, 1), (5, 256, 1, 1), (4, 100, 0, 1)]
)
def test_ranges_of_n_and_d(n, d, on_950, on_a2):
    # 950 has no ranges but the three n of the gradients; A2 refuses in the tiling of the mixing, before that of them.
    assert status("aclnnMhcPost", post(6, n=n, d=d))[0] == 0
    assert status("aclnnMhcPostBackward", post_backward(6, n=n, d=d))[0] == 161002 * on_950
    assert status("aclnnMhcPost", post(6, n=n, d=d), A2)[0] == 561103 * on_a2
    assert status("aclnnMhcPostBackward", post_backward(6, n=n, d=d), A2)[0] == 161002 * on_a2


@pytest.mark.parametrize(("d", "code"), [(99968, 0), (100000, 561103), (100096, 561103)])
def test_the_largest_d_of_a2(d, code):
    assert status("aclnnMhcPost", post(6, d=d), A2)[0] == code


def test_calls_without_elements():
    for chip in (PR, A2):
        for parameters in (post(0), post(6, d=0), post(2, 0)):
            found, size, executor = get_workspace_size("aclnnMhcPost", **parameters, chip=chip)
            assert (found.code, size, executor.plan.block_dim, executor.plan.route) == (0, 0, 0, "empty")
        assert status("aclnnMhcPost", post(0, n=6), chip) == (0, "")
        assert status("aclnnMhcPostBackward", post_backward(0), chip)[0] == 161002
    assert status("aclnnMhcSinkhorn", normalised(0, saved=False))[0] == 161002
    found, size, executor = get_workspace_size("aclnnMhcSinkhornBackward", **normalised_backward(0), chip=PR)
    assert (found.code, size, executor.plan.block_dim) == (0, 0, 0)
    assert status("aclnnMhcSinkhornBackward", normalised_backward(0, n=5))[0] == 161002
    assert status("aclnnMhcSinkhornBackward", normalised_backward(0) | {"normOut": f32(7)}) == (0, "")


@pytest.mark.parametrize("k", [0, 1, 100, 101])
def test_iterations(k):
    fits = 1 <= k <= 100
    assert status("aclnnMhcSinkhorn", normalised(6, k=k, saved=False))[0] == (0 if fits else 161002)
    assert status("aclnnMhcSinkhornBackward", normalised_backward(6, k=k))[0] == (0 if fits else 561103)


def test_what_is_saved_is_wanted_or_not():
    parameters, one = normalised(6), f32(1)
    for unwanted in (one, None):
        both = parameters | {"normOut": unwanted, "sumOut": unwanted}
        found, _, executor = get_workspace_size("aclnnMhcSinkhorn", **both, chip=PR)
        assert (found.code, executor.plan.template) == (0, (0,))
        assert status("aclnnMhcSinkhorn", parameters | {"normOut": unwanted})[0] == 161002
        assert status("aclnnMhcSinkhorn", parameters | {"sumOut": unwanted})[0] == 161002
    x = np.random.default_rng(0).standard_normal((6, 4, 4)).astype(np.float32)
    y, norm, total = np.empty_like(x), np.empty(1, np.float32), np.empty(1, np.float32)
    _, _, executor = get_workspace_size("aclnnMhcSinkhorn", x, 1e-6, 3, y, norm, total, chip=PR)
    assert executor.run().ok
    np.testing.assert_allclose(y.sum(axis=-2), 1, atol=1e-5)


# -------------------------------------------------------------------- words
def test_words_and_keys():
    op = load_operator("mhc_post")
    without = bind(op, parse(op, ["x=512x4x2560:float16", "h_res=none"]))
    assert without.specs == bind(op, {"x": spec(512, 4, 2560, dtype="float16"), "h_res": None}).specs
    assert (without.options["h_res"], without.spec("h_post")) == (False, f32(512, 4))
    assert bind(op, {"x": (2, 8, 4, 64), "hRes": (2, 8, 4, 4)}).spec("h_out") == spec(2, 8, 64)
    op = load_operator("mhc_sinkhorn")
    saving = bind(op, parse(op, ["x=100x6x6", "num_iters=5", "out_flag=1"]))
    assert saving.spec("norm_out") == f32(16 * 5 * 100 * 6)
    assert saving.specs == bind(op, {"x": (100, 6, 6), "numIters": 5, "out_flag": 1}).specs
    assert bind(op, {"x": (100, 6, 6), "out_flag": 0}).spec("sum_out") is None
    with pytest.raises(BadInput, match="out_flag is 2, must be 0 or 1"):
        bind(op, {"x": (100, 6, 6), "out_flag": 2})
    op = load_operator("mhc_sinkhorn_backward")
    assert bind(op, parse(op, ["grad_y=100x6x6", "num_iters=5"])).spec("sum") == f32(16 * 5 * 100)
    assert bind(op, {"grad_y": (100, 6, 6), "norm": (16 * 7 * 600,)}).dims["num_iters"] == 7


# -------------------------------------------------------------------- examples by hand
def test_the_mixing_by_hand():
    own = {"x": [[[1, 2], [3, 4]]], "h_out": [[10, 20]], "h_post": [[0.5, -1]], "h_res": [[[1, 2], [3, 4]]]}
    # y_0 = 0.5*[10, 20] + 1*[1, 2] + 3*[3, 4], y_1 = -[10, 20] + 2*[1, 2] + 4*[3, 4]
    assert values("mhc_post", own)["y"].tolist() == [[[15, 24], [4, 0]]]
    assert values("mhc_post", own | {"h_res": None})["y"].tolist() == [[[6, 12], [-7, -16]]]


def values(operator, tensors, **given):
    """The outputs of a call on 950 in float32, of plain numbers."""
    op = load_operator(operator)
    arrays = {n: None if v is None else np.array(v, dtype_of(op, n)) for n, v in tensors.items()}
    one = plan(operator, {n: None if v is None else v.shape for n, v in arrays.items()} | given, chip=PR)
    outputs = run(one, {n: v for n, v in arrays.items() if v is not None}).outputs
    return {name: array.astype(np.float64) for name, array in outputs.items()}


def dtype_of(op, name):
    return np.float32 if (op.arguments[name].dtype or op.dtype) == "float32" else ml_dtypes.bfloat16


def test_the_gradients_of_the_mixing_by_hand():
    # n = 4 with weights that pick one channel each: h_res is the identity, so grad_x is grad_y.
    grad = np.arange(8.0).reshape(1, 4, 2)
    x = np.ones((1, 4, 2))
    own = {"grad_y": grad, "x": x, "h_res": np.eye(4)[None], "h_out": [[1, 2]], "h_post": [[1, 0, 0, 2]]}
    outputs = values("mhc_post_backward", own)
    assert outputs["grad_x"].tolist() == grad.tolist()
    assert outputs["grad_h_res"].tolist() == [[[1, 5, 9, 13]] * 4]  # the sum of every row of grad_y, whatever j
    assert outputs["grad_h_out"].tolist() == [[12, 15]]  # [0, 1] + 2*[6, 7]
    assert outputs["grad_h_post"].tolist() == [[2, 8, 14, 20]]  # 1*even + 2*odd


def test_the_normalisation_by_hand():
    # softmax of zeros is 1/4; columns: 0.35/(1.4 + 0.1); rows: N/(4N + 0.1), and so on.
    outputs = values("mhc_sinkhorn", {"x": np.zeros((1, 4, 4))}, eps=0.1, num_iters=2, out_flag=1)
    np.testing.assert_allclose(outputs["y"], 0.2250804, rtol=1e-6)
    norm, sums = outputs["norm_out"].reshape(4, 4, 1, 8), outputs["sum_out"].reshape(4, 8)
    np.testing.assert_allclose(norm[:, :, 0, :4].max(axis=(1, 2)), [0.25, 0.2333333, 0.2258065, 0.2250804], rtol=1e-6)
    np.testing.assert_allclose(sums[1:, :4].max(axis=1), [1.5, 1.0333333, 1.0032258], rtol=1e-6)
    assert not norm[..., 4:].any()


def test_its_gradient_by_hand():
    # One iteration with eps 0.1 at x = 0: N0 = 0.25, S1 = 1.5, N1 = 0.2333333.
    norm, sums = np.zeros((2, 4, 1, 8)), np.zeros((2, 1, 8))
    norm[0, ..., :4], norm[1, ..., :4], sums[1, :, :4] = 0.25, 0.35 / 1.5, 1.5
    grad = np.zeros((1, 4, 4))
    grad[0, 0, 0] = 1
    out = values("mhc_sinkhorn_backward", {"grad_y": grad, "norm": norm.ravel(), "sum": sums.ravel()})["grad_input"][0]
    np.testing.assert_allclose(out[0], [0.0958333, *[-0.0319444] * 3], rtol=1e-5)
    np.testing.assert_allclose(out[1:], [[-0.0291667, *[0.0097222] * 3]] * 3, rtol=1e-5)


# -------------------------------------------------------------------- what is saved
@pytest.mark.parametrize("shape", [(19, 6, 6), (3, 7, 4, 4), (700, 8, 8)])
@pytest.mark.parametrize("cores", [4, 64])
def test_what_the_forward_saves_is_what_the_backward_reads(shape, cores):
    chip = load_chip(PR).override({"cores.vector": cores})
    one = plan("mhc_sinkhorn", {"x": shape, "num_iters": 3, "out_flag": 1}, chip=chip)
    inputs = made_up(one, 2)
    outputs = executed(one, inputs)
    judge(one, inputs, outputs)
    assert all(d.ok for d in verify(run(one, inputs), one, inputs))
    back = plan("mhc_sinkhorn_backward", {"grad_y": shape, "num_iters": 3}, chip=chip)
    grad = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    given = {"grad_y": grad, "norm": outputs["norm_out"], "sum": outputs["sum_out"]}
    found = executed(back, given)
    judge(back, given, found)
    # The gradient of the forward in float64 by finite differences, in one direction.
    x, step = inputs["x"].astype(np.float64), 1e-4
    direction = np.random.default_rng(3).standard_normal(shape)
    high, low = ([*sinkhorn.steps(x + sign * step * direction, 1e-6, 3)][-1][0] for sign in (1, -1))
    slope = ((high - low) * grad.reshape(high.shape)).sum() / (2 * step)
    assert abs((found["grad_input"] * direction).sum() - slope) < 2e-4 * np.sqrt(x.size)


def test_the_backward_of_the_reference_undoes_the_layout():
    x = np.random.default_rng(5).standard_normal((11, 6, 6))
    for cores, tile in itertools.product((1, 3, 16), (2, 8)):
        tiles = sinkhorn.split(11, cores, tile)
        saved = sinkhorn.packed(x, 1e-6, 2, tiles)
        norms, sums = sinkhorn_backward.unpacked(saved["norm_out"], saved["sum_out"], 6, 2, tiles)
        for step, (norm, total) in enumerate(sinkhorn.steps(x, 1e-6, 2)):
            np.testing.assert_array_equal(norms[step], norm)
            np.testing.assert_array_equal(sums[step], total)


# -------------------------------------------------------------------- numeric cases next to this checkout
@pytest.mark.skipif(not SHARED.is_dir(), reason="the numeric cases are not next to this checkout")
@pytest.mark.parametrize("path", sorted(SHARED.glob("mhc_*.npz")), ids=lambda path: path.stem)
def test_numeric_cases(path):
    with np.load(path) as case:
        tensors = {name: case[name] for name in case.files}
    meta = json.loads(str(tensors["meta"]))
    op = load_operator(meta["op"])
    for product in meta["products"]:
        chip = load_chip({"950": PR, "910b": A2, "910_93": "ascend910_9391"}[product])
        if "cores" in meta:
            chip = chip.override({"cores.vector": meta["cores"], "memory.ub.size_bytes": meta["ub"]})
        kinds = {name: ml_dtypes.bfloat16 if kind == "bfloat16" else kind for name, kind in meta["dtypes"].items()}
        names = [t.name for t in op.tensors if t.role == "input" and t.name in tensors]
        inputs = {name: tensors[name].astype(kinds[name]) for name in names}
        known = {a.name for a in op.attributes} | {o.name for o in op.options}
        given = {n: TensorSpec(a.shape, str(a.dtype)) for n, a in inputs.items()}
        given |= {n: v for n, v in meta["attributes"].items() if n in known}
        given |= {} if meta.get("h_res_given", True) else {"h_res": None}
        one = plan(op, given, chip=chip)
        outputs = executed(one, inputs)
        judge(one, inputs, outputs, {name: tensors[name] for name in outputs})
    assert check(op, given, chip=chip).ok
