"""The matrix product x1 @ x2, summed in float32; the result has the dtype of the factors, or float32."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tilesim.chip.chip import Chip
from tilesim.kernels import EMPTY, FAMILIES, Kernel
from tilesim.kernels import matrix_product as cube
from tilesim.operators import (
    PARAM_INVALID,
    UNKNOWN,
    Argument,
    Arrays,
    Call,
    Dimension,
    KernelCall,
    KernelRow,
    Numbers,
    OneOf,
    Operator,
    Option,
    Rule,
    SameWord,
    Sample,
    Texts,
    Unmapped,
    absent,
    any_of,
    call_of_shapes,
    dtype_of,
    dtype_same,
    dtype_supported,
    not_null,
    rank,
    result,
    shape,
)

M, K, N = Dimension("M", least=0), Dimension("K"), Dimension("N", least=0)
WIDE = "float32 result"
ACCURACY_CLASS = "matmul"
TILING_BYTES = 200
"""The tiling data of a product, 50 numbers of 32 bits. Source: vendor's header, TCubeTiling."""


def variant(call: Call, _: Chip) -> str:
    """EMPTY for a result without elements, WIDE for a float32 result of other factors, else ""."""
    if not call.dims.get("M", 1) * call.dims.get("N", 1):
        return EMPTY
    y = call.spec("y")
    return WIDE if y is not None and y.dtype == "float32" and call.dtype != "float32" else ""


def kernel(k: Kernel) -> None:
    """Record the phase; a result without elements launches nothing."""
    if k.variant == EMPTY:
        k.route = EMPTY
        return
    y = replace(k["y"], dtype="float32") if k.variant == WIDE else k["y"]
    cube.matmul(k, "matmul", k["x1"], k["x2"], y)


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The product in float64."""
    return {"y": given["x1"] @ given["x2"]}


def result_dtype() -> Rule:
    """The rule that the result has the dtype of the factors, or float32."""

    def texts(call: Call, _: Chip) -> Texts:
        x, y = call.spec("x1"), call.spec("y")
        return Texts(f"{x.dtype} or float32" if x else UNKNOWN, y.dtype if x and y else UNKNOWN)

    y = dtype_of("y")
    condition = any_of(absent("x1", "y"), SameWord(y, dtype_of("x1")), OneOf(y, ("float32",)))
    return Rule("y dtype", PARAM_INVALID, condition, "y", texts)


@functools.lru_cache
def product(*, transpose1: bool = False, transpose2: bool = False) -> Operator:
    """Return the operator of a matrix product whose factors may be stored transposed.

    Options: `double_buffer` of L1, `unit_flag` (a result leaves L0C while the next one begins), `wide` (float32
    result), `reads_tiling` (every core reads the tiling data first).
    """

    def kernel(k: Kernel) -> None:
        k.tiling_bytes = TILING_BYTES if k.options["reads_tiling"] else 0
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
        accuracy_class=ACCURACY_CLASS,
    )


def kernel_call(row: KernelRow) -> KernelCall:
    """Return the call of a measured product, with its factors transposed as the shape of its result requires."""
    call = call_of_shapes(matmul, row)
    if row.variant:
        return _sample_call(row, call)
    if len(row.inputs) < 2 or any(len(shape) != 2 for shape in row.inputs[:2]):
        raise Unmapped("not a product of two matrices")
    if any(len(shape) > 1 for shape in row.inputs[2:]):
        raise Unmapped("a third matrix is added in the same kernel")
    (a0, a1), (b0, b1) = row.inputs[:2]
    expected = tuple(row.outputs[0]) if row.outputs else None
    for transpose1, transpose2 in itertools.product((False, True), repeat=2):
        m, k = (a1, a0) if transpose1 else (a0, a1)
        inner, n = (b1, b0) if transpose2 else (b0, b1)
        if k == inner and expected in (None, (m, n)):
            plain = not transpose1 and not transpose2
            operator = matmul if plain else product(transpose1=transpose1, transpose2=transpose2)
            return replace(call, operator=operator, given=_factors(row))
    raise Unmapped(f"shapes {list(row.inputs[0])} and {list(row.inputs[1])} cannot be multiplied")


def _factors(row: KernelRow) -> Mapping[str, Any]:
    return {"x1": row.inputs[0], "x2": row.inputs[1]}


class SampleStep(NamedTuple):
    """One step of the vendor's published sample, which optimises a product in steps."""

    depth: int
    """Elements of k in L1."""
    double_buffer: bool = False
    unit_flag: bool = False
    reads_tiling: bool = True
    """True if the cores read the tiling data, False where the compiler knows them."""
    cache_order: bool = False
    """True if the order of the tiles keeps data that is read again in the L2 cache."""


