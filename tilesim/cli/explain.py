"""`tilesim explain`: the tile program, line by line, with what every instruction costs."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli.console import emit, raw, width_of
from tilesim.cli.inputs import AsJson, Changes, ChipName, ChipsDirectory, Dtype, OperatorName, Tiles, Words
from tilesim.cli.planning import fusing_text, planned
from tilesim.cli.simulate import known_accuracy
from tilesim.text import wrapped

EXAMPLE = "tilesim explain glu_backward self=2x4096x8192 --chip ascend950pr"


def explain(
    op: OperatorName,
    words: Words = None,
    chip: ChipName = None,
    changes: Changes = None,
    chips: ChipsDirectory = None,
    dtype: Dtype = None,
    tiles: Tiles = None,
    where: Annotated[
        bool, typer.Option("--where", metavar="", help="Name the line of the operator's file behind each.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List the tile program with the cycles of every instruction, the tiles of every loop and what pipes wait for."""
    from tilesim.render.listing import listing, listing_json  # noqa: PLC0415
    from tilesim.simulation.fusion_saving import fusing_json  # noqa: PLC0415 - numpy loads when a command runs

    made = planned(op, words, chip, changes, chips, dtype, tiles, as_json=as_json)
    if as_json:
        emit(
            {
                "ok": made.plan.verdict.ok,
                **listing_json(made.plan),
                "accuracy": known_accuracy(made.plan),
                "fusing": fusing_json(made.plan),
            }
        )
    else:
        width = width_of()
        lines = listing(made.plan, where=where, width=width)
        fusing = fusing_text(made.plan)
        if fusing:
            lines += wrapped(f"fusing: {fusing}", width)
        lines += wrapped(f"accuracy: {known_accuracy(made.plan)}", width)
        raw("\n".join(lines))
    return made.code


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: {EXAMPLE}")(explain)
