"""Value of one parameter of a chip with which a call fits, or with which it takes no longer than a given time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilesim.analysis.answer import Answer, fitting_answer_of
from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import step_of, toml_value, unit_of
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import Verdict, verdict_of
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Operator
from tilesim.ops import load_operator

FARTHEST: Final = 1024
"""Largest factor between a tried value and that of the chip, in both directions."""
LOOKS: Final = 3
"""Values tried for every factor of 4 before the bisection, since a time may rise and fall."""
AS_FAST: Final = 1.001
"""Ratio of times up to which they count as equal."""
DIGITS: Final = 4
"""Digits to which rates and clocks are determined."""


@dataclass(frozen=True)
class Trial:
    """Tried value with the time of the plan [us], or None and the reason why there is no time."""

    value: int | float
    time_us: float | None
    reason: str = ""
    bound: str = ""


@dataclass(frozen=True)
class SolveResult:
    """Result of `solve`; `value` is None if no value is sufficient."""

    key: str
    given: int | float
    """Value of the chip."""
    value: int | float | None
    kind: str
    """"least", "greatest" (of a parameter of which less is better), or "any" if every tried value is sufficient."""
    wanted_us: float | None
    time_us: float | None
    """Time with `value`; None without a target time or without a sufficient value."""
    beyond: Trial | None
    """Nearest value that is not sufficient."""
    until: int | float | None
    """Largest sufficient value that was tried, if the largest values are not sufficient; else None."""
    best: Trial | None
    """Fastest trial; of those that are as fast to a thousandth, the one nearest to the chip's value."""
    reason: str
    """Reason why no value is sufficient; "" if one is."""

    @property
    def ok(self) -> bool:
        """True if a value is sufficient."""
        return self.value is not None

    def __str__(self) -> str:
        """Return the answer in a line."""
        goal = "to fit" if self.wanted_us is None else f"for {self.wanted_us:,.1f} us"
        if self.value is None:
            return f"no value of {self.key} is enough {goal}: {self.reason}"
        which = {"any": "every value tried is enough, such as"}.get(self.kind, f"the {self.kind} value is")
        time = f", which takes {self.time_us:,.1f} us" if self.time_us is not None else ""
        beyond = f"; {_shown(self.beyond.value)} is not enough" if self.beyond else ""
        until = f", nor is more than about {_shown(self.until)}" if self.until else ""
        unit = unit_of(self.key)
        value = f"{_shown(self.value)} {unit}".rstrip()
        return f"{self.key} {goal}: {which} {value}{time}{beyond}{until}; the chip has {_shown(self.given)}"

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return {
            "ok": self.ok,
            "key": self.key,
            "unit": unit_of(self.key) or None,
            "given": self.given,
            "value": self.value,
            "kind": self.kind,
            "wanted_us": self.wanted_us,
            "time_us": self.time_us,
            "until": self.until,
            "beyond": None if self.beyond is None else vars(self.beyond),
            "best": None if self.best is None else vars(self.best),
            "reason": self.reason,
        }


