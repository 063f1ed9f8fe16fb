"""Limits of each size and each tile with the others as they are, and the bytes of a memory that depend on it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput
from tilesim.feasibility.evaluate import (
    evaluated_inequalities,
    exists,
    finding_of,
    fits,
    kernel_of,
    limits_of,
    obeys,
    of_memories,
)
from tilesim.feasibility.inequalities import EvaluatedInequality, Inequality
from tilesim.operators.buffer_operator import GRID, power_rule
from tilesim.operators.calls import nonempty_call, resized
from tilesim.operators.conditions import AllOf, AnyOf, Condition, Known, Not
from tilesim.operators.operator import Call, Dimension, Rule
from tilesim.operators.rules import rules_of
from tilesim.program.recorder import Kernel
from tilesim.program.sizes import Env, Size

UNLIMITED: Final = 2**40
"""Size from which on a limit does not count as one."""


@dataclass(frozen=True)
class SizeLimit:
    """Limits of a dim, or of a tile as "phase.tile", with the others as they are."""

    name: str
    given: int
    largest: int | None
    """Largest value that fits, in steps of `multiple_of`; None if no value does, or if nothing limits it."""
    limited: bool
    """True if a rule or an inequality limits it from above."""
    power_of_two: int | None
    """Largest power of two that fits."""
    multiple_of: int
    least: int
    """Least value that the rules allow."""
    memory: str
    """Memory of the byte counts: the one with the least slack, if possible of those that depend on the size."""
    fixed_bytes: int
    """Bytes that do not depend on the size."""
    scaling_bytes: int
    """Bytes that depend on the size, at the given value."""
    available_bytes: int
    proof: str = ""
    """Reason why no value fits; "" if one does."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return dataclasses.asdict(self)


def greatest(holds: Callable[[int], bool], start: int, step: int, most: int) -> int | None:
    """Return the largest start + n * step up to about `most` for which `holds` is true, None if `start` is not.

    `holds` stays false once it is false. Return `most` itself if `holds` is true up to it.

    >>> greatest(lambda h: 13 * h <= 62432, 16, 16, 2**40)
    4800
    """
    if not holds(start):
        return None
    width = 1
    while holds(start + width * step):
        width *= 2
        if start + width * step > most:
            return most
    low, high = width // 2, width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(start + middle * step) else (low, middle)
    return start + low * step


