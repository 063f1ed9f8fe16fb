"""Bursts: the runs of contiguous bytes by which a copy meets global memory, and what the memory spends on them."""

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
    """How a copy meets global memory: `count` runs of `bytes` contiguous bytes, each at a multiple of `align_bytes`."""

    count: int
    bytes: int
    align_bytes: int = 0
    """What divides the address of every run; 0 for a copy that starts a tensor."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all runs."""
        return self.count * self.bytes


@cached_per_step
def bursts(step: Step) -> Bursts:
    """The bursts of a copy: bytes that are contiguous both in global memory and on the chip go in one."""
    instr = step.instr
    views = [v for v in (instr.src[0], instr.dst) if isinstance(v, View)]
    outside = next((v for v in views if v.space == "gm"), None)
    side = outside or instr.dst
    item = dtypes.itemsize(side.dtype)
    whole = math.prod(s.bind(step.sizes) for s in side.sizes)
    if outside is None:
        return Bursts(1, whole * item)
    run = min(_contiguous(v, step.sizes) for v in views)
    run = run if run and whole % run == 0 else 1
    return Bursts(whole // run, run * item, _alignment(outside, step.sizes, run) * item)


def _contiguous(view: View, sizes: Sizes) -> int:
    """Elements that follow each other without a gap."""
    full = [s.bind(sizes) for s in _stored(view)]
    run = 1
    for size, extent in zip(reversed([s.bind(sizes) for s in view.sizes]), reversed(full), strict=True):
        run *= size
        if size != extent:
            break
    return int(run)


def _alignment(view: View, sizes: Sizes, run: int) -> int:
    """Elements of a tensor that divide the place at which every run of a copy starts, wherever the loops are."""
    divisor = 0
    inside = outside = 1
    for start, size, full in zip(reversed(view.starts), reversed(view.sizes), reversed(view.base.shape), strict=True):
        if inside >= run and size.bind(sizes) > 1:  # several runs, this far apart
            divisor = math.gcd(divisor, outside)
        divisor = math.gcd(divisor, _granule(start, sizes) * outside)
        inside, outside = inside * size.bind(sizes), outside * full.bind(sizes)
    return divisor


def _granule(start: Size, sizes: Sizes) -> int:
    """What divides a place along an axis, whichever tiles the loops are at; 0 for the first place."""
    moving = [name for name in start.names() if name not in sizes]
    if not moving:
        return int(start.bind(sizes))
    still = {**sizes, **dict.fromkeys(moving, 0)}
    at_first = start.bind(still)
    return math.gcd(at_first, *(start.bind({**still, name: _step(name, sizes)}) - at_first for name in moving))


def _step(name: str, sizes: Sizes) -> int:
    """What divides the place of a loop along its axis; the number of a tile or a core can be any."""
    if isinstance(name, Variable) and name.word == "start":
        return int(sizes[Variable(name.owner, "step")])
    return 1


def _stored(view: View) -> Sequence[Size]:
    return view.base.allocated if isinstance(view.base, Buffer) else view.base.shape


class Occupancy:
    """The time for which global memory is occupied by the bursts of a path, in bytes of an ideal copy."""

    def __init__(self, chip: Chip, path: str) -> None:
        parameters, table = Parameters(chip), f"copy.{path}"
        self._align_bytes = parameters.whole(f"{table}.burst_align_bytes")
        self._gap_bytes = parameters[f"{table}.burst_gap_bytes"]
        self._request_bytes, self._stretch = 1, 1.0
        if f"{table}.request_bytes" in parameters:
            self._request_bytes = parameters.whole(f"{table}.request_bytes")
            self._stretch = parameters[f"{table}.unaligned_stretch"]
        self.parameters = parameters.keys
        """Keys of the chip that it rests on."""

    def bytes(self, runs: Bursts) -> int:
        """Bytes of an ideal copy that takes the memory as long as these bursts do."""
        stretch = self._stretch if runs.align_bytes % self._request_bytes else 1.0
        if runs.count == 1:
            return math.ceil(-(-runs.bytes // self._align_bytes) * self._align_bytes * stretch)
        return math.ceil(runs.count * (runs.bytes * stretch + self._gap_bytes))
