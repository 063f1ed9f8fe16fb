"""`tilesim plan`: the tiles and the split over cores."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Final

import typer

from tilesim.analysis.search import Candidate, search_of, search_table
from tilesim.analysis.table import shown
from tilesim.cli.console import TextColumn, emit, fields, heading, line, percent, several, size, table
from tilesim.cli.planning import fusing_text, plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.cli.verdict import guessed_sizes, overridden_text, subject_text
from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.phase_plan import PhasePlan, core_shares, idle_share
from tilesim.planning.plan import Plan
from tilesim.program.loop_nest import split_loops

app = App()


@app.command(example="tilesim plan glu_backward self=2x4096x8192 --chip ascend950pr")
def plan(
    question: PlanQuestion,
    buffers: Annotated[bool, typer.Option("--buffers", metavar="", help="Show the addresses of all buffers.")] = False,
    search: Annotated[bool, typer.Option("--search", metavar="", help="Rank other tilings, with reasons.")] = False,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="With --search, show all tilings.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the split over cores, the tile sizes with their reasons, the workspace and the vendor's tiling data."""
    answer = plan_answer(question, as_json=as_json)
    if search:
        _answer_search(answer.plan, everything=everything, as_json=as_json)
    elif as_json:
        emit(answer.plan.to_json())
    else:
        show(answer.plan, buffers=buffers)
    return answer.code


def show(plan: Plan, *, buffers: bool = False) -> None:
    """Print a plan as text."""
    line(f"plan: {subject_text(plan.verdict)}", "bold")
    fields(_facts(plan))
    heading("cores and tiles")
    _phases(plan)
    _reasons(plan)
    if buffers:
        for phase in plan.phases:
            _buffers(phase)
    _workspace(plan)
    if plan.tiling_data is not None:
        heading("the vendor's tiling data")
        fields((name, plan.tiling_unknown.get(name, f"{value}")) for name, value in plan.tiling_data.items())
    elif plan.vendor and plan.vendor.data is not None:
        heading("no tiling data: the vendor's kernel has other tiles")


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "kernel", {"kernel": "the operator's own"}.get(plan.route, plan.route)
    fusing = fusing_text(plan)
    if fusing:
        yield "fusing", fusing
    if plan.by_hand:
        yield "by hand", ", ".join(f"{name}={value}" for name, value in plan.by_hand.items())
    yield "blocks", f"{plan.block_dim}"
    if plan.tiling_key is not None:
        yield "tiling key", f"{plan.tiling_key}"
    if plan.template is not None:
        yield "template", ", ".join(map(str, plan.template))
    if plan.ub_used_bytes:
        used, available = plan.ub_used_bytes, plan.ub_available_bytes
        yield "ub", f"{used:,} of {size(available)} used ({percent(used / available)}) by the fullest phase"
    yield "workspace", size(plan.workspace_bytes)
    if plan.chip.overridden:
        yield "set by hand", overridden_text(plan.verdict)
    guesses = guessed_sizes(plan.verdict)
    if guesses:
        yield "guesses", ", ".join(guesses)


def _phases(plan: Plan) -> None:
    columns = (
        TextColumn("phase", prose=True),
        TextColumn("cores", number=True),
        TextColumn("kind"),
        TextColumn("a core's share", prose=True),
        TextColumn("idle", number=True),
        TextColumn("tiles", prose=True),
    )
    rows = []
    for phase in plan.phases:
        kind = phase.phase.core_kind
        available = plan.chip.cores.cube if kind == "cube" else plan.chip.cores.vector
        tiles = ", ".join(f"{name} {value:,}" for name, value in phase.tiles.items())
        idle = percent(idle_share(phase))
        rows.append((phase.phase.name, f"{phase.cores} of {available}", kind, _shares(phase), idle, tiles))
    table(columns, rows)


def _shares(phase: PhasePlan) -> str:
    """Return the share of the busiest cores in each split axis, and the number of cores with less."""
    extents = {loop.name: int(loop.extent.bind(phase.sizes)) for loop, _ in split_loops(phase.phase)}
    shares = core_shares(phase)
    if not shares:
        return "nothing"
    first, *others = shares
    counts = {name: portion.elements for name, portion in first.portions.items()}
    split = {name: count for name, count in counts.items() if count < extents[name]} or counts
    text = ", ".join(f"{count:,} of {extents[name]:,} {name}" for name, count in split.items())
    return f"{text}; less on {sum(share.cores for share in others)}" if others else text


