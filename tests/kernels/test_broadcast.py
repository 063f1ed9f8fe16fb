"""Operands whose shapes broadcast: shapes and merged axes as numpy has them, values, rules, plans and their class."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.formats import carried
from tests.sample_calls import made_up
from tilesim.chip.loading import load_chip
from tilesim.execution.run import run
from tilesim.feasibility.verdict import check
from tilesim.kernels.broadcast import AxisPattern, axis_sizes, is_broadcast
from tilesim.kernels.rows import LONG, NARROW
from tilesim.measured.error_bands import known_accuracy
from tilesim.measured.profiled_calls import BROADCAST, call_of_kernel
from tilesim.operators.binding import bind, in_words, parse
from tilesim.operators.measured_kernels import Unmapped
from tilesim.operators.operator import KernelRow
from tilesim.operators.shapes import apart, broadcast, merged
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.dtypes import numpy_dtype
from tilesim.simulation.timeline import simulate

CHIPS = ("ascend910b2", "ascend950pr", "ascend310p3")
FUNCTIONS = {"add": np.add, "mul": np.multiply, "maximum": np.maximum}
INTEGERS = ("int8", "int32", "int64")
SIZES = st.sampled_from([0, 1, 1, 2, 3, 5, 17, 130])
SHAPES = [
    ((4096, 2560), (2560,), AxisPattern("1=", 0, 1)),
    ((2560,), (4096, 2560), AxisPattern("2=", 0, 1)),
    ((4096, 256), (4096, 1), AxisPattern("=1", 0, 1)),
    ((4096, 2560), (4096, 1), AxisPattern("=1", 0, 1, LONG)),
    ((4096, 1), (1, 2560), AxisPattern("12", 0, 1)),
    ((2, 3, 5, 1024, 256), (1, 1, 1, 1024, 1), AxisPattern("1=1", 1, 1)),
    ((2, 1000), (1000,), AxisPattern("1=", 1, 64)),
    ((500, 3), (3,), AxisPattern("1=", 0, 22, NARROW)),
    ((8, 8), (1,), AxisPattern("1")),
    ((), (8, 8), AxisPattern("2")),
    ((1, 8, 1), (8, 1), AxisPattern()),
    ((8, 8), (8, 8), AxisPattern()),
    ((0, 8), (8,), "empty"),
]


@st.composite
def pairs(draw):
    """Two shapes that broadcast, of up to 8 axes and not too many elements."""
    whole = draw(st.lists(SIZES, max_size=8))
    while np.prod(whole, dtype=int) > 20_000:
        whole.pop()
    kept = [draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole))) for _ in range(2)]
    cut = [draw(st.integers(0, len(whole))) if draw(st.booleans()) else 0 for _ in range(2)]
    shapes = [tuple(n if k else 1 for n, k in zip(whole, one, strict=True)) for one in kept]
    return tuple(shape[c:] for shape, c in zip(shapes, cut, strict=True))


@given(pairs())
def test_shapes_and_axes_are_those_of_numpy(shapes):
    expected = np.broadcast_shapes(*shapes)
    assert broadcast(*shapes) == expected
    word, sizes = merged(*shapes)
    assert np.prod(sizes, dtype=int) == np.prod(expected, dtype=int)
    assert all(a != b for a, b in itertools.pairwise(word))
    for lacking, shape in zip("21", shapes, strict=True):
        mine = [size for kind, size in zip(word, sizes, strict=True) if kind != lacking]
        assert np.prod(mine, dtype=int) == np.prod(shape, dtype=int)


@given(pairs())
def test_a_result_has_no_elements_if_numpys_has_none(shapes):
    assert merged(*shapes).has_no_elements == (np.prod(np.broadcast_shapes(*shapes), dtype=int) == 0)


def test_shapes_that_differ_and_have_no_elements_are_told_by_their_own():
    call = bind(load_operator("add"), {"x1": (0, 8), "x2": (8,)})
    assert axis_sizes(call) == {"axis1": 0, "axis2": 8}


@given(st.lists(SIZES, max_size=5), st.lists(SIZES, max_size=5))
def test_shapes_that_do_not_broadcast(first, second):
    try:
        np.broadcast_shapes(tuple(first), tuple(second))
        fits = True
    except ValueError:
        fits = False
    assert (not apart(first, second)) == fits
    assert (broadcast(first, second) is not None) == fits


@settings(max_examples=60, deadline=None)
@given(
    shapes=pairs(),
    op=st.sampled_from(sorted(FUNCTIONS)),
    chip=st.sampled_from(CHIPS),
    which=st.integers(0, 5),
    seed=st.integers(0, 99),
    cores=st.sampled_from([None, 1, 3]),
)
def test_values_are_those_of_numpy(shapes, op, chip, which, seed, cores):
    kinds = load_operator(op).dtypes[load_chip(chip).family]
    dtype = kinds[which % len(kinds)]
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        inputs = [rng.integers(-50, 50, shape).astype(dtype) for shape in shapes]
    else:
        inputs = [np.asarray(carried(rng.standard_normal(shape), dtype), numpy_dtype(dtype)) for shape in shapes]
    made = plan(
        op, dict(zip(("x1", "x2"), shapes, strict=True)), chip=chip, dtype=dtype, tiles=cores and {"cores": cores}
    )
    found = run(made, dict(zip(("x1", "x2"), inputs, strict=True))).outputs["y"]
    wide = [x.astype(np.float32) if dtype == "bfloat16" else x for x in inputs]
    expected = np.asarray(FUNCTIONS[op](*wide)).astype(numpy_dtype(dtype))
    assert found.shape == np.broadcast_shapes(*shapes)
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize(("first", "second", "variant"), SHAPES, ids=str)
def test_kernels_by_the_pattern_of_axes(first, second, variant):
    made = plan("add", {"x1": first, "x2": second}, chip="ascend950pr")
    assert made.kernel.variant == variant
    assert made.call.spec("y").shape == np.broadcast_shapes(first, second)
    again = bind(made.operator, parse(made.operator, in_words(made.call).split()))
    assert again.specs == made.call.specs


def test_a_bias_is_read_once_a_core():
    made = plan("add", {"x1": (4096, 2560), "x2": (2560,)}, chip="ascend950pr")
    (phase,) = made.phases
    traffic = phase.traffic
    read, written = ({name: m.bytes for name, m in side.items()} for side in (traffic.reads, traffic.writes))
    assert read == {"x1": 4 * 4096 * 2560, "x2": 4 * 2560 * phase.cores}
    assert written == {"y": 4 * 4096 * 2560}


def test_fewer_bytes_take_less_time():
    times = [
        simulate(plan("mul", {"x1": (8192, 8192), "x2": other}, chip="ascend910b2")).time_us
        for other in ((8192, 8192), (8192,), (1,))
    ]
    assert times[0] > 1.2 * times[1] >= 1.2 * times[2] * 0.99


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_shapes_that_do_not_broadcast_are_refused(op):
    verdict = check(op, {"x1": (4096, 2560), "x2": (2561,)}, chip="ascend950pr")
    (broken,) = verdict.broken
    assert str(broken) == "x2 shape: expected 2560 or 1 on axis -1, as x1 [4096, 2560], given 2561 of [2561]"
    assert (verdict.verdict, verdict.status.code) == ("refused", 161002)
    both = check(op, {"x1": (4, 5, 6), "x2": (3, 1, 2)}, chip="ascend950pr")
    assert "4 or 1 on axis -3 and 6 or 1 on axis -1" in str(both.broken[0])
    assert not check(op, {"x1": (1,) * 9, "x2": (2,)}, chip="ascend950pr").ok
    assert not check(op, {"x1": (2, 1), "x2": (5,), "y": (2, 6)}, chip="ascend950pr").ok


def test_the_number_of_elements_can_be_given_too():
    op = load_operator("add")
    assert bind(op, {"X": 12, "x1": (2, 6), "x2": (6,)}).spec("y").shape == (2, 6)
    assert bind(op, {"X": 6, "x2": (1,)}).spec("x1").shape == (6,)
    assert not check(op, {"X": 12, "x1": (2, 1), "x2": (5,)}, chip="ascend950pr").ok
    assert bind(op, {"x2": (3, 4)}).spec("x1").shape == (3, 4)


def test_random_inputs_have_the_shapes_of_the_operands():
    made = plan("maximum", {"x1": (), "x2": (3, 1)}, chip="ascend910b2", dtype="int8")
    assert {n: (x.shape, x.dtype.name) for n, x in made_up(made).items()} == {
        "x1": ((), "int8"),
        "x2": ((3, 1), "int8"),
    }


def test_measured_kernels_are_a_class_of_their_own():
    equal = call_of_kernel("Add", KernelRow([(8, 4), (8, 4)], ["FLOAT", "FLOAT"]))
    merged = call_of_kernel("Add", KernelRow([(1, 8), (8,)], ["FLOAT"]))
    one = call_of_kernel("Mul", KernelRow([(8, 4), ()], ["FLOAT", "FLOAT"]))
    assert [call.accuracy_class for call in (equal, merged, one)] == ["elementwise", "elementwise", BROADCAST]
    with pytest.raises(Unmapped, match="do not broadcast"):
        call_of_kernel("Add", KernelRow([(8, 4), (3,)], ["FLOAT", "FLOAT"]))
    calls = [bind(made.operator, made.given) for made in (equal, one)]
    chip = load_chip("ascend910b2")
    assert [is_broadcast(call) for call in calls] == [False, True]
    assert [known_accuracy(call, chip).kind for call in calls] == ["elementwise", BROADCAST]
    assert not known_accuracy(calls[1], chip).validated
    assert not is_broadcast(bind(load_operator("matmul"), {"x1": (8, 4), "x2": (4, 2)}))
