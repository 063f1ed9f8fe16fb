"""`tilesim whatif`: other values of chip parameters, sensitivities of the time, and the least sufficient value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from tilesim.analysis.ranges import parse_settings
from tilesim.analysis.sensitivity import sensitivity_of
from tilesim.analysis.solve import solve_of
from tilesim.analysis.whatif import whatif_of
from tilesim.cli.console import emit, line
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import App, AsJson, PlanQuestion, noted
from tilesim.cli.tables import AsCsv, answer_table, refuse_two_forms
from tilesim.cli.verdict import refusals_answered
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import verdict_of
from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.plan import plan_of
from tilesim.render.plot import sweep_curves, tornado, write_figure

app = App()


@dataclass(frozen=True, kw_only=True)
class WhatIfQuestion(PlanQuestion):
    """Question about a call on a chip with other values of its parameters."""

    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUES", help="Parameters to vary, such as memory.ub.size_bytes=131072,196608."
        ),
    ] = None


@app.command(example="tilesim whatif glu_backward self=8x64x128 --chip ascend950pr")
def whatif(
    question: WhatIfQuestion,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            metavar="",
            help="Rank the parameters that the time depends on, each by 10 %; default without --set.",
        ),
    ] = False,
    solve: Annotated[
        str | None,
        typer.Option("--solve", metavar="KEY", help="Find the least value of a parameter with which the call fits."),
    ] = None,
    time_us: Annotated[
        float | None, typer.Option("--time-us", metavar="US", help="With --solve: the least value for this time.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="List the parameters without effect and those not varied, too.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Plot the table: curves, or sensitivities (.svg, .png or .pdf)."),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> int:
    """Vary parameters of a chip, rank those that the time depends on (without --set), or find the least value."""
    refuse_two_forms(as_json=as_json, as_csv=as_csv)
    changes = question.changes
    problems = []
    if changes and solve is not None:
        problems.append("--set and --solve are both given, only one question can be answered")
    if sensitivity and (changes or solve is not None):
        problems.append(
            f"--sensitivity and {'--set' if changes else '--solve'} are both given, only one question can be answered"
        )
    if time_us is not None and solve is None:
        problems.append("--time-us is given without --solve KEY")
    if as_csv and solve is not None:
        problems.append("--csv is given with --solve, whose answer is not a table")
    if plot is not None and solve is not None:
        problems.append("--plot is given with --solve, whose answer is not a table")
    if problems:
        raise BadInput("whatif", problems)
    call, chip = replace(question, changes=None).call_and_chip()
    sizes = question.tile_sizes()
    verdict = verdict_of(call, noted(chip))
    if solve is not None:
        answer = solve_of(verdict, solve, time_us, sizes)
        trust = {} if time_us is None else {"accuracy": str(known_accuracy(call, chip, sizes))}
        if as_json:
            emit(answer.to_json() | trust)
        else:
            line(str(answer))
            for name, text in trust.items():
                line(f"{name}: {text}")
        return EXIT_YES if answer.ok else EXIT_NO
    with refusals_answered(as_json=as_json):
        settings = parse_settings(changes or ())
        table = whatif_of(verdict, settings, sizes) if settings else sensitivity_of(plan_of(verdict, sizes))
    if plot is not None:
        write_figure(sweep_curves(table) if settings else tornado(table), plot)
    short = not settings and not everything
    answer_table(table, as_json=as_json, as_csv=as_csv, notes=2 if short else None)
    if short and not (as_json or as_csv):
        line("the other parameters have no effect here or were not varied: --all")
    return EXIT_YES
