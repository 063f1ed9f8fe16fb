"""Timeline as a trace for Perfetto, chrome://tracing and MindStudio Insight.

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
"""Pipe -> (the vendor's name of its lane, its place in the order of lanes)."""
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
"""Default limit of instructions in a trace: about 15 MB, which every viewer opens."""
MOST_CORES = 4
"""Default limit of cores of one kind in a trace."""
OVERVIEW = 1
"""Process id of launch, phases and syncs."""

Record = dict[str, Any]


def trace(
    what: Timeline | Plan,
    *,
    tiles: int | None = None,
    cores: Sequence[int] | None = None,
    most_events: int = MOST_EVENTS,
) -> Record:
    """Return the trace as plain data, in the JSON object format of Chrome traces.

    With `tiles`, it has that many tiles of every loop at its start, in its middle and at its end, and its tail;
    without, the complete run if it has at most `most_events` instructions, else the widest windows that do. `cores` are
    numbers of cores of either kind; without, one core of every distinct share. "otherData" states what is omitted.
    """
    timeline = what if isinstance(what, Timeline) else timeline_of(what)
    phases = timeline.plan.phases
    chosen = {kind: _cores(phases, kind, cores) for kind in dict.fromkeys(p.phase.core_kind for p in phases)}

    pairs = [(p, core) for p in phases for core in chosen[p.phase.core_kind]]
    window = widest(pairs, most_events) if tiles is None else tiles
    kept, total = (sum(event_count(p, core, w) for p, core in pairs) for w in (window, None))
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
            "left out": _left_out(window, kept, total, phases, chosen),
        },
    }


def write_trace(
    path: str | Path, what: Timeline | Plan, *, tiles: int | None = None, most_events: int = MOST_EVENTS
) -> Path:
    """Write the trace, completely or not at all, and return the path. Raises BadInput if it cannot be written."""
    data = trace(what, tiles=tiles, most_events=most_events)
    return write_text(path, json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n")


def core_name(chip: Chip, core_kind: str, core: int) -> str:
    """Return the vendor's name of a core: core0.veccore1 is the second vector core beside cube core 0."""
    if core_kind == "cube":
        return f"core{core}.cubecore0"
    group, number = divmod(core, _vector_cores_per_cube_core(chip))
    return f"core{group}.veccore{number}"


def _vector_cores_per_cube_core(chip: Chip) -> int:
    return max(chip.cores.vector // max(chip.cores.cube, 1), 1)


def _cores(phases: Sequence[PhasePlan], kind: str, wanted: Sequence[int] | None) -> list[int]:
    used = max(p.cores for p in phases if p.phase.core_kind == kind)
    if wanted is not None:
        return sorted({core for core in wanted if 0 <= core < used})
    leaders = {leader for p in phases if p.phase.core_kind == kind for _, leader, _ in p.nests}
    return sorted(leaders)[:MOST_CORES]


def _left_out(
    window: int | None, kept: int, total: int, phases: Sequence[PhasePlan], chosen: dict[str, list[int]]
) -> str:
    parts = []
    if window is not None and kept < total:
        parts.append(
            f"{total - kept:,} of {total:,} instructions: every loop has {several(window, 'tile')} "
            "at its start, in its middle and at its end"
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
    """Yield launch, phases and syncs as slices of one process."""
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
    """Return the process id of a core; a cube core comes before the vector cores beside it."""
    return 10 + 2 * core + (kind == "vector")


def _processes(timeline: Timeline, chosen: dict[str, list[int]]) -> Iterator[Record]:
    chip = timeline.plan.chip
    each = _vector_cores_per_cube_core(chip)
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
    """Yield the slices, arrows and counters of one core in one phase."""
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
    """Yield an arrow from the last cycle of one slice to the first of another; none for a slice without length."""
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
    """Yield the bytes of each on-chip memory whose contents are still needed, and those allocated but not needed."""
    homes = {buffer.name: home for buffer, home in plan.homes.items()}
    for memory in dict.fromkeys(home.space for home in homes.values()):
        here = {name: home for name, home in homes.items() if home.space == memory}
        allocated = sum(home.bytes * home.slots for home in here.values())
        change: dict[int, int] = {0: 0}
        for name, start, end in occupied(events, {name: home.slots for name, home in here.items()}):
            change[start] = change.get(start, 0) + here[name].bytes
            change[end] = change.get(end, 0) - here[name].bytes
        live = 0
        for cycles in sorted(change):
            live += change[cycles]
            args = {"in use": live, "allocated, not in use": allocated - live}
            at = _ns(spent.start_us + cycles * us) / 1000
            yield {"ph": "C", "name": f"{memory} bytes", "pid": pid, "tid": 0, "ts": at, "args": args}
        end_us = _ns(spent.start_us + spent.time_us) / 1000
        none = {"in use": 0, "allocated, not in use": 0}
        yield {"ph": "C", "name": f"{memory} bytes", "pid": pid, "tid": 0, "ts": end_us, "args": none}


def occupied(events: Iterable[Event], slots: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """Yield (buffer, start, end) [cycles] of every use of a slot, from the write that takes it to its last use."""
    held: dict[str, deque[list[int]]] = {}
    for event in events:
        for name in event.buffers:
            if name not in slots:
                continue
            spans = held.setdefault(name, deque())
            if not spans or (event.fresh and name == event.buffers[0]):
                spans.appendleft([event.start_cycles, event.end_cycles])
                if len(spans) > slots[name]:
                    start, end = spans.pop()
                    yield name, start, end
            spans[0][1] = max(spans[0][1], event.end_cycles)
    for name, spans in held.items():
        for start, end in spans:
            yield name, start, end
