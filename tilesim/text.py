"""Text laid out in a number of columns: sentences and tables that never break a word or a number."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

GAP: Final = 2
"""Characters between the columns of a table."""
USUAL: Final = 0.9
"""The share of cells that fit a column of prose before any column gets room for its longest cell."""
TIED: Final = "\N{NO-BREAK SPACE}"
"""A space at which no line may end; it is laid out as a space."""


class TextColumn(NamedTuple):
    """A column of a table. Numbers stand to the right and are never broken, nor are names; prose may be, at spaces."""

    title: str
    number: bool = False
    prose: bool = False
    last: bool = False
    """True for a column of prose that is broken after the others."""


class TextBlock(NamedTuple):
    """Columns of a table that lie side by side: their places, widths and the lines of every cell, the titles first."""

    places: tuple[int, ...]
    widths: tuple[int, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]


def wrapped(text: str, width: int | None, hang: int = 2) -> list[str]:
    """Return the lines of a text in `width` columns, continuation lines indented by `hang` more; long words stay whole.

    >>> wrapped("  needs 133,120 B of ub", 14)
    ['  needs', '    133,120 B', '    of ub']
    """
    out: list[str] = []
    for line in text.splitlines() or [""]:
        start = line[: len(line) - len(line.lstrip(" "))]
        if width is None or len(line) <= width:
            out.append(line.replace(TIED, " "))
            continue
        broken = textwrap.wrap(
            line.strip(" "),
            max(width, 1),
            initial_indent=start,
            subsequent_indent=start + " " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        out += [part.replace(TIED, " ") for part in broken]
    return out


def blocks(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], width: int | None) -> list[TextBlock]:
    """Return a table in `width` columns: one block, or several one below another that all begin with the first column.

    Titles and prose are broken before the table is.
    """
    cells = [[column.title for column in columns], *(list(row) for row in rows)]
    natural = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    usual = [_usual(column, [row[i] for row in cells[1:]]) for i, column in enumerate(columns)]
    least = [_least(column, [row[i] for row in cells]) for i, column in enumerate(columns)]
    out: list[TextBlock] = []
    for places in _parted(least, width):
        widths = _widths(places, columns, (usual, natural), least, width)
        lines = tuple(
            tuple(tuple(wrapped(row[i], size, 0)) for i, size in zip(places, widths, strict=True)) for row in cells
        )
        out.append(TextBlock(places, widths, lines))
    return out


def _least(column: TextColumn, cells: Sequence[str]) -> int:
    """Return the least width of a column: the title's longest word, and all of a cell unless it is prose."""
    words = [word for text in (cells if column.prose else cells[:1]) for word in text.split(" ")]
    return max(map(len, words if column.prose else [*words, *cells[1:]]), default=0)


def _parted(least: Sequence[int], width: int | None) -> list[tuple[int, ...]]:
    """Return the places of the columns of each block."""
    if width is None or _width_of(least) <= width:
        return [tuple(range(len(least)))]
    out: list[tuple[int, ...]] = []
    places: tuple[int, ...] = (0,)
    for i in range(1, len(least)):
        if len(places) > 1 and _width_of([least[j] for j in (*places, i)]) > width:
            out.append(places)
            places = (0,)
        places = (*places, i)
    return [*out, places]


def _widths(
    places: Sequence[int],
    columns: Sequence[TextColumn],
    goals: Sequence[Sequence[int]],
    least: Sequence[int],
    width: int | None,
) -> tuple[int, ...]:
    """Return widths between `least` and the last of `goals`, the natural widths.

    For each goal in turn, room goes to columns that are broken last, then to other prose, the smallest gap first.
    """
    if width is None:
        return tuple(goals[-1][i] for i in places)
    sizes = {i: least[i] for i in places}
    room = width - _width_of(list(sizes.values()))
    for goal in goals:
        gaps = {i: max(goal[i] - sizes[i], 0) for i in places}
        for i in sorted(places, key=lambda i: (not columns[i].last, not columns[i].prose, gaps[i])):
            more = max(min(room, gaps[i]), 0)
            sizes[i], room = sizes[i] + more, room - more
    return tuple(sizes.values())


def _usual(column: TextColumn, cells: Sequence[str]) -> int:
    """Return the width for all but the longest cells of prose; for all cells of a column that is broken last."""
    sizes = sorted(map(len, cells))
    return sizes[-1 if column.last else math.ceil(USUAL * len(sizes)) - 1] if sizes and column.prose else 0


def _width_of(sizes: Sequence[int]) -> int:
    return sum(sizes) + GAP * (len(sizes) - 1)


def several(count: int, noun: str, plural: str = "") -> str:
    """Return a number with the noun that it counts.

    >>> several(1, "buffer"), several(63, "buffer"), several(2, "inequality", "inequalities")
    ('1 buffer', '63 buffers', '2 inequalities')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


BINARY_STEP = 1024


def size(count: int) -> str:
    """Return bytes as text in the largest binary unit that gives at least 1.

    >>> size(512), size(249728), size(86016000)
    ('512 B', '243.9 KiB', '82.0 MiB')
    """
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < BINARY_STEP:
            break
        value, unit = value / BINARY_STEP, larger
    return f"{count:,} B" if unit == "B" else f"{value:,.1f} {unit}"


def si(value: float) -> str:
    """Return a number with a decimal prefix: 1.31 T.

    >>> si(1.31e12), si(250.0)
    ('1.31 T', '250 ')
    """
    for step, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= step:
            return f"{value / step:.3g} {prefix}"
    return f"{value:.3g} "
