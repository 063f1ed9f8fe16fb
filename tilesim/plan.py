"""A plan: tile sizes, the split over cores, the buffer map and the workspace of a kernel for one shape on one chip."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilesim import dtypes
from tilesim.chip import Chip
from tilesim.cost import Costs, Rates, moved_bytes, rates
from tilesim.execute import Home, PhaseJob
from tilesim.fits import Inequality, budget, inequalities
from tilesim.isa import REGISTERS, SPACES
from tilesim.nest import Nest, Nests, split_loops, totals
from tilesim.program import Kernel, Loop, Phase
from tilesim.schedule import Scheduler
from tilesim.views import BLOCK_BYTES, Buffer, Tensor

WORKSPACE_ALIGN_BYTES = 512
"""Workspace tensors start on it: the L2 line, and what the vendor recommends for copies."""


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
        tensors = {v.base.name: v.base for i in self.phase.instructions() for v in (*i.reads(), i.dst) if isinstance(v.base, Tensor)}
        unique = {name: min(size, _tensor_bytes(tensors[name.split(" ", 1)[1]], self.sizes)) for name, size in self.moved.items()}
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


@dataclass(frozen=True)
class KernelPlan:
    """A kernel with all sizes decided: its phases, and where each workspace tensor starts."""

    kernel: Kernel
    chip: Chip
    dims: Mapping[str, Any]
    phases: tuple[PhasePlan, ...]
    workspace: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name -> (offset, bytes)."""

    @property
    def user_workspace_bytes(self) -> int:
        """Bytes of its own workspace tensors."""
        return max((o + b for o, b in self.workspace.values()), default=0)

    @property
    def block_dim(self) -> int:
        """Cores that the launch asks for: of the kind that limits a mix of both, as the vendor counts blocks."""
        return max((p.cores for p in self.phases), default=0)


def plan_kernel(kernel: Kernel, dims: Mapping[str, Any], chip: Chip, tiles: Mapping[str, int] | None = None) -> KernelPlan:
    """The plan of a kernel. `tiles` fixes tile sizes ("rows", or "gate backward.rows") and parts ("cores") by hand."""
    wanted = dict(tiles or {})
    by_phase: dict[str, list[Inequality]] = {}
    for inequality in inequalities(kernel, chip):
        by_phase.setdefault(inequality.phase, []).append(inequality)
    sizes: dict[str, Any] = dict(dims)
    phases = []
    for phase in kernel.phases:
        mine = {name.rsplit(".", 1)[-1]: v for name, v in wanted.items() if "." not in name or name.rsplit(".", 1)[0] == phase.name}
        made = (_cube if phase.core_kind == "cube" else _vector)(phase, sizes, chip, by_phase.get(phase.name, []), mine)
        sizes[f"{phase.name}.cores"] = made.cores
        phases.append(made)
    return KernelPlan(kernel, chip, dims, tuple(phases), _workspace(kernel, sizes))


