"""Copies of rows, slots and starts that are no multiple of 32 bytes, in a file of buffers.

The copy instruction moves blocks of 32 bytes. What is no multiple of it needs an instruction that pads; kernels that
used the plain one read and wrote data of their neighbours in several public reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.operators.buffer_operator import ListedBuffer
from tilesim.program.isa import GLOBAL
from tilesim.program.sizes import Env
from tilesim.program.units import BLOCK_BYTES

REASON: Final = "such copies gave wrong data on silicon in several public reports"
"""The reason why a copy that is not aligned is a caution."""


@dataclass(frozen=True)
class Unaligned:
    """A buffer that has something which is no multiple of 32 bytes."""

    buffer: ListedBuffer
    parts: tuple[str, ...]
    """What it has, each with its bytes."""
    padding_bytes: int
    """Bytes of all its slots that hold no element."""

    @property
    def copied(self) -> bool:
        """Whether it is copied row by row."""
        return self.buffer.row_bytes is not None

    def __str__(self) -> str:
        """The line that tells it."""
        reason = f", {self.padding_bytes:,} B of padding; {REASON}" if self.copied else ""
        return f"{self.buffer.name}: {', '.join(self.parts)}: no multiple of {BLOCK_BYTES} B{reason}"


def unaligned(sides: Iterable[EvaluatedInequality], env: Env) -> list[Unaligned]:
    """Return the buffers of a file that have something which is no multiple of 32 bytes, in the order of the file."""
    found = []
    for buffer, start in _starts(sides, env).items():
        slot = int(buffer.stated_bytes.bind(env))
        sizes = {"an offset" if buffer.offset is not None else "a start": start}
        if buffer.row_bytes is not None:
            sizes = {"rows": int(buffer.row_bytes.bind(env)), "slots": slot, **sizes}
        elif buffer.offset is None:
            continue
        parts = tuple(f"{name} of {size:,} B" for name, size in sizes.items() if size % BLOCK_BYTES)
        if parts:
            found.append(Unaligned(buffer, parts, padding_bytes(buffer, env)))
    return found


def padding_bytes(buffer: ListedBuffer, env: Env) -> int:
    """Return the bytes of all slots of a buffer that hold no element."""
    return int(((buffer.stated_bytes - buffer.data_bytes) * buffer.stated_slots).bind(env))


def _starts(sides: Iterable[EvaluatedInequality], env: Env) -> dict[ListedBuffer, int]:
    """Return the first byte of every buffer, placed by hand or behind the one before; of several, an unaligned one."""
    starts: dict[ListedBuffer, int] = {}
    for b in sides:
        end = 0
        for buffer, size in b.inequality.terms if b.memory != GLOBAL else ():
            if not isinstance(buffer, ListedBuffer):
                continue
            start = end if buffer.offset is None else int(buffer.offset.bind(env))
            if starts.get(buffer, 0) % BLOCK_BYTES == 0:
                starts[buffer] = start
            end += int(size.bind(env)) if buffer.offset is None else 0
    return starts
