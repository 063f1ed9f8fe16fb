"""Changes after which a check passes. Every remedy was applied and checked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_shipped, load_shipped
from tilesim.errors import BadChip
from tilesim.feasibility.evaluate import fits, limits_of, obeys, of_memories, passes
from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.feasibility.limits import first_of, greatest, size_limit, size_limits
from tilesim.operators.buffer_operator import GRID, BufferOperator, buffer_operator
from tilesim.operators.calls import nonempty_call, resized, retensored
from tilesim.operators.operator import Call, Dimension, Finding
from tilesim.operators.rules import rules_of
from tilesim.operators.shapes import TensorSpec
from tilesim.program.isa import GLOBAL
from tilesim.program.units import BLOCK_BYTES

MOST_BYTES: Final = 2**24
"""Largest size of a memory of one core that the search for a remedy tries [bytes]."""
MOST_GLOBAL_BYTES: Final = 2**50
"""Largest size of global memory that the search tries [bytes]."""


@dataclass(frozen=True)
class Remedy:
    """Change after which the check passes: other dims or tensors, another chip, or another parameter of the chip."""

    text: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """Replacements in the given words: dims to numbers, tensors to TensorSpec or None."""
    chip: str = ""
    override: Mapping[str, int] = field(default_factory=dict)
    """Keys of the chip to values."""

    def __str__(self) -> str:
        """Return the change in words."""
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        given = {k: str(v) if isinstance(v, TensorSpec) else v for k, v in self.given.items()}
        return {"text": self.text, "given": given, "chip": self.chip or None, "override": dict(self.override)}


def remedies(call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]) -> list[Remedy]:
    """Return every remedy that passes its check, the smallest change first."""
    passing = [
        *_tensors(call, chip, broken),
        *_options(call, chip, broken),
        *_dims(call, chip, broken, failing),
        *_products(call, chip, failing),
        *_two_sizes(call, chip),
        *_single_slots(call, chip, failing),
        *_chips(call, chip),
        *_larger_memory(call, chip, broken, failing),
    ]
    return list({remedy.text: remedy for remedy in passing}.values())


def _dims(
    call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]
) -> Iterator[Remedy]:
    """Yield the nearest legal values of one dim, the largest among them; of several dims if one is not enough."""
    if len(call.dims) < len(call.operator.dims):
        return
    names = {finding.name for finding in broken}
    over = {n for rule in rules_of(call.operator) if rule.name in names for n in rule.over}
    over |= {finding.parameter for finding in broken}
    over |= {n for b in failing for n in b.inequality.left.names() | b.inequality.right.names()}
    nearest: dict[str, int] = {}
    enough = False
    for dim in call.operator.dims:
        if dim.name not in over:
            continue
        given, values = call.dims[dim.name], _legal_values(call, chip, dim)
        if not values:
            continue
        nearest[dim.name] = min(values, key=lambda value, given=given: abs(value - given))  # type: ignore[misc]
        for value in values:
            if value != given and passes(resized(call, {dim.name: value}), chip):
                enough = True
                yield Remedy(f"{dim.name} = {value}{_bound_text(call, chip, dim, value)}", {dim.name: value})
    changed = {name: value for name, value in nearest.items() if value != call.dims[name]}
    if not enough and len(changed) > 1 and passes(resized(call, changed), chip):
        yield Remedy(", ".join(f"{name} = {value}" for name, value in changed.items()), changed)


def _products(call: Call, chip: Chip, failing: Sequence[EvaluatedInequality]) -> Iterator[Remedy]:
    """The largest product of two dims, such as the tokens B*S, where global memory depends on the product alone."""
    short = [b for b in failing if b.memory == GLOBAL]
    if not short or len(call.dims) < len(call.operator.dims):
        return
    whole = nonempty_call(call)
    for first, second in itertools.combinations(call.operator.dims, 2):
        sizes = (whole.dims[first.name], whole.dims[second.name])
        product = math.prod(sizes)
        same = [{first.name: a, second.name: b} for a, b in ((1, product), (product, 1))]
        needed = [b.inequality.left_bytes(resized(whole, change).env) for b in short for change in same]
        if 1 in sizes or needed != [b.left_bytes for b in short for _ in same]:
            continue
        top = size_limit(resized(whole, {first.name: 1}), chip, second).largest
        if top and passes(resized(call, {first.name: 1, second.name: top}), chip):
            text = f"{first.name}*{second.name} = {top}, the largest product: {first.name} = 1, {second.name} = {top}"
            yield Remedy(text, {first.name: 1, second.name: top})


def _legal_values(call: Call, chip: Chip, dim: Dimension) -> list[int]:
    """Return the values of a dim next to the given one, below and above, that its limits allow."""
    limit = size_limit(call, chip, dim)
    top = limit.power_of_two if dim.power_of_two and limit.limited else limit.largest
    if limit.limited and top is None:
        return []
    given = limit.given
    if dim.power_of_two:
        below = 1 << (max(given, 1).bit_length() - 1)
        above = 2 * below
    else:
        below = given // dim.multiple_of * dim.multiple_of
        above = below + dim.multiple_of
    bounded = (max(value, limit.least) for value in (below, above))
    return sorted({value if top is None else min(value, top) for value in bounded})


def _bound_text(call: Call, chip: Chip, dim: Dimension, value: int) -> str:
    """Return the words for a value that is the largest or the least of a dim, "" for others."""
    limit = size_limit(call, chip, dim)
    top = limit.power_of_two if dim.power_of_two else limit.largest
    if first_of(dim) < value == top:
        partners = _partners(call, chip, dim.name)
        of_file = isinstance(call.operator, BufferOperator) and limit.power_of_two not in (None, value)
        power = f" ({limit.power_of_two} as a power of two)" if of_file else ""
        return f", the largest{' for ' if partners else ''}{partners}{power}"
    return ", the least" if first_of(dim) < value == limit.least else ""


def _partners(call: Call, chip: Chip, name: str) -> str:
    """Return the other dims that the limit of a dim depends on, with their values."""
    with_it = {n for rule in rules_of(call.operator) if name in rule.over for n in rule.over}
    of_global = size_limit(call, chip, call.operator.dimensions[name]).memory == GLOBAL
    for inequality in limits_of(nonempty_call(call), chip):
        if (inequality.memory == GLOBAL) != of_global:
            continue
        names = inequality.left.names() | inequality.right.names()
        with_it |= names if name in names else set()
    return ", ".join(f"{n} = {v}" for n, v in call.dims.items() if n in with_it and n != name)


def _tensors(call: Call, chip: Chip, broken: Sequence[Finding]) -> Iterator[Remedy]:
    """Yield the tensors that broken rules name, with the shapes and dtypes that the other tensors require."""
    op = call.operator
    supported = op.dtypes.get(chip.family, ())
    dtypes = [call.dtype] if call.dtype in supported else list(supported)
    named = {f.parameter for f in broken}
    groups = {op.arguments[n].option for n in named & op.arguments.keys()} - {""}
    names = [t.name for t in op.tensors if t.name in named or (t.option in groups and call.is_null(t.name))]
    for dtype in dtypes if names else ():
        change: dict[str, TensorSpec | None] = {}
        for name in names if dtype == call.dtype else [n for n in op.arguments if call.spec(n)]:
            shape = call.expected(name)
            if shape is not None:
                change[name] = TensorSpec(shape, op.arguments[name].dtype or dtype)
        changed = {n: spec for n, spec in change.items() if spec != call.spec(n)}
        if changed and passes(retensored(call, changed), chip):
            same_shapes = all(
                spec and old and spec.shape == old.shape for n, spec in changed.items() for old in [call.spec(n)]
            )
            text = ", ".join(f"{n} = {spec}" for n, spec in changed.items())
            yield Remedy(f"dtype {dtype}" if same_shapes and dtype != call.dtype else text, changed)


def _options(call: Call, chip: Chip, broken: Sequence[Finding]) -> Iterator[Remedy]:
    """Yield the omission of each option of which some tensors are given and others are not."""
    parameters = {finding.parameter for finding in broken}
    for option in call.operator.options:
        members = [t.name for t in call.operator.members(option.name)]
        given = [name for name in members if call.spec(name)]
        if given and parameters & set(members) and passes(retensored(call, dict.fromkeys(members)), chip):
            yield Remedy(f"{option.name} = false: {', '.join(given)} null", dict.fromkeys(members))


def _chips(call: Call, chip: Chip) -> Iterator[Remedy]:
    """Yield the shipped chips on which the call passes as it is."""
    for name in chips_shipped():
        other = load_shipped(name)
        if other is not None and name != chip.name and passes(call, other):
            yield Remedy(f"chip {name}", chip=name)


def _larger_memory(
    call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]
) -> Iterator[Remedy]:
    """Yield the smallest sufficient size of the memory that is too small, if it is one memory alone."""
    if not (failing or any(f.parameter == "platform" and f.status for f in broken)):
        return
    short = {b.memory: -b.slack_bytes for b in reversed(of_memories(failing))} or {"ub": 0}
    if len(short) > 1:
        return
    ((memory, missing),) = short.items()
    key, most = f"memory.{memory}.size_bytes", MOST_GLOBAL_BYTES if memory == GLOBAL else MOST_BYTES
    size = chip.memory.capacity(memory).size_bytes

    def enough(size_bytes: int) -> bool:
        try:
            return passes(call, chip.override({key: size_bytes}))
        except BadChip:
            return False

    guess = size + -(-missing // BLOCK_BYTES) * BLOCK_BYTES
    if not (missing and enough(guess) and not enough(guess - BLOCK_BYTES)):
        start = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        if not enough(most):
            return
        last = greatest(lambda s: not enough(s), start, BLOCK_BYTES, most)
        guess = start if last is None else last + BLOCK_BYTES
    if enough(guess):
        yield Remedy(f"{key} = {guess}, {guess - size:,} B more", override={key: guess})


def _two_sizes(call: Call, chip: Chip) -> Iterator[Remedy]:
    """Yield two sizes in place of one of which the grid requires more than the buffers allow."""
    op = call.operator
    grid = next((rule for rule in rules_of(op) if rule.name == GRID), None)
    if not isinstance(op, BufferOperator) or grid is None:
        return
    for dim in op.dims:
        limit = size_limit(call, chip, dim) if dim.name in grid.over else None
        if limit is None or limit.power_of_two is None or limit.largest is None:
            continue
        if limit.least <= (limit.power_of_two if dim.power_of_two else limit.largest):  # one size serves both
            continue
        large, small = max(limit.least, limit.given), limit.power_of_two
        launched, inner = (resized(call, {dim.name: value}) for value in (large, small))
        if obeys(launched, chip) and obeys(inner, chip, without={GRID}) and fits(inner, chip):
            yield Remedy(
                f"two sizes in place of {dim.name}: {large} for the grid ({op.programs(launched.dims):,} programs) and,"
                f" in a loop inside, {small} for the buffers",
                {dim.name: large, f"{dim.name}_SUB": small},
            )


def _single_slots(call: Call, chip: Chip, failing: Sequence[EvaluatedInequality]) -> Iterator[Remedy]:
    """Yield one slot in place of several for the fewest buffers of a file, with the limits of the sizes after that."""
    op = call.operator
    if not isinstance(op, BufferOperator):
        return
    env = call.env
    slots = {buffer: int(buffer.slot_count.bind(env)) for b in failing for buffer, _ in b.inequality.terms}
    several = sorted((b for b, count in slots.items() if count > 1), key=lambda b: -int(b.bytes.bind(env)))
    for count in range(1, len(several) + 1):
        single = buffer_operator(op.file, frozenset(buffer.name for buffer in several[:count]))
        changed = replace(call, operator=single)
        if passes(changed, chip):
            tops = [limit for limit in size_limits(changed, chip) if limit.largest and limit.scaling_bytes]
            then = ", ".join(f"{limit.name} up to {limit.largest}" for limit in tops)
            names = ", ".join(f"{buffer.name} ({slots[buffer]})" for buffer in several[:count])
            yield Remedy(f"one slot in place of several for {names}" + (f"; then {then}" if then else ""))
            return
