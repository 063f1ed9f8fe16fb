"""Phase with every size decided, and the results of it: nests, prices, schedule, buffer map."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.inequalities import budget_parameters
from tilesim.feasibility.placement import Home, place_buffers
from tilesim.program.buffers import Buffer
from tilesim.program.isa import SPACES
from tilesim.program.loop_nest import Kinds, Nest, Nests, cuts, runs
from tilesim.program.recorder import Phase
from tilesim.timing.bandwidth import Rates, Traffic, occupancies, rates, total, traffic
from tilesim.timing.cost import Costs
from tilesim.timing.schedule import Scheduler


@dataclass(frozen=True)
class PhasePlan:
    """Phase with all sizes decided.

    `sizes` binds dims, tiles and parts; `tiles` are the sizes of the plan's tiles, `reasons` those of the choice.
    """

    phase: Phase
    chip: Chip
    sizes: Mapping[str, Any]
    tiles: Mapping[str, int]
    reasons: Mapping[str, str]
    cores: int
    tiling_parameters: frozenset[str] = frozenset()
    """Keys of the chip that tiles and cores rest on; those of a product also on `parameters`, which rank them."""

    @functools.cached_property
    def homes(self) -> Mapping[Buffer, Home]:
        """Buffer map."""
        return place_buffers(self.phase, self.chip, self.sizes)

    @functools.cached_property
    def nests(self) -> list[tuple[Nest, int, int]]:
        """(nest, first core, cores) of every distinct share."""
        return Nests(self.phase, self.sizes).distinct(self.cores)

    @functools.cached_property
    def _share_traffic(self) -> list[tuple[Traffic, int]]:
        """(traffic of one core, cores) of every distinct share, in the order of `nests`."""
        of_paths = occupancies(self.chip, self.phase)
        return [(traffic(nest, of_paths), cores) for nest, _, cores in self.nests]

    @functools.cached_property
    def traffic(self) -> Traffic:
        """Reads and writes of all cores together in global memory."""
        return total(self._share_traffic)

    @functools.cached_property
    def rates(self) -> Rates:
        """Rates of one core in global memory."""
        return rates(self.chip, self.phase, self.sizes, self.cores, self._share_traffic)

    @property
    def bypassing(self) -> frozenset[str]:
        """Tensors that the phase reads past the L2 cache."""
        return frozenset(self.traffic.reads.keys() & self.phase.kernel.uncached)

    @functools.cached_property
    def costs(self) -> Costs:
        """Prices of its instructions."""
        return Costs(self.chip, self.phase, self.rates, self.homes)

    @functools.cached_property
    def parameters(self) -> frozenset[str]:
        """Keys of the chip that its cycles and its time rest on, as its prices and rates declare them."""
        return frozenset({*self.costs.parameters, *self.rates.parameters})

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        """Schedule of its instructions at their prices."""
        return Scheduler(self.phase, self.costs.cycles)

    @functools.cached_property
    def makespans(self) -> list[int]:
        """Cycles of the schedule of every distinct share, in the order of `nests`."""
        return [max(ends.values()) for ends in self._ends]

    @functools.cached_property
    def _ends(self) -> list[dict[str, int]]:
        return [self.scheduler.ends(nest) for nest, _, _ in self.nests]

    @functools.cached_property
    def shares(self) -> list[tuple[int, int, int]]:
        """(cycles, first core, cores) of every distinct share of the phase.

        A schedule gives every pipe the full rate of its direction, but reads and writes share the memory. So no share
        ends before the memory has passed all reads and writes of all cores, plus half of the time in which the longest
        pipe waits for its next instruction; the other half overlaps. Work of other pipes after the last instruction of
        the longest one does not count as waiting: those are copies that the memory passes, and vectors of a tile. No
        share takes longer than all its instructions one after another.
        """
        floor = self.rates.floor_cycles
        out = []
        for (nest, first, count), ends in zip(self.nests, self._ends, strict=True):
            busy = self.scheduler.busy(nest)
            longest = max(busy, key=lambda pipe: (busy[pipe], ends[pipe]))
            shared = floor + (ends[longest] - busy[longest]) // 2
            out.append((max(*ends.values(), min(sum(busy.values()), shared)), first, count))
        return out

    @property
    def cycles(self) -> int:
        """Cycles of the slowest core."""
        return max((c for c, _, _ in self.shares), default=0)

    @property
    def slowest(self) -> Nest:
        """Nest of the slowest core."""
        return self.nests[self._last][0] if self.nests else ()

    @property
    def makespan(self) -> int:
        """Cycles of the schedule of the slowest core."""
        return self.makespans[self._last] if self.nests else 0

    @functools.cached_property
    def _last(self) -> int:
        """Index of the share that takes longest."""
        return max(range(len(self.shares)), key=lambda i: self.shares[i][0])

    @functools.cached_property
    def busy_cycles(self) -> dict[str, int]:
        """Cycles that each pipe of the slowest core works."""
        return self.scheduler.busy(self.slowest)

    @property
    def longest_pipe_cycles(self) -> int:
        """Cycles of the longest pipe of the first core, which no schedule beats; 0 if no core has work."""
        return max(self.scheduler.busy(self.nests[0][0]).values(), default=0) if self.nests else 0

    def on(self, chip: Chip) -> PhasePlan:
        """Return the same tiles on another chip, with all results that rest on no changed parameter."""
        changed, names = self.chip.diff(chip).keys(), {"nests"}
        if changed.isdisjoint(capacities(self.phase)):
            names |= {"homes"}
        if changed.isdisjoint(self.parameters):
            names |= self.__dict__.keys() - {"homes", *(field.name for field in fields(self))}
        moved = replace(self, chip=chip)
        moved.__dict__.update({name: self.__dict__[name] for name in names & self.__dict__.keys()})
        return moved

    def used_bytes(self, memory: str) -> int:
        """Return the bytes of a memory up to the end of the last buffer."""
        return max((p.offset + p.bytes * p.slots for p in self.homes.values() if p.space == memory), default=0)


def capacities(phase: Phase) -> frozenset[str]:
    """Return the keys of the chip that the inequalities of a phase and the places of its buffers rest on."""
    return frozenset(key for memory in SPACES[phase.core_kind] for key in budget_parameters(phase.kernel, memory))


@dataclass(frozen=True)
class Portion:
    """Part of an axis that one core gets: number of tiles, and of elements in all of them."""

    tiles: int
    elements: int


@dataclass(frozen=True)
class CoreShare:
    """Cores with equal work: index of the first, their number, cycles of each, portions by loop."""

    first_core: int
    cores: int
    cycles: int
    portions: Mapping[str, Portion]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {
            "first_core": self.first_core,
            "cores": self.cores,
            "cycles": self.cycles,
            "axes": {name: vars(portion) for name, portion in self.portions.items()},
        }


def core_shares(plan: PhasePlan) -> list[CoreShare]:
    """Return every distinct share of a phase, the one that takes longest first."""
    out = []
    for cycles, first, cores in plan.shares:
        portions = {}
        for cut in cuts(plan.phase, plan.sizes):
            part = cut.part(first)
            portions[cut.loop.name] = _portion(runs(cut.loop, plan.sizes, cut.parts, part) if part >= 0 else ())
        out.append(CoreShare(first, cores, cycles, portions))
    return sorted(out, key=lambda share: -share.cycles)


def idle_share(plan: PhasePlan) -> float:
    """Return the idle share of the core time of all cores of its kind while a phase runs: 0 to 1."""
    cores = plan.chip.cores
    core_cycles = plan.cycles * cores.of(plan.phase.core_kind)
    return 1 - sum(cycles * count for cycles, _, count in plan.shares) / core_cycles if core_cycles else 0.0


def _portion(kinds: Kinds) -> Portion:
    tiles = elements = 0
    for kind in kinds:
        if len(kind) == 2:  # a pattern that repeats
            pattern = _portion(kind[1])
            tiles, elements = tiles + kind[0] * pattern.tiles, elements + kind[0] * pattern.elements
        else:
            tiles, elements = tiles + kind[0], elements + kind[0] * kind[1] * kind[4]
    return Portion(tiles, elements)
