"""The operator that a file of buffers describes: its sizes as dims, bounds as rules, and a kernel of buffers alone."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, cast, get_args

from tilesim.chip.chip import Chip
from tilesim.chip.tables import Family
from tilesim.errors import BadInput
from tilesim.operators.buffer_file import LEAST_SLOTS, BufferFile, Cap, OneBuffer
from tilesim.operators.formula import formula
from tilesim.operators.operator import Call, Dimension, Operator, Outcome, Rule
from tilesim.operators.rules import UNKNOWN, in_range, multiple
from tilesim.operators.status import PARAM_INVALID
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer
from tilesim.program.isa import SPACES
from tilesim.program.recorder import Kernel, Phase, Reserve
from tilesim.program.sizes import ONE, Size, align
from tilesim.program.units import BLOCK_BYTES

FIXED: Final = "fixed"
"""The name of the bytes that a file states as such."""
GRID: Final = "grid"
"""The name of the rule about the number of programs."""
BYTE: Final = "uint8"
"""The dtype of a buffer that a file states in bytes."""


@dataclass(eq=False, kw_only=True)
class ListedBuffer(Buffer):
    """A buffer as a file lists it: the bytes and the number of slots are stated."""

    stated_bytes: Size
    """Bytes of one slot."""
    stated_slots: Size = ONE

    @property
    def slot_bytes(self) -> Size:
        """Bytes of one slot."""
        return self.stated_bytes

    @property
    def slot_count(self) -> Size:
        """The number of slots."""
        return self.stated_slots


@dataclass(frozen=True, eq=False)
class BufferOperator(Operator):
    """The operator of a file of buffers. `single` names buffers that have one slot, whatever the file says."""

    file: BufferFile = field(default_factory=BufferFile)
    single: frozenset[str] = frozenset()

    def sizes_of(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Return every size of the file: those of `dims`, and those that follow. Raises BadInput."""
        return _sizes(self.file, dims)

    def programs(self, dims: Mapping[str, int]) -> int | None:
        """Return the number of programs of a launch, None if the file states none. Raises BadInput."""
        grid = self.file.grid
        return None if grid is None else formula(grid.programs).value(self.sizes_of(dims))


def buffer_operator(file: BufferFile, single: frozenset[str] = frozenset()) -> BufferOperator:
    """Return the operator of a file; `single` names buffers that have one slot, whatever the file says."""
    names = _expressions(file)
    memories = {buffer.memory for buffer in file.buffers.values()} | set(file.fixed)

    def alignments(_: Call, chip: Chip) -> frozenset[tuple[str, int]]:
        """The bytes that each memory of a chip aligns buffers to."""
        return frozenset((memory, chip.memory.on_chip(memory).align_bytes) for memory in memories)

    def kernel(k: Kernel) -> None:
        _record(k, file, names, single)

    def derived_sizes(dims: Mapping[str, int]) -> Mapping[str, int]:
        return _checked(file, dims)

    return BufferOperator(
        name=file.name,
        api="",
        about=file.about,
        dims=list(_dimensions(file)),
        tensors=(),
        kernel=kernel,
        dtypes=dict.fromkeys(get_args(Family), dtypes.DTYPES),
        dtype=file.dtype,
        lead="",
        rules=[replace(rule, status=None) for rule in _rules(file, names)],  # nothing is called that could return one
        variant=alignments,
        derived_sizes=derived_sizes,
        caution_bytes=file.caution_bytes,
        file=file,
        single=single,
    )


def _dimensions(file: BufferFile) -> Iterator[Dimension]:
    """The sizes that can be given."""
    for name, size in file.sizes.items():
        if size.formula is None:
            yield Dimension(name, size.least, size.most, size.multiple_of, size.default, size.power_of_two)


def _expressions(file: BufferFile) -> dict[str, Size]:
    """Every size of a file in terms of those that can be given."""
    names = {dimension.name: dimension.size for dimension in _dimensions(file)}
    for name, size in file.sizes.items():
        if size.formula is not None:
            names[name] = _expression(size.formula, names)
    return names


