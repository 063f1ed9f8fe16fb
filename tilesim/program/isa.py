"""The instruction table: one row an instruction, with all its facts but the price, which is a chip's.

A row has the pipe, the cost class that a chip file prices, the numpy meaning `meaning(out, *sources)`, the shapes of
operands and result and the mark that it also reads its destination. Operators consist of these instructions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilesim.program.signatures import Signature

Array = Any

ROUTES: dict[tuple[str, str], tuple[str, str]] = {
    ("gm", "ub"): ("gm_ub", "mte2"),
    ("ub", "gm"): ("ub_gm", "mte3"),
    ("gm", "l1"): ("gm_l1", "mte2"),
    ("l1", "l0a"): ("l1_l0a", "mte1"),
    ("l1", "l0b"): ("l1_l0b", "mte1"),
    ("l0c", "gm"): ("l0c_gm", "fixp"),
}
"""Routes of copies: (source space, destination space) -> (table in the chip file, pipe)."""

COPIES = ("copy", "copy_transposed")
"""The instructions whose pipe and price are those of a route."""

PIPES = {"vector": ("mte2", "v", "mte3"), "cube": ("mte2", "mte1", "m", "fixp")}
"""The pipes of a core, in the order in which data passes them."""

REGISTERS = "reg"
"""The space of vector registers: values of a fused vector function, without bytes of the unified buffer (arch 3510)."""

GLOBAL = "gm"
"""The memory that all cores share: tensors and workspace."""

SPACES = {"vector": ("ub",), "cube": ("l1", "l0a", "l0b", "l0c")}
"""The on-chip memories of a core."""


ELEMENTS = Signature.parsed("(*shape)->(*shape)")
WITH_VALUE = Signature.parsed("(*shape),()->(*shape)")
PAIRS = Signature.parsed("(*shape),(*shape)->(*shape)")
TRIPLES = Signature.parsed("(*shape),(*shape),(*shape)->(*shape)")
BY_ROW = Signature.parsed("(*rows,n),(*rows)->(*rows,n)")
TO_ROWS = Signature.parsed("(*rows,n)->(*rows)")
FILLED = Signature.parsed("()->(*shape)")


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction. `cost` names a table of the chip file; `accumulates` says that it reads its destination.

    `casts` says that operands and result may differ in dtype, `spaces` the memories of both where they are fixed.
    """

    pipe: str
    cost: str
    meaning: Callable[..., None]
    shapes: Signature = ELEMENTS
    accumulates: bool = False
    casts: bool = False
    spaces: tuple[str, ...] = ()


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
        function(x, row.reshape(*x.shape[:-1], 1), out=out)

    return meaning


def _column_sum(out: Array, x: Array) -> None:
    """Add pairwise by halves from a power of two, as the vector cores fold a column; no running sum, so no drift."""
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
    """Add `value` to a binary counter of partial sums: a carry joins two of one level, so that no sum grows long."""
    total, level = value.copy(), 0
    while int(index) >> level & 1:
        total += out[level]
        level += 1
    out[level] = total


def _drain(out: Array, counter: Array, count: float) -> None:
    """Add the levels that a counter holds after `count` values, smallest first."""
    for level in range(len(counter)):
        if int(count) >> level & 1:
            out += counter[level]


ISA: dict[str, Row] = {
    # copies: pipe and price come from the route between the two memories
    "copy": Row("", "", _assign),
    "copy_transposed": Row("", "", _transposed, Signature.parsed("(m,n)->(n,m)")),
    # vector registers, inside a fused vector function
    "vld": Row("v", "move", _assign, spaces=("ub", REGISTERS)),
    "vst": Row("v", "move", _assign, spaces=(REGISTERS, "ub")),
    # vector, one operand, or one and a value
    "fill": Row("v", "move", _assign, FILLED),
    "move": Row("v", "move", _assign),
    "cast": Row("v", "cast", _assign, casts=True),
    "adds": Row("v", "unary", _into(np.add), WITH_VALUE),
    "muls": Row("v", "unary", _into(np.multiply), WITH_VALUE),
    "maxs": Row("v", "unary", _into(np.maximum), WITH_VALUE),
    "mins": Row("v", "unary", _into(np.minimum), WITH_VALUE),
    "divs": Row("v", "divide", _into(np.divide), WITH_VALUE),
    "abs": Row("v", "unary", _into(np.abs)),
    "rint": Row("v", "cast", _rounded),
    "exp": Row("v", "transcendental", _into(np.exp)),
    "ln": Row("v", "transcendental", _into(np.log)),
    "sqrt": Row("v", "transcendental", _into(np.sqrt)),
    "rec": Row("v", "divide", _into(_reciprocal)),
    # vector, two operands
    "add": Row("v", "binary", _into(np.add), PAIRS),
    "sub": Row("v", "binary", _into(np.subtract), PAIRS),
    "mul": Row("v", "binary", _into(np.multiply), PAIRS),
    "maximum": Row("v", "binary", _into(np.maximum), PAIRS),
    "minimum": Row("v", "binary", _into(np.minimum), PAIRS),
    "div": Row("v", "divide", _into(np.divide), PAIRS),
    # vector, one value of the second operand for every row of the first
    "sub_rows": Row("v", "binary", _by_row(np.subtract), BY_ROW),
    "mul_rows": Row("v", "binary", _by_row(np.multiply), BY_ROW),
    "div_rows": Row("v", "divide", _by_row(np.divide), BY_ROW),
    # vector, three operands: the second where the first is not 0, else the third
    "select": Row("v", "select", _selected, TRIPLES),
    # vector, reading the destination: out += a * b
    "madd": Row("v", "binary", _multiply_add, PAIRS, accumulates=True),
    "axpy": Row("v", "binary", _multiply_add, WITH_VALUE, accumulates=True),
    # reductions and broadcasts
    "row_sum": Row("v", "reduce", _row_sum, TO_ROWS),
    "row_max": Row("v", "reduce", _row_max, TO_ROWS),
    "column_sum": Row("v", "reduce", _column_sum, Signature.parsed("(rows,n)->(n)")),
    "broadcast": Row("v", "broadcast", _broadcast_columns, Signature.parsed("(*rows)->(*rows,n)")),
    # a binary counter of partial sums over tiles: push(counter, value, tile number), drain(row, counter, tiles)
    "push": Row("v", "binary", _push, Signature.parsed("(*shape),()->(level,*shape)")),
    "drain": Row("v", "binary", _drain, Signature.parsed("(level,*shape),()->(*shape)"), accumulates=True),
    # cube
    "clear": Row("m", "", _assign, FILLED, spaces=("l0c",)),
    "mmad": Row(
        "m",
        "",
        _matmul_add,
        Signature.parsed("(m,k),(k,n)->(m,n)"),
        accumulates=True,
        casts=True,
        spaces=("l0a", "l0b", "l0c"),
    ),
}
