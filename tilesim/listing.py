"""The recorded program as text, with what every instruction costs: what `explain` shows.

An instruction a line, a column a pipe, loops indented with their tiles; then what bounds the phase and its buffers. The
text depends on nothing but the plan.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from tilesim.flow import first, is_pattern, tour
from tilesim.isa import REGISTERS, text
from tilesim.nest import Nest, Run, Step
from tilesim.phase_plan import PhasePlan
from tilesim.plan import Plan
from tilesim.program import Instr, Loop
from tilesim.timeline import PhaseTime, Timeline, simulate
from tilesim.views import Buffer

CODE, COLUMN = 64, 11
"""Letters of the code and of a pipe's cycles."""
CAUSES = 3
"""How many things that a pipe waits for are worth a line."""
LEAST_CAUSE = 0.01
"""The share of the waiting from which one is."""


def listing(plan: Plan, *, where: bool = True) -> list[str]:
    """The lines of the listing: every phase, then the times of the launch. `where` adds file:line of each."""
    timeline = simulate(plan)
    lines = [f"{plan.kernel.name} on {plan.chip.name}, {plan.kernel.dtype}: {_dims(plan)}"]
    for one, spent in zip(plan.phases, timeline.phases, strict=True):
        lines += ["", *_Listed(one, spent, timeline, where=where).lines()]
    return [line.rstrip() for line in [*lines, "", *_times(timeline)]]


def tiles_of(nest: Nest, loop: Loop) -> list[tuple[int, int]]:
    """(tiles, size of each) of a loop the first time that a nest runs it, equal neighbours together."""
    found = [item for item in nest if isinstance(item, Run) and item.loop is loop]
    if not found:
        inner = (tiles_of(item.body, loop) for item in nest if isinstance(item, Run))
        return next((tiles for tiles in inner if tiles), [])
    out: list[tuple[int, int]] = []
    for run in found:
        parts = tiles_of(run.body, loop) if is_pattern(run) else [(1, _size(run, loop))]
        parts = [(run.times * times, size) for times, size in parts] if len(parts) == 1 else parts * run.times
        for times, size in parts:
            if out and out[-1][1] == size:
                out[-1] = (out[-1][0] + times, size)
            else:
                out.append((times, size))
    return out


def _size(run: Run, loop: Loop) -> int:
    """Elements of a tile, as the instructions in it know it; 0 if there are none."""
    for item in run.body:
        if isinstance(item, Step):
            return int(item.sizes[f"{loop.name}.size"])
        inner = _size(item, loop)
        if inner:
            return inner
    return 0


