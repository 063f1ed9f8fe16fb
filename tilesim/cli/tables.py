"""Table of the library on the screen, as CSV or as JSON."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tilesim.analysis.table import Table, shown
from tilesim.cli.console import TextColumn, emit, line, raw, table
from tilesim.errors import BadInput

PROSE: Final = ("tiles", "bound", "reason", "slots", "tightest")
"""Columns whose texts may be broken at words."""

AsCsv = Annotated[bool, typer.Option("--csv", metavar="", help="Print CSV.")]


def answer_table(answer: Table, *, as_json: bool, as_csv: bool, notes: int | None = None) -> None:
    """Print a table as text, JSON or CSV; the text has the first `notes` of its notes, or all."""
    if as_json:
        emit(answer.to_json())
    elif as_csv:
        raw(answer.to_csv())
    else:
        line(answer.title, "bold")
        for note in answer.notes[:notes]:
            line(note)
        line()
        _show_rows(answer)


def refuse_two_forms(*, as_json: bool, as_csv: bool) -> None:
    """Raise BadInput for two forms of output, before anything is computed."""
    if as_json and as_csv:
        raise BadInput("output", ["--json and --csv are both given, only one can be printed"])


def _show_rows(answer: Table) -> None:
    """Print the rows without empty columns."""
    columns = [
        TextColumn(column.short, number=number, prose=column.name in PROSE)
        for _, column, number in answer.nonempty_columns
    ]
    table(columns, [[shown(row[place]) for place, *_ in answer.nonempty_columns] for row in answer.rows])
