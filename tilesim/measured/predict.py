"""What a measured kernel should take: its plan's time, and for kernels of the vendor's library their own fixed time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilesim.chip.chip import Chip
from tilesim.measured.measurement import EMPTY
from tilesim.measured.profiled_calls import Case
from tilesim.planning.plan import Plan, plan
from tilesim.simulation.launch import LAUNCH, launch_us, launches
from tilesim.timing.parameters import Parameters


@dataclass(frozen=True)
class Prediction:
    """A predicted time: phases and syncs, and the fixed time, which `fixed_from` tells the origin of."""

    phases_us: float
    fixed_us: float
    fixed_from: str
    """The table of the chip: "launch" or "kernels.<operator>"."""
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False)

    @property
    def time_us(self) -> float:
        """From start to end."""
        return self.phases_us + self.fixed_us


def predict(case: Case, chip: Chip, *, library: bool = True) -> Prediction:
    """The time of a call on a chip; with `library` as a kernel of the vendor's library has it.

    Raises what `plan` raises.
    """
    if case.operator == EMPTY:
        return Prediction(0.0, launch_us(Parameters(chip), case.tiles["cores"]), LAUNCH)
    if case.memories:
        chip = chip.override(case.memories)
    made = plan(case.operator, case.given, chip=chip, dtype=case.dtype, tiles=case.tiles, **case.options)
    return timed(made, library=library)


def timed(made: Plan, *, library: bool = True) -> Prediction:
    """The time of a plan."""
    chip = made.chip
    pipes: dict[str, float] = {}
    phases = 0.0
    for one in made.phases:
        hz = chip.clock.hz(one.phase.core_kind)
        phases += one.cycles / hz * 1e6
        for pipe, cycles in one.busy_cycles.items():
            pipes[pipe] = pipes.get(pipe, 0.0) + cycles / hz * 1e6
    launch = launches(made, library=library)
    phases += chip.launch.sync_us * max(len(made.phases) - len(launch.each_us), 0)
    return Prediction(phases, launch.total_us, launch.table, pipes, made)