# -------------------------------------------------------------------- vector phases
def _vector(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> PhasePlan:
    limits = list(limits)
    available = wanted.get("cores", chip.cores.vector)
    sizes = dict(dims)
    tiles: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for tile in phase.tiles.values():
        users = [loop for loop in phase.loops() if tile.name in loop.tile.names()]
        longest = max((_longest_share(loop, sizes, available) for loop in users), default=1)
        cap = longest if tile.cap is None else min(longest, int(tile.cap.bind(sizes)))
        if tile.name in wanted:
            tiles[tile.name], reasons[tile.name] = wanted[tile.name], "given"
        else:
            found = min((q.largest(tile.name, sizes, cap, tile.multiple_of) for q in limits), default=cap)
            tiles[tile.name] = max(found, min(tile.multiple_of, max(cap, 1)))
            reasons[tile.name] = (
                "the whole axis of a core's share" if found == longest else tile.cap_reason or f"at most {tile.cap}"
                if found == cap else "the largest that fits"
            )
        sizes[tile.name] = tiles[tile.name]
    used = 0
    for loop, _ in split_loops(phase):
        parts = _parts(loop, sizes, available)
        sizes[loop.parts(phase.name).names().__iter__().__next__()] = parts
        used = max(used, parts)
    sizes[f"{phase.name}.cores"] = max(used, 1)
    return PhasePlan(phase, chip, sizes, tiles, reasons, max(used, 1))


def _units(loop: Loop, sizes: Mapping[str, Any]) -> int:
    step = loop.tile if loop.split == "dealt" else loop.unit
    return -(-int(loop.extent.bind(sizes)) // max(int(step.bind(sizes)), 1))


def _parts(loop: Loop, sizes: Mapping[str, Any], available: int) -> int:
    units = _units(loop, sizes)
    if loop.split == "ceil":
        each = -(-units // available) if units else 1
        return -(-units // each) if units else 1
    return max(min(available, units), 1)


def _longest_share(loop: Loop, sizes: Mapping[str, Any], available: int) -> int:
    extent = int(loop.extent.bind(sizes))
    if not loop.split or loop.split == "dealt":
        return max(extent, 1)
    unit = int(loop.unit.bind(sizes))
    return max(min(extent, -(-(-(-extent // unit)) // available) * unit), 1)


# -------------------------------------------------------------------- cube phases
@dataclass(frozen=True)
class Candidate:
    """A tiling of a matrix product that was looked at: its tiles, and its cycles or why it was not scheduled."""

    tiles: Mapping[str, int]
    cycles: int | None
    reason: str


def _cube(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> PhasePlan:
    limits = list(limits)
    options = cube_options(phase, dims, chip, limits, wanted)
    plans = sorted((_cube_plan(phase, dims, chip, o) for o in options), key=_bound)
    best = plans[0]
    for other in plans[1:]:
        if _bound(other) >= best.cycles:
            break
        best = min(best, other, key=lambda p: p.cycles)
    return best


def cube_options(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> list[dict[str, int]]:
    """The base tiles and grids of cores worth scheduling: tiles doubled from 16 that fit and cannot be doubled further."""
    loops = {loop.name: loop for loop in phase.loops()}
    extent = {axis: int(loops[name].extent.bind(dims)) for axis, name in (("m", "mi"), ("n", "ni"))}
    group = int(loops["group"].tile.bind(dims))
    groups = -(-int(loops["group"].extent.bind(dims)) // group)
    cores = wanted.get("cores", chip.cores.cube)

    def fits(tiles: Mapping[str, int]) -> bool:
        return all(q.holds({**dims, **tiles}) for q in limits)

    block = phase.k_block
    small = [2**i * 16 for i in range(8)]
    sides = {a: [t for t in small if t < extent[a]] + [min(small[-1], -(-extent[a] // 16) * 16)] for a in extent}
    sides = {a: [wanted[a]] if a in wanted else s for a, s in sides.items()}
    out: list[dict[str, int]] = []
    pairs = [(m, n) for m in sides["m"] for n in sides["n"] if fits({"m": m, "n": n, "k1": block})]
    for m, n in pairs:
        depth = [wanted["k1"]] if "k1" in wanted else _depths(block, group, lambda k, m=m, n=n: fits({"m": m, "n": n, "k1": k}))  # type: ignore[misc]
        tiles = {"m": m, "n": n}
        count = {a: -(-extent[a] // tiles[a]) for a in extent}
        for parts in _grids(groups, count["m"], count["n"], cores):
            out.append({**tiles, "k1": depth[-1], **parts})
    return out


def _depths(block: int, depth: int, fits: Any) -> list[int]:
    out = [block]
    while out[-1] < depth and fits(out[-1] * 2):
        out.append(out[-1] * 2)
    return out


def _grids(groups: int, rows: int, columns: int, cores: int) -> list[dict[str, int]]:
    """Grids of cores over (groups, tiles of m, tiles of n), the one or two with the fewest tiles on the busiest core."""
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    for g in range(1, min(groups, cores) + 1):
        for i in range(1, min(rows, cores // g) + 1):
            j = min(columns, cores // g // i)
            if j:
                found[g, i, j] = (-(-groups // g) * -(-rows // i) * -(-columns // j), g * i * j)
    fewest = min(t for t, _ in found.values())
    best = sorted((k for k, v in found.items() if v[0] == fewest), key=lambda k: (found[k][1], abs(k[1] - k[2])))
    return [{"cores.group": g, "cores.mi": i, "cores.ni": j} for g, i, j in best[:2]]


def _cube_plan(phase: Phase, dims: Mapping[str, Any], chip: Chip, option: Mapping[str, int]) -> PhasePlan:
    tiles = {name: option[name] for name in phase.tiles}
    parts = {f"{phase.name}.{name}": v for name, v in option.items() if name.startswith("cores.")}
    used = math.prod(parts.values())
    sizes = {**dims, **tiles, **parts, f"{phase.name}.cores": used}
    reasons = dict.fromkeys(tiles, "the fewest cycles of the tiles that fit")
    return PhasePlan(phase, chip, sizes, tiles, reasons, used)


def _bound(plan: PhasePlan) -> int:
    """Cycles of the longest pipe of its first core, which the makespan cannot beat."""
    return max(plan.scheduler.busy(plan.nests[0][0]).values())


# -------------------------------------------------------------------- memory
def _homes(phase: Phase, chip: Chip, sizes: Mapping[str, Any]) -> dict[Buffer, Home]:
    """The buffer map: static buffers first, then the phase's in order; pools lie in the bytes that the operator keeps back."""
    places: dict[Buffer, Home] = {}
    for space in (*SPACES[phase.core_kind], REGISTERS):
        offset = 0
        statics = phase.kernel.statics if space == "ub" else []
        for buffer in (*statics, *(b for b in phase.buffers if b.space == space and not b.pool)):
            offset = _put(places, buffer, space, offset, sizes)
        if space == "ub":
            end = int(budget(phase.kernel, chip, "ub").bind(sizes)) + sum(int(b.bytes.bind(sizes)) for b in phase.kernel.statics)
            start = end
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


def _tensor_bytes(tensor: Tensor, sizes: Mapping[str, Any]) -> int:
    return math.prod(int(s.bind(sizes)) for s in tensor.shape) * dtypes.itemsize(tensor.dtype)


def _workspace(kernel: Kernel, sizes: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    offset = 0
    for name, tensor in kernel.workspaces.items():
        size = _tensor_bytes(tensor, sizes)
        out[name] = (offset, size)
        offset += -(-size // WORKSPACE_ALIGN_BYTES) * WORKSPACE_ALIGN_BYTES
    return out


__all__ = ["BLOCK_BYTES", "Candidate", "KernelPlan", "PhasePlan", "cube_options", "plan_kernel"]
