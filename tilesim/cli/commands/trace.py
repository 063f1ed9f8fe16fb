"""`tilesim trace`: the timeline as a file for Perfetto and other trace viewers."""

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
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file; default: stdout.")] = None,
    as_json: AsJson = False,
) -> int:
    """Write the timeline as a Chrome trace: a process for each core, a thread for each pipe."""
    answer = plan_answer(question, as_json=as_json)
    if out is None:
        emit(traced(answer.plan, tiles=window))
        return answer.code
    write_trace(out, answer.plan, tiles=window)
    if as_json:
        emit({"ok": answer.plan.verdict.ok, "out": str(out)})
    else:
        line(f"written to {out}")
        note("open it in ui.perfetto.dev or chrome://tracing")
    return answer.code
