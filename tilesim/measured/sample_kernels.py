"""Published samples that belong to no shipped operator: copies into the unified buffer alone, and no work at all."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from tilesim.kernels.elementwise import FAMILIES
from tilesim.operators.operator import Argument, Dimension, Operator, Option
from tilesim.operators.rules import dtype_supported, not_null
from tilesim.program.recorder import Kernel
from tilesim.program.sizes import dim
from tilesim.program.units import BLOCK_BYTES

ROWS, COLUMNS, PASSES = dim("R"), dim("C"), dim("P")
BLOCK = BLOCK_BYTES // 2
"""16-bit elements of a block."""


@dataclass(frozen=True)
class EmptyKernel:
    """The call of a kernel without work, which only launches."""

    cores: int
    note: ClassVar[str] = ""
    own_class: ClassVar[str] = ""
    accuracy_class: ClassVar[str] = ""


@functools.lru_cache
def copy_in(*, together: bool = False) -> Operator:
    """Return the operator that copies a matrix in, tile by tile.

    With `together` every core copies all of it, in one order, in P passes.

    A kernel has to read every buffer, so it reads one block of the last tile of every row, and nothing of the tiles
    before it.
    """

    def kernel(k: Kernel) -> None:
        with k.vector("copy_in", "reads only") as p:
            rows, columns = p.tile("rows", ROWS), p.tile("columns", COLUMNS)
            sink = p.buffer("sink", (1, BLOCK), k.dtype)
            seen = p.fill(0.0, out=sink)
            target = k.workspace("seen", (p.cores, BLOCK), k.dtype)
            for _ in p.loop("pass", PASSES, split="block", carry=(sink,)) if together else (None,):
                for r in p.loop("row", ROWS, rows, split="" if together else "block", carry=(sink,)):
                    slots = 2 if k.options["double_buffer"] else 1
                    x = p.buffer("xIn", (rows, columns), k.dtype, slots=slots)
                    for c in p.loop("column", COLUMNS, columns, carry=(x,)):
                        p.load(k["x"][r, c], out=x[: r.size, : c.size])
                    seen = p.maximum(seen, p.read(x)[:1, :BLOCK], out=sink)
            p.store(seen[0], target[p.core])

    return Operator(
        name="copy_in",
        api="",
        about="a matrix read into the unified buffer",
        dims=(Dimension("R"), Dimension("C"), *((Dimension("P"),) if together else ())),
        tensors=(Argument("x", "R C"),),
        lead="x",
        dtypes=FAMILIES,
        dtype="float16",
        options=(Option("double_buffer"),),
        rules=(*not_null("x"), dtype_supported("x")),
        kernel=kernel,
    )
