"""Verdicts: the golden statuses, what a verdict holds, limits and remedies, and that no shape makes it fail."""

import json
import time

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tilesim.chip.loading import chips_shipped, load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.evaluate import findings
from tilesim.feasibility.limits import greatest
from tilesim.feasibility.verdict import check, verdict_of
from tilesim.operators.binding import bind
from tilesim.operators.shapes import TensorSpec
from tilesim.operators.status import SUCCESS
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import plan
from tilesim.simulation.timeline import simulate

PR = load_chip("ascend950pr")
B3 = load_chip("ascend910b3")
GATED, CONV, GLU = "text_gated_residual_grad", "masked_causal_conv1d_backward", "glu_backward"
DIMS = {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320}


def sized(cores, ub_size_bytes):
    return PR.override({"cores.vector": cores, "memory.ub.size_bytes": ub_size_bytes})


def again(verdict, remedy):
    """The verdict after a remedy, as a person would ask for it."""
    chip = load_chip(remedy.chip) if remedy.chip else verdict.on.override(remedy.override)
    tensors = dict(verdict.call.specs) | verdict.call.attributes
    if all(isinstance(value, int) for value in remedy.given.values()):
        options = {name: on for name, on in verdict.options.items() if name not in verdict.call.operator.sizes}
        asked = verdict.dims | remedy.given if remedy.given else tensors
        return check(verdict.operator, asked, chip=chip, dtype=verdict.dtype, **(options if remedy.given else {}))
    return check(verdict.operator, tensors | remedy.given, chip=chip)


