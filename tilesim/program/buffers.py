"""Tensors in global memory, buffers on chip, and views: ranges of either, with symbolic bounds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilesim.program import dtypes
from tilesim.program.signatures import Shape
from tilesim.program.sizes import ONE, ZERO, Env, Size, align, ceil_div
from tilesim.program.units import BLOCK_BYTES


@dataclass(frozen=True)
class Range:
    """A run of indices along one axis: `start`, `size` [elements]. A loop yields one for each of its tiles."""

    start: Size
    size: Size
    after: Size = ZERO
    """Elements of the axis after the tile, at most the halo of the loop."""
    before: Size = ZERO
    """Elements of the axis before the tile, at most the lead of the loop."""
    index: Size = ZERO
    """The number of the tile along the axis."""
    row: Size = ZERO
    """The axis that the tile is of, in a loop over several rows; the first of them in one over strips of rows."""
    rows: Size = ONE
    """The number of rows that the tile has."""

    @property
    def strip(self) -> Range:
        """The rows that the tile has."""
        return Range(self.row, self.rows)

    def with_halo(self) -> Range:
        """Return the tile with the elements of its halo that exist."""
        return Range(self.start - self.before, self.before + self.size + self.after)


Key = Range | slice | Size | int


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in global memory. `role` is input, output or workspace (written by one phase, read by a later one)."""

    name: str
    shape: Shape
    dtype: str
    role: str

    space = "gm"

    @functools.cached_property
    def bytes(self) -> Size:
        """Bytes of its elements, which lie without gaps."""
        return math.prod(self.shape, start=ONE) * dtypes.itemsize(self.dtype)

    @property
    def allocated(self) -> Shape:
        """The shape that is paid for [elements]: its own."""
        return self.shape

    @property
    def slot_count(self) -> Size:
        """A tensor is there once."""
        return ONE

    def reshape(self, *shape: Size | int) -> Tensor:
        """Return the same storage in another shape ([N, D] as [N, C, H])."""
        return Tensor(self.name, tuple(Size.of(s) for s in shape), self.dtype, self.role)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> View:
        return view(self)[key]


@dataclass(eq=False)
class Buffer:
    """On-chip memory of one tile. `slots` has two effects: it multiplies the bytes, and it alone permits overlap.

    `shape` [elements] is the part in use, smaller at the tail of an axis; `allocated` [elements] is the full tile, its
    last axis padded to a block of 32 bytes.
    """

    name: str
    space: str
    shape: Shape
    allocated: Shape
    dtype: str
    slots: int = 1
    pool: str = ""
    """The pool whose bytes it uses in place of the phase's: a reserve of the operator, such as scratch."""
    static: bool = False
    """True if it is charged in every phase of the kernel."""
    reserved: bool = False
    """True if it stays allocated for an absent option: no instruction touches it."""
    where: str = ""

    @functools.cached_property
    def slot_bytes(self) -> Size:
        """Bytes of one slot."""
        return align(math.prod(self.allocated, start=ONE) * dtypes.itemsize(self.dtype), BLOCK_BYTES)

    @functools.cached_property
    def bytes(self) -> Size:
        """Bytes of all slots."""
        return self.slot_bytes * self.slot_count

    @property
    def slot_count(self) -> Size:
        """The number of slots."""
        return Size.of(self.slots)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> View:
        return view(self)[key]


def padded(shape: Shape, dtype: str) -> Shape:
    """Return the shape with its last axis rounded up to a block of 32 bytes."""
    *rows, last = shape
    item = dtypes.itemsize(dtype)
    if (last * item).divisor() % BLOCK_BYTES == 0:
        return shape
    return (*rows, ceil_div(last * item, BLOCK_BYTES) * (BLOCK_BYTES // item))


@dataclass(frozen=True)
class View:
    """A range of a tensor or buffer. Axes indexed by a number are dropped; `expanded` axes repeat it, in front."""

    base: Tensor | Buffer
    starts: tuple[Size, ...]
    sizes: tuple[Size, ...]
    kept: tuple[int, ...]
    expanded: Shape = ()

    @property
    def shape(self) -> Shape:
        """Its sizes [elements]."""
        return (*self.expanded, *(self.sizes[i] for i in self.kept))

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.base.dtype

    @property
    def space(self) -> str:
        """The memory that it is in."""
        return self.base.space

    @property
    def whole(self) -> bool:
        """True if it covers all of its base."""
        return not self.expanded and self.sizes == self.base.shape and all(s == ZERO for s in self.starts)

    @property
    def element(self) -> bool:
        """True if it is one element, which an instruction can take as a scalar."""
        return not self.shape

    def over(self, *sizes: Size) -> View:
        """Return the view repeated along new first axes; no bytes move."""
        return View(self.base, self.starts, self.sizes, self.kept, (*sizes, *self.expanded))

    def __getitem__(self, key: Key | tuple[Key, ...]) -> View:
        keys = key if isinstance(key, tuple) else (key,)
        if self.expanded:
            raise IndexError(f"{self.base.name} is repeated along {len(self.expanded)} axes; index it before .over()")
        if len(keys) > len(self.kept):
            raise IndexError(f"{len(keys)} indices for {self.base.name}, which has {len(self.kept)} axes here")
        starts, sizes, kept = list(self.starts), list(self.sizes), list(self.kept)
        for axis, index in zip(self.kept, keys, strict=False):
            if isinstance(index, Range):
                starts[axis], sizes[axis] = starts[axis] + index.start, index.size
            elif isinstance(index, slice):
                low = Size.of(0 if index.start is None else index.start)
                high = self.sizes[axis] if index.stop is None else Size.of(index.stop)
                starts[axis], sizes[axis] = starts[axis] + low, high - low
            else:
                starts[axis], sizes[axis] = starts[axis] + index, ONE
                kept.remove(axis)
        return View(self.base, tuple(starts), tuple(sizes), tuple(kept))

    def __str__(self) -> str:
        if self.whole:
            return self.base.name
        parts = []
        for i, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            if i not in self.kept:
                parts.append(str(start))
            elif start == ZERO and size == self.base.shape[i]:
                parts.append(":")
            else:
                parts.append(f"{start}:+{size}" if start != ZERO else f":{size}")
        return f"{self.base.name}[{', '.join(parts)}]"


def view(base: Tensor | Buffer) -> View:
    """Return the view of all of a tensor or buffer."""
    return View(base, (ZERO,) * len(base.shape), base.shape, tuple(range(len(base.shape))))


@dataclass(frozen=True)
class Value:
    """A view of a buffer after the buffer's n-th write in its phase; reading it after a later write is refused."""

    view: View
    write: int
    loops: tuple[Any, ...] = field(repr=False)

    @property
    def shape(self) -> Shape:
        """Its sizes [elements]."""
        return self.view.shape

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.view.dtype

    @property
    def buffer(self) -> Buffer:
        """The buffer that it is a view of."""
        base = self.view.base
        if not isinstance(base, Buffer):
            raise TypeError(f"{base.name} is a tensor, not a buffer")
        return base

    def _through(self, change: Callable[[View], View]) -> Value:
        return Value(change(self.view), self.write, self.loops)

    def over(self, *sizes: Size) -> Value:
        """Return the value repeated along new first axes."""
        return self._through(lambda v: v.over(*sizes))

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Value:
        return self._through(lambda v: v[key])


def tensor_bytes(tensor: Buffer | Tensor, sizes: Env) -> int:
    """Bytes of a tensor at the sizes of a plan."""
    return math.prod(int(s.bind(sizes)) for s in tensor.shape) * dtypes.itemsize(tensor.dtype)
