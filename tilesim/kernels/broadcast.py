"""Instructions of two operands whose shapes broadcast by numpy's rules: one kernel for each pattern of merged axes.

    [4096, 2560] + [2560]      "1=": a part of the row is loaded once and used for all rows of a core
    [4096, 256] + [4096, 1]    "=1": a value a row, spread over the columns of a tile
    [4096, 2560] + [4096, 1]   "=1 long": a tile has one row, and takes the value as a scalar
    [4096, 2560] + [1]         "1": one value
    [2, 64, 49] + [64, 1]      "1=1": tiles are of the last two axes, a loop runs over those before them

Shapes that are equal once merged are one axis, split and cut like that of any elementwise operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilesim.chip.chip import Chip
from tilesim.kernels.elementwise import COPY_REASON, EMPTY, ElementTile, copy_elements, flat_tiles
from tilesim.kernels.rows import LONG, NARROW, WHOLE, rows_of_a_copy
from tilesim.operators.operator import Call, Option
from tilesim.operators.shapes import BOTH, FIRST, SECOND, Merged, merged
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, Range, Value
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import ONE, ZERO, Size, ceil_div, dim
from tilesim.program.units import BLOCK_BYTES, LANES

CHOICES = (Option("double_buffer", default=True), Option("spread", default=False), Option("bypass", default=False))
"""Options of `two_operands`: they change the order and overlap of a kernel's work, not its values."""
SHORT_BURSTS = 1.5
"""Factor by which the other axes must leave more to one core before cores cut rows, which makes bursts short.

A guess, without a source.
"""
LACKS = {"x1": SECOND, "x2": FIRST}
"""The kind of axes that each operand does not have."""


def axes_of(call: Call) -> Merged:
    """Return the merged axes of the operands of a call; none for an unknown shape or shapes that do not broadcast."""
    first, second = (call.spec(name) for name in LACKS)
    return Merged("", ()) if first is None or second is None else merged(first.shape, second.shape)


def is_broadcast(call: Call) -> bool:
    """Return True if an operand of a call has fewer elements than its result."""
    return any(pattern.spread for pattern in call.operator.patterns.values()) and axes_of(call).spread


def axis_sizes(call: Call) -> Mapping[str, int]:
    """Return the sizes axis1, axis2, ... of kernels: those of the merged axes, where an operand lacks one of them.

    For the EMPTY variant, which has no axes, axis1 has all elements of x1 and axis2 all of x2.
    """
    axes = axes_of(call)
    sizes = axes.sizes if axes.spread else ()
    if axes.has_no_elements:
        sizes = tuple(math.prod(spec.shape) for name in LACKS if (spec := call.spec(name)) is not None)
    return {f"axis{i}": size for i, size in enumerate(sizes, 1)}


@dataclass(frozen=True)
class AxisPattern:
    """The variant of merged axes: the operands that have them, the axis that cores share, and the layout of rows."""

    word: str = ""
    """Kinds of the merged axes, a letter each; "" for operands of one shape."""
    shared: int = 0
    """Index of the axis that cores share."""
    step: int = 1
    """Elements of that axis that a share is a multiple of."""
    layout: str = WHOLE
    """Layout of the rows of a tile: WHOLE, NARROW or LONG."""


