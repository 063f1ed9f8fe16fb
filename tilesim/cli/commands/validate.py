"""`tilesim validate`: how far predicted times are from measured ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from math import inf, isinf
from pathlib import Path
from typing import Annotated, Final

import typer

from tilesim.chip.chip import Chip
from tilesim.cli.console import TextColumn, emit, heading, line, several, table
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import App, AsJson, ChipQuestion
from tilesim.cli.verdict import NO_STYLE
from tilesim.errors import BadInput
from tilesim.files import write_text
from tilesim.measured.fit import Fit
from tilesim.measured.measurement import Measurement
from tilesim.measured.measurement_files import load_measured
from tilesim.measured.validate import Compared, Summary, Validation, compared_on
from tilesim.measured.validate import validate as validated
from tilesim.render.plot import check_ending, write_figure
from tilesim.render.plot.validation import scatter

app = App()

FURTHEST: Final = 5
"""As many of the rows that are furthest off are shown."""
BINS: Final = (-inf, -40, -20, -10, -5, 0, 5, 10, 20, 40, inf)
"""Errors [%] that part the rows."""
BAR: Final = 50
"""Characters of the longest bar."""


@app.command(example="tilesim validate --chip ascend950pr")
def validate(
    question: ChipQuestion,
    measured: Annotated[
        Path | None,
        typer.Argument(metavar="MEASURED", help="Measured times, .json or .csv; those of the package if left out."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Rows that were not measured under control too.")
    ] = False,
    fit: Annotated[
        Path | None,
        typer.Option("--fit", metavar="OUT.toml", help="Fit the figures without a public source; write the chip."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw predicted against measured: .svg, .png or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Compare predicted with measured times, by operator and dtype, and say what could not be compared."""
    if plot is not None:
        check_ending(plot)
    _refuse(fit)
    found = question.load_chip()
    rows = load_measured(measured)
    if not any(_of(row, found, everything=everything) for row in rows):
        if as_json:
            emit({"ok": False, **compared_on([], found).to_json()})
        else:
            line(_none(rows, found), NO_STYLE)
        return EXIT_NO
    made = validated(rows, found, all=everything, fit=fit is not None)
    if fit is not None and made.fit is not None:
        write_text(fit, made.fit.toml(fit.stem))
    if plot is not None and made.compared:
        write_figure(scatter(made), plot)
    if as_json:
        emit({"ok": bool(made.compared), **made.to_json()})
    else:
        show(made)
        for file in [fit, plot if made.compared else None]:
            if file is not None:
                line()
                line(f"written to {file}")
    return EXIT_YES if made.compared else EXIT_NO


def show(made: Validation) -> None:
    """Print a validation for people: all rows, groups, classes, what is furthest off, what was left out."""
    line(str(made), "bold")
    if made.compared:
        heading("by operator and dtype [% of the measured time]")
        _summaries(
            (TextColumn("operator"), TextColumn("dtype")),
            [((operator, dtype), summary) for (operator, dtype), summary in made.groups.items()],
        )
    for (operator, dtype), notes in made.notes.items():
        for note, count in notes.items():
            line(f"{operator} {dtype}: {several(count, 'row')}: {note}")
    if made.families:
        heading("kernels of the vendor's library by class [% of the measured time]")
        _summaries((TextColumn("class"),), [((name,), summary) for name, summary in made.families.items()])
    _furthest(made.compared)
    _pipes(made)
    _fixed(made.compared)
    _skipped(made.skipped)
    if made.fit is not None:
        _fit(made.fit)
    _scatter(made.compared)


def _refuse(fit: Path | None) -> None:
    """Raise BadInput for a fit that could not be made or kept, before anything is computed."""
    if fit is None:
        return
    problems = []
    if fit.suffix != ".toml":
        problems.append(f"{fit} must end in .toml")
    if not fit.absolute().parent.is_dir():
        problems.append(f"{fit} cannot be written: {fit.parent} is no directory")
    if find_spec("scipy") is None:
        problems.append("needs scipy: pip install 'tilesim[fit]'")
    if problems:
        raise BadInput("--fit", problems)


def _of(row: Measurement, chip: Chip, *, everything: bool) -> bool:
    return row.chip in (chip.name, chip.soc.lower()) and (everything or row.tier == "A")


def _none(rows: Sequence[Measurement], chip: Chip) -> str:
    """Why there is nothing to compare."""
    hidden = sum(_of(row, chip, everything=True) for row in rows)
    if hidden:
        return f"no row of {chip.name} was measured under control, {several(hidden, 'row')} without: --all"
    there = ", ".join(f"{name} ({count})" for name, count in sorted(Counter(row.chip or "?" for row in rows).items()))
    return f"no measured row is of {chip.name}; there are rows of: {there or 'nothing'}"


