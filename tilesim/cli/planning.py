"""Plan of a command; the refusal is its answer where no plan exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.cli.console import note, percent
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import PlanQuestion, noted
from tilesim.cli.verdict import refusals_answered
from tilesim.errors import TilesimError
from tilesim.feasibility.verdict import verdict_of
from tilesim.measured import error_bands
from tilesim.planning.plan import Plan, plan_of
from tilesim.simulation.fusion_saving import COMPOSITE, fusion_saving


@dataclass(frozen=True)
class PlanAnswer:
    """Plan and exit code of a command."""

    plan: Plan
    code: int


def plan_answer(question: PlanQuestion, given: Mapping[str, Any] | None = None, *, as_json: bool) -> PlanAnswer:
    """Return the plan of a question; `given` are known values of the call, such as shapes in a file.

    A call without a plan ends the command with its verdict, as `check` does. Where the vendor's first call accepts a
    call that does not fit, the plan is the vendor's; the exit code is that of the verdict.
    """
    call, chip = question.call_and_chip(given)
    noted(chip)
    sizes = question.tile_sizes()
    with refusals_answered(as_json=as_json):
        plan = plan_of(verdict_of(call, chip), sizes)
    if plan.note:
        note(f"note: {plan.verdict}; {plan.note}")
    return PlanAnswer(plan, EXIT_YES if plan.ok else EXIT_NO)


def known_accuracy(plan: Plan) -> str:
    """Return the known error of predictions for this class of kernels."""
    return str(error_bands.known_accuracy(plan.call, plan.chip, plan.by_hand))


def fusing_text(plan: Plan) -> str:
    """Return the saving of a fused kernel, or the reason why none exists; "" for a plan that is not a composite."""
    if plan.route != COMPOSITE:
        return ""
    try:
        saving = fusion_saving(plan)
    except TilesimError as error:
        return f"no fused kernel to compare with: {'; '.join(getattr(error, 'problems', ())) or error}"
    saved, composite = saving.saved, saving.composite
    share = percent(saved.time_us / composite.time_us) if composite.time_us else percent(0)
    return (
        f"one fused kernel would save {saved.time_us:,.1f} of {composite.time_us:,.1f} us ({share}), "
        f"{saved.launches} of {composite.launches} launches, "
        f"{saved.bytes:,} of {composite.bytes:,} B of global memory traffic"
    )
