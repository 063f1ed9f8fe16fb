"""`tilesim plot`: pictures of what fits and what it costs, as SVG, PNG or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilesim.cli.commands import EXIT_NO, EXIT_YES
from tilesim.cli.console import emit, line, size
from tilesim.cli.inputs import (
    AsJson,
    Changes,
    ChipsDirectory,
    Dtype,
    Tiles,
    Words,
    asked,
    chip_of,
    directory_of,
    tiles_of,
)
from tilesim.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLE: Final = "tilesim plot buffers glu_backward self=2x64x128 --chip ascend950pr --out b.svg"
SEVERAL: Final = ("sweep",)
"""Kinds that take lists and ranges of values, and several chips."""


def plot(  # noqa: PLR0913 - one argument an option
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="region, buffers, gantt, roofline, sweep or tornado.", show_default=False),
    ],
    op: Annotated[str, typer.Argument(metavar="OP", help="An operator, as for check.", show_default=False)],
    words: Words = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to: .svg, .png or .pdf.", show_default=False)
    ] = None,
    chip: Annotated[
        list[str] | None,
        typer.Option("--chip", metavar="NAME", help="A chip; for sweep repeatable.", show_default=False),
    ] = None,
    changes: Changes = None,
    chips: ChipsDirectory = None,
    dtype: Dtype = None,
    tiles: Tiles = None,
    phase: Annotated[str, typer.Option("--phase", metavar="NAME", help="Of buffers and gantt, one phase only.")] = "",
    x: Annotated[str, typer.Option("--x", metavar="NAME", help="Of region a dim, of sweep a column.")] = "",
    y: Annotated[str, typer.Option("--y", metavar="NAME", help="Of region a dim, of sweep a column.")] = "",
    as_json: AsJson = False,
) -> int:
    """Draw what fits, memories to scale, pipes, the roofline, a sweep or what the time depends on."""
    from tilesim.render.plot import KINDS, check_ending, write_figure  # noqa: PLC0415 - numpy loads when a command runs

    problems = []
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f" there are: {', '.join(KINDS)}"
        problems.append(f"{kind!r} is not a kind of plot;{hint}")
    if out is None:
        problems.append("--out is missing; it ends in .svg, .png or .pdf")
    if kind not in SEVERAL and len(chip or ()) > 1:
        problems.append(f"{len(chip or ())} chips are given, {kind} takes one")
    if problems or out is None:
        raise BadInput("plot", problems)
    check_ending(out)
    if kind == "sweep":
        figure, ok = _sweep(op, words, chip, changes, chips, dtype, x, y), True
    else:
        one = chip[0] if chip else None
        figure, ok = _single(kind, op, words, one, changes, chips, dtype, tiles, phase, x, y)
    write_figure(figure, out)
    if as_json:
        emit({"kind": kind, "file": str(out), "bytes": out.stat().st_size, "ok": ok})
    else:
        line(f"written to {out}, {size(out.stat().st_size)}: {KINDS[kind]}")
    return EXIT_YES if ok else EXIT_NO


def _single(  # noqa: PLR0913 - what the command was given
    kind: str,
    op: str,
    words: list[str] | None,
    chip: str | None,
    changes: list[str] | None,
    chips: Path | None,
    dtype: str | None,
    tiles: list[str] | None,
    phase: str,
    x: str,
    y: str,
) -> tuple[Figure, bool]:
    """The plot of one call on one chip, and whether the call passes; what has no plan is refused."""
    from tilesim.analysis.sensitivity import sensitivity  # noqa: PLC0415
    from tilesim.feasibility.evaluate import passes  # noqa: PLC0415
    from tilesim.planning.plan import plan_of  # noqa: PLC0415
    from tilesim.render import plot as plots  # noqa: PLC0415 - see plot

    wanted = asked(op, words, chip, changes, chips, dtype)
    if kind == "region":
        return plots.feasible_region(wanted.call, wanted.chip, x, y), passes(wanted.call, wanted.chip)
    if kind == "tornado":
        given: dict[str, Any] = {**wanted.call.specs, **wanted.call.attributes}
        return plots.tornado(sensitivity(wanted.call.operator, given, wanted.chip, dtype=wanted.call.dtype)), True
    made = plan_of(wanted.call, wanted.chip, tiles_of(tiles))
    if kind == "roofline":
        return plots.roofline(made), made.verdict.ok
    return (plots.buffer_map if kind == "buffers" else plots.gantt)(made, phase), made.verdict.ok


def _sweep(
    op: str,
    words: list[str] | None,
    chip: list[str] | None,
    changes: list[str] | None,
    chips: Path | None,
    dtype: str | None,
    x: str,
    y: str,
) -> Figure:
    """The curves of a sweep over what is given as a list or range."""
    from tilesim.analysis.ranges import parse_grid, parse_settings  # noqa: PLC0415
    from tilesim.analysis.sweep import sweep  # noqa: PLC0415
    from tilesim.chip.loading import load_chip  # noqa: PLC0415
    from tilesim.ops import load_operator  # noqa: PLC0415
    from tilesim.render import plot as plots  # noqa: PLC0415 - see plot

    if not chip:
        chip_of(None, None, chips)
    operator = load_operator(op)
    found = [load_chip(name, directory=directory_of(chips)) for name in chip or ()]
    given, settings = parse_grid(operator, words or ()), parse_settings(changes or ())
    table = sweep(operator, given, chips=found, dtype=dtype, set=settings, times=y != "slack")
    return plots.sweep_curves(table, y, x)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: {EXAMPLE}")(plot)
