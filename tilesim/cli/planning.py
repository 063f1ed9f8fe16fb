"""The plan that a command works on; where there is none, the refusal is the command's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.cli.console import note, percent
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import PlanQuestion
from tilesim.cli.verdict import refusals_answered
from tilesim.errors import TilesimError
from tilesim.feasibility.verdict import verdict_of
from tilesim.measured import error_bands
from tilesim.planning.plan import Plan, plan_of
from tilesim.simulation.fusion_saving import COMPOSITE, fusion_saving


@dataclass(frozen=True)
class PlanAnswer:
    """A plan, and the exit code of a command that needs no more than it."""

    plan: Plan
    code: int


def plan_answer(question: PlanQuestion, given: Mapping[str, Any] | None = None, *, as_json: bool) -> PlanAnswer:
    """Return the plan that a question asks for; `given` is known of the call already, such as shapes in a file.

    A verdict that is no ends the command as `check` does. Where the vendor's first call takes what does not fit, the
    plan is the vendor's; the exit code is that of the verdict.
    """
    call, chip = question.call_and_chip(given)
    sizes = question.tile_sizes()
    with refusals_answered(as_json=as_json):
        plan = plan_of(verdict_of(call, chip), sizes)
    if plan.note:
        note(f"note: {plan.verdict}; {plan.note}")
    return PlanAnswer(plan, EXIT_YES if plan.ok else EXIT_NO)


def known_accuracy(plan: Plan) -> str:
    """Return how far predictions of such a kernel were off where they were compared with measurements."""
    return str(error_bands.known_accuracy(plan.call, plan.chip, plan.by_hand))


def fusing_text(plan: Plan) -> str:
    """What fusing would save, or why there is nothing to fuse into; "" for a plan that is no composite."""
    if plan.route != COMPOSITE:
        return ""
    try:
        saving = fusion_saving(plan)
    except TilesimError as error:
        return f"no fused kernel to compare with: {'; '.join(getattr(error, 'problems', ())) or error}"
    saved, whole = saving.saved, saving.composite
    share = percent(saved.time_us / whole.time_us) if whole.time_us else percent(0)
    return (
        f"one fused kernel would save {saved.time_us:,.1f} of {whole.time_us:,.1f} us ({share}), "
        f"{saved.launches} of {whole.launches} launches, {saved.bytes:,} of {whole.bytes:,} B of global memory traffic"
    )
