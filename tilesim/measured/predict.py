"""Predicted times of measured kernels: the time of the plan and the fixed time of a library kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilesim.chip.chip import Chip
from tilesim.measured.sample_kernels import EmptyKernel
from tilesim.operators.operator import KernelCall
from tilesim.planning.plan import Plan, plan
from tilesim.simulation.launch import LAUNCH, launch_us, launches
from tilesim.timing.parameters import Parameters


@dataclass(frozen=True)
class Prediction:
    """A predicted time [us]: phases and syncs, and the fixed time with its origin, `fixed_from`."""

    phases_us: float
    fixed_us: float
    fixed_from: str
    """The table of the chip: "launch" or "kernels.<operator>"."""
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False)

    @property
    def time_us(self) -> float:
        """Time from start to end."""
        return self.phases_us + self.fixed_us


def predict(call: KernelCall | EmptyKernel, chip: Chip, *, library: bool = True) -> Prediction:
    """Return the time of a call on a chip; with `library` the time of a kernel of the vendor's library.

    Raises what `plan` raises.
    """
    if isinstance(call, EmptyKernel):
        return Prediction(0.0, launch_us(Parameters(chip), call.cores), LAUNCH)
    memories = dict(call.memories)
    if call.whole_buffer:
        memories |= {"memory.ub.size_bytes": chip.memory.ub.silicon_bytes, "memory.ub.reserved_bytes": 0}
    if memories:
        chip = chip.override(memories)
    planned = plan(call.operator, call.given, chip=chip, dtype=call.dtype, tiles=call.tiles, **call.options)
    return timed(planned, library=library)


def timed(plan: Plan, *, library: bool = True) -> Prediction:
    """Return the time of a plan, with `library` as a kernel of the vendor's library."""
    chip = plan.chip
    pipes: dict[str, float] = {}
    phases = 0.0
    for phase in plan.phases:
        hz = chip.clock.hz(phase.phase.core_kind)
        phases += phase.cycles / hz * 1e6
        for pipe, cycles in phase.busy_cycles.items():
            pipes[pipe] = pipes.get(pipe, 0.0) + cycles / hz * 1e6
    launch = launches(plan, library=library)
    phases += chip.launch.sync_us * max(len(plan.phases) - len(launch.each_us), 0)
    return Prediction(phases, launch.total_us, launch.table, pipes, plan)
