"""The operator that a file of buffers describes: its sizes as dims, bounds as rules, and a kernel of buffers alone."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, cast, get_args

from tilesim.chip.chip import Chip
from tilesim.chip.tables import LACKING, Family
from tilesim.errors import BadInput
from tilesim.operators.buffer_file import LEAST_SLOTS, BufferFile, Cap, Grid, OneBuffer
from tilesim.operators.conditions import Condition, OneOf, all_of, any_of, at_most, equal, facts_of, within
from tilesim.operators.facts import DTYPE, FAMILY, unknown
from tilesim.operators.formula import formula
from tilesim.operators.operator import Call, Dimension, Operator, Outcome, Rule, Texts
from tilesim.operators.rules import UNKNOWN, in_range, multiple
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer
from tilesim.program.isa import GLOBAL, SPACES
from tilesim.program.recorder import Kernel, Phase, Reserve
from tilesim.program.sizes import ONE, ZERO, Size, align, dim, mod, pow2
from tilesim.program.units import BLOCK_BYTES, FRACTAL

FIXED: Final = "fixed"
"""The name of the bytes that a file states as fixed."""
GRID: Final = "grid"
"""The name of the rule about the number of programs."""
SYNC: Final = "sync"
"""The name of the rule that every core has a program."""
BYTE: Final = "uint8"
"""The dtype of a buffer that a file states in bytes."""


@dataclass(eq=False, kw_only=True)
class ListedBuffer(Buffer):
    """A buffer as a file lists it: the bytes and the number of slots are stated."""

    stated_bytes: Size
    """Bytes of one slot."""
    stated_slots: Size = ONE
    data_bytes: Size
    """Bytes of the elements of one slot, without padding."""
    row_bytes: Size | None = None
    """Bytes of a row as it is copied; None where it is not copied row by row."""
    offset: Size | None = None
    """The place where it starts, by hand [bytes]."""

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

    def lacking(self, family: Family, dtype: str) -> tuple[str, ...]:
        """Return the dtypes of its buffers that the cores of a family do not have; `dtype` is that of the call."""
        kinds = (buffer.dtype or dtype for buffer in self.file.buffers.values() if buffer.shape is not None)
        return tuple(dict.fromkeys(kind for kind in kinds if kind in LACKING[family]))


def buffer_operator(file: BufferFile, single: frozenset[str] = frozenset()) -> BufferOperator:
    """Return the operator of a file; `single` names buffers that have one slot, instead of the file's number."""
    names = _expressions(file)
    memories = {buffer.memory for buffer in file.buffers.values()} | set(file.fixed)

    def alignments(_: Call, chip: Chip) -> frozenset[tuple[str, int]]:
        """Return the bytes to which each memory of a chip aligns buffers."""
        on_chip = ((memory, chip.memory.on_chip(memory).align_bytes) for memory in memories if memory != GLOBAL)
        return frozenset((*on_chip, (GLOBAL, 1)))

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
    """Yield the sizes that can be given, each in steps of all that bounds it."""
    for name, size in file.sizes.items():
        if size.formula is None:
            caps = (cap.multiple_of for cap in file.caps.values() if cap.of == name)
            multiple_of = math.lcm(size.multiple_of, *caps)
            yield Dimension(name, size.least, size.most, multiple_of, size.default, size.power_of_two)


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
        yield from ((f"{GRID}.axes[{i}]", axis) for i, axis in enumerate(file.grid.axes))


def _record(k: Kernel, file: BufferFile, names: Mapping[str, Size], single: frozenset[str]) -> None:
    """Record the buffers of a file: in each phase its buffers and those that live all the time."""
    aligned = dict(cast("frozenset[tuple[str, int]]", k.variant))
    k.whole_memories = tuple(memory for memory in aligned if memory != GLOBAL) if file.counted_from == "size" else ()
    for memory, kept in file.reserve.items():
        share = Fraction(str(kept.share))
        k.reserves[memory] = Reserve(f"{memory} reserve", kept.bytes, kept.reason, memory, share)
    buffers = [
        (buffer.phase, _listed(name, buffer, file, names, k.dtype, aligned[buffer.memory], single=name in single))
        for name, buffer in file.buffers.items()
    ]
    for memory, size_bytes in file.fixed.items():
        shape = (Size.of(size_bytes),)
        buffers.append(
            ("", ListedBuffer(FIXED, memory, shape, shape, BYTE, stated_bytes=shape[0], data_bytes=shape[0]))
        )
    for phase in dict.fromkeys(phase for phase, _ in buffers if phase) or ("",):
        for core_kind, spaces in SPACES.items():
            shared = (GLOBAL,) if core_kind == "vector" else ()
            places = {*spaces, *shared}
            held: list[Buffer] = [buffer for when, buffer in buffers if when in ("", phase) and buffer.space in places]
            if held:
                k.phases.append(Phase(phase, core_kind, k, buffers=held))


