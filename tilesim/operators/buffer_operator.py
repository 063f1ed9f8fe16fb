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
from tilesim.operators.conditions import Condition, all_of, at_most, equal, facts_of, within
from tilesim.operators.facts import unknown
from tilesim.operators.formula import formula
from tilesim.operators.operator import Call, Dimension, Operator, Rule, Texts
from tilesim.operators.rules import UNKNOWN, in_range, multiple
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer
from tilesim.program.isa import SPACES
from tilesim.program.recorder import Kernel, Phase, Reserve
from tilesim.program.sizes import ONE, Size, align, mod, pow2
from tilesim.program.units import BLOCK_BYTES

FIXED: Final = "fixed"
"""The name of the bytes that a file states as fixed."""
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
    """The operator of a file of buffers. `single` names buffers that have one slot, instead of the file's number."""

    file: BufferFile = field(default_factory=BufferFile)
    single: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Keep the functions unchanged: they refuse sizes of a file, and no author wrote them."""

    def sizes_of(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Return every size of the file: `dims` and the sizes that follow from them. Raises BadInput."""
        return _sizes(self.file, dims)

    def programs(self, dims: Mapping[str, int]) -> int | None:
        """Return the number of programs of a launch, None if the file states none. Raises BadInput."""
        grid = self.file.grid
        return None if grid is None else formula(grid.programs).value(self.sizes_of(dims))


def buffer_operator(file: BufferFile, single: frozenset[str] = frozenset()) -> BufferOperator:
    """Return the operator of a file; `single` names buffers that have one slot, instead of the file's number."""
    names = _expressions(file)
    memories = {buffer.memory for buffer in file.buffers.values()} | set(file.fixed)

    def alignments(_: Call, chip: Chip) -> frozenset[tuple[str, int]]:
        """Return the bytes to which each memory of a chip aligns buffers."""
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
        rules=[replace(rule, status=None) for rule in _rules(file, names)],  # a file has no vendor call to return one
        variant=alignments,
        derived_sizes=derived_sizes,
        caution_bytes=file.caution_bytes,
        file=file,
        single=single,
    )


def _dimensions(file: BufferFile) -> Iterator[Dimension]:
    """Yield the sizes without a formula, which are input."""
    for name, size in file.sizes.items():
        if size.formula is None:
            yield Dimension(name, size.least, size.most, size.multiple_of, size.default, size.power_of_two)


def _expressions(file: BufferFile) -> dict[str, Size]:
    """Return every size of a file in terms of its dimensions."""
    names = {dimension.name: dimension.size for dimension in _dimensions(file)}
    for name, size in file.sizes.items():
        if size.formula is not None:
            names[name] = _expression(size.formula, names)
    return names


def _expression(text: str, names: Mapping[str, Size]) -> Size:
    """Return a formula in terms of the dimensions. Raises BadInput if it divides by a number below 1."""
    try:
        return formula(text).size.substitute(names)
    except (ValueError, ZeroDivisionError):
        raise BadInput(text, ["divides by a number that is not positive"]) from None


def _sizes(file: BufferFile, dims: Mapping[str, int]) -> dict[str, int]:
    """Return every size of a file at the dims, in the file's order. Raises BadInput with all that have no value."""
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
    """Return the sizes that follow from the dims. Raises BadInput with all sizes and buffers without a value there."""
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
    for place, text in _bounded(file):
        try:
            formula(text).value(sizes)
        except BadInput as error:
            problems.append(f"{place} = {error}")
    if problems:
        raise BadInput(file.name, problems)
    return {name: value for name, value in sizes.items() if name not in dims}


def _bounded(file: BufferFile) -> Iterator[tuple[str, str]]:
    """Yield the formulas of caps and of the grid by their places."""
    for name, cap in file.caps.items():
        yield from ((f"{name}.{key}", text) for key, text in cap.formulas().items())
    if file.grid is not None:
        yield f"{GRID}.programs", file.grid.programs


