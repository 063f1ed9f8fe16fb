"""Public functions with arguments of the wrong type: one clear line of the library's own, whatever they are."""

import inspect
import itertools

import numpy as np
import pytest

import tilesim
from tilesim.errors import BadInput, TilesimError
from tilesim.execution import aclnn

B3 = "ascend910b3"
PLAN = tilesim.plan("glu_backward", {"self": (4, 64)}, chip=B3)
GRADIENT, INPUT = np.zeros((4, 32), np.float32), np.zeros((4, 64), np.float32)
EXECUTOR = aclnn.get_workspace_size("aclnnGluBackward", GRADIENT, INPUT, -1, INPUT.copy(), chip=B3)[2]
CALL = {"op": "glu_backward", "given": {"self": (4, 64)}, "chip": B3}
RIGHT = {
    "check": CALL,
    "check_buffers": {"source": {"buffers": {"x": {"shape": ["N"]}}}, "chip": B3, "sizes": {"N": 4}},
    "chips_found": {},
    "compare": {"csv_path": "none.csv", "chip": B3},
    "fusion_saving": {"plan": PLAN},
    "load_chip": {"source": B3},
    "load_operator": {"source": "glu"},
    "operators_shipped": {},
    "plan": CALL,
    "run": {"plan": PLAN, "inputs": {"gradOut": GRADIENT, "self": INPUT}},
    "search": CALL,
    "sensitivity": CALL,
    "simulate": {"plan": PLAN},
    "solve": CALL | {"key": "memory.ub.size_bytes"},
    "sweep": {"op": "glu_backward", "given": {"self": (4, 64)}, "chips": B3},
    "validate": {"measured": None, "chip": B3},
    "whatif": CALL | {"set": {"cores.vector": 8}},
}
"""What every public function takes."""
OTHERS = {
    aclnn.get_workspace_size: {"chip": B3, "api": "aclnnGluBackward"},
    aclnn.operator_of: {"api": "aclnnGluBackward"},
    aclnn.parameters_of: {"api": "aclnnGluBackward"},
    EXECUTOR.run: {},
    PLAN.graph: {},
    PLAN.chip.get: {"key": "cores.vector"},
    PLAN.chip.override: {"changes": {}},
    PLAN.chip.diff: {"other": PLAN.chip},
}
FUNCTIONS = [(getattr(tilesim, name), given) for name, given in RIGHT.items()] + list(OTHERS.items())
WRONG = [None, 3, -1, 3.5, True, "x", b"x", [], [3], ["x"], {}, {3: 4}, {"rows": "2"}, {"rows": None}, object(), INPUT]
every_function = pytest.mark.parametrize(
    ("function", "given"), FUNCTIONS, ids=lambda one: getattr(one, "__qualname__", "")
)


def test_all_public_functions_are_here():
    public = {name: getattr(tilesim, name) for name in tilesim.__all__}
    assert RIGHT.keys() == {name for name, one in public.items() if inspect.isfunction(one)}


@every_function
def test_a_wrong_type_is_an_error_of_the_library(function, given):
    found = inspect.signature(function).parameters.values()
    first = [p.name for p in found if p.kind == p.POSITIONAL_ONLY]
    single = [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    for name, wrong in itertools.product(single, WRONG):
        named = given | {name: wrong}
        args = [named.pop(one) for one in first]
        try:
            function(*args, **named)
        except TilesimError as error:
            assert "\n" not in str(error)  # noqa: PT017 - most of them are no error at all


@pytest.mark.parametrize("name", ["check", "plan", "search", "sensitivity", "sweep"])
def test_so_is_one_of_an_option_or_attribute(name):
    for wrong in WRONG:
        try:
            getattr(tilesim, name)(**RIGHT[name], dim=wrong)
        except TilesimError as error:
            assert "dim" in str(error)  # noqa: PT017 - -1 is no error, nor are others in a sweep
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tilesim.plan(**CALL, tiles=3), "plan: tiles is 3, must be a mapping with names as keys or None"),
        (lambda: tilesim.plan(**CALL, tiles={"rows": "2"}), "plan: tiles['rows'] is '2', must be a whole number"),
        (
            lambda: tilesim.load_chip(3, directory=3),
            "load_chip: 2 problems: source is 3, must be a text or a path; directory is 3, must be a text, a path or",
        ),
        (lambda: tilesim.simulate({}), "simulate: plan is of type dict, must be a Plan"),
        (lambda: tilesim.check(**CALL | {"op": 3}), "check: op is 3, must be an Operator, a text or a path"),
        (
            lambda: tilesim.sweep("glu", {"X": 1}, chips=[B3, 3], set={3: 4}),
            "sweep: 2 problems: chips[1] is 3, must be a Chip, a text or a path; set has the key 3, must be a text",
        ),
        (lambda: tilesim.sweep("glu", {"X": 1}, chips=[]), "sweep: no chip is given"),
        (lambda: tilesim.sweep("glu", {"X": 1}, chips=B3, dtype=[]), "sweep: no dtype is given"),
        (lambda: tilesim.run(PLAN, {}, threads="2", progress=1), "run: 2 problems: threads is '2', must be a whole"),
        (lambda: tilesim.validate([3], B3), "validate: measured[0] is 3, must be a Measurement"),
        (lambda: tilesim.validate(None, B3, fit=1), "validate: fit is 1, must be True or False"),
        (lambda: PLAN.graph(tiles="2"), "graph: tiles is '2', must be a whole number or None"),
    ],
)
def test_the_line_says_what_is_expected(call, said):
    with pytest.raises(BadInput) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_numbers_and_paths_of_other_libraries_are_what_they_are(tmp_path):
    assert tilesim.plan(**CALL, tiles={"cores": np.int64(1)}).by_hand == {"cores": 1}
    assert tilesim.chips_found(tmp_path) == tilesim.chips_found(str(tmp_path))
    assert tilesim.check(**CALL, dtype=np.float16).dtype == "float16"


def test_an_argument_too_few_is_told_by_python():
    with pytest.raises(TypeError, match=r"plan\(\) missing 1 required keyword-only argument: 'chip'"):
        tilesim.plan("glu", {})
