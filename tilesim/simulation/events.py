"""Events: the instructions of one core of a phase with start and end, all of them or those in windows.

Powers of matrices skip the tiles between two windows, so a window in the middle of millions of tiles costs no more than
one at the start, and its times are exactly those of the plain schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilesim.planning.phase_plan import PhasePlan
from tilesim.program.buffers import Buffer
from tilesim.program.dependences import Dependency, Flow, Place, count, everything, tour, windows
from tilesim.program.loop_nest import Nest, Nests, Step, TileRun
from tilesim.program.recorder import Instr
from tilesim.timing.cost import passed_bytes
from tilesim.timing.schedule import step


@dataclass(frozen=True, slots=True)
class Event:
    """Executed instruction. Cycles are core cycles from the start of its phase."""

    number: int
    """Index among the requested events."""
    phase: str
    core: int
    pipe: str
    op: str
    text: str
    """Instruction as recorded."""
    start_cycles: int
    end_cycles: int
    bytes: int
    """Bytes that a copy moves, or that another instruction passes of its widest operand."""
    buffers: tuple[str, ...]
    """On-chip buffers that it touches, the written one first."""
    fresh: bool
    """True if it takes the next slot of the buffer that it writes."""
    where: str
    """file:line of the operator's author."""
    tile: Place
    """(loop, number of the tile on this core) of the loops around it, outer first."""
    depends: tuple[int, ...]
    """Numbers of the events on other pipes that it depends on, without those outside of the windows."""
    waits_for: str
    """Cause of its wait while its pipe was free: "x" (its data) or "slot of x"; "" if it did not wait."""
    waited_cycles: int
    """Cycles that its pipe was free before it began."""

    @property
    def cycles(self) -> int:
        """Cycles that it holds its pipe."""
        return self.end_cycles - self.start_cycles


def nest_of(plan: PhasePlan, core: int) -> Nest:
    """Return the nest of one core of a phase; empty if the phase does not use the core."""
    if not 0 <= core < plan.cores:
        return ()
    known = next((nest for nest, leader, _ in plan.nests if leader == core), None)
    return Nests(plan.phase, plan.sizes).core(core) if known is None else known


def event_count(plan: PhasePlan, core: int = 0, tiles: int | None = None) -> int:
    """Return the number of events of `phase_events` without making them."""
    return count(nest_of(plan, core), everything if tiles is None else windows(tiles))


def widest(pairs: Sequence[tuple[PhasePlan, int]], most: int) -> int | None:
    """Return the largest number of tiles for which (phase, core) pairs have at most `most` events, at least 1.

    None stands for all tiles.
    """

    def size(tiles: int | None) -> int:
        return sum(event_count(plan, core, tiles) for plan, core in pairs)

    if size(None) <= most:
        return None
    tiles = 1
    while size(tiles * 2) <= most:
        tiles *= 2
    return tiles


def phase_events(plan: PhasePlan, core: int = 0, tiles: int | None = None, number: int = 0) -> Iterator[Event]:
    """Yield the events of one core in program order, numbered from `number`.

    With `tiles`, only that many tiles of every loop at its start, in its middle and at its end, and its tail.
    """
    scheduler = plan.scheduler
    state = [0] * scheduler.length
    flow: Flow[int] = Flow()
    ends: dict[int, tuple[str, int]] = {}
    for item, place in tour(nest_of(plan, core), everything if tiles is None else windows(tiles)):
        if isinstance(item, TileRun):
            state = scheduler.advance(state, (item,))
            flow = Flow()
            ends.clear()
            continue
        instr, timed = item.instr, scheduler.timed(item)
        pipe_free = state[timed.pipe]
        end = step(state, timed, max)
        start = end - timed.cycles
        awaited = [d for d in flow.add(instr, number) if ends[d.source][0] != instr.pipe]
        last = [d for d in awaited if start > pipe_free and ends[d.source][1] == start]
        ends[number] = (instr.pipe, end)
        yield Event(
            number=number,
            phase=plan.phase.name,
            core=core,
            pipe=instr.pipe,
            op=instr.op,
            text=str(instr),
            start_cycles=start,
            end_cycles=end,
            bytes=passed_bytes(item, plan.chip.vector.width_bytes),
            buffers=_buffers(item),
            fresh=instr.fresh,
            where=instr.where,
            tile=place,
            depends=tuple(sorted({d.source for d in awaited})),
            waits_for=_cause(instr, last[0] if last else None) if start > pipe_free else "",
            waited_cycles=start - pipe_free,
        )
        number += 1


def _cause(instr: Instr, last: Dependency[int] | None) -> str:
    """Return the cause of a wait: the dependency that ended when the instruction began, else the slot that it takes."""
    if last is not None:
        return last.buffer.name if last.kind == "data" else f"slot of {last.buffer.name}"
    return f"slot of {instr.dst.base.name}" if instr.fresh else ""


def _buffers(item: Step) -> tuple[str, ...]:
    views = (item.instr.dst, *item.instr.reads())
    return tuple(dict.fromkeys(v.base.name for v in views if isinstance(v.base, Buffer)))
