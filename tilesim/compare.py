"""A user's profile against the model: predicted and measured time of every kernel, ranked by what could be gained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilesim.cases import Case, Unmapped, case_of
from tilesim.chip import Chip, load_chip
from tilesim.error_bands import Accuracy, accuracy
from tilesim.errors import TilesimError
from tilesim.plural import several
from tilesim.prediction import Prediction, predict
from tilesim.profiler_csv import Profiled, read_profile
from tilesim.shapes import shape_text
from tilesim.shown import Shown


@dataclass(frozen=True)
class KernelComparison:
    """All calls of one kernel with the same shapes and dtypes. Times are of one call, means over the calls."""

    kind: str
    """The profiler's type."""
    operator: str
    """Our operator."""
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    calls: int
    measured_us: float
    predicted_us: float
    fixed_us: float
    """What of the prediction is there without any work."""
    fixed_from: str
    """The chip's table that it comes from: "kernels.<operator>", or "launch" where the kernel has no entry."""
    pipes_us: Mapping[str, tuple[float, float]]
    """Pipe -> (measured, predicted), where both are known."""
    accuracy: Accuracy = field(repr=False)
    note: str = ""
    """Where it is predicted as something else than it is called: as what, and why."""

    @property
    def gain_us(self) -> float:
        """What all calls together take longer than predicted; below 0 if they are faster."""
        return (self.measured_us - self.predicted_us) * self.calls

    @property
    def ratio(self) -> float:
        """Measured by predicted time."""
        return self.measured_us / self.predicted_us if self.predicted_us else math.nan

    @property
    def shapes_text(self) -> str:
        """The shapes of its inputs in one line."""
        return " ".join(map(shape_text, self.shapes))

    def to_json(self) -> dict[str, Any]:
        """Its figures as plain data."""
        return {
            "type": self.kind,
            "operator": self.operator,
            "dtype": self.dtype,
            "shapes": [list(shape) for shape in self.shapes],
            "calls": self.calls,
            "measured_us": round(self.measured_us, 3),
            "predicted_us": round(self.predicted_us, 3),
            "fixed_us": round(self.fixed_us, 3),
            "fixed_from": self.fixed_from,
            "ratio": round(self.ratio, 3),
            "gain_us": round(self.gain_us, 3),
            "pipes": {
                pipe: {"measured_us": round(measured, 3), "predicted_us": round(predicted, 3)}
                for pipe, (measured, predicted) in self.pipes_us.items()
            },
            "accuracy": str(self.accuracy),
            "note": self.note,
        }


@dataclass(frozen=True)
class Left:
    """Kernels that could not be predicted: their type, why, how many calls and how much time."""

    kind: str
    reason: str
    calls: int
    time_us: float
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    """The measured time of every pipe of the first call, where the profile has them."""

    def to_json(self) -> dict[str, Any]:
        """Its fields as plain data."""
        return vars(self) | {"time_us": round(self.time_us, 3), "pipes_us": dict(self.pipes_us)}


@dataclass(frozen=True)
class Comparison(Shown):
    """A profile against a chip: what was predicted, largest gain first, and what was not, longest time first."""

    chip: str
    kernels: tuple[KernelComparison, ...]
    left: tuple[Left, ...]

    @property
    def calls(self) -> int:
        """All rows of the profile."""
        return sum(k.calls for k in self.kernels) + sum(x.calls for x in self.left)

    @property
    def compared_us(self) -> float:
        """Measured time of the kernels that were predicted."""
        return sum(k.measured_us * k.calls for k in self.kernels)

    @property
    def time_us(self) -> float:
        """Measured time of all kernels."""
        return self.compared_us + sum(x.time_us for x in self.left)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "chip": self.chip,
            "rows": self.calls,
            "compared": sum(k.calls for k in self.kernels),
            "time_us": round(self.time_us, 3),
            "compared_us": round(self.compared_us, 3),
            "kernels": [k.to_json() for k in self.kernels],
            "skipped": [x.to_json() for x in self.left],
        }

    def __str__(self) -> str:
        """One line: how much of the profile is compared."""
        share = f" ({self.compared_us / self.time_us:.1%})" if self.time_us else ""
        return (
            f"{self.chip}: {sum(k.calls for k in self.kernels):,} of {several(self.calls, 'call')} compared, "
            f"{self.compared_us:,.1f} of {self.time_us:,.1f} us{share}"
        )