def _summaries(names: Sequence[TextColumn], rows: Iterable[tuple[tuple[str, ...], Summary]]) -> None:
    numbers = [TextColumn(n, number=True) for n in ("rows", "MAPE", "median", "worst", "bias", "rank")]
    shown = [
        (
            *key,
            s.rows,
            f"{s.mape:.1f}",
            f"{s.median_ape:.1f}",
            f"{s.worst:+.1f}",
            f"{s.bias:+.1f}",
            "" if s.rank_correlation is None else f"{s.rank_correlation:.3f}",
        )
        for key, s in rows
    ]
    table((*names, *numbers), shown)


def _furthest(compared: Sequence[Compared]) -> None:
    worst = sorted(compared, key=lambda one: -abs(one.error))[:FURTHEST]
    if len(compared) > FURTHEST:
        heading("furthest off")
        columns = (
            TextColumn("row", prose=True),
            *(TextColumn(n, number=True) for n in ("measured us", "predicted us", "error %")),
        )
        rows = [(c.row.text, f"{c.row.time_us:,.2f}", f"{c.predicted_us:,.2f}", f"{c.error:+.1f}") for c in worst]
        table(columns, rows)


def _scatter(compared: Sequence[Compared]) -> None:
    """Print how many rows are how far off, a bar a bin, and where the scatter plot comes from."""
    if not compared:
        return
    heading("rows by error [% of the measured time]")
    counts = [sum(low <= c.error < high for c in compared) for low, high in pairwise(BINS)]
    widest = max(counts)
    for (low, high), count in zip(pairwise(BINS), counts, strict=True):
        name = (
            f"below {high:+.0f}" if isinf(low) else f"from {low:+.0f}" if isinf(high) else f"{low:+.0f} to {high:+.0f}"
        )
        line(f"{name:>10} {count:5,} {'#' * round(count / widest * BAR)}".rstrip())
    line("--plot FILE.svg draws them all, predicted against measured")


def _pipes(made: Validation) -> None:
    """Print how far pipe times are off, by operator and pipe."""
    found: dict[tuple[str, str], list[float]] = {}
    for row, pipe, measured, predicted in made.pipes:
        found.setdefault((row.operator, pipe), []).append((predicted / measured - 1) * 100)
    if found:
        heading("times of pipes [% of the measured time]")
        columns = (
            TextColumn("operator"),
            TextColumn("pipe"),
            *(TextColumn(n, number=True) for n in ("rows", "MAPE", "worst")),
        )
        rows = [
            (*key, len(errors), f"{sum(map(abs, errors)) / len(errors):.1f}", f"{max(errors, key=abs):+.1f}")
            for key, errors in found.items()
        ]
        table(columns, rows)


def _fixed(compared: Sequence[Compared]) -> None:
    """Say which library kernels have no fixed time of their own."""
    without = sorted({c.row.operator for c in compared if c.row.library and c.prediction.fixed_from == "launch"})
    if without:
        line()
        line(f"with the chip's launch figures for want of a fixed time of their own: {', '.join(without)}")


def _skipped(skipped: Sequence[tuple[Measurement, str]]) -> None:
    if not skipped:
        return
    heading("left out")
    counts = Counter(reason for _, reason in skipped)
    operators = {
        reason: ", ".join(dict.fromkeys(row.operator for row, why in skipped if why == reason)) for reason in counts
    }
    columns = (TextColumn("rows", number=True), TextColumn("reason", prose=True), TextColumn("operators", prose=True))
    table(columns, [(count, reason, operators[reason]) for reason, count in counts.most_common()])


def _fit(fit: Fit) -> None:
    heading("the fit")
    line(f"{several(fit.rows, 'row')} fitted with a mean error of {fit.error:.1f}%; held out, {fit.held_mape:.1f}%")
    for problem in fit.problems:
        line(problem, NO_STYLE)
    figures = (TextColumn("figure"), TextColumn("before", number=True), TextColumn("after", number=True))
    table(figures, [(key, _figure(before), _figure(after)) for key, (before, after) in fit.changed.items()])
    heading("rows that the fit did not see")
    numbers = [TextColumn(name, number=True) for name in ("rows", "MAPE", "worst")]
    rows = [
        (h.operator, h.dtype, h.rows, f"{h.mape:.1f}", f"{h.worst:+.1f}", "by rows" if h.by == "rows" else "whole")
        for h in fit.held
    ]
    table((TextColumn("operator"), TextColumn("dtype"), *numbers, TextColumn("held out")), rows)


def _figure(value: float) -> str:
    """A figure with the digits that it has; "" for one that was not there.

    >>> _figure(1309000000000.0), _figure(2.44), _figure(float("nan"))
    ('1.309e+12', '2.44', '')
    """
    return "" if value != value else f"{value:.4g}"  # noqa: PLR0124 - only NaN differs from itself
