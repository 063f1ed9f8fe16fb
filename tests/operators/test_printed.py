"""Rules, inequalities and scalars of every operator: evaluated, vectorised and printed, they say the same."""

import functools
import itertools
import math
import random

import numpy as np
import pytest

from tests.printed import MISSING, Group, as_printed, evaluated, runs
from tests.random_calls import random_calls
from tests.sample_calls import chips_of, choices, kinds
from tilesim.chip.loading import chips_shipped, load_chip
from tilesim.errors import BadOperator
from tilesim.feasibility.inequalities import inequalities
from tilesim.operators.binding import bind
from tilesim.operators.calls import facts_of_sizes, resized
from tilesim.operators.conditions import Kind, at_most
from tilesim.operators.operator import Outcome, Rule
from tilesim.operators.printer import parameters
from tilesim.operators.rules import rules_of
from tilesim.operators.status import PARAM_INVALID
from tilesim.ops import load_operator, operators_shipped
from tilesim.program import sizes
from tilesim.program.functions import DIVIDE, LN, MULTIPLY, POWER, SUBTRACT
from tilesim.program.nodes import Instr, walk
from tilesim.program.sizes import Scalar

PR = load_chip("ascend950pr")
FAMILIES = list({chip.family: chip for chip in map(load_chip, chips_shipped())}.values())
CHIPS = [*FAMILIES, *(PR.override({"memory.ub.size_bytes": size}) for size in (8192, 8256, 16384))]
"""A chip of each family, and unified buffers around what operators keep back."""
OPERATORS = [op for name in operators_shipped() for op in (load_operator(name), load_operator(name).fused) if op]


def conditions(op):
    return [rule.of(op).condition for rule in (*rules_of(op), *op.tiling_only_rules)]


def facts_of_random_calls(op, count):
    """The facts that the conditions of an operator ask for, of random calls on the chips in turn."""
    names = {fact.name for condition in conditions(op) for fact in parameters(condition)}
    for call, chip in zip(random_calls(op, count, seed=1), itertools.cycle(CHIPS), strict=False):
        facts = dict(call.facts(chip))
        yield facts | {key: chip.get(key) for key in names & set(chip.keys())}


def kernels(op):
    """Every kernel of an operator: on a chip of each family, for each dtype, option and variant."""
    for chip in {chip.family: chip for chip in chips_of(op)}.values():
        for dtype in op.dtypes[chip.family]:
            for given, options in itertools.product(kinds(op), choices(op)):
                call = bind(op, given | options, dtype=dtype)
                yield from ((op.record(call, chip, variant), chip) for variant in op.variants(call, chip))


def functions_in(scalar):
    return {scalar.function}.union(*map(functions_in, scalar.arguments))


def scalars_of(kernel):
    nodes = (node for phase in kernel.phases for node, _ in walk(phase.body))
    return [s for node in nodes if isinstance(node, Instr) for s in node.src if isinstance(s, Scalar)]


@functools.cache
def groups():
    return [(group, evaluated(group)) for group in _groups()]


def every_function(choose):
    """The functions of whole numbers and shapes, with numbers of both signs."""
    a, b, shape = sizes.dim("A"), sizes.dim("B"), sizes.Shape("x.shape")
    of_two = (sizes.ceil_div, sizes.floor_div, sizes.mod, sizes.maximum, sizes.minimum)
    of_one = (sizes.bit_length, sizes.pow2, sizes.pow2_floor)
    of_shape = (sizes.rank, sizes.elements, sizes.least_axis, sizes.greatest_axis)
    expressions = [
        *(f(a, b) for f in of_two),
        *(f(a - 3 * b + 1, n) for f in of_two for n in (7, 16)),
        *(f(a) for f in of_one),
        *(f(shape) for f in of_shape),
        *(sizes.axis(shape, i) for i in (0, 1, -1, -2)),
    ]
    numbers = (*range(-20, 0), *range(1, 20), 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**62 - 1, 2**62)
    axes = (0, 1, 2, 3, 16, 2**31, 2**62)
    sets = [
        {"A": choose.choice(numbers), "B": choose.choice(numbers), "x.shape": tuple(choose.choices(axes, k=2))}
        for _ in range(300)
    ]
    return Group(expressions, sets)


