"""Parameters of a chip that nobody publishes, fitted to measured times, and errors on rows held out of the fit.

Loss: soft L1 of the logarithm of predicted by measured time, so that one outlier does not move the others. Every fit,
of all rows or of all but those held out, starts from the same values, which no measured row decided, within the same
bounds. Times are interpolated between values at which the model was evaluated, and evaluated anew where a fit ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput, TilesimError
from tilesim.measured.measurement import Measurement
from tilesim.measured.predict import predict, timed
from tilesim.measured.surrogate import Surrogate
from tilesim.planning.plan import Plan
from tilesim.simulation.launch import LAUNCH

CANDIDATES = (
    "memory.gm.read_bytes_per_s",
    "memory.gm.write_bytes_per_s",
    "memory.gm.cube_read_bytes_per_s",
    "memory.l2.absorbed_write_bytes",
    "memory.l2.write_bytes_per_s",
    "memory.l2.core_l1_read_bytes_per_s",
    "copy.ub_gm.unaligned_stretch",
    "copy.gm_ub.partial_burst_cycles",
    "copy.ub_gm.partial_burst_cycles",
)
"""Parameters that a fit may change if the chip file states that they are fitted or guessed."""
CUBE = ("memory.gm.cube_read_bytes_per_s", "memory.l2.core_l1_read_bytes_per_s")
"""Candidates that only products of matrices depend on; the others are for vector kernels."""
BOUNDS: Mapping[str, tuple[str, float, float, float]] = {
    "memory.gm.read_bytes_per_s": ("memory.gm.read_alone_bytes_per_s", 0.85, 0.4, 1.0),
    "memory.gm.write_bytes_per_s": ("memory.gm.read_alone_bytes_per_s", 0.75, 0.3, 1.3),
    "copy.ub_gm.unaligned_stretch": ("copy.gm_ub.unaligned_stretch", 1.0, 1.0, 3.0),
    "memory.gm.cube_read_bytes_per_s": ("memory.gm.read_alone_bytes_per_s", 0.95, 0.4, 1.5),
    "memory.l2.absorbed_write_bytes": ("memory.l2.size_bytes", 0.5, 0.05, 1.0),
    "memory.l2.write_bytes_per_s": ("memory.l2.read_bytes_per_s", 1.0, 0.5, 4.0),
    "memory.l2.core_l1_read_bytes_per_s": ("memory.l2.l1_read_bytes_per_s", 0.03, 0.01, 0.06),
    "copy.gm_ub.partial_burst_cycles": ("copy.gm_ub.burst_cycles", 1.0, 1.0, 12.0),
    "copy.ub_gm.partial_burst_cycles": ("copy.ub_gm.burst_cycles", 1.0, 1.0, 12.0),
}
"""Parameter -> (another parameter, start, least, most), in multiples of the other one.

Reads beside writes are no faster than reads alone, and writes hardly; the cache absorbs no more than it holds. An
unaligned write takes at least as long as an unaligned read, and a part of a block as long as a whole one, which are the
starts. One cube core alone reads 0.06 of the cache rate of all cores on 910B1 (copy table of mskpp: 160.7 bytes a
cycle). The other bounds are wide guesses.
"""
NOISE = 0.07
"""Error of a row that no parameter explains, in logarithm; pulls are weighted against it."""
SPREAD = 0.2
"""Expected distance of a parameter from its start, as a share of the way from its least to its most.

