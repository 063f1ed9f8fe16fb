"""Traffic of a phase in global memory, and the rate that each core gets while the phase runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilesim.chip.chip import Chip
from tilesim.program.buffers import Tensor, tensor_bytes
from tilesim.program.isa import COPIES, ROUTES
from tilesim.program.loop_nest import Nest, Sizes, executed, split_loops
from tilesim.program.recorder import Phase
from tilesim.program.sizes import Variable
from tilesim.timing.bursts import Occupancy, bursts
from tilesim.timing.cache_reuse import dram_fetches
from tilesim.timing.parameters import Parameters

MIXED = 0.25
"""Ratio of written to read bytes from which on reads are as slow as beside equal writes. A guess: no measurement."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that copies move, and the bytes of an ideal copy that occupies the memory as long."""

    bytes: int = 0
    occupied_bytes: int = 0

    def __add__(self, other: Moved) -> Moved:
        """Return the sum of both."""
        return Moved(self.bytes + other.bytes, self.occupied_bytes + other.occupied_bytes)

    def __mul__(self, times: int) -> Moved:
        """Return the same `times` times."""
        return Moved(self.bytes * times, self.occupied_bytes * times)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Reads and writes of global memory, by tensor."""

    reads: Mapping[str, Moved]
    writes: Mapping[str, Moved]

    @property
    def read_bytes(self) -> int:
        """Bytes read from all tensors."""
        return sum(moved.bytes for moved in self.reads.values())

    @property
    def written_bytes(self) -> int:
        """Bytes written to all tensors."""
        return sum(moved.bytes for moved in self.writes.values())

    @property
    def bytes(self) -> int:
        """Bytes of both directions."""
        return self.read_bytes + self.written_bytes


def occupancies(chip: Chip, phase: Phase) -> Mapping[str, Occupancy]:
    """Return the occupancy of every path between global memory and the cores along which a phase copies."""
    routes = dict.fromkeys(instr.route for instr in phase.instructions() if instr.op in COPIES)
    paths = (ROUTES[route][0] for route in routes if "gm" in route)
    return {path: Occupancy(chip, path) for path in paths}


def traffic(nest: Nest, of_paths: Mapping[str, Occupancy]) -> Traffic:
    """Return the traffic of one core; `of_paths` are the occupancies of its phase."""
    reads: dict[str, Moved] = {}
    writes: dict[str, Moved] = {}
    for step, times in executed(nest):
        instr = step.instr
        if instr.op not in COPIES or "gm" not in instr.route:
            continue
        source, _ = instr.route
        (tensor,) = (view.base.name for view in (*instr.reads(), instr.dst) if view.space == "gm")
        runs = bursts(step)
        moved = Moved(runs.total_bytes, of_paths[ROUTES[instr.route][0]].bytes(runs))
        side = reads if source == "gm" else writes
        side[tensor] = side.get(tensor, Moved()) + moved * times
    return Traffic(reads, writes)


def total(shares: Iterable[tuple[Traffic, int]]) -> Traffic:
    """Return the traffic of all cores, from that of one core of every share and the number of its cores."""
    reads: dict[str, Moved] = {}
    writes: dict[str, Moved] = {}
    for share, cores in shares:
        for side, part in ((reads, share.reads), (writes, share.writes)):
            for tensor, moved in part.items():
                side[tensor] = side.get(tensor, Moved()) + moved * cores
    return Traffic(reads, writes)


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per cycle that one core gets from global memory while a phase runs; inf if only the core limits."""

    read: Mapping[str, float] = field(default_factory=dict)
    """Rate of every tensor that is read."""
    write: float = math.inf
    same_address_stretch: Mapping[str, float] = field(default_factory=dict)
    """Factor by which copies take longer, of every tensor of which all cores read the same addresses at a time."""
    floor_cycles: int = 0
    """Cycles that global memory needs for all reads and writes of the phase, whatever the cores do meanwhile."""
    miss_rate: Mapping[str, float] = field(default_factory=dict)
    """Share of the reads that miss the cache, of every tensor that is read: 0 to 1."""
    parameters: tuple[str, ...] = ()
    """Keys of the chip that the rates rest on, besides those of the occupancies."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Reads of one tensor, or writes to all.

    `distinct_bytes` excludes repetitions that the cache still holds, of writes also those over tensors that were read;
    `cached_bytes` of them are in the cache already. With `bypasses_l2` the reads go past the cache.
    """

    moved: Moved
    distinct_bytes: int
    cached_bytes: int = 0
    bypasses_l2: bool = False

    @property
    def miss_rate(self) -> float:
        """Share of the reads that miss the cache: 0 to 1."""
        return (self.distinct_bytes - self.cached_bytes) / self.moved.bytes

    @property
    def dram_bytes(self) -> float:
        """Bytes of an ideal copy for which the reads occupy global memory."""
        return self.miss_rate * self.moved.occupied_bytes

    @property
    def hit_bytes(self) -> int:
        """Bytes read from the cache."""
        return self.moved.bytes - self.distinct_bytes + self.cached_bytes


