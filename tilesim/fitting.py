"""Figures of a chip that nobody publishes, fitted to measured times, and how the fit holds on rows that it did not see.

Loss: soft L1 of the logarithm of predicted by measured time, so that one odd row does not move the rest, with a weak
pull to the figures that were there. The times are linearised around the present figures, which is exact for the fixed
times and good for rates; every step starts from times that the model itself predicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from tilesim.cases import FAMILY
from tilesim.chip import Chip
from tilesim.errors import BadInput, TilesimError
from tilesim.measured import Measurement
from tilesim.plan import Plan
from tilesim.prediction import LAUNCH, moved_to, predict, timed

CANDIDATES = (
    "memory.gm.read_bytes_per_s",
    "memory.gm.write_bytes_per_s",
    "memory.gm.unaligned_stretch",
    "memory.gm.cube_read_bytes_per_s",
    "memory.l2.absorbed_write_bytes",
    "memory.l2.write_bytes_per_s",
    "memory.l2.l1_read_bytes_per_s",
    "copy.gm_ub.partial_burst_cycles",
    "copy.ub_gm.partial_burst_cycles",
)
"""Figures that a fit may move, where the chip file says that they are fitted or guessed."""
CUBE = ("memory.gm.cube_read_bytes_per_s", "memory.l2.l1_read_bytes_per_s")
"""Those that only products of matrices see; the others are for vector kernels."""
FURTHEST = math.log(1.15)
"""How far a figure may move in one step, in either direction; times are not linear beyond."""
NEAR = math.log(1.05)
"""How far a figure may move when rows are held out: from a fit that saw them, so that linear times still hold."""
PULL = 0.1
"""Weight of the pull to the present figures, against 1 of a row."""
PRIOR = 0.03
"""Weight of the pull of a fixed time to the launch of all cores; it decides only where rows hardly do."""
LEAST: Mapping[str, float | str] = {
    "memory.gm.unaligned_stretch": 1.0,
    "copy.gm_ub.partial_burst_cycles": "copy.gm_ub.burst_cycles",
    "copy.ub_gm.partial_burst_cycles": "copy.ub_gm.burst_cycles",
}
MOST: Mapping[str, float | str] = {"memory.gm.read_bytes_per_s": "memory.gm.read_alone_bytes_per_s"}
"""Bounds of figures: a number, or another figure. A figure at its lower bound has no effect and is not fitted."""
SCALE = 0.1
"""The error from which on a row counts less than squared."""
STEPS = 3
FOLDS = 5
MOST_FIXED_US = 40.0


@dataclass(frozen=True)
class Held:
    """Errors of rows that the fit did not see, in percent, of one operator and dtype."""

    operator: str
    dtype: str
    rows: int
    mape: float
    by: str
    """Whether whole groups were held out, or single "rows" where an operator has one group."""


@dataclass(frozen=True)
class Fit:
    """A fitted chip: `changed` maps figures to (before, after), `held` has the errors on rows that were held out."""

    chip: Chip = field(repr=False)
    changed: Mapping[str, tuple[float, float]]
    held: tuple[Held, ...]
    rows: int
    error: float
    """Mean absolute error of the fitted rows [%]."""

    @property
    def held_mape(self) -> float:
        """Mean absolute error over all held-out rows [%]."""
        total = sum(h.rows for h in self.held)
        return sum(h.mape * h.rows for h in self.held) / total if total else math.nan

    def toml(self, name: str) -> str:
        """The fitted chip as the text of a chip file called `name`."""
        return self.chip.model_copy(update={"name": name}).to_toml()

    def to_json(self) -> dict[str, Any]:
        """What was fitted and how it holds."""
        return {
            "rows": self.rows,
            "mape": round(self.error, 3),
            "held_out": {"mape": round(self.held_mape, 3), "groups": [vars(h) for h in self.held]},
            "figures": {key: {"before": a, "after": b} for key, (a, b) in self.changed.items()},
        }


@dataclass(frozen=True)
class Point:
    """A row with its plan."""

    row: Measurement
    plan: Plan
    kernel: str
    """The operator whose fixed time it has; "" for one that has the chip's launch."""

    @property
    def cube(self) -> bool:
        """Whether cube cores run it."""
        return any(p.phase.core_kind == "cube" for p in self.plan.phases)


