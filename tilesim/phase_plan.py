"""A phase with every size decided, and what follows from it: nests, prices, schedule, buffer map."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim import dtypes
from tilesim.chip import Chip
from tilesim.cost import Costs, Rates, moved_bytes, rates
from tilesim.execute import Home, PhaseJob
from tilesim.fits import budget
from tilesim.isa import REGISTERS, SPACES
from tilesim.nest import Nest, Nests, totals
from tilesim.program import Phase
from tilesim.schedule import Scheduler
from tilesim.views import Buffer, Tensor


@dataclass(frozen=True)
class PhasePlan:
    """A phase with all sizes decided.

    `sizes` binds dims, tiles and parts; `tiles` are those the plan chose, with the reasons.
    """

    phase: Phase
    chip: Chip
    sizes: Mapping[str, Any]
    tiles: Mapping[str, int]
    reasons: Mapping[str, str]
    cores: int

    @functools.cached_property
    def homes(self) -> Mapping[Buffer, Home]:
        """The buffer map."""
        return _homes(self.phase, self.chip, self.sizes)

    @functools.cached_property
    def nests(self) -> list[tuple[Nest, int, int]]:
        """(nest, first core, cores) of every distinct share."""
        return Nests(self.phase, self.sizes).distinct(self.cores)

    @functools.cached_property
    def moved(self) -> dict[str, int]:
        """Bytes of each tensor that all cores together read and write in global memory."""
        out: dict[str, int] = {}
        for nest, _, count in self.nests:
            for name, size in totals(nest, moved_bytes).items():
                out[name] = out.get(name, 0) + size * count
        return out

    @functools.cached_property
    def rates(self) -> Rates:
        """What one core gets of global memory."""
        views = (v for i in self.phase.instructions() for v in (*i.reads(), i.dst))
        whole = {v.base.name: tensor_bytes(v.base, self.sizes) for v in views if isinstance(v.base, Tensor)}
        unique = {name: min(size, whole[name.split(" ", 1)[1]]) for name, size in self.moved.items()}
        return rates(self.chip, self.phase.core_kind, self.moved, unique, max(self.cores, 1))

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        """The schedule of its instructions at their prices."""
        return Scheduler(self.phase, Costs(self.chip, self.rates).cycles)

    @functools.cached_property
    def shares(self) -> list[tuple[int, int, int]]:
        """(cycles, first core, cores) of every distinct share of the phase."""
        return [(self.scheduler.makespan(nest), first, count) for nest, first, count in self.nests]

    @property
    def cycles(self) -> int:
        """Cycles of the slowest core."""
        return max((c for c, _, _ in self.shares), default=0)

    @property
    def slowest(self) -> Nest:
        """The nest of the slowest core."""
        return max(zip(self.shares, self.nests, strict=True), key=lambda pair: pair[0][0])[1][0] if self.nests else ()

    @functools.cached_property
    def busy_cycles(self) -> dict[str, int]:
        """Cycles that each pipe of the slowest core works."""
        return self.scheduler.busy(self.slowest)

    def used_bytes(self, memory: str) -> int:
        """Bytes of a memory that buffers take."""
        return max((p.offset + p.bytes * p.slots for p in self.homes.values() if p.space == memory), default=0)

    def job(self) -> PhaseJob:
        """The phase, ready to execute."""
        memory = {s: self.chip.memory.on_chip(s).size_bytes for s in SPACES[self.phase.core_kind]}
        memory[REGISTERS] = self.used_bytes(REGISTERS)
        return PhaseJob(self.phase, self.sizes, self.cores, self.homes, memory)


def _homes(phase: Phase, chip: Chip, sizes: Mapping[str, Any]) -> dict[Buffer, Home]:
    """The buffer map: static buffers, then the phase's in order; pools lie in what the operator keeps back."""
    places: dict[Buffer, Home] = {}
    for space in (*SPACES[phase.core_kind], REGISTERS):
        offset = 0
        statics = phase.kernel.statics if space == "ub" else []
        for buffer in (*statics, *(b for b in phase.buffers if b.space == space and not b.pool)):
            offset = _put(places, buffer, space, offset, sizes)
        if space == "ub":
            start = int(budget(phase.kernel, chip, "ub").bind(sizes))
            start += sum(int(b.bytes.bind(sizes)) for b in phase.kernel.statics)
            for name, reserve in phase.kernel.reserves.items():
                inside = start
                for buffer in (b for b in phase.buffers if b.pool == name):
                    inside = _put(places, buffer, space, inside, sizes)
                start += reserve.bytes
    return places


def _put(places: dict[Buffer, Home], buffer: Buffer, space: str, offset: int, sizes: Mapping[str, Any]) -> int:
    size = int(buffer.slot_bytes.bind(sizes))
    places[buffer] = Home(space, offset, size, buffer.slots)
    return offset + size * buffer.slots


def tensor_bytes(tensor: Tensor, sizes: Mapping[str, Any]) -> int:
    """Bytes of a tensor at the sizes of a plan."""
    return math.prod(int(s.bind(sizes)) for s in tensor.shape) * dtypes.itemsize(tensor.dtype)
