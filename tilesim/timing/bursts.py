"""Bursts: the runs of contiguous bytes of a copy in global memory, and the time that the memory spends on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, View
from tilesim.program.loop_nest import Sizes, Step, cached_per_step
from tilesim.program.sizes import Size, Variable
from tilesim.timing.parameters import Parameters


@dataclass(frozen=True, slots=True)
class Bursts:
    """Runs of a copy in global memory: `count` of `bytes` contiguous bytes, each at a multiple of `align_bytes`."""

    count: int
    bytes: int
    align_bytes: int = 0
    """Divisor of the address of every run [bytes]; 0 for a copy from the start of a tensor."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all runs."""
        return self.count * self.bytes


@cached_per_step
def bursts(step: Step) -> Bursts:
    """Return the bursts of a copy: bytes that are contiguous both in global memory and on the chip go in one."""
    instr = step.instr
    views = [v for v in (instr.src[0], instr.dst) if isinstance(v, View)]
    outside = next((v for v in views if v.space == "gm"), None)
    side = outside or instr.dst
    item = dtypes.itemsize(side.dtype)
    elements = math.prod(s.bind(step.sizes) for s in side.sizes)
    if outside is None:
        return Bursts(1, elements * item)
    run = min(_contiguous(v, step.sizes) for v in views)
    run = run if run and elements % run == 0 else 1
    return Bursts(elements // run, run * item, _alignment(outside, step.sizes, run) * item)


def _contiguous(view: View, sizes: Sizes) -> int:
    """Return the number of elements that follow each other without a gap."""
    full = [s.bind(sizes) for s in stored_shape(view)]
    run = 1
    for size, extent in zip(reversed([s.bind(sizes) for s in view.sizes]), reversed(full), strict=True):
        run *= size
        if size != extent:
            break
    return int(run)


def _alignment(view: View, sizes: Sizes, run: int) -> int:
    """Return the divisor, in elements, of the offset of every run of a copy in its tensor, in any iteration."""
    divisor = 0
    inside = outside = 1
    for start, size, full in zip(reversed(view.starts), reversed(view.sizes), reversed(view.base.shape), strict=True):
        if inside >= run and size.bind(sizes) > 1:  # several runs, this far apart
            divisor = math.gcd(divisor, outside)
        divisor = math.gcd(divisor, _granule(start, sizes) * outside)
        inside, outside = inside * size.bind(sizes), outside * full.bind(sizes)
    return divisor


def _granule(start: Size, sizes: Sizes) -> int:
    """Return the divisor of an offset along an axis in any iteration of the loops; 0 for offset 0."""
    moving = [name for name in start.names() if name not in sizes]
    if not moving:
        return int(start.bind(sizes))
    still = {**sizes, **dict.fromkeys(moving, 0)}
    at_first = start.bind(still)
    return math.gcd(at_first, *(start.bind({**still, name: _step(name, sizes)}) - at_first for name in moving))


def _step(name: str, sizes: Sizes) -> int:
    """Return the divisor of the offset of a loop along its axis; 1 for the number of a tile or a core."""
    if isinstance(name, Variable) and name.word == "start":
        return int(sizes[Variable(name.owner, "step")])
    return 1


def stored_shape(view: View) -> Sequence[Size]:
    """Return the shape in memory of the buffer or tensor of a view [elements]."""
    return view.base.allocated if isinstance(view.base, Buffer) else view.base.shape


class Occupancy:
    """Time for which the bursts of a path occupy global memory, in bytes of an ideal copy."""

    def __init__(self, chip: Chip, path: str) -> None:
        parameters, table = Parameters(chip), f"copy.{path}"
        self._align_bytes = parameters.whole(f"{table}.burst_align_bytes")
        self._gap_bytes = parameters[f"{table}.burst_gap_bytes"]
        self._request_bytes, self._stretch = 1, 1.0
        if f"{table}.request_bytes" in parameters:
            self._request_bytes = parameters.whole(f"{table}.request_bytes")
            self._stretch = parameters[f"{table}.unaligned_stretch"]
        self.parameters = parameters.keys
        """Keys of the chip that the occupancy rests on."""

    def bytes(self, runs: Bursts) -> int:
        """Return the bytes of an ideal copy that occupies the memory as long as `runs`."""
        stretch = self._stretch if runs.align_bytes % self._request_bytes else 1.0
        if runs.count == 1:
            return math.ceil(-(-runs.bytes // self._align_bytes) * self._align_bytes * stretch)
        return math.ceil(runs.count * (runs.bytes * stretch + self._gap_bytes))
