"""A phase with its sizes known: the tiles of every loop, as runs of equal iterations, for one core.

The schedule, the counts and the executor all read the same segments, so that they cannot disagree about a tail.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from tilesim.program.recorder import Instr, Loop, Phase, walk
from tilesim.program.sizes import Variable

Sizes = Mapping[str, Any]
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of `times` tiles of `size` elements, the first at `start`, each `step` after the one before.

    `after` and `before` are the elements of the halo that the axis has on each side.
    """

    start: int
    size: int
    times: int
    step: int
    after: int = 0
    before: int = 0


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Step:
    """One instruction with the sizes of the loops around it."""

    instr: Instr
    sizes: Sizes


def cached_per_step(function: Callable[[Step, *Ts], T]) -> Callable[[Step, *Ts], T]:
    """Return the function with a cache of its results that lives as long as each step: a nest is priced many times."""
    cache: WeakKeyDictionary[Step, dict[tuple[*Ts], T]] = WeakKeyDictionary()

    @functools.wraps(function)
    def get(step: Step, *more: *Ts) -> T:
        results = cache.setdefault(step, {})
        if more not in results:
            results[more] = function(step, *more)
        return results[more]

    return get


@dataclass(frozen=True, eq=False, slots=True)
class TileRun:
    """A body repeated; equal bodies are the same object."""

    times: int
    body: tuple[Step | TileRun, ...]
    loop: Loop


Nest = tuple[Step | TileRun, ...]


