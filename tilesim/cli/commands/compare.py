"""`tilesim compare`: a profile against predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from tilesim.cli.console import TextColumn, emit, heading, line, several, table
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import App, AsJson, ChipQuestion, Dtype, Problems, Words
from tilesim.errors import BadInput
from tilesim.measured.compare import Comparison, KernelComparison, Left
from tilesim.measured.compare import compare as compared
from tilesim.measured.profile import read_profile
from tilesim.operators.binding import bind, parse
from tilesim.operators.operator import KernelCall
from tilesim.ops import load_operator

app = App()

SHOWN: Final = 20
"""Kernels on a screen, at most; --all shows the others."""


@app.command(example="tilesim compare kernel_details.csv --chip ascend910b2")
def compare(
    profile: Annotated[
        Path,
        typer.Argument(metavar="CSV", help="A profiler's kernel_details, op_summary or PipeUtilization table."),
    ],
    question: ChipQuestion,
    words: Words = None,
    op: Annotated[
        str | None, typer.Option("--op", metavar="NAME", help="The operator of kernels without shapes, with KEY=VALUE.")
    ] = None,
    dtype: Dtype = None,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Show all kernels.")] = False,
    as_json: AsJson = False,
) -> int:
    """Compare a profile with predicted times, kernel by kernel, the largest possible gain first."""
    problems = Problems()
    chip = problems.result_of(question.load_chip)
    problems.result_of(lambda: read_profile(profile))
    case = problems.result_of(lambda: _call(op, words, dtype))
    problems.refuse()
    if chip is None:
        raise AssertionError
    comparison = compared(profile, chip, case)
    if as_json:
        emit({"ok": bool(comparison.kernels), **comparison.to_json()})
    else:
        show(comparison, profile.name, everything=everything)
    return EXIT_YES if comparison.kernels else EXIT_NO


def _call(op: str | None, words: Sequence[str] | None, dtype: str | None) -> KernelCall | None:
    """Return the call of the words; None without an operator. Raises BadInput."""
    if op is None:
        if words or dtype:
            raise BadInput("compare", ["KEY=VALUE and --dtype need the operator of the call: --op NAME"])
        return None
    operator = load_operator(op)
    given = parse(operator, words or [])
    call = bind(operator, given, dtype=dtype)
    return KernelCall(operator, given, call.dtype)


def show(comparison: Comparison, name: str, *, everything: bool = False) -> None:
    """Print a comparison as text: its share of the profile, kernels, pipes, and the omitted rows."""
    line(f"{name} on {comparison}", "bold")
    kernels = comparison.kernels if everything else comparison.kernels[:SHOWN]
    if kernels:
        _kernels(kernels, timed=comparison.timed)
        more = len(comparison.kernels) - len(kernels)
        if more:
            less = "with less to gain" if comparison.timed else "that take less time"
            line(f"and {several(more, 'kernel')} {less}: --all")
        _pipes(kernels)
        _bands(kernels)
    _omitted(comparison.left)


def _kernels(kernels: Sequence[KernelComparison], *, timed: bool) -> None:
    """Print the kernels; the measured columns are empty in a profile without durations."""
    first = "the largest gain" if timed else "the longest time of all calls"
    heading(f"kernels, {first} first [us of one call{'; gain of all calls' if timed else ''}]")
    columns = (
        TextColumn("kernel"),
        TextColumn("shapes", prose=True),
        TextColumn("dtype"),
        *(TextColumn(n, number=True) for n in ("calls", "measured", "predicted", "of it fixed", "ratio", "gain")),
    )
    rows = [
        (
            k.kind,
            k.shapes_text,
            k.dtype,
            k.calls,
            "" if k.measured_us is None else f"{k.measured_us:,.2f}",
            f"{k.predicted_us:,.2f}",
            f"{k.fixed_us:,.2f}{'' if k.fixed_from != 'launch' else ' *'}",
            "" if k.ratio is None else f"{k.ratio:.2f}",
            "" if k.gain_us is None else f"{k.gain_us:+,.1f}",
        )
        for k in kernels
    ]
    table(columns, rows)
    if any(k.fixed_from == "launch" for k in kernels):
        line("* the chip's launch time: the chip file has no fixed time for this kernel")


def _pipes(kernels: Sequence[KernelComparison]) -> None:
    pipes = list(dict.fromkeys(pipe for k in kernels for pipe in k.pipes_us))
    if not pipes:
        return
    heading("pipes, measured / predicted [us of one call]")
    rows = [
        (
            k.kind,
            k.shapes_text,
            *("{:,.2f} / {:,.2f}".format(*k.pipes_us[p]) if p in k.pipes_us else "" for p in pipes),
        )
        for k in kernels
        if k.pipes_us
    ]
    table((TextColumn("kernel"), TextColumn("shapes", prose=True), *(TextColumn(p, number=True) for p in pipes)), rows)


def _bands(kernels: Sequence[KernelComparison]) -> None:
    """Print the known error of the predictions, operators with the same error together."""
    operators: dict[str, list[str]] = {}
    for k in kernels:
        operators.setdefault(str(k.accuracy), []).append(k.operator)
    heading("known error of the predictions")
    for band, names in operators.items():
        line(f"  {', '.join(dict.fromkeys(names))}: {band}")
    for operator, note in dict.fromkeys((k.operator, k.note) for k in kernels if k.note):
        line(f"  {operator}: {note}")


def _omitted(left: Sequence[Left]) -> None:
    if left:
        heading("left out")
        columns = (TextColumn("kernel"), TextColumn("calls", number=True), TextColumn("us", number=True))
        rows = [(x.kind, x.calls, f"{x.time_us:,.1f}" if x.time_us else "", x.reason) for x in left]
        table((*columns, TextColumn("reason", prose=True)), rows)
        for x in left:
            if x.pipes_us:
                times = ", ".join(f"{pipe} {time_us:,.2f}" for pipe, time_us in x.pipes_us.items())
                line(f"  {x.kind}: measured pipes [us of one call]: {times}")
