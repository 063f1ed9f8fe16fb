"""The answer to a call on a chip, which analyses and reports are made of: its verdict, its plan, the plan's time."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilesim.chip.chip import Chip
from tilesim.errors import TilesimError
from tilesim.feasibility.verdict import Verdict, verdict_of
from tilesim.planning.plan import Plan, plan_of
from tilesim.planning.replan import replan_of
from tilesim.simulation.timeline import Timeline, timeline_of


@dataclass(frozen=True)
class Answer:
    """A verdict and its plan; without a plan the verdict says why there is none."""

    verdict: Verdict
    plan: Plan | None = None

    @functools.cached_property
    def timeline(self) -> Timeline | None:
        """The timeline of the plan."""
        return None if self.plan is None else timeline_of(self.plan)

    @property
    def time_us(self) -> float | None:
        """The time of the plan."""
        return None if self.timeline is None else self.timeline.time_us

    def on(self, chip: Chip, tiles: Mapping[str, int] | None = None) -> Answer:
        """Return the answer for the same call on another chip.

        `tiles` by hand are those of this answer. There is a plan only where the call fits. A chip with the same values
        is not judged again.
        """
        verdict, plan = self.verdict, self.plan
        if not chip.diff(verdict.on):
            return Answer(replace(verdict, on=chip), None if plan is None else plan.on(chip))
        return fitting_answer_of(verdict_of(verdict.call, chip), tiles, plan)


def answer_of(verdict: Verdict, tiles: Mapping[str, int] | None = None) -> Answer:
    """Return the answer of a verdict, with a plan wherever the vendor launches one; a file of buffers has none.

    Tiles by hand that do not fit have a verdict of their own. Raises BadInput for tiles that the chip cannot have.
    """
    return _answer(verdict, tiles, None)


def fitting_answer_of(verdict: Verdict, tiles: Mapping[str, int] | None = None, base: Plan | None = None) -> Answer:
    """Return the answer of a verdict, with a plan only where the call fits; `base` as of `replan_of`.

    Raises what `answer_of` raises.
    """
    return _answer(verdict, tiles, base) if verdict.ok else Answer(verdict)


def _answer(verdict: Verdict, tiles: Mapping[str, int] | None, base: Plan | None) -> Answer:
    if not verdict.call.operator.has_instructions:
        return Answer(verdict)
    try:
        return Answer(verdict, plan_of(verdict, tiles) if base is None else replan_of(verdict, base))
    except TilesimError as error:
        if not isinstance(error.verdict, Verdict):
            raise
        return Answer(error.verdict)
