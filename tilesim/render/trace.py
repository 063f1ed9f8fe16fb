"""A timeline as a trace for Perfetto, chrome://tracing and MindStudio Insight.

A process for every core, named as the vendor's simulator names it, and a thread for every pipe in the vendor's order.
Times are numbers in microseconds from 0, on whole nanoseconds, so that no viewer rounds neighbours into each other.
Source of names, order and colours: Ascend/msopprof, writer of the simulator's output.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.files import write_text
from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.simulation.events import Event, event_count, widest
from tilesim.simulation.timeline import PhaseTime, Timeline, timeline_of
from tilesim.text import several

LANES = {
    "mte1": ("MTE1", 3),
    "m": ("CUBE", 4),
    "fixp": ("FIXP", 5),
    "mte2": ("MTE2", 6),
    "v": ("VECTOR", 7),
    "mte3": ("MTE3", 8),
}
"""Pipe -> (the vendor's name of its lane, its place among all lanes)."""
COLOURS = {
    "mte1": "thread_state_running",
    "m": "background_memory_dump",
    "fixp": "thread_state_unknown",
    "mte2": "thread_state_iowait",
    "v": "cq_build_failed",
    "mte3": "rail_response",
}
"""Pipe -> the vendor's colour name."""
MOST_EVENTS = 20_000
"""Instructions in a trace unless asked otherwise: about 15 MB, which every viewer opens."""
MOST_CORES = 4
"""Cores of one kind in a trace unless asked otherwise."""
OVERVIEW = 1
"""The process that shows launch, phases and syncs."""

Record = dict[str, Any]


def trace(
    what: Timeline | Plan,
    *,
    tiles: int | None = None,
    cores: Sequence[int] | None = None,
    most_events: int = MOST_EVENTS,
) -> Record:
    """The trace as plain data, in the JSON object format of Chrome traces.

    With `tiles`, only so many tiles of every loop at its start, in its middle and at its end, and its tail; without,
    the whole run if it has no more than `most_events` instructions, else the widest windows that do not. `cores` are
    numbers of cores of either kind; without, one of every distinct share. "otherData" says what was left out.
    """
    timeline = what if isinstance(what, Timeline) else timeline_of(what)
    phases = timeline.plan.phases
    chosen = {kind: _cores(phases, kind, cores) for kind in dict.fromkeys(p.phase.core_kind for p in phases)}

    pairs = [(p, core) for p in phases for core in chosen[p.phase.core_kind]]
    window = widest(pairs, most_events) if tiles is None else tiles
    shown, whole = (sum(event_count(p, core, w) for p, core in pairs) for w in (window, None))
    arrows = itertools.count(1)
    records = [*_overview(timeline), *_processes(timeline, chosen)]
    for plan, spent in zip(phases, timeline.phases, strict=True):
        for core in chosen[plan.phase.core_kind]:
            records += _core(timeline, plan, spent, core, window, arrows)
    return {
        "displayTimeUnit": "ns",
        "traceEvents": records,
        "otherData": {
            "operator": timeline.plan.kernel.name,
            "chip": timeline.plan.chip.name,
            "cycles": timeline.cycles,
            "time_us": round(timeline.time_us, 6),
            "bottleneck": timeline.bottleneck,
            "estimate": timeline.estimate,
            "accuracy": str(known_accuracy(timeline.plan.call, timeline.plan.chip, timeline.plan.by_hand)),
            "left out": _left_out(window, shown, whole, phases, chosen),
        },
    }


def write_trace(
    path: str | Path, what: Timeline | Plan, *, tiles: int | None = None, most_events: int = MOST_EVENTS
) -> Path:
    """The file that now has the trace; written whole or not at all. Raises BadInput if it cannot be written."""
    made = trace(what, tiles=tiles, most_events=most_events)
    return write_text(path, json.dumps(made, separators=(",", ":"), ensure_ascii=False) + "\n")


def core_name(chip: Chip, core_kind: str, core: int) -> str:
    """The vendor's name of a core: core0.veccore1 is the second vector core beside cube core 0."""
    if core_kind == "cube":
        return f"core{core}.cubecore0"
    each = max(chip.cores.vector // max(chip.cores.cube, 1), 1)
    return f"core{core // each}.veccore{core % each}"


def _cores(phases: Sequence[PhasePlan], kind: str, wanted: Sequence[int] | None) -> list[int]:
    used = max(p.cores for p in phases if p.phase.core_kind == kind)
    if wanted is not None:
        return sorted({core for core in wanted if 0 <= core < used})
    leaders = {leader for p in phases if p.phase.core_kind == kind for _, leader, _ in p.nests}
    return sorted(leaders)[:MOST_CORES]


def _left_out(
    window: int | None, shown: int, whole: int, phases: Sequence[PhasePlan], chosen: dict[str, list[int]]
) -> str:
    parts = []
    if window is not None and shown < whole:
        parts.append(
            f"{whole - shown:,} of {whole:,} instructions: of every loop, {several(window, 'tile')} "
            "at its start, in its middle and at its end are shown"
        )
    for kind, cores in chosen.items():
        used = max(p.cores for p in phases if p.phase.core_kind == kind)
        if len(cores) < used:
            parts.append(f"{used - len(cores)} of {used} {kind} cores")
    return "; ".join(parts) or "nothing"


def _ns(us: float) -> int:
    return round(us * 1000)


def _span(start_us: float, end_us: float) -> dict[str, float]:
    start, end = _ns(start_us), _ns(end_us)
    return {"ts": start / 1000, "dur": (end - start) / 1000}


def _named(pid: int, name: str, order: int) -> Iterator[Record]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": order}}


def _thread(pid: int, tid: int, name: str) -> Iterator[Record]:
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _overview(timeline: Timeline) -> Iterator[Record]:
    """Launch, phases and syncs, as slices of a process of their own."""
    yield from _named(OVERVIEW, timeline.plan.kernel.name, 0)
    yield from _thread(OVERVIEW, 1, "phases")
    at = 0.0
    for i, phase in enumerate(timeline.phases):
        if phase.start_us > at:
            name = "launch" if i == 0 or timeline.plan.kernel.launches else "sync"
            yield {"ph": "X", "name": name, "pid": OVERVIEW, "tid": 1, **_span(at, phase.start_us), "args": {}}
        at = phase.start_us + phase.time_us
        args = phase.to_json()
        yield {"ph": "X", "name": phase.name, "pid": OVERVIEW, "tid": 1, **_span(phase.start_us, at), "args": args}


def _pid(kind: str, core: int) -> int:
    """A number for every core: a cube core before the vector cores beside it."""
    return 10 + 2 * core + (kind == "vector")


def _processes(timeline: Timeline, chosen: dict[str, list[int]]) -> Iterator[Record]:
    chip = timeline.plan.chip
    each = max(chip.cores.vector // max(chip.cores.cube, 1), 1)
    for kind, cores in chosen.items():
        pipes = {i.pipe for p in timeline.plan.phases if p.phase.core_kind == kind for i in p.phase.instructions()}
        for core in cores:
            pid = _pid(kind, core)
            order = 1 + (core * (each + 1) if kind == "cube" else core // each * (each + 1) + core % each + 1)
            yield from _named(pid, core_name(chip, kind, core), order)
            for pipe in sorted(pipes, key=lambda p: LANES[p][1]):
                yield from _thread(pid, LANES[pipe][1], LANES[pipe][0])


def _core(
    timeline: Timeline, plan: PhasePlan, spent: PhaseTime, core: int, tiles: int | None, arrows: Iterator[int]
) -> Iterator[Record]:
    """The slices, arrows and counters of one core in one phase."""
    kind = plan.phase.core_kind
    pid, us = _pid(kind, core), 1e6 / plan.chip.clock.hz(kind)
    events = list(timeline.events(spent.name, core, tiles))
    for event in events:
        yield {
            "ph": "X",
            "name": f"{event.op} {event.text.split(' = ', 1)[0]}",
            "cname": COLOURS[event.pipe],
            "pid": pid,
            "tid": LANES[event.pipe][1],
            **_span(spent.start_us + event.start_cycles * us, spent.start_us + event.end_cycles * us),
            "args": _args(event),
        }
    for event in events:
        for number in event.depends:
            yield from _arrow(next(arrows), events[number], event, pid, (spent.start_us, us))
    yield from _counters(plan, events, pid, spent, us)


def _args(event: Event) -> Record:
    args: Record = {
        "code": event.where,
        "detail": event.text,
        "cycles": event.cycles,
        "start_cycles": event.start_cycles,
        "bytes": event.bytes,
        "buffers": ", ".join(event.buffers),
        "phase": event.phase,
    }
    if event.tile:
        args["tile"] = ", ".join(f"{loop} {number}" for loop, number in event.tile)
    if event.waits_for:
        args["waits for"] = event.waits_for
    return args


def _arrow(number: int, source: Event, target: Event, pid: int, clock: tuple[float, float]) -> Iterator[Record]:
    """From within the last cycle of one slice to the first of another; a slice without length has no inside."""
    if not source.cycles or not target.cycles:
        return
    start_us, us = clock
    name = f"{LANES[source.pipe][0]}To{LANES[target.pipe][0]}"
    first = _span(start_us + source.start_cycles * us, start_us + source.end_cycles * us)
    out = {"name": "flow", "cat": name, "id": number, "pid": pid}
    inside = round(first["ts"] + max(first["dur"] - 0.001, 0.0), 3)
    yield {"ph": "s", **out, "tid": LANES[source.pipe][1], "ts": inside}
    yield {
        "ph": "f",
        "bp": "e",
        **out,
        "tid": LANES[target.pipe][1],
        "ts": _ns(start_us + target.start_cycles * us) / 1000,
    }


def _counters(plan: PhasePlan, events: Sequence[Event], pid: int, spent: PhaseTime, us: float) -> Iterator[Record]:
    """The bytes of each on-chip memory whose contents are still needed, and the rest of what is allocated."""
    homes = {buffer.name: home for buffer, home in plan.homes.items()}
    for memory in dict.fromkeys(home.space for home in homes.values()):
        mine = {name: home for name, home in homes.items() if home.space == memory}
        whole = sum(home.bytes * home.slots for home in mine.values())
        change: dict[int, int] = {0: 0}
        for name, start, end in occupied(events, {name: home.slots for name, home in mine.items()}):
            change[start] = change.get(start, 0) + mine[name].bytes
            change[end] = change.get(end, 0) - mine[name].bytes
        live = 0
        for cycles in sorted(change):
            live += change[cycles]
            args = {"in use": live, "allocated, not in use": whole - live}
            at = _ns(spent.start_us + cycles * us) / 1000
            yield {"ph": "C", "name": f"{memory} bytes", "pid": pid, "tid": 0, "ts": at, "args": args}
        end_us = _ns(spent.start_us + spent.time_us) / 1000
        none = {"in use": 0, "allocated, not in use": 0}
        yield {"ph": "C", "name": f"{memory} bytes", "pid": pid, "tid": 0, "ts": end_us, "args": none}


def occupied(events: Iterable[Event], slots: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """(buffer, start, end) [cycles] of every stay in a slot: from the write that takes it to its last use."""
    held: dict[str, deque[list[int]]] = {}
    for event in events:
        for name in event.buffers:
            if name not in slots:
                continue
            mine = held.setdefault(name, deque())
            if not mine or (event.fresh and name == event.buffers[0]):
                mine.appendleft([event.start_cycles, event.end_cycles])
                if len(mine) > slots[name]:
                    start, end = mine.pop()
                    yield name, start, end
            mine[0][1] = max(mine[0][1], event.end_cycles)
    for name, mine in held.items():
        for start, end in mine:
            yield name, start, end
