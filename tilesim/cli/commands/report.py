"""`tilesim report`: everything about an operator on one chip or several, in one file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from tilesim.cli.console import line, raw, size
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import App, AsJson, ChipsQuestion, tiles_of
from tilesim.feasibility.verdict import verdict_of
from tilesim.render.report.report import FORMATS, check_ending, report_of

app = App()


@app.command(example="tilesim report glu_backward self=2x64x128 --chip ascend950pr --out r.html")
def report(
    question: ChipsQuestion,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it: .html, .md or .json.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a report of a shape on one chip or several: an HTML page, Markdown or JSON. A no has a report too."""
    if out is not None:
        check_ending(out)
    call, chips = question.call_and_chips()
    made = report_of([verdict_of(call, chip) for chip in chips], tiles_of(question.tiles), _command(question, out))
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


def _command(question: ChipsQuestion, out: Path | None) -> str:
    """Return the command line; a file outside the working directory without what only this machine has."""
    parts = ["tilesim", "report", question.op, *(question.words or ())]
    dtypes = [question.dtype] if question.dtype else None
    pairs = [("--chip", question.chip), ("--set", question.changes), ("--dtype", dtypes), ("--tile", question.tiles)]
    for option, values in pairs:
        parts += [word for value in values or () for word in (option, value)]
    if out is not None:
        # What leaves the directory means nothing elsewhere.
        parts += ["--out", out.name if out.is_absolute() or ".." in out.parts else out.as_posix()]
    return shlex.join(parts)
