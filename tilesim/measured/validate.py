"""Errors of predicted times by operator and dtype, with every row that could not be compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import TilesimError
from tilesim.late_binding import Shown
from tilesim.measured.fit import Fit, fitted
from tilesim.measured.measurement import Measurement
from tilesim.measured.measurement_files import load_measured
from tilesim.measured.predict import Prediction, predict
from tilesim.text import several


@dataclass(frozen=True)
class Compared:
    """A measured row and its prediction."""

    row: Measurement
    prediction: Prediction = field(repr=False)

    @property
    def predicted_us(self) -> float:
        """Predicted time."""
        return self.prediction.time_us

    @property
    def error(self) -> float:
        """Error of the prediction in percent of the measured time; above 0 for a prediction that is too long."""
        return (self.predicted_us / self.row.time_us - 1) * 100

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "operator": self.row.operator,
            "dtype": self.row.dtype,
            "shapes": [list(shape) for shape in self.row.shapes],
            "variant": dict(self.row.variant),
            "measured_us": self.row.time_us,
            "predicted_us": round(self.predicted_us, 3),
            "error": round(self.error, 2),
            "fixed_from": self.prediction.fixed_from,
        }


@dataclass(frozen=True)
class Summary:
    """Errors of some rows, in percent of the measured times."""

    rows: int
    mape: float
    """Mean absolute error."""
    median_ape: float
    worst: float
    """The largest error, with its sign."""
    bias: float
    """Mean error, with its sign."""
    rank_correlation: float | None
    """Spearman's rank correlation of predicted and measured times; None for fewer than 3 rows or equal times."""

    @classmethod
    def of(cls, compared: Sequence[Compared]) -> Summary:
        """Return the errors of rows; NaN without rows."""
        errors = [c.error for c in compared]
        if not errors:
            return cls(0, math.nan, math.nan, math.nan, math.nan, None)
        sizes = [abs(e) for e in errors]
        order = correlation([c.predicted_us for c in compared], [c.row.time_us for c in compared])
        return cls(len(errors), fmean(sizes), median(sizes), max(errors, key=abs), fmean(errors), order)

    def text(self, more: str = "") -> str:
        """Return one line; `more` stands after the number of rows."""
        if not self.rows:
            return f"no row could be compared{more}"
        rank = f", rank correlation {self.rank_correlation:.3f}" if self.rank_correlation is not None else ""
        return (
            f"{several(self.rows, 'row')} compared{more}: mean error {self.mape:.1f}%, "
            f"median {self.median_ape:.1f}%, worst {self.worst:+.1f}%, bias {self.bias:+.1f}%{rank}"
        )

    def to_json(self) -> dict[str, Any]:
        """The errors as plain data; null without rows."""
        errors = {"mape": self.mape, "median_ape": self.median_ape, "worst": self.worst, "bias": self.bias}
        numbers = {k: None if math.isnan(v) else round(v, 3) for k, v in errors.items()}
        rank = None if self.rank_correlation is None else round(self.rank_correlation, 4)
        return {"rows": self.rows, **numbers, "rank_correlation": rank}


