"""The call of a measured kernel, from the shapes, dtypes and attributes of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesim.errors import BadInput, TilesimError
from tilesim.operators.operator import INPUT, KernelCall, KernelRow, Operator
from tilesim.operators.shapes import apart
from tilesim.program.dtypes import dtype_named


class Unmapped(TilesimError):
    """The reason why a measured kernel is not a call of an operator."""


def call_of_shapes(op: Operator, row: KernelRow, *, operands: int | None = None) -> KernelCall:
    """Return the call whose lead has the shape of the row's first input; operands that broadcast each have their own.

    The first `operands` inputs have one dtype; the default is the number of the operator's inputs of its dtype.
    Raises Unmapped.
    """
    if not row.inputs or not row.dtypes:
        raise Unmapped("no shapes or dtypes")
    if operands is None:
        operands = sum(t.role == INPUT and not t.dtype for t in op.tensors)
    dtype = _common_dtype(row.dtypes[:operands])
    if any(size < 0 for shape in row.inputs for size in shape):
        raise Unmapped("a size below 0")
    given = _broadcast_operands(op, row) or {op.lead: row.inputs[0]}
    if op.split:
        given[op.split] = _split_axis(op, row)
    tiles = {name: value for name, value in row.variant.items() if isinstance(value, int)}
    options = {name: value == "true" for name, value in row.variant.items() if value in ("true", "false")}
    return KernelCall(op, given, dtype, tiles, {**op.measured_options, **options}, whole_buffer=bool(row.variant))


def _common_dtype(written: Sequence[str]) -> str:
    """Return the canonical name of the dtype of all operands. Raises Unmapped for an unknown one and for several."""
    dtypes: dict[str, None] = {}
    for word in written:
        try:
            dtypes[dtype_named(word)] = None
        except BadInput:
            raise Unmapped(f"unknown dtype {word}") from None
    if len(dtypes) > 1:
        raise Unmapped(f"operands of different dtypes: {', '.join(dtypes)}")
    return next(iter(dtypes))


def _broadcast_operands(op: Operator, row: KernelRow) -> dict[str, Any]:
    """Return the shapes of the two operands that broadcast, if any; a dtype without a shape is a scalar."""
    names = [t.name for t in op.tensors if t.role == INPUT and op.patterns[t.name].spread]
    if not names:
        return {}
    if len(row.inputs) < len(names) and len(row.dtypes) < len(names):
        raise Unmapped("the shape of one operand only")
    first, second = row.inputs[0], row.inputs[1] if len(row.inputs) > 1 else ()
    if apart(first, second):
        raise Unmapped(f"shapes {list(first)} and {list(second)} do not broadcast")
    return dict(zip(names, (first, second), strict=True))


def _split_axis(op: Operator, row: KernelRow) -> int:
    """Return the axis that the row states, else the only one that the result halves, else the last."""
    if op.split in row.attributes:
        return int(row.attributes[op.split])
    halved: list[int] = []
    if row.outputs and len(row.outputs[0]) == len(row.inputs[0]):
        halved = [i for i, (a, b) in enumerate(zip(row.inputs[0], row.outputs[0], strict=True)) if a == 2 * b]
    return halved[0] if len(halved) == 1 else -1
