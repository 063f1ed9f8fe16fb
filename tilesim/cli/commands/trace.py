"""`tilesim trace`: the timeline as a file for Perfetto and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilesim.cli.console import emit, line, note
from tilesim.cli.planning import plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.render.trace import trace as traced
from tilesim.render.trace import write_trace

app = App()


@app.command(example="tilesim trace glu_backward self=2x4096x8192 --chip ascend950pr --out trace.json")
def trace(
    question: PlanQuestion,
    window: Annotated[
        int | None,
        typer.Option(
            "--tiles", "--window", min=1, metavar="N", help="Only N tiles at the start, middle and end of every loop."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file; stdout without it.")] = None,
    as_json: AsJson = False,
) -> int:
    """Write the timeline as a Chrome trace: a process a core, a thread a pipe."""
    made = plan_answer(question, as_json=as_json)
    if out is None:
        emit(traced(made.plan, tiles=window))
        return made.code
    write_trace(out, made.plan, tiles=window)
    if as_json:
        emit({"ok": made.plan.verdict.ok, "out": str(out)})
    else:
        line(f"written to {out}")
        note("open it in ui.perfetto.dev or chrome://tracing")
    return made.code
