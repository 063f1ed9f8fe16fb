"""The vendor's tiling of gated units: tiles of rows and columns, all of one size, that are dealt to the cores.

Source: its host code (ops-nn, activation/swi_glu), which the forward and, before the 950, the gradient share. That code
reads a result with one slot through a pointer to a variable that has ended; what is meant is what is done here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import Phase, Range, Size, align, itemsize
from tilesim.operators import (
    FAMILY,
    TILING_ERROR,
    UNKNOWN,
    Call,
    Condition,
    Dimension,
    Numbers,
    OneOf,
    Rule,
    Texts,
    VendorTiling,
    absent,
    all_of,
    any_of,
    at_most,
    dtype_of,
    equal,
    unknown,
)
from tilesim.operators.reference import Array
from tilesim.program.units import BLOCK_BYTES

X = Dimension("X", least=0)
"""The product of the sizes before the axis that is split."""
N = Dimension("N", least=0)
"""Half of the axis that is split."""
Y = Dimension("Y", least=0)
"""The product of the sizes after it."""
ROW = N.size * Y.size
"""Elements of half a row."""

MOST_ROWS = 4095
MOST_GAP = 65535
"""Of the rows of a copy: blocks of 32 bytes where rows are whole blocks, else bytes."""
LINE_BYTES = 512
COLUMNS_BYTES = 64
"""What half a row must be a multiple of on Atlas inference products."""
WORKSPACE_BYTES = 16 << 20
"""What the host code asks for on every product."""
DATA_BYTES = 80
UNSET = "activateLeft biasIsEmpty quantScaleIsEmpty activateScaleIsEmpty swiColLen perRowLen modRowLen usedCoreNum"
"""Fields that other operators with the same structure set."""
KEY_OF_DTYPE = {"float32": 0, "float16": 1, "bfloat16": 27}


@dataclass(frozen=True)
class Strips:
    """The variant of tiles of `slots` slots."""

    slots: int = 2


@dataclass(frozen=True)
class Grid:
    """A tile of `rows` x `columns` elements, the tiles that there are, and the cores that have one."""

    rows: int
    columns: int
    tiles: int
    cores: int

    @property
    def rounds(self) -> int:
        """Tiles of the core that has most."""
        return -(-self.tiles // self.cores)


def tile_sizes(p: Phase) -> tuple[Size, Size]:
    """Rows and columns of the tiles of a phase, for the plan to decide."""
    return p.tile("rows", MOST_ROWS), p.tile("columns")


def strip_tiles(p: Phase, rows: Size, columns: Size) -> Iterator[Range]:
    """The one symbolic tile of a phase: its columns, and its rows as `strip`."""
    yield from p.loop("tile", ROW, columns, split="cyclic", rows=X.size, strip=rows)


def room(rows: Size, columns: Size, dtype: str) -> tuple[Size, Size]:
    """What a buffer of a tile takes: rows padded to blocks of `dtype`, whatever the buffer's own is."""
    return rows, align(columns, BLOCK_BYTES // itemsize(dtype))


def variant(call: Call, chip: Chip) -> Strips:
    """Two slots; one where that spares every core its second tile."""
    return best(call, chip)[0]


def tiles(call: Call, chip: Chip) -> dict[str, int]:
    """Rows and columns of a tile, as the vendor's tiling has them."""
    grid = best(call, chip)[1]
    return {"rows": grid.rows, "columns": grid.columns}


def tiling(call: Call, chip: Chip) -> VendorTiling:
    """The 14 fields of the vendor's tiling."""
    strips, grid = best(call, chip)
    row = call.dims["N"] * call.dims["Y"]
    data = {
        "is32BAligned": int(row * itemsize(call.dtype) % BLOCK_BYTES == 0),
        "isDoubleBuffer": strips.slots - 1,
        "rowLen": call.dims["X"],
        "colLen": row,
        "baseRowLen": grid.rows,
        "baseColLen": grid.columns,
        **dict.fromkeys(UNSET.split(), 0),
    }
    return VendorTiling(data, KEY_OF_DTYPE[call.dtype], grid.cores, WORKSPACE_BYTES, data_bytes=DATA_BYTES)


def best(call: Call, chip: Chip) -> tuple[Strips, Grid]:
    """The slots and the tile that the vendor's tiling takes; the smallest tile where the sizes are not known."""
    dims, smallest = call.dims, Grid(1, 1, 1, 1)
    rows, row = dims.get("X", 0), dims.get("N", 0) * dims.get("Y", 0)

    def search(slots: int) -> Grid | None:
        elements = buffer_elements(call, chip, slots)
        return grid_of(rows, row, elements, itemsize(call.dtype), chip.cores.vector)

    twice = search(2) if rows > 0 and row > 0 else None
    if twice is not None and twice.rounds == 2:
        once = search(1)
        if once is not None and once.rounds == 1 and once.cores >= twice.cores:
            return Strips(1), once
    return Strips(2), twice or smallest


def buffer_elements(call: Call, chip: Chip, slots: int) -> int:
    """Elements of the largest tile of one row of which every buffer fits, in whole blocks, as the program tells."""
    block = BLOCK_BYTES // itemsize(call.dtype)
    (phase,) = call.operator.record(call, chip, Strips(slots)).phases
    return int(chip.memory.ub.visible_bytes // phase.bytes("ub").bind({"rows": 1, "columns": block}) * block)


@functools.lru_cache(maxsize=1024)
def grid_of(rows: int, row: int, elements: int, item_bytes: int, cores: int) -> Grid | None:
    """The best tile of at most `elements` for `rows` half rows of `row` elements each; None if there is none.

    Most cores, then fewest tiles, then the largest tile, then most full tiles, then the first, of columns from most to
    least in steps of 512 bytes.
    """
    block, line = BLOCK_BYTES // item_bytes, LINE_BYTES // item_bytes
    whole = row % block == 0

    def single(columns: int) -> bool:
        """Whether a copy of several rows cannot skip the rest of a row."""
        return (2 * row - columns > MOST_GAP * block) if whole else (2 * row - columns) * item_bytes > MOST_GAP

    most = min(row, elements, MOST_GAP if whole else MOST_GAP // item_bytes)
    if most < 1:
        return None
    if line < most < row:
        most -= most % line
    candidates = [(1, most)] if single(most) else [*_candidates(rows, row, elements, most, block, line, single)]

    def rank(tile: tuple[int, int]) -> tuple[int, int, int, int]:
        high, wide = tile
        count = -(-rows // high) * -(-row // wide)
        return -min(count, cores), count, -high * wide, -(rows // high) * (row // wide)

    if not candidates:
        return None
    high, wide = min(candidates, key=rank)
    count = -(-rows // high) * -(-row // wide)
    return Grid(high, wide, count, min(count, cores))


def _candidates(
    rows: int, row: int, elements: int, most: int, block: int, line: int, single: Callable[[int], bool]
) -> Iterator[tuple[int, int]]:
    columns = most
    while True:
        high = min(elements // (-(-columns // block) * block), rows, MOST_ROWS)
        if high < 1 or (high > 1 and single(columns)):
            return
        if high == 1 or not single(row % columns):
            yield high, columns
        if columns <= line or high == min(rows, MOST_ROWS):
            return
        columns -= columns % line or line


def halves(parameter: str, name: str, place: int) -> Rule:
    """The rule that the sizes of a tensor from the split axis on have an even product, which is all that is asked."""

    def texts(call: Call, _: Chip) -> Texts:
        spec = call.spec(name)
        return Texts("an even product of sizes from dim on", UNKNOWN if spec is None else str(list(spec.shape)))

    return Rule("split even", TILING_ERROR, absent(name) | ~unknown("N"), parameter, texts, (place, "odd-split"))


def columns_of_inference(name: str, place: int) -> Rule:
    """The rule that half a row is a multiple of 64 bytes on Atlas inference products."""

    def texts(call: Call, _: Chip) -> Texts:
        dims = call.dims
        given = f"{dims['N'] * dims['Y'] * itemsize(call.dtype)} B" if {"N", "Y"} <= dims.keys() else UNKNOWN
        return Texts(f"half a row in a multiple of {COLUMNS_BYTES} B", given)

    def aligned(dtype: str) -> Condition:
        return OneOf(dtype_of(name), (dtype,)) & equal(ROW % (COLUMNS_BYTES // itemsize(dtype)), 0)

    elsewhere = ~OneOf(FAMILY, ("inference",))
    known = ~absent(name) & ~unknown("N", "Y")
    test = any_of(elsewhere, ~known, aligned("float16"), aligned("float32"), OneOf(dtype_of(name), ("bfloat16",)))
    return Rule("columns", TILING_ERROR, test, name, texts, (place, "64-byte columns on 310P"))


def elements_exist(name: str, place: int, unless: Condition | None = None) -> Rule:
    """The rule that there is a tile: none is without elements."""

    def texts(call: Call, _: Chip) -> Texts:
        spec = call.spec(name)
        return Texts("at least 1 element", UNKNOWN if spec is None else str(list(spec.shape)))

    exist = any_of(unknown("X", "N", "Y"), all_of(*(at_most(1, d.size) for d in (X, N, Y))))
    return Rule("elements", TILING_ERROR, unless | exist if unless else exist, name, texts, (place, "tile"))


def parted(x: Array, numbers: Numbers) -> tuple[Array, Array, int]:
    """Both halves of `x` along the split axis, and that axis; of all axes from an odd one on, as one."""
    axis = int(numbers["dim"]) % x.ndim
    if x.shape[axis] % 2:
        x = x.reshape(*x.shape[:axis], -1)
    first, second = np.split(x, 2, axis=axis)
    return first, second, axis
