"""Operators on rows: tiles of the largest number of whole rows that fits, split over cores by rows.

Rows shorter than a block of 32 bytes lie side by side, without padding, so that a tile is one burst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilesim.kernels.elementwise import COPY_REASON, ElementTile, copy_elements
from tilesim.program import dtypes
from tilesim.program.buffers import Range, Tensor, View, view
from tilesim.program.recorder import Kernel, Phase, Target
from tilesim.program.sizes import ONE, Size, align, ceil_div, dim
from tilesim.program.units import BLOCK_BYTES, LANES

WHOLE = ""
"""The variant of tiles of whole rows."""
NARROW = "narrow"
"""The variant of whole rows shorter than a block."""
LONG = "long"
"""The variant of rows that are longer than any tile that fits."""


@dataclass(frozen=True)
class Parts:
    """The variant of rows in equal parts, at least `number` a row, that go to the cores in turn."""

    number: int = 1


@dataclass(frozen=True)
class RowTile(ElementTile):
    """A tile of whole rows; `of_row` returns the tile of a tensor that has one value a row."""

    of_row: Callable[[Tensor], View] = view


def row_variants(dtype: str, row: int) -> tuple[str, str]:
    """Return the variants of rows of `row` elements: whole rows, then LONG ones."""
    return NARROW if 0 < row * dtypes.itemsize(dtype) < BLOCK_BYTES else WHOLE, LONG


def row_tiles(k: Kernel, p: Phase, rows: Size, row: Size, *, slots: int = 2) -> Iterator[RowTile]:
    """Yield the one symbolic tile of a phase over `rows` whole rows of `row` elements."""
    for n in p.loop("row", rows, p.tile("rows"), split="block"):
        side_by_side = (n.size, row) if k.variant == NARROW else None
        yield RowTile(
            k,
            p,
            lambda tensor, n=n: tensor.reshape(rows, row)[n],  # type: ignore[misc]
            (n.size, row),
            slots,
            side_by_side,
            lambda tensor, n=n: tensor.reshape(rows)[n],  # type: ignore[misc]
        )


def column_tiles(k: Kernel, p: Phase, row: Size, carry: Sequence[Target] = ()) -> Iterator[Range]:
    """Yield the one symbolic tile along a long row, of a good copy; passes over the same row take the same tile."""
    if "columns" not in p.tiles:
        p.tile("columns", copy_elements(k.dtype), LANES, COPY_REASON)
    yield from p.loop("column", row, dim("columns", LANES), carry=carry)


def rows_of_a_copy(k: Kernel, p: Phase, pitch: Size) -> Size:
    """Return the tile of rows of `pitch` elements that a good copy holds."""
    return p.tile("rows", ceil_div(copy_elements(k.dtype) + 1, pitch) - 1, 1, COPY_REASON)


def grid_tiles(k: Kernel, p: Phase, rows: Size, row: Size) -> Iterator[tuple[Range, Range]]:
    """Yield (rows, columns) of the one symbolic tile of a phase over both axes, of a good copy of every tensor.

    A tile has whole rows where they are short and a part of one where they are long; cores share the rows. The variant
    Parts cuts every row into at least its number of parts, and the parts of all rows go to the cores in turn.
    """
    most, block = copy_elements(k.dtype), BLOCK_BYTES // dtypes.itemsize(k.dtype)
    if isinstance(k.variant, Parts):
        part = p.tile("columns", ceil_div(row, k.variant.number * LANES) * LANES, LANES, "equal parts of a row")
        for c in p.loop("column", row, part, split="cyclic", rows=rows):
            yield Range(c.row, ONE), c
        return
    columns = p.tile("columns", most, block, COPY_REASON)
    pitch = align(columns, block)
    for n in p.loop("row", rows, rows_of_a_copy(k, p, pitch), split="block"):
        for c in p.loop("column", row, columns):
            yield n, c
