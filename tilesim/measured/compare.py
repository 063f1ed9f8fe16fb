"""A user's profile against the model: predicted and measured time of every kernel, ranked by possible gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import TilesimError
from tilesim.late_binding import Shown
from tilesim.measured.error_bands import Accuracy, accuracy
from tilesim.measured.predict import Prediction, predict
from tilesim.measured.profile import Profiled, read_profile
from tilesim.measured.profiled_calls import call_of_kernel
from tilesim.operators.measured_kernels import Unmapped
from tilesim.operators.operator import KernelCall, KernelRow
from tilesim.operators.shapes import shape_text
from tilesim.text import several


@dataclass(frozen=True)
class KernelComparison:
    """All calls of one kernel with the same shapes and dtypes. Times are of one call, means over the calls.

    `measured_us`, `gain_us` and `ratio` are None for a profile without durations.
    """

    kind: str
    """The profiler's type."""
    operator: str
    """The name of the operator."""
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    calls: int
    measured_us: float | None
    predicted_us: float
    fixed_us: float
    """The part of the prediction that does not depend on the work."""
    fixed_from: str
    """The chip's table that it comes from: "kernels.<operator>", or "launch" where the kernel has no entry."""
    pipes_us: Mapping[str, tuple[float, float]]
    """Pipe -> (measured, predicted), where both are known."""
    accuracy: Accuracy = field(repr=False)
    note: str = ""
    """Difference of the predicted call from the kernel, with its reason; "" for none."""

    @property
    def gain_us(self) -> float | None:
        """Time of all calls beyond the predicted time; below 0 if they are faster."""
        return None if self.measured_us is None else (self.measured_us - self.predicted_us) * self.calls

    @property
    def ratio(self) -> float | None:
        """Measured by predicted time; None without a measured time or for a predicted time of 0."""
        return None if self.measured_us is None or not self.predicted_us else self.measured_us / self.predicted_us

    @property
    def shapes_text(self) -> str:
        """The shapes of the inputs in one line."""
        return " ".join(map(shape_text, self.shapes))

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "type": self.kind,
            "operator": self.operator,
            "dtype": self.dtype,
            "shapes": [list(shape) for shape in self.shapes],
            "calls": self.calls,
            "measured_us": _rounded(self.measured_us),
            "predicted_us": round(self.predicted_us, 3),
            "fixed_us": round(self.fixed_us, 3),
            "fixed_from": self.fixed_from,
            "ratio": _rounded(self.ratio),
            "gain_us": _rounded(self.gain_us),
            "pipes": {
                pipe: {"measured_us": round(measured, 3), "predicted_us": round(predicted, 3)}
                for pipe, (measured, predicted) in self.pipes_us.items()
            },
            "accuracy": str(self.accuracy),
            "note": self.note,
        }


