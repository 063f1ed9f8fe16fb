"""`tilesim validate`: predicted against measured times."""

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
from tilesim.render.formats import format_of
from tilesim.render.plot import FORMATS, write_figure
from tilesim.render.plot.validation import scatter

app = App()

FURTHEST: Final = 5
"""Rows with the largest errors that are shown."""
BINS: Final = (-inf, -40, -20, -10, -5, 0, 5, 10, 20, 40, inf)
"""Ends of the ranges of errors [%]."""
BAR: Final = 50
"""Characters of the longest bar."""


@app.command(example="tilesim validate --chip ascend950pr")
def validate(
    question: ChipQuestion,
    measured: Annotated[
        Path | None,
        typer.Argument(metavar="MEASURED", help="Measured times, .json or .csv; default: those of the package."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Include rows that were not measured under controlled conditions.")
    ] = False,
    fit: Annotated[
        Path | None,
        typer.Option("--fit", metavar="OUT.toml", help="Fit the parameters without a public source; write the chip."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Plot predicted against measured: .svg, .png or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Compare predicted with measured times, by operator and dtype, and list the rows that cannot be compared."""
    if plot is not None:
        format_of(plot, FORMATS)
    _refuse(fit)
    chip = question.load_chip()
    rows = load_measured(measured)
    if not any(_of(row, chip, everything=everything) for row in rows):
        if as_json:
            emit({"ok": False, **compared_on([], chip).to_json()})
        else:
            line(_none(rows, chip), NO_STYLE)
        return EXIT_NO
    validation = validated(rows, chip, all=everything, fit=fit is not None)
    if fit is not None and validation.fit is not None:
        write_text(fit, validation.fit.toml(fit.stem))
    if plot is not None and validation.compared:
        write_figure(scatter(validation), plot)
    if as_json:
        emit({"ok": bool(validation.compared), **validation.to_json()})
    else:
        show(validation)
        for file in [fit, plot if validation.compared else None]:
            if file is not None:
                line()
                line(f"written to {file}")
    return EXIT_YES if validation.compared else EXIT_NO


def show(validation: Validation) -> None:
    """Print a validation as text: all rows, groups, classes, the largest errors and the omitted rows."""
    line(str(validation), "bold")
    if validation.compared:
        heading("by operator and dtype [% of the measured time]")
        _summaries(
            (TextColumn("operator"), TextColumn("dtype")),
            [((operator, dtype), summary) for (operator, dtype), summary in validation.groups.items()],
        )
    for (operator, dtype), notes in validation.notes.items():
        for note, count in notes.items():
            line(f"{operator} {dtype}: {several(count, 'row')}: {note}")
    if validation.families:
        heading("kernels of the vendor's library by class [% of the measured time]")
        _summaries((TextColumn("class"),), [((name,), summary) for name, summary in validation.families.items()])
    _largest_errors(validation.compared)
    _pipes(validation)
    _fixed(validation.compared)
    _skipped(validation.skipped)
    if validation.fit is not None:
        _fit(validation.fit)
    _histogram(validation.compared)


def _refuse(fit: Path | None) -> None:
    """Raise BadInput for a fit that cannot be computed or written, before anything is computed."""
    if fit is None:
        return
    problems = []
    if fit.suffix != ".toml":
        problems.append(f"{fit} must end in .toml")
    if not fit.absolute().parent.is_dir():
        problems.append(f"{fit} cannot be written: {fit.parent} is not a directory")
    if find_spec("scipy") is None:
        problems.append("needs scipy: pip install 'tilesim[fit]'")
    if problems:
        raise BadInput("--fit", problems)


def _of(row: Measurement, chip: Chip, *, everything: bool) -> bool:
    return row.chip in (chip.name, chip.soc.lower()) and (everything or row.tier == "A")


def _none(rows: Sequence[Measurement], chip: Chip) -> str:
    """Return the reason why no row is compared."""
    hidden = sum(_of(row, chip, everything=True) for row in rows)
    if hidden:
        return f"no row of {chip.name} was measured under controlled conditions; {several(hidden, 'other row')}: --all"
    chips = ", ".join(f"{name} ({count})" for name, count in sorted(Counter(row.chip or "?" for row in rows).items()))
    return f"no measured row is of {chip.name}; there are rows of: {chips or 'no chip'}"


def _summaries(names: Sequence[TextColumn], rows: Iterable[tuple[tuple[str, ...], Summary]]) -> None:
    numbers = [TextColumn(n, number=True) for n in ("rows", "MAPE", "median", "worst", "bias", "rank")]
    cells = [
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
    table((*names, *numbers), cells)


def _largest_errors(compared: Sequence[Compared]) -> None:
    worst = sorted(compared, key=lambda c: -abs(c.error))[:FURTHEST]
    if len(compared) > FURTHEST:
        heading("largest errors")
        columns = (
            TextColumn("row", prose=True),
            *(TextColumn(n, number=True) for n in ("measured us", "predicted us", "error %")),
        )
        rows = [(c.row.text, f"{c.row.time_us:,.2f}", f"{c.predicted_us:,.2f}", f"{c.error:+.1f}") for c in worst]
        table(columns, rows)


def _histogram(compared: Sequence[Compared]) -> None:
    """Print the number of rows by error, a bar for each range, and the option of the scatter plot."""
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
    line("--plot FILE.svg plots all rows, predicted against measured")


def _pipes(validation: Validation) -> None:
    """Print the errors of pipe times, by operator and pipe."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row, pipe, measured, predicted in validation.pipes:
        groups.setdefault((row.operator, pipe), []).append((predicted / measured - 1) * 100)
    if groups:
        heading("times of pipes [% of the measured time]")
        columns = (
            TextColumn("operator"),
            TextColumn("pipe"),
            *(TextColumn(n, number=True) for n in ("rows", "MAPE", "worst")),
        )
        rows = [
            (*key, len(errors), f"{sum(map(abs, errors)) / len(errors):.1f}", f"{max(errors, key=abs):+.1f}")
            for key, errors in groups.items()
        ]
        table(columns, rows)


def _fixed(compared: Sequence[Compared]) -> None:
    """Print the library kernels without a fixed time in the chip file."""
    without = sorted({c.row.operator for c in compared if c.row.library and c.prediction.fixed_from == "launch"})
    if without:
        line()
        line(f"without a fixed time in the chip file, predicted with the chip's launch time: {', '.join(without)}")


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
    columns = (TextColumn("parameter"), TextColumn("before", number=True), TextColumn("after", number=True))
    table(columns, [(key, _value(before), _value(after)) for key, (before, after) in fit.changed.items()])
    heading("rows held out of the fit")
    numbers = [TextColumn(name, number=True) for name in ("rows", "MAPE", "worst")]
    rows = [
        (h.operator, h.dtype, h.rows, f"{h.mape:.1f}", f"{h.worst:+.1f}", "by rows" if h.by == "rows" else "all rows")
        for h in fit.held
    ]
    table((TextColumn("operator"), TextColumn("dtype"), *numbers, TextColumn("held out")), rows)


def _value(value: float) -> str:
    """Return the value of a parameter with four digits; "" for a missing one.

    >>> _value(1309000000000.0), _value(2.44), _value(float("nan"))
    ('1.309e+12', '2.44', '')
    """
    return "" if value != value else f"{value:.4g}"  # noqa: PLR0124 - only NaN differs from itself
