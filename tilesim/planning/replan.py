"""Plan of the same call on a changed chip, from an existing plan: phases that the change does not affect stay."""

from __future__ import annotations

from tilesim.chip.chip import Chip
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.verdict import Verdict
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan, plan_of
from tilesim.program.recorder import Phase


def replan_of(verdict: Verdict, base: Plan) -> Plan:
    """Return the plan of a verdict that differs from that of `base` in its chip alone.

    Tiles by hand are those of `base`, and the plan is the one that `plan_of` makes; phases whose tiles and cycles rest
    on no changed parameter are kept, with all their computed results. Raises what `plan_of` raises.
    """
    kept: dict[Phase, PhasePlan] = {}
    if _tiled_alike(base, verdict.on):
        changed = base.chip.diff(verdict.on).keys()
        kept = {
            phase.phase: phase.on(verdict.on)
            for phase in base.phases
            if changed.isdisjoint(phase.parameters | phase.tiling_parameters)
        }
    return plan_of(verdict, base.by_hand, kept=kept)


def reprice_of(base: Plan, chip: Chip) -> Plan | None:
    """Return the tiles of `base` on another chip, None if tiles of another size could be chosen there."""
    tiling_parameters = {key for phase in base.phases for key in phase.tiling_parameters}
    if not _tiled_alike(base, chip) or not base.chip.diff(chip).keys().isdisjoint(tiling_parameters):
        return None
    return base.on(chip)


def _tiled_alike(base: Plan, chip: Chip) -> bool:
    """Return True if a chip runs the kernel of a plan, with the tiles that the vendor fixes in it."""
    call = base.call
    alike = call.operator.tiles(call, chip) == call.operator.tiles(call, base.chip)
    return alike and kernel_of(call, chip) is base.kernel