@dataclass(frozen=True)
class Validation(Shown):
    """Predicted against measured times on one chip."""

    chip: str
    compared: tuple[Compared, ...]
    skipped: tuple[tuple[Measurement, str], ...]
    """Rows that could not be compared, each with the reason."""
    fit: Fit | None = None
    """The fit, with its changes and its errors on held-out rows; None without one."""

    @property
    def overall(self) -> Summary:
        """Errors of all rows."""
        return Summary.of(self.compared)

    @property
    def groups(self) -> dict[tuple[str, str], Summary]:
        """(operator, dtype) -> errors of its rows. Samples have names of their own.

        So have calls whose shapes broadcast, such as "maximum broadcast".
        """
        return {key: Summary.of(rows) for key, rows in grouped(self.compared).items()}

    @property
    def notes(self) -> dict[tuple[str, str], dict[str, int]]:
        """(operator, dtype) -> note on a call that differs from the measured kernel -> number of rows."""
        notes: dict[tuple[str, str], dict[str, int]] = {}
        for key, rows in grouped(self.compared).items():
            for note in (c.row.call.note for c in rows if c.row.call is not None and c.row.call.note):
                counts = notes.setdefault(key, {})
                counts[note] = counts.get(note, 0) + 1
        return notes

    @property
    def families(self) -> dict[str, Summary]:
        """Class of library operators -> errors of its rows."""
        rows_of_class: dict[str, list[Compared]] = {}
        for comparison in self.compared:
            if comparison.row.library and comparison.row.call is not None and comparison.row.call.accuracy_class:
                rows_of_class.setdefault(comparison.row.call.accuracy_class, []).append(comparison)
        return {name: Summary.of(rows) for name, rows in sorted(rows_of_class.items())}

    @property
    def pipes(self) -> list[tuple[Measurement, str, float, float]]:
        """(row, pipe, measured us, predicted us) of the rows that have pipe times."""
        times = []
        for comparison in self.compared:
            for pipe, measured in comparison.row.pipes_us.items():
                predicted = comparison.prediction.pipes_us.get(pipe)
                if predicted:
                    times.append((comparison.row, pipe, measured, predicted))
        return times

    def to_json(self) -> dict[str, Any]:
        """The whole validation as plain data, errors in percent."""
        return {
            "chip": self.chip,
            "overall": self.overall.to_json(),
            "groups": [{"operator": o, "dtype": d, **s.to_json()} for (o, d), s in self.groups.items()],
            "notes": [
                {"operator": o, "dtype": d, "rows": count, "note": note}
                for (o, d), notes in self.notes.items()
                for note, count in notes.items()
            ],
            "families": [{"family": name, **s.to_json()} for name, s in self.families.items()],
            "rows": [comparison.to_json() for comparison in self.compared],
            "pipes": [
                {
                    "row": row.text,
                    "pipe": pipe,
                    "measured_us": measured,
                    "predicted_us": round(predicted, 3),
                    "error": round((predicted / measured - 1) * 100, 2),
                }
                for row, pipe, measured, predicted in self.pipes
            ],
            "skipped": [{"row": row.text, "measured_us": row.time_us, "reason": why} for row, why in self.skipped],
            **({"fit": self.fit.to_json()} if self.fit is not None else {}),
        }

    def __str__(self) -> str:
        """One line: the errors of all rows."""
        skipped = f", {len(self.skipped):,} left out" if self.skipped else ""
        return f"{self.chip}: {self.overall.text(skipped)}"


@checked
def validate(
    measured: str | Path | Iterable[Measurement] | None,
    chip: Chip | str | Path,
    all: bool = False,  # noqa: A002 - the word of the command line
    fit: bool = False,
) -> Validation:
    """Return predicted against measured times for every row of the chip whose kernel belongs to a known operator.

    `measured` is a JSON or CSV file, None for the points that come with the package. `all` includes rows of other tiers
    than A. A chip file of another name has the rows of its `soc`.
    With `fit`, the chip's parameters without a public source are fitted to the rows first, except rows whose shapes
    broadcast and integers of another width than 32 bits (needs scipy).
    Raises BadInput for a file that cannot be read.
    """
    chip = chip if isinstance(chip, Chip) else load_chip(chip)
    rows = load_measured(measured) if measured is None or isinstance(measured, str | Path) else list(measured)
    of_chip = [r for r in rows if r.chip in (chip.name, chip.soc.lower()) and (all or r.tier == "A")]
    if not fit:
        return compared_on(of_chip, chip)
    result = fitted([r for r in of_chip if r.call is None or not r.call.own_class], chip)
    after = compared_on(of_chip, result.chip)
    return Validation(after.chip, after.compared, after.skipped, result)


def compared_on(rows: Iterable[Measurement], chip: Chip) -> Validation:
    """Return the rows against the times that the chip predicts."""
    compared: list[Compared] = []
    skipped: list[tuple[Measurement, str]] = []
    for row in rows:
        if row.call is None:
            skipped.append((row, row.problem))
            continue
        try:
            compared.append(Compared(row, predict(row.call, chip, library=row.library)))
        except TilesimError as why:
            skipped.append((row, str(why).splitlines()[0]))
    return Validation(chip.name, tuple(compared), tuple(skipped))


def grouped(compared: Iterable[Compared]) -> dict[tuple[str, str], list[Compared]]:
    """Return (operator, dtype) -> rows, in the order of names."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for comparison in compared:
        own_class = comparison.row.call.own_class if comparison.row.call is not None else ""
        groups.setdefault((f"{comparison.row.operator} {own_class}".rstrip(), comparison.row.dtype), []).append(
            comparison
        )
    return dict(sorted(groups.items()))


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, -1 to 1; None for fewer than 3 values or where all are equal."""
    if len(first) < 3:
        return None
    a, b = _ranks(first), _ranks(second)
    mean = (len(a) - 1) / 2
    spread = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True)) / spread if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in the order, the mean of their places where values are equal."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for i in range(start, end + 1):
            ranks[order[i]] = (start + end) / 2
        start = end + 1
    return ranks
