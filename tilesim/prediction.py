"""What a measured kernel should take: its plan's time, and for kernels of the vendor's library their own fixed time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilesim.cases import Case
from tilesim.chip import Chip
from tilesim.measured import EMPTY
from tilesim.plan import Plan, plan
from tilesim.timeline import clock_hz

LAUNCH = "launch"
"""The fixed time of a kernel without an entry of its own: that of the chip's launch table."""


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
        return Prediction(0.0, _launch_us(chip, case.tiles["cores"]), LAUNCH)
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
        hz = clock_hz(chip, one.phase.core_kind)
        phases += one.cycles / hz * 1e6
        for pipe, cycles in one.busy_cycles.items():
            pipes[pipe] = pipes.get(pipe, 0.0) + cycles / hz * 1e6
    phases += chip.launch.sync_us * max(len(made.phases) - 1, 0)
    entry = chip.kernels.get(made.operator.name) if library else None
    if entry is not None:
        return Prediction(phases, entry.fixed_us, f"kernels.{made.operator.name}", pipes, made)
    return Prediction(phases, _launch_us(chip, made.block_dim), LAUNCH, pipes, made)


def moved_to(made: Plan, chip: Chip) -> Plan:
    """The same plan, tile by tile, on a chip with other rates and latencies."""
    return replace(made, chip=chip, phases=tuple(one.on(chip) for one in made.phases))


def _launch_us(chip: Chip, blocks: int) -> float:
    return chip.launch.base_us + chip.launch.block_us * max(blocks - 1, 0)
