"""`tilesim report`: everything about an operator on one chip or several, in one file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from tilesim.cli.commands import EXIT_NO, EXIT_YES
from tilesim.cli.console import line, raw, size
from tilesim.cli.inputs import (
    AsJson,
    Changes,
    ChipsDirectory,
    Dtype,
    OperatorName,
    Tiles,
    Words,
    asked,
    chip_of,
    tiles_of,
)

EXAMPLE: Final = "tilesim report glu_backward self=2x64x128 --chip ascend950pr --out r.html"


def report(
    op: OperatorName,
    words: Words = None,
    chip: Annotated[
        list[str] | None,
        typer.Option(
            "--chip", metavar="NAME", help="A chip as for the other commands; repeatable.", show_default=False
        ),
    ] = None,
    changes: Changes = None,
    chips: ChipsDirectory = None,
    dtype: Dtype = None,
    tiles: Tiles = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it: .html, .md or .json.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a report of a shape on one chip or several: an HTML page, Markdown or JSON. A no has a report too."""
    from tilesim.render.report.report import FORMATS, check_ending, report_of  # noqa: PLC0415 - numpy and pydantic load when a command runs

    if out is not None:
        check_ending(out)
    names = chip or []
    wanted = asked(op, words, names[0] if names else None, changes, chips, dtype)
    found = [wanted.chip, *(chip_of(name, changes, chips) for name in names[1:])]
    made = report_of(wanted.call, found, tiles_of(tiles), _command(op, words, chip, changes, dtype, tiles, out))
    if out is not None:
        made.write(out)
    if as_json:
        raw(json.dumps(made.to_json(), indent=2, ensure_ascii=False))
    elif out is None:
        raw(made.markdown())
    else:
        for answer in made.answers:
            line(str(answer.verdict))
        line(f"written to {out}, {size(out.stat().st_size)}; other endings are {', '.join(f'.{f}' for f in FORMATS)}")
    return EXIT_YES if made.ok else EXIT_NO


def _command(
    op: str,
    words: list[str] | None,
    chip: list[str] | None,
    changes: list[str] | None,
    dtype: str | None,
    tiles: list[str] | None,
    out: Path | None,
) -> str:
    """The command line; of a file outside the directory that it is called in, without what only this machine has."""
    parts = ["tilesim", "report", op, *(words or ())]
    pairs = [("--chip", chip), ("--set", changes), ("--dtype", [dtype] if dtype else None), ("--tile", tiles)]
    for option, values in pairs:
        parts += [word for value in values or () for word in (option, value)]
    if out is not None:
        # What leaves the directory means nothing elsewhere.
        parts += ["--out", out.name if out.is_absolute() or ".." in out.parts else out.as_posix()]
    return shlex.join(parts)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: {EXAMPLE}")(report)