def _expression(text: str, names: Mapping[str, Size]) -> Size:
    """A formula in terms of the sizes that can be given. Raises BadInput where it divides by a number below 1."""
    try:
        return formula(text).size.substitute(names)
    except (ValueError, ZeroDivisionError):
        raise BadInput(text, ["divides by a number that is not positive"]) from None


def _sizes(file: BufferFile, dims: Mapping[str, int]) -> dict[str, int]:
    """Every size of a file at the dims, in the file's order. Raises BadInput with all that have no value."""
    sizes: dict[str, int] = {}
    problems = []
    for name, size in file.sizes.items():
        if size.formula is None:
            sizes |= {name: dims[name]} if name in dims else {}
        elif formula(size.formula).names <= sizes.keys():
            try:
                sizes[name] = formula(size.formula).value(sizes)
            except BadInput as error:
                problems.append(f"{name} = {error}")
    if problems:
        raise BadInput(file.name, problems)
    return sizes


def _checked(file: BufferFile, dims: Mapping[str, int]) -> dict[str, int]:
    """The sizes that follow from the dims. Raises BadInput with all sizes and buffers that have no value there."""
    sizes = _sizes(file, dims)
    problems: list[str] = []
    for name, buffer in file.buffers.items():
        values: dict[str, int] = {}
        for place, text in buffer.formulas().items():
            try:
                values[place] = formula(text).value(sizes)
            except BadInput as error:
                problems.append(f"{name}.{place} = {error}")
                continue
            least = LEAST_SLOTS if place == "slots" else 0
            if values[place] < least:
                problems.append(f"{name}.{place} = {text} is {values[place]}, must be at least {least}")
        row = values.get(f"shape[{len(buffer.shape or ()) - 1}]", 0)
        if values.get("pitch", row) < row:
            problems.append(f"{name}.pitch is {values['pitch']}, less than its row of {row}")
    if problems:
        raise BadInput(file.name, problems)
    return {name: value for name, value in sizes.items() if name not in dims}


def _record(k: Kernel, file: BufferFile, names: Mapping[str, Size], single: frozenset[str]) -> None:
    """Record the buffers of a file: those of every phase, with those that live all the time."""
    aligned = dict(cast("frozenset[tuple[str, int]]", k.variant))
    k.whole_memories = tuple(aligned) if file.counted_from == "size" else ()
    for memory, kept in file.reserve.items():
        share = Fraction(str(kept.share))
        k.reserves[memory] = Reserve(f"{memory} reserve", kept.bytes, kept.reason, memory, share)
    buffers = [
        (buffer.phase, _listed(name, buffer, names, k.dtype, aligned[buffer.memory], single=name in single))
        for name, buffer in file.buffers.items()
    ]
    for memory, size_bytes in file.fixed.items():
        shape = (Size.of(size_bytes),)
        buffers.append(("", ListedBuffer(FIXED, memory, shape, shape, BYTE, stated_bytes=shape[0])))
    for phase in dict.fromkeys(phase for phase, _ in buffers if phase) or ("",):
        for core_kind, spaces in SPACES.items():
            held: list[Buffer] = [buffer for when, buffer in buffers if when in ("", phase) and buffer.space in spaces]
            if held:
                k.phases.append(Phase(phase, core_kind, k, buffers=held))


