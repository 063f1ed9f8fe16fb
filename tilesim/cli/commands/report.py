"""`tilesim report`: verdict, plan and time of a call on one chip or several, in one file."""

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
from tilesim.render.formats import format_of
from tilesim.render.report.report import FORMATS, report_of

app = App()


@app.command(example="tilesim report glu_backward self=2x64x128 --chip ascend950pr --out r.html")
def report(
    question: ChipsQuestion,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file: .html, .md or .json; default: Markdown on stdout.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Report a shape on one chip or several as an HTML page, Markdown or JSON, also a shape that does not fit."""
    if out is not None:
        format_of(out, FORMATS)
    call, chips = question.call_and_chips()
    answer = report_of([verdict_of(call, chip) for chip in chips], tiles_of(question.tiles), _command(question, out))
    if out is not None:
        answer.write(out)
    if as_json:
        raw(json.dumps(answer.to_json(), indent=2, ensure_ascii=False))
    elif out is None:
        raw(answer.markdown())
    else:
        for chip_answer in answer.answers:
            line(str(chip_answer.verdict))
        line(f"written to {out}, {size(out.stat().st_size)}; other endings are {', '.join(f'.{f}' for f in FORMATS)}")
    return EXIT_YES if answer.ok else EXIT_NO


def _command(question: ChipsQuestion, out: Path | None) -> str:
    """Return the command line; a file outside the working directory is named without its folder."""
    parts = ["tilesim", "report", question.op, *(question.words or ())]
    dtypes = [question.dtype] if question.dtype else None
    pairs = [("--chip", question.chip), ("--set", question.changes), ("--dtype", dtypes), ("--tile", question.tiles)]
    for option, values in pairs:
        parts += [word for value in values or () for word in (option, value)]
    if out is not None:
        # A folder outside the working directory exists on this machine only.
        parts += ["--out", out.name if out.is_absolute() or ".." in out.parts else out.as_posix()]
    return shlex.join(parts)
