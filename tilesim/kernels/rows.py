"""Operators on rows: tiles of whole rows, as many as fit, split over cores by rows.

Rows shorter than a block of 32 bytes lie side by side, without padding, so that a tile is one burst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilesim.kernels.elementwise import ElementTile, copy_elements
from tilesim.program import dtypes
from tilesim.program.buffers import Range, Tensor, View, view
from tilesim.program.recorder import Kernel, Phase, Target
from tilesim.program.sizes import ONE, Size, align, ceil_div, dim
from tilesim.program.units import BLOCK_BYTES, LANES

WHOLE = ""
"""The variant of tiles of whole rows."""
NARROW = "narrow"
"""That of whole rows shorter than a block."""
LONG = "long"
"""The variant of rows of which not one fits."""


@dataclass(frozen=True)
class Parts:
    """The variant of rows in equal parts, at least `number` of each, that are dealt to the cores."""

    number: int = 1


@dataclass(frozen=True)
class RowTile(ElementTile):
    """A tile of whole rows; `of_row` is the part of a tensor that has one value a row."""

    of_row: Callable[[Tensor], View] = view


def row_variants(dtype: str, row: int) -> tuple[str, str]:
    """Whole rows of `row` elements, then LONG ones."""
    return NARROW if 0 < row * dtypes.itemsize(dtype) < BLOCK_BYTES else WHOLE, LONG


def row_tiles(k: Kernel, p: Phase, rows: Size, row: Size, *, slots: int = 2) -> Iterator[RowTile]:
    """The one symbolic tile of a phase over `rows` whole rows of `row` elements."""
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
    """The one symbolic tile along a long row, of a good copy; passes over the same row take the same tile."""
    if "columns" not in p.tiles:
        p.tile("columns", copy_elements(k.dtype), LANES, "no larger copy gains anything")
    yield from p.loop("column", row, dim("columns", LANES), carry=carry)


def rows_of_a_copy(k: Kernel, p: Phase, pitch: Size) -> Size:
    """The tile of as many rows of `pitch` elements as a good copy has."""
    return p.tile("rows", ceil_div(copy_elements(k.dtype) + 1, pitch) - 1, 1, "no larger copy gains anything")


def grid_tiles(k: Kernel, p: Phase, rows: Size, row: Size) -> Iterator[tuple[Range, Range]]:
    """(rows, columns) of the one symbolic tile of a phase over both axes, of a good copy of every tensor.

    Whole rows where they are short, parts of one where they are long; cores share out the rows. Of the variant Parts
    every row is cut into as many as it says at least, and cores are dealt parts of all rows.
    """
    most, block = copy_elements(k.dtype), BLOCK_BYTES // dtypes.itemsize(k.dtype)
    if isinstance(k.variant, Parts):
        part = p.tile("columns", ceil_div(row, k.variant.number * LANES) * LANES, LANES, "equal parts of a row")
        for c in p.loop("column", row, part, split="cyclic", rows=rows):
            yield Range(c.row, ONE), c
        return
    columns = p.tile("columns", most, block, "no larger copy gains anything")
    pitch = align(columns, block)
    for n in p.loop("row", rows, rows_of_a_copy(k, p, pitch), split="block"):
        for c in p.loop("column", row, columns):
            yield n, c
