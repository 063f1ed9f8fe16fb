"""`tilesim check`: does it fit?"""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli.buffers import ENDING, answer_buffers
from tilesim.cli.inputs import AsJson, Changes, ChipName, ChipsDirectory, Dtype, OperatorName, Words, asked
from tilesim.cli.verdict import answer

EXAMPLE = "tilesim check glu_backward self=2x4096x8192 --chip ascend950pr"


def check(
    op: OperatorName,
    words: Words = None,
    chip: ChipName = None,
    changes: Changes = None,
    chips: ChipsDirectory = None,
    dtype: Dtype = None,
    rules: Annotated[bool, typer.Option("--rules", metavar="", help="Show all rules, those that hold too.")] = False,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Show all inequalities and buffers.")] = False,
    as_json: AsJson = False,
) -> int:
    """Say whether a shape fits, what limits it, and what would fit instead; or whether the buffers of a .toml do."""
    from tilesim.feasibility.verdict import verdict_of  # noqa: PLC0415 - numpy and pydantic load when a command runs

    if op.endswith(ENDING):
        return answer_buffers(op, words, chip, changes, chips, dtype, as_json=as_json)
    wanted = asked(op, words, chip, changes, chips, dtype)
    return answer(verdict_of(wanted.call, wanted.chip), rules=rules, everything=everything, as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: {EXAMPLE}")(check)