@checked
def solve(
    op: Operator | str | Path,
    given: Given,
    chip: Chip | str | Path,
    key: str,
    *,
    time_us: float | None = None,
    dtype: str | None = None,
    tiles: Mapping[str, int] | None = None,
    **options: Any,
) -> SolveResult:
    """Return the least value of a parameter with which the call fits, or takes at most `time_us` if that is given.

    Of a parameter of which less is better (a latency, a reserve), the greatest. The search tries values from 1/1024 to
    1024 times that of the chip, then bisects between the nearest that is not sufficient and the first that is: a memory
    to a block of 32 bytes, cores to one, rates to four digits. Every value is checked, and planned if there is a target
    time or if `tiles` are fixed by hand as in `plan`.

    >>> answer = solve("glu_backward", {"self": (64, 65536)}, "ascend950pr", "memory.ub.size_bytes")
    >>> answer.ok, answer.kind
    (True, 'least')

    Raises BadInput for an unknown key, and as `check` does.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return solve_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), key, time_us, tiles)


def solve_of(
    verdict: Verdict, key: str, time_us: float | None = None, tiles: Mapping[str, int] | None = None
) -> SolveResult:
    """Return the answer of `solve` from the verdict on the chip as it is."""
    now = verdict.on.get(key)
    if time_us is not None and not (math.isfinite(time_us) and time_us > 0):
        raise BadInput("solve", [f"time_us is {time_us}, must be a number above 0"])
    trials = _Trials(verdict, key, tiles or {}, timed=time_us is not None)

    def suffices(value: float) -> bool:
        trial = trials[value]
        return not trial.reason and (time_us is None or (trial.time_us is not None and trial.time_us <= time_us))

    ladder = _ladder(key, now)
    good = [value for value in ladder if suffices(value)]
    best = trials.best()
    if not good:
        reason = _too_slow(key, best) if best else trials[ladder[-1]].reason
        return SolveResult(key, now, None, "", time_us, None, None, None, best, reason)
    if len(good) == len(ladder):
        return SolveResult(key, now, now, "any", time_us, trials[now].time_us, None, None, best, "")
    greatest = good[0] == ladder[0] and good[-1] != ladder[-1]
    value, beyond = _edge(ladder[::-1] if greatest else ladder, suffices, key, whole=isinstance(now, int))
    kind = "greatest" if greatest else "least"
    until = None if greatest or good[-1] == ladder[-1] else good[-1]
    return SolveResult(key, now, value, kind, time_us, trials[value].time_us, trials[beyond], until, best, "")


class _Trials:
    """Trials of values, each made once."""

    def __init__(self, verdict: Verdict, key: str, tiles: Mapping[str, int], *, timed: bool) -> None:
        self.key, self.tiles, self.timed, self.chip = key, tiles, timed, verdict.on
        self.planned = timed or bool(tiles)
        self.base = fitting_answer_of(verdict, tiles) if self.planned else Answer(verdict)
        self.seen: dict[float, Trial] = {self.chip.get(key): self._trial(self.chip.get(key), self.base)}

    def __getitem__(self, value: float) -> Trial:
        """Return the trial of a value."""
        if value not in self.seen:
            self.seen[value] = self._tried(value)
        return self.seen[value]

    def best(self) -> Trial | None:
        """Return the fastest trial; of those as fast to a thousandth, the one nearest to the chip's value."""
        timed = [(trial.time_us, trial) for trial in self.seen.values() if trial.time_us is not None]
        least = min((time for time, _ in timed), default=0.0)
        near = [trial for time, trial in timed if time <= least * AS_FAST]
        now = self.chip.get(self.key) or 1
        return min(near, key=lambda trial: abs(math.log(max(trial.value, 1e-9) / now)), default=None)

    def _tried(self, value: float) -> Trial:
        try:
            chip = self.chip.override({self.key: value})
            if not self.planned:
                return self._trial(value, Answer(verdict_of(self.base.verdict.call, chip)))
            answer = self.base.on(chip, self.tiles)
        except BadInput as error:
            return Trial(value, None, "; ".join(error.problems))
        if self.base.plan is None:
            self.base = answer
        return self._trial(value, answer)

    def _trial(self, value: float, answer: Answer) -> Trial:
        """Return the trial of a value from its answer."""
        if answer.timeline is None or not self.timed:
            return Trial(value, None, answer.verdict.culprit)
        return Trial(value, answer.time_us, "", answer.timeline.bottleneck)


def _too_slow(key: str, best: Trial) -> str:
    """Return the reason why no value of a parameter reaches a time."""
    value = f"{_shown(best.value)} {unit_of(key)}".rstrip()
    return f"the best seen is {best.time_us:,.1f} us at {value}, where the time goes to {best.bound}"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else toml_value(value)


def _ladder(key: str, now: float) -> list[int | float]:
    """Return the values to try first, rising: that of the chip and others by equal factors around it."""
    step = step_of(key)
    factor = 4 ** (1 / LOOKS)
    reach = math.ceil(math.log(FARTHEST, factor))
    start = now or 1
    values = {start * factor**i for i in range(-reach, reach + 1)} | {now}
    if isinstance(now, int):
        return sorted({max(round(value / step) * step, step) for value in values} | {now})
    return sorted(values)


def _edge(rungs: Sequence[float], suffices: Callable[[float], bool], key: str, *, whole: bool) -> tuple[float, float]:
    """Return the first sufficient value, and the nearest before it that is not, between two rungs of a ladder."""
    place = next(i for i, value in enumerate(rungs) if suffices(value))
    if not place:  # the first rung suffices, but a later one does not: start after that one
        place = next(i for i in range(len(rungs) - 1, 0, -1) if suffices(rungs[i]) and not suffices(rungs[i - 1]))
    good, bad = rungs[place], rungs[place - 1]
    step = step_of(key)
    while True:
        middle = _between(bad, good, step, whole=whole)
        if middle is None:
            return good, bad
        good, bad = (middle, bad) if suffices(middle) else (good, middle)


def _between(bad: float, good: float, step: int, *, whole: bool) -> float | None:
    """Return a value between two, None if they are as near as required."""
    middle = (bad + good) / 2
    if whole and abs(good - bad) < 10**DIGITS * step:
        low, high = sorted((bad, good))
        rounded: float = low + round((high - low) / 2 / step) * step
    else:
        digits = DIGITS - 1 - math.floor(math.log10(abs(middle))) if middle else 0
        rounded = round(middle, digits)
        rounded = int(rounded) if whole else rounded
    return rounded if min(bad, good) < rounded < max(bad, good) else None
