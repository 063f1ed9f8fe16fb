"""What would pass: the largest value of each dim, and changes that turn a no into a yes. Every one has been checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_shipped, load_chip
from tilesim.errors import BadChip
from tilesim.feasibility.evaluate import exists, kernel_of, limits_of, passes
from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.operators.calls import nonempty_call, resized, retensored
from tilesim.operators.operator import Call, Dimension, Finding
from tilesim.operators.rules import rules_of
from tilesim.operators.shapes import TensorSpec
from tilesim.program.recorder import Kernel
from tilesim.program.sizes import Size
from tilesim.program.units import BLOCK_BYTES

UNLIMITED = 2**40
"""A dim that may be this large has no limit that matters."""
UB_MOST_BYTES = 2**24
"""No larger unified buffer is looked for."""
UB_KEY = "memory.ub.size_bytes"


@dataclass(frozen=True)
class Remedy:
    """One change after which the check says yes: other dims or tensors, another chip, or another figure of the chip."""

    text: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """To be given in place of what was: dims to numbers, tensors to TensorSpec or None."""
    chip: str = ""
    override: Mapping[str, int] = field(default_factory=dict)
    """Keys of the chip to values."""

    def __str__(self) -> str:
        """The change in words."""
        return self.text

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        given = {k: str(v) if isinstance(v, TensorSpec) else v for k, v in self.given.items()}
        return {"text": self.text, "given": given, "chip": self.chip or None, "override": dict(self.override)}


def greatest(holds: Callable[[int], bool], start: int, step: int, most: int) -> int | None:
    """The largest start + n * step up to about `most` for which `holds` is true, None if not even `start` is.

    `holds` must not become true again after it became false. `most` itself is returned where nothing stops before it.

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


def largest(call: Call, chip: Chip, dim: Dimension) -> int | None:
    """The largest value of a dim for which the rules and inequalities about it hold, the other dims as they are.

    None if no value is; UNLIMITED if nothing limits it.
    """
    call = nonempty_call(call)
    rules = [rule for rule in rules_of(call.operator) if dim.name in rule.over]
    others = {name: value for name, value in call.dims.items() if name != dim.name}
    slacks: dict[Kernel | None, list[Size]] = {}

    def holds(value: int) -> bool:
        changed = resized(call, {dim.name: value})
        kernel = kernel_of(changed, chip) if exists(call, chip) else None
        if kernel not in slacks:  # another size may mean another kernel, with inequalities of its own
            slacks[kernel] = [
                (i.right - i.left).substitute({**i.minimum, **others})
                for i in limits_of(changed, chip)
                if dim.name in i.left.names() | i.right.names()
            ]
        fits = all(slack.bind({dim.name: value}) >= 0 for slack in slacks[kernel])
        return fits and all(rule.apply(changed, chip).ok for rule in rules)

    return greatest(holds, first_of(dim), dim.multiple_of, UNLIMITED)


def first_of(dim: Dimension) -> int:
    """The smallest value that a dim may have, at least 1."""
    least = max(dim.least, 1)
    return -(-least // dim.multiple_of) * dim.multiple_of


def limits(call: Call, chip: Chip) -> dict[str, int | None]:
    """The largest value of every dim that something limits, the other dims as they are; None where no value passes."""
    if len(call.dims) < len(call.operator.dims):
        return {}
    dims = [d for d in call.operator.dims if d.most is None or d.most > d.least]
    found = {d.name: largest(call, chip, d) for d in dims}
    return {name: value for name, value in found.items() if value != UNLIMITED} | tile_limits(call, chip)


def tile_limits(call: Call, chip: Chip) -> dict[str, int | None]:
    """The largest tile that each phase with one tile has room for, by "phase.tile", however long its axis is."""
    found: dict[str, int | None] = {}
    call = nonempty_call(call)
    env = call.env
    for inequality in limits_of(call, chip):
        names = list(inequality.minimum)
        if len(names) != 1 or names[0] not in inequality.left.names():
            continue
        (name,), key = names, f"{inequality.phase}.{names[0]}"
        step = inequality.minimum[name]
        slack = (inequality.right - inequality.left).substitute(env)
        value = greatest(_room(slack, name), step, step, UNLIMITED)
        before = found.get(key)
        found[key] = value if before is None or value is None else min(before, value)
    return found


def _room(slack: Size, tile: str) -> Callable[[int], bool]:
    return lambda elements: bool(slack.bind({tile: elements}) >= 0)


def remedies(call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]) -> list[Remedy]:
    """Every remedy that was found and checked, the smallest change first."""
    found = [
        *_tensors(call, chip, broken),
        *_options(call, chip, broken),
        *_dims(call, chip, broken, failing),
        *_chips(call, chip),
        *_unified_buffer(call, chip, broken, failing),
    ]
    return list({remedy.text: remedy for remedy in found}.values())