def _groups():
    """Every function; rules with random calls; inequalities, their sides and scalars of kernels with random sizes."""
    choose = random.Random(2)
    yield every_function(choose)
    for op in OPERATORS:
        yield Group(conditions(op), list(facts_of_random_calls(op, 100)))
        recorded = list(dict.fromkeys(kernels(op)))
        limits = {(i.left, i.right) for kernel, chip in recorded for i in inequalities(kernel, chip)}
        expressions = [e for left, right in sorted(limits, key=str) for e in (at_most(left, right), left, right)]
        scalars = {s for kernel, _ in recorded for s in scalars_of(kernel)}
        expressions += sorted(scalars, key=str)
        names = {fact for e in expressions for fact in parameters(e)}
        sets = [{name: _value(kind, choose) for name, kind in sorted(names)} for _ in range(12)]
        if not any(
            isinstance(e, Scalar) and POWER in functions_in(e) for e in expressions
        ):  # a power of it would not be real
            sets.append(sets[0] | {name: -1.0 for name, kind in names if kind is Kind.REAL})
        yield Group(expressions, sets)


def _value(kind, choose):
    if kind is Kind.REAL:
        return choose.choice((0.5, 0.999, 3.0, 1e-6))
    return choose.choice((1, 2, choose.randint(1, 50), choose.randint(1, 10**4), choose.randint(1, 2**31)))


@pytest.mark.parametrize("language", ["python", "javascript", "cpp"])
def test_printed_expressions_have_the_values_of_evaluation(language, tmp_path):
    if not runs(language):
        pytest.skip(f"no {MISSING[language]}")
    answers = as_printed([group for group, _ in groups()], language, tmp_path)
    for (group, expectations), printed in zip(groups(), answers, strict=True):
        for facts, expected, values in zip(group.facts, expectations, printed, strict=True):
            for expression, a, b in zip(group.expressions, expected, values, strict=True):
                same = math.isclose(a, b, rel_tol=1e-15) if isinstance(a, float) else a == b
                assert same, (str(expression), facts, a, b)


def test_every_kind_of_expression_and_both_outcomes_are_compared():
    expressions = [e for group, _ in groups() for e in group.expressions]
    scalars = [e for e in expressions if isinstance(e, Scalar)]
    assert {f for s in scalars for f in functions_in(s)} >= {None, SUBTRACT, MULTIPLY, DIVIDE, POWER, LN}
    outcomes = [value for _, expected in groups()[1::2] for row in expected for value in row]
    assert 0.02 < outcomes.count(False) / len(outcomes) < 0.3


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_arrays_of_sizes_give_what_the_calls_one_by_one_give(op):
    choose = random.Random(3)
    values = [-1, 0, 1, 2, 16, 48, 640, 656, 4096, 2**24, 2**31, 2**62]
    for given, options in itertools.product(kinds(op), choices(op)):
        call = bind(op, given | options)
        names = choose.sample(list(call.dims), min(2, len(call.dims)))
        columns = {name: [choose.choice(values) for _ in range(12)] for name in names}
        facts = facts_of_sizes(call, PR, {name: np.array(column) for name, column in columns.items()})
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for condition in conditions(op):
            expected = [bool(condition.holds(resized(call, row).facts(PR))) for row in rows]
            assert np.broadcast_to(condition.holds(facts), 12).tolist() == expected, str(condition)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_arrays_of_facts_give_what_the_facts_one_by_one_give(op):
    def spread(value):
        if isinstance(value, tuple):
            return tuple(map(spread, value))
        if isinstance(value, int) and not isinstance(value, bool):
            return np.array([value, 16], dtype=np.int64 if abs(value) < 2**63 else object)
        return value

    def second(value):
        return value[1] if isinstance(value, np.ndarray) else value

    for facts in facts_of_random_calls(op, 60):
        arrays = {name: value if name == op.split else spread(value) for name, value in facts.items()}
        others = {name: tuple(map(second, v)) if isinstance(v, tuple) else second(v) for name, v in arrays.items()}
        for condition in conditions(op):
            expected = [bool(condition.holds(facts)), bool(condition.holds(others))]
            assert np.broadcast_to(condition.holds(arrays), 2).tolist() == expected, str(condition)


def test_a_rule_that_is_a_python_function_is_applied_and_refused_by_what_prints():
    def even_rows(call, _):
        return Outcome(call.dims["X"] % 2 == 0, "an even number of elements", str(call.dims["X"]))

    rule = Rule("even", PARAM_INVALID, even_rows, "x")
    finding = rule.apply(bind(load_operator("sigmoid"), {"X": 7}), PR)
    assert (finding.ok, str(finding)) == (False, "even: expected an even number of elements, given 7")
    with pytest.raises(BadOperator, match="the rule 'even' is a Python function") as caught:
        _ = rule.condition
    assert caught.value.where == f"test_printed.py:{even_rows.__code__.co_firstlineno}"
