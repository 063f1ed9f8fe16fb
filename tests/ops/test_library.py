"""Library operators against their float64 references, on the chips of every family of vector cores."""

import numpy as np
import pytest

from tests.reference.formats import carried
from tests.sample_calls import executed, judge
from tilesim.chip.loading import load_chip
from tilesim.feasibility.verdict import check
from tilesim.ops import load_operator
from tilesim.planning.plan import plan

CHIPS = ("ascend910b2", "ascend950pr", "ascend910_9391", "ascend310p3", "ascend310b1", "ascend910a")
CASES = [
    ("sigmoid", ("x",), {}),
    ("exp", ("x",), {}),
    ("exp", ("x",), {"scale": 1.5, "shift": 0.25, "base": 2.0}),
    ("gelu", ("x",), {"approximate": "none"}),
    ("gelu", ("x",), {"approximate": "tanh"}),
    ("mish", ("x",), {}),
    ("add", ("x1", "x2"), {}),
    ("mul", ("x1", "x2"), {}),
    ("maximum", ("x1", "x2"), {}),
    ("addcdiv", ("x1", "x2", "x3"), {"scalar": 1.7}),
    ("adam_w", ("var", "grad", "m", "v"), {"step": 3, "weight_decay": 0.01, "lr": 0.01}),
    ("copy", ("x",), {}),
    ("swi_glu", ("x",), {"dim": -1}),
    ("swi_glu", ("x",), {"dim": 0}),
    ("softmax", ("x",), {"dim": -1}),
    ("softmax", ("x",), {"dim": 0}),
    ("softmax", ("x",), {"dim": 1}),
    ("rms_norm", ("x", "gamma"), {}),
    ("dynamic_quant", ("x",), {}),
]
SHAPES = [(4, 6, 130), (2, 3000, 10), (70, 2)]
PLACES = [(c, s) for c in CHIPS[:2] for s in SHAPES]
FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = [(op, d) for op in ("maximum", "add", "mul", "copy") for d in ("int8", "int32", "int64")]


def holds(op, inputs, chip, dtype, **given):
    """Run a call and compare what it results in with the reference."""
    made = plan(op, {n: a.shape for n, a in inputs.items()}, chip=chip, dtype=dtype, **given)
    judge(made, inputs, executed(made, inputs))


def inputs_of(op, names, shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    made = {
        n: carried(rng.uniform(0.5, 1.5, shape) if n in ("x3", "v") else rng.standard_normal(shape), dtype)
        for n in names
    }
    if op == "rms_norm":
        made["gamma"] = carried(rng.standard_normal(shape[-1:]), dtype)
    return made


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "names", "given"), CASES, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize(("chip", "shape"), PLACES, ids=str)
def test_results_match_the_reference(chip, op, names, given, dtype, shape):
    if dtype not in load_operator(op).dtypes[load_chip(chip).family]:
        assert check(op, {names[0]: shape}, chip=chip, dtype=dtype).verdict in ("unsupported", "refused")
        return
    holds(op, inputs_of(op, names, shape, dtype), chip, dtype, **given)


@pytest.mark.parametrize(("op", "dtype"), INTEGERS)
def test_integers_are_exact(op, dtype):
    if dtype not in load_operator(op).dtypes["a2"]:
        return
    rng = np.random.default_rng(1)
    names = ("x",) if op == "copy" else ("x1", "x2")
    inputs = {n: rng.integers(-50, 50, (7, 333)).astype(dtype) for n in names}
    holds(op, inputs, "ascend910b2", dtype)


@pytest.mark.parametrize("op", ["softmax", "rms_norm", "dynamic_quant"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_that_do_not_fit_take_several_passes(op, dtype):
    inputs = inputs_of(op, ("x", "gamma") if op == "rms_norm" else ("x",), (3, 70_000), dtype)
    holds(op, inputs, "ascend910b2", dtype)


def test_a_row_of_zeros_is_quantised_to_zeros():
    x = np.zeros((5, 40), np.float16)
    x[1] = 3
    holds("dynamic_quant", {"x": x}, "ascend950pr", "float16")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(50, 70, 90), (1, 300, 40), (130, 65, 1)], ids=str)
def test_products(shape, dtype):
    m, k, n = shape
    rng = np.random.default_rng(2)
    inputs = {"x1": carried(rng.standard_normal((m, k)), dtype), "x2": carried(rng.standard_normal((k, n)), dtype)}
    holds("matmul", inputs, "ascend910b2", dtype)


@pytest.mark.parametrize("op", ["sigmoid", "swi_glu", "softmax", "rms_norm", "dynamic_quant", "add"])
def test_any_rank(op):
    names = {"add": ("x1", "x2"), "rms_norm": ("x", "gamma")}.get(op, ("x",))
    for shape in ((6,), (2, 1, 3, 2, 4)):
        holds(op, inputs_of(op, names, shape, "float32"), "ascend950pr", "float32")


@pytest.mark.parametrize(
    ("op", "given", "word"),
    [
        ("add", {"x1": (4, 4), "x2": (4, 5)}, "x2 shape"),
        ("swi_glu", {"x": (4, 5)}, "even"),
        ("softmax", {"x": (4, 5), "dim": 2}, "dim range"),
        ("rms_norm", {"x": (4, 5), "gamma": (4,)}, "gamma"),
    ],
)
def test_broken_rules_are_named(op, given, word):
    verdict = check(op, given, chip="ascend910b2")
    assert not verdict.ok
    assert any(word in rule.name for rule in verdict.broken)


@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950pr"])
@pytest.mark.parametrize(
    ("op", "shape", "more"),
    [
        ("swi_glu", (4096,), {}),
        ("swi_glu", (96,), {}),
        ("softmax", (64, 257), {"dim": 1}),
        ("softmax", (64, 16), {"dim": 1}),
    ],
)
def test_rows_around_the_number_of_cores_take_alike(chip, op, shape, more):
    """Where a program for fewer rows than cores gives way to another, the time does not jump."""
    cores = load_chip(chip).cores.vector
    times = [
        sum(phase.cycles for phase in plan(op, {"x": (rows, *shape), **more}, chip=chip, dtype="float16").phases)
        for rows in range(cores - 3, cores + 1)
    ]
    assert max(times) < 1.3 * min(times)


@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950pr"])
@pytest.mark.parametrize("op", ["softmax", "rms_norm", "dynamic_quant"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_of_every_length_have_a_program(chip, op, dtype):
    shortest = load_chip(chip).memory.ub.size_bytes // 40
    for row in (*range(shortest, 4 * shortest, 997), 1_000_000):
        assert plan(op, {"x": (64, row)}, chip=chip, dtype=dtype).phases


MOST = {"swi_glu": 1.05, "glu": 1.05, "glu_backward": 1.05, "softmax": 1.4, "rms_norm": 2.0, "dynamic_quant": 1.4}
"""How much longer rows of one length may take than rows of another."""
ROWS = [(chip, op) for op in MOST for chip in CHIPS if load_chip(chip).family in load_operator(op).dtypes]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("chip", "op"), ROWS)
def test_the_same_bytes_take_alike_in_rows_of_any_length(chip, op, dtype):
    """Rows that do not fit are read twice by what sums them up first; nothing else may jump."""
    elements = 1 << 25
    name = "self" if op.startswith("glu") else "x"
    times = [
        sum(one.cycles for one in plan(op, {name: (elements // row, row)}, chip=chip, dtype=dtype).phases)
        for row in (2048, 4096, 8192, 16384, 32768, 65536, 131072)
    ]
    assert max(times) < MOST[op] * min(times)
