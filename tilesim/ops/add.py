"""The sum of two tensors whose shapes broadcast."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilesim.kernels import FAMILIES, dim, pointwise, with_integers
from tilesim.kernels.broadcast import CHOICES, axis_sizes, two_operands, variant
from tilesim.operators import (
    Argument,
    Arrays,
    Dimension,
    KernelCall,
    KernelRow,
    Numbers,
    Operator,
    Sample,
    Unmapped,
    call_of_shapes,
    dtype_supported,
    not_null,
    result,
    shape,
)


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": given["x1"] + given["x2"]}


@functools.lru_cache
def sum_of_rows() -> Operator:
    """Return the operator of the published sample: every core adds whole rows of two matrices.

    Source of the split: mirror-cann/asc-devkit, add_high_performance.
    """
    return Operator(
        name="add",
        api="",
        about="sum of two matrices, split by rows",
        dims=(Dimension("R"), Dimension("C")),
        tensors=(Argument("x1", "R C"), Argument("x2", "R C"), result("y", "R C")),
        lead="x1",
        dtypes=FAMILIES,
        dtype="float16",
        options=CHOICES,
        rules=(*not_null("x1", "x2"), dtype_supported("x1"), shape("x2")),
        kernel=two_operands("add", "adds", share=dim("C")),
        variant=variant,
    )


def kernel_call(row: KernelRow) -> KernelCall:
    """Return the call of a measured kernel; the published sample has an operator of its own."""
    if row.variant and "elements" not in row.variant:
        raise Unmapped("the source states no tile")
    call = call_of_shapes(add, row)
    return replace(call, operator=sum_of_rows()) if row.variant else call


def sample_variant(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tile and the options of the published sample from its record and the notes in it."""
    notes = str(record.get("notes") or "").lower()
    variant: dict[str, Any] = {"elements": int(record["tile_elems"])} if record.get("tile_elems") else {}
    double = any(word in notes for word in ("double", "双缓冲", "bypass", "bank-conflict"))
    variant["double_buffer"] = str(double).lower()
    if "bank-conflict-free" in notes:
        variant["spread"] = "true"
    if any(word in notes for word in ("bypass", "bank-conflict", "notalloc")):
        variant["bypass"] = "true"
    return variant


add = pointwise(
    "add",
    two_operands("add", "adds"),
    about="sum of two tensors",
    inputs="x1 x2",
    options=CHOICES,
    spread=True,
    variant=variant,
    shape_sizes=axis_sizes,
    reference=reference,
    families=with_integers("int32"),
    kernel_names=("Add",),
    accuracy_class="elementwise",
    kernel_call=kernel_call,
    sample=Sample("Add", sample_variant),
)
