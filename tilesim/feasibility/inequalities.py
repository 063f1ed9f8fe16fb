"""The feasibility inequalities of a kernel, one per phase and memory, derived from its recorded buffers and tensors.

A phase fits if the bytes of its buffers do not exceed the budget of the memory: its bytes less the static buffers and
the reserves of the operator. Tensors and workspace of a call share global memory. Both sides are polynomials in the
dims and tile sizes, derived from the program.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.operators.buffer_operator import ListedBuffer
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.isa import GLOBAL, SPACES
from tilesim.program.recorder import Kernel, Phase, Reserve
from tilesim.program.sizes import ZERO, Env, Size, Variable, align

WORD_BYTES = 4
"""Bytes of a word: documents count the unified buffer in words of 32 bits."""
WORKSPACE_ALIGN_BYTES = 512
"""Alignment of tensors in the workspace [bytes]: the L2 line, and what the vendor recommends for copies."""


@dataclass(frozen=True, eq=False)
class Inequality:
    """left <= right [bytes]: the buffers of `phase` in `memory` against the bytes that it may use."""

    phase: str
    memory: str
    terms: tuple[tuple[Buffer | Tensor, Size], ...]
    right: Size
    minimum: Mapping[str, int]
    """The tile sizes of the phase at their smallest, under which a shape must fit."""

    @functools.cached_property
    def left(self) -> Size:
        """Bytes of all buffers."""
        return sum((b for _, b in self.terms), ZERO)

    def left_bytes(self, env: Env) -> int:
        """Return the left side [bytes], at the smallest tiles unless `env` has others; `env` may hold arrays."""
        value: int = self.left.bind({**self.minimum, **env})
        return value

    def right_bytes(self, env: Env) -> int:
        """Return the right side [bytes]."""
        value: int = self.right.bind({**self.minimum, **env})
        return value

    def slack_bytes(self, env: Env) -> int:
        """Return the bytes that stay free; negative if the phase does not fit."""
        return self.right_bytes(env) - self.left_bytes(env)

    def holds(self, env: Env) -> bool:
        """Return True if the phase fits."""
        return self.slack_bytes(env) >= 0

    @property
    def text(self) -> str:
        """The inequality at the smallest tiles in words of 32 bits, as documents write it, or in bytes."""
        left, right = self.left.substitute(self.minimum), self.right.substitute(self.minimum)
        if self.memory != GLOBAL and all(c % WORD_BYTES == 0 for side in (left, right) for _, c in side.terms):
            return f"{_divided(left)} <= {_divided(right)} words"
        return f"{left} <= {right} bytes"

    def largest(self, tile: str, env: Env, cap: int, multiple_of: int = 1) -> int:
        """Return the largest `tile` up to `cap` that fits, a multiple of `multiple_of` or the cap itself; 0 if none."""

        def fits(value: int) -> bool:
            return self.holds({**env, tile: value})

        if cap <= 0 or not fits(min(multiple_of, cap)):
            return 0
        if fits(cap):
            return cap
        low, high = 1, -(-cap // multiple_of)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * multiple_of) else (low, middle)
        return low * multiple_of


def _divided(size: Size) -> Size:
    return Size(tuple((m, c // WORD_BYTES) for m, c in size.terms))


def inequalities(kernel: Kernel, chip: Chip) -> list[Inequality]:
    """Return every inequality of a kernel on a chip: those of the memories and pools of each phase, global memory."""
    out: list[Inequality] = []
    for phase in kernel.phases:
        minimum = {tile.name: tile.smallest for tile in phase.tiles.values()}
        for memory in (*SPACES[phase.core_kind], GLOBAL):
            buffers = [b for b in phase.buffers if b.space == memory and not b.pool]
            if buffers or (memory == "ub" and phase.body):
                terms = tuple((b, b.bytes) for b in buffers)
                available = budget(kernel, chip, memory)
                out.append(Inequality(phase.name, memory, terms, available, minimum))
                out += [Inequality(phase.name, memory, (term,), available, minimum) for term in _placed(buffers)]
        out += [_pool(phase, name, minimum) for name in kernel.reserves if any(b.pool == name for b in phase.buffers)]
    tensors = _in_global_memory(kernel, chip)
    if tensors:
        out.append(Inequality("", GLOBAL, tensors, budget(kernel, chip, GLOBAL), {}))
    return out


def _placed(buffers: Iterable[Buffer]) -> Iterator[tuple[Buffer, Size]]:
    """The end of every buffer that a file places by hand, which must lie in the memory too."""
    for buffer in buffers:
        if isinstance(buffer, ListedBuffer) and buffer.offset is not None:
            yield buffer, buffer.offset + buffer.bytes


def _in_global_memory(kernel: Kernel, chip: Chip) -> tuple[tuple[Tensor, Size], ...]:
    """The tensors of a call and its workspace, with the bytes of each, as all cores of the chip would need it.

    A tensor that lies where another one does is counted once. The vendor's first call asks for the workspace as a
    whole: the system's part, then the tensors that phases hand on, one after the other.
    """
    tensors = [t for name, t in kernel.tensors.items() if t is not None and name not in kernel.overwrites]
    if not tensors:
        return ()
    fixed: dict[str, int] = {}
    for phase in kernel.phases:
        fixed[Variable(phase.name, "cores")] = chip.cores.of(phase.core_kind)
        fixed |= {tile.name: tile.smallest for tile in phase.tiles.values()}
    workspaces = [(t, t.bytes.substitute(fixed)) for t in kernel.workspaces.values()]
    padded = [(t, align(size, WORKSPACE_ALIGN_BYTES)) for t, size in workspaces[:-1]] + workspaces[-1:]
    system_bytes = Size.of(chip.workspace.system_bytes)
    system = Tensor("system workspace", (system_bytes,), "uint8", "workspace")
    of_system = [(system, system_bytes)] if chip.workspace.system_bytes else []
    return (*((t, t.bytes) for t in tensors), *padded, *of_system)


def budget(kernel: Kernel, chip: Chip, memory: str) -> Size:
    """Return the bytes of a memory that a phase may use: the counted bytes less static buffers and reserves."""
    counted = counted_bytes(kernel, chip, memory)
    statics = (-b.bytes for b in kernel.statics if b.space == memory)
    return sum(statics, Size.of(counted - sum(r.bytes_of(counted) for r in reserves_of(kernel, memory))))


def counted_bytes(kernel: Kernel, chip: Chip, memory: str) -> int:
    """Return the bytes of a memory that a kernel counts on: all of them, or those that the platform shows."""
    table = chip.memory.capacity(memory)
    return table.size_bytes if memory in kernel.whole_memories else table.visible_bytes


def reserves_of(kernel: Kernel, memory: str) -> list[Reserve]:
    """Return the reserves of a kernel in a memory."""
    return [reserve for reserve in kernel.reserves.values() if reserve.memory == memory]


def budget_parameters(kernel: Kernel, memory: str) -> tuple[str, ...]:
    """Return the keys of the chip that the budget of a memory rests on."""
    size = f"memory.{memory}.size_bytes"
    return (size,) if memory in kernel.whole_memories else (size, f"memory.{memory}.reserved_bytes")


def _pool(phase: Phase, name: str, minimum: Mapping[str, int]) -> Inequality:
    terms = tuple((b, b.bytes) for b in phase.buffers if b.pool == name)
    return Inequality(phase.name, name, terms, Size.of(phase.kernel.reserves[name].bytes), minimum)


@dataclass(frozen=True)
class EvaluatedInequality:
    """An inequality at the sizes of a call: both sides in bytes, at the smallest tiles."""

    inequality: Inequality
    left_bytes: int
    right_bytes: int

    @property
    def phase(self) -> str:
        """Name of the phase."""
        return self.inequality.phase

    @property
    def memory(self) -> str:
        """Name of the memory, or of the pool of a reserve."""
        return self.inequality.memory

    @property
    def place(self) -> str:
        """Memory and phase in words, `ub in phase 'norm'`."""
        return f"{self.memory} in phase '{self.phase}'" if self.phase else self.memory

    @property
    def text(self) -> str:
        """The inequality in words, `13H <= 62448 - 16⌈C/8⌉ words`."""
        return self.inequality.text

    @property
    def slack_bytes(self) -> int:
        """Bytes that stay free; negative if the inequality does not hold."""
        return self.right_bytes - self.left_bytes