def first_of(dim: Dimension) -> int:
    """Return the smallest value that a dim may have, at least 1."""
    least = max(dim.least, 1)
    return -(-least // dim.multiple_of) * dim.multiple_of


def largest(call: Call, chip: Chip, dim: Dimension) -> int | None:
    """Return the largest value of a dim for which the rules and inequalities on it hold, the others as they are.

    None if no value does; UNLIMITED if nothing limits it. A grid that is too large for the first value of the dim
    becomes smaller as the dim grows, so it limits the dim from below only.
    """
    call = nonempty_call(call)
    first = resized(call, {dim.name: first_of(dim)})
    rules = [rule for rule in _rules_over(call, dim) if rule.name != GRID or obeys_all([rule], first, chip)]
    of_kernels: dict[Kernel | None, list[Inequality]] = {}

    def holds(value: int) -> bool:
        changed = resized(call, {dim.name: value})
        if not _has_sizes(changed):
            return False
        kernel = kernel_of(changed, chip) if exists(call, chip) else None
        if kernel not in of_kernels:  # another size may select another kernel, which has other inequalities
            of_kernels[kernel] = [i for i in limits_of(changed, chip) if depends(i, changed, dim)]
        env = changed.env
        return all(i.holds(env) for i in of_kernels[kernel]) and obeys_all(rules, changed, chip)

    return greatest(holds, _least(call, chip, dim, rules), dim.multiple_of, UNLIMITED)


def depends(inequality: Inequality, call: Call, dim: Dimension) -> bool:
    """Whether a dim, or a size that follows from dims, is in an inequality."""
    names = inequality.left.names() | inequality.right.names()
    return dim.name in names or not names.isdisjoint(call.env.keys() - call.dims.keys() - call.attributes.keys())


def size_limits(call: Call, chip: Chip) -> tuple[SizeLimit, ...]:
    """Return the limits of every dim whose range has more than one value, then those of the tiles."""
    if len(call.dims) < len(call.operator.dims):
        return ()
    dims = [d for d in call.operator.dims if d.most is None or d.most > d.least]
    return (*(size_limit(call, chip, dim) for dim in dims), *tile_limits(call, chip))


def tile_limits(call: Call, chip: Chip) -> Iterator[SizeLimit]:
    """Yield the limit of the tile of each phase with one tile, however long its axis is."""
    call = nonempty_call(call)
    by_name: dict[str, SizeLimit] = {}
    for inequality in limits_of(call, chip):
        names = list(inequality.minimum)
        if len(names) != 1 or names[0] not in inequality.left.names():
            continue
        ((tile, step),) = inequality.minimum.items()
        name = f"{inequality.phase}.{tile}"
        slack = (inequality.right - inequality.left).substitute(call.env)
        top = greatest(_room(slack, tile), step, step, UNLIMITED)
        known = by_name.get(name)
        if known is not None and (known.largest is None or (top is not None and top >= known.largest)):
            continue
        left, right = inequality.left_bytes(call.env), inequality.right_bytes(call.env)
        fixed = _bytes_without(inequality, call.env, tile, step)
        by_name[name] = SizeLimit(
            name=name,
            given=step,
            largest=top,
            limited=top != UNLIMITED,
            power_of_two=_power_within(top, step),
            multiple_of=step,
            least=step,
            memory=inequality.memory,
            fixed_bytes=fixed,
            scaling_bytes=left - fixed,
            available_bytes=right,
        )
    yield from by_name.values()


@functools.lru_cache(maxsize=64)
def size_limit(call: Call, chip: Chip, dim: Dimension) -> SizeLimit:
    """Return the limits of one dim."""
    given, call = call.dims[dim.name], nonempty_call(call)
    evaluated = of_memories(evaluated_inequalities(call, chip))
    dependent = [b for b in evaluated if depends(b.inequality, call, dim)]
    tightest = min(dependent or evaluated, key=_slack, default=None)
    top = largest(call, chip, dim)
    limited = top != UNLIMITED
    power = _power_within(top, 1) if limited else None
    if power is not None and not _passes_but_grid(resized(call, {dim.name: power}), chip):
        power = None
    fixed = _bytes_without(tightest.inequality, call.env, dim.name, first_of(dim)) if tightest else 0
    return SizeLimit(
        name=dim.name,
        given=given,
        largest=top if limited else None,
        limited=limited,
        power_of_two=power,
        multiple_of=dim.multiple_of,
        least=_least(call, chip, dim, _rules_over(call, dim)),
        memory=tightest.memory if tightest else "",
        fixed_bytes=fixed,
        scaling_bytes=tightest.left_bytes - fixed if tightest else 0,
        available_bytes=tightest.right_bytes if tightest else 0,
        proof=_proof(call, chip, dim, fixed) if top is None else "",
    )


def obeys_all(rules: Sequence[Rule], call: Call, chip: Chip) -> bool:
    """Return True if all of `rules` hold."""
    try:
        return all(finding_of(rule, call, chip).ok for rule in rules)
    except BadInput:  # a size that follows from others has no value
        return False


def _slack(b: EvaluatedInequality) -> int:
    return b.slack_bytes


def _rules_over(call: Call, dim: Dimension, without: Collection[str] = ()) -> list[Rule]:
    """Return the rules that limit a dim from above or below, without the one that it is a power of two."""
    excluded = {power_rule(dim), *without}
    return [rule for rule in rules_of(call.operator) if dim.name in rule.over and rule.name not in excluded]


def _has_sizes(call: Call) -> bool:
    """Return True if every size that follows from the dims has a value."""
    try:
        call.operator.derived_sizes(call.dims)
    except BadInput:
        return False
    return True


def _room(slack: Size, tile: str) -> Callable[[int], bool]:
    return lambda elements: bool(slack.bind({tile: elements}) >= 0)


def _power_within(top: int | None, step: int) -> int | None:
    """Return the largest power of two that is a multiple of `step` and at most `top`."""
    power = 1 << (top.bit_length() - 1) if top else 0
    return power if power and power % step == 0 else None


def _passes_but_grid(call: Call, chip: Chip) -> bool:
    return obeys(call, chip, without={GRID}) and fits(call, chip)


def _least(call: Call, chip: Chip, dim: Dimension, rules: Sequence[Rule]) -> int:
    """Return the least value of a dim that some rules allow; the first if they allow none."""
    first = first_of(dim)

    def refused(value: int) -> bool:
        return not obeys_all(rules, resized(call, {dim.name: value}), chip)

    if dim.power_of_two:
        powers = (1 << i for i in range(UNLIMITED.bit_length()))
        return next((power for power in powers if power >= first and not refused(power)), first)
    if not refused(first):
        return first
    least = first
    for term in (term for rule in rules for term in _terms(rule.condition)):
        last = greatest(_breaks(term, call, chip, dim), first, dim.multiple_of, UNLIMITED)
        if last is not None and last < UNLIMITED:
            least = max(least, last + dim.multiple_of)
    return first if refused(least) else least


def _terms(condition: Condition) -> Iterator[Condition]:
    """Yield the conditions that must all hold where every size is known, each a bound from one side if it can be."""
    terms = condition.terms if isinstance(condition, AllOf | AnyOf) else ()
    known = [term for term in terms if not (isinstance(term, Not) and isinstance(term.term, Known))]
    if isinstance(condition, AllOf) or len(known) == 1:
        for term in known:
            yield from _terms(term)
    else:
        yield condition


def _breaks(condition: Condition, call: Call, chip: Chip, dim: Dimension) -> Callable[[int], bool]:
    """Return whether a value of a dim breaks a condition, as a function of the value."""

    def broken(value: int) -> bool:
        try:
            return not condition.holds(resized(call, {dim.name: value}).facts(chip))
        except (BadInput, ZeroDivisionError):
            return True

    return broken


def _bytes_without(inequality: Inequality, env: Env, name: str, first: int) -> int:
    """Return the bytes that remain as a size goes to 0, or to its first value if bytes are divided by it."""
    for value in (0, first):
        with contextlib.suppress(ZeroDivisionError):
            return inequality.left_bytes({**env, name: value})
    return inequality.left_bytes(env)


def _proof(call: Call, chip: Chip, dim: Dimension, fixed: int) -> str:
    """Return the reason why no value of a dim fits."""
    first = resized(call, {dim.name: first_of(dim)})
    try:
        worst = min(of_memories(evaluated_inequalities(first, chip)), key=_slack, default=None)
        broken = [str(f) for rule in _rules_over(call, dim, {GRID}) if not (f := finding_of(rule, first, chip)).ok]
    except BadInput as error:
        return f"no {dim.name} fits: {error}"
    if worst is None or worst.slack_bytes >= 0:
        return f"no {dim.name} is allowed: {'; '.join(broken)}" if broken else ""
    available = f"{worst.right_bytes:,} B of {worst.memory}"
    if fixed > worst.right_bytes:
        return f"no {dim.name} fits: the bytes that do not depend on it are {fixed:,} B, more than {available}"
    return (
        f"no {dim.name} fits: even {dim.name} = {first_of(dim):,} needs {worst.left_bytes:,} B, more than {available}"
    )