def share(loop: Loop, sizes: Sizes, parts: int, part: int) -> tuple[int, int]:
    """Return (start, count) [elements] of share `part` of `parts` of the axis; count 0 for a share without elements."""
    extent, unit = loop.extent.bind(sizes), loop.unit.bind(sizes)
    if not loop.split:
        return 0, extent
    units = -(-extent // unit)
    if loop.split == "block":
        each = -(-units // parts)
        first, count = part * each, each
    elif loop.split == "block_floor":
        each = units // parts
        first, count = part * each, each if part < parts - 1 else units - part * each
    else:
        each, more = divmod(units, parts)
        first, count = part * each + min(part, more), each + (part < more)
    start = min(first * unit, extent)
    return start, min(count * unit, extent - start)


def segments(loop: Loop, sizes: Sizes, parts: int = 1, part: int = 0) -> list[Segment]:
    """Return the tiles of one share of a loop that is not cyclic, in order, as runs of equal tiles."""
    tile = loop.tile.bind(sizes)
    start, count = share(loop, sizes, parts, part)
    if count <= 0:
        return []
    if loop.even:
        trips = -(-count // tile)
        small, more = divmod(count, trips)
        runs = [Segment(start, small + 1, more, small + 1)] if more else []
        runs.append(Segment(start + more * (small + 1), small, trips - more, small))
    else:
        full, tail = divmod(count, tile)
        runs = [Segment(start, tile, full, tile)] if full else []
        if tail:
            runs.append(Segment(start + full * tile, tail, 1, tile))
    return _with_halo(runs, loop, loop.extent.bind(sizes)) if loop.halo or loop.lead else runs


@dataclass(frozen=True, slots=True)
class Place:
    """One tile: its start, size and halo [elements], its number along the axis and its row."""

    start: int
    size: int
    after: int = 0
    before: int = 0
    index: int = 0
    row: int = 0
    rows: int = 1


def bound(loop: Loop, place: Place) -> dict[str, int]:
    """The variables of a loop at one of its tiles."""
    values = (place.start, place.size, place.after, place.before, place.index, place.row, place.rows)
    return dict(zip(loop.variables, values, strict=True))


def tiles(loop: Loop, sizes: Sizes, parts: int = 1, part: int = 0) -> Iterator[Place]:
    """Yield every tile of one share of a loop, in order."""
    tile = loop.tile.bind(sizes)
    if loop.split == "cyclic":
        extent, each = loop.extent.bind(sizes), loop.trips(sizes)
        rows, strip = loop.rows.bind(sizes), loop.strip.bind(sizes)
        for k in range(part, loop.tiles(sizes), parts):
            number, index = divmod(k, each)
            row = number * strip
            yield Place(index * tile, min(tile, extent - index * tile), 0, 0, index, row, min(strip, rows - row))
        return
    number = -1
    for s in segments(loop, sizes, parts, part):
        for i in range(s.times):
            start, number = s.start + i * s.step, number + 1
            yield Place(start, s.size, s.after, s.before, number if loop.even else start // tile)


Kinds = tuple["tuple[int, int, int, int, int] | tuple[int, Kinds]", ...]
"""Runs of equal tiles: (times, size, after, before, rows), or (times, runs) for a pattern that repeats."""


def runs(loop: Loop, sizes: Sizes, parts: int = 1, part: int = 0) -> Kinds:
    """Return the tiles of one share of a loop by their sizes alone."""
    if loop.split != "cyclic":
        return tuple((s.times, s.size, s.after, s.before, 1) for s in segments(loop, sizes, parts, part))
    each = loop.trips(sizes)
    tile = loop.tile.bind(sizes)
    tail = loop.extent.bind(sizes) % tile
    strip = loop.strip.bind(sizes)
    strips, low = divmod(loop.rows.bind(sizes), strip)
    high = _dealt(strips * each, strip, each, tile, tail, parts, part)
    return (*high, *_dealt(each, low, each, tile, tail, parts, (part - strips * each) % parts)) if low else high


def _dealt(tiles: int, rows: int, each: int, tile: int, tail: int, parts: int, part: int) -> Kinds:
    """A share of `tiles` tiles of `rows` rows, dealt from core 0 on; of the `each` of a row the last one is `tail`."""
    count = len(range(part, tiles, parts))
    if not tail:
        return ((count, tile, 0, 0, rows),) if count else ()
    period = each // math.gcd(each, parts)
    common = math.gcd(each, parts)
    missing = each - 1 - part
    first = None if missing % common else missing // common * pow(parts // common, -1, period) % period
    if first is None:
        return ((count, tile, 0, 0, rows),) if count else ()

    def word(length: int) -> Kinds:
        if length <= first:
            return ((length, tile, 0, 0, rows),) if length else ()
        kinds = ((first, tile, 0, 0, rows), (1, tail, 0, 0, rows), (length - first - 1, tile, 0, 0, rows))
        return tuple(k for k in kinds if k[0])

    periods, remainder = divmod(count, period)
    return (*(((periods, word(period)),) if periods else ()), *word(remainder))


def _with_halo(runs_of_tiles: list[Segment], loop: Loop, extent: int) -> list[Segment]:
    """Return the segments cut where the halo leaves the axis, at its beginning and end."""
    out: list[Segment] = []
    for s in runs_of_tiles:
        first = min(s.times, max(0, -(-(loop.lead - s.start) // s.step)))
        last = max(first, min(s.times, (extent - loop.halo - s.size - s.start) // s.step + 1))
        for i in (*range(first), *((first,) if last > first else ()), *range(last, s.times)):
            start = s.start + i * s.step
            after, before = min(loop.halo, extent - start - s.size), min(loop.lead, start)
            out.append(Segment(start, s.size, last - first if first <= i < last else 1, s.step, after, before))
    return out


def split_loops(phase: Phase) -> list[tuple[Loop, tuple[Loop, ...]]]:
    """Return the loops of a phase that are split over cores, each with the split loops around it."""
    splits: list[tuple[Loop, tuple[Loop, ...]]] = []

    def visit(body: Sequence[Instr | Loop], around: tuple[Loop, ...]) -> None:
        for node in body:
            if isinstance(node, Loop):
                if node.split:
                    splits.append((node, around))
                visit(node.body, (*around, node) if node.split else around)

    visit(phase.body, ())
    return splits


@dataclass(frozen=True, slots=True)
class Cut:
    """The distribution of a split loop: core c of the first `cores` runs share (c // `below`) mod `parts`."""

    loop: Loop
    parts: int
    below: int
    cores: int

    def part(self, core: int) -> int:
        """Return the share of a core; -1 if it runs none of the loop."""
        return (core // self.below) % self.parts if core < self.cores else -1


def cuts(phase: Phase, sizes: Sizes) -> list[Cut]:
    """Return the cuts of a phase's split loops: nested loops make a grid of cores, in row-major order."""
    splits = split_loops(phase)
    parts = {loop: int(loop.parts.bind(sizes)) for loop, _ in splits}
    out = []
    for loop, around in splits:
        below = math.prod(parts[other] for other, outer in splits if loop in outer)
        out.append(Cut(loop, parts[loop], below, parts[loop] * below * math.prod(parts[o] for o in around)))
    return out


Parts = Mapping[Loop, tuple[int, int]]
"""Shares of one core: (parts, part) of every split loop."""


def parts_of(phase: Phase, sizes: Sizes, core: int) -> Parts:
    """Return the shares of a core."""
    return {cut.loop: (cut.parts, cut.part(core)) for cut in cuts(phase, sizes)}


class Nests:
    """The nests of a phase's cores, which share equal bodies."""

    def __init__(self, phase: Phase, sizes: Sizes) -> None:
        self.phase = phase
        self.sizes = dict(sizes)
        self._bodies: dict[tuple[Any, ...], Nest] = {}
        self._inside = {loop: _inside(loop) for loop in phase.loops()}

    def core(self, core: int) -> Nest:
        """Return the nest of one core."""
        return self._nest(self.phase.body, self.sizes, (), parts_of(self.phase, self.sizes, core))

    def distinct(self, cores: int) -> list[tuple[Nest, int, int]]:
        """Return (nest, first core, number of cores) of every distinct share of the phase."""
        cut = cuts(self.phase, self.sizes)
        kinds = {c.loop: {p: self._kind(c, p) for p in range(-1, c.parts)} for c in cut}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for core in range(cores):
            groups.setdefault(tuple(kinds[c.loop][c.part(core)] for c in cut), []).append(core)
        out = []
        for members in groups.values():
            parts = {c.loop: (c.parts, c.part(members[0])) for c in cut}
            out.append((self._nest(self.phase.body, self.sizes, (), parts), members[0], len(members)))
        return out

    def _kind(self, cut: Cut, part: int) -> Kinds:
        return runs(cut.loop, self.sizes, cut.parts, part) if part >= 0 else ()

    def _nest(
        self,
        body: Sequence[Instr | Loop],
        sizes: Sizes,
        key: tuple[Any, ...],
        parts: Parts,
    ) -> Nest:
        out: list[Step | TileRun] = []
        for node in body:
            if isinstance(node, Instr):
                if all(s.bind(sizes) > 0 for s in node.dst.shape):
                    out.append(Step(node, sizes))
                continue
            count, part = parts.get(node, (1, 0))
            if part >= 0:
                out += self._runs(node, runs(node, sizes, count, part), sizes, key, parts)
        return tuple(out)

    def _runs(self, loop: Loop, kinds: Kinds, sizes: Sizes, key: tuple[Any, ...], parts: Parts) -> list[TileRun]:
        out = []
        for kind in kinds:
            if len(kind) == 2:  # a pattern that repeats
                times, pattern = kind
                out.append(TileRun(times, self._pattern(loop, pattern, sizes, key, parts), loop))
            else:
                times, *tile = kind
                out.append(TileRun(times, self._body(loop, tuple(tile), sizes, key, parts), loop))
        return out

    def _pattern(self, loop: Loop, kinds: Kinds, sizes: Sizes, key: tuple[Any, ...], parts: Parts) -> Nest:
        name = (*key, loop, kinds)
        if name not in self._bodies:
            self._bodies[name] = tuple(self._runs(loop, kinds, sizes, key, parts))
        return self._bodies[name]

    def _body(self, loop: Loop, tile: tuple[int, ...], sizes: Sizes, key: tuple[Any, ...], parts: Parts) -> Nest:
        inner = tuple((other, parts[other]) for other in parts if other in self._inside[loop])
        name = (*key, loop, tile, inner)
        if name not in self._bodies:
            _, size, after, before, _, _, rows = loop.variables
            known: dict[str, int] = dict(zip((size, after, before, rows), tile, strict=True))
            inside = {**sizes, **known, Variable(loop.name, "step"): _step(loop, sizes)}
            self._bodies[name] = self._nest(loop.body, inside, name, parts)
        return self._bodies[name]


def _step(loop: Loop, sizes: Sizes) -> int:
    """Return a divisor of the starts of a loop's tiles [elements]; shares of cores start at units."""
    if loop.even or loop.halo or loop.lead:
        return 1
    tile = int(loop.tile.bind(sizes))
    return math.gcd(tile, int(loop.unit.bind(sizes))) if loop.split not in ("", "cyclic") else tile


def _inside(loop: Loop) -> set[Loop]:
    return {node for node, _ in walk(loop.body) if isinstance(node, Loop)}


def executed(nest: Nest, times: int = 1) -> Iterator[tuple[Step, int]]:
    """Yield (step, number of executions) of a nest that runs `times` times, a step once for each run that has it."""
    for item in nest:
        if isinstance(item, Step):
            yield item, times
        else:
            yield from executed(item.body, times * item.times)


def steps(nest: Nest) -> Iterator[Step]:
    """Yield every distinct step of a nest once."""
    seen: set[int] = set()
    stack: list[Nest] = [nest]
    while stack:
        for item in stack.pop():
            if isinstance(item, Step):
                yield item
            elif id(item.body) not in seen:
                seen.add(id(item.body))
                stack.append(item.body)