@dataclass(frozen=True)
class Left:
    """Kernels that are not compared: type, reason, number of calls, time of all calls that have one."""

    kind: str
    reason: str
    calls: int
    time_us: float
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    """Measured time of every pipe of the first call; empty if the profile has none."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return vars(self) | {"time_us": round(self.time_us, 3), "pipes_us": dict(self.pipes_us)}


@dataclass(frozen=True)
class Comparison(Shown):
    """A profile against a chip: predicted kernels, largest gain first, and the others, longest time first."""

    chip: str
    kernels: tuple[KernelComparison, ...]
    left: tuple[Left, ...]
    untimed: int = 0
    """Calls without a time in a profile with a column of durations; they are not compared."""
    timed: bool = True
    """True for a profile with durations; without them kernels are only predicted, the longest time first."""

    @property
    def calls(self) -> int:
        """Number of rows of the profile."""
        return sum(k.calls for k in self.kernels) + sum(x.calls for x in self.left)

    @property
    def compared_us(self) -> float:
        """Measured time of the kernels that were predicted; 0 for a profile without durations."""
        return sum((k.measured_us * k.calls for k in self.kernels if k.measured_us is not None), 0.0)

    @property
    def time_us(self) -> float:
        """Measured time of all calls that have one."""
        return self.compared_us + sum(x.time_us for x in self.left)

    def to_json(self) -> dict[str, Any]:
        """The whole comparison as plain data."""
        return {
            "chip": self.chip,
            "rows": self.calls,
            "compared": sum(k.calls for k in self.kernels),
            "untimed": self.untimed,
            "time_us": round(self.time_us, 3) if self.timed else None,
            "compared_us": round(self.compared_us, 3) if self.timed else None,
            "kernels": [k.to_json() for k in self.kernels],
            "skipped": [x.to_json() for x in self.left],
        }

    def __str__(self) -> str:
        """One line: the compared share of the profile."""
        count = f"{self.chip}: {sum(k.calls for k in self.kernels):,} of {several(self.calls, 'call')}"
        if not self.timed:
            return f"{count} predicted; the profile has no durations to compare with"
        share = f" ({self.compared_us / self.time_us:.1%})" if self.time_us else ""
        without = f"; {several(self.untimed, 'call')} without a time" if self.untimed else ""
        return f"{count} compared, {self.compared_us:,.1f} of {self.time_us:,.1f} us{share}{without}"


@checked
def compare(csv_path: str | Path, chip: Chip | str | Path, case: KernelCall | None = None) -> Comparison:
    """Return a profiler's table of kernels compared with the times that the chip predicts [us].

    Takes kernel_details and op_summary in any layout, columns by name. Rows without a known operator and rows without a
    valid duration are counted, with the reason. A profile without durations is only predicted. `case` is the call of
    kernels without shapes, as in the tables of one operator. Raises BadInput for a file that is not a profile.
    """
    chip = chip if isinstance(chip, Chip) else load_chip(chip)
    profile = read_profile(csv_path)
    groups: dict[Any, list[Profiled]] = {}
    left: dict[tuple[str, str], list[Profiled]] = {}
    for row in profile:
        if row.untimed:
            left.setdefault((_kind(row), row.untimed), []).append(row)
        else:
            groups.setdefault((row.kind or row.name, row.inputs, row.dtypes, row.outputs), []).append(row)
    kernels: list[KernelComparison] = []
    for rows in groups.values():
        try:
            kernels.append(_compared(rows, chip, case))
        except TilesimError as why:
            left.setdefault((_kind(rows[0]), str(why).splitlines()[0]), []).extend(rows)
    timed = not profile or any(row.untimed or row.time_us > 0 for row in profile)
    skipped = [
        Left(*key, len(rows), sum((r.time_us for r in rows if r.time_us > 0), 0.0), rows[0].pipes_us)
        for key, rows in left.items()
    ]
    return Comparison(
        chip.name,
        tuple(sorted(kernels, key=_rank, reverse=True)),
        tuple(sorted(skipped, key=lambda x: -x.time_us)),
        sum(bool(row.untimed) for row in profile),
        timed,
    )


def _kind(row: Profiled) -> str:
    """The name of a kernel in texts."""
    return row.kind or row.name or "unnamed"


def _rounded(value: float | None) -> float | None:
    """A value as plain data, None for None."""
    return None if value is None else round(value, 3)


def _rank(kernel: KernelComparison) -> float:
    """The value that kernels are sorted by: the gain, or the time of all calls if nothing is measured."""
    gain_us = kernel.gain_us
    return kernel.predicted_us * kernel.calls if gain_us is None else gain_us


def _compared(rows: list[Profiled], chip: Chip, stated: KernelCall | None) -> KernelComparison:
    """One kernel against its prediction; its rows all have times, or the profile has none.

    Raises Unmapped, or what planning raises.
    """
    first = rows[0]
    kind = _kind(first)
    if first.of_blocks and stated is None:
        raise Unmapped("pipe times of blocks without a duration, which is in OpBasicInfo.csv of the same run")
    if first.core.upper() in ("AI_CPU", "HCCL", "DSA_SQE"):
        raise Unmapped(f"runs on {first.core}, not on the cores")
    call = stated if stated is not None and not first.inputs else _call(first, kind)
    prediction = predict(call, chip)
    return KernelComparison(
        kind,
        call.operator.name,
        call.dtype,
        first.inputs,
        len(rows),
        None if math.isnan(first.time_us) else sum(r.time_us for r in rows) / len(rows),
        prediction.time_us,
        prediction.fixed_us,
        prediction.fixed_from,
        _pipes(rows, prediction),
        accuracy(chip, call.operator, call.own_class),
        call.note,
    )


def _call(row: Profiled, kind: str) -> KernelCall:
    """The call of a kernel. Raises Unmapped."""
    if not row.inputs and not row.shaped:
        raise Unmapped(
            "the profile has no shapes; record it at level 1 or above, or name the call: --op NAME KEY=VALUE..."
        )
    return call_of_kernel(kind, KernelRow(row.inputs, row.dtypes, row.outputs))


def _pipes(rows: list[Profiled], prediction: Prediction) -> dict[str, tuple[float, float]]:
    """(measured, predicted) time of every pipe that both have; the measured one is the mean over the calls."""
    pipes_us = {}
    for pipe, predicted in prediction.pipes_us.items():
        measured = [r.pipes_us[pipe] for r in rows if pipe in r.pipes_us]
        if measured and predicted:
            pipes_us[pipe] = (sum(measured) / len(measured), predicted)
    return pipes_us
