"""What the sizes of a file of buffers can be at most, and what would make it fit. Every value and remedy is checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_shipped, load_chip
from tilesim.errors import BadChip, BadInput
from tilesim.feasibility.buffer_needs import Need, Situation, programs_of, rules_of
from tilesim.feasibility.formula import formula
from tilesim.feasibility.remedies import UNLIMITED, Remedy, greatest

MOST_BYTES: Final = 2**24
"""No larger memory is looked for."""
STEP_BYTES: Final = 32
"""Sizes of memories are looked for in blocks."""


@dataclass(frozen=True)
class SizeLimit:
    """What one size can be, the others as they are."""

    name: str
    given: int
    largest: int | None
    """The largest value that fits, in steps of `multiple_of`; None if no value does, or if nothing limits it."""
    limited: bool
    """Whether anything limits it from above."""
    power_of_two: int | None
    """The largest power of two that fits."""
    multiple_of: int
    least: int
    """The least value that bounds and grid allow."""
    memory: str
    """The memory that `fixed_bytes` and `scaling_bytes` are about: the one with the least slack."""
    fixed_bytes: int
    """What does not depend on the size."""
    scaling_bytes: int
    """What does, at the given size."""
    available_bytes: int
    proof: str
    """Why no value fits; "" if one does."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return dataclasses.asdict(self)


def size_limits(situation: Situation, sizes: Mapping[str, int]) -> list[SizeLimit]:
    """What every size that can be given can be."""
    free = {name: size for name, size in situation.file.sizes.items() if size.formula is None}
    return [_limit(situation, sizes, name) for name in free if _used(situation, name)]


def passes(situation: Situation, sizes: Mapping[str, int], *, grid: bool = True, memory: bool = True) -> bool:
    """Whether all bounds hold and all buffers fit at the sizes given; sizes that follow are computed anew."""
    try:
        known = situation.resolved(sizes)
        rules = [rule.ok for rule in rules_of(situation.file, known) if grid or rule.name != "grid"]
        return all(rules) and (not memory or all(need.slack_bytes >= 0 for need in situation.needs(known)))
    except BadInput:
        return False


def buffer_remedies(situation: Situation, sizes: Mapping[str, int], limits: Sequence[SizeLimit]) -> list[Remedy]:
    """Every remedy that was found and checked, the smallest change first."""
    found = [
        *_other_sizes(situation, sizes, limits),
        *_sub_tiles(situation, sizes, limits),
        *_single_slots(situation, sizes),
        *_other_chips(situation, sizes),
        *_larger_memory(situation, sizes),
    ]
    return list({remedy.text: remedy for remedy in found}.values())


def _used(situation: Situation, name: str) -> bool:
    """Whether anything in the file depends on a size."""
    file = situation.file
    texts = [text for buffer in file.buffers.values() for text in buffer.formulas().values()]
    texts += [text for cap in file.caps.values() for text in (cap.of, cap.most, cap.least) if text is not None]
    texts += [file.grid.programs] if file.grid else []
    texts += [size.formula for size in file.sizes.values() if size.formula is not None]
    return any(name in formula(text).names for text in texts)


