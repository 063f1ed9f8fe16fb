"""Recorded program as text, with the cycles of every instruction: the output of `explain`.

A line for each instruction, a column for each pipe, loops indented with their tiles; then the bound of the phase and
its buffers. The text depends only on the plan and the width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilesim.planning.plan import Plan
from tilesim.render.program_lines import ListedBuffer, ListedPhase, listed_phases
from tilesim.simulation.timeline import Timeline
from tilesim.text import GAP, TextColumn, blocks, several, wrapped

CODE, COLUMN = 64, 11
"""Letters of the code and of a pipe's cycles without a limit of the width."""
LEAST_CODE = 24
"""Letters of the code on the narrowest terminal."""
HANG = 4
"""Letters by which continued code is indented more."""


def listing(timeline: Timeline, *, where: bool = True, width: int | None = None) -> list[str]:
    """Return the lines of the listing: every phase, then the times of the launch. `where` adds file:line of each.

    With `width`, longer lines continue in another, broken at spaces; without, long code ends in an ellipsis.
    """
    plan = timeline.plan
    lines = wrapped(f"{plan.kernel.name} on {plan.chip.name}, {plan.kernel.dtype}: {_dims(plan)}", width)
    for phase in listed_phases(timeline):
        lines += ["", *_Text(phase, where=where, width=width).lines()]
    if not plan.phases:
        lines += ["", "nothing is launched"]
    return [line.rstrip() for line in [*lines, "", *_times(timeline, width)]]


def listing_json(timeline: Timeline) -> dict[str, Any]:
    """Return the listing as plain data: phases with lines, totals and buffers, then the times; `lines` is its text."""
    plan = timeline.plan
    return {
        "operator": plan.operator.name,
        "chip": plan.chip.name,
        "dims": dict(plan.call.dims),
        "dtype": plan.call.dtype,
        "options": dict(plan.call.options),
        "route": plan.route,
        "phases": [phase.to_json() for phase in listed_phases(timeline)],
        "cycles": timeline.cycles,
        "time_us": round(timeline.time_us, 6),
        "launch_us": round(timeline.launch_us, 6),
        "sync_us": round(timeline.sync_us, 6),
        "totals": dict(timeline.busy_cycles),
        "bottleneck": timeline.bottleneck,
        "estimate": timeline.estimate,
        "lines": listing(timeline, where=False),
    }


class _Text:
    """Listing of one phase as lines."""

    def __init__(self, listed: ListedPhase, *, where: bool, width: int | None) -> None:
        self.listed, self.where, self.width = listed, where, width
        spent = [line.cycles for line in listed.lines] + [listed.spent.busy_cycles]
        widest = max((len(f"{cycles:,}") for each in spent for cycles in each.values()), default=0)
        needed = GAP + max([widest, *map(len, listed.pipes)])
        self.column = COLUMN if width is None else min(COLUMN, needed)
        room = CODE if width is None else width - self.column * len(listed.pipes)
        self.code = max(min(CODE, room), LEAST_CODE)

    def lines(self) -> Iterator[str]:
        """Yield all lines."""
        phase, spent, pipes = self.listed.plan.phase, self.listed.spent, self.listed.pipes
        note = f": {phase.note}" if phase.note else ""
        yield from self._wrapped(f"phase {phase.name}, {several(spent.cores, f'{spent.core_kind} core')}{note}")
        yield from self._row("", dict(zip(pipes, pipes, strict=True)))
        for line in self.listed.lines:
            cells = {pipe: f"{cycles:,}" for pipe, cycles in line.cycles.items()}
            yield from self._row("  " * line.depth + line.text, cells, line.where)
        yield from self._row("slowest core", {p: f"{c:,}" for p, c in spent.busy_cycles.items()})
        for text in self._facts():
            yield from self._wrapped(f"  {text}")
        yield ""
        yield from table(BUFFERS, [_buffer(b) for b in self.listed.buffers], self.width)
        for memory, (used, visible) in self.listed.memories.items():
            yield f"  {memory}: {used:,} of {visible:,} B, {used / visible:.1%}"

    def _row(self, code: str, cells: Mapping[str, str], where: str = "") -> Iterator[str]:
        if self.width is None:
            lines = [code if len(code) <= self.code else f"{code[: self.code - 1]}…"]
        else:
            lines = wrapped(code, self.code, HANG) if code else [""]
        columns = "".join(f"{cells.get(pipe, ''):>{self.column}}" for pipe in self.listed.pipes)
        first = f"{lines[0]:<{self.code}}{columns}"
        place = f"  {where}" if where and self.where else ""
        fits = self.width is None or len(first) + len(place) <= self.width
        yield f"{first}{place if fits else ''}"
        yield from lines[1:]
        if not fits and self.width is not None:
            yield place.rjust(self.width)

    def _facts(self) -> Iterator[str]:
        spent = self.listed.spent
        pipe, busy = spent.longest
        share = f"{pipe} busy {busy / spent.cycles:.1%}" if spent.cycles else "no work"
        yield f"{spent.cycles:,} cycles, {spent.time_us:,.3f} us; bound by {spent.bound} ({share})"
        for cause, part in self.listed.causes.items():
            yield f"{pipe} waits for {cause}: {part:.0%} of its waiting"
        if len(spent.shares) > 1:
            yield f"cycles of cores: {', '.join(f'{cores} cores {cycles:,}' for cycles, cores in spent.shares)}"
        yield f"{spent.idle_share:.1%} of the chip's {spent.chip_cores} {spent.core_kind} cores idle"
        bypassing = ", ".join(sorted(self.listed.plan.bypassing))
        note = f"; {bypassing} past the L2 cache" if bypassing else ""
        yield f"reads {spent.read_bytes:,} B, writes {spent.write_bytes:,} B of global memory{note}"
        for name, size in self.listed.plan.tiles.items():
            reason = self.listed.plan.reasons.get(name, "")
            yield f"tile {name} = {size:,}{f': {reason}' if reason else ''}"

    def _wrapped(self, text: str) -> list[str]:
        return wrapped(text, self.width)


