"""What passes from a call to the first instruction: the launch itself, and the cores reading the tiling data."""

from __future__ import annotations

from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.operators.operator import Operator
from tilesim.planning.plan import Plan
from tilesim.timing.parameters import Parameters

LAUNCH = "launch"
"""The table of what a launch takes whose operator has no fixed time of its own."""
LINE_BYTES = 64
"""What the scalar unit reads of global memory at a time. Source: vendor's document of DataCacheCleanAndInvalid."""


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches of a plan."""

    table: str
    """Of the chip, that they are from: "launch", or "kernels.<operator>" where the kernel has its own fixed time."""
    each_us: tuple[float, ...]
    """The time of each, in order, the tiling data included."""
    tiling_us: float
    """What each takes to read its tiling data; 0 where a fixed time has it, or where their size is not known."""
    parameters: tuple[str, ...]
    """Keys of the chip that the times rest on."""

    @property
    def total_us(self) -> float:
        """The time of all."""
        return sum(self.each_us)

    @property
    def source(self) -> str:
        """What they are from, short."""
        if self.table != LAUNCH:
            return f"{self.table}.fixed_us"
        reading = f"; {self.tiling_us:.1f} us of it to read the tiling data" if self.tiling_us else ""
        return f"the chip's launch figures{reading}"


def launches(plan: Plan, *, library: bool = True) -> Launches:
    """The launches of a plan; without `library` by the chip's launch table for every operator, as a sample has it."""
    parameters = Parameters(plan.chip)
    entry = library_entry(plan.chip, plan.operator) if library and plan.phases and not plan.kernel.launches else ""
    if entry:
        table = f"kernels.{entry}"
        return Launches(table, (parameters[f"{table}.fixed_us"],), 0.0, parameters.keys)
    blocks = [phase.cores for phase in plan.phases] if plan.kernel.launches else [plan.block_dim][: len(plan.phases)]
    alone = [launch_us(parameters, count) for count in blocks]
    tiling_us = _tiling_us(plan, parameters)
    return Launches(LAUNCH, tuple(us + tiling_us for us in alone), tiling_us, parameters.keys)


def library_entry(chip: Chip, op: Operator) -> str:
    """Return the name of the vendor's kernel of an operator in the chip file, "" without one.

    An entry has the operator's name or one of its kernel names.
    """
    if op.name in chip.kernels:
        return op.name
    return next((name for name in chip.kernels if op.runs_as(name)), "")


def launch_us(parameters: Parameters, blocks: int) -> float:
    """Microseconds of the launch of so many blocks by the chip's launch table."""
    return parameters["launch.base_us"] + parameters["launch.block_us"] * max(blocks - 1, 0)


def _tiling_us(plan: Plan, parameters: Parameters) -> float:
    """Microseconds in which a core reads its tiling data.

    Every line waits as long as a copy of the first phase's cores does, which is a guess: nobody published how long the
    scalar unit waits.
    """
    lines = -(-plan.tiling_bytes // LINE_BYTES)
    if not lines:
        return 0.0
    kind = plan.phases[0].phase.core_kind
    path = "gm_l1" if kind == "cube" else "gm_ub"
    return lines * parameters[f"copy.{path}.latency_cycles"] / parameters[f"clock.{kind}_hz"] * 1e6