STEPS: Sequence[SampleStep] = (
    *[SampleStep(64)] * 4,
    SampleStep(128, double_buffer=True),
    SampleStep(256, double_buffer=True),
    SampleStep(256, double_buffer=True, cache_order=True),
    SampleStep(256, double_buffer=True, cache_order=True, reads_tiling=False),
    SampleStep(256, double_buffer=True, cache_order=True, reads_tiling=False, unit_flag=True),
)
"""The steps of the sample, by their number."""
LAST_PLAIN_STEP = 5
"""The step of a sample whose record states none: the one with a float32 result."""


def sample_variant(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the step of the published sample, and `wide=true` for a result wider than its factors, from its record."""
    step = re.search(r"Case (\d)", str(record.get("notes") or ""))
    dtypes = record["dtype"] if isinstance(record.get("dtype"), dict) else {}
    inputs = dtypes.get("inputs") or ["float32"]
    wide = dtypes.get("outputs") == ["float32"] != inputs[:1]
    return {"step": int(step.group(1)) if step else LAST_PLAIN_STEP} | ({"wide": "true"} if wide else {})


def _sample_call(row: KernelRow, call: KernelCall) -> KernelCall:
    """The call of a step of the published sample."""
    number = int(row.variant["step"])
    step = STEPS[number]
    side = (256, 256) if row.chip.startswith("ascend950") else (128, 256)
    m, n = (64, 64) if number == 0 else side
    options = {
        "double_buffer": step.double_buffer,
        "unit_flag": step.unit_flag,
        "wide": row.variant.get("wide") == "true",
        "reads_tiling": step.reads_tiling,
    }
    # The unit flag hands L0C over block by block, which is as good as a second one.
    memories = {"memory.l0c.size_bytes": 2 * m * n * 4} if step.unit_flag else {}
    if step.cache_order:  # data that it reads again hits the cache, as if the cache held everything
        memories["memory.l2.size_bytes"] = 4 * sum(math.prod(shape) for shape in row.inputs)
    return replace(
        call,
        operator=product(transpose2=True),
        given=_factors(row),
        tiles={"m": m, "n": n, "k1": step.depth, "cores": int(row.variant.get("cores", 1))},
        options=options,
        memories=memories,
        whole_buffer=False,
    )


matmul = Operator(
    name="matmul",
    api="aclnnMatmul",
    about="matrix product",
    dims=(M, K, N),
    tensors=(Argument("x1", "M K", alias="self"), Argument("x2", "K N", alias="mat2"), result("y", "M N", alias="out")),
    lead="x1",
    dtypes=FAMILIES,
    dtype="float16",
    rules=(
        *not_null("x1", "x2", "y"),
        dtype_supported("x1"),
        dtype_same("x2", "x1"),
        result_dtype(),
        rank("x1", 2),
        rank("x2", 2),
        shape("x2"),
        shape("y"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variant,
    kernel_names=("Matmul", "MatMulV2", "MatMulV3", "Gemm"),
    accuracy_class=ACCURACY_CLASS,
    kernel_call=kernel_call,
    sample=Sample("Matmul", sample_variant),
)