def _dims(
    call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]
) -> Iterator[Remedy]:
    """Other values of one dim: the nearest legal ones, the largest among them; of several dims if one is not enough."""
    if len(call.dims) < len(call.operator.dims):
        return
    names = {finding.name for finding in broken}
    over = {n for rule in rules_of(call.operator) if rule.name in names for n in rule.over}
    over |= {n for b in failing for n in b.inequality.left.names() | b.inequality.right.names()}
    nearest: dict[str, int] = {}
    enough = False
    for dim in call.operator.dims:
        if dim.name not in over:
            continue
        given, top = call.dims[dim.name], largest(call, chip, dim)
        if top is None:
            continue
        below = given // dim.multiple_of * dim.multiple_of
        values = sorted({min(max(v, first_of(dim)), top) for v in (below, below + dim.multiple_of)})
        nearest[dim.name] = min(values, key=lambda value, given=given: abs(value - given))  # type: ignore[misc]
        for value in values:
            if value != given and passes(resized(call, {dim.name: value}), chip):
                enough = True
                partners = _partners(call, chip, dim.name)
                rest = f", the largest{' for ' if partners else ''}{partners}" if first_of(dim) < value == top else ""
                yield Remedy(f"{dim.name} = {value}{rest}", {dim.name: value})
    changed = {name: value for name, value in nearest.items() if value != call.dims[name]}
    if not enough and len(changed) > 1 and passes(resized(call, changed), chip):
        yield Remedy(", ".join(f"{name} = {value}" for name, value in changed.items()), changed)


def _partners(call: Call, chip: Chip, name: str) -> str:
    """The other dims that the limit of a dim depends on, with their values."""
    with_it = {n for rule in rules_of(call.operator) if name in rule.over for n in rule.over}
    for inequality in limits_of(nonempty_call(call), chip):
        names = inequality.left.names() | inequality.right.names()
        with_it |= names if name in names else set()
    return ", ".join(f"{n} = {v}" for n, v in call.dims.items() if n in with_it and n != name)


def _tensors(call: Call, chip: Chip, broken: Sequence[Finding]) -> Iterator[Remedy]:
    """The tensors that rules name, with the shapes and dtypes that the others ask for."""
    op = call.operator
    known = op.dtypes.get(chip.family, ())
    mains = [call.dtype] if call.dtype in known else list(known)
    named = {f.parameter for f in broken}
    groups = {op.arguments[n].option for n in named & op.arguments.keys()} - {""}
    names = [t.name for t in op.tensors if t.name in named or (t.option in groups and call.is_null(t.name))]
    for main in mains if names else ():
        change: dict[str, TensorSpec | None] = {}
        for name in names if main == call.dtype else [n for n in op.arguments if call.spec(n)]:
            shape = call.expected(name)
            if shape is not None:
                change[name] = TensorSpec(shape, op.arguments[name].dtype or main)
        changed = {n: spec for n, spec in change.items() if spec != call.spec(n)}
        if changed and passes(retensored(call, changed), chip):
            kinds = all(
                spec and old and spec.shape == old.shape for n, spec in changed.items() for old in [call.spec(n)]
            )
            text = ", ".join(f"{n} = {spec}" for n, spec in changed.items())
            yield Remedy(f"dtype {main}" if kinds and main != call.dtype else text, changed)


def _options(call: Call, chip: Chip, broken: Sequence[Finding]) -> Iterator[Remedy]:
    """Options whose tensors are partly there, left out as a whole."""
    parameters = {finding.parameter for finding in broken}
    for option in call.operator.options:
        members = [t.name for t in call.operator.members(option.name)]
        there = [name for name in members if call.spec(name)]
        if there and parameters & set(members) and passes(retensored(call, dict.fromkeys(members)), chip):
            yield Remedy(f"{option.name} = false: {', '.join(there)} null", dict.fromkeys(members))


def _chips(call: Call, chip: Chip) -> Iterator[Remedy]:
    """The shipped chips that take the call as it is."""
    for name in chips_shipped():
        if name != chip.name and passes(call, _shipped(name)):
            yield Remedy(f"chip {name}", chip=name)


def _unified_buffer(
    call: Call, chip: Chip, broken: Sequence[Finding], failing: Sequence[EvaluatedInequality]
) -> Iterator[Remedy]:
    """The smallest unified buffer that would be enough."""
    if not (failing or any(f.parameter == "platform" and f.status for f in broken)):
        return
    size = chip.memory.ub.size_bytes
    missing = max((-b.slack_bytes for b in failing if b.memory == "ub"), default=0)

    def enough(size_bytes: int) -> bool:
        try:
            return passes(call, chip.override({UB_KEY: size_bytes}))
        except BadChip:
            return False

    guess = size + -(-missing // BLOCK_BYTES) * BLOCK_BYTES
    if not (missing and enough(guess) and not enough(guess - BLOCK_BYTES)):
        start = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        if not enough(UB_MOST_BYTES):
            return
        last = greatest(lambda s: not enough(s), start, BLOCK_BYTES, UB_MOST_BYTES)
        guess = start if last is None else last + BLOCK_BYTES
    if enough(guess):
        yield Remedy(f"{UB_KEY} = {guess}, {guess - size:,} B more", override={UB_KEY: guess})


@functools.cache
def _shipped(name: str) -> Chip:
    return load_chip(name)