The bounds are then two to three such steps from the middle. It decides parameters that rows hardly constrain.
"""
LEAST_SPREAD, MOST_SPREAD = 0.1, 3.0
"""Expected distance of fixed times from their middle, in logarithm: at least, and before they are known."""
OF_NORMAL = 1.4826
"""Standard deviation of normal values divided by their median absolute deviation."""
SCALE = 0.1
"""Error from which on a row counts less than squared."""
FOLDS = 5
"""Parts in which the rows of an operator with one group are held out."""
MOST_FIXED_US = 40.0
PLACES = (0.25, 0.75)
"""Starts of fits beside those of BOUNDS: shares of the way from the least to the most."""
ROUNDS = 16
"""Evaluations of the model at the end of a fit after which the fit counts as not converged."""
CONVERGED = 0.003
"""Relative change of the loss below which a fit has converged; parameters that rows hardly constrain may move on."""
MOST_CALLS = 100
"""Most evaluations of the times in one search; most searches need a few dozen."""
SCATTERED = 6
"""Points in the box at which the model is evaluated first, for each parameter."""


@dataclass(frozen=True)
class HeldOut:
    """Errors of rows that the fit did not see, in percent, of one operator and dtype."""

    operator: str
    dtype: str
    rows: int
    mape: float
    by: str
    """"group" if the whole group was held out, "rows" if parts of it were, as for an operator with one group."""
    worst: float = math.nan
    """The largest error, with its sign."""
    median_ape: float = math.nan


@dataclass(frozen=True)
class Fit:
    """A fitted chip: `changed` maps parameters to (before, after), `held` has the errors on held-out rows."""

    chip: Chip = field(repr=False)
    changed: Mapping[str, tuple[float, float]]
    held: tuple[HeldOut, ...]
    rows: int
    error: float
    """Mean absolute error of the fitted rows [%]."""
    problems: tuple[str, ...] = ()
    """Fits that did not converge; empty if all did."""

    @property
    def held_mape(self) -> float:
        """Mean absolute error over all held-out rows [%]."""
        total = sum(h.rows for h in self.held)
        return sum(h.mape * h.rows for h in self.held) / total if total else math.nan

    def toml(self, name: str) -> str:
        """Return the fitted chip as the text of a chip file called `name`."""
        return self.chip.model_copy(update={"name": name}).to_toml()

    def to_json(self) -> dict[str, Any]:
        """The changes and errors as plain data."""
        return {
            "rows": self.rows,
            "mape": round(self.error, 3),
            "converged": not self.problems,
            "problems": list(self.problems),
            "held_out": {"mape": round(self.held_mape, 3), "groups": [vars(h) for h in self.held]},
            "figures": {key: {"before": a, "after": b} for key, (a, b) in self.changed.items()},
        }


@dataclass(frozen=True)
class FitPoint:
    """A row with its plan."""

    row: Measurement
    plan: Plan
    kernel: str
    """The operator whose fixed time it has; "" for the chip's launch time."""

    @property
    def cube(self) -> bool:
        """True if cube cores run it."""
        return any(p.phase.core_kind == "cube" for p in self.plan.phases)


def fitted(rows: Sequence[Measurement], chip: Chip) -> Fit:
    """Return the chip with its unpublished parameters fitted to the rows, and the errors on held-out rows.

    Raises BadInput if nothing can be fitted.
    """
    points = points_of(rows, chip)
    statuses = {p.key: p.status for p in chip.figures()}
    keys = [key for key in CANDIDATES if statuses[key] in ("fitted", "guess", "override")]
    keys = [key for key in keys if any(p.cube == (key in CUBE) for p in points)]
    if not points or not keys:
        raise BadInput("fit", [f"no row of {chip.name} depends on parameters to fit"])
    current, held, problems = chip, list[HeldOut](), list[str]()
    for kind in ("vector", "cube"):
        points_of_kind = [p for p in points if p.cube == (kind == "cube")]
        keys_of_kind = [key for key in keys if (key in CUBE) == (kind == "cube")]
        if points_of_kind and keys_of_kind:
            problem = Problem(points_of_kind, chip, keys_of_kind)
            best, settled = problem.fit()
            if not settled:
                problems.append(f"the fit of the {kind} parameters did not converge in {ROUNDS} rounds")
            current = _with(current, keys_of_kind, problem.parameters(best), best[len(keys_of_kind) :], problem.kernels)
            groups, unsettled = problem.held_out()
            held, problems = held + groups, problems + unsettled
    errors = [abs(timed(p.plan.on(current), library=bool(p.kernel)).time_us / p.row.time_us - 1) for p in points]
    before = {p.key: p.value for p in chip.figures()}
    final = _labelled(current, keys, points, [e * 100 for e in errors])
    after = {p.key: p.value for p in final.figures()}
    changed = {k: (float(before.get(k, math.nan)), float(v)) for k, v in after.items() if before.get(k) != v}
    return Fit(final, changed, tuple(held), len(points), fmean(errors) * 100, tuple(problems))


def points_of(rows: Sequence[Measurement], chip: Chip) -> list[FitPoint]:
    """Return the library kernels among the rows that can be planned, else the samples."""
    known = [r for r in rows if r.call is not None]
    library = [r for r in known if r.library]
    points = []
    for row in library or known:
        try:
            prediction = predict(row.call, chip, library=row.library) if row.call else None
        except TilesimError:
            continue
        if prediction is not None and prediction.plan is not None:
            name = prediction.plan.operator.name
            has_fixed_time = row.library and (name in chip.kernels or not chip.kernels)
            points.append(FitPoint(row, prediction.plan, name if has_fixed_time else ""))
    return points


