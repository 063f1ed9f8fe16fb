"""The instruction table: one row an instruction, and all that is known of it but its price, which is a chip's.

A row says the pipe, the cost class that a chip file prices, the numpy meaning `meaning(out, *sources)`, the rule for
the result's shape and whether the instruction also reads its destination. Operators are made of these and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilesim.program.sizes import Size

Array = Any
Shape = tuple[Size, ...]
ShapeRule = Callable[[Sequence[Shape]], Shape]

ROUTES: dict[tuple[str, str], tuple[str, str]] = {
    ("gm", "ub"): ("gm_ub", "mte2"),
    ("ub", "gm"): ("ub_gm", "mte3"),
    ("gm", "l1"): ("gm_l1", "mte2"),
    ("l1", "l0a"): ("l1_l0a", "mte1"),
    ("l1", "l0b"): ("l1_l0b", "mte1"),
    ("l0c", "gm"): ("l0c_gm", "fixp"),
}
"""(source space, destination space) of a copy -> (its table in the chip file, its pipe)."""

COPIES = ("copy", "copy_transposed")
"""The instructions whose pipe and price are those of a route."""

PIPES = {"vector": ("mte2", "v", "mte3"), "cube": ("mte2", "mte1", "m", "fixp")}
"""The pipes of a core, in the order in which data passes them."""

REGISTERS = "reg"
"""Vector registers: values of a fused vector function, which take no bytes of the unified buffer (arch 3510)."""

SPACES = {"vector": ("ub",), "cube": ("l1", "l0a", "l0b", "l0c")}
"""The on-chip memories of a core."""


class ShapeError(ValueError):
    """Operands whose shapes an instruction does not take."""


def text(shape: Shape) -> str:
    """A shape as it is written: [rows, H]."""
    return "[" + ", ".join(map(str, shape)) + "]"


def same(shapes: Sequence[Shape]) -> Shape:
    """The one shape of all operands that are not scalars."""
    full = [s for s in shapes if s]
    for other in full[1:]:
        if other != full[0]:
            raise ShapeError(f"shapes differ: {text(full[0])} and {text(other)}; broadcast explicitly")
    if not full:
        raise ShapeError("no operand has a shape")
    return full[0]


def last_axis_gone(shapes: Sequence[Shape]) -> Shape:
    """[rows, n] -> [rows]; [n] -> [1]."""
    (shape,) = shapes
    return shape[:-1] or (Size.of(1),)


def first_axis_gone(shapes: Sequence[Shape]) -> Shape:
    """[rows, n] -> [n]."""
    (shape,) = shapes
    if len(shape) != 2:
        raise ShapeError(f"a column reduction takes [rows, n], not {text(shape)}")
    return shape[1:]


def by_row(shapes: Sequence[Shape]) -> Shape:
    """[rows, n] and [rows] -> [rows, n]."""
    full, row = shapes
    if full[:-1] != row:
        raise ShapeError(f"shapes differ: {text(full)} takes one value a row, {text(full[:-1])}, not {text(row)}")
    return full


def given(_: Sequence[Shape]) -> Shape:
    """The shape of out=, which the author states."""
    raise ShapeError("the shape of the result is not known from its operands; give out=")


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction. `cost` names a table of the chip file; `accumulates` says that it reads its destination."""

    pipe: str
    cost: str
    meaning: Callable[..., None]
    shape: ShapeRule = same
    accumulates: bool = False
    casts: bool = False


def _into(function: Callable[..., Any]) -> Callable[..., None]:
    def meaning(out: Array, *sources: Array) -> None:
        function(*sources, out=out)

    return meaning


def _assign(out: Array, source: Array) -> None:
    out[...] = source


def _broadcast_columns(out: Array, source: Array) -> None:
    out[...] = source[..., None]


def _multiply_add(out: Array, a: Array, b: Array) -> None:
    np.add(out, np.multiply(a, b), out=out)


def _reciprocal(x: Array, out: Array) -> None:
    np.divide(1, x, out=out)


def _rounded(out: Array, x: Array) -> None:
    np.rint(x, out=out)


def _selected(out: Array, mask: Array, a: Array, b: Array) -> None:
    out[...] = np.where(mask != 0, a, b)


def _by_row(function: Callable[..., Any]) -> Callable[..., None]:
    def meaning(out: Array, x: Array, row: Array) -> None:
        function(x, row[..., None], out=out)

    return meaning