@dataclass(frozen=True)
class Linear:
    """Times around the present figures: phases_us * exp(slopes @ (logarithms of figures by their present values))."""

    points: Sequence[Point]
    phases_us: Any
    launch_us: Any
    slopes: Any
    keys: tuple[str, ...]
    kernels: tuple[str, ...]

    def times(self, x: Any, keep: Any) -> Any:
        """Predicted times [us] of the rows `keep`: x is the figures' logarithms, then the fixed times."""
        count = self.slopes.shape[1]
        fixed = np.array([x[count + self.kernels.index(p.kernel)] if p.kernel else 0.0 for p in self.points])
        return (self.phases_us * np.exp(self.slopes @ x[:count]) + np.where(fixed > 0, fixed, self.launch_us))[keep]


def fitted(rows: Sequence[Measurement], chip: Chip) -> Fit:
    """The chip with its unpublished figures fitted to the rows, and the errors on rows held out.

    Raises BadInput if nothing can be fitted.
    """
    points = points_of(rows, chip)
    statuses = {figure.key: figure.status for figure in chip.figures()}
    keys = [key for key in CANDIDATES if statuses[key] in ("fitted", "guess", "override")]
    keys = [key for key in keys if key not in LEAST or chip.get(key) > _bound(chip, LEAST[key])]
    keys = [key for key in keys if any(p.cube == (key in CUBE) for p in points)]
    if not points or not keys:
        raise BadInput("fit", [f"no row of {chip.name} is of an operator that has figures to fit"])
    now = chip
    for _ in range(STEPS):
        model = linearised(points, now, keys)
        now = _with(now, keys, solve(model, now, np.ones(len(points), dtype=bool)), model.kernels)
    model = linearised(points, now, keys)
    held = tuple(_held_out(model, now, keys))
    errors = [abs(timed(moved_to(p.plan, now), library=bool(p.kernel)).time_us / p.row.time_us - 1) for p in points]
    before = {figure.key: figure.value for figure in chip.figures()}
    final = _labelled(now, keys, points, [e * 100 for e in errors])
    after = {figure.key: figure.value for figure in final.figures()}
    changed = {k: (float(before.get(k, math.nan)), float(v)) for k, v in after.items() if before.get(k) != v}
    return Fit(final, changed, held, len(points), fmean(errors) * 100)


def points_of(rows: Sequence[Measurement], chip: Chip) -> list[Point]:
    """The library kernels among the rows that can be planned, or the samples if there are none."""
    known = [r for r in rows if r.case is not None and not r.cached]
    library = [r for r in known if r.library]
    points = []
    for row in library or known:
        try:
            made = predict(row.case, chip, library=row.library) if row.case else None
        except TilesimError:
            continue
        if made is not None and made.plan is not None:
            name = made.plan.operator.name
            own = row.library and (name in chip.kernels or not chip.kernels)
            points.append(Point(row, made.plan, name if own else ""))
    return points


def linearised(points: Sequence[Point], chip: Chip, keys: Sequence[str], step: float = 0.03) -> Linear:
    """The times of the points around the figures of a chip."""
    at = [timed(moved_to(p.plan, chip), library=False) for p in points]
    phases = np.array([t.phases_us for t in at])
    slopes = np.zeros((len(points), len(keys)))
    for column, key in enumerate(keys):
        changed = chip.override({key: _whole(chip, key, chip.get(key) * math.exp(step))})
        for i, p in enumerate(points):
            if p.cube == (key in CUBE):
                there = timed(moved_to(p.plan, changed), library=False).phases_us
                slopes[i, column] = math.log(there / phases[i]) / step
    kernels = tuple(dict.fromkeys(p.kernel for p in points if p.kernel))
    return Linear(points, phases, np.array([t.fixed_us for t in at]), slopes, tuple(keys), kernels)


def solve(model: Linear, chip: Chip, keep: Any, furthest: float = FURTHEST) -> Any:
    """The figures' logarithms by their present values, then the fixed times [us], that fit the rows `keep` best."""
    from scipy.optimize import least_squares  # noqa: PLC0415  (slow to import, and optional)

    count = model.slopes.shape[1]
    measured = np.array([p.row.time_us for p in model.points])[keep]
    start = np.array([0.0] * count + [max(_fixed(chip, k), 0.1) for k in model.kernels])
    whole_us = chip.launch.base_us + chip.launch.block_us * (chip.cores.vector - 1)
    ends = [_ends(chip, key, furthest) for key in model.keys]
    low = [end[0] for end in ends] + [chip.launch.base_us * 0.7] * len(model.kernels)
    high = [end[1] for end in ends] + [MOST_FIXED_US] * len(model.kernels)

    def residuals(x: Any) -> Any:
        errors = np.log(model.times(x, keep) / measured)
        return np.concatenate([errors, PULL * x[:count], PRIOR * np.log(x[count:] / whole_us)])

    found = least_squares(residuals, np.clip(start, low, high), bounds=(low, high), loss="soft_l1", f_scale=SCALE)
    return found.x