def _reasons(plan: Plan) -> None:
    """Print the reasons for the tiles, phases with the same reason together."""
    phases_of: dict[tuple[str, str], list[str]] = {}
    for phase in plan.phases:
        for reason in dict.fromkeys(phase.reasons.values()):
            tiles = ", ".join(tile for tile, why in phase.reasons.items() if why == reason)
            phases_of.setdefault((tiles, reason), []).append(f"'{phase.phase.name}'")
        if not phase.tiles and phase.phase.note:
            phases_of.setdefault(("no tiles", phase.phase.note), []).append(f"'{phase.phase.name}'")
    if phases_of:
        heading("reasons")
        for (tiles, reason), names in phases_of.items():
            of = f" of {', '.join(names)}" if len(plan.phases) > 1 else ""
            line(f"{tiles}{of}: {reason}")


def _buffers(phase: PhasePlan) -> None:
    heading(f"buffers of '{phase.phase.name}' [bytes]")
    columns = (
        TextColumn("space"),
        TextColumn("from", number=True),
        TextColumn("to", number=True),
        TextColumn("buffer"),
        TextColumn("slots", number=True),
        TextColumn("shape"),
        TextColumn("dtype"),
    )
    rows = []
    for buffer, home in sorted(phase.homes.items(), key=lambda item: (item[1].space, item[1].offset)):
        shape = "x".join(str(size.bind(phase.sizes)) for size in buffer.allocated) or "1"
        end = home.offset + home.bytes * home.slots
        space = f"{home.space} ({buffer.pool})" if buffer.pool else home.space
        rows.append((space, home.offset, end, buffer.name, home.slots, shape, buffer.dtype))
    table(columns, rows)


def _workspace(plan: Plan) -> None:
    if not plan.workspace:
        return
    heading(f"workspace [bytes], {several(len(plan.workspace), 'tensor')} between phases")
    columns = (TextColumn("tensor"), TextColumn("from", number=True), TextColumn("bytes", number=True))
    table(columns, [(name, at, count) for name, (at, count) in plan.workspace.items()])


SHOWN_RANKED: Final = 6
"""Timed tilings of a phase on a screen, at most."""


SHOWN_REJECTED: Final = 3
"""Tilings rejected for their longest pipe, and for their bytes, at most."""


def _answer_search(plan: Plan, *, everything: bool, as_json: bool) -> None:
    """Print the candidates of every phase of a plan."""
    candidates = search_of(plan)
    total, trust = search_table(candidates).notes[0], str(known_accuracy(plan.call, plan.chip, plan.by_hand))
    if as_json:
        rows = [candidate.to_json() for candidate in candidates]
        emit({"ok": plan.verdict.ok, "summary": total, "accuracy": trust, "candidates": rows})
        return
    line(total, "bold")
    line(f"accuracy: {trust}")
    for phase, group in groupby(candidates, key=lambda candidate: candidate.phase):
        heading(phase)
        _phase(list(group), everything=everything)


def _phase(candidates: list[Candidate], *, everything: bool) -> None:
    ranked = [c for c in candidates if c.rank is not None]
    rejected = [c for c in candidates if c.rank is None]
    if not everything:
        # A few of each kind are more informative than many of the first.
        late = [c for c in rejected if c.bound_cycles is not None][:SHOWN_REJECTED]
        large = [c for c in rejected if c.bound_cycles is None][:SHOWN_REJECTED]
        chosen = [c for c in ranked[SHOWN_RANKED:] if c.chosen]
        ranked, rejected = ranked[:SHOWN_RANKED] + chosen, late + large
    columns = (
        TextColumn("", number=True),
        TextColumn("tiles", prose=True),
        TextColumn("slots", prose=True),
        TextColumn("cores", number=True),
        TextColumn("cycles", number=True),
        TextColumn("reason", prose=True),
    )
    rows = [
        (
            shown(c.rank) or "-",
            ", ".join(f"{name} {size:,}" for name, size in c.tiles.items()),
            c.slots,
            f"{c.cores:,} = {c.grid}" if " x " in c.grid else c.cores,
            shown(c.cycles),
            c.reason,
        )
        for c in (*ranked, *rejected)
    ]
    table(columns, rows)
    more = len(candidates) - len(rows)
    if more:
        line(f"and {more} more: --all")
