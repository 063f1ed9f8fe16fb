"""A table of the library on the screen, as CSV or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tilesim.cli.console import Column, emit, line, raw, table
from tilesim.errors import BadInput

if TYPE_CHECKING:
    from tilesim.table import Cell, Table

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
    told = [i for i, name in enumerate(made.names) if any(cell not in (None, "") for cell in made[name])]
    filled = [i for i in told if made.names[i] != "accuracy"]  # a note has it, for people
    columns = []
    for i in filled:
        column = made.columns[i]
        number = any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in made[column.name])
        columns.append(Column(_heading(column.name, column.unit), number=number, prose=column.name in PROSE))
    table(columns, [[shown(row[i]) for i in filled] for row in made.rows])


def shown(cell: Cell) -> str:
    """A cell as people read it.

    >>> shown(None), shown(1234), shown(1234.5678), shown(0.00123), shown(1.4e12), shown(True)
    ('', '1,234', '1,234.57', '0.0012', '1.4e+12', 'yes')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        size = abs(cell)
        return f"{cell:.4g}" if size >= 1e9 else f"{cell:.2g}" if 0 < size < 0.01 else f"{cell:,.2f}"
    return cell


def _heading(name: str, unit: str) -> str:
    """The name with its unit, unless it ends in it or counts elements."""
    return name if not unit or unit in ("elements", "cores", "cycles", "us") else f"{name} [{unit}]"