def compare(csv_path: str | Path, chip: Chip | str | Path, case: Case | None = None) -> Comparison:
    """A profiler's table of kernels against what the chip's figures predict.

    Takes kernel_details and op_summary in any layout, columns by name. Rows that no operator is known for are counted,
    with the reason. `case` is the call of the kernels that the profile has no shapes of, as in the tables of one
    operator. Raises BadInput for a file that is no profile.
    """
    chip = chip if isinstance(chip, Chip) else load_chip(chip)
    groups: dict[Any, list[Profiled]] = {}
    for row in read_profile(csv_path):
        groups.setdefault((row.kind or row.name, row.inputs, row.dtypes, row.outputs), []).append(row)
    kernels: list[KernelComparison] = []
    left: dict[tuple[str, str], list[float]] = {}
    pipes: dict[tuple[str, str], Mapping[str, float]] = {}
    for rows in groups.values():
        kind = rows[0].kind or rows[0].name or "unnamed"
        try:
            kernels.append(_compared(rows, kind, chip, case))
        except (Unmapped, TilesimError) as why:
            key = (kind, str(why).splitlines()[0])
            pipes.setdefault(key, rows[0].pipes_us)
            times = left.setdefault(key, [])
            times += [0.0 if math.isnan(r.time_us) else r.time_us for r in rows]
    return Comparison(
        chip.name,
        tuple(sorted(kernels, key=lambda k: -k.gain_us)),
        tuple(sorted((Left(*k, len(t), sum(t), pipes[k]) for k, t in left.items()), key=lambda x: -x.time_us)),
    )


def _compared(rows: list[Profiled], kind: str, chip: Chip, told: Case | None) -> KernelComparison:
    """One kernel against its prediction. Raises Unmapped, or what planning raises."""
    first = rows[0]
    timed = [r.time_us for r in rows if r.time_us > 0]
    if not timed:
        blocks = "pipe times of blocks only: no duration, which is in the OpBasicInfo.csv of the same run"
        raise Unmapped("no duration" if first.shaped else blocks)
    if first.core.upper() in ("AI_CPU", "HCCL", "DSA_SQE"):
        raise Unmapped(f"runs on {first.core}, not on the cores")
    case = told if told is not None and not first.inputs else _case(first, kind)
    prediction = predict(case, chip)
    return KernelComparison(
        kind,
        case.name,
        case.dtype,
        first.inputs,
        len(rows),
        sum(timed) / len(timed),
        prediction.time_us,
        prediction.fixed_us,
        prediction.fixed_from,
        _pipes(rows, prediction),
        accuracy(chip, case.name, kind=case.kind),
        case.note,
    )


def _case(row: Profiled, kind: str) -> Case:
    if not row.inputs and not row.shaped:
        raise Unmapped(
            "the profile has no shapes; record it at level 1 or above, or name the call: --op NAME KEY=VALUE..."
        )
    attributes = {}
    if row.inputs and row.outputs and len(row.inputs[0]) == len(row.outputs[0]):
        halved = [i for i, (a, b) in enumerate(zip(row.inputs[0], row.outputs[0], strict=True)) if a == 2 * b]
        attributes = {"dim": halved[0]} if len(halved) == 1 else {}
    return case_of(kind, row.inputs, row.dtypes, row.outputs, attributes)


def _pipes(rows: list[Profiled], prediction: Prediction) -> dict[str, tuple[float, float]]:
    """(measured, predicted) time of every pipe that both know; the measured one is the mean over the calls."""
    found = {}
    for pipe, predicted in prediction.pipes_us.items():
        measured = [r.pipes_us[pipe] for r in rows if pipe in r.pipes_us]
        if measured and predicted:
            found[pipe] = (sum(measured) / len(measured), predicted)
    return found
