"""Price of one instruction in core cycles, from parameters of the chip and the sizes of its tile.

Within a phase the price of an instruction is a constant of its tile sizes, and an integer, so that schedules are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

from tilesim.chip.chip import Chip
from tilesim.feasibility.placement import Home
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, View
from tilesim.program.isa import COPIES, ISA, REGISTERS, ROUTES
from tilesim.program.loop_nest import Sizes, Step, cached_per_step
from tilesim.program.recorder import Instr, Phase
from tilesim.program.units import BLOCK_BYTES, FRACTAL
from tilesim.timing.bandwidth import Rates
from tilesim.timing.bursts import Occupancy, bursts, stored_shape
from tilesim.timing.parameters import Parameters
from tilesim.timing.pipe_runs import Part, Queue, parts, queues

SLOPES: Final = {1: "cycles_per_vector_8bit", 2: "cycles_per_vector_16bit"}
"""Bytes of an element -> key of the slope of a cost class; wider elements have that of 4 bytes."""
MACS: Final = {1: "macs_per_cycle_8bit", 2: "macs_per_cycle_16bit"}
"""Bytes of an operand -> key of the rate of the cube; wider operands have that of 4 bytes."""
LONG_BYTES: Final = 8
"""Bytes of an element of 64 bits."""


def vector_bytes(view: View, sizes: Sizes, width_bytes: int) -> int:
    """Return the bytes that the vector unit passes for a view: rows with their padding, parts of rows in whole blocks.

    Rows that fill a part of their buffer pass in vectors of `width_bytes`, row by row, if those are fewer bytes.
    """
    shape = [s.bind(sizes) for s in view.shape] or [1]
    item = dtypes.itemsize(view.dtype)
    row = shape[-1] * item
    last = view.kept[-1] if view.kept else 0
    if len(shape) > 1 and view.sizes[last] == view.base.shape[last]:
        row = min(stored_shape(view)[last].bind(sizes) * item, -(-row // width_bytes) * width_bytes)
    elif len(shape) > 1 or view.space == REGISTERS:
        row = -(-row // BLOCK_BYTES) * BLOCK_BYTES
    return int(math.prod(shape[:-1]) * row)


def _operands(instr: Instr) -> list[View]:
    return [instr.dst, *(v for v in instr.src if isinstance(v, View) and v.shape)]


def widest_operand_bytes(step: Step, width_bytes: int) -> int:
    """Return the bytes that an instruction passes of its widest operand, in vectors of `width_bytes`."""
    return max(vector_bytes(view, step.sizes, width_bytes) for view in _operands(step.instr))


@cached_per_step
def _passed(step: Step, width: int) -> tuple[int, int]:
    """Return the bytes of its widest operand, and the vectors, that a vector instruction passes."""
    views = _operands(step.instr)
    passed = widest_operand_bytes(step, width)
    if ISA[step.instr.op].cost != "reduce":
        return passed, -(-passed // width)
    source = [s.bind(step.sizes) for s in views[-1].shape] or [1]  # every row is padded to whole vectors
    return passed, math.prod(source[:-1]) * -(-source[-1] * dtypes.itemsize(views[-1].dtype) // width)


class Price(Protocol):
    """Price of one instruction; `parameters` are the keys of the chip that it rests on."""

    parameters: tuple[str, ...]

    def cycles(self, step: Step) -> float:
        """Return the cycles that the instruction holds its pipe at the sizes of a tile."""


class Costs:
    """Prices of a phase's instructions on a chip.

    `rates` are those of one core in global memory; `homes` is the buffer map, whose addresses decide bank conflicts.
    """

    def __init__(self, chip: Chip, phase: Phase, rates: Rates, homes: Mapping[Buffer, Home]) -> None:
        functions, stretches = parts(phase), queues(phase)
        self._prices: dict[Instr, Price] = {}
        for instr in phase.instructions():
            if instr.op in COPIES:
                self._prices[instr] = CopyPrice(chip, instr, rates, stretches.get(instr))
            elif instr.pipe == "m":
                self._prices[instr] = CubePrice(chip, instr)
            else:
                self._prices[instr] = VectorPrice(chip, instr, homes, functions.get(instr))

    @property
    def parameters(self) -> frozenset[str]:
        """Keys of the chip that the prices rest on."""
        return frozenset(key for price in self._prices.values() for key in price.parameters)

    def cycles(self, step: Step) -> int:
        """Return the whole cycles that the instruction holds its pipe."""
        cycles = self._prices[step.instr].cycles(step)
        return max(1, round(cycles)) if cycles else 0


class VectorPrice:
    """Head, slope for every vector that the instruction passes, and its part of a vector function."""

    def __init__(self, chip: Chip, instr: Instr, homes: Mapping[Buffer, Home], part: Part | None) -> None:
        parameters, cost = Parameters(chip), ISA[instr.op].cost
        self._views = _operands(instr)
        self._homes, self._part = homes, part
        item = max(dtypes.itemsize(view.dtype) for view in self._views)
        in_registers = any(view.space == REGISTERS for view in self._views)
        self._width = parameters.whole("vector.width_bytes")
        self._head = self._count_mode = self._long = self._conflict = self._call = self._operand = 0.0
        if not in_registers or instr.op in ("vld", "vst"):
            self._head = parameters[f"cost.{cost}.head_cycles"]
        self._slope = parameters[f"cost.{cost}.{SLOPES.get(item, 'cycles_per_vector')}"]
        if not in_registers:
            self._count_mode = parameters["overhead.count_mode_cycles"]
        if item == LONG_BYTES and cost != "move":
            self._long = parameters["overhead.cycles_per_64bit_element"]
        if cost == "binary" and len(self._views) == 3:
            self._conflict = parameters["overhead.conflict_cycles_per_vector"]
        keys_of_addresses: tuple[str, ...] = ()
        if self._conflict:
            self._bank_groups = parameters.whole("memory.ub.bank_groups")
            places = (homes[view.base] for view in self._views[1:] if isinstance(view.base, Buffer))
            keys_of_addresses = tuple(key for home in places for key in home.parameters)
        if part is not None:
            self._call = parameters["overhead.call_cycles"]
        if part is not None and self._call and any(view.space != REGISTERS for view in part.operands):
            self._operand = parameters["overhead.operand_cycles_per_vector"]
        self.parameters = (*parameters.keys, *keys_of_addresses)

    def cycles(self, step: Step) -> float:
        """Return the cycles of the instruction."""
        passed, vectors = _passed(step, self._width)
        slope = self._slope
        if self._conflict and self._collides(step.sizes, passed):
            slope += self._conflict
        cycles = self._head + slope * vectors
        if passed > self._width and passed % self._width:
            cycles += self._count_mode
        cycles += self._long * (passed // LONG_BYTES)
        return cycles + self._of_function(step.sizes)

    def _of_function(self, sizes: Sizes) -> float:
        """Return the cycles of the part of a vector function that is charged to the instruction; 0 without one."""
        if self._part is None or not self._call:
            return 0.0
        cycles = 0.0
        if self._part.calls is not None:
            trips = math.prod(loop.trips(sizes) for loop in self._part.calls)
            cycles += self._call / max(trips, 1)
        for view in self._part.operands:
            if view.space != REGISTERS:
                elements = vector_bytes(view, sizes, self._width) / dtypes.itemsize(view.dtype)
                cycles += self._operand * -(-elements * self._part.width_bytes // self._width)
        return cycles

    def _collides(self, sizes: Sizes, passed: int) -> bool:
        """Return True if both sources are read from the same bank group, in any of their slots."""
        first, second = (self._addresses(view, sizes) for view in self._views[1:])
        length = min(passed, self._width)
        pairs = [(first[i % len(first)], second[i % len(second)]) for i in range(max(len(first), len(second)))]
        return any(collide(self._bank_groups, a, b, length) for a, b in pairs)

    def _addresses(self, view: View, sizes: Sizes) -> list[int]:
        """Return the address of a view in each slot of its buffer [bytes], at the first iteration of all loops."""
        home = self._homes.get(view.base) if isinstance(view.base, Buffer) else None
        if home is None:
            return [0]
        offset, pitch = 0, dtypes.itemsize(view.dtype)
        for start, full in zip(reversed(view.starts), reversed(stored_shape(view)), strict=True):
            if start.names() <= sizes.keys():
                offset += start.bind(sizes) * pitch
            pitch *= full.bind(sizes)
        return [home.offset + offset + slot * home.bytes for slot in range(home.slots)]


class CopyPrice:
    """`max(latency + bytes / rate, bytes / peak)` or more, by the bursts and the core's share of global memory.

    The first copy of a queue takes the cycles of a copy alone, the others those of a copy behind another one.
    """

    def __init__(self, chip: Chip, instr: Instr, rates: Rates, queue: Queue | None) -> None:
        parameters, path = Parameters(chip), ROUTES[instr.route][0]
        table, from_memory = f"copy.{path}", instr.route[0] == "gm"
        source = instr.src[0].base.name if isinstance(instr.src[0], View) else ""
        self._queue = queue
        self._latency = parameters[f"{table}.latency_cycles"]
        self._rate = parameters[f"{table}.bytes_per_cycle"]
        self._peak = parameters[f"{table}.peak_bytes_per_cycle"]
        self._align_bytes = parameters.whole(f"{table}.burst_align_bytes")
        self._issue = parameters[f"{table}.issue_cycles"]
        self._setup = self._burst = self._partial_burst = self._in_flight_bytes = 0.0
        self._share, self._stretch = math.inf, 1.0
        self._occupancy: Occupancy | None = None
        if "gm" in instr.route:
            self._occupancy = Occupancy(chip, path)
            self._share = rates.read.get(source, math.inf) if from_memory else rates.write
            self._setup = parameters[f"{table}.burst_setup_cycles"]
            self._burst = parameters[f"{table}.burst_cycles"]
            self._partial_burst = parameters[f"{table}.partial_burst_cycles"]
        if from_memory:
            self._latency += parameters["memory.gm.miss_cycles"] * rates.miss_rate.get(source, 1.0)
            self._stretch = rates.same_address_stretch.get(source, 1.0)
        if f"{table}.in_flight_bytes" in parameters:
            self._in_flight_bytes = parameters[f"{table}.in_flight_bytes"]
        self.parameters = (*parameters.keys, *(self._occupancy.parameters if self._occupancy else ()))

    def cycles(self, step: Step) -> float:
        """Return the cycles of the copy."""
        runs = bursts(step)
        size = runs.count * -(-runs.bytes // self._align_bytes) * self._align_bytes
        several = runs.count if runs.count > 1 else 0
        burst = self._partial_burst if runs.bytes % BLOCK_BYTES else self._burst
        occupied_bytes = self._occupancy.bytes(runs) if self._occupancy else 0
        alone = self._latency + size / self._rate
        behind = max(
            (size / self._peak + self._setup * several) * self._stretch,
            occupied_bytes / self._share * self._stretch,
            self._issue,
            burst * several * self._stretch,
            alone / max(1.0, self._in_flight_bytes / size),
        )
        return behind + max(0.0, alone - behind) / (self._queue.copies(step.sizes) if self._queue else 1)


class CubePrice:
    """Head and multiply-adds of whole fractals at the rate of the cube; clearing sums takes no cycles."""

    def __init__(self, chip: Chip, instr: Instr) -> None:
        parameters = Parameters(chip)
        self._factors: tuple[View, ...] = ()
        if instr.op == "mmad":
            self._factors = tuple(view for view in instr.src if isinstance(view, View))
            self._head = parameters["cube.head_cycles"]
            rate = MACS.get(dtypes.itemsize(self._factors[0].dtype), "macs_per_cycle_32bit")
            self._macs_per_cycle = parameters[f"cube.{rate}"]
        self.parameters = parameters.keys

    def cycles(self, step: Step) -> float:
        """Return the cycles of the product."""
        if not self._factors:
            return 0.0
        a, b = self._factors
        (m, k), n = (size.bind(step.sizes) for size in a.shape), b.shape[1].bind(step.sizes)
        macs: int = math.prod(-(-size // FRACTAL) * FRACTAL for size in (m, n, k))
        return self._head + macs / self._macs_per_cycle


def collide(bank_groups: int, first: int, second: int, length_bytes: int) -> bool:
    """Return True if reads of `length_bytes` at two addresses [bytes] in one cycle share a bank group.

    Two operands whose addresses differ by half of the groups do not collide; equal addresses always do.
    """
    blocks = -(-length_bytes // BLOCK_BYTES)
    apart = (second // BLOCK_BYTES - first // BLOCK_BYTES) % bank_groups
    return apart < blocks or bank_groups - apart < blocks


def passed_bytes(step: Step, width_bytes: int) -> int:
    """Return the bytes that a copy moves, or that an instruction passes of its widest operand."""
    return bursts(step).total_bytes if step.instr.op in COPIES else widest_operand_bytes(step, width_bytes)
