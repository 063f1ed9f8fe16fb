"""What lies where in a memory of one core: the buffers of a phase with their slots, what is kept back, what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.inequalities import EvaluatedInequality, budget, counted_bytes, reserves_of
from tilesim.feasibility.verdict import Verdict
from tilesim.planning.phase_plan import PhasePlan
from tilesim.program.buffers import Buffer
from tilesim.program.isa import COPIES
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
"""Kind of a block -> what it says."""


@dataclass(frozen=True)
class MapBlock:
    """A run of bytes: a buffer with all its slots, or what no buffer of the phase has. `kind` is one of KINDS."""

    name: str
    kind: str
    offset_bytes: int
    bytes: int
    slots: int = 1
    dtype: str = ""
    shape: str = ""


@dataclass(frozen=True)
class MemoryMap:
    """One memory of one core in one phase, from its first byte to its last or to the end of what would not fit."""

    phase: str
    memory: str
    size_bytes: int
    """As the platform states it."""
    budget_bytes: int
    """What static buffers and buffers of the phase may take together."""
    used_bytes: int
    """What they take."""
    blocks: tuple[MapBlock, ...]

    @property
    def extent_bytes(self) -> int:
        """How far a drawing has to reach."""
        return max((b.offset_bytes + b.bytes for b in self.blocks), default=self.size_bytes)

    def to_json(self) -> dict[str, Any]:
        """Its fields as plain data."""
        return {**vars(self), "extent_bytes": self.extent_bytes, "blocks": [vars(b) for b in self.blocks]}


def memory_map_of(plan: PhasePlan, memory: str) -> MemoryMap:
    """The map of a memory as a phase of a plan uses it; no blocks but free ones if the phase does not."""
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


def needed(verdict: Verdict, balance: EvaluatedInequality) -> MemoryMap:
    """The map that an inequality asks for at the smallest tiles, whether it fits or not."""
    call = verdict.nonempty_call
    kernel = kernel_of(call, verdict.on)
    phase = next(p for p in kernel.phases if p.name == balance.phase)
    env = {**balance.inequality.minimum, **call.env}
    kinds, taken, offset = kinds_of(phase), [], 0
    statics = [(b, b.bytes) for b in kernel.statics] if balance.memory == "ub" else []
    for buffer, size in (*statics, *balance.inequality.terms):
        bytes_ = int(size.bind(env))
        kind = kinds.get(buffer, "unused" if call.operator.has_instructions else "work")
        taken.append(
            MapBlock(
                buffer.name, kind, offset, bytes_, int(buffer.slot_count.bind(env)), buffer.dtype, _shape(buffer, env)
            )
        )
        offset += bytes_
    return _completed(phase, balance.memory, taken, verdict.on, env)


def kinds_of(phase: Phase) -> dict[Buffer, str]:
    """What every buffer that instructions of a phase touch is for: one of KINDS."""
    found: dict[Buffer, set[str]] = {}
    for instr in phase.instructions():
        for seen in (*instr.reads(), instr.dst):
            if isinstance(seen.base, Buffer):
                found.setdefault(seen.base, set())
        if instr.op in COPIES:
            source, target = instr.route
            if source == "gm" and isinstance(instr.dst.base, Buffer):
                found[instr.dst.base].add("in")
            if target == "gm":
                for seen in instr.reads():
                    if isinstance(seen.base, Buffer):
                        found[seen.base].add("out")
    kinds = {b: "both" if len(ways) > 1 else next(iter(ways), "work") for b, ways in found.items()}
    return kinds | dict.fromkeys(phase.kernel.statics, "static")


def _completed(phase: Phase, memory: str, taken: list[MapBlock], chip: Chip, sizes: Mapping[str, Any]) -> MemoryMap:
    """The map of the blocks that are taken, with what is free, kept back and hidden behind them."""
    kernel, table = phase.kernel, chip.memory.on_chip(memory)
    statics = sum(int(b.bytes.bind(sizes)) for b in kernel.statics) if memory == "ub" else 0
    whole = int(budget(kernel, chip, memory).bind(sizes)) + statics
    used = max((b.offset_bytes + b.bytes for b in taken), default=0)
    blocks = list(taken)
    if used < whole:
        blocks.append(MapBlock("free", "free", used, whole - used))
    at = max(used, whole)
    for name, size in _kept(kernel, chip, memory):
        blocks.append(MapBlock(name, "kept", at, size))
        at += size
    rest = table.size_bytes - whole - sum(size for _, size in _kept(kernel, chip, memory))
    if rest > 0:
        blocks.append(MapBlock("platform", "hidden", at, rest))
    return MemoryMap(phase.name, memory, table.size_bytes, whole, used, tuple(blocks))


def _kept(kernel: Kernel, chip: Chip, memory: str) -> list[tuple[str, int]]:
    whole = counted_bytes(kernel, chip, memory)
    return [(reserve.name, reserve.bytes_of(whole)) for reserve in reserves_of(kernel, memory)]


def _shape(buffer: Buffer, sizes: Mapping[str, Any]) -> str:
    """The allocated shape in names and in numbers."""
    numbers = "x".join(str(s.bind(sizes)) for s in buffer.allocated) or "1"
    names = text(buffer.allocated)
    return names if names.strip("[]") == numbers else f"{names} = {numbers}"
