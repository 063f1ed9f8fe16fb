"""Rules and inequalities evaluated for a call on a chip: the facts that verdicts, limits and remedies are made of."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput
from tilesim.feasibility.inequalities import EvaluatedInequality, Inequality, inequalities
from tilesim.operators.calls import nonempty_call, unknown_sizes
from tilesim.operators.operator import Call, Finding, Rule
from tilesim.operators.rules import rules_of
from tilesim.program.isa import GLOBAL, SPACES
from tilesim.program.recorder import Kernel


def findings(call: Call, chip: Chip) -> list[Finding]:
    """Return the finding of every rule, in the vendor's order, after the rule on the products of the operator."""
    return [finding_of(rule, call, chip) for rule in rules_of(call.operator)]


def finding_of(rule: Rule, call: Call, chip: Chip) -> Finding:
    """Return the finding of a rule. Raises BadInput if the sizes make it divide by 0."""
    try:
        return rule.apply(call, chip)
    except ZeroDivisionError:
        raise BadInput(call.operator.name, [f"the rule '{rule.name}' divides by 0"]) from None


@functools.lru_cache(maxsize=256)
def kernel_of(call: Call, chip: Chip) -> Kernel:
    """Return the recorded kernel of the first variant that fits on chip at the smallest tiles, or of the last variant.

    Global memory has no say: the vendor's host code does not ask for its size.
    """
    *preferred, last = call.operator.variants(call, chip)
    env = call.env
    for variant in preferred:
        kernel = call.operator.record(call, chip, variant)
        if all(i.holds(env) for i in _inequalities(kernel, chip) if i.memory != GLOBAL):
            return kernel
    return call.operator.record(call, chip, last)


def limits_of(call: Call, chip: Chip) -> Sequence[Inequality]:
    """Return the inequalities of a call's kernel; none if the operator does not exist for the chip and dtype."""
    return _inequalities(kernel_of(call, chip), chip) if exists(call, chip) else ()


def exists(call: Call, chip: Chip) -> bool:
    """Return True if the operator has a kernel for the chip and the dtype."""
    return call.dtype in call.operator.dtypes.get(chip.family, ())


def evaluated_inequalities(call: Call, chip: Chip) -> list[EvaluatedInequality]:
    """Return every inequality at the sizes of a call; none if a size is not known or below its least.

    An empty axis counts as one of 1, since documents require the same capacity for it.
    """
    if not call.complete:
        return []
    nonempty = nonempty_call(call)
    env = nonempty.env
    return [EvaluatedInequality(i, i.left_bytes(env), i.right_bytes(env)) for i in limits_of(nonempty, chip)]


def undecided(call: Call, chip: Chip) -> list[str]:
    """Return a line for every size that a verdict on a call needs; none if the call breaks a rule without them."""
    unknown = unknown_sizes(call)
    return unknown if unknown and all(finding.ok for finding in findings(call, chip)) else []


def passes(call: Call, chip: Chip) -> bool:
    """Return True if every size is known and every rule and every inequality holds."""
    return obeys(call, chip) and fits(call, chip)


def obeys(call: Call, chip: Chip, *, without: Collection[str] = ()) -> bool:
    """Return True if every size is known and every rule holds, except those whose names are in `without`."""
    if len(call.dims) < len(call.operator.dims):
        return False
    try:
        return all(rule.name in without or finding_of(rule, call, chip).ok for rule in rules_of(call.operator))
    except BadInput:  # a size that follows from others has no value
        return False


def fits(call: Call, chip: Chip) -> bool:
    """Return True if every inequality holds."""
    try:
        return all(b.slack_bytes >= 0 for b in evaluated_inequalities(call, chip))
    except BadInput:
        return False


def of_memories(evaluated: Iterable[EvaluatedInequality]) -> list[EvaluatedInequality]:
    """Return the inequalities of memories, without those of pools, which a kernel may fill to the last byte."""
    memories = {GLOBAL, *(memory for of_kind in SPACES.values() for memory in of_kind)}
    return [b for b in evaluated if b.memory in memories]


@functools.lru_cache(maxsize=256)
def _inequalities(kernel: Kernel, chip: Chip) -> tuple[Inequality, ...]:
    return tuple(inequalities(kernel, chip))
