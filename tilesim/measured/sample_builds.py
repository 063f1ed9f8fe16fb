"""Document me."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilesim.measured.measurement import EMPTY, Measurement, with_changes
from tilesim.measured.profiled_calls import Case, Shape, Unmapped, case_of, operator_named
from tilesim.measured.sample_kernels import copy_in, product, sum_of_rows


def _variant(r: Mapping[str, Any], notes: str, *, wide: bool) -> dict[str, Any]:
    """How a vendor's sample was built, from its notes; empty for a kernel of the library."""
    op, low = str(r.get("op", "")), notes.lower()
    cores = {"cores": int(r["block_dim"])} if r.get("block_dim") else {}
    found: dict[str, Any] = {}
    if r.get("tier") != "A" or r.get("single_kernel") is not None:
        return found
    if op == "Add":
        found = {"elements": int(r["tile_elems"])} if r.get("tile_elems") else {}
        double = any(word in low for word in ("double", "双缓冲", "bypass", "bank-conflict"))
        found["double_buffer"] = str(double).lower()
        if "bank-conflict-free" in low:
            found["spread"] = "true"
        if any(word in low for word in ("bypass", "bank-conflict", "notalloc")):
            found["bypass"] = "true"
    elif op == "Gelu":
        tile = re.search(r"tile (\d+)", low)
        found = {"elements": int(tile.group(1))} if tile else {}
        if "未使能" in notes:
            found["fused"] = "false"
    elif op.startswith("DataCopy"):
        sides = re.search(r"tile\[(\d+),(\d+)\]", notes)
        order = (
            "together" if "same" in low and "rotated" not in low else "unaligned" if "unaligned" in low else "untold"
        )
        found = {"rows": int(sides.group(1)), "columns": int(sides.group(2))} if sides else {"order": order}
    elif op == "Matmul":
        step = re.search(r"Case (\d)", notes)
        found = {"step": int(step.group(1)) if step else LAST_PLAIN_STEP}
        if wide:
            found["wide"] = "true"
    elif op == EMPTY:
        calls = re.search(r"(\d) vf", notes)
        found = {"calls": int(calls.group(1)) if calls else 1}
    return found | cores if found or op == "Gelu" else {}


LAST_PLAIN_STEP = 5
"""What a product without a step is taken for: the sample with a float32 result."""


class ProductStep(NamedTuple):
    """How the vendor's Matmul sample is built at one of its steps."""

    depth: int
    """Elements of k in L1."""
    double_buffer: bool = False
    unit_flag: bool = False
    reads_tiling: bool = True
    """Whether the cores read the tiling data; else the compiler knows them."""
    cache_order: bool = False
    """Whether the tiles go in an order that the cache is large enough for."""


STEPS: Sequence[ProductStep] = (
    *[ProductStep(64)] * 4,
    ProductStep(128, double_buffer=True),
    ProductStep(256, double_buffer=True),
    ProductStep(256, double_buffer=True, cache_order=True),
    ProductStep(256, double_buffer=True, cache_order=True, reads_tiling=False),
    ProductStep(256, double_buffer=True, cache_order=True, reads_tiling=False, unit_flag=True),
)
"""The steps of the sample, by their number."""


def _with_case(row: Measurement, outputs: Sequence[Shape], dtypes: Sequence[str]) -> Measurement:
    try:
        return with_changes(row, case=_case(row, outputs, dtypes))
    except Unmapped as why:
        return with_changes(row, problem=str(why))


def _case(row: Measurement, outputs: Sequence[Shape], dtypes: Sequence[str]) -> Case:
    if row.operator == EMPTY:
        if row.variant.get("calls", 1) != 1:
            raise Unmapped("the cost of a second vector function without work is not in the model")
        return Case(EMPTY, {}, "", tiles={"cores": int(row.variant.get("cores", 1))})
    if row.operator == "DataCopy GM->UB only":
        return _copy_case(row)
    if not row.variant:
        return case_of(row.operator, row.shapes, dtypes, outputs, row.attributes)
    name = operator_named(row.operator)
    if name == "matmul":
        return _product_case(row)
    if name == "add" and "elements" not in row.variant:
        raise Unmapped("the tile is not told")
    if row.variant.get("fused") == "false":
        raise Unmapped("vector instructions through memory on a chip that fuses them")
    base = case_of(row.operator, row.shapes, dtypes, outputs)
    operator = sum_of_rows() if name == "add" else base.operator
    tiles = {k: int(v) for k, v in row.variant.items() if k in ("elements", "cores")}
    options = {k: v == "true" for k, v in row.variant.items() if k in ("double_buffer", "spread", "bypass")}
    return Case(operator, base.given, base.dtype, tiles, {**base.options, **options}, _whole_buffer(row.chip))


def _whole_buffer(chip: str) -> dict[str, int]:
    """The unified buffer as the samples use it: all that is in silicon."""
    return {"memory.ub.size_bytes": 262144} if chip.startswith("ascend950") else {"memory.ub.reserved_bytes": 0}


def _copy_case(row: Measurement) -> Case:
    variant = row.variant
    if "rows" in variant:
        tiles = {k: int(v) for k, v in variant.items() if k in ("rows", "columns", "cores")}
        return Case(copy_in(), {"x": row.shapes[0]}, row.dtype, tiles, {"double_buffer": tiles["columns"] <= 64})
    if variant.get("order") == "unaligned":
        tiles = {"rows": 64, "columns": 1024, "cores": int(variant.get("cores", 1))}
        return Case(copy_in(), {"x": row.shapes[0]}, row.dtype, tiles, {"double_buffer": False})
    if variant.get("order") == "together":
        tiles = {"rows": 64, "columns": 64, "cores": int(variant.get("cores", 1))}
        given = {"x": row.shapes[0], "P": tiles["cores"]}
        return Case(copy_in(together=True), given, row.dtype, tiles)
    raise Unmapped("how the data is repeated or rotated is not told by a tile")


def _product_case(row: Measurement) -> Case:
    number = int(row.variant["step"])
    step = STEPS[number]
    side = (256, 256) if row.chip.startswith("ascend950") else (128, 256)
    m, n = (64, 64) if number == 0 else side
    tiles = {"m": m, "n": n, "k1": step.depth, "cores": int(row.variant.get("cores", 1))}
    options = {
        "double_buffer": step.double_buffer,
        "unit_flag": step.unit_flag,
        "wide": row.variant.get("wide") == "true",
        "reads_tiling": step.reads_tiling,
    }
    given = {"x1": row.shapes[0], "x2": row.shapes[1]}
    # The unit flag hands L0C over block by block, which is as good as a second one.
    memories = {"memory.l0c.size_bytes": 2 * m * n * 4} if step.unit_flag else {}
    if step.cache_order:  # it reads again what is still in the cache, as if that held everything
        memories["memory.l2.size_bytes"] = 4 * sum(math.prod(shape) for shape in row.shapes)
    return Case(product(transpose2=True), given, row.dtype, tiles, options, memories)
