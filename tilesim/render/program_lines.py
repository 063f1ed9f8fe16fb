"""Recorded program of a phase with the cycles of every instruction, as data: the lines of `explain`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilesim.planning.phase_plan import PhasePlan
from tilesim.program.dependences import first, is_pattern, tour
from tilesim.program.isa import REGISTERS
from tilesim.program.loop_nest import Nest, Step, TileRun
from tilesim.program.recorder import Instr, Loop
from tilesim.program.signatures import text
from tilesim.program.sizes import Variable
from tilesim.simulation.timeline import PhaseTime, Timeline

INSTRUCTION: Final = "instruction"
LOOP: Final = "loop"
TILE: Final = "tile"
"""Kinds of lines: an instruction, the head of a loop, and below its body the cycles of one tile."""
CAUSES = 3
"""Causes of waiting that are listed, at most."""
LEAST_CAUSE = 0.01
"""Share of the waiting from which a cause is listed."""


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """Line of the program. `cycles` are those of each busy pipe, `depth` is the number of loops around it."""

    kind: str
    text: str
    depth: int
    op: str
    pipe: str
    cycles: Mapping[str, int]
    where: str
    """File:line of the author; "" for the sum of a tile."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data: of an instruction its cycles, of a tile those of each pipe."""
        return {
            "kind": self.kind,
            "text": self.text,
            "depth": self.depth,
            "op": self.op or None,
            "pipe": self.pipe or None,
            "cycles": self.cycles.get(self.pipe) if self.kind == INSTRUCTION else None,
            "busy_cycles": dict(self.cycles),
            "where": self.where or None,
        }


@dataclass(frozen=True, slots=True)
class ListedBuffer:
    """Buffer of a phase. `share` is that of the visible memory, None in registers."""

    name: str
    memory: str
    space: str
    shape: str
    sizes: tuple[int, ...]
    dtype: str
    slots: int
    bytes: int
    share: float | None
    static: bool
    reserved: bool

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        names = ("name", "memory", "shape", "dtype", "slots", "bytes", "share", "static", "reserved")
        return {name: getattr(self, name) for name in names} | {"sizes": list(self.sizes)}


