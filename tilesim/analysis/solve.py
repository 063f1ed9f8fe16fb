"""The value of one figure of a chip with which a call fits, or with which it takes no longer than a given time."""

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
"""No value is looked for that is so many times larger or smaller than the chip's."""
LOOKS: Final = 3
"""So many values are tried for every factor of 4 before the bisection, since a time may rise and fall."""
AS_FAST: Final = 1.001
"""Times that differ by less are equal."""
DIGITS: Final = 4
"""Rates and clocks are found to so many digits."""


@dataclass(frozen=True)
class Trial:
    """One value that was tried: the time of the plan [us], None if there is none, then with the reason."""

    value: int | float
    time_us: float | None
    reason: str = ""
    bound: str = ""


@dataclass(frozen=True)
class SolveResult:
    """What `solve` found; `value` is None if no value does."""

    key: str
    given: int | float
    """As the chip has it."""
    value: int | float | None
    kind: str
    """"least", "greatest" (of a figure of which less is better) or "any", if every value that was tried does."""
    wanted_us: float | None
    time_us: float | None
    """The time with `value`; None where no time was asked for or no value does."""
    beyond: Trial | None
    """The nearest value that does not do any more."""
    until: int | float | None
    """Of a least value, the largest that was tried and still does, where the largest values do not."""
    best: Trial | None
    """The fastest; of values that are as fast to a thousandth, the one nearest to the chip's."""
    reason: str
    """Why no value does; "" if one does."""

    @property
    def ok(self) -> bool:
        """Whether a value does."""
        return self.value is not None

    def __str__(self) -> str:
        """The answer in a line."""
        goal = "to fit" if self.wanted_us is None else f"for {self.wanted_us:,.1f} us"
        if self.value is None:
            return f"no value of {self.key} is enough {goal}: {self.reason}"
        which = {"any": "every value tried is enough, such as"}.get(self.kind, f"the {self.kind} value is")
        took = f", which takes {self.time_us:,.1f} us" if self.time_us is not None else ""
        past = f"; {_shown(self.beyond.value)} is not enough" if self.beyond else ""
        until = f", nor is more than about {_shown(self.until)}" if self.until else ""
        unit = unit_of(self.key)
        value = f"{_shown(self.value)} {unit}".rstrip()
        return f"{self.key} {goal}: {which} {value}{took}{past}{until}; the chip has {_shown(self.given)}"

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
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
def solve(  # the arguments of a check, and what is asked for
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
    """The least value of a figure with which the call fits; with `time_us` the least with which it takes no longer.

    Of a figure of which less is better (a latency, a reserve), the greatest. Found by trying values up to 1024 times
    the chip's and down to that part of it, then by bisection between the last that does not do and the first that does:
    a memory to a block of 32 bytes, cores to one, rates to four digits. Every value was checked and planned, with
    `tiles` fixed by hand as in `plan`.

    >>> answer = solve("glu_backward", {"self": (64, 65536)}, "ascend950pr", "memory.ub.size_bytes")
    >>> answer.ok, answer.kind
    (True, 'least')

    Raises BadInput for what is no key, and as `check` does.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return solve_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), key, time_us, tiles)


def solve_of(
    verdict: Verdict, key: str, time_us: float | None = None, tiles: Mapping[str, int] | None = None
) -> SolveResult:
    """Return the answer of `solve` for a call that is judged on the chip as it is."""
    now = verdict.on.get(key)
    if time_us is not None and not (math.isfinite(time_us) and time_us > 0):
        raise BadInput("solve", [f"time_us is {time_us}, must be a number above 0"])
    trials = _Trials(verdict, key, tiles or {}, timed=time_us is not None)

    def does(value: float) -> bool:
        trial = trials[value]
        return not trial.reason and (time_us is None or (trial.time_us is not None and trial.time_us <= time_us))

    ladder = _ladder(key, now)
    good = [value for value in ladder if does(value)]
    best = trials.best()
    if not good:
        reason = _too_slow(key, best) if best else trials[ladder[-1]].reason
        return SolveResult(key, now, None, "", time_us, None, None, None, best, reason)
    if len(good) == len(ladder):
        return SolveResult(key, now, now, "any", time_us, trials[now].time_us, None, None, best, "")
    greatest = good[0] == ladder[0] and good[-1] != ladder[-1]
    value, beyond = _edge(ladder[::-1] if greatest else ladder, does, key, whole=isinstance(now, int))
    kind = "greatest" if greatest else "least"
    until = None if greatest or good[-1] == ladder[-1] else good[-1]
    return SolveResult(key, now, value, kind, time_us, trials[value].time_us, trials[beyond], until, best, "")


class _Trials:
    """The values that were tried, each once."""

    def __init__(self, verdict: Verdict, key: str, tiles: Mapping[str, int], *, timed: bool) -> None:
        self.key, self.tiles, self.timed, self.chip = key, tiles, timed, verdict.on
        self.planned = timed or bool(tiles)
        self.base = fitting_answer_of(verdict, tiles) if self.planned else Answer(verdict)
        self.seen: dict[float, Trial] = {self.chip.get(key): self._trial(self.chip.get(key), self.base)}

    def __getitem__(self, value: float) -> Trial:
        """What came of a value."""
        if value not in self.seen:
            self.seen[value] = self._tried(value)
        return self.seen[value]

    def best(self) -> Trial | None:
        """The fastest; of those that are as fast to a thousandth, the one nearest to the chip's value."""
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
            answer = self.base.on(chip, [self.key], self.tiles)
        except BadInput as error:
            return Trial(value, None, "; ".join(error.problems))
        if self.base.plan is None:
            self.base = answer
        return self._trial(value, answer)

    def _trial(self, value: float, answer: Answer) -> Trial:
        """Return what an answer says of a value."""
        if answer.timeline is None or not self.timed:
            return Trial(value, None, answer.verdict.culprit)
        return Trial(value, answer.time_us, "", answer.timeline.bottleneck)


def _too_slow(key: str, best: Trial) -> str:
    """Why no value of a figure reaches a time."""
    value = f"{_shown(best.value)} {unit_of(key)}".rstrip()
    return f"the best seen is {best.time_us:,.1f} us at {value}, where the time goes to {best.bound}"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else toml_value(value)


def _ladder(key: str, now: float) -> list[int | float]:
    """Values to try first, rising: the chip's own and others by equal factors around it."""
    step = step_of(key)
    factor = 4 ** (1 / LOOKS)
    reach = math.ceil(math.log(FARTHEST, factor))
    start = now or 1
    values = {start * factor**i for i in range(-reach, reach + 1)} | {now}
    if isinstance(now, int):
        return sorted({max(round(value / step) * step, step) for value in values} | {now})
    return sorted(values)


def _edge(rungs: Sequence[float], does: Callable[[float], bool], key: str, *, whole: bool) -> tuple[float, float]:
    """The first value that does, and the nearest before it that does not, between two rungs of a ladder."""
    place = next(i for i, value in enumerate(rungs) if does(value))
    if not place:  # the first rung does, but one in between does not: start after that
        place = next(i for i in range(len(rungs) - 1, 0, -1) if does(rungs[i]) and not does(rungs[i - 1]))
    good, bad = rungs[place], rungs[place - 1]
    step = step_of(key)
    while True:
        middle = _between(bad, good, step, whole=whole)
        if middle is None:
            return good, bad
        good, bad = (middle, bad) if does(middle) else (good, middle)


def _between(bad: float, good: float, step: int, *, whole: bool) -> float | None:
    """A value between two, None if they are as near as they need to be."""
    middle = (bad + good) / 2
    if whole and abs(good - bad) < 10**DIGITS * step:
        low, high = sorted((bad, good))
        rounded: float = low + round((high - low) / 2 / step) * step
    else:
        digits = DIGITS - 1 - math.floor(math.log10(abs(middle))) if middle else 0
        rounded = round(middle, digits)
        rounded = int(rounded) if whole else rounded
    return rounded if min(bad, good) < rounded < max(bad, good) else None
