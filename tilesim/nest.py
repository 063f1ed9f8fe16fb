"""A phase with its sizes known: the tiles of every loop, as runs of equal iterations, for one core.

The schedule, the counts and the executor all read the same segments, so that they cannot disagree about a tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilesim.program import Instr, Loop, Phase

Sizes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Segment:
    """`times` tiles of `size` elements, the first at `start`, each `step` after the one before; `after` is the halo they have."""

    start: int
    size: int
    times: int
    step: int
    after: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One instruction with the sizes of the loops around it."""

    instr: Instr
    sizes: Sizes


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """A body repeated; equal bodies are the same object."""

    times: int
    body: tuple[Step | Run, ...]
    loop: Loop


Nest = tuple[Step | Run, ...]


def share(loop: Loop, sizes: Sizes, parts: int, part: int) -> tuple[int, int]:
    """(start, count) [elements] of the axis that falls to share `part` of `parts`; count 0 where none is left."""
    extent, unit = loop.extent.bind(sizes), loop.unit.bind(sizes)
    if not loop.split:
        return 0, extent
    units = -(-extent // unit)
    if loop.split == "ceil":
        each = -(-units // parts)
        first, count = part * each, each
    else:
        each, more = divmod(units, parts)
        first, count = part * each + min(part, more), each + (part < more)
    start = min(first * unit, extent)
    return start, min(count * unit, extent - start)


def segments(loop: Loop, sizes: Sizes, parts: int = 1, part: int = 0) -> list[Segment]:
    """The tiles of one share of a loop, in order, as runs of equal ones."""
    tile = loop.tile.bind(sizes)
    if loop.split == "dealt":
        extent = loop.extent.bind(sizes)
        full, tail = divmod(extent, tile)
        mine = len(range(part, full, parts))
        runs = [Segment(part * tile, tile, mine, parts * tile)] if mine else []
        if tail and full % parts == part:
            runs.append(Segment(full * tile, tail, 1, tile))
        return _with_halo(runs, loop.halo, extent)
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
    return _with_halo(runs, loop.halo, loop.extent.bind(sizes))


def _with_halo(runs: list[Segment], halo: int, extent: int) -> list[Segment]:
    if not halo:
        return runs
    out: list[Segment] = []
    for run in runs:
        whole = sum(1 for i in range(run.times) if run.start + i * run.step + run.size + halo <= extent) if run.times < 4 else (  # noqa: PLR2004
            max(0, min(run.times, (extent - halo - run.size - run.start) // run.step + 1))
        )
        if whole:
            out.append(Segment(run.start, run.size, whole, run.step, halo))
        for i in range(whole, run.times):
            start = run.start + i * run.step
            out.append(Segment(start, run.size, 1, run.step, extent - start - run.size))
    return out


def split_loops(phase: Phase) -> list[tuple[Loop, tuple[Loop, ...]]]:
    """The loops of a phase that are split over cores, each with the split loops around it."""
    found: list[tuple[Loop, tuple[Loop, ...]]] = []

    def visit(body: Sequence[Instr | Loop], around: tuple[Loop, ...]) -> None:
        for node in body:
            if isinstance(node, Loop):
                if node.split:
                    found.append((node, around))
                visit(node.body, (*around, node) if node.split else around)

    visit(phase.body, ())
    return found


def part_of(phase: Phase, sizes: Sizes, core: int) -> dict[Loop, tuple[int, int]]:
    """(parts, part) of every split loop for a core: nested splits make a grid of cores, in row-major order.

    A core beyond a loop's grid has part -1 there: it runs none of that loop.
    """
    splits = split_loops(phase)
    out: dict[Loop, tuple[int, int]] = {}
    for loop, around in splits:
        inner = [other for other, outer in splits if loop in outer]
        parts = int(loop.parts(phase.name).bind(sizes))
        below = math.prod(int(other.parts(phase.name).bind(sizes)) for other in inner)
        grid = parts * below * math.prod(int(other.parts(phase.name).bind(sizes)) for other in around)
        out[loop] = (parts, (core // below) % parts if core < grid else -1)
    return out


class Nests:
    """The nests of a phase's cores, sharing the bodies that are equal."""

    def __init__(self, phase: Phase, sizes: Sizes) -> None:
        self.phase = phase
        self.sizes = dict(sizes)
        self._bodies: dict[tuple[Any, ...], Nest] = {}
        self._zero: dict[int, bool] = {}

    def core(self, core: int) -> Nest:
        """The nest of one core."""
        return self._nest(self.phase.body, self.sizes, (), part_of(self.phase, self.sizes, core))

    def distinct(self, cores: int) -> list[tuple[Nest, int, int]]:
        """(nest, first core, how many cores) for every distinct share of the phase."""
        shares: dict[tuple[Any, ...], list[Any]] = {}
        for core in range(cores):
            parts = part_of(self.phase, self.sizes, core)
            key = tuple(
                () if part < 0 else tuple((s.size, s.times, s.after) for s in segments(loop, self.sizes, count, part))
                for loop, (count, part) in parts.items()
            )
            if key in shares:
                shares[key][2] += 1
            else:
                shares[key] = [self._nest(self.phase.body, self.sizes, (), parts), core, 1]
        return [(nest, first, count) for nest, first, count in shares.values()]

    def _nest(
        self,
        body: Sequence[Instr | Loop],
        sizes: Sizes,
        key: tuple[Any, ...],
        parts: Mapping[Loop, tuple[int, int]],
    ) -> Nest:
        out: list[Step | Run] = []
        for node in body:
            if isinstance(node, Instr):
                if all(s.bind(sizes) > 0 for s in node.dst.shape):
                    out.append(Step(node, sizes))
                continue
            count, part = parts.get(node, (1, 0))
            for run in segments(node, sizes, count, part) if part >= 0 else ():
                out.append(Run(run.times, self._body(node, run, sizes, key, parts), node))
        return tuple(out)

    def _body(
        self, loop: Loop, run: Segment, sizes: Sizes, key: tuple[Any, ...], parts: Mapping[Loop, tuple[int, int]]
    ) -> Nest:
        inner = tuple((other, parts[other]) for other in parts if other in _inside(loop))
        mine = (*key, loop, run.size, run.after, inner)
        if mine not in self._bodies:
            within = {**sizes, f"{loop.name}.size": run.size, f"{loop.name}.after": run.after}
            self._bodies[mine] = self._nest(loop.body, within, mine, parts)
        return self._bodies[mine]


def _inside(loop: Loop) -> set[Loop]:
    found: set[Loop] = set()
    for node in loop.body:
        if isinstance(node, Loop):
            found |= {node} | _inside(node)
    return found


def totals(nest: Nest, amount: Callable[[Step], Mapping[str, int]]) -> dict[str, int]:
    """The sums over all executed instructions of what `amount` says of one."""
    out: dict[str, int] = {}
    for item in nest:
        if isinstance(item, Step):
            part, times = amount(item), 1
        else:
            part, times = totals(item.body, amount), item.times
        for name, value in part.items():
            out[name] = out.get(name, 0) + value * times
    return out


def steps(nest: Nest) -> Iterator[Step]:
    """Every distinct step of a nest once."""
    seen: set[int] = set()
    stack: list[Nest] = [nest]
    while stack:
        for item in stack.pop():
            if isinstance(item, Step):
                yield item
            elif id(item.body) not in seen:
                seen.add(id(item.body))
                stack.append(item.body)