# -------------------------------------------------------------------- documented limits
@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_documented_greatest_h_for_every_c(batch, dtype):
    for chip, capacity in ((PR, 62448), (B3, 39664)):
        for c in range(1, 21):
            h = 16 * ((capacity - 16 * -(-c // 8)) // 208)
            for more, ok in ((0, True), (16, False)):
                dims = {"B": batch, "S": 3, "C": c, "H": h + more, "R": 640}
                assert check(GATED, dims, chip=chip, dtype=dtype, inject=False).ok == ok


# -------------------------------------------------------------------- statuses of text_gated_residual_grad
@pytest.mark.parametrize(
    ("change", "code", "parameter"),
    [
        ({"x": None}, 161001, "x"),
        ({"dwUp": None}, 161001, "dwUp"),
        ({"wGate": None}, 161001, "wGate"),
        ({"dwGate": None}, 161001, "dwGate"),
        ({"dgamma": None}, 161001, "dgamma"),
        ({"wGate": None, "x": TensorSpec((1, 2), "int8")}, 161001, "wGate"),
        ({"gamma": TensorSpec((0,), "float32")}, 161002, "gamma"),
        ({"gamma": TensorSpec((10240,), "bfloat16")}, 161002, "gamma"),
        ({"up": TensorSpec((1, 4096, 10240), "float16")}, 161002, "up"),
        ({"x": TensorSpec((1, 4096, 10240, 1), "bfloat16")}, 161002, "x"),
        ({"wUp": TensorSpec((320, 10240), "bfloat16")}, 161002, "wUp"),
        ({"channels": 3}, 161002, "channels"),
        ({"channels": 8}, 161002, "gradMixed"),
        ({"channels": 0}, 161002, "channels"),
        ({"C": 21}, 161002, "channels"),
        ({"C": -1}, 161002, "channels"),
        ({"R": 656}, 161002, "wDown"),
        ({"R": 0}, 161002, "wDown"),
        ({"H": 0}, 161002, "gradMixed"),
        ({"B": -1}, 161002, "x"),
        ({"B": 2**32, "S": 2**31}, 161002, "x"),
        ({"B": 2**31, "S": 2**31}, 0, ""),
        ({"B": 0, "S": 2**70}, 161002, "x"),
        ({"B": 0}, 0, ""),
        ({"S": 0}, 0, ""),
        ({"B": 0, "H": 4816}, 561103, ""),
        ({"H": 24}, 561103, "gradMixed"),
        ({"R": 24}, 561103, "wDown"),
        ({"H": 4816}, 561103, ""),
        ({"H": 10**30}, 561103, ""),
        ({"R": 656, "H": 24}, 161002, "wDown"),
    ],
)
def test_statuses_of_the_gated_residual(change, code, parameter):
    verdict = check(GATED, DIMS | change, chip=PR)
    assert (verdict.status.code, verdict.parameter) == (code, parameter)


def test_unknown_products_are_unsupported_and_have_no_status():
    for op, shape, chip in (
        (GATED, DIMS, "ascend310p3"),
        (GATED, DIMS, "ascend910a"),
        (CONV, {"S": 64, "B": 1, "H": 768}, "ascend910b3"),
        (GLU, {"self": (2, 4)}, "ascend310b1"),
    ):
        verdict = check(op, shape, chip=chip)
        assert (verdict.verdict, verdict.ok, verdict.status) == ("unsupported", False, None)
        assert any(remedy.chip for remedy in verdict.remedies)


def test_an_empty_gated_unit_is_accepted():
    for shape in ((0,), (2, 0, 6), (0, 4)):
        verdict = check(GLU, {"self": shape}, chip=PR)
        assert (verdict.verdict, verdict.status.code) == ("fits", 0)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("add", {"x1": (0, 3)}),
        ("add", {"x1": (0, 3), "x2": (3,)}),
        ("maximum", {"x1": (), "x2": (4, 0)}),
        *((name, {"X": 0}) for name in ("adam_w", "addcdiv", "copy", "exp", "gelu", "mish", "sigmoid")),
        ("glu", {"self": (0, 4)}),
        ("glu", {"self": (4, 0)}),
        ("rms_norm", {"X": 0, "D": 16}),
        ("matmul", {"M": 0, "N": 4, "K": 4}),
    ],
    ids=str,
)
def test_without_elements_nothing_is_launched(name, shapes):
    made = plan(name, shapes, chip="ascend910b2")
    assert (made.route, made.phases, made.block_dim, simulate(made).time_us) == ("empty", (), 0, 0)
    verdict = made.verdict
    told = "the vendor's tiling would fail" if verdict.tiling_check else "nothing is launched without elements"
    assert (verdict.verdict, verdict.note.startswith(told)) == ("fits", True)
    first = verdict.inequalities[0]
    mine = [b.bytes for b in verdict.buffers if (b.phase, b.memory) == (first.phase, first.memory)]
    assert sum(mine) == first.left_bytes, "the buffers are those that the inequality adds up"


# -------------------------------------------------------------------- what a verdict holds
def test_a_verdict_says_who_is_to_blame():
    verdict = check(GATED, DIMS | {"H": 4816}, chip=PR)
    assert (verdict.verdict, verdict.status.name) == ("overflow", "ACLNN_ERR_INNER_NULLPTR")
    worst = verdict.failing[0]
    assert worst.slack_bytes == 62432 * 4 - 13 * 4816 * 4
    assert "704 B too many" in verdict.culprit
    assert "mixGradOut" in verdict.culprit
    sizes = [buffer.bytes for buffer in verdict.buffers]
    assert sizes == sorted(sizes, reverse=True)
    assert [r.text for r in verdict.remedies] == [
        "H = 4800, the largest for C = 4, R = 320",
        "memory.ub.size_bytes = 254656, 704 B more",
    ]


def test_near_the_edge_is_caution():
    verdict = check(GATED, DIMS | {"H": 4800}, chip=PR)
    assert (verdict.verdict, verdict.ok, verdict.tightest.slack_bytes) == ("caution", True, 128)


def test_several_broken_dims_have_one_remedy():
    verdict = check(CONV, {"S": 64, "B": 40, "H": 760}, chip=PR)
    assert [r.text for r in verdict.remedies] == ["B = 32, H = 768"]


def test_another_chip_is_a_remedy():
    verdict = check(GATED, DIMS | {"H": 3056}, chip=B3)
    assert {r.chip for r in verdict.remedies} >= {"ascend950pr", "ascend950dt"}


def test_all_broken_rules_are_reported():
    verdict = check(GATED, DIMS | {"C": 21, "H": 24, "R": 656}, chip=PR)
    assert {rule.name for rule in verdict.broken} == {"C range", "R range", "H multiple"}


def test_json_has_the_agreed_fields():
    for verdict in (check(GATED, DIMS, chip=PR), check(GATED, DIMS | {"H": 4816}, chip=PR)):
        data = json.loads(json.dumps(verdict.to_json()))
        assert {"ok", "verdict", "status", "rules", "inequalities", "buffers", "limits", "remedies"} <= data.keys()
        assert {"name", "ok", "expected", "given"} <= data["rules"][0].keys()
        names = {"phase", "memory", "text", "left_bytes", "right_bytes", "slack_bytes"}
        assert all(row.keys() == names for row in data["inequalities"])
        assert all(row["right_bytes"] - row["left_bytes"] == row["slack_bytes"] for row in data["inequalities"])
        assert data["limits"]["H"] == 4800


def test_the_inequalities_are_the_documented_ones():
    texts = {b.text for b in check(GATED, DIMS, chip=PR).inequalities if b.memory == "ub"}
    for left in ("13H", "3H + 8R", "7H + 6R"):
        assert f"{left} <= 62448 - 16·⌈C/8⌉ words" in texts


def test_no_limit_where_another_kernel_takes_over():
    endless = PR.override({"memory.gm.size_bytes": 2**60})
    verdict = check(GLU, {"self": (64, 6), "dim": -1}, chip=endless)
    assert not {"X", "N", "Y"} & verdict.limits.keys()


def test_a_dtype_without_a_kernel_has_limits_of_its_rules():
    assert check(GLU, {"self": (0, 0)}, chip=PR, dtype="int32").limits == {}
    assert check(GATED, DIMS, chip=PR, dtype="int32").limits == {"C": 20, "R": 640}


def test_bad_input_is_not_a_verdict():
    for wrong in ({"h": 3}, {"S": "many"}, {}):
        with pytest.raises(BadInput):
            check(GATED, wrong, chip=PR)
    with pytest.raises(BadInput):
        check(GATED, DIMS, chip="ascend950px")
    with pytest.raises(BadInput):
        check(GATED, DIMS, chip=PR, dtype="float15")


def test_a_check_takes_milliseconds():
    check(GATED, DIMS, chip=PR)
    start = time.perf_counter()
    for h in range(16, 16 * 51, 16):
        check(GATED, DIMS | {"H": h}, chip=PR)
    assert (time.perf_counter() - start) / 50 < 0.02


@given(top=st.integers(-5, 300), start=st.integers(1, 50), step=st.integers(1, 20))
def test_greatest_is_the_greatest(top, start, step):
    found = greatest(lambda value: value <= top, start, step, 2**20)
    legal = [value for value in range(start, 301, step) if value <= top]
    assert found == (legal[-1] if legal else None)


# -------------------------------------------------------------------- properties
SIZES = st.one_of(
    st.integers(-2, 40),
    st.sampled_from([48, 64, 320, 384, 640, 656, 768, 2560, 3040, 3056, 4800, 4816, 24576, 24640, 2**31, 2**64]),
)
EXTRA_DTYPES = st.sampled_from([None, "bfloat16", "float16", "float32", "float64", "int32"])


@st.composite
def asked(draw):
    """Any operator on any chip with any dims, some tensors replaced by null or by another shape and dtype."""
    op = load_operator(draw(st.sampled_from(operators_shipped())))
    wanted = {d.name: draw(SIZES) for d in op.dims}
    names = draw(st.lists(st.sampled_from(list(op.arguments)), max_size=2, unique=True))
    specs = st.builds(
        TensorSpec, st.lists(st.integers(0, 70), max_size=4).map(tuple), st.sampled_from(["bfloat16", "int8"])
    )
    tensors = {name: draw(st.one_of(st.none(), specs)) for name in names}
    options = {o.name: draw(st.booleans()) for o in op.options if o.name not in tensors}
    attributes = {a.name: draw(st.integers(-3, 9)) for a in op.attributes if draw(st.booleans()) and not a.dim}
    return (
        op,
        wanted | tensors | attributes,
        draw(EXTRA_DTYPES),
        options,
        load_chip(draw(st.sampled_from(chips_shipped()))),
    )


@settings(max_examples=150)
@given(asked())
def test_any_shape_gets_a_verdict(case):
    op, wanted, dtype, options, chip = case
    try:
        call = bind(op, wanted, dtype=dtype, **options)
        verdict = verdict_of(call, chip)
    except BadInput:  # a dim that no tensor tells any more, or that all tensors contradict
        reject()
    assert [rule.name for rule in verdict.rules] == [f.name for f in findings(call, chip)]
    assert len(verdict.rules) >= len(op.rules) + 1
    if any(rule.status is None for rule in verdict.broken):  # nothing to call, whatever else is wrong
        assert (verdict.verdict, verdict.status) == ("unsupported", None)
    elif verdict.broken:
        assert verdict.status == verdict.broken[0].status
        assert not verdict.ok
    elif verdict.failing:
        assert verdict.dims.keys() == op.dimensions.keys()
        on_chip = any(b.memory != "gm" for b in verdict.failing)
        assert (verdict.verdict, verdict.status) == ("overflow", op.overflow if on_chip else SUCCESS)
    else:
        assert verdict.ok
        assert verdict.dims.keys() == op.dimensions.keys()
        assert verdict.status.code == 0
    assert bool(verdict.culprit) != verdict.ok
    json.dumps(verdict.to_json())
    for remedy in verdict.remedies:
        assert again(verdict, remedy).ok, remedy


@settings(max_examples=60)
@given(
    c=st.integers(1, 20),
    h=st.integers(1, 320).map(lambda n: 16 * n),
    r=st.integers(1, 45).map(lambda n: 16 * n),
    chip=st.sampled_from([PR, B3]),
)
def test_limits_are_the_largest(c, h, r, chip):
    verdict = check(GATED, {"B": 1, "S": 1, "C": c, "H": h, "R": r}, chip=chip)
    for name, step in (("H", 16), ("R", 16)):
        top = verdict.limits[name]
        assert not check(GATED, verdict.dims | {name: top + step}, chip=chip).ok
        if verdict.ok:
            assert top >= verdict.dims[name]
            assert check(GATED, verdict.dims | {name: top}, chip=chip).ok
