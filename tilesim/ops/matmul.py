"""The matrix product x1 @ x2, summed in float32; the result has the dtype of the factors, or float32."""

from __future__ import annotations

from dataclasses import replace

from tilesim.chip.chip import Chip
from tilesim.kernels import matrix_product as cube
from tilesim.kernels.elementwise import FAMILIES
from tilesim.operators.operator import Argument, Call, Dimension, Operator, Outcome, Rule, result
from tilesim.operators.reference import Arrays, Numbers
from tilesim.operators.rules import UNKNOWN, dtype_same, dtype_supported, not_null, rank, shape
from tilesim.operators.status import PARAM_INVALID
from tilesim.program.recorder import Kernel

M, K, N = Dimension("M", least=0), Dimension("K"), Dimension("N", least=0)
WIDE = "float32 result"


def variant(call: Call, _: Chip) -> str:
    """Whether the result is "empty", or float32 although the factors are not."""
    if not call.dims.get("M", 1) * call.dims.get("N", 1):
        return "empty"
    y = call.spec("y")
    return WIDE if y is not None and y.dtype == "float32" and call.dtype != "float32" else ""


def kernel(k: Kernel) -> None:
    """Record the phase; nothing is launched for no elements."""
    if k.variant == "empty":
        k.route = "empty"
        return
    y = replace(k["y"], dtype="float32") if k.variant == WIDE else k["y"]
    cube.matmul(k, "matmul", k["x1"], k["x2"], y)


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The product in float64."""
    return {"y": given["x1"] @ given["x2"]}


def _result_dtype(call: Call, _: Chip) -> Outcome:
    x, y = call.spec("x1"), call.spec("y")
    known = x is not None and y is not None
    ok = x is None or y is None or y.dtype in (x.dtype, "float32")
    return Outcome(ok, f"{x.dtype} or float32" if x else UNKNOWN, y.dtype if known and y else UNKNOWN)


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
        Rule("y dtype", PARAM_INVALID, _result_dtype, "y"),
        rank("x1", 2),
        rank("x2", 2),
        shape("x2"),
        shape("y"),
    ),
    kernel=kernel,
    reference=reference,
    variant=variant,
)
