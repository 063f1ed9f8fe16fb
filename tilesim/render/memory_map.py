"""Map of a memory of one core: the buffers of a phase with their slots, the bytes kept back, the free bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.inequalities import EvaluatedInequality, budget, counted_bytes, reserves_of
from tilesim.feasibility.verdict import Verdict
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.isa import COPIES, SPACES
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.signatures import text

KINDS = {
    "in": "copied in",
    "work": "computed",
    "out": "copied out",
    "both": "copied in and out",
    "static": "in every phase",
    "unused": "for an option that is off",
    "kept": "kept back",
    "hidden": "hidden by the platform",
    "free": "free",
}
"""Kind of a block -> its words in a legend."""


@dataclass(frozen=True)
class MapBlock:
    """Run of bytes: a buffer with all its slots, or bytes outside of all buffers. `kind` is one of KINDS."""

    name: str
    kind: str
    offset_bytes: int
    bytes: int
    slots: int = 1
    dtype: str = ""
    shape: str = ""


@dataclass(frozen=True)
class MemoryMap:
    """One memory of a core in one phase, from its first byte to its last, or to the end of buffers that do not fit."""

    phase: str
    memory: str
    size_bytes: int
    """Bytes that the platform states."""
    budget_bytes: int
    """Bytes available to static buffers and buffers of the phase together."""
    used_bytes: int
    """Bytes that they take."""
    blocks: tuple[MapBlock, ...]

    @property
    def extent_bytes(self) -> int:
        """Last byte of a drawing."""
        return max((b.offset_bytes + b.bytes for b in self.blocks), default=self.size_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {**vars(self), "extent_bytes": self.extent_bytes, "blocks": [vars(b) for b in self.blocks]}


def memory_map_of(plan: PhasePlan, memory: str) -> MemoryMap:
    """Return the map of a memory in a phase of a plan; with free blocks only if the phase does not use it."""
    homes = [(b, h) for b, h in plan.homes.items() if h.space == memory and not b.pool]
    kinds = kinds_of(plan.phase)
    taken = [
        MapBlock(
            b.name,
            kinds.get(b, "unused"),
            h.offset,
            h.bytes * h.slots,
            h.slots,
            b.dtype,
            _shape(b, plan.sizes),
        )
        for b, h in homes
    ]
    return _completed(plan.phase, memory, taken, plan.chip, plan.sizes)


def memory_maps_of(plan: Plan) -> list[MemoryMap]:
    """Return the maps of every phase of a plan: of the unified buffer, and of other memories that the phase uses."""
    return [
        memory_map_of(phase, memory)
        for phase in plan.phases
        for memory in SPACES[phase.phase.core_kind]
        if memory == "ub" or phase.used_bytes(memory)
    ]


def fullest_ub_of(plan: Plan) -> MemoryMap | None:
    """Return the map of the unified buffer in the phase that uses most of it; None without a vector phase."""
    maps = (memory_map_of(phase, "ub") for phase in plan.phases if phase.phase.core_kind == "vector")
    return max(maps, key=lambda ub: ub.used_bytes, default=None)


def needed(verdict: Verdict, balance: EvaluatedInequality) -> MemoryMap:
    """Return the map of the buffers of an inequality at the smallest tiles, which may exceed the memory."""
    call = verdict.nonempty_call
    kernel = kernel_of(call, verdict.on)
    phase = next(p for p in kernel.phases if p.name == balance.phase)
    env = {**balance.inequality.minimum, **call.env}
    kinds, taken, offset = kinds_of(phase), [], 0
    statics = [(b, b.bytes) for b in kernel.statics] if balance.memory == "ub" else []
    for buffer, size in (*statics, *balance.inequality.terms):
        bytes_ = int(size.bind(env))
        if isinstance(buffer, Tensor):
            continue
        kind = kinds.get(buffer, "unused" if call.operator.has_instructions else "work")
        taken.append(
            MapBlock(
                buffer.name, kind, offset, bytes_, int(buffer.slot_count.bind(env)), buffer.dtype, _shape(buffer, env)
            )
        )
        offset += bytes_
    return _completed(phase, balance.memory, taken, verdict.on, env)


def kinds_of(phase: Phase) -> dict[Buffer, str]:
    """Return the kind, of KINDS, of every buffer that instructions of a phase touch."""
    routes: dict[Buffer, set[str]] = {}
    for instr in phase.instructions():
        for operand in (*instr.reads(), instr.dst):
            if isinstance(operand.base, Buffer):
                routes.setdefault(operand.base, set())
        if instr.op in COPIES:
            source, target = instr.route
            if source == "gm" and isinstance(instr.dst.base, Buffer):
                routes[instr.dst.base].add("in")
            if target == "gm":
                for operand in instr.reads():
                    if isinstance(operand.base, Buffer):
                        routes[operand.base].add("out")
    kinds = {b: "both" if len(ways) > 1 else next(iter(ways), "work") for b, ways in routes.items()}
    return kinds | dict.fromkeys(phase.kernel.statics, "static")


def _completed(phase: Phase, memory: str, taken: list[MapBlock], chip: Chip, sizes: Mapping[str, Any]) -> MemoryMap:
    """Return the map of the blocks that are taken, followed by the free, kept back and hidden bytes."""
    kernel, table = phase.kernel, chip.memory.on_chip(memory)
    statics = sum(int(b.bytes.bind(sizes)) for b in kernel.statics) if memory == "ub" else 0
    available = int(budget(kernel, chip, memory).bind(sizes)) + statics
    used = max((b.offset_bytes + b.bytes for b in taken), default=0)
    blocks = list(taken)
    if used < available:
        blocks.append(MapBlock("free", "free", used, available - used))
    offset = max(used, available)
    hidden = table.size_bytes - available
    for name, size in _kept(kernel, chip, memory):
        blocks.append(MapBlock(name, "kept", offset, size))
        offset, hidden = offset + size, hidden - size
    if hidden > 0:
        blocks.append(MapBlock("platform", "hidden", offset, hidden))
    return MemoryMap(phase.name, memory, table.size_bytes, available, used, tuple(blocks))


def _kept(kernel: Kernel, chip: Chip, memory: str) -> list[tuple[str, int]]:
    counted = counted_bytes(kernel, chip, memory)
    return [(reserve.name, reserve.bytes_of(counted)) for reserve in reserves_of(kernel, memory)]


def _shape(buffer: Buffer, sizes: Mapping[str, Any]) -> str:
    """Return the allocated shape in names and in numbers."""
    numbers = "x".join(str(s.bind(sizes)) for s in buffer.allocated) or "1"
    names = text(buffer.allocated)
    return names if names.strip("[]") == numbers else f"{names} = {numbers}"
