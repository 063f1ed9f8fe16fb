"""What an executed instruction depends on: who wrote what it reads, and who used the slot that it takes.

`tour` runs through the instructions of a nest in program order, whole or a few tiles of every loop; `Flow` remembers
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
Shown = Callable[[int], Sequence[range]]
"""Which of so many equal tiles to go through: ranges in order."""


def everything(times: int) -> Sequence[range]:
    """All tiles."""
    return (range(times),)


def first(tiles: int) -> Shown:
    """Only the first `tiles` tiles."""
    return lambda times: (range(min(times, tiles)),)


def windows(tiles: int) -> Shown:
    """The first `tiles` tiles, as many of the steady state in the middle, and the last; all if there are few."""

    def shown(times: int) -> Sequence[range]:
        if times <= 3 * tiles:
            return (range(times),)
        middle = (times - tiles) // 2
        return range(tiles), range(middle, middle + tiles), range(times - tiles, times)

    return shown


def tour(nest: Nest, shown: Shown = everything) -> Iterator[tuple[Step | TileRun, Place]]:
    """(step, place) of every instruction that is shown, in program order; a Run of the tiles left out between them."""
    yield from _tour(nest, shown, (), {})


def _tour(nest: Nest, shown: Shown, place: Place, done: dict[Loop, int]) -> Iterator[tuple[Step | TileRun, Place]]:
    """`done` has the tiles of a loop that came before: its full tiles and its tail are runs of one loop."""
    for item in nest:
        if isinstance(item, Step):
            yield item, place
            continue
        loop, before, each = item.loop, done.get(item.loop, 0), trips((TileRun(1, item.body, item.loop),), item.loop)
        at = 0
        for some in shown(item.times):
            if some.start > at:
                yield TileRun(some.start - at, item.body, loop), place
            for i in some:
                number = before + i * each
                if is_pattern(item):
                    yield from _tour(item.body, shown, place, {loop: number})
                else:
                    yield from _tour(item.body, shown, (*place, (loop.name, number)), {})
            at = some.stop
        if at < item.times:
            yield TileRun(item.times - at, item.body, loop), place
        done[loop] = before + item.times * each


def is_pattern(run: TileRun) -> bool:
    """Whether its body is not one tile but a pattern of tiles of the same loop."""
    return bool(run.body) and isinstance(run.body[0], TileRun) and run.body[0].loop is run.loop


def trips(nest: Nest, loop: Loop) -> int:
    """How many tiles of `loop` the runs of a nest have, at its first level."""
    runs = (item for item in nest if isinstance(item, TileRun) and item.loop is loop)
    return sum(run.times * (trips(run.body, loop) if is_pattern(run) else 1) for run in runs)


def count(nest: Nest, shown: Shown = everything) -> int:
    """How many instructions `tour` yields, without going through them."""
    total = 0
    for item in nest:
        if isinstance(item, Step):
            total += 1
        else:
            total += sum(map(len, shown(item.times))) * count(item.body, shown)
    return total


@dataclass(frozen=True, slots=True)
class Dependency(Generic[Key]):
    """`source` wrote what is read of `buffer` (kind "data"), or used the slot that is taken (kind "slot")."""

    source: Key
    buffer: Buffer
    kind: str


@dataclass(slots=True)
class _Use(Generic[Key]):
    """A buffer so far: the writes that make up its contents; the last user of each slot by pipe, newest slot first."""

    live: dict[Instr, Key] = field(default_factory=dict)
    slots: deque[dict[str, Key]] = field(default_factory=lambda: deque([{}]))


class Flow(Generic[Key]):
    """The buffers of one core as its instructions go by."""

    def __init__(self) -> None:
        self._uses: dict[Buffer, _Use[Key]] = {}

    def add(self, instr: Instr, key: Key) -> list[Dependency[Key]]:
        """What the next instruction, `key`, depends on, each source once a buffer."""
        read = dict.fromkeys(v.base for v in instr.reads() if isinstance(v.base, Buffer))
        found: dict[tuple[Key, Buffer], Dependency[Key]] = {}
        for buffer in read:
            for source in self._use(buffer).live.values():
                found[source, buffer] = Dependency(source, buffer, "data")
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
                found.setdefault((source, target), Dependency(source, target, "slot"))
            if instr.fresh or instr.dst.whole or target in read:
                use.live = {}
            use.live[instr] = key
            use.slots[0][instr.pipe] = key
        for buffer in read:
            self._use(buffer).slots[0][instr.pipe] = key
        return list(found.values())

    def _use(self, buffer: Buffer) -> _Use[Key]:
        return self._uses.setdefault(buffer, _Use())
