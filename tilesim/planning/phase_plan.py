"""A phase with every size decided, and what follows from it: nests, prices, schedule, buffer map."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.placement import Home, place_buffers
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.isa import ROUTES
from tilesim.program.loop_nest import Kinds, Nest, Nests, Step, cuts, runs, split_loops, totals
from tilesim.program.recorder import Phase
from tilesim.timing.bandwidth import Rates, Traffic, rates, read_together
from tilesim.timing.bursts import bursts, moved_tensor, paid_bytes, tensor_bytes
from tilesim.timing.cache_reuse import crossings
from tilesim.timing.cost import Costs
from tilesim.timing.pipe_runs import parts as vector_functions
from tilesim.timing.pipe_runs import queues
from tilesim.timing.schedule import Scheduler


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
        return place_buffers(self.phase, self.chip, self.sizes)

    @functools.cached_property
    def nests(self) -> list[tuple[Nest, int, int]]:
        """(nest, first core, cores) of every distinct share."""
        return Nests(self.phase, self.sizes).distinct(self.cores)

    @functools.cached_property
    def moved(self) -> dict[str, int]:
        """Bytes of each tensor that all cores together read and write in global memory."""
        return {name: size for name, size in self._traffic.items() if not name.startswith("paid ")}

    @functools.cached_property
    def _traffic(self) -> dict[str, int]:
        """`moved`, and under "paid ..." what the memory spends on it."""
        out: dict[str, int] = {}
        for amounts, (_, _, count) in zip(self._amounts, self.nests, strict=True):
            for name, size in amounts.items():
                out[name] = out.get(name, 0) + size * count
        return out

    @functools.cached_property
    def _amounts(self) -> list[dict[str, int]]:
        """What one core of every distinct share moves, and what the memory spends on it."""
        return [totals(nest, self._amounts_of) for nest, _, _ in self.nests]

    def _amounts_of(self, step: Step) -> dict[str, int]:
        name = moved_tensor(step)
        if not name:
            return {}
        found = bursts(step)
        paid = paid_bytes(self.chip, found, ROUTES[step.instr.route][0])
        return {name: found.total_bytes, f"paid {name}": paid}

    @functools.cached_property
    def rates(self) -> Rates:
        """What one core gets of global memory."""
        views = (v for i in self.phase.instructions() for v in (*i.reads(), i.dst))
        tensors = {v.base.name: v.base for v in views if isinstance(v.base, Tensor)}
        whole = {name: tensor_bytes(tensor, self.sizes) for name, tensor in tensors.items()}
        overwritten, uncached = self.phase.kernel.overwrites, self.phase.kernel.uncached
        split = [loop.name for loop, _ in split_loops(self.phase)]
        together = read_together(self.phase, split) if self.cores > 1 else set()
        times = crossings(self.phase, self.sizes, self.chip.memory.l2.size_bytes)
        reads: dict[str, Traffic] = {}
        moved = paid = distinct = 0
        for key, size in self.moved.items():
            way, name = key.split(" ", 1)
            once = min(size, whole[name])
            if way == "read":
                kept = once if tensors[name].role == "workspace" else 0
                cached = min(kept, self.chip.memory.l2.absorbed_write_bytes)
                past = name in uncached
                crossing = size if past else min(size, round(whole[name] * times[name]))
                reads[name] = Traffic(size, self._traffic[f"paid {key}"], crossing, cached, name in together, past)
            else:
                moved, paid = moved + size, paid + self._traffic[f"paid {key}"]
                over = overwritten.get(name)
                distinct += 0 if over in whole and over not in uncached else once
        return rates(self.chip, self.phase.core_kind, reads, Traffic(moved, paid, distinct), self._active)

    @property
    def past(self) -> frozenset[str]:
        """Tensors that the phase reads past the L2 cache."""
        read = {name.removeprefix("read ") for name in self.moved if name.startswith("read ")}
        return frozenset(read & self.phase.kernel.uncached)

    @functools.cached_property
    def _active(self) -> float:
        """Cores that read at a time, on average: those with less to read leave their share to the others."""
        each = [sum(v for k, v in amounts.items() if k.startswith("read ")) for amounts in self._amounts]
        most = max(each, default=0)
        whole = sum(size * count for size, (_, _, count) in zip(each, self.nests, strict=True))
        return whole / most if most else max(self.cores, 1)

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        """The schedule of its instructions at their prices."""
        costs = Costs(self.chip, self.rates, self.homes, vector_functions(self.phase), queues(self.phase))
        return Scheduler(self.phase, costs.cycles)

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

        A schedule gives every pipe the whole rate of its direction, but reads and writes share the memory. So no share
        ends before the memory has passed what all cores read and write, and of the time in which the longest pipe
        waits for its next instruction only half can hide behind that. What other pipes do after its last one is not
        counted: copies that the memory passes, and the vectors of a tile. Nor does it take longer than all its
        instructions one after another.
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
        """The nest of the slowest core."""
        return self.nests[self._last][0] if self.nests else ()

    @property
    def makespan(self) -> int:
        """Cycles of the schedule of the slowest core."""
        return self.makespans[self._last] if self.nests else 0

    @functools.cached_property
    def _last(self) -> int:
        """Which share takes longest."""
        return max(range(len(self.shares)), key=lambda i: self.shares[i][0])

    @functools.cached_property
    def busy_cycles(self) -> dict[str, int]:
        """Cycles that each pipe of the slowest core works."""
        return self.scheduler.busy(self.slowest)

    def on(self, chip: Chip) -> PhasePlan:
        """The same tiles on a chip with other rates and latencies; its cores and memories must be the same."""
        made = replace(self, chip=chip)
        made.__dict__.update(nests=self.nests, homes=self.homes)  # what does not depend on prices
        return made

    def used_bytes(self, memory: str) -> int:
        """Bytes of a memory that buffers take."""
        return max((p.offset + p.bytes * p.slots for p in self.homes.values() if p.space == memory), default=0)


@dataclass(frozen=True)
class Portion:
    """What one core gets of an axis: so many tiles, together so many elements."""

    tiles: int
    elements: int


@dataclass(frozen=True)
class CoreShare:
    """Cores with equal work: `first_core` is one of them, `cycles` is what they take, `portions` go by loop."""

    first_core: int
    cores: int
    cycles: int
    portions: Mapping[str, Portion]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {
            "first_core": self.first_core,
            "cores": self.cores,
            "cycles": self.cycles,
            "axes": {name: vars(portion) for name, portion in self.portions.items()},
        }


def core_shares(plan: PhasePlan) -> list[CoreShare]:
    """Every distinct share of a phase, the one that takes longest first."""
    found = []
    for cycles, first, cores in plan.shares:
        portions = {}
        for cut in cuts(plan.phase, plan.sizes):
            part = cut.part(first)
            portions[cut.loop.name] = _portion(runs(cut.loop, plan.sizes, cut.parts, part) if part >= 0 else ())
        found.append(CoreShare(first, cores, cycles, portions))
    return sorted(found, key=lambda share: -share.cycles)


def idle_share(plan: PhasePlan) -> float:
    """The share of the chip's core time of a phase's kind in which a core has nothing to do while it runs: 0 to 1."""
    cores = plan.chip.cores
    whole = plan.cycles * (cores.cube if plan.phase.core_kind == "cube" else cores.vector)
    return 1 - sum(cycles * count for cycles, _, count in plan.shares) / whole if whole else 0.0


def _portion(kinds: Kinds) -> Portion:
    tiles = elements = 0
    for kind in kinds:
        if len(kind) == 2:  # a pattern that repeats
            inside = _portion(kind[1])
            tiles, elements = tiles + kind[0] * inside.tiles, elements + kind[0] * inside.elements
        else:
            tiles, elements = tiles + kind[0], elements + kind[0] * kind[1]
    return Portion(tiles, elements)
