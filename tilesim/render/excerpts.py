"""A few tiles of a phase to look at: what the pipes of a core do at the start, in the steady state and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesim.program.isa import PIPES
from tilesim.simulation.events import Event, event_count
from tilesim.simulation.timeline import Timeline

MOST_EVENTS = 40
"""Instructions of an excerpt, more than which nobody can tell apart."""
ENOUGH = 10
"""Times as many instructions are looked at in two tiles of every loop; else one tile of each will do."""
WORDS = {
    "mte2": "copy in",
    "v": "vector",
    "mte3": "copy out",
    "mte1": "copy to L0",
    "m": "cube",
    "fixp": "copy out",
}
"""Pipe -> what it does."""


@dataclass(frozen=True)
class Excerpt:
    """A stretch of the timeline of one core. Cycles are from the start of the phase."""

    title: str
    tiles: str
    """The first and the last tile of the outermost loop that it shows."""
    start_cycles: int
    end_cycles: int
    events: tuple[Event, ...]

    def lane(self, pipe: str) -> tuple[Event, ...]:
        """The events of one pipe."""
        return tuple(e for e in self.events if e.pipe == pipe)


@dataclass(frozen=True)
class Lanes:
    """Excerpts of the slowest core of a phase, with the pipes in the order in which data passes them."""

    phase: str
    core: int
    pipes: tuple[str, ...]
    cycles: int
    """Of the phase: later than the last event where the pipes wait for their share of global memory."""
    excerpts: tuple[Excerpt, ...]

    @property
    def pipes_end_cycles(self) -> int:
        """When the last pipe ends, were it not for what all cores share."""
        return max((x.end_cycles for x in self.excerpts), default=0)

    def to_json(self) -> dict[str, Any]:
        """Its fields as plain data; every event as [pipe, start, end, what, buffer, outermost tile]."""
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
    """The excerpts of a phase, at most three, each of at most `most_events` instructions.

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
    """The events in runs without a hole: some pipe always works, so a hole is where tiles were left out."""
    out: list[list[Event]] = []
    reach = -1
    for event in events:
        if event.start_cycles > reach:
            out.append([])
        out[-1].append(event)
        reach = max(reach, event.end_cycles)
    return out


def _steady(runs: list[list[Event]]) -> list[Event]:
    """The run in the middle that says most: of those with most pipes, the nearest to the middle."""
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