class _Listed:
    """The listing of one phase."""

    def __init__(self, plan: PhasePlan, spent: PhaseTime, timeline: Timeline, *, where: bool) -> None:
        self.plan, self.spent, self.timeline, self.where = plan, spent, timeline, where
        self.pipes = list(spent.busy_cycles)

    @functools.cached_property
    def steps(self) -> Mapping[Instr, Step]:
        """Every instruction with the sizes of its first execution on the slowest core."""
        out: dict[Instr, Step] = {}
        for item, _ in tour(self.plan.slowest, first(1)):
            if isinstance(item, Step):
                out.setdefault(item.instr, item)
        return out

    def lines(self) -> Iterator[str]:
        """All lines."""
        phase, spent = self.plan.phase, self.spent
        note = f": {phase.note}" if phase.note else ""
        yield f"phase {phase.name}, {spent.cores} {spent.core_kind} core{'s' * (spent.cores != 1)}{note}"
        yield self._row("", dict(zip(self.pipes, self.pipes, strict=True)))
        yield from self._body(phase.body, 1)
        yield self._row("slowest core", {p: f"{c:,}" for p, c in spent.busy_cycles.items()})
        yield from self._bound()
        yield from self._tiles()
        yield ""
        yield from self._buffers()

    def _row(self, code: str, cells: Mapping[str, str], where: str = "") -> str:
        shown = code if len(code) <= CODE else f"{code[: CODE - 1]}…"
        columns = "".join(f"{cells.get(pipe, ''):>{COLUMN}}" for pipe in self.pipes)
        return f"{shown:<{CODE}}{columns}{f'  {where}' if where and self.where else ''}"

    def _body(self, body: Sequence[Instr | Loop], depth: int) -> Iterator[str]:
        for node in body:
            if isinstance(node, Instr):
                step = self.steps.get(node)
                cycles = "" if step is None else f"{self.plan.scheduler.timed(step).cycles:,}"
                yield self._row("  " * depth + str(node), {node.pipe: cycles}, node.where)
                continue
            yield self._row("  " * depth + self._head(node), {}, node.where)
            yield from self._body(node.body, depth + 1)
            run = _first_run(self.plan.slowest, node)
            if run is not None and len(node.body) > 1:
                busy = self.plan.scheduler.busy(run.body)
                yield self._row("  " * (depth + 1) + f"= a tile of {node.name}", {p: f"{c:,}" for p, c in busy.items()})

    def _head(self, loop: Loop) -> str:
        """What a loop runs on the slowest core: its axis, tiles and tail."""
        tiles = tiles_of(self.plan.slowest, loop)
        count = sum(times for times, _ in tiles)
        if len(tiles) > 2 + bool(loop.halo):
            runs = f"{count:,} tiles of up to {max((size for _, size in tiles), default=0):,}"
        else:
            runs = " + ".join(f"{times:,} x {size:,}" for times, size in tiles) or "nothing"
        shared = f", {loop.split} over cores" if loop.split else ""
        return f"for {loop.name} in {loop.extent}: {runs}{shared}"

    def _bound(self) -> Iterator[str]:
        spent = self.spent
        pipe, busy = spent.longest
        share = f"{pipe} busy {busy / spent.cycles:.1%}" if spent.cycles else "no work"
        yield f"  {spent.cycles:,} cycles, {spent.time_us:,.3f} us; bound by {spent.bound} ({share})"
        causes = self.timeline.waits(spent.name) if spent.waiting else {}
        for cause, part in [(c, p) for c, p in causes.items() if p > LEAST_CAUSE][:CAUSES]:
            yield f"  {pipe} waits for {cause}: {part:.0%} of its waiting"
        if len(spent.shares) > 1:
            shares = ", ".join(f"{cores} cores {cycles:,}" for cycles, cores in spent.shares)
            yield f"  cycles of cores: {shares}"
        yield f"  {spent.idle_share:.1%} of the chip's {spent.chip_cores} {spent.core_kind} cores idle"
        yield f"  reads {spent.read_bytes:,} B, writes {spent.write_bytes:,} B of global memory"

    def _tiles(self) -> Iterator[str]:
        for name, size in self.plan.tiles.items():
            reason = self.plan.reasons.get(name, "")
            yield f"  tile {name} = {size:,}{f': {reason}' if reason else ''}"

    def _buffers(self) -> Iterator[str]:
        rows = [
            (
                buffer.name,
                buffer.pool or home.space,
                self._shape(buffer),
                buffer.dtype,
                str(home.slots),
                f"{home.bytes * home.slots:,}",
                self._share(buffer, home.bytes * home.slots),
                " ".join(w for w, on in (("static", buffer.static), ("reserved", buffer.reserved)) if on),
            )
            for buffer, home in sorted(self.plan.homes.items(), key=lambda item: -item[1].bytes * item[1].slots)
        ]
        yield from table(("buffer", "memory", "shape", "dtype", "slots", "bytes", "share", ""), rows, right={4, 5, 6})
        for memory in dict.fromkeys(home.space for home in self.plan.homes.values()):
            used = sum(h.bytes * h.slots for h in self.plan.homes.values() if h.space == memory)
            if memory != REGISTERS:
                visible = self.plan.chip.memory.on_chip(memory).visible_bytes
                yield f"  {memory}: {used:,} of {visible:,} B, {used / visible:.1%}"

    def _shape(self, buffer: Buffer) -> str:
        numbers = "x".join(str(s.bind(self.plan.sizes)) for s in buffer.allocated) or "1"
        return f"{text(buffer.allocated)} = {numbers}"

    def _share(self, buffer: Buffer, size: int) -> str:
        if buffer.space == REGISTERS:
            return ""
        return f"{size / self.plan.chip.memory.on_chip(buffer.space).visible_bytes:.1%}"


def _first_run(nest: Nest, loop: Loop) -> Run | None:
    """The first tile of a loop in a nest; a pattern is looked into."""
    for item in nest:
        if isinstance(item, Run):
            if item.loop is loop and not is_pattern(item):
                return item
            found = _first_run(item.body, loop)
            if found is not None:
                return found
    return None


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> Iterator[str]:
    """The lines of a table, columns as wide as they must be, those of `right` set to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        yield "  " + "  ".join(cells)


def _dims(plan: Plan) -> str:
    return ", ".join(f"{name}={value}" for name, value in plan.call.env.items())


def _times(timeline: Timeline) -> Iterator[str]:
    rows = [
        (p.name, f"{p.cycles:,}", f"{p.time_us:,.3f}", f"{p.time_us / timeline.time_us:.1%}", p.bound)
        for p in timeline.phases
    ]
    rows.append(("launch", "", f"{timeline.launch_us:,.3f}", f"{timeline.launch_us / timeline.time_us:.1%}", ""))
    if timeline.sync_us:
        rows.append(("sync", "", f"{timeline.sync_us:,.3f}", f"{timeline.sync_us / timeline.time_us:.1%}", ""))
    rows.append(("all", f"{timeline.cycles:,}", f"{timeline.time_us:,.3f}", "", ""))
    yield "times"
    yield from table(("phase", "cycles", "us", "share", "bound"), rows, right={1, 2, 3})
    yield f"bottleneck: {timeline.bottleneck}"
    yield timeline.estimate
