"""What the buffers of a file need at given sizes, memory by memory, and what a chip has for them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput, did_you_mean
from tilesim.feasibility.buffer_file import LEAST_SLOTS, BufferFile, OneBuffer
from tilesim.feasibility.formula import formula
from tilesim.operators.operator import Finding
from tilesim.operators.shapes import whole_number
from tilesim.program import dtypes
from tilesim.program.units import BLOCK_BYTES

FIXED: Final = "fixed"
"""The name of the bytes that a file states as such."""


@dataclass(frozen=True)
class Piece:
    """One buffer at given sizes: [bytes] of all its slots."""

    name: str
    phase: str
    memory: str
    dtype: str
    shape: tuple[int, ...]
    slots: int
    bytes: int


@dataclass(frozen=True)
class Need:
    """What one phase needs of one memory, and what there is for it [bytes]."""

    phase: str
    memory: str
    pieces: tuple[Piece, ...]
    available_bytes: int
    kept_bytes: int
    """What the file keeps back of the memory, already taken off `available_bytes`."""
    reason: str
    """What for."""

    @property
    def needed_bytes(self) -> int:
        """Of all buffers that live in the phase."""
        return sum(piece.bytes for piece in self.pieces)

    @property
    def slack_bytes(self) -> int:
        """What is left over; negative if it does not fit."""
        return self.available_bytes - self.needed_bytes


@dataclass(frozen=True)
class Situation:
    """A file of buffers on a chip. `single` names buffers that take one slot, whatever the file says."""

    file: BufferFile
    chip: Chip
    dtype: str
    single: frozenset[str] = frozenset()

    def resolved(self, given: Mapping[str, int]) -> dict[str, int]:
        """Every size of the file: those given, defaults, and what follows. Raises BadInput."""
        out: dict[str, int] = {}
        problems = []
        for name, size in self.file.sizes.items():
            if size.formula is not None:
                try:
                    out[name] = formula(size.formula).value(out)
                except BadInput as error:
                    problems += [f"{name} = {error}"]
                except KeyError:
                    continue  # what it follows from is missing, which is a problem of its own
            elif name in given:
                out[name] = given[name]
            elif size.default is not None:
                out[name] = size.default
            else:
                problems.append(f"{name} is missing: it has no default")
        if problems:
            raise BadInput(self.file.name, problems)
        return out

    def needs(self, sizes: Mapping[str, int]) -> list[Need]:
        """What every phase needs of every memory that it uses. Raises BadInput."""
        pieces = self.pieces(sizes)
        phases = list(dict.fromkeys(piece.phase for piece in pieces if piece.phase)) or [""]
        memories = dict.fromkeys(piece.memory for piece in pieces)
        out = []
        for phase in phases:
            for memory in memories:
                mine = [p for p in pieces if p.memory == memory and p.phase in ("", phase)]
                if mine:
                    mine.sort(key=lambda piece: -piece.bytes)
                    available, kept = self.available_bytes(memory)
                    reason = next((k.reason for space, k in self.file.reserve.items() if space == memory), "")
                    out.append(Need(phase, memory, tuple(mine), available, kept, reason))
        return out

    def pieces(self, sizes: Mapping[str, int]) -> list[Piece]:
        """Every buffer in the file's order, then what is fixed. Raises BadInput with all problems."""
        out: list[Piece] = []
        problems: list[str] = []
        for name, buffer in self.file.buffers.items():
            try:
                out.append(self._piece(name, buffer, sizes))
            except BadInput as error:
                problems += error.problems
        if problems:
            raise BadInput(self.file.name, problems)
        out += [Piece(FIXED, "", memory, "", (), 1, size) for memory, size in self.file.fixed.items()]
        return out

    def available_bytes(self, memory: str) -> tuple[int, int]:
        """What the chip has of a memory less what the file keeps back, and the latter."""
        table = self.chip.memory.on_chip(memory)
        whole = table.size_bytes if self.file.counted_from == "size" else table.visible_bytes
        left = whole
        for space, kept in self.file.reserve.items():
            if space == memory:
                left = math.floor(whole * (1 - Fraction(str(kept.share)))) - kept.bytes
        return left, whole - left

    def _piece(self, name: str, buffer: OneBuffer, sizes: Mapping[str, int]) -> Piece:
        values: dict[str, int] = {}
        problems = []
        for where, text in buffer.formulas().items():
            try:
                values[where] = formula(text).value(sizes)
            except BadInput as error:
                problems.append(f"{name}.{where} = {error}")
                continue
            least = LEAST_SLOTS if where == "slots" else 0
            if values[where] < least:
                problems.append(f"{name}.{where} = {text} is {values[where]}, must be at least {least}")
        if problems:
            raise BadInput(self.file.name, problems)
        shape = tuple(values[f"shape[{i}]"] for i in range(len(buffer.shape or ())))
        if "pitch" in values and values["pitch"] < shape[-1]:
            raise BadInput(self.file.name, [f"{name}.pitch is {values['pitch']}, less than its row of {shape[-1]}"])
        dtype = "" if buffer.shape is None else buffer.dtype or self.dtype
        slots = 1 if name in self.single else values["slots"]
        one = self._slot_bytes(buffer, values, shape, dtype)
        return Piece(name, buffer.phase, buffer.memory, dtype, shape, slots, one * slots)

    def _slot_bytes(self, buffer: OneBuffer, values: Mapping[str, int], shape: tuple[int, ...], dtype: str) -> int:
        """Bytes of one slot, with padding."""
        align = buffer.align or self.chip.memory.on_chip(buffer.memory).align_bytes
        if buffer.shape is None:
            return _up(values["bytes"], align)
        *rows, last = shape
        pitch = values.get("pitch", last) * dtypes.itemsize(dtype)
        return _up(math.prod(rows) * _up(pitch, buffer.align or BLOCK_BYTES), align)


