"""What passes from a call to the first instruction: the launch itself, and the cores reading the tiling data."""

from __future__ import annotations

from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.operators.operator import Operator
from tilesim.planning.plan import Plan

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
    figures: tuple[str, ...]
    """Keys of the chip's figures that the times are from."""

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
    """The launches of a plan; without `library` by the chip's own figures for every operator, as a sample has it."""
    chip = plan.chip
    entry = library_entry(chip, plan.operator) if library and plan.phases and not plan.kernel.launches else ""
    if entry:
        table = f"kernels.{entry}"
        return Launches(table, (chip.kernels[entry].fixed_us,), 0.0, (f"{table}.fixed_us",))
    blocks = [one.cores for one in plan.phases] if plan.kernel.launches else [plan.block_dim][: len(plan.phases)]
    tiling_us, latency = _tiling(plan)
    each = tuple(launch_us(chip, count) + tiling_us for count in blocks)
    return Launches(LAUNCH, each, tiling_us, ("launch.base_us", "launch.block_us", *latency))


def library_entry(chip: Chip, op: Operator) -> str:
    """Return the name of the vendor's kernel of an operator in the chip file, "" without one.

    An entry has the operator's name or one of its kernel names.
    """
    if op.name in chip.kernels:
        return op.name
    return next((name for name in chip.kernels if op.runs_as(name)), "")


def launch_us(chip: Chip, blocks: int) -> float:
    """What the launch of so many blocks takes by the chip's own figures."""
    return chip.launch.base_us + chip.launch.block_us * max(blocks - 1, 0)


def _tiling(plan: Plan) -> tuple[float, tuple[str, ...]]:
    """What a core takes to read its tiling data [us], and the figures that this is from.

    Every line waits as long as a copy of the first phase's cores does, which is a guess: nobody published how long the
    scalar unit waits.
    """
    lines = -(-plan.tiling_bytes // LINE_BYTES)
    if not lines:
        return 0.0, ()
    kind = plan.phases[0].phase.core_kind
    path = "gm_l1" if kind == "cube" else "gm_ub"
    cycles = lines * plan.chip.copies.path(path).latency_cycles
    return cycles / plan.chip.clock.hz(kind) * 1e6, (f"copy.{path}.latency_cycles", f"clock.{kind}_hz")
