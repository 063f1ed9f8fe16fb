"""One flow: Call, Verdict, Plan, Timeline. Nothing is judged or planned twice, and no property plans."""

import itertools
import sys
from collections import Counter
from contextlib import contextmanager

import pytest

import tilesim
from tests.commands import runner
from tests.sample_calls import OPERATORS, made_up, one_chip_each, small
from tilesim.chip.loading import load_chip
from tilesim.feasibility.verdict import verdict_of
from tilesim.ops import load_operator
from tilesim.planning.plan import plan_of
from tilesim.render.report.report import report

GLU = ("glu_backward", {"self": (64, 1024)})
CONV = ("masked_causal_conv1d_backward", {"S": 512, "B": 4, "H": 1024, "W": 3})
CHIPS = ("ascend950pr", "ascend910b3", "ascend910_9362")
UB = "memory.ub.size_bytes"
STEPS = {verdict_of.__code__: "verdict", plan_of.__code__: "plan"}


@contextmanager
def counted(operator):
    """Count the verdicts and plans of an operator, whoever asks for them; those of its forward are another's."""
    steps = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code in STEPS:
            step = STEPS[frame.f_code]
            call = frame.f_locals["call"] if step == "verdict" else frame.f_locals["verdict"].call
            steps[step] += call.operator.name == operator

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield steps
    finally:
        sys.setprofile(before)


def everything_of(result):
    """Read every property of a result, and make its JSON and its HTML."""
    for name, value in vars(type(result)).items():
        if isinstance(value, property) or hasattr(value, "attrname"):
            getattr(result, name)
    result.to_json()
    result._repr_html_()


def test_the_counter_counts():
    with counted("glu_backward") as steps:
        tilesim.plan(*GLU, chip=CHIPS[0])
        tilesim.plan(*GLU, chip=CHIPS[0])
        tilesim.check(*CONV, chip=CHIPS[0])
    assert steps == {"verdict": 2, "plan": 2}


@pytest.mark.parametrize(
    ("name", "chip"), [(name, c) for name in OPERATORS for c in one_chip_each(load_operator(name))]
)
def test_a_check_is_one_verdict_and_a_plan_one_of_each(name, chip):
    sizes = small(load_operator(name))
    with counted(name) as steps:
        everything_of(tilesim.check(name, sizes, chip=chip))
    assert steps == {"verdict": 1}
    with counted(name) as steps:
        plan = tilesim.plan(name, sizes, chip=chip)
        everything_of(plan)
        everything_of(tilesim.simulate(plan))
    assert steps == {"verdict": 1, "plan": 1}


@pytest.mark.parametrize(("call", "tiles"), [(GLU, {"rows": 2}), (GLU, {"cores": 3}), (CONV, {"cores": 2})])
def test_tiles_by_hand_are_planned_once(call, tiles):
    with counted(call[0]) as steps:
        plan = tilesim.plan(*call, chip=CHIPS[0], tiles=tiles)
        everything_of(plan)
        everything_of(tilesim.simulate(plan))
        tilesim.run(plan, made_up(plan))
    assert steps == {"verdict": 1, "plan": 1}
    assert not plan.as_vendor
    assert plan.tiling_data is None
    assert plan.vendor.data == tilesim.plan(*call, chip=CHIPS[0]).tiling_data


@pytest.mark.parametrize("name", OPERATORS)
def test_a_run_is_one_of_each(name):
    operator = load_operator(name)
    chip = next(chip for chip in CHIPS if load_chip(chip).family in operator.products)
    with counted(name) as steps:
        plan = tilesim.plan(name, small(operator), chip=chip)
        tilesim.run(plan, made_up(plan)).timeline  # noqa: B018 - reading it is the point
    assert steps == {"verdict": 1, "plan": 1}


def test_a_report_on_three_chips_is_three_of_each():
    with counted(GLU[0]) as steps:
        pages = report(*GLU, chips=CHIPS)
        for ending in ("html", "md", "json"):
            pages.text(ending)
    assert steps == {"verdict": 3, "plan": 3}


@pytest.mark.parametrize("call", [GLU, CONV, ("matmul", {"x1": (256, 512), "x2": (512, 256)})])
@pytest.mark.parametrize("settings", [{UB: [131072, 196608, 253952]}, {"cores.vector": [8, 64], UB: [196608, 253952]}])
@pytest.mark.parametrize("tiles", [None, {"cores": 4}])
def test_a_what_if_is_at_most_one_of_each_for_a_value(call, settings, tiles):
    points = len(list(itertools.product(*settings.values())))
    with counted(call[0]) as steps:
        table = tilesim.whatif(*call, chip=CHIPS[0], set=settings, tiles=tiles)
    assert len(table) == points
    assert steps["plan"] <= steps["verdict"] == points


def test_the_chip_as_it_is_counts_as_a_value():
    with counted(GLU[0]) as steps:
        table = tilesim.whatif(*GLU, chip=CHIPS[0], set={UB: [131072, 196608]})
    assert len(table) == 2
    assert steps == {"verdict": 3, "plan": 3}


def test_a_sweep_is_one_of_each_for_a_point():
    given = {"self": [(64, 512), (64, 1024), (64, 511)]}
    with counted(GLU[0]) as steps:
        assert len(tilesim.sweep(GLU[0], given, chips=CHIPS[:2])) == 6
    assert steps == {"verdict": 6, "plan": 4}
    with counted(GLU[0]) as steps:
        tilesim.sweep(GLU[0], given, chips=CHIPS[:2], times=False)
    assert steps == {"verdict": 6}


@pytest.mark.parametrize("time_us", [None, 100.0])
@pytest.mark.parametrize("tiles", [None, {"cores": 4}])
def test_a_value_is_solved_for_with_one_of_each(time_us, tiles):
    with counted(GLU[0]) as steps:
        answer = tilesim.solve(*GLU, CHIPS[0], UB, time_us=time_us, tiles=tiles)
    assert answer.ok
    assert steps["plan"] <= steps["verdict"]


def test_sensitivity_judges_a_changed_parameter_once():
    with counted(CONV[0]) as steps:
        table = tilesim.sensitivity(*CONV, CHIPS[0])
    deciding = {key for key in load_chip(CHIPS[0]).keys() if key.startswith(("memory.", "cores.", "tiling."))}  # noqa: SIM118
    assert steps["plan"] <= steps["verdict"] <= 1 + 2 * len(deciding | set(table["figure"]))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("check",), {"verdict": 1}),
        (("plan",), {"verdict": 1, "plan": 1}),
        (("plan", "--search"), {"verdict": 1, "plan": 1}),
        (("plan", "--tile", "rows=2"), {"verdict": 1, "plan": 1}),
        (("explain",), {"verdict": 1, "plan": 1}),
        (("graph",), {"verdict": 1, "plan": 1}),
        (("trace",), {"verdict": 1, "plan": 1}),
        (("simulate",), {"verdict": 1, "plan": 1}),
        (("run", "--random", "0", "--verify"), {"verdict": 1, "plan": 1}),
        (("report", "--chip", CHIPS[1], "--chip", CHIPS[2]), {"verdict": 3, "plan": 3}),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_so_do_commands(tmp_path, monkeypatch, words, expected, form):
    command, *options = words
    tilesim = runner(tmp_path, monkeypatch, 200)
    with counted(GLU[0]) as steps:
        result = tilesim(command, GLU[0], "self=8x64x128", "--chip", CHIPS[0], *options, *form)
    assert result.exit_code == 0
    assert steps == expected
