"""`tilesim sweep`: verdict and time over a grid of shapes, chips and figures of chips."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli.commands import EXIT_YES
from tilesim.cli.inputs import AsJson, ChipsDirectory, OperatorName, chip_of, directory_of
from tilesim.cli.tables import AsCsv, answer_table, refuse_two_forms
from tilesim.errors import BadInput

EXAMPLE = "tilesim sweep glu_backward self=8x64x128,8x64x256 --chip ascend950pr"


def sweep(
    op: OperatorName,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUES...",
            help="As for check, each with one value or several: H=16:4800:16 (stop included), self=2x4x6,2x4x8.",
            show_default=False,
        ),
    ] = None,
    chip: Annotated[
        list[str] | None, typer.Option("--chip", metavar="NAME", help="A chip; repeatable.", show_default=False)
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUES", help="Figures of the chips, such as cores.vector=24:48:12."),
    ] = None,
    chips: ChipsDirectory = None,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="DTYPES", help="One dtype or several.")] = None,
    checks_only: Annotated[
        bool, typer.Option("--check", metavar="", help="Only check, a thousand points a second; no tiles and times.")
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> int:
    """Tabulate verdict, slack, tiles, cycles and time over a grid of sizes, dtypes, chips and figures of chips."""
    from tilesim.analysis.ranges import parse_grid, parse_settings  # noqa: PLC0415
    from tilesim.analysis.sweep import sweep as swept  # noqa: PLC0415
    from tilesim.chip.chip import Chip  # noqa: PLC0415 - numpy and pydantic load when a command runs
    from tilesim.chip.loading import load_chip  # noqa: PLC0415 - numpy and pydantic load when a command runs
    from tilesim.ops import load_operator  # noqa: PLC0415

    refuse_two_forms(as_json=as_json, as_csv=as_csv)
    subjects: list[str] = []
    problems: list[str] = []
    operator, given, settings = None, {}, {}
    loaded: list[Chip] = []
    if not chip:
        try:
            chip_of(None, None, chips)
        except BadInput as error:
            subjects, problems = [error.subject], list(error.problems)
    for name in chip or ():
        try:
            loaded.append(load_chip(name, directory=directory_of(chips)))
        except BadInput as error:
            subjects, problems = [*subjects, error.subject], [*problems, *error.problems]
    try:
        operator = load_operator(op)
        given = parse_grid(operator, words or ())
    except BadInput as error:
        subjects, problems = [*subjects, error.subject], [*problems, *error.problems]
    try:
        settings = parse_settings(changes or ())
    except BadInput as error:
        subjects, problems = [*subjects, error.subject], [*problems, *error.problems]
    if problems or operator is None:
        raise BadInput(" and ".join(dict.fromkeys(subjects)), problems)
    kinds = dtype.split(",") if dtype is not None else None
    made = swept(operator, given, chips=loaded, dtype=kinds, set=settings, times=not checks_only)
    answer_table(made, as_json=as_json, as_csv=as_csv)
    return EXIT_YES


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: {EXAMPLE}")(sweep)