def _listed(
    name: str, buffer: OneBuffer, file: BufferFile, names: Mapping[str, Size], dtype: str, aligned: int, *, single: bool
) -> ListedBuffer:
    """Return a buffer of a file, its rows or blocks and its bytes padded."""
    size = functools.partial(_expression, names=names)
    slots = ONE if single else size(buffer.slots)
    offset = None if buffer.offset is None else size(buffer.offset)
    step = buffer.align or aligned
    kind, row_bytes = BYTE, None
    shape: tuple[Size, ...]
    allocated: tuple[Size, ...]
    if buffer.shape is None:
        shape = allocated = (size(buffer.bytes or "0"),)
        whole = data = shape[0]
    else:
        kind = buffer.dtype or dtype
        item = dtypes.itemsize(kind)
        shape = tuple(map(size, buffer.shape))
        pitch = size(buffer.pitch) if buffer.pitch is not None else shape[-1]
        allocated, data = (*shape[:-1], pitch), math.prod(shape, start=ONE) * item
        if file.layout_of(buffer) == "nz":
            whole = math.prod(_in_blocks(allocated, buffer.memory, item), start=ONE) * item
        else:
            row_step = 1 if buffer.memory == GLOBAL else BLOCK_BYTES
            whole = math.prod(shape[:-1], start=ONE) * align(pitch * item, buffer.align or row_step)
            row_bytes = shape[-1] * item if buffer.copied and buffer.memory != GLOBAL else None
    return ListedBuffer(
        name,
        buffer.memory,
        shape,
        allocated,
        kind,
        stated_bytes=align(whole, step),
        stated_slots=slots,
        data_bytes=data,
        row_bytes=row_bytes,
        offset=offset,
    )


def _in_blocks(shape: tuple[Size, ...], memory: str, item: int) -> tuple[Size, ...]:
    """Return a shape whose last two axes are whole blocks of the cube unit; one axis is a row.

    The axis of a block that holds 32 bytes is k of an operand, in l0b the first of the two; sums have 16 x 16 elements.
    """
    *outer, rows, columns = shape if len(shape) > 1 else (ONE, *shape)
    block = BLOCK_BYTES // item
    first, last = {"l0b": (block, FRACTAL), "l0c": (FRACTAL, FRACTAL)}.get(memory, (FRACTAL, block))
    return (*outer, align(rows, first), align(columns, last))


def _rules(file: BufferFile, names: Mapping[str, Size]) -> Iterator[Rule]:
    """Yield the rules of the sizes, the caps and the grid."""
    for dimension in _dimensions(file):
        value = dimension.size
        yield in_range(dimension, dimension.name)
        stated = replace(dimension, multiple_of=file.sizes[dimension.name].multiple_of)
        if stated.multiple_of > 1:
            yield multiple(stated, dimension.name)
        if dimension.power_of_two:
            power = at_most(1, value) & equal(pow2(value), value)
            yield _rule(power_rule(dimension), power, value, "", lambda _: "a power of two", dimension.name)
    for name, size in file.sizes.items():
        if size.formula is not None and (size.most is not None or size.multiple_of > 1):
            most = None if size.most is None else str(size.most)
            yield _cap(f"{name} range", Cap(of=name, most=most, multiple_of=size.multiple_of), names)
    for name, cap in file.caps.items():
        yield _cap(name, cap, names)
    for name, buffer in file.buffers.items():
        yield from _held(name, buffer, names)
    yield from _apart(file, names)
    if file.grid is not None:
        yield from _launched(file.grid, file.core_kind, names)


