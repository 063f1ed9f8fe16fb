"""The call of a measured kernel and its accuracy class, from the name, shapes and dtypes that a source states."""

from __future__ import annotations

from dataclasses import replace

from tilesim.operators.measured_kernels import Unmapped, call_of_shapes
from tilesim.operators.operator import KernelCall, KernelRow
from tilesim.operators.shapes import merged
from tilesim.ops import operator_of_kernel
from tilesim.program.dtypes import is_float, itemsize

Shape = tuple[int, ...]

WORD_BYTES = 4
BROADCAST = "broadcast"
"""Class of calls whose operands have shapes that broadcast; no parameter of a chip is fitted to them."""
INTEGERS = "integers"
"""Class of calls of two operands on integers of another width than 32 bits; no parameter is fitted to them either."""


def call_of_kernel(kernel: str, row: KernelRow) -> KernelCall:
    """Return the call of a measured kernel. Raises Unmapped."""
    op = operator_of_kernel(kernel)
    if op is None:
        raise Unmapped(f"unknown operator {kernel}")
    call = call_of_shapes(op, row) if op.kernel_call is None else op.kernel_call(row)
    return replace(call, own_class=_own_class(call))


def _own_class(call: KernelCall) -> str:
    """The class of a call of operands that broadcast where it differs from the operator's, else ""."""
    patterns = call.operator.patterns
    shapes = [shape for name, shape in call.given.items() if name in patterns and patterns[name].spread]
    return class_beside(call.dtype, broadcasts=merged(*shapes).spread) if len(shapes) == 2 else ""


def class_beside(dtype: str, *, broadcasts: bool) -> str:
    """Return the class of a call that no parameter is fitted to, "" for a call of its operator's class."""
    if broadcasts:
        return BROADCAST
    return "" if is_float(dtype) or itemsize(dtype) == WORD_BYTES else INTEGERS
