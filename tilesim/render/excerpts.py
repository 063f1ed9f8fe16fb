"""Excerpts of a phase: instructions on the pipes of a core at the start, in the steady state and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesim.program.isa import PIPES
from tilesim.simulation.events import Event, event_count
from tilesim.simulation.timeline import Timeline

MOST_EVENTS = 40
"""Instructions of an excerpt; more cannot be distinguished in a drawing."""
ENOUGH = 10
"""Multiple of the instructions of an excerpt up to which two tiles of every loop are expanded; beyond it, one."""
WORDS = {
    "mte2": "copy in",
    "v": "vector",
    "mte3": "copy out",
    "mte1": "copy to L0",
    "m": "cube",
    "fixp": "copy out",
}
"""Pipe -> its work, in words."""


@dataclass(frozen=True)
class Excerpt:
    """A stretch of the timeline of one core. Cycles are from the start of the phase."""

    title: str
    tiles: str
    """First and last tile of the outermost loop in it."""
    start_cycles: int
    end_cycles: int
    events: tuple[Event, ...]

    def lane(self, pipe: str) -> tuple[Event, ...]:
        """Return the events of one pipe."""
        return tuple(e for e in self.events if e.pipe == pipe)


@dataclass(frozen=True)
class Lanes:
    """Excerpts of the slowest core of a phase, with the pipes in the order in which data passes them."""

    phase: str
    core: int
    pipes: tuple[str, ...]
    cycles: int
    """Cycles of the phase; more than the last event has where the pipes wait for their share of global memory."""
    excerpts: tuple[Excerpt, ...]

    @property
    def pipes_end_cycles(self) -> int:
        """Cycle at which the last pipe ends, without the limits of what all cores share."""
        return max((x.end_cycles for x in self.excerpts), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data; every event as [pipe, start, end, instruction, buffer, outermost tile]."""
        return {
            "phase": self.phase,
            "core": self.core,
            "pipes": list(self.pipes),
            "cycles": self.cycles,
            "pipes_end_cycles": self.pipes_end_cycles,
            "excerpts": [
                {
                    "title": x.title,
                    "tiles": x.tiles,
                    "start_cycles": x.start_cycles,
                    "end_cycles": x.end_cycles,
                    "events": [_plain(e) for e in x.events],
                }
                for x in self.excerpts
            ],
        }


def lanes(timeline: Timeline, phase: str, *, most_events: int = MOST_EVENTS) -> Lanes:
    """Return the excerpts of a phase, at most three, each of at most `most_events` instructions.

    Raises KeyError for a phase that does not exist.
    """
    spent = timeline.phase(phase)
    plan = next(p for p in timeline.plan.phases if p.phase.name == phase)
    _, core, _ = max(plan.shares, default=(0, 0, 0))
    tiles = 2 if event_count(plan, core, 2) <= ENOUGH * most_events else 1
    runs = _stretches(sorted(timeline.events(phase, core, tiles), key=lambda e: (e.start_cycles, e.end_cycles)))
    pipes = tuple(p for p in PIPES[plan.phase.core_kind] if spent.busy_cycles.get(p))
    if not runs:
        return Lanes(phase, core, pipes, spent.cycles, ())
    if len(runs) == 1 and len(runs[0]) <= most_events:
        return Lanes(phase, core, pipes, spent.cycles, (_excerpt("the whole phase", runs[0]),))
    chosen = [_excerpt("first tiles", runs[0][:most_events])]
    if len(runs) > 2:
        chosen.append(_excerpt("steady state", _steady(runs[1:-1])[:most_events]))
    last = runs[-1][-most_events:]
    if last[-1].end_cycles > chosen[-1].end_cycles:
        chosen.append(_excerpt("last tiles", last))
    return Lanes(phase, core, pipes, spent.cycles, tuple(chosen))


def _plain(event: Event) -> list[Any]:
    tile = event.tile[0][1] if event.tile else 0
    return [event.pipe, event.start_cycles, event.end_cycles, event.op, (*event.buffers, "")[0], tile]


def _stretches(events: list[Event]) -> list[list[Event]]:
    """Return the events in runs without a gap. Some pipe always works, so a gap is where tiles were left out."""
    out: list[list[Event]] = []
    reach = -1
    for event in events:
        if event.start_cycles > reach:
            out.append([])
        out[-1].append(event)
        reach = max(reach, event.end_cycles)
    return out


def _steady(runs: list[list[Event]]) -> list[Event]:
    """Return the run with most pipes; of several, the nearest to the middle."""
    pipes = [len({e.pipe for e in run}) for run in runs]
    best = [i for i, count in enumerate(pipes) if count == max(pipes)]
    return runs[min(best, key=lambda i: abs(i - len(runs) // 2))]


def _excerpt(title: str, events: list[Event]) -> Excerpt:
    first, last = events[0].tile, max(events, key=lambda e: e.end_cycles).tile
    tiles = ""
    if first and last:
        (loop, low), (same, high) = first[0], last[0]
        tiles = f"{loop} {low:,}" if (loop, low) == (same, high) else f"{loop} {low:,} to {same} {high:,}"
    start, end = min(e.start_cycles for e in events), max(e.end_cycles for e in events)
    return Excerpt(title, tiles, start, end, tuple(events))
