"""`tilesim check`: the verdict on a shape."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli.question import App, AsJson, CallQuestion
from tilesim.cli.verdict import answer
from tilesim.feasibility.verdict import verdict_of

app = App()


@app.command(example="tilesim check glu_backward self=2x4096x8192 --chip ascend950pr")
def check(
    question: CallQuestion,
    rules: Annotated[
        bool, typer.Option("--rules", metavar="", help="Show all rules, not only the broken ones.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Show all inequalities and buffers.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check whether a shape, or the buffers of a .toml, fit: what limits them, and which changes make them fit."""
    return answer(verdict_of(*question.call_and_chip()), rules=rules, everything=everything, as_json=as_json)