def asked_sizes(file: BufferFile, given: Mapping[str, int | str]) -> dict[str, int]:
    """The sizes that were given, as whole numbers. Raises BadInput for what is no size of the file or no number."""
    out: dict[str, int] = {}
    problems = []
    free = [name for name, size in file.sizes.items() if size.formula is None]
    for name, value in given.items():
        number = whole_number(value) if not isinstance(value, str) else _read(value)
        if name not in free:
            follows = f"it follows from {file.sizes[name].formula}" if name in file.sizes else ""
            hint = follows or did_you_mean(name, free) or f" there are: {', '.join(free) or 'none'}"
            problems.append(f"{name!r} is not a size to be given;{hint if hint.startswith(' ') else f' {hint}'}")
        elif number is None:
            problems.append(f"{name} is {value!r}, must be a whole number")
        else:
            out[name] = number
    if problems:
        raise BadInput(file.name, problems)
    return out


def rules_of(file: BufferFile, sizes: Mapping[str, int]) -> list[Finding]:
    """What the bounds of the sizes, the caps and the grid say. Raises BadInput for a formula without a value."""
    return [*_size_rules(file, sizes), *_cap_rules(file, sizes), *_grid_rules(file, sizes)]


def programs_of(file: BufferFile, sizes: Mapping[str, int]) -> int | None:
    """How many programs are launched, None if the file does not say."""
    return None if file.grid is None else formula(file.grid.programs).value(sizes)


def _size_rules(file: BufferFile, sizes: Mapping[str, int]) -> Iterator[Finding]:
    for name, size in file.sizes.items():
        value = sizes[name]
        bounds = (
            [] if size.formula is not None else [(f"{name} at least", value >= size.least, f"{size.least:,} or more")]
        )
        if size.most is not None:
            bounds.append((f"{name} at most", value <= size.most, f"{size.most:,} or less"))
        if size.multiple_of > 1:
            bounds.append((f"{name} divides", value % size.multiple_of == 0, f"a multiple of {size.multiple_of}"))
        if size.power_of_two:
            bounds.append((f"{name} power of two", value > 0 and not value & (value - 1), "a power of two"))
        yield from (Finding(rule, ok, expected, f"{value:,}", name, None) for rule, ok, expected in bounds)


def _cap_rules(file: BufferFile, sizes: Mapping[str, int]) -> Iterator[Finding]:
    for name, cap in file.caps.items():
        value = formula(cap.of).value(sizes)
        ok = True
        words: list[str] = []
        if cap.least is not None:
            least = formula(cap.least).value(sizes)
            ok, words = ok and value >= least, [*words, f"at least {least:,}"]
        if cap.most is not None:
            most = formula(cap.most).value(sizes)
            ok, words = ok and value <= most, [*words, f"at most {most:,}"]
        if cap.multiple_of > 1:
            ok, words = ok and value % cap.multiple_of == 0, [*words, f"a multiple of {cap.multiple_of}"]
        reason = f" ({cap.reason})" if cap.reason else ""
        yield Finding(name, ok, " and ".join(words) + reason, f"{cap.of} = {value:,}", name, None)


def _grid_rules(file: BufferFile, sizes: Mapping[str, int]) -> Iterator[Finding]:
    count = programs_of(file, sizes)
    if file.grid is not None and count is not None:
        given = f"{file.grid.programs} = {count:,}"
        yield Finding("grid", 0 <= count <= file.grid.max, f"at most {file.grid.max:,} programs", given, "grid", None)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


@functools.lru_cache(maxsize=256)
def _read(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