class _WriteSeconds(NamedTuple):
    """Seconds of the writes that the cache absorbs, and of the others, which go to global memory."""

    absorbed: float
    drained: float


def rates(chip: Chip, phase: Phase, sizes: Sizes, cores: int, shares: Sequence[tuple[Traffic, int]]) -> Rates:
    """Return the rates of one core; `shares` are the traffic of one core of every distinct share, and its cores.

    Distinct bytes come from global memory and repeated reads hit the cache, which also absorbs a share of the writes,
    which grows with the share of writes in its traffic. Reads that bypass the cache leave it to the others.
    """
    parameters, cube = Parameters(chip), phase.core_kind == "cube"
    traffic_of_all = total(shares)
    hz = parameters[f"clock.{phase.core_kind}_hz"]
    reads = _reads(phase, sizes, traffic_of_all.reads, parameters)
    writes = _writes(phase, sizes, traffic_of_all)
    through = {name: read for name, read in reads.items() if not read.bypasses_l2}
    filled_bytes = sum(read.distinct_bytes for read in through.values())
    hit = one_core = math.inf
    if through:
        hit = parameters["memory.l2.l1_read_bytes_per_s" if cube else "memory.l2.read_bytes_per_s"]
        one_core = parameters["memory.l2.core_l1_read_bytes_per_s"] if cube else math.inf
    dram: dict[str, float] = {}
    if reads:
        bypassing, filling = _seconds_a_byte(parameters, phase.core_kind, writes.moved.bytes, filled_bytes)
        dram = {name: read.dram_bytes * (bypassing if read.bypasses_l2 else filling) for name, read in reads.items()}
    written, write = _WriteSeconds(0.0, 0.0), math.inf
    active = _active(cores, shares)
    if writes.moved.bytes:
        written = _write_seconds(parameters, writes, filled_bytes)
        # The results of products leave in bursts with long pauses, in which the cache passes them on.
        write = (
            parameters["memory.l2.write_bytes_per_s"] / active / hz
            if cube
            else writes.moved.occupied_bytes / (written.absorbed + written.drained) / active / hz
        )
    same_address, stretch = through.keys() & same_address_reads(phase), 1.0
    if same_address:
        stretch_of_chip = parameters[f"memory.l2.same_address_{'l1' if cube else 'ub'}_stretch"]
        stretch = stretch_of_chip if cores > 1 else 1.0
    # The cache passes what is read through it, hits beside what comes from global memory for other cores or tiles, and
    # absorbs writes in turn with that; what bypasses it takes global memory alone.
    passed = max(sum(dram[name] for name in through), sum(read.moved.bytes for read in through.values()) / hit)
    floor_s = max(sum(dram.values()), passed + written.absorbed) + written.drained
    return Rates(
        read={
            name: read.moved.occupied_bytes
            / hz
            / (dram[name] * active + read.hit_bytes * max(active / hit, 1 / one_core))
            for name, read in reads.items()
        },
        write=write,
        same_address_stretch=dict.fromkeys(same_address, stretch),
        floor_cycles=math.floor(floor_s * hz),
        miss_rate={name: read.miss_rate for name, read in reads.items()},
        parameters=parameters.keys,
    )