def _held_out(model: Linear, chip: Chip, keys: Sequence[str]) -> list[Held]:
    """The errors of every group of rows, predicted by fits to the others."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, p in enumerate(model.points):
        groups.setdefault((p.row.operator, p.row.dtype), []).append(i)
    found = []
    for (operator, dtype), members in groups.items():
        alone = sum(name == operator for name, _ in groups) == 1
        folds = [members[i::FOLDS] for i in range(FOLDS)] if alone else [members]
        errors: list[float] = []
        for fold in (f for f in folds if f):
            keep = np.ones(len(model.points), dtype=bool)
            keep[fold] = False
            there = _with(chip, keys, solve(model, chip, keep, NEAR), model.kernels)
            for i in fold:
                p = model.points[i]
                time_us = timed(moved_to(p.plan, there), library=bool(p.kernel)).time_us
                errors.append(abs(time_us / p.row.time_us - 1) * 100)
        found.append(Held(operator, dtype, len(errors), round(fmean(errors), 2), "rows" if alone else "group"))
    return found


def _bound(chip: Chip, bound: float | str) -> float:
    return chip.get(bound) if isinstance(bound, str) else bound


def _ends(chip: Chip, key: str, furthest: float) -> tuple[float, float]:
    """How far the logarithm of a figure may move in one step."""
    value = chip.get(key)
    low, high = -furthest, furthest
    if key in LEAST:
        low = max(low, min(0.0, math.log(_bound(chip, LEAST[key]) / value)))
    if key in MOST:
        high = min(high, max(0.0, math.log(_bound(chip, MOST[key]) / value)))
    return low, max(high, low + 1e-6)


def _fixed(chip: Chip, kernel: str) -> float:
    entry = chip.kernels.get(kernel)
    return entry.fixed_us if entry else chip.launch.base_us


def _whole(chip: Chip, key: str, value: float) -> float:
    return round(value) if isinstance(chip.get(key), int) else value


def _with(chip: Chip, keys: Sequence[str], x: Any, kernels: Sequence[str]) -> Chip:
    """The chip with other figures and fixed times."""
    data = chip.model_dump(by_alias=True)
    for key, by in zip(keys, x, strict=False):
        *path, name = key.split(".")
        table = data
        for part in path:
            table = table[part]
        table[name] = _whole(chip, key, float(f"{chip.get(key) * math.exp(by):.4g}"))
    for kernel, fixed in zip(kernels, x[len(keys) :], strict=True):
        entry = data["kernels"].setdefault(kernel, {"source": LAUNCH, "status": "fitted"})
        entry["fixed_us"] = round(float(fixed), 2)
    return Chip.model_validate(data)


def _labelled(chip: Chip, keys: Sequence[str], points: Sequence[Point], errors: Sequence[float]) -> Chip:
    """The chip whose fitted tables say so, with how many rows they rest on and how well these fit."""
    data = chip.model_dump(by_alias=True)

    def label(table: dict[str, Any], mine: Sequence[float], names: Sequence[str]) -> None:
        table |= {"status": "fitted", "n": len(mine), "error": round(fmean(mine), 2)}
        table["guesses"] = tuple(g for g in table.get("guesses", ()) if g not in names)

    by_table: dict[str, list[str]] = {}
    for key in keys:
        place, _, name = key.rpartition(".")
        by_table.setdefault(place, []).append(name)
    for path, names in by_table.items():
        table: dict[str, Any] = data
        for part in path.split("."):
            table = table[part]
        kinds = {f"{path}.{name}" in CUBE for name in names}
        label(table, [e for p, e in zip(points, errors, strict=True) if p.cube in kinds], names)
    for kernel in {p.kernel for p in points if p.kernel}:
        mine = [e for p, e in zip(points, errors, strict=True) if p.kernel == kernel]
        data["kernels"][kernel]["source"] = (
            f"fit to {len(mine)} measured rows of the library's {FAMILY[kernel]} kernels"
        )
        label(data["kernels"][kernel], mine, ())
    return Chip.model_validate(data)
