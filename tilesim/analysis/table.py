"""Table of results: named columns with units and rows of plain values, as data or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tilesim.late_binding import Shown

Cell = str | int | float | bool | None
"""Value of a cell; None if it does not apply, such as the time of a call that does not fit."""

ACCURACY: Final = "accuracy"
"""Name of the column with the accuracy of the times of a row."""


@dataclass(frozen=True)
class Column:
    """Column: its name, the unit of its numbers ("" if they have none), and its meaning."""

    name: str
    unit: str = ""
    about: str = ""

    @property
    def head(self) -> str:
        """Name with unit, as a heading."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def short(self) -> str:
        """Name, with its unit unless the name implies the unit or the unit is elements."""
        implied = ("", "elements", self.name, self.name.rpartition("_")[2], self.name.partition(".")[0])
        return self.name if self.unit in implied else self.head


@dataclass(frozen=True)
class Table(Shown):
    """Rows under columns, and notes on all rows.

    >>> table = Table("limits", (Column("H", "elements"), Column("verdict")), ((4784, "fits"), (4816, "overflow")))
    >>> table["verdict"], len(table)
    (('fits', 'overflow'), 2)
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        """Iterate over the rows, each a dict by the names of the columns."""
        names = self.names
        return (dict(zip(names, row, strict=True)) for row in self.rows)

    def __getitem__(self, name: str) -> tuple[Cell, ...]:
        """Return the cells of one column, top to bottom. Raises KeyError."""
        if name not in self.names:
            raise KeyError(f"no column {name!r}; there are: {', '.join(self.names)}")
        place = self.names.index(name)
        return tuple(row[place] for row in self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def nonempty_columns(self) -> tuple[tuple[int, Column, bool], ...]:
        """(place, column, True if it has numbers) of every column with a cell that is not empty.

        The column of the accuracy is not among them, since a note states it.
        """
        columns = []
        for place, column in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            if column.name != ACCURACY and any(cell not in (None, "") for cell in cells):
                number = any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
                columns.append((place, column, number))
        return tuple(columns)

    def to_json(self) -> dict[str, Any]:
        """Return title, columns, rows by name and notes as plain data."""
        return {
            "title": self.title,
            "columns": [{"name": c.name, "unit": c.unit or None, "about": c.about or None} for c in self.columns],
            "rows": [{name: _short(cell) for name, cell in row.items()} for row in self],
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """Return the rows as CSV under a line of names; a cell that is None is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows([_in_csv(cell) for cell in row] for row in self.rows)
        return out.getvalue()


def table_of(title: str, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], notes: Iterable[str] = ()) -> Table:
    """Return the table of rows whose cells are in the order of `columns`."""
    return Table(title, tuple(columns), tuple(tuple(row) for row in rows), tuple(notes))


def shown(cell: Cell) -> str:
    """Return the text of a cell for a screen.

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


def _short(cell: Cell) -> Cell:
    """Return a cell, a float rounded to the digits that carry information."""
    return round(cell, 6) if isinstance(cell, float) and abs(cell) < 1e9 else cell


def _in_csv(cell: Cell) -> Cell:
    return str(cell).lower() if isinstance(cell, bool) else "" if cell is None else _short(cell)
