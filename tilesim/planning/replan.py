"""A plan of the same call on a changed chip, made from the one that there is: what the change does not touch stays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tilesim.chip.chip import Chip
from tilesim.feasibility.verdict import Verdict
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan, plan_of
from tilesim.program.recorder import Phase

NOT_OF_CUBES: Final = (
    "vector.",
    "overhead.",
    "memory.ub.",
    "copy.gm_ub.",
    "copy.ub_gm.",
    "cost.",
    "tiling.",
    "launch.",
    "workspace.",
    "kernels.",
    "clock.vector_hz",
)
"""Figures that no phase of cube cores depends on."""


NOT_OF_VECTORS: Final = (
    "cube.",
    "memory.l1.",
    "memory.l0",
    "copy.gm_l1.",
    "copy.l1_",
    "copy.l0c_gm.",
    "launch.",
    "workspace.",
    "kernels.",
    "clock.cube_hz",
)
"""Figures that no phase of vector cores depends on."""


CHANGING_TILES: Final = ("memory.ub.", "memory.l1.", "memory.l0", "cores.", "tiling.")
"""Figures that decide which tiles there are."""


def replan_of(verdict: Verdict, base: Plan, changed: Collection[str]) -> Plan:
    """Return the plan of a verdict whose chip differs from that of `base` in the parameters `changed` only.

    Call and tiles by hand are those of `base`, and the plan is the one that `plan_of` makes; phases that the parameters
    do not touch are kept, with all that has been computed of them. Raises what `plan_of` raises.
    """
    kept = _untouched(base, changed) if verdict.kernel is base.kernel else {}
    return plan_of(verdict, base.by_hand, kept=kept)


def reprice_of(base: Plan, chip: Chip, changed: Collection[str]) -> Plan:
    """Return the tiles of `base` on a chip that differs in the parameters `changed` only, none of CHANGING_TILES."""
    kept = _untouched(base, changed)
    phases = tuple(kept.get(one.phase) or one.on(chip) for one in base.phases)
    return replace(base, verdict=replace(base.verdict, on=chip), phases=phases)


def _untouched(base: Plan, changed: Collection[str]) -> dict[Phase, PhasePlan]:
    """Return the phases of a plan that do not depend on parameters."""
    apart = {"cube": NOT_OF_CUBES, "vector": NOT_OF_VECTORS}
    kinds = {kind for kind, others in apart.items() if all(key.startswith(others) for key in changed)}
    return {one.phase: one for one in base.phases if one.phase.core_kind in kinds}