def _held(name: str, buffer: OneBuffer, names: Mapping[str, Size]) -> Iterator[Rule]:
    """The rules that the cores have the dtype of a buffer, and that the pitch of its rows is in whole blocks."""
    if buffer.shape is None:
        return

    def families(kind: str) -> tuple[str, ...]:
        return tuple(family for family, some in LACKING.items() if kind not in some)

    def dtype_texts(call: Call, chip: Chip) -> Texts:
        kind = buffer.dtype or call.dtype
        return Texts(f"a dtype that {chip.soc} has", kind)

    if buffer.dtype is None:
        held = any_of(*(OneOf(DTYPE, (kind,)) & OneOf(FAMILY, families(kind)) for kind in dtypes.DTYPES))
    else:
        held = OneOf(FAMILY, families(buffer.dtype))
    yield Rule(f"{name} dtype", None, held, name, dtype_texts)
    if buffer.pitch is None or buffer.align is not None or buffer.memory == GLOBAL:
        return
    pitch = _expression(buffer.pitch, names)
    by_item: dict[int, list[str]] = {}
    for kind in (buffer.dtype,) if buffer.dtype else dtypes.DTYPES:
        by_item.setdefault(dtypes.itemsize(kind), []).append(kind)
    whole = [equal(mod(pitch * item, BLOCK_BYTES), 0) for item in by_item]
    if buffer.dtype is None:
        whole = [OneOf(DTYPE, tuple(kinds)) & test for kinds, test in zip(by_item.values(), whole, strict=True)]

    def pitch_texts(call: Call, _: Chip) -> Texts:
        if len(call.dims) < len(call.operator.dims):
            return Texts(UNKNOWN, UNKNOWN)
        elements = pitch.bind(call.dims)
        row_bytes = elements * dtypes.itemsize(buffer.dtype or call.dtype)
        return Texts(f"a multiple of {BLOCK_BYTES} B", f"{elements:,} elements, {row_bytes:,} B")

    known = unknown(*pitch.names()) if pitch.names() else None
    test = any_of(*whole)
    yield Rule(f"{name} pitch", None, test if known is None else known | test, name, pitch_texts)


def _apart(file: BufferFile, names: Mapping[str, Size]) -> Iterator[Rule]:
    """The rules that buffers which are placed by hand, and live at the same time, do not overlap."""
    placed = [(name, buffer) for name, buffer in file.buffers.items() if buffer.offset is not None]
    for (name, buffer), (other, against) in itertools.combinations(placed, 2):
        same_time = buffer.phase == against.phase or "" in (buffer.phase, against.phase)
        if buffer.memory != against.memory or not same_time:
            continue
        yield Rule(f"{name} and {other} apart", None, functools.partial(_are_apart, file, names, name, other), name)


def _are_apart(file: BufferFile, names: Mapping[str, Size], name: str, other: str, call: Call, chip: Chip) -> Outcome:
    """Whether two buffers that are placed by hand take different bytes, with what is expected and the bytes of both."""
    expected = "buffers that live at the same time take different bytes"
    if len(call.dims) < len(call.operator.dims):
        return Outcome(True, expected, UNKNOWN)
    ends = []
    for each in (name, other):
        buffer = file.buffers[each]
        step = chip.memory.on_chip(buffer.memory).align_bytes
        listed = _listed(each, buffer, file, names, call.dtype, step, single=False)
        start = int((listed.offset or ZERO).bind(call.dims))
        ends.append((start, start + int(listed.bytes.bind(call.dims))))
    (start, end), (other_start, other_end) = ends
    given = f"{name} at {start:,} to {end:,} B and {other} at {other_start:,} to {other_end:,} B"
    apart = end <= other_start or other_end <= start or start == end or other_start == other_end
    return Outcome(apart, expected, given)


def _launched(grid: Grid, core_kind: str, names: Mapping[str, Size]) -> Iterator[Rule]:
    """The rules about the number of programs: what a launch takes, and what a wait of all cores asks for."""
    programs, most = _expression(grid.programs, names), grid.most_programs
    axes = [_expression(axis, names) for axis in grid.axes]
    bounds = [at_most(0, programs) if most is None else within(0, programs, most)]
    words = [] if most is None else [f"at most {most:,} programs"]
    for axis, text, limit in zip(axes, grid.axes, grid.most or (), strict=False):
        bounds.append(within(0, axis, limit))
        words.append(f"at most {limit:,} along {text}")

    def given(call: Call, _: Chip) -> Texts:
        if len(call.dims) < len(call.operator.dims):
            return Texts(UNKNOWN, UNKNOWN)
        along = ", ".join(f"{text} = {axis.bind(call.dims):,}" for axis, text in zip(axes, grid.axes, strict=True))
        return Texts(", ".join(words), along or f"{grid.programs} = {programs.bind(call.dims):,}")

    known = unknown(*sorted(programs.names())) if programs.names() else None
    launched = all_of(*bounds)
    yield Rule(GRID, None, launched if known is None else known | launched, GRID, given)
    if grid.sync:

        def sync_texts(call: Call, chip: Chip) -> Texts:
            expected = f"{chip.cores.of(core_kind)} programs, one for each {core_kind} core, all of which wait"
            return Texts(expected, given(call, chip).given)

        cores = dim(f"cores.{core_kind}")
        every = at_most(cores, programs) & at_most(programs, cores)
        yield Rule(SYNC, None, every if known is None else known | every, GRID, sync_texts)


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
