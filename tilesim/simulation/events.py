"""What happens when: the instructions of one core of a phase with start and end, whole or in windows.

Tiles between two windows are passed over by powers of their matrix, so a window in the middle of millions of tiles
costs no more than one at the start, and its times are exactly those of the plain schedule.
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
    """One executed instruction. Cycles are core cycles from the start of its phase."""

    number: int
    """Its place among the events that were asked for."""
    phase: str
    core: int
    pipe: str
    op: str
    text: str
    """The instruction as recorded."""
    start_cycles: int
    end_cycles: int
    bytes: int
    """Of a copy, what it moves; of another instruction, what it passes of its widest operand."""
    buffers: tuple[str, ...]
    """The on-chip buffers that it touches, the one that it writes first."""
    fresh: bool
    """Whether it takes the next slot of the buffer that it writes."""
    where: str
    """file:line of the operator's author."""
    tile: Place
    """(loop, number of the tile on this core) of the loops around it, outer first."""
    depends: tuple[int, ...]
    """The events that it had to wait for on other pipes, by number; those that a window left out are not among them."""
    waits_for: str
    """What kept it from starting when its pipe was free: "x" (its data) or "slot of x"; empty if nothing did."""
    waited_cycles: int
    """How long its pipe was free before it began."""

    @property
    def cycles(self) -> int:
        """How long it holds its pipe."""
        return self.end_cycles - self.start_cycles


def nest_of(plan: PhasePlan, core: int) -> Nest:
    """What one core of a phase runs; nothing if the phase does not use it."""
    if not 0 <= core < plan.cores:
        return ()
    known = next((nest for nest, leader, _ in plan.nests if leader == core), None)
    return Nests(plan.phase, plan.sizes).core(core) if known is None else known


def event_count(plan: PhasePlan, core: int = 0, tiles: int | None = None) -> int:
    """How many events `phase_events` has, without making them."""
    return count(nest_of(plan, core), everything if tiles is None else windows(tiles))


def widest(pairs: Sequence[tuple[PhasePlan, int]], most: int) -> int | None:
    """The most tiles for which pairs of (phase, core) have no more than `most` events; at least 1, None for all."""

    def size(tiles: int | None) -> int:
        return sum(event_count(plan, core, tiles) for plan, core in pairs)

    if size(None) <= most:
        return None
    tiles = 1
    while size(tiles * 2) <= most:
        tiles *= 2
    return tiles


def phase_events(plan: PhasePlan, core: int = 0, tiles: int | None = None, number: int = 0) -> Iterator[Event]:
    """The events of one core in program order, numbered from `number`.

    With `tiles`, only so many tiles of every loop at its start, in its middle and at its end, and its tail.
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
        found = [d for d in flow.add(instr, number) if ends[d.source][0] != instr.pipe]
        held = [d for d in found if start > pipe_free and ends[d.source][1] == start]
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
            depends=tuple(sorted({d.source for d in found})),
            waits_for=_waits(instr, held[0] if held else None) if start > pipe_free else "",
            waited_cycles=start - pipe_free,
        )
        number += 1


def _waits(instr: Instr, held: Dependency[int] | None) -> str:
    """What an instruction waited for: the dependency that ended when it began, else the slot that it takes."""
    if held is not None:
        return held.buffer.name if held.kind == "data" else f"slot of {held.buffer.name}"
    return f"slot of {instr.dst.base.name}" if instr.fresh else ""


def _buffers(item: Step) -> tuple[str, ...]:
    views = (item.instr.dst, *item.instr.reads())
    return tuple(dict.fromkeys(v.base.name for v in views if isinstance(v.base, Buffer)))
