"""What commands print: the result on stdout, everything else on stderr, for people or as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_A_PIPE: Final = 400
"""Columns of an output that is no terminal: wide enough that no table is squeezed."""

COLUMN_GAP: Final = "  "
"""What rich puts between the columns of a table."""
LEAST_PROSE: Final = 10
"""Columns that a column of prose keeps however narrow the terminal is."""


class Column(NamedTuple):
    """A column of a table. Numbers stand to the right and are never broken, nor are names; prose may be."""

    title: str
    number: bool = False
    prose: bool = False


def console(*, error: bool = False) -> Console:
    """The console of stdout, or of stderr. Colours appear on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - --json does without it

    made = Console(stderr=error, markup=False, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in made._environ:  # noqa: SLF001 - what rich itself looks at
        made.width = WIDTH_OF_A_PIPE
    return made


def line(text: str = "", style: str = "") -> None:
    """Print a line of the result; a terminal breaks it at words."""
    _print(text, style)


def heading(text: str) -> None:
    """Print an empty line and the title of what follows."""
    line()
    line(text, "bold")


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; values break at words."""
    from rich.table import Table  # noqa: PLC0415 - see console

    made = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value)
    _print(made)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], styles: Iterable[str] = ()) -> None:
    """Print a table; `styles` colour its rows."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - see console
    from rich.table import Table  # noqa: PLC0415

    cells = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in rows]
    made = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
        header_style="dim",
    )
    least = 0
    for i, column in enumerate(columns):
        whole = max(len(column.title), *(len(row[i]) for row in cells), 0)
        width = min(whole, LEAST_PROSE) if column.prose else whole
        least += width + len(COLUMN_GAP)
        justify: Any = "right" if column.number else "left"
        made.add_column(column.title, justify=justify, no_wrap=not column.prose, overflow="fold", min_width=width)
    for row, style in zip_longest(cells, styles, fillvalue=""):
        made.add_row(*row, style=style or None)
    _print(made, least=least)


def emit(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print plain data as JSON; what is no finite number becomes null, since JSON has no word for it."""
    sys.stdout.write(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def raw(text: str) -> None:
    """Print a text as it is: what another program will read."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def note(text: str) -> None:
    """Say something beside the result, on stderr."""
    sys.stderr.write(f"{text}\n")


def size(count: int) -> str:
    """Bytes with their unit.

    >>> size(133120)
    '133,120 B'
    """
    return f"{count:,} B"


def percent(share: float) -> str:
    """A share of 1 in percent.

    >>> percent(0.5331), percent(0.00012), percent(0)
    ('53.3%', '0.0%', '0.0%')
    """
    return f"{share:.1%}"


def several(count: int, one: str, many: str = "") -> str:
    """A number and what it counts.

    >>> several(1, "buffer"), several(63, "buffer"), several(2, "inequality", "inequalities")
    ('1 buffer', '63 buffers', '2 inequalities')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def _print(what: Any, style: str = "", least: int = 0) -> None:
    """Print to stdout, at least `least` columns wide, without the spaces that rich fills lines up with."""
    to = console()
    to.width = max(to.width, least)
    with to.capture() as captured:
        to.print(what, style=style or None, soft_wrap=isinstance(what, str) and not to.is_terminal)
    sys.stdout.write("".join(f"{text.rstrip(' ')}\n" for text in captured.get().splitlines()))


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
