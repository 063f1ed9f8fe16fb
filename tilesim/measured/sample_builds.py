"""Published samples of vendors: the variant of a measurement record, and the call of every measured row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilesim.measured.measurement import Measurement
from tilesim.measured.profiled_calls import Shape, call_of_kernel
from tilesim.measured.sample_kernels import EmptyKernel, copy_in
from tilesim.operators.measured_kernels import Unmapped
from tilesim.operators.operator import KernelCall, KernelRow
from tilesim.ops import operator_of_kernel

EMPTY = "empty kernel"
"""The sample that only launches."""
COPY_IN = "DataCopy GM->UB only"
"""The sample that only copies into the unified buffer."""


def variant_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tiles, cores and options of a published sample; empty for a kernel of the library."""
    if record.get("tier") != "A" or record.get("single_kernel") is not None:
        return {}
    name, notes = str(record.get("op", "")), str(record.get("notes") or "")
    cores = {"cores": int(record["block_dim"])} if record.get("block_dim") else {}
    if name == EMPTY:
        calls = re.search(r"(\d) vf", notes.lower())
        return {"calls": int(calls.group(1)) if calls else 1} | cores
    if name.startswith("DataCopy"):
        return _copy_variant(notes) | cores
    op = operator_of_kernel(name)
    if op is None or op.sample is None or op.sample.name != name:
        return {}
    return {**op.sample.variant(record), **cores}


def _copy_variant(notes: str) -> dict[str, Any]:
    sides, low = re.search(r"tile\[(\d+),(\d+)\]", notes), notes.lower()
    if sides:
        return {"rows": int(sides.group(1)), "columns": int(sides.group(2))}
    together = "same" in low and "rotated" not in low
    return {"order": "together" if together else "unaligned" if "unaligned" in low else "unknown"}


def with_call(row: Measurement, dtypes: Sequence[str], outputs: Sequence[Shape] = ()) -> Measurement:
    """Return the measurement with its call, or with the problem that prevents one."""
    try:
        return replace(row, call=_call(row, dtypes, outputs))
    except Unmapped as why:
        return replace(row, problem=str(why))


def _call(row: Measurement, dtypes: Sequence[str], outputs: Sequence[Shape]) -> KernelCall | EmptyKernel:
    if row.operator == EMPTY:
        if row.variant.get("calls", 1) != 1:
            raise Unmapped("the model has no cost of a second vector function without work")
        return EmptyKernel(int(row.variant.get("cores", 1)))
    if row.operator == COPY_IN:
        return _copy_call(row)
    return call_of_kernel(row.operator, KernelRow(row.shapes, dtypes, outputs, row.attributes, row.variant, row.chip))


def _copy_call(row: Measurement) -> KernelCall:
    variant = row.variant
    if "rows" in variant:
        tiles = {k: int(v) for k, v in variant.items() if k in ("rows", "columns", "cores")}
        return KernelCall(copy_in(), {"x": row.shapes[0]}, row.dtype, tiles, {"double_buffer": tiles["columns"] <= 64})
    if variant.get("order") == "unaligned":
        tiles = {"rows": 64, "columns": 1024, "cores": int(variant.get("cores", 1))}
        return KernelCall(copy_in(), {"x": row.shapes[0]}, row.dtype, tiles, {"double_buffer": False})
    if variant.get("order") == "together":
        tiles = {"rows": 64, "columns": 64, "cores": int(variant.get("cores", 1))}
        given = {"x": row.shapes[0], "P": tiles["cores"]}
        return KernelCall(copy_in(together=True), given, row.dtype, tiles)
    raise Unmapped("the source states no tile for its order of copies")
