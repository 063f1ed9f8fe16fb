"""`tilesim plot`: plots of feasibility, memory and time as SVG, PNG or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from matplotlib.figure import Figure

from tilesim.analysis.ranges import parse_grid, parse_settings
from tilesim.analysis.sensitivity import sensitivity_of
from tilesim.analysis.sweep import sweep
from tilesim.cli.console import emit, line, size
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import App, AsJson, ChipsQuestion, PlanQuestion, Problems, chips_of
from tilesim.errors import BadInput, did_you_mean
from tilesim.feasibility.evaluate import passes
from tilesim.feasibility.verdict import verdict_of
from tilesim.ops import load_operator
from tilesim.planning.plan import plan_of
from tilesim.render import plot as plots
from tilesim.render.formats import format_of
from tilesim.render.plot import FORMATS, KINDS, write_figure

app = App()

SEVERAL: Final = ("sweep",)
"""Kinds that take lists and ranges of values, and several chips."""


@app.command(example="tilesim plot buffers glu_backward self=2x64x128 --chip ascend950pr --out b.svg")
def plot(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="region, buffers, gantt, roofline, sweep or tornado.", show_default=False),
    ],
    question: ChipsQuestion,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file: .svg, .png or .pdf.", show_default=False)
    ] = None,
    phase: Annotated[str, typer.Option("--phase", metavar="NAME", help="One phase only, for buffers and gantt.")] = "",
    x: Annotated[str, typer.Option("--x", metavar="NAME", help="A dim for region, a column for sweep.")] = "",
    y: Annotated[str, typer.Option("--y", metavar="NAME", help="A dim for region, a column for sweep.")] = "",
    as_json: AsJson = False,
) -> int:
    """Plot the region that fits, memories to scale, pipes, the roofline, a sweep, or sensitivities of the time."""
    problems = []
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f" there are: {', '.join(KINDS)}"
        problems.append(f"{kind!r} is not a kind of plot;{hint}")
    if out is None:
        problems.append("--out is missing; it ends in .svg, .png or .pdf")
    if kind not in SEVERAL and len(question.chip or ()) > 1:
        problems.append(f"{len(question.chip or ())} chips are given, {kind} takes one")
    if problems or out is None:
        raise BadInput("plot", problems)
    format_of(out, FORMATS)
    if kind == "sweep":
        figure, ok = _sweep(question, x, y), True
    else:
        figure, ok = _single(kind, question.on_one_chip(), phase, x, y)
    write_figure(figure, out)
    if as_json:
        emit({"kind": kind, "file": str(out), "bytes": out.stat().st_size, "ok": ok})
    else:
        line(f"written to {out}, {size(out.stat().st_size)}: {KINDS[kind]}")
    return EXIT_YES if ok else EXIT_NO


def _single(kind: str, question: PlanQuestion, phase: str, x: str, y: str) -> tuple[Figure, bool]:
    """Return the plot of one call on one chip, and True if the call passes. Raises a refusal without a plan."""
    call, chip = question.call_and_chip()
    if kind == "region":
        return plots.feasible_region(call, chip, x, y), passes(call, chip)
    plan = plan_of(verdict_of(call, chip), question.tile_sizes())
    if kind == "tornado":
        return plots.tornado(sensitivity_of(plan)), True
    if kind == "roofline":
        return plots.roofline(plan), plan.ok
    return (plots.buffer_map if kind == "buffers" else plots.gantt)(plan, phase), plan.ok


def _sweep(question: ChipsQuestion, x: str, y: str) -> Figure:
    """Return the curves of a sweep over lists and ranges of values."""
    operator = load_operator(question.op)
    problems = Problems()
    chips = chips_of(question.chip, None, question.chips, problems)
    problems.refuse()
    given, settings = parse_grid(operator, question.words or ()), parse_settings(question.changes or ())
    table = sweep(operator, given, chips=chips, dtype=question.dtype, set=settings, times=y != "slack")
    return plots.sweep_curves(table, y, x)
