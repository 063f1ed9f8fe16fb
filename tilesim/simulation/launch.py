"""Time from a call to the first instruction: the launch, and the reading of the tiling data by the cores."""

from __future__ import annotations

from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.operators.operator import Operator
from tilesim.planning.plan import Plan
from tilesim.timing.parameters import Parameters

LAUNCH = "launch"
"""Table of the launch of an operator without a fixed time."""
LINE_BYTES = 64
"""Bytes that the scalar unit reads from global memory at a time. Source: vendor's DataCacheCleanAndInvalid."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of a plan."""

    table: str
    """Table of the chip: "launch", or "kernels.<operator>" if the kernel has a fixed time."""
    each_us: tuple[float, ...]
    """Time of each launch in order, the tiling data included."""
    tiling_us: float
    """Time of each launch to read its tiling data; 0 if a fixed time includes it, or if their size is not known."""
    parameters: tuple[str, ...]
    """Keys of the chip that the times rest on."""

    @property
    def total_us(self) -> float:
        """Time of all launches."""
        return sum(self.each_us)

    @property
    def source(self) -> str:
        """Source of the times in a few words."""
        if self.table != LAUNCH:
            return f"{self.table}.fixed_us"
        reading = f"; {self.tiling_us:.1f} us of it to read the tiling data" if self.tiling_us else ""
        return f"the chip's launch parameters{reading}"


def launches(plan: Plan, *, library: bool = True) -> Launches:
    """Return the launches of a plan; without `library`, by the launch table of the chip whatever the operator."""
    parameters = Parameters(plan.chip)
    entry = library_entry(plan.chip, plan.operator) if library and plan.phases and not plan.kernel.launches else ""
    if entry:
        table = f"kernels.{entry}"
        return Launches(table, (parameters[f"{table}.fixed_us"],), 0.0, parameters.keys)
    blocks = [phase.cores for phase in plan.phases] if plan.kernel.launches else [plan.block_dim][: len(plan.phases)]
    launch_times = [launch_us(parameters, count) for count in blocks]
    tiling_us = _tiling_us(plan, parameters)
    return Launches(LAUNCH, tuple(us + tiling_us for us in launch_times), tiling_us, parameters.keys)


def library_entry(chip: Chip, op: Operator) -> str:
    """Return the name of the vendor's kernel of an operator in the chip file, "" without one.

    An entry has the operator's name or one of its kernel names.
    """
    if op.name in chip.kernels:
        return op.name
    return next((name for name in chip.kernels if op.runs_as(name)), "")


def launch_us(parameters: Parameters, blocks: int) -> float:
    """Return the microseconds of the launch of `blocks` blocks by the chip's launch table."""
    return parameters["launch.base_us"] + parameters["launch.block_us"] * max(blocks - 1, 0)


def _tiling_us(plan: Plan, parameters: Parameters) -> float:
    """Return the microseconds in which a core reads its tiling data.

    Every line has the latency of a copy of the first phase's cores, which is a guess: the latency of the scalar unit is
    not published.
    """
    lines = -(-plan.tiling_bytes // LINE_BYTES)
    if not lines:
        return 0.0
    kind = plan.phases[0].phase.core_kind
    path = "gm_l1" if kind == "cube" else "gm_ub"
    return lines * parameters[f"copy.{path}.latency_cycles"] / parameters[f"clock.{kind}_hz"] * 1e6