def _record(k: Kernel, file: BufferFile, names: Mapping[str, Size], single: frozenset[str]) -> None:
    """Record the buffers of a file: in each phase its buffers and those that live all the time."""
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
            members: list[Buffer] = [b for of, b in buffers if of in ("", phase) and b.space in spaces]
            if members:
                k.phases.append(Phase(phase, core_kind, k, buffers=members))


def _listed(
    name: str, buffer: OneBuffer, names: Mapping[str, Size], dtype: str, aligned: int, *, single: bool
) -> ListedBuffer:
    """Return a buffer of a file, its rows and its bytes padded."""
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
    size_bytes = align(math.prod(shape[:-1], start=ONE) * row_bytes, step)
    allocated = (*shape[:-1], pitch)
    return ListedBuffer(name, buffer.memory, shape, allocated, kind, stated_bytes=size_bytes, stated_slots=slots)


def _rules(file: BufferFile, names: Mapping[str, Size]) -> Iterator[Rule]:
    """Yield the rules of the sizes, the caps and the grid."""
    for dimension in _dimensions(file):
        value = dimension.size
        yield in_range(dimension, dimension.name)
        if dimension.multiple_of > 1:
            yield multiple(dimension, dimension.name)
        if dimension.power_of_two:
            power = at_most(1, value) & equal(pow2(value), value)
            yield _rule(power_rule(dimension), power, value, "", lambda _: "a power of two", dimension.name)
    for name, size in file.sizes.items():
        if size.formula is not None and (size.most is not None or size.multiple_of > 1):
            most = None if size.most is None else str(size.most)
            yield _cap(f"{name} range", Cap(of=name, most=most, multiple_of=size.multiple_of), names)
    for name, cap in file.caps.items():
        yield _cap(name, cap, names)
    if file.grid is not None:
        expected = f"at most {file.grid.max:,} programs"
        programs = _expression(file.grid.programs, names)
        launched = within(0, programs, file.grid.max)
        yield _rule(GRID, launched, programs, file.grid.programs, lambda _: expected)


def power_rule(dimension: Dimension) -> str:
    """Return the name of the rule that a dim is a power of two."""
    return f"{dimension.name} power of two"


def _cap(name: str, cap: Cap, names: Mapping[str, Size]) -> Rule:
    """Return the rule of a bound on a formula."""
    value = _expression(cap.of, names)
    least, most = (None if text is None else _expression(text, names) for text in (cap.least, cap.most))
    bounds = [
        *([at_most(least, value)] if least is not None else []),
        *([at_most(value, most)] if most is not None else []),
        *([equal(mod(value, cap.multiple_of), 0)] if cap.multiple_of > 1 else []),
    ]

    def expected(dims: Mapping[str, int]) -> str:
        words = [
            *([f"at least {least.bind(dims):,}"] if least is not None else []),
            *([f"at most {most.bind(dims):,}"] if most is not None else []),
            *([f"a multiple of {cap.multiple_of}"] if cap.multiple_of > 1 else []),
        ]
        return " and ".join(words) + (f" ({cap.reason})" if cap.reason else "")

    return _rule(name, all_of(*bounds), value, "" if cap.of in names else cap.of, expected)


def _rule(
    name: str,
    condition: Condition,
    value: Size,
    text: str,
    expected: Callable[[Mapping[str, int]], str],
    parameter: str = "",
) -> Rule:
    """Return the rule that a condition holds where the dims are known; it shows `text`, if any, and the value."""

    def texts(call: Call, _: Chip) -> Texts:
        if len(call.dims) < len(call.operator.dims):
            return Texts(UNKNOWN, UNKNOWN)
        return Texts(expected(call.dims), f"{f'{text} = ' if text else ''}{value.bind(call.dims):,}")

    known = sorted({fact.name for fact in facts_of(condition)})
    return Rule(name, None, (unknown(*known) | condition) if known else condition, parameter or name, texts)
