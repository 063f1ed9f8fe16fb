"""Tensors and workspace of a call against global memory."""

import math

import pytest

from tests.sample_calls import OPERATORS, small
from tilesim.analysis.solve import solve
from tilesim.analysis.sweep import sweep
from tilesim.chip.loading import load_chip
from tilesim.errors import DoesNotFit
from tilesim.execution.run import run
from tilesim.feasibility.evaluate import passes
from tilesim.feasibility.verdict import check, check_buffers, verdict_of
from tilesim.operators.calls import resized
from tilesim.operators.operator import INPUT
from tilesim.operators.status import SUCCESS
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.dtypes import itemsize

B3, B4, PR = (load_chip(name) for name in ("ascend910b3", "ascend910b4", "ascend950pr"))
SIZE = "memory.gm.size_bytes"
LARGE = [
    ("add", {"X": 20_000_000_000}, B4),
    ("softmax", {"x": (3_000_000, 4096)}, B4),
    ("matmul", {"M": 200_000, "K": 4096, "N": 200_000}, B3),
    ("glu_backward", {"self": (4_000_000, 16384)}, PR),
    ("text_gated_residual_grad", {"B": 64, "S": 65536, "C": 4, "H": 2560, "R": 320}, B3),
]


def need_of(verdict):
    return next(b for b in verdict.inequalities if b.memory == "gm")


@pytest.mark.parametrize("name", OPERATORS)
def test_the_bytes_are_those_of_the_tensors_and_of_the_workspace(name):
    call_plan = plan(name, small(load_operator(name)), chip=PR)
    verdict = call_plan.verdict
    overwritten = call_plan.kernel.overwrites
    tensors = sum(
        math.prod(spec.shape) * itemsize(spec.dtype)
        for tensor, spec in verdict.call.specs.items()
        if spec is not None and tensor not in overwritten
    )
    need = need_of(verdict)
    handed_on = max((at + size for at, size in call_plan.workspace.values()), default=0)
    asked = tensors + PR.workspace.system_bytes + handed_on
    assert need.left_bytes >= asked
    if not any("cores" in str(size) for w in call_plan.kernel.workspaces.values() for size in w.shape):
        assert need.left_bytes == asked
    assert need.right_bytes == PR.memory.gm.size_bytes


@pytest.mark.parametrize(("name", "given", "chip"), LARGE, ids=[case[0] for case in LARGE])
def test_what_is_too_large_overflows_and_every_answer_says_so(name, given, chip):
    verdict = check(name, given, chip=chip)
    assert (verdict.ok, verdict.verdict, verdict.status) == (False, "overflow", SUCCESS)
    assert verdict.failing[0].memory == "gm"
    assert "of gm" in verdict.culprit
    assert "without a look at global memory" in verdict.note
    assert verdict.buffers[0].memory == "gm"
    assert verdict.buffers[0].name in verdict.culprit
    for limit in verdict.size_limits:
        if limit.memory == "gm" and limit.largest is not None:
            assert passes(resized(verdict.call, {limit.name: limit.largest}), chip)
            assert not passes(resized(verdict.call, {limit.name: limit.largest + limit.multiple_of}), chip)
    need = need_of(verdict)
    enough = chip.override({SIZE: need.left_bytes})
    assert verdict_of(verdict.call, enough).ok
    assert not verdict_of(verdict.call, chip.override({SIZE: need.left_bytes - 1})).ok
    assert any(remedy.override for remedy in verdict.remedies)
    for remedy in verdict.remedies:
        changed = resized(verdict.call, remedy.given) if remedy.given else verdict.call
        on = load_chip(remedy.chip) if remedy.chip else chip.override(remedy.override)
        assert passes(changed, on), str(remedy)


def test_tokens_are_limited_by_their_product():
    name, given, chip = LARGE[-1]
    verdict = check(name, given, chip=chip)
    assert verdict.limit("B").largest * 65536 < 64 * 65536
    assert verdict.limit("S").largest < 65536
    (product,) = (remedy for remedy in verdict.remedies if str(remedy).startswith("B*S = "))
    tokens = math.prod(product.given[name] for name in ("B", "S"))
    assert not check(name, {**given, "B": 1, "S": tokens + 1}, chip=chip).ok


def test_what_is_reserved_is_not_there():
    x = 1_000_000_000
    needs = 3 * 4 * x + B4.workspace.system_bytes
    room = B4.memory.gm.size_bytes - needs
    for reserved, ok in ((room, True), (room + 1, False)):
        chip = B4.override({"memory.gm.reserved_bytes": reserved})
        assert check("add", {"X": x}, chip=chip).ok is ok
        assert sweep("add", {"X": [x]}, chips=chip, times=False)["verdict"] == ("caution" if ok else "overflow",)


def test_the_answers_after_check():
    name, given, chip = LARGE[0]
    (row,) = sweep(name, given, chips=chip)["tightest"]
    assert row == "gm"
    planned = plan(name, given, chip=chip)
    assert planned.verdict.verdict == "overflow"
    inputs = {t.name: [1.0] for t in planned.call.operator.tensors if t.role == INPUT}
    with pytest.raises(DoesNotFit, match="gm"):
        run(planned, inputs)
    answer = solve(name, given, chip, SIZE)
    need = need_of(planned.verdict).left_bytes
    assert answer.kind == "least"
    assert need <= answer.value < 1.001 * need


def test_a_buffer_file_has_global_memory():
    file = {
        "sizes": {"N": 3_000_000_000},
        "buffers": {
            "weights": {"memory": "gm", "dtype": "float16", "shape": ["N", 5]},
            "x": {"memory": "gm", "dtype": "int8", "shape": [3], "phase": "a"},
            "y": {"memory": "gm", "dtype": "int8", "shape": [7], "phase": "b"},
        },
    }
    assert not check_buffers(file, B4, {"N": 3_435_973_837}).ok
    verdict = check_buffers(file, B4)
    assert {b.memory for b in verdict.inequalities} == {"gm"}
    assert {b.left_bytes for b in verdict.inequalities} == {30_000_000_003, 30_000_000_007}
    assert verdict.limit("N").largest == (34_359_738_368 - 7) // 10
    assert not any("no multiple" in note for note in verdict.notes)