def _reads(phase: Phase, sizes: Sizes, moved: Mapping[str, Moved], parameters: Parameters) -> dict[str, Stream]:
    """Return the reads of every tensor of which a byte is read."""
    tensors, bypassing = _tensors(phase), phase.kernel.uncached
    fetches: Mapping[str, float] = {}
    if moved.keys() - bypassing:
        fetches = dram_fetches(phase, sizes, parameters.whole("memory.l2.size_bytes"))
    streams = {}
    for name, of_tensor in moved.items():
        size_bytes = tensor_bytes(tensors[name], sizes)
        distinct = of_tensor.bytes if name in bypassing else min(of_tensor.bytes, round(size_bytes * fetches[name]))
        cached = 0
        if tensors[name].role == "workspace":
            cached = min(of_tensor.bytes, size_bytes, parameters.whole("memory.l2.absorbed_write_bytes"))
        if of_tensor.bytes:
            streams[name] = Stream(of_tensor, distinct, cached, name in bypassing)
    return streams


def _writes(phase: Phase, sizes: Sizes, moved: Traffic) -> Stream:
    """Return the writes to all tensors; those over a tensor that was read into the cache are not distinct."""
    tensors, kernel = _tensors(phase), phase.kernel
    distinct = 0
    for name, of_tensor in moved.writes.items():
        overwritten = kernel.overwrites.get(name)
        if overwritten not in tensors or overwritten in kernel.uncached:
            distinct += min(of_tensor.bytes, tensor_bytes(tensors[name], sizes))
    return Stream(sum(moved.writes.values(), start=Moved()), distinct)


def _tensors(phase: Phase) -> dict[str, Tensor]:
    """Return the tensors that a phase touches, by name."""
    views = (view for instr in phase.instructions() for view in (*instr.reads(), instr.dst))
    return {view.base.name: view.base for view in views if isinstance(view.base, Tensor)}


def _active(cores: int, shares: Sequence[tuple[Traffic, int]]) -> float:
    """Return the average number of cores that read at a time: those with less to read finish sooner."""
    most = max((share.read_bytes for share, _ in shares), default=0)
    return sum(share.read_bytes * count for share, count in shares) / most if most else max(cores, 1)


def _seconds_a_byte(
    parameters: Parameters, core_kind: str, written_bytes: int, filled_bytes: int
) -> tuple[float, float]:
    """Return the seconds of global memory for a byte that is read past the cache, and for one that fills it.

    Reads of vector cores that fill the cache are slower beside writes, because written lines have to leave it.
    """
    if core_kind == "cube":
        seconds = 1 / parameters["memory.gm.cube_read_bytes_per_s"]
        return seconds, seconds
    alone = 1 / parameters["memory.gm.read_alone_bytes_per_s"]
    if not written_bytes or not filled_bytes:
        return alone, alone
    mixed = min(1.0, written_bytes / filled_bytes / MIXED)
    beside_writes = (1 - mixed) / parameters["memory.gm.read_alone_bytes_per_s"]
    return alone, beside_writes + mixed / parameters["memory.gm.read_bytes_per_s"]


def _write_seconds(parameters: Parameters, writes: Stream, filled_bytes: int) -> _WriteSeconds:
    """Return the seconds of the writes beside `filled_bytes` of reads that fill the cache."""
    dirty = min(1.0, writes.moved.bytes / (filled_bytes + writes.distinct_bytes))
    absorbed = min(writes.moved.bytes, 2 * dirty * parameters["memory.l2.absorbed_write_bytes"])
    # Occupied bytes beyond the written ones complete their lines, from global memory even if the cache takes the write.
    drained = writes.moved.occupied_bytes - absorbed
    return _WriteSeconds(
        absorbed / parameters["memory.l2.write_bytes_per_s"], drained / parameters["memory.gm.write_bytes_per_s"]
    )


def same_address_reads(phase: Phase) -> set[str]:
    """Return the tensors of which every core reads the same addresses in order: no view moves with a split loop."""
    places = {
        name for loop, _ in split_loops(phase) for name in loop.variables if name.word in ("start", "index", "row")
    }
    moving = {*places, Variable(phase.name, "core")}
    same: dict[str, bool] = {}
    for instr in phase.instructions():
        for view in instr.reads():
            if isinstance(view.base, Tensor):
                still = not any(start.names() & moving for start in view.starts)
                same[view.base.name] = same.get(view.base.name, True) and still
    return {name for name, still in same.items() if still}