class Problem:
    """Rows of one kind of cores and the parameters that their times depend on."""

    def __init__(self, points: Sequence[FitPoint], chip: Chip, keys: Sequence[str]) -> None:
        self.points, self.chip, self.keys = points, chip, tuple(keys)
        self.kernels = tuple(dict.fromkeys(p.kernel for p in points if p.kernel))
        others = [chip.get(other) if other else 1.0 for other, *_ in (BOUNDS[key] for key in keys)]
        start, low, high = np.log(np.array([BOUNDS[key][1:] for key in keys]) * np.array(others)[:, None]).T
        self.low, self.wide = low, high - low
        self.start = (start - low) / self.wide
        self.measured = np.array([p.row.time_us for p in points])
        self.launch_us = np.array([timed(p.plan, library=False).fixed_us for p in points])
        self.column = np.array([self.kernels.index(p.kernel) if p.kernel else -1 for p in points])
        self.whole_us = chip.launch.base_us + chip.launch.block_us * (chip.cores.vector - 1)
        self.model = Surrogate(self._phases, len(keys), scattered=SCATTERED * len(keys))

    def parameters(self, x: Any) -> list[float]:
        """Return the values of the parameters at a place of the unit box."""
        return [float(v) for v in np.exp(self.low + self.wide * x[: len(self.keys)])]

    def _phases(self, x: Any) -> Any:
        """Logarithms of the times of the phases in the model."""
        chip = _with(self.chip, self.keys, self.parameters(x), (), ())
        return np.log([timed(p.plan.on(chip), library=False).phases_us for p in self.points])

    def solve(self, keep: Any) -> list[Any]:
        """Return the ends of searches from all starts, best first: places in the unit box, then fixed times [us].

        Fixed times are pulled to their median, with a strength from their spread when they are hardly pulled.
        """
        middle, spread = math.log(self.whole_us), MOST_SPREAD
        ends = self._solve(keep, middle, spread)
        if len(self.kernels) > 1:
            fixed = np.log(ends[0].x[len(self.keys) :])
            middle = float(np.median(fixed))
            spread = max(OF_NORMAL * float(np.median(np.abs(fixed - middle))), LEAST_SPREAD)
            ends = self._solve(keep, middle, spread)
        return ends

    def _solve(self, keep: Any, middle: float, spread: float) -> list[Any]:
        from scipy.optimize import least_squares  # noqa: PLC0415  (slow to import, and optional)

        count, kernels = len(self.keys), len(self.kernels)
        measured, launch, column = self.measured[keep], self.launch_us[keep], self.column[keep]
        has_fixed_time, pull, alike = column >= 0, NOISE / SPREAD, NOISE / spread

        def parts(x: Any) -> tuple[Any, Any]:
            phases = np.exp(self.model.value(x[:count])[keep])
            return phases, phases + np.where(has_fixed_time, x[count:][column] if kernels else 0.0, launch)

        def residuals(x: Any) -> Any:
            apart = [np.log(parts(x)[1] / measured), pull * (x[:count] - self.start)]
            return np.concatenate([*apart, alike * (np.log(x[count:]) - middle)])

        def jacobian(x: Any) -> Any:
            phases, times = parts(x)
            out = np.zeros((len(measured) + count + kernels, count + kernels))
            out[: len(measured), :count] = self.model.slope(x[:count])[keep] * (phases / times)[:, None]
            rows = np.flatnonzero(has_fixed_time)
            out[rows, count + column[rows]] = 1 / times[rows]
            out[len(measured) : len(measured) + count, :count] = np.eye(count) * pull
            out[len(measured) + count :, count:] = np.diag(alike / x[count:])
            return out

        low = np.array([0.0] * count + [self.chip.launch.base_us * 0.7] * kernels)
        high = np.array([1.0] * count + [MOST_FIXED_US] * kernels)
        ends = []
        for place in (self.start, *(np.full(count, share) for share in PLACES)):
            start = np.clip(np.concatenate([place, np.full(kernels, math.exp(middle))]), low + 1e-6, high - 1e-6)
            options = {"bounds": (low, high), "loss": "soft_l1", "f_scale": SCALE, "max_nfev": MOST_CALLS}
            ends.append(least_squares(residuals, start, jacobian, **options))
        return sorted(ends, key=lambda end: end.cost)

    def fit(self) -> tuple[Any, bool]:
        """Return the best place for all rows, and True if the fit converged there."""
        return self._settled(np.ones(len(self.points), dtype=bool))

    def _settled(self, keep: Any) -> tuple[Any, bool]:
        """Evaluate the model at the ends of all searches until the best one stays; return it, and True if it does.

        Two ends with different parameters can be about as good; only the model itself decides between them.
        """
        count = len(self.keys)
        ends = self.solve(keep)
        for _ in range(ROUNDS):
            for end in ends:
                self.model.learn(end.x[:count])
            self.model.renew()
            last, ends = ends[0].cost, self.solve(keep)
            if abs(ends[0].cost / last - 1) < CONVERGED:
                return ends[0].x, True
        return ends[0].x, False

    def held_out(self) -> tuple[list[HeldOut], list[str]]:
        """Return the errors of every group of rows, predicted by fits to the others, and problems of those fits."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i, p in enumerate(self.points):
            groups.setdefault((p.row.operator, p.row.dtype), []).append(i)
        alone = {key: sum(name == key[0] for name, _ in groups) == 1 for key in groups}
        errors: dict[tuple[str, str], list[float]] = {key: [] for key in groups}
        problems = []
        for key, members in groups.items():
            for fold in [members[i::FOLDS] for i in range(FOLDS)] if alone[key] else [members]:
                if not fold:
                    continue
                x, settled = self._settled(self._without(fold))
                if not settled:
                    problems.append(f"the fit without {' '.join(key)} did not converge in {ROUNDS} rounds")
                fitted_chip = _with(self.chip, self.keys, self.parameters(x), x[len(self.keys) :], self.kernels)
                for i in fold:
                    p = self.points[i]
                    time_us = timed(p.plan.on(fitted_chip), library=bool(p.kernel)).time_us
                    errors[key].append((time_us / p.row.time_us - 1) * 100)
        return [_held(key, errors_of_group, by_rows=alone[key]) for key, errors_of_group in errors.items()], problems

    def _without(self, fold: Sequence[int]) -> Any:
        """A mask of the points that are not in a fold."""
        keep = np.ones(len(self.points), dtype=bool)
        keep[list(fold)] = False
        return keep


def _held(key: tuple[str, str], errors: Sequence[float], *, by_rows: bool) -> HeldOut:
    sizes = [abs(e) for e in errors]
    worst = round(float(errors[sizes.index(max(sizes))]), 2)
    return HeldOut(
        *key, len(errors), round(fmean(sizes), 2), "rows" if by_rows else "group", worst, round(median(sizes), 2)
    )


def _like(chip: Chip, key: str, value: float) -> float:
    """The value, rounded for a parameter that is a whole number."""
    return round(value) if isinstance(chip.get(key), int) else value


def _with(
    chip: Chip, keys: Sequence[str], values: Sequence[float], fixed_us: Sequence[float], kernels: Sequence[str]
) -> Chip:
    """The chip with other values of parameters and fixed times."""
    data = chip.model_dump(by_alias=True)
    for key, value in zip(keys, values, strict=True):
        *path, name = key.split(".")
        table = data
        for part in path:
            table = table[part]
        table[name] = _like(chip, key, float(f"{value:.4g}"))
    for kernel, fixed in zip(kernels, fixed_us, strict=True):
        entry = data["kernels"].setdefault(kernel, {"source": LAUNCH, "status": "fitted"})
        entry["fixed_us"] = round(float(fixed), 2)
    return Chip.model_validate(data)


def _labelled(chip: Chip, keys: Sequence[str], points: Sequence[FitPoint], errors: Sequence[float]) -> Chip:
    """The chip with the status, number of rows and error of its fitted tables."""
    data = chip.model_dump(by_alias=True)

    def label(table: dict[str, Any], errors_of_table: Sequence[float], names: Sequence[str]) -> None:
        table |= {"status": "fitted", "n": len(errors_of_table), "error": round(fmean(errors_of_table), 2)}
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
    classes = {p.kernel: p.plan.operator.accuracy_class for p in points if p.kernel}
    for kernel, accuracy_class in classes.items():
        errors_of_table = [e for p, e in zip(points, errors, strict=True) if p.kernel == kernel]
        data["kernels"][kernel]["source"] = (
            f"fit to {len(errors_of_table)} measured rows of the library's {accuracy_class} kernels"
        )
        label(data["kernels"][kernel], errors_of_table, ())
    return Chip.model_validate(data)
