"""Dependences of executed instructions: the writers of the data that one reads, the users of the slot that it takes.

`tour` runs through the instructions of a nest in program order, all tiles or a few of every loop; `Flow` tracks
the buffers. Both serve the events of a timeline and the graph, so that arrows and edges cannot disagree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tilesim.program.buffers import Buffer
from tilesim.program.loop_nest import Nest, Step, TileRun
from tilesim.program.recorder import Instr, Loop

Key = TypeVar("Key")
Place = tuple[tuple[str, int], ...]
"""The loops around an executed instruction, outer first, each with the number of the tile on its core, from 0."""
Selection = Callable[[int], Sequence[range]]
"""The tiles to visit of a number of equal tiles: ranges in order."""


def everything(times: int) -> Sequence[range]:
    """Return all tiles."""
    return (range(times),)


def first(tiles: int) -> Selection:
    """Return the selection of the first `tiles` tiles."""
    return lambda times: (range(min(times, tiles)),)


def windows(tiles: int) -> Selection:
    """Return the selection of `tiles` tiles each at the start, in the steady state of the middle and at the end.

    It selects all tiles if they are no more than three times that number.
    """

    def selection(times: int) -> Sequence[range]:
        if times <= 3 * tiles:
            return (range(times),)
        middle = (times - tiles) // 2
        return range(tiles), range(middle, middle + tiles), range(times - tiles, times)

    return selection


def tour(nest: Nest, selection: Selection = everything) -> Iterator[tuple[Step | TileRun, Place]]:
    """Yield (step, place) of every selected instruction in program order, with a TileRun for the tiles between them."""
    yield from _tour(nest, selection, (), {})


def _tour(
    nest: Nest, selection: Selection, place: Place, done: dict[Loop, int]
) -> Iterator[tuple[Step | TileRun, Place]]:
    """Yield as `tour` does; `done` counts the tiles of a loop so far: its full tiles and its tail are separate runs."""
    for item in nest:
        if isinstance(item, Step):
            yield item, place
            continue
        loop, before, each = item.loop, done.get(item.loop, 0), trips((TileRun(1, item.body, item.loop),), item.loop)
        at = 0
        for selected in selection(item.times):
            if selected.start > at:
                yield TileRun(selected.start - at, item.body, loop), place
            for i in selected:
                number = before + i * each
                if is_pattern(item):
                    yield from _tour(item.body, selection, place, {loop: number})
                else:
                    yield from _tour(item.body, selection, (*place, (loop.name, number)), {})
            at = selected.stop
        if at < item.times:
            yield TileRun(item.times - at, item.body, loop), place
        done[loop] = before + item.times * each


def is_pattern(run: TileRun) -> bool:
    """Return True if its body is a pattern of tiles of the same loop rather than one tile."""
    return bool(run.body) and isinstance(run.body[0], TileRun) and run.body[0].loop is run.loop


def trips(nest: Nest, loop: Loop) -> int:
    """Return the number of tiles of `loop` in the runs of a nest, at its first level."""
    runs = (item for item in nest if isinstance(item, TileRun) and item.loop is loop)
    return sum(run.times * (trips(run.body, loop) if is_pattern(run) else 1) for run in runs)


def count(nest: Nest, selection: Selection = everything) -> int:
    """Return the number of instructions that `tour` yields, without a visit to each."""
    total = 0
    for item in nest:
        if isinstance(item, Step):
            total += 1
        else:
            total += sum(map(len, selection(item.times))) * count(item.body, selection)
    return total


@dataclass(frozen=True, slots=True)
class Dependency(Generic[Key]):
    """A dependence on `source`: it wrote the data of `buffer` (kind "data"), or used its slot before (kind "slot")."""

    source: Key
    buffer: Buffer
    kind: str


@dataclass(slots=True)
class _Use(Generic[Key]):
    """A buffer so far: the writes that make up its contents; the last user of each slot by pipe, newest slot first."""

    live: dict[Instr, Key] = field(default_factory=dict)
    slots: deque[dict[str, Key]] = field(default_factory=lambda: deque([{}]))


class Flow(Generic[Key]):
    """The state of the buffers of one core, instruction by instruction."""

    def __init__(self) -> None:
        self._uses: dict[Buffer, _Use[Key]] = {}

    def add(self, instr: Instr, key: Key) -> list[Dependency[Key]]:
        """Return the dependences of the next instruction, `key`, each source once a buffer."""
        read = dict.fromkeys(v.base for v in instr.reads() if isinstance(v.base, Buffer))
        dependences: dict[tuple[Key, Buffer], Dependency[Key]] = {}
        for buffer in read:
            for source in self._use(buffer).live.values():
                dependences[source, buffer] = Dependency(source, buffer, "data")
        target = instr.dst.base
        if isinstance(target, Buffer):
            use = self._use(target)
            taken = use.slots[0]
            if instr.fresh:
                taken = use.slots[-1] if len(use.slots) == target.slots else {}
                use.slots.appendleft({})
                while len(use.slots) > target.slots:
                    use.slots.pop()
            for source in taken.values():
                dependences.setdefault((source, target), Dependency(source, target, "slot"))
            if instr.fresh or instr.dst.whole or target in read:
                use.live = {}
            use.live[instr] = key
            use.slots[0][instr.pipe] = key
        for buffer in read:
            self._use(buffer).slots[0][instr.pipe] = key
        return list(dependences.values())

    def _use(self, buffer: Buffer) -> _Use[Key]:
        return self._uses.setdefault(buffer, _Use())
