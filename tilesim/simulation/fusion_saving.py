"""Saving of one fused kernel over a composite of several launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tilesim.arguments import checked
from tilesim.errors import BadInput, TilesimError
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.operator import Call
from tilesim.planning.plan import Plan, plan_of
from tilesim.simulation.timeline import timeline_of

COMPOSITE: Final = "composite"
"""Route of a plan of several launches."""


@dataclass(frozen=True)
class RouteCost:
    """Cost of a route: core cycles, time with launches [us], bytes of global memory read and written, launches."""

    cycles: int
    time_us: float
    bytes: int
    launches: int

    def __sub__(self, other: RouteCost) -> RouteCost:
        """Return the difference of two costs."""
        return RouteCost(
            self.cycles - other.cycles,
            self.time_us - other.time_us,
            self.bytes - other.bytes,
            self.launches - other.launches,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {**vars(self), "time_us": round(self.time_us, 6)}


@dataclass(frozen=True)
class Saving:
    """Costs of the composite that runs and of the fused kernel in its place."""

    composite: RouteCost
    fused: RouteCost
    fused_plan: Plan

    @property
    def saved(self) -> RouteCost:
        """Cost of the composite less that of the kernel."""
        return self.composite - self.fused

    def to_json(self) -> dict[str, Any]:
        """Return all three costs as plain data."""
        return {name: getattr(self, name).to_json() for name in ("composite", "fused", "saved")}


@checked
def fusion_saving(plan: Plan) -> Saving:
    """Return the saving of the operator's fused kernel on the chip of a composite's plan, tiled by the kernel's rule.

    The kernel is planned and timed as on a chip that has it, its values between load and store in registers. A chip
    before arch 3510 has no such registers: there a kernel would keep them in the unified buffer, in smaller tiles.
    Raises BadInput for a plan that is not a composite or has no fused kernel in its dtype; Refused if the tiling of the
    kernel refuses the shape.
    """
    call, fused = plan.call, plan.operator.fused
    if plan.route != COMPOSITE or fused is None:
        raise BadInput("fusion", [f"{plan.operator.name} runs by the route {plan.route!r}; there is nothing to fuse"])
    dtypes = fused.dtypes[plan.chip.family]
    if call.dtype not in dtypes:
        raise BadInput("fusion", [f"the kernel takes {', '.join(dtypes)}; given {call.dtype}"])
    alone = Call(fused, call.dtype, call.specs, call.options, call.attributes, call.solution)
    kernel = plan_of(verdict_of(alone, plan.chip))
    return Saving(_cost_of(plan), _cost_of(kernel), kernel)


def fusing_json(plan: Plan) -> dict[str, Any] | None:
    """Return both costs and the saving as plain data, None without a composite or without a fused kernel."""
    try:
        return fusion_saving(plan).to_json() if plan.route == COMPOSITE else None
    except TilesimError:
        return None


def _cost_of(plan: Plan) -> RouteCost:
    times = timeline_of(plan)
    moved = sum(phase.traffic.bytes for phase in plan.phases)
    launches = len(plan.phases) if plan.kernel.launches else min(len(plan.phases), 1)
    return RouteCost(times.cycles, times.time_us, moved, launches)