class ListedPhase:
    """Listing of one phase."""

    def __init__(self, plan: PhasePlan, spent: PhaseTime, timeline: Timeline) -> None:
        self.plan, self.spent, self.timeline = plan, spent, timeline
        self.pipes = tuple(spent.busy_cycles)

    @functools.cached_property
    def steps(self) -> Mapping[Instr, Step]:
        """Instructions with the sizes of their first execution on the slowest core."""
        out: dict[Instr, Step] = {}
        for item, _ in tour(self.plan.slowest, first(1)):
            if isinstance(item, Step):
                out.setdefault(item.instr, item)
        return out

    @functools.cached_property
    def lines(self) -> tuple[ProgramLine, ...]:
        """Lines of the program."""
        return tuple(self._body(self.plan.phase.body, 1))

    @property
    def causes(self) -> dict[str, float]:
        """Causes that the longest pipe waits for -> share of its waiting; empty where waiting does not bound it."""
        causes = self.timeline.waits(self.spent.name) if self.spent.waiting else {}
        return dict([(c, p) for c, p in causes.items() if p > LEAST_CAUSE][:CAUSES])

    @property
    def buffers(self) -> list[ListedBuffer]:
        """Buffers, the largest first."""
        listed = []
        for buffer, home in sorted(self.plan.homes.items(), key=lambda item: -item[1].bytes * item[1].slots):
            sizes = tuple(int(s.bind(self.plan.sizes)) for s in buffer.allocated)
            taken = home.bytes * home.slots
            visible = 0 if buffer.space == REGISTERS else self._visible(buffer.space)
            listed.append(
                ListedBuffer(
                    name=buffer.name,
                    memory=buffer.pool or home.space,
                    space=home.space,
                    shape=text(buffer.allocated),
                    sizes=sizes,
                    dtype=buffer.dtype,
                    slots=home.slots,
                    bytes=taken,
                    share=taken / visible if visible else None,
                    static=buffer.static,
                    reserved=buffer.reserved,
                )
            )
        return listed

    @property
    def memories(self) -> dict[str, tuple[int, int]]:
        """Memory -> (bytes of its buffers, visible bytes)."""
        out = {}
        for memory in dict.fromkeys(home.space for home in self.plan.homes.values()):
            if memory != REGISTERS:
                used = sum(h.bytes * h.slots for h in self.plan.homes.values() if h.space == memory)
                out[memory] = (used, self._visible(memory))
        return out

    def to_json(self) -> dict[str, Any]:
        """Return the listing as plain data."""
        plan, spent = self.plan, self.spent
        return {
            "name": spent.name,
            "note": plan.phase.note,
            "core_kind": spent.core_kind,
            "cores": spent.cores,
            "lines": [line.to_json() for line in self.lines],
            "totals": dict(spent.busy_cycles),
            "cycles": spent.cycles,
            "time_us": round(spent.time_us, 6),
            "bound": spent.bound,
            "waits_for": self.causes,
            "idle_share": round(spent.idle_share, 6),
            "read_bytes": spent.read_bytes,
            "write_bytes": spent.write_bytes,
            "tiles": dict(plan.tiles),
            "reasons": dict(plan.reasons),
            "buffers": [buffer.to_json() for buffer in self.buffers],
            "memories": {m: {"used_bytes": used, "visible_bytes": has} for m, (used, has) in self.memories.items()},
        }

    def _visible(self, memory: str) -> int:
        return self.plan.chip.memory.on_chip(memory).visible_bytes

    def _body(self, body: Sequence[Instr | Loop], depth: int) -> Iterator[ProgramLine]:
        for node in body:
            if isinstance(node, Instr):
                step = self.steps.get(node)
                cycles = {} if step is None else {node.pipe: self.plan.scheduler.timed(step).cycles}
                yield ProgramLine(INSTRUCTION, str(node), depth, node.op, node.pipe, cycles, node.where)
                continue
            yield ProgramLine(LOOP, self._head(node), depth, "", "", {}, node.where)
            yield from self._body(node.body, depth + 1)
            run = _first_run(self.plan.slowest, node)
            if run is not None and len(node.body) > 1:
                busy = self.plan.scheduler.busy(run.body)
                yield ProgramLine(TILE, f"= a tile of {node.name}", depth + 1, "", "", dict(busy), "")

    def _head(self, loop: Loop) -> str:
        """Return the head of a loop: its axis, tiles and tail on the slowest core."""
        tiles = tiles_of(self.plan.slowest, loop)
        count = sum(times for times, _ in tiles)
        if len(tiles) > 2 + bool(loop.halo):
            runs = f"{count:,} tiles of up to {max((size for _, size in tiles), default=0):,}"
        else:
            runs = " + ".join(f"{times:,} x {size:,}" for times, size in tiles) or "nothing"
        shared = f", {loop.split} over cores" if loop.split else ""
        return f"for {loop.name} in {loop.extent}: {runs}{shared}"


def listed_phases(timeline: Timeline) -> list[ListedPhase]:
    """Return the listings of all phases."""
    pairs = zip(timeline.plan.phases, timeline.phases, strict=True)
    return [ListedPhase(plan, spent, timeline) for plan, spent in pairs]


def tiles_of(nest: Nest, loop: Loop) -> list[tuple[int, int]]:
    """Return (tiles, size of each) of the first run of a loop in a nest, equal neighbours combined."""
    runs = [item for item in nest if isinstance(item, TileRun) and item.loop is loop]
    if not runs:
        inner = (tiles_of(item.body, loop) for item in nest if isinstance(item, TileRun))
        return next((tiles for tiles in inner if tiles), [])
    out: list[tuple[int, int]] = []
    for run in runs:
        parts = tiles_of(run.body, loop) if is_pattern(run) else [(1, _size(run, loop))]
        parts = [(run.times * times, size) for times, size in parts] if len(parts) == 1 else parts * run.times
        for times, size in parts:
            if out and out[-1][1] == size:
                out[-1] = (out[-1][0] + times, size)
            else:
                out.append((times, size))
    return out


def _size(run: TileRun, loop: Loop) -> int:
    """Return the elements of a tile, from its first instruction; 0 without instructions."""
    for item in run.body:
        if isinstance(item, Step):
            return int(item.sizes[Variable(loop.name, "size")])
        inner = _size(item, loop)
        if inner:
            return inner
    return 0


def _first_run(nest: Nest, loop: Loop) -> TileRun | None:
    """Return the first tile of a loop in a nest, patterns included; None without one."""
    for item in nest:
        if isinstance(item, TileRun):
            if item.loop is loop and not is_pattern(item):
                return item
            inner = _first_run(item.body, loop)
            if inner is not None:
                return inner
    return None