BUFFERS = (
    TextColumn("buffer"),
    TextColumn("memory"),
    TextColumn("shape", prose=True),
    TextColumn("dtype"),
    TextColumn("slots", number=True),
    TextColumn("bytes", number=True),
    TextColumn("share", number=True),
    TextColumn("", prose=True),
)
TIMES = (
    TextColumn("phase", prose=True),
    TextColumn("cycles", number=True),
    TextColumn("us", number=True),
    TextColumn("share", number=True),
    TextColumn("bound", prose=True),
)


def table(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, each column as wide as its longest cell, numbers to the right."""
    indent = " " * GAP
    for number, block in enumerate(blocks(columns, rows, None if width is None else width - GAP)):
        if number:
            yield ""
        for row in block.rows:
            for i in range(max(map(len, row))):
                cells = []
                for place, size, lines in zip(block.places, block.widths, row, strict=True):
                    text = lines[i] if i < len(lines) else ""
                    cells.append(text.rjust(size) if columns[place].number else text.ljust(size))
                yield f"{indent}{indent.join(cells)}".rstrip()


def _buffer(b: ListedBuffer) -> tuple[str, ...]:
    shape = f"{b.shape} = {'x'.join(map(str, b.sizes)) or '1'}"
    share = "" if b.share is None else f"{b.share:.1%}"
    marks = " ".join(word for word, on in (("static", b.static), ("reserved", b.reserved)) if on)
    return b.name, b.memory, shape, b.dtype, str(b.slots), f"{b.bytes:,}", share, marks


def _dims(plan: Plan) -> str:
    return ", ".join(f"{name}={value}" for name, value in plan.call.env.items())


def _times(timeline: Timeline, width: int | None) -> Iterator[str]:
    def share(us: float) -> str:
        return f"{us / timeline.time_us:.1%}" if timeline.time_us else ""

    rows = [(p.name, f"{p.cycles:,}", f"{p.time_us:,.3f}", share(p.time_us), p.bound) for p in timeline.phases]
    rows.append(("launch", "", f"{timeline.launch_us:,.3f}", share(timeline.launch_us), ""))
    if timeline.sync_us:
        rows.append(("sync", "", f"{timeline.sync_us:,.3f}", share(timeline.sync_us), ""))
    rows.append(("all", f"{timeline.cycles:,}", f"{timeline.time_us:,.3f}", "", ""))
    yield "times"
    yield from table(TIMES, rows, width)
    yield from wrapped(f"bottleneck: {timeline.bottleneck}", width)
    yield from wrapped(timeline.estimate, width)
