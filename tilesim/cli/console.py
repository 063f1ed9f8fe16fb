"""Output of commands: the result on stdout, messages on stderr, as text or as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from tilesim.text import GAP, TextColumn, blocks, several, wrapped

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_A_PIPE: Final = 400
"""Columns of an output that is not a terminal; every table fits."""

__all__ = [
    "TextColumn",
    "console",
    "emit",
    "fields",
    "heading",
    "line",
    "note",
    "percent",
    "raw",
    "several",
    "size",
    "table",
    "width_of",
]


def console(*, error: bool = False) -> Console:
    """Return the console of stdout, or of stderr. Colours appear on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - --json does without it

    stream = Console(stderr=error, markup=False, highlight=False, emoji=False)
    if not stream.is_terminal and "COLUMNS" not in stream._environ:  # noqa: SLF001 - the variables that rich reads
        stream.width = WIDTH_OF_A_PIPE
    return stream


def width_of() -> int | None:
    """Return the columns of stdout; None for an output that is not a terminal, unless COLUMNS states them."""
    stdout = console()
    return stdout.width if stdout.is_terminal or "COLUMNS" in stdout._environ else None  # noqa: SLF001 - see console


def line(text: str = "", style: str = "") -> None:
    """Print a line of the result; a line longer than the terminal is broken at words."""
    _print("\n".join(wrapped(text, width_of())), style)


def heading(text: str) -> None:
    """Print an empty line and a title."""
    line()
    line(text, "bold")


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; values break at words."""
    from rich.table import Table  # noqa: PLC0415 - see console

    rows = list(pairs)
    if not rows:
        return
    (block,) = blocks((TextColumn(""), TextColumn("", prose=True)), rows, width_of())
    grid = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, min_width=block.widths[0], style="dim")
    grid.add_column(no_wrap=True, min_width=block.widths[1])
    for name, value in block.rows[1:]:
        grid.add_row("\n".join(name), "\n".join(value))
    _print(grid, least=sum(block.widths) + GAP)


def table(columns: Sequence[TextColumn], rows: Iterable[Sequence[object]], styles: Iterable[str] = ()) -> None:
    """Print a table; `styles` colour its rows. Columns beyond the terminal's width follow in a second table."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - see console
    from rich.table import Table  # noqa: PLC0415

    cells = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in rows]
    colours = list(styles)
    for number, block in enumerate(blocks(columns, cells, width_of())):
        if number:
            line()
        grid = Table(
            box=SIMPLE_HEAD,
            padding=(0, 1),
            collapse_padding=True,
            pad_edge=False,
            show_edge=False,
            header_style="dim",
        )
        titles, *lines = block.rows
        for place, width, title in zip(block.places, block.widths, titles, strict=True):
            justify: Any = "right" if columns[place].number else "left"
            grid.add_column("\n".join(title), justify=justify, no_wrap=True, min_width=width)
        for row, style in zip_longest(lines, colours[: len(lines)], fillvalue=""):
            grid.add_row(*("\n".join(cell) for cell in row), style=style or None)
        _print(grid, least=sum(block.widths) + GAP * (len(block.widths) - 1))


def emit(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print plain data as JSON; infinities and NaN, which JSON does not have, become null."""
    sys.stdout.write(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def raw(text: str) -> None:
    """Print a text unchanged, for another program."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def note(text: str) -> None:
    """Print a message on stderr."""
    stderr = console(error=True)
    lines = wrapped(text, stderr.width if stderr.is_terminal else None)
    sys.stderr.write("".join(f"{text}\n" for text in lines))


def size(count: int) -> str:
    """Return bytes with their unit.

    >>> size(133120)
    '133,120 B'
    """
    return f"{count:,} B"


def percent(share: float) -> str:
    """Return a share of 1 in percent.

    >>> percent(0.5331), percent(0.00012), percent(0)
    ('53.3%', '0.0%', '0.0%')
    """
    return f"{share:.1%}"


def _print(what: Any, style: str = "", least: int = 0) -> None:
    """Print to stdout, at least `least` columns wide, without the spaces that rich fills lines up with."""
    stdout = console()
    stdout.width = max(stdout.width, least)
    with stdout.capture() as captured:
        stdout.print(what, style=style or None, soft_wrap=isinstance(what, str))
    sys.stdout.write("".join(f"{text.rstrip(' ')}\n" for text in captured.get().splitlines()))


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
