"""A table of the library on the screen, as CSV or as JSON."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tilesim.analysis.table import Table, shown
from tilesim.cli.console import TextColumn, emit, line, raw, table
from tilesim.errors import BadInput

PROSE: Final = ("tiles", "bound", "reason", "slots", "tightest")
"""Columns whose words may be broken."""

AsCsv = Annotated[bool, typer.Option("--csv", metavar="", help="Print CSV.")]


def answer_table(made: Table, *, as_json: bool, as_csv: bool, notes: int | None = None) -> None:
    """Print a table in the form that was asked for; of its notes people get the first `notes`, or all."""
    if as_json:
        emit(made.to_json())
    elif as_csv:
        raw(made.to_csv())
    else:
        line(made.title, "bold")
        for note in made.notes[:notes]:
            line(note)
        line()
        show_rows(made)


def refuse_two_forms(*, as_json: bool, as_csv: bool) -> None:
    """Raise BadInput if two forms of output were asked for, before anything is computed."""
    if as_json and as_csv:
        raise BadInput("output", ["--json and --csv are both given, only one can be printed"])


def show_rows(made: Table) -> None:
    """Print the rows for people; columns in which no row says anything are left out."""
    columns = [
        TextColumn(one.short, number=number, prose=one.name in PROSE) for _, one, number in made.nonempty_columns
    ]
    table(columns, [[shown(row[place]) for place, *_ in made.nonempty_columns] for row in made.rows])