def variant(call: Call, chip: Chip) -> str | AxisPattern:
    """Return the pattern of the axes, or EMPTY.

    Cores share the axis of which the busiest core gets the smallest part, the first of equals; a step has at least
    LANES elements of the result.
    """
    axes = axes_of(call)
    word, sizes = axes
    if axes.has_no_elements:
        return EMPTY
    if len(word) < 2:
        return AxisPattern(word if axes.spread else "")
    total = math.prod(sizes)
    steps = [-(-LANES * size // total) for size in sizes[:-1]] + [LANES]
    shares = [_share(size, step, chip.cores.vector) for size, step in zip(sizes, steps, strict=True)]
    shares[-1] *= SHORT_BURSTS
    best = shares.index(min(shares))
    return AxisPattern(word, best, steps[best], _layout(axes, call.dtype, chip))


def _layout(axes: Merged, dtype: str, chip: Chip) -> str:
    """Return the layout of the rows of a tile: NARROW, LONG or WHOLE."""
    row_bytes = axes.sizes[-1] * dtypes.itemsize(dtype)
    a_value_a_row = axes.word[-1] != BOTH and set(axes.word) in ({BOTH, FIRST}, {BOTH, SECOND})
    if row_bytes < BLOCK_BYTES:
        return NARROW
    return LONG if a_value_a_row and 2 * row_bytes > chip.tiling.copy_bytes else WHOLE


def _share(size: int, step: int, cores: int) -> float:
    """Return the busiest core's part of an axis that is shared in steps: 0 to 1, 1 for all of it."""
    return min(1.0, -(-size // (step * cores)) * step / size)


def two_operands(op: str, scalar: str, share: Size | None = None) -> Callable[[Kernel], None]:
    """Return the kernel of an instruction of two operands: in their own dtype, bfloat16 through float32.

    `scalar` is the instruction for a tile and one value. Without `double_buffer` a tile waits for the one before;
    `spread` puts half a round of bank groups between the operands, so that their vectors are read from different
    groups; with `bypass`, operands that are read once, as they lack no axis, bypass the L2 cache, which leaves it to
    the result. Shares of operands of one shape are multiples of `share` elements, if it is given.
    """

    def kernel(k: Kernel) -> None:
        pattern = k.variant
        if not isinstance(pattern, AxisPattern):
            for i, name in enumerate(LACKS, 1):
                k.shaped(name, dim(f"axis{i}"))
            k.route = EMPTY
            return
        if k.options.get("bypass"):
            k.bypass(*(name for name, lack in LACKS.items() if lack not in pattern.word))
        with k.vector(k.name) as p:
            if not pattern.word:
                _one_shape(k, p, op, share)
            elif pattern.word in LACKS.values():
                _one_value(k, p, scalar, pattern.word)
            else:
                _Grid(k, p, pattern).record(op, scalar)

    return kernel


def _slots(k: Kernel) -> int:
    return 2 if k.options.get("double_buffer", True) else 1


def _wide(k: Kernel) -> bool:
    return k.dtype == "bfloat16"


def _result(k: Kernel, t: ElementTile) -> Buffer:
    return t.room("y") if _wide(k) else t.buffer("yOut", k.dtype, t.slots)


def _gap(k: Kernel, p: Phase) -> None:
    if k.options.get("spread"):
        p.buffer("gap", LANES, "float32", reserved=True)


def _one_shape(k: Kernel, p: Phase, op: str, share: Size | None) -> None:
    for t in flat_tiles(k, p, slots=_slots(k), share=share):
        first = t.load("x1", widen=_wide(k))
        _gap(k, p)
        second = t.load("x2", widen=_wide(k))
        t.store(p.emit(op, first, second, out=_result(k, t)), "y")


def _one_value(k: Kernel, p: Phase, scalar: str, kind: str) -> None:
    """Record all elements of one operand with the one value of the other, which each core loads once."""
    single, full = ("x2", "x1") if kind == FIRST else ("x1", "x2")
    tensor = k.shaped(single, 1)
    value = ElementTile(k, p, lambda _: tensor[:], (Size.of(1),)).load(single, widen=_wide(k))
    _gap(k, p)
    for t in flat_tiles(k, p, slots=_slots(k)):
        t.store(p.emit(scalar, t.load(full, widen=_wide(k)), value[0], out=_result(k, t)), "y")


class _Grid:
    """Tiles of the last two axes in loops over the axes before them.

    The axes of the operand with fewer elements are the outer loops, so that a part of it is loaded once for all tiles
    that use it. Where rows are LONG and it has a value for each, a tile has one row: the values are loaded a block of
    rows at a time, and each is the scalar of its row.
    """

    def __init__(self, k: Kernel, p: Phase, pattern: AxisPattern) -> None:
        self.k, self.p, self.pattern = k, p, pattern
        self.narrow, self.long = pattern.layout == NARROW, pattern.layout == LONG
        self.sizes = [dim(f"axis{i}") for i in range(1, len(pattern.word) + 1)]
        self.row, self.column = len(self.sizes) - 2, len(self.sizes) - 1
        self.axes = {name: [i for i, kind in enumerate(pattern.word) if kind != lack] for name, lack in LACKS.items()}
        for name, axes in self.axes.items():
            k.shaped(name, *(self.sizes[i] for i in axes))
        self.fewer = "x2" if FIRST in pattern.word else "x1"
        self.axes["y"] = list(range(len(self.sizes)))
        k.shaped("y", *self.sizes)
        self.tiles = self._tiles()
        self.inner = (self.column,) if self.long else (self.row, self.column)
        self.at: dict[int, Range] = {self.column: Range(ZERO, self.sizes[self.column])} if self.narrow else {}
        self.values: dict[str, Value] = {}

    def _tiles(self) -> dict[int, Size]:
        """Return the tile of each of the last two axes: of a good copy, long rows in about equal parts."""
        length, most = self.sizes[self.column], copy_elements(self.k.dtype)
        if self.narrow:
            return {self.row: rows_of_a_copy(self.k, self.p, length)}
        block = BLOCK_BYTES // dtypes.itemsize(self.k.dtype)
        equal = ceil_div(length, ceil_div(length, most))
        columns = self.p.tile("columns", equal, block, COPY_REASON)
        if self.long:
            return {self.row: self.p.tile("block", most, 1, COPY_REASON), self.column: columns}
        return {self.row: rows_of_a_copy(self.k, self.p, columns), self.column: columns}

    def record(self, op: str, scalar: str) -> None:
        """Record the loops, the loads, the instruction `op`, or `scalar` for one value a row, and the store."""
        order = sorted(self.axes["y"], key=lambda axis: axis not in self.axes[self.fewer])
        self._loops([axis for axis in order if axis not in self.at], scalar if self.long else op)

    def _loops(self, axes: Sequence[int], op: str) -> None:
        """Record the loops over `axes` inside each other; an operand is loaded as soon as all its axes are known."""
        if not axes:
            self._tile(op)
            return
        axis, *inner = axes
        last = "block" if self.long else "row"
        name = {self.row: last, self.column: "column"}.get(axis, f"axis{axis + 1}")
        split, unit = ("block", self.pattern.step) if axis == self.pattern.shared else ("", 1)
        for n in self.p.loop(name, self.sizes[axis], self.tiles.get(axis, 1), split=split, unit=unit):
            self.at[axis] = n
            if self.long and axis == self.row:
                block = self._load(self.fewer, (self.row,))
                for row in self.p.loop("row", n.size):
                    self.at[axis] = Range(n.start + row.start, ONE)
                    self.values[self.fewer] = block[row.start]
                    self._loops(inner, op)
                continue
            for operand in LACKS:
                if operand not in self.values and self.at.keys() >= set(self.axes[operand]):
                    self.values[operand] = self._load(operand, self.inner)
            self._loops(inner, op)

    def _load(self, name: str, inner: Sequence[int]) -> Value:
        if self.values:
            _gap(self.k, self.p)
        return self._of(name, inner).load(name, widen=_wide(self.k))

    def _of(self, name: str, inner: Sequence[int]) -> ElementTile:
        """Return the tile of a tensor, with its axes among `inner`."""
        axes = self.axes[name]
        key = tuple(self.at[i] if i in inner else self.at[i].start for i in axes)
        shape = tuple(self.at[i].size for i in axes if i in inner)
        side_by_side = shape if self.narrow and len(shape) > 1 else None
        return ElementTile(self.k, self.p, lambda tensor: tensor[key], shape, _slots(self.k), side_by_side)

    def _tile(self, op: str) -> None:
        tile = self._of("y", self.inner)
        out = _result(self.k, tile)
        if self.long:
            (full,) = (name for name in LACKS if name != self.fewer)
            tile.store(self.p.emit(op, self.values[full], self.values[self.fewer], out=out), "y")
            return
        first, second = (self._in_shape(name, out) for name in LACKS)
        tile.store(self.p.emit(op, first, second, out=out), "y")

    def _in_shape(self, name: str, out: Buffer) -> Value:
        """Return an operand in the tile's shape: unchanged, a row for all rows, or a value a row over the columns."""
        value = self.values[name]
        if self.row not in self.axes[name]:
            return value.over(self.at[self.row].size)
        return value if self.column in self.axes[name] else self.p.broadcast(value, out=out)