def _column_sum(out: Array, x: Array) -> None:
    """Pairwise by halves from a power of two, as the vector cores fold a column; no running sum, so no drift."""
    rows = x.shape[0]
    half = 1 << (rows.bit_length() - 1)
    total = x[:half].copy()
    total[: rows - half] += x[half:]
    while half > 1:
        half //= 2
        total = total[:half] + total[half:]
    out[...] = total[0]


def _row_sum(out: Array, x: Array) -> None:
    np.sum(x, axis=-1, out=out if x.ndim > 1 else out.reshape(()))


def _row_max(out: Array, x: Array) -> None:
    np.max(x, axis=-1, out=out if x.ndim > 1 else out.reshape(()))


def _matmul_add(out: Array, a: Array, b: Array) -> None:
    """Add a @ b in float32; operands are padded to fractals in m and n, as BLAS sums a single row in another order."""
    np.add(out, np.matmul(a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)), out=out)


def _transposed(out: Array, source: Array) -> None:
    out[...] = source.T


def _push(out: Array, value: Array, index: float) -> None:
    """Adds `value` to a binary counter of partial sums: a carry joins two of one level, so that no sum grows long."""
    total, level = value.copy(), 0
    while int(index) >> level & 1:
        total += out[level]
        level += 1
    out[level] = total


def _drain(out: Array, counter: Array, count: float) -> None:
    """Adds the levels that a counter holds after `count` values, smallest first."""
    for level in range(len(counter)):
        if int(count) >> level & 1:
            out += counter[level]


ISA: dict[str, Row] = {
    # copies: pipe and price come from the route between the two memories
    "copy": Row("", "", _assign),
    "copy_transposed": Row("", "", _transposed, lambda shapes: (shapes[0][1], shapes[0][0])),
    # vector registers, inside a fused vector function
    "vld": Row("v", "move", _assign),
    "vst": Row("v", "move", _assign),
    # vector, one operand
    "fill": Row("v", "move", _assign, given),
    "move": Row("v", "move", _assign),
    "cast": Row("v", "cast", _assign, casts=True),
    "adds": Row("v", "unary", _into(np.add)),
    "muls": Row("v", "unary", _into(np.multiply)),
    "maxs": Row("v", "unary", _into(np.maximum)),
    "mins": Row("v", "unary", _into(np.minimum)),
    "abs": Row("v", "unary", _into(np.abs)),
    "rint": Row("v", "cast", _rounded),
    "exp": Row("v", "transcendental", _into(np.exp)),
    "ln": Row("v", "transcendental", _into(np.log)),
    "sqrt": Row("v", "transcendental", _into(np.sqrt)),
    "rec": Row("v", "divide", _into(_reciprocal)),
    # vector, two operands
    "add": Row("v", "binary", _into(np.add)),
    "sub": Row("v", "binary", _into(np.subtract)),
    "mul": Row("v", "binary", _into(np.multiply)),
    "maximum": Row("v", "binary", _into(np.maximum)),
    "minimum": Row("v", "binary", _into(np.minimum)),
    "div": Row("v", "divide", _into(np.divide)),
    "divs": Row("v", "divide", _into(np.divide)),
    # vector, one value of the second operand for every row of the first
    "sub_rows": Row("v", "binary", _by_row(np.subtract), by_row),
    "mul_rows": Row("v", "binary", _by_row(np.multiply), by_row),
    "div_rows": Row("v", "divide", _by_row(np.divide), by_row),
    # vector, three operands: the second where the first is not 0, else the third
    "select": Row("v", "select", _selected),
    # vector, reading the destination: out += a * b
    "madd": Row("v", "binary", _multiply_add, accumulates=True),
    "axpy": Row("v", "binary", _multiply_add, accumulates=True),
    # reductions and broadcasts
    "row_sum": Row("v", "reduce", _row_sum, last_axis_gone),
    "row_max": Row("v", "reduce", _row_max, last_axis_gone),
    "column_sum": Row("v", "reduce", _column_sum, first_axis_gone),
    "broadcast": Row("v", "broadcast", _broadcast_columns, given),
    # a binary counter of partial sums over tiles: push(counter, value, tile number), drain(row, counter, tiles)
    "push": Row("v", "binary", _push, given),
    "drain": Row("v", "binary", _drain, given, accumulates=True),
    # cube
    "clear": Row("m", "", _assign, given),
    "mmad": Row("m", "", _matmul_add, given, accumulates=True),
}
