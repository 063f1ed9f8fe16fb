"""`tilesim explain`: the tile program with the cycles of every instruction."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.analysis.estimates import estimates_of
from tilesim.cli.console import emit, raw, width_of
from tilesim.cli.planning import fusing_text, known_accuracy, plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.render.listing import listing, listing_json
from tilesim.simulation.timeline import timeline_of
from tilesim.text import wrapped

app = App()


@app.command(example="tilesim explain glu_backward self=2x4096x8192 --chip ascend950pr")
def explain(
    question: PlanQuestion,
    where: Annotated[
        bool, typer.Option("--where", metavar="", help="Show file and line of every instruction.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List the tile program with the cycles of every instruction, the tiles of every loop and what pipes wait for."""
    answer = plan_answer(question, as_json=as_json)
    timeline = timeline_of(answer.plan)
    if as_json:
        emit({"ok": answer.plan.ok, **listing_json(timeline), **estimates_of(timeline)})
    else:
        width = width_of()
        lines = listing(timeline, where=where, width=width)
        fusing = fusing_text(answer.plan)
        if fusing:
            lines += wrapped(f"fusing: {fusing}", width)
        lines += wrapped(f"accuracy: {known_accuracy(answer.plan)}", width)
        raw("\n".join(lines))
    return answer.code
