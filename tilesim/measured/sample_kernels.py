"""Kernels of vendors' samples that were measured and that no library operator is: copies in, sums, products by choice.

Not shipped as operators: they exist so that measured variants (tiles, buffers, layouts) can be predicted.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tilesim.kernels import matrix_product as cube
from tilesim.kernels.broadcast import CHOICES, two_operands, variant
from tilesim.kernels.elementwise import FAMILIES
from tilesim.operators.operator import Argument, Dimension, Operator, Option, result
from tilesim.operators.rules import dtype_supported, not_null, shape
from tilesim.program.recorder import Kernel
from tilesim.program.sizes import dim
from tilesim.program.units import BLOCK_BYTES

ROWS, COLUMNS, PASSES = dim("R"), dim("C"), dim("P")
BLOCK = BLOCK_BYTES // 2
"""16-bit elements of a block."""
CUBE_TILING_BYTES = 200
"""The tiling data of a product, 50 numbers of 32 bits. Source: vendor's header, TCubeTiling."""


@functools.lru_cache
def copy_in(*, together: bool = False) -> Operator:
    """The operator that copies a matrix in, tile by tile; `together`: every core all of it, in one order, in P passes.

    No kernel may have a buffer that nothing reads, so one block of the last tile of every row is read; nothing of the
    tiles before it is.
    """

    def kernel(k: Kernel) -> None:
        with k.vector("copy_in", "reads only") as p:
            rows, columns = p.tile("rows", ROWS), p.tile("columns", COLUMNS)
            sink = p.buffer("sink", (1, BLOCK), k.dtype)
            seen = p.fill(0.0, out=sink)
            kept = k.workspace("seen", (p.cores, BLOCK), k.dtype)
            for _ in p.loop("pass", PASSES, split="block", carry=(sink,)) if together else (None,):
                for r in p.loop("row", ROWS, rows, split="" if together else "block", carry=(sink,)):
                    slots = 2 if k.options["double_buffer"] else 1
                    x = p.buffer("xIn", (rows, columns), k.dtype, slots=slots)
                    for c in p.loop("column", COLUMNS, columns, carry=(x,)):
                        p.load(k["x"][r, c], out=x[: r.size, : c.size])
                    seen = p.maximum(seen, p.read(x)[:1, :BLOCK], out=sink)
            p.store(seen[0], kept[p.core])

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


@functools.lru_cache
def sum_of_rows() -> Operator:
    """The operator of a sum of two matrices of which every core has whole rows; options as of `add`.

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
        kernel=two_operands("add", "adds", share=COLUMNS),
        variant=variant,
    )


@functools.lru_cache
def product(*, transpose1: bool = False, transpose2: bool = False) -> Operator:
    """The operator of a matrix product whose factors may be stored transposed.

    Options: `double_buffer` of L1, `unit_flag` (a result leaves L0C while the next begins), `wide` (float32 result),
    `reads_tiling` (every core reads the tiling data first).
    """

    def kernel(k: Kernel) -> None:
        k.tiling_bytes = CUBE_TILING_BYTES if k.options["reads_tiling"] else 0
        cube.matmul(
            k,
            "matmul",
            k["x1"],
            k["x2"],
            replace(k["y"], dtype="float32") if k.options["wide"] else k["y"],
            transpose_a=transpose1,
            transpose_b=transpose2,
            l1_slots=2 if k.options["double_buffer"] else 1,
            l0c_slots=2 if k.options["unit_flag"] else 1,
        )

    return Operator(
        name="matmul",
        api="aclnnMatmul",
        about="matrix product",
        dims=(Dimension("M"), Dimension("K"), Dimension("N")),
        tensors=(
            Argument("x1", "K M" if transpose1 else "M K"),
            Argument("x2", "N K" if transpose2 else "K N"),
            result("y", "M N"),
        ),
        lead="x1",
        dtypes=FAMILIES,
        dtype="float16",
        options=(Option("double_buffer"), *(Option(o, default=False) for o in ("unit_flag", "wide", "reads_tiling"))),
        rules=(*not_null("x1", "x2"), dtype_supported("x1"), shape("x2")),
        kernel=kernel,
    )
