"""The price of one instruction in core cycles, from the chip's figures and the sizes of its tile.

Within a phase the price of an instruction is a constant of its tile sizes, and an integer, so that schedules are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilesim import dtypes
from tilesim.chip import Chip
from tilesim.isa import ISA, REGISTERS, ROUTES, Shape
from tilesim.nest import Sizes, Step
from tilesim.program import Instr
from tilesim.views import BLOCK_BYTES, Buffer, Tensor, View

FRACTAL = 16
"""The cube multiplies blocks of 16 x 16 x 16. Source: vendor's platform files, `AICoreSpec.cube_m_size`."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """How a copy meets global memory: `count` runs of `bytes` contiguous bytes."""

    count: int
    bytes: int

    @property
    def total_bytes(self) -> int:
        return self.count * self.bytes


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per cycle that one core gets of global memory while a phase runs; inf where only the core limits."""

    read: float = math.inf
    write: float = math.inf


def bursts(step: Step) -> Bursts:
    """The bursts of a copy, from the view of its tensor; of a copy between on-chip memories, one."""
    instr = step.instr
    source = instr.src[0]
    side = next((v for v in (source, instr.dst) if isinstance(v, View) and v.space == "gm"), instr.dst)
    item = dtypes.itemsize(side.dtype)
    sizes = [s.bind(step.sizes) for s in side.sizes]
    if not isinstance(side.base, Tensor):
        return Bursts(1, math.prod(sizes) * item)
    full = [s.bind(step.sizes) for s in side.base.shape]
    run, axis = 1, len(sizes)
    while axis:
        axis -= 1
        run *= sizes[axis]
        if sizes[axis] != full[axis]:
            break
    return Bursts(math.prod(sizes[:axis]), run * item)


def vector_bytes(view: View, sizes: Sizes) -> int:
    """Bytes that the vector unit passes for a view: whole rows with their padding, parts of rows padded to a block."""
    shape = [s.bind(sizes) for s in view.shape] or [1]
    row = -(-shape[-1] * dtypes.itemsize(view.dtype) // BLOCK_BYTES) * BLOCK_BYTES
    if view.space == REGISTERS and view.sizes[-1] == view.base.shape[-1]:
        row = _allocated(view)[-1].bind(sizes) * dtypes.itemsize(view.dtype)
    return math.prod(shape[:-1]) * row


def _allocated(view: View) -> Shape:
    return view.base.allocated if isinstance(view.base, Buffer) else view.base.shape


def moved_bytes(step: Step) -> dict[str, int]:
    """{tensor: bytes} that a copy reads from or writes to global memory; empty for other instructions."""
    if step.instr.op not in ("copy", "copy_transposed"):
        return {}
    source = step.instr.src[0]
    if isinstance(source, View) and source.space == "gm":
        return {f"read {source.base.name}": bursts(step).total_bytes}
    if step.instr.dst.space == "gm":
        return {f"write {step.instr.dst.base.name}": bursts(step).total_bytes}
    return {}


class Costs:
    """The prices of a phase's instructions on a chip."""

    def __init__(self, chip: Chip, rates: Rates = Rates()) -> None:  # noqa: B008 - frozen, without state
        self.chip = chip
        self.rates = rates

    def cycles(self, step: Step) -> int:
        """Cycles that the instruction holds its pipe."""
        row = ISA[step.instr.op]
        if step.instr.op in ("copy", "copy_transposed"):
            return self._copy(step)
        if row.pipe == "m":
            return self._cube(step)
        return self._vector(step.instr, step.sizes, row.cost)

    def _vector(self, instr: Instr, sizes: Sizes, cost: str) -> int:
        figures = self.chip.cost.of(cost)
        views = [instr.dst, *(v for v in instr.src if isinstance(v, View) and v.shape)]
        widest = max(views, key=lambda v: vector_bytes(v, sizes))
        width = max(dtypes.itemsize(v.dtype) for v in views)
        repeats = -(-vector_bytes(widest, sizes) // self.chip.vector.width_bytes)
        return math.ceil(figures.head_cycles + figures.slope(width) * repeats)

    def _copy(self, step: Step) -> int:
        route, pipe = ROUTES[step.instr.route]
        figures = self.chip.copies.path(route)
        runs = bursts(step)
        unit = figures.burst_align_bytes
        paid = runs.count * -(-runs.bytes // unit) * unit
        limit = {"mte2": self.rates.read, "mte3": self.rates.write, "fixp": self.rates.write}.get(pipe, math.inf)
        return math.ceil(
            max(
                figures.latency_cycles + paid / figures.bytes_per_cycle,
                paid / figures.peak_bytes_per_cycle,
                paid / limit,
                figures.issue_cycles,
                figures.burst_cycles * runs.count,
            )
        )

    def _cube(self, step: Step) -> int:
        if step.instr.op == "clear":
            return 0
        a, b = (v for v in step.instr.src if isinstance(v, View))
        (m, k), n = (s.bind(step.sizes) for s in a.shape), b.shape[1].bind(step.sizes)
        macs = math.prod(-(-x // FRACTAL) * FRACTAL for x in (m, n, k))
        cube = self.chip.cube
        rate = {1: cube.macs_per_cycle_8bit, 2: cube.macs_per_cycle_16bit}.get(
            dtypes.itemsize(a.dtype), cube.macs_per_cycle_32bit
        )
        return math.ceil(cube.head_cycles + macs / rate)


def rates(chip: Chip, core_kind: str, moved: Mapping[str, int], unique: Mapping[str, int], active: int) -> Rates:
    """What one of `active` cores gets of global memory in a phase that moves `moved` bytes in all, of them `unique` distinct.

    Every distinct byte crosses global memory once; repeated reads hit L2; writes cost global memory only beyond what L2
    absorbs. Reads and writes share both, so the phase cannot end before either has passed all of it.
    """
    reads = sum(b for name, b in moved.items() if name.startswith("read "))
    writes = sum(b for name, b in moved.items() if name.startswith("write "))
    first = sum(b for name, b in unique.items() if name.startswith("read "))
    excess = max(0, writes - chip.memory.l2.absorbed_write_bytes)
    gm, l2 = chip.memory.gm, chip.memory.l2
    seconds = max(first / gm.read_bytes_per_s + excess / gm.write_bytes_per_s, (reads + writes) / l2.read_bytes_per_s)
    hz = chip.clock.cube_hz if core_kind == "cube" else chip.clock.vector_hz
    if not seconds:
        return Rates()
    return Rates(
        read=reads / active / seconds / hz if reads else math.inf,
        write=writes / active / seconds / hz if writes else math.inf,
    )
