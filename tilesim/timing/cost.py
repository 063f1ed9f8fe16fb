"""The price of one instruction in core cycles, from the chip's figures and the sizes of its tile.

Within a phase the price of an instruction is a constant of its tile sizes, and an integer, so that schedules are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilesim.chip.chip import Chip
from tilesim.chip.tables import MemoryCopy, UnifiedBuffer
from tilesim.feasibility.placement import Home
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, View
from tilesim.program.isa import COPIES, ISA, REGISTERS, ROUTES, Shape
from tilesim.program.loop_nest import Sizes, Step, cached_per_step
from tilesim.program.recorder import Instr
from tilesim.program.units import BLOCK_BYTES, FRACTAL
from tilesim.timing.bandwidth import Rates
from tilesim.timing.bursts import Bursts, bursts, paid_bytes
from tilesim.timing.pipe_runs import Part, Queue

__all__ = ["Bursts", "Costs", "Rates", "bursts", "vector_bytes"]

LONG_BYTES = 8
"""Bytes of an element of 64 bits."""


def vector_bytes(view: View, sizes: Sizes, width_bytes: int) -> int:
    """Bytes that the vector unit passes for a view: whole rows with their padding, parts of rows padded to a block.

    Of rows that fill their buffer to a part only it passes vectors of `width_bytes`, row by row, where that is less.
    """
    shape = [s.bind(sizes) for s in view.shape] or [1]
    item = dtypes.itemsize(view.dtype)
    row = shape[-1] * item
    last = view.kept[-1] if view.kept else 0
    if len(shape) > 1 and view.sizes[last] == view.base.shape[last]:
        row = min(_allocated(view)[last].bind(sizes) * item, -(-row // width_bytes) * width_bytes)
    elif len(shape) > 1 or view.space == REGISTERS:
        row = -(-row // BLOCK_BYTES) * BLOCK_BYTES
    return int(math.prod(shape[:-1]) * row)


def _allocated(view: View) -> Shape:
    return view.base.allocated if isinstance(view.base, Buffer) else view.base.shape


def _operands(instr: Instr) -> list[View]:
    return [instr.dst, *(v for v in instr.src if isinstance(v, View) and v.shape)]


@cached_per_step
def _passed(step: Step, width: int) -> tuple[int, int]:
    """Bytes of its widest operand, and vectors, that a vector instruction passes."""
    views = _operands(step.instr)
    passed = max(vector_bytes(v, step.sizes, width) for v in views)
    if ISA[step.instr.op].cost != "reduce":
        return passed, -(-passed // width)
    source = [s.bind(step.sizes) for s in views[-1].shape] or [1]  # every row is padded to whole vectors
    return passed, math.prod(source[:-1]) * -(-source[-1] * dtypes.itemsize(views[-1].dtype) // width)


class Costs:
    """The prices of a phase's instructions on a chip.

    `rates` is what a core gets of global memory, `homes` the buffer map whose addresses decide bank conflicts, `parts`
    what instructions pay of vector functions, `queued` the run of copies that each copy is in.
    """

    def __init__(
        self,
        chip: Chip,
        rates: Rates | None = None,
        homes: Mapping[Buffer, Home] | None = None,
        parts: Mapping[Instr, Part] | None = None,
        queued: Mapping[Instr, Queue] | None = None,
    ) -> None:
        self.chip = chip
        self.rates = rates or Rates()
        self.homes = homes or {}
        self.parts = parts or {}
        self.queued = queued or {}

    def cycles(self, step: Step) -> int:
        """Cycles that the instruction holds its pipe."""
        row = ISA[step.instr.op]
        if step.instr.op in COPIES:
            cycles = self._copy(step)
        elif row.pipe == "m":
            cycles = self._cube(step)
        else:
            cycles = self._vector(step, row.cost)
        return max(1, round(cycles)) if cycles else 0

    # ---------------------------------------------------------------- vector unit
    def _vector(self, step: Step, cost: str) -> float:
        figures, overhead = self.chip.cost.of(cost), self.chip.overhead
        instr, sizes = step.instr, step.sizes
        views = _operands(instr)
        item = max(dtypes.itemsize(v.dtype) for v in views)
        width = self.chip.vector.width_bytes
        passed, vectors = _passed(step, width)
        slope = figures.slope(item)
        if cost == "binary" and overhead.conflict_cycles_per_vector and self._conflict(views[1:], sizes, passed):
            slope += overhead.conflict_cycles_per_vector
        in_registers = any(v.space == REGISTERS for v in views)
        head = 0.0 if in_registers and instr.op not in ("vld", "vst") else figures.head_cycles
        cycles: float = head + slope * vectors
        if passed > width and passed % width and not in_registers:
            cycles += overhead.count_mode_cycles
        if item == LONG_BYTES and cost != "move":
            cycles += overhead.cycles_per_64bit_element * (passed // LONG_BYTES)
        return cycles + self._call(instr, sizes)

    def _call(self, instr: Instr, sizes: Sizes) -> float:
        """What the instruction pays of its vector function."""
        overhead, part = self.chip.overhead, self.parts.get(instr)
        if part is None or not overhead.call_cycles:
            return 0.0
        cycles = 0.0
        if part.calls is not None:
            trips = math.prod(loop.trips(sizes) for loop in part.calls)
            cycles += overhead.call_cycles / max(trips, 1)
        for view in part.operands:
            if view.space != REGISTERS:
                elements = vector_bytes(view, sizes, self.chip.vector.width_bytes) / dtypes.itemsize(view.dtype)
                registers = -(-elements * part.width_bytes // self.chip.vector.width_bytes)
                cycles += overhead.operand_cycles_per_vector * registers
        return cycles

    def _conflict(self, sources: list[View], sizes: Sizes, passed: int) -> bool:
        """Whether two sources are read from the same bank group, in any of their slots."""
        if len(sources) != 2:
            return False
        first, second = (self._addresses(v, sizes) for v in sources)
        length = min(passed, self.chip.vector.width_bytes)
        pairs = [(first[i % len(first)], second[i % len(second)]) for i in range(max(len(first), len(second)))]
        return any(collide(self.chip.memory.ub, a, b, length) for a, b in pairs)

    def _addresses(self, view: View, sizes: Sizes) -> list[int]:
        """Where a view starts in each slot of its buffer [bytes]; what depends on a loop's position counts as 0."""
        home = self.homes.get(view.base) if isinstance(view.base, Buffer) else None
        if home is None:
            return [0]
        offset, pitch = 0, dtypes.itemsize(view.dtype)
        for start, full in zip(reversed(view.starts), reversed(_allocated(view)), strict=True):
            if start.names() <= sizes.keys():
                offset += start.bind(sizes) * pitch
            pitch *= full.bind(sizes)
        return [home.offset + offset + slot * home.bytes for slot in range(home.slots)]

    # ---------------------------------------------------------------- copies and the cube unit
    def _copy(self, step: Step) -> float:
        route, _ = ROUTES[step.instr.route]
        figures = self.chip.copies.path(route)
        runs = bursts(step)
        share, latency = math.inf, figures.latency_cycles
        source = step.instr.src[0]
        if isinstance(source, View) and source.space == "gm":
            share = self.rates.read.get(source.base.name, math.inf)
            latency += self.chip.memory.gm.miss_cycles * self.rates.missed.get(source.base.name, 1.0)
        elif step.instr.dst.space == "gm":
            share = self.rates.write
        stretch = self._together(source.base.name, route) if isinstance(source, View) else 1.0
        size = runs.count * -(-runs.bytes // figures.burst_align_bytes) * figures.burst_align_bytes
        burst = figures.partial_burst_cycles if runs.bytes % BLOCK_BYTES else figures.burst_cycles
        several = runs.count if runs.count > 1 else 0
        setup = figures.burst_setup_cycles * several
        alone = latency + size / figures.bytes_per_cycle
        together = max(1.0, figures.in_flight_bytes / size) if isinstance(figures, MemoryCopy) else 1.0
        behind = max(
            (size / figures.peak_bytes_per_cycle + setup) * stretch,
            paid_bytes(self.chip, runs, route) / share * stretch,
            figures.issue_cycles,
            burst * several * stretch,
            alone / together,
        )
        queue = self.queued.get(step.instr)
        # The first of a queue takes what it takes alone, the others what they take behind one another.
        return behind + max(0.0, alone - behind) / (queue.copies(step.sizes) if queue else 1)

    def _together(self, tensor: str, route: str) -> float:
        """How much longer a copy takes because all cores read the same addresses at the same time."""
        l2 = self.chip.memory.l2
        if tensor not in self.rates.together:
            return 1.0
        return l2.same_address_l1_stretch if route == "gm_l1" else l2.same_address_ub_stretch

    def _cube(self, step: Step) -> float:
        if step.instr.op == "clear":
            return 0.0
        a, b = (v for v in step.instr.src if isinstance(v, View))
        (m, k), n = (s.bind(step.sizes) for s in a.shape), b.shape[1].bind(step.sizes)
        macs: int = math.prod(-(-x // FRACTAL) * FRACTAL for x in (m, n, k))
        cube = self.chip.cube
        rate = {1: cube.macs_per_cycle_8bit, 2: cube.macs_per_cycle_16bit}.get(
            dtypes.itemsize(a.dtype), cube.macs_per_cycle_32bit
        )
        return cube.head_cycles + macs / rate


def collide(ub: UnifiedBuffer, first: int, second: int, length_bytes: int) -> bool:
    """Whether reading `length_bytes` at two addresses [bytes] in the same cycle asks one bank group twice.

    Two operands whose addresses differ by half of the groups do not collide; equal addresses always do.
    """
    blocks = -(-length_bytes // BLOCK_BYTES)
    apart = (second // BLOCK_BYTES - first // BLOCK_BYTES) % ub.bank_groups
    return apart < blocks or ub.bank_groups - apart < blocks


def passed_bytes(item: Step, width_bytes: int) -> int:
    """Bytes that an instruction moves, or passes of its widest operand in vectors of `width_bytes`."""
    instr = item.instr
    if instr.op in COPIES:
        return bursts(item).total_bytes
    views = (instr.dst, *(s for s in instr.src if isinstance(s, View)))
    return max(vector_bytes(v, item.sizes, width_bytes) for v in views)
