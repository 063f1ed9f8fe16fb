"""Answer to a call on a chip, of which analyses and reports consist: verdict, plan and time of the plan."""

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
    """Verdict and its plan; without a plan, the verdict has the reason."""

    verdict: Verdict
    plan: Plan | None = None

    @functools.cached_property
    def timeline(self) -> Timeline | None:
        """Timeline of the plan, None without one."""
        return None if self.plan is None else timeline_of(self.plan)

    @property
    def time_us(self) -> float | None:
        """Time of the plan, None without one."""
        return None if self.timeline is None else self.timeline.time_us

    def on(self, chip: Chip, tiles: Mapping[str, int] | None = None) -> Answer:
        """Return the answer for the same call on another chip.

        `tiles` by hand are those of this answer. The answer has a plan only if the call fits. On a chip with the same
        values, verdict and plan are those of this answer.
        """
        verdict, plan = self.verdict, self.plan
        if not chip.diff(verdict.on):
            return Answer(replace(verdict, on=chip), None if plan is None else plan.on(chip))
        return fitting_answer_of(verdict_of(verdict.call, chip), tiles, plan)


def answer_of(verdict: Verdict, tiles: Mapping[str, int] | None = None) -> Answer:
    """Return the answer of a verdict, with a plan if the vendor launches the call; a file of buffers has none.

    The verdict on tiles by hand that do not fit has the overflow. Raises BadInput for tiles that the chip cannot have.
    """
    return _answer(verdict, tiles, None)


def fitting_answer_of(verdict: Verdict, tiles: Mapping[str, int] | None = None, base: Plan | None = None) -> Answer:
    """Return the answer of a verdict, with a plan only if the call fits; `base` as of `replan_of`.

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
