"""The vendor's tiling of rms_norm: its templates, when each is taken, and the fields of its tiling data.

Source: its host code (ops-nn, norm/rms_norm and norm/norm_common) for A2, A3 and 950. That of other products is not
public as far as it goes beyond one case of 128 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.kernels import itemsize
from tilesim.operators import Call, VendorTiling
from tilesim.program.units import BLOCK_BYTES, LANES

MERGE, ONE, SINGLE, SPLIT, FULL = "merge rows", "one row", "single row", "split D", "full load"
"""The templates: several rows, one row in buffers of a fixed size, one row in buffers of its size, parts of a row; of
the 950 several rows whose buffers have two slots, or parts of a row."""
KEYS = {ONE: 0, SPLIT: 1, MERGE: 2, SINGLE: 3}
KEY_OF_FULL, KEY_OF_SPLIT_950 = 5000, 2001
KEPT_BYTES = 1024
"""What the tiling leaves of the unified buffer."""
WORKSPACE_BYTES = (16 << 20) + 256
MOST_MERGED = 2000
"""Columns of rows of which several are one tile."""
ROW_OF_BYTES = {2: 12288, 4: 10240}
"""Elements of the buffers of the template ONE, by bytes of an element of x."""
ROWS = 64
"""Rows whose results are stored together, where a tile has one row."""
ROUNDING = 16
"""Elements that parts of a row are a multiple of."""
MIXED_ROW_BYTES = 28
"""Of a row, which the tiling counts beyond its buffers where gamma is float32 and x is not."""
MOST_FULL = 16384
"""Columns of rows that are loaded whole on the 950."""
MARGIN_BYTES = 2048
"""Which the tiling of the 950 keeps for partial sums."""
DATA_BYTES = {"a2": 144, FULL: 64}
FEW_ROWS, FEW_COLUMNS, FEW_MIDDLE = 512, 5120, 8
"""Sizes up to which short calls take the quick form of the template MERGE."""
UNSET = "reduce_mask left_num last_reduce_mask last_left_num rstd_size ub_loop col_buffer_length multi_n_num"


@dataclass(frozen=True)
class Sizes:
    """What the tiling computes with: rows, columns, bytes of an element of x and of gamma, and of unified buffer."""

    rows: int
    columns: int
    item: int
    gamma: int
    room: int
    cores: int

    @property
    def mixed(self) -> bool:
        """Whether gamma has another dtype than x."""
        return self.item != self.gamma

    @property
    def aligned(self) -> int:
        """Columns with their padding to blocks."""
        block = BLOCK_BYTES // self.item
        return -(-self.columns // block) * block

    @property
    def each(self) -> int:
        """Rows of a core."""
        return max(-(-self.rows // self.cores), 1)

    @property
    def used(self) -> int:
        """Cores that have rows."""
        return -(-self.rows // self.each)

    @property
    def last(self) -> int:
        """Rows of the last core."""
        return self.rows - self.each * (self.used - 1)

    @property
    def fold(self) -> int:
        """The largest power of two below the columns with their padding."""
        return 1 << ((self.aligned - 1).bit_length() - 1)


def sizes_of(call: Call, chip: Chip) -> Sizes:
    """The sizes of a call; 1 where they are not known."""
    gamma, dims = call.spec("gamma"), call.dims
    item = itemsize(call.dtype)
    other = itemsize(gamma.dtype) if gamma is not None and gamma.dtype == "float32" else item
    room = chip.memory.ub.visible_bytes - KEPT_BYTES
    return Sizes(dims.get("X", 1), max(dims.get("D", 1), 1), item, other, room, chip.cores.vector)


Bytes = Callable[[str, Mapping[str, int]], int]
"""From a template and its tiles to what the buffers of its program take."""


def template_of(of: Sizes, taken: Bytes) -> str:
    """The template of A2 and A3."""
    if of.aligned <= MOST_MERGED:
        return MERGE
    if not of.mixed:
        return ONE if of.aligned <= ROW_OF_BYTES[of.item] else SPLIT
    if taken(ONE, {}) < of.room:
        return ONE
    return SINGLE if taken(SINGLE, {}) < of.room else SPLIT


def tiles_of(of: Sizes, template: str, taken: Bytes) -> dict[str, int]:
    """Rows of a tile, or columns of a part of a row, of A2 and A3."""
    if template == MERGE:
        eight = taken(MERGE, {"rows": 8}) + 8 * MIXED_ROW_BYTES * of.mixed
        return {"rows": max(8 * of.room // eight, 1)}
    if template != SPLIT:
        return {}
    if of.mixed:
        fixed, unit = taken(SPLIT, {"columns": 0}), taken(SPLIT, {"columns": ROUNDING})
        return {"columns": max((of.room - fixed) // (unit - fixed), 1) * ROUNDING}
    parts = -(-of.columns // ROW_OF_BYTES[of.item])
    columns = -(-of.columns // (ROUNDING * parts)) * ROUNDING
    while columns > ROUNDING and 0 < of.columns % columns < ROUNDING:
        columns -= ROUNDING
    return {"columns": columns}


def template_of_950(of: Sizes, _: Bytes) -> str:
    """The template of the 950."""
    return FULL if full_rows(of) >= 1 and of.aligned <= MOST_FULL else SPLIT


def tiles_of_950(of: Sizes, template: str, _: Bytes) -> dict[str, int]:
    """Rows of a tile, or columns of a part of a row, of the 950."""
    if template == FULL:
        return {"rows": min(full_rows(of), of.each)}
    columns = 1
    while split_bytes(of, 2 * columns) < of.room:
        columns *= 2
    return {"columns": columns}


def full_rows(of: Sizes) -> int:
    """Rows of which every buffer fits, as the tiling of the 950 counts: partial sums by bytes, not by words."""
    sums = -(-max(of.fold // LANES, 1) // BLOCK_BYTES) * BLOCK_BYTES
    return (of.room - MARGIN_BYTES - of.aligned * of.gamma) // (4 * of.aligned * of.item + 12 + sums)


def split_bytes(of: Sizes, columns: int) -> int:
    """Bytes that the tiling of the 950 counts for parts of `columns`."""
    return 4 * columns * of.item + 2 * columns * of.gamma + 512 + 4 * columns + 5120


def of_a2(call: Call, of: Sizes, template: str, tiles: Mapping[str, int]) -> VendorTiling:
    """The 28 fields of A2 and A3."""
    rows = tiles["rows"] if template == MERGE else ROWS
    loops, last_loops = -(-of.each // rows), -(-of.last // rows)
    factor = {MERGE: rows * of.aligned, ONE: of.aligned if of.mixed else ROW_OF_BYTES[of.item], SINGLE: of.aligned}
    data = {
        "num_row": of.rows,
        "num_col": of.columns,
        "num_col_align": of.aligned,
        "block_factor": of.each,
        "row_factor": rows,
        "ub_factor": tiles["columns"] if template == SPLIT else factor[template],
        **dict.fromkeys(UNSET.split(), 0),
        "is_nddma": 1,
        "epsilon": float(np.float32(call.attributes["epsilon"])),
        "avg_factor": float(np.float32(1) / np.float32(of.columns)),
        "is_gemma": 0,
        "last_block_factor": of.last,
        "row_loop": loops,
        "last_block_row_loop": last_loops,
        "row_tail": of.each - (loops - 1) * rows,
        "last_block_row_tail": of.last - (last_loops - 1) * rows,
        "mul_loop": of.aligned // LANES,
        "mul_tail": of.aligned % LANES,
        "dst_rep_stride": of.aligned // 8 % 256,
        "is_performance": int(quick(call, of)),
        "normal_flag": 0,
    }
    return VendorTiling(data, KEYS[template], of.used, WORKSPACE_BYTES, of.room, data_bytes=DATA_BYTES["a2"])


def quick(call: Call, of: Sizes) -> bool:
    """Whether a call is one of the short ones whose scaling the template MERGE does in another form."""
    x, gamma = call.spec("x"), call.spec("gamma")
    if x is None or gamma is None or of.mixed or of.item != itemsize("float16") or len(gamma.shape) != 1:
        return False
    most = {2: (FEW_ROWS,), 3: (FEW_ROWS, FEW_MIDDLE)}.get(len(x.shape))
    within = most is not None and all(size <= top for size, top in zip(x.shape, most, strict=False))
    return within and of.columns <= FEW_COLUMNS


def of_950(call: Call, of: Sizes, template: str, tiles: Mapping[str, int]) -> VendorTiling:
    """The 9 fields of the template FULL of the 950, or those that SPLIT sets of the structure of A2."""
    epsilon = float(np.float32(call.attributes["epsilon"]))
    data: dict[str, int | float | None] = {"num_row": of.rows, "num_col": of.columns}
    if template == FULL:
        data |= {
            "num_col_align": of.aligned,
            "block_factor": of.each,
            "col_flod_factor": of.fold,
            "ub_factor": tiles["rows"],
            "epsilon": epsilon,
            "avg_factor": float(np.float32(1) / np.float32(of.columns)),
            "last_block_factor": of.last,
        }
        return VendorTiling(data, KEY_OF_FULL, of.used, WORKSPACE_BYTES, of.room, data_bytes=DATA_BYTES[FULL])
    widest, columns = max(of.item, of.gamma), tiles["columns"]
    aligned = -(-of.columns * widest // 512) * 512 // widest
    whole_row = 4 * aligned * of.item + 2 * aligned * of.gamma + 512 + 3072 + (4 * aligned if of.item == 2 else 0)
    data |= {
        "num_col_align": aligned,
        "block_factor": of.each,
        "last_block_factor": 0,
        "row_factor": ROWS,
        "ub_factor": columns,
        "epsilon": epsilon,
        "ub_loop": 1 << ((of.columns // columns).bit_length() - 1) if of.columns >= columns else 0,
        "col_buffer_length": columns,
        "multi_n_num": of.room // whole_row,
        "is_nddma": int(of.columns < 512),
    }
    return VendorTiling(data, KEY_OF_SPLIT_950, of.used, WORKSPACE_BYTES, of.room, data_bytes=DATA_BYTES["a2"])


@dataclass(frozen=True)
class Rules:
    """The rules of a family of chips: the template, its tiles, and the tiling data."""

    template: Callable[[Sizes, Bytes], str]
    tiles: Callable[[Sizes, str, Bytes], dict[str, int]]
    data: Callable[[Call, Sizes, str, Mapping[str, int]], VendorTiling]


A2 = Rules(template_of, tiles_of, of_a2)
RULES: Mapping[str, Rules] = {"a2": A2, "a3": A2, "950": Rules(template_of_950, tiles_of_950, of_950)}
"""By family; others have no public tiling."""
