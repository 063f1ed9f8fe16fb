"""`tilesim sweep`: verdict and time over a grid of shapes, chips and chip parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tilesim.analysis.ranges import parse_grid, parse_settings
from tilesim.analysis.sweep import sweep as swept
from tilesim.cli.group import EXIT_YES
from tilesim.cli.question import App, AsJson, ChipNames, ChipsDirectory, OperatorName, Problems, chips_of
from tilesim.cli.tables import AsCsv, answer_table, refuse_two_forms
from tilesim.ops import load_operator

app = App()


@dataclass(frozen=True, kw_only=True)
class SweepQuestion:
    """Question about every combination of several sizes, dtypes, chips and values of chip parameters."""

    op: OperatorName
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUES...",
            help="As for check, each with one value or several: H=16:4800:16 (stop included), self=2x4x6,2x4x8.",
            show_default=False,
        ),
    ] = None
    chip: ChipNames = None
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUES", help="Chip parameters, such as cores.vector=24:48:12."),
    ] = None
    chips: ChipsDirectory = None
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="DTYPES", help="One dtype or several.")] = None


@app.command(example="tilesim sweep glu_backward self=8x64x128,8x64x256 --chip ascend950pr")
def sweep(
    question: SweepQuestion,
    checks_only: Annotated[
        bool,
        typer.Option("--check", metavar="", help="Check only, without tiles and times; a thousand points a second."),
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> int:
    """Tabulate verdict, slack, tiles, cycles and time over a grid of sizes, dtypes, chips and chip parameters."""
    refuse_two_forms(as_json=as_json, as_csv=as_csv)
    problems = Problems()
    chips = chips_of(question.chip, None, question.chips, problems)
    operator = problems.result_of(lambda: load_operator(question.op))
    given = None if operator is None else problems.result_of(lambda: parse_grid(operator, question.words or ()))
    settings = problems.result_of(lambda: parse_settings(question.changes or ()))
    problems.refuse()
    if operator is None or given is None or settings is None:
        raise AssertionError
    kinds = question.dtype.split(",") if question.dtype is not None else None
    rows = swept(operator, given, chips=chips, dtype=kinds, set=settings, times=not checks_only)
    answer_table(rows, as_json=as_json, as_csv=as_csv)
    return EXIT_YES