def _limit(situation: Situation, sizes: Mapping[str, int], name: str) -> SizeLimit:
    size = situation.file.sizes[name]
    step = size.multiple_of
    start = -(-max(size.least, 1) // step) * step

    # A size that makes the grid smaller, such as a block, has a least value for it and no largest.
    grid = passes(situation, {**sizes, name: start}, memory=False)

    def fits(value: int) -> bool:
        return _fits_plainly(situation, {**sizes, name: value}, name, grid=grid)

    top = greatest(fits, start, step, UNLIMITED)
    limited = top is None or top < UNLIMITED
    largest = top if limited else None
    need = _tightest(situation, sizes)
    fixed = _fixed_bytes(situation, sizes, name, need) if need else 0
    needed = need.needed_bytes if need else 0
    available = need.available_bytes if need else 0
    return SizeLimit(
        name=name,
        given=sizes[name],
        largest=largest,
        limited=limited,
        power_of_two=_power(situation, sizes, name, largest) if largest else None,
        multiple_of=step,
        least=_least(situation, sizes, name, start),
        memory=need.memory if need else "",
        fixed_bytes=fixed,
        scaling_bytes=needed - fixed,
        available_bytes=available,
        proof=_proof(situation, sizes, name, start, fixed) if top is None else "",
    )


def _fits_plainly(situation: Situation, sizes: Mapping[str, int], name: str, *, grid: bool) -> bool:
    """Whether it fits but for the bound that a size is a power of two, which is about what can be given."""
    ignored = {f"{name} power of two"} | ({"grid"} if not grid else set())
    try:
        known = situation.resolved(sizes)
        wrong = [rule for rule in rules_of(situation.file, known) if not rule.ok and rule.name not in ignored]
        return not wrong and all(need.slack_bytes >= 0 for need in situation.needs(known))
    except BadInput:
        return False


def _power(situation: Situation, sizes: Mapping[str, int], name: str, largest: int) -> int | None:
    """The largest power of two that fits."""
    value = 1 << (largest.bit_length() - 1)
    return value if passes(situation, {**sizes, name: value}, grid=False) else None


def _least(situation: Situation, sizes: Mapping[str, int], name: str, start: int) -> int:
    """The least value that bounds and grid allow; `start` if none does."""
    size = situation.file.sizes[name]

    def too_small(value: int) -> bool:
        return not passes(situation, {**sizes, name: value}, memory=False)

    if size.power_of_two:
        return next((2**i for i in range(41) if 2**i >= start and not too_small(2**i)), start)
    last = greatest(too_small, start, size.multiple_of, UNLIMITED)
    return start if last is None or last >= UNLIMITED else last + size.multiple_of


def _tightest(situation: Situation, sizes: Mapping[str, int]) -> Need | None:
    return min(situation.needs(sizes), key=lambda need: need.slack_bytes, default=None)


def _fixed_bytes(situation: Situation, sizes: Mapping[str, int], name: str, need: Need) -> int:
    """Bytes of a need that are left as a size goes to nothing."""
    for value in (0, max(situation.file.sizes[name].least, 1)):
        try:
            smaller = situation.needs(situation.resolved({**sizes, name: value}))
        except BadInput:
            continue
        same = [n.needed_bytes for n in smaller if (n.phase, n.memory) == (need.phase, need.memory)]
        return same[0] if same else 0
    return need.needed_bytes


def _proof(situation: Situation, sizes: Mapping[str, int], name: str, start: int, fixed: int) -> str:
    """Why no value of a size fits."""
    try:
        known = situation.resolved({**sizes, name: start})
        worst = min(situation.needs(known), key=lambda need: need.slack_bytes, default=None)
        broken = [str(rule) for rule in rules_of(situation.file, known) if not rule.ok and rule.name != "grid"]
    except BadInput as error:
        return f"no {name} fits: {error}"
    if worst is None or worst.slack_bytes >= 0:
        return f"no {name} is allowed: {'; '.join(broken)}" if broken else ""
    where = f"{worst.available_bytes:,} B of {worst.memory}"
    if fixed > worst.available_bytes:
        return f"no {name} fits: what does not depend on it is {fixed:,} B alone, more than {where}"
    return f"no {name} fits: even {name} = {start:,} needs {worst.needed_bytes:,} B, more than {where}"


def _other_sizes(situation: Situation, sizes: Mapping[str, int], limits: Sequence[SizeLimit]) -> Iterator[Remedy]:
    """One size that is smaller, or larger where the grid asks for it."""
    for limit in limits:
        size = situation.file.sizes[limit.name]
        top = limit.power_of_two if size.power_of_two else limit.largest
        smaller = top is not None and limit.given > top
        value = top if smaller else limit.least if limit.given < limit.least else None
        if value is None or not passes(situation, {**sizes, limit.name: value}):
            continue
        word = "the largest" if smaller else "the least"
        power = limit.power_of_two
        also = f" ({power:,} as a power of two)" if smaller and power and power != value else ""
        yield Remedy(f"{limit.name} = {value:,}, {word}{also}", {limit.name: value})


def _sub_tiles(situation: Situation, sizes: Mapping[str, int], limits: Sequence[SizeLimit]) -> Iterator[Remedy]:
    """Two sizes in place of one that the grid wants larger than the buffers allow."""
    grid = situation.file.grid
    for limit in limits:
        size = situation.file.sizes[limit.name]
        most = limit.power_of_two if size.power_of_two else limit.largest
        top = limit.power_of_two or most
        if grid is None or most is None or top is None or limit.name not in _names_of_grid(situation):
            continue
        if limit.least <= most:  # one size can be both
            continue
        block = max(limit.least, limit.given)
        if passes(situation, {**sizes, limit.name: block}, memory=False) and passes(
            situation, {**sizes, limit.name: top}, grid=False
        ):
            count = programs_of(situation.file, situation.resolved({**sizes, limit.name: block}))
            yield Remedy(
                f"two sizes in place of {limit.name}: {block:,} for the grid ({count:,} programs) and, in a loop"
                f" inside, {top:,} for the buffers",
                {limit.name: block, f"{limit.name}_SUB": top},
            )


def _names_of_grid(situation: Situation) -> frozenset[str]:
    """The sizes that the number of programs depends on."""
    file = situation.file
    found = set(formula(file.grid.programs).names) if file.grid else set()
    for name, size in reversed(file.sizes.items()):
        if name in found and size.formula is not None:
            found |= formula(size.formula).names
    return frozenset(found)


def _single_slots(situation: Situation, sizes: Mapping[str, int]) -> Iterator[Remedy]:
    """One slot in place of several, of as few buffers as it takes, and how large sizes can be then."""
    pieces = sorted((p for p in situation.pieces(sizes) if p.slots > 1), key=lambda piece: -piece.bytes)
    if not pieces or passes(situation, sizes):
        return
    for count in range(1, len(pieces) + 1):
        names = [piece.name for piece in pieces[:count]]
        single = dataclasses.replace(situation, single=frozenset(names))
        if not passes(single, sizes):
            continue
        tops = [limit for limit in size_limits(single, sizes) if limit.largest and limit.scaling_bytes]
        then = ", ".join(f"{limit.name} up to {limit.largest:,}" for limit in tops)
        slots = ", ".join(f"{piece.name} ({piece.slots})" for piece in pieces[:count])
        yield Remedy(f"one slot in place of several for {slots}" + (f"; then {then}" if then else ""))
        return


def _other_chips(situation: Situation, sizes: Mapping[str, int]) -> Iterator[Remedy]:
    """The shipped chips that take it as it is."""
    for name in chips_shipped():
        if name != situation.chip.name and passes(dataclasses.replace(situation, chip=_shipped(name)), sizes):
            yield Remedy(f"chip {name}", chip=name)


def _larger_memory(situation: Situation, sizes: Mapping[str, int]) -> Iterator[Remedy]:
    """The smallest size of the memory that is too small, if it is only one."""
    short = {need.memory for need in situation.needs(sizes) if need.slack_bytes < 0}
    if len(short) != 1:
        return
    (memory,) = short
    key = f"memory.{memory}.size_bytes"
    now = situation.chip.memory.on_chip(memory).size_bytes

    def too_small(size_bytes: int) -> bool:
        try:
            chip = situation.chip.override({key: size_bytes})
        except BadChip:
            return True
        return not passes(dataclasses.replace(situation, chip=chip), sizes)

    start = -(-now // STEP_BYTES) * STEP_BYTES
    last = greatest(too_small, start, STEP_BYTES, MOST_BYTES)
    found = start if last is None else last + STEP_BYTES
    if found < MOST_BYTES and not too_small(found):
        yield Remedy(f"{key} = {found}, {found - now:,} B more", override={key: found})


@functools.cache
def _shipped(name: str) -> Chip:
    return load_chip(name)