def _listed(
    name: str, buffer: OneBuffer, names: Mapping[str, Size], dtype: str, aligned: int, *, single: bool
) -> ListedBuffer:
    """A buffer of a file, with the padding of its rows and of the whole."""
    size = functools.partial(_expression, names=names)
    step = buffer.align or aligned
    slots = ONE if single else size(buffer.slots)
    if buffer.shape is None:
        shape: tuple[Size, ...] = (size(buffer.bytes or "0"),)
        return ListedBuffer(
            name, buffer.memory, shape, shape, BYTE, stated_bytes=align(shape[0], step), stated_slots=slots
        )
    kind = buffer.dtype or dtype
    shape = tuple(map(size, buffer.shape))
    pitch = size(buffer.pitch) if buffer.pitch is not None else shape[-1]
    row_bytes = align(pitch * dtypes.itemsize(kind), buffer.align or BLOCK_BYTES)
    whole = align(math.prod(shape[:-1], start=ONE) * row_bytes, step)
    return ListedBuffer(name, buffer.memory, shape, (*shape[:-1], pitch), kind, stated_bytes=whole, stated_slots=slots)


def _rules(file: BufferFile, names: Mapping[str, Size]) -> Iterator[Rule]:
    """The bounds of the sizes, the caps and the grid."""
    for dimension in _dimensions(file):
        yield in_range(dimension, dimension.name)
        if dimension.multiple_of > 1:
            yield multiple(dimension, dimension.name)
        if dimension.power_of_two:
            yield _rule(file, f"{dimension.name} power of two", dimension.name, (), _power_of_two, dimension.name)
    for name, size in file.sizes.items():
        if size.formula is not None and (size.most is not None or size.multiple_of > 1):
            cap = Cap(of=name, most=None if size.most is None else str(size.most), multiple_of=size.multiple_of)
            yield _cap(file, f"{name} range", cap, names)
    for name, cap in file.caps.items():
        yield _cap(file, name, cap, names)
    if file.grid is not None:
        most = file.grid.max

        def launched(count: int, _: Mapping[str, int]) -> tuple[bool, str]:
            return 0 <= count <= most, f"at most {most:,} programs"

        yield _rule(file, GRID, file.grid.programs, _over(names, file.grid.programs), launched)


def _cap(file: BufferFile, name: str, cap: Cap, names: Mapping[str, Size]) -> Rule:
    """The rule of a bound on a formula."""

    def bounded(value: int, sizes: Mapping[str, int]) -> tuple[bool, str]:
        least, most = (None if text is None else formula(text).value(sizes) for text in (cap.least, cap.most))
        words = [
            *([f"at least {least:,}"] if least is not None else []),
            *([f"at most {most:,}"] if most is not None else []),
            *([f"a multiple of {cap.multiple_of}"] if cap.multiple_of > 1 else []),
        ]
        ok = (least is None or value >= least) and (most is None or value <= most) and value % cap.multiple_of == 0
        return ok, " and ".join(words) + (f" ({cap.reason})" if cap.reason else "")

    texts = [text for text in (cap.of, cap.least, cap.most) if text is not None]
    return _rule(file, name, cap.of, _over(names, *texts), bounded)


def _power_of_two(value: int, _: Mapping[str, int]) -> tuple[bool, str]:
    return value > 0 and not value & (value - 1), "a power of two"


def _over(names: Mapping[str, Size], *texts: str) -> tuple[str, ...]:
    """The sizes that can be given and that formulas depend on."""
    return tuple(sorted({n for text in texts for word in formula(text).names for n in names[word].names()}))


def _rule(
    file: BufferFile,
    name: str,
    text: str,
    over: tuple[str, ...],
    holds: Callable[[int, Mapping[str, int]], tuple[bool, str]],
    parameter: str = "",
) -> Rule:
    """A rule about the value of a formula: `holds` says, with all sizes, if it is right and which values are."""

    def test(call: Call, _: Chip) -> Outcome:
        if len(call.dims) < len(call.operator.dims):
            return Outcome(ok=True, expected=UNKNOWN, given=UNKNOWN)
        sizes = _sizes(file, call.dims)
        value = formula(text).value(sizes)
        ok, expected = holds(value, sizes)
        return Outcome(ok, expected, f"{value:,}" if text in sizes else f"{text} = {value:,}")

    return Rule(name, PARAM_INVALID, test, parameter or name, over)
