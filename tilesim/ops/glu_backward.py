"""Gradient of GLU: both halves of `self` along one axis, from the gradient of a * sigmoid(b).

Source: the vendor's document of aclnnGluBackward, and its public host code (ops-nn, activation/glu_grad) for the order
of the checks, for which route runs and for the tiling. On the 950 family one kernel of its own runs; elsewhere, and for
float64, the call is composed of other operators.
"""

from __future__ import annotations

from tilesim.chip import Chip
from tilesim.dtypes import itemsize
from tilesim.operator import Argument, Attribute, Call, Dimension, Operator, Outcome, Rule, result
from tilesim.program import Kernel
from tilesim.rules import UNKNOWN, dtype_same, dtype_supported, not_null, rank, shape
from tilesim.shapes import INT64_MAX
from tilesim.status import PARAM_INVALID, TILING_ERROR

X = Dimension("X", least=0)
"""The product of the sizes before the axis that is split."""
N = Dimension("N", least=0)
"""Half of the axis that is split."""
Y = Dimension("Y", least=0)
"""The product of the sizes after it."""

MOST_AXES = 8
KEPT_BYTES = 8192
"""What the tiling leaves of the unified buffer to the library."""
WORDS_PER_ELEMENT = {"float32": 10, "float16": 14, "bfloat16": 14}
"""Words of 32 bits that the tiling counts for an element, or for two elements of 16 bits."""
WITH_BFLOAT16 = ("float32", "float16", "bfloat16", "float64")
FLOATS = ("float32", "float16", "float64")
DTYPES = {"950": WITH_BFLOAT16, "a3": WITH_BFLOAT16, "a2": WITH_BFLOAT16, "inference": FLOATS, "training": FLOATS}


def kernel(k: Kernel) -> None:
    """The tile program."""


def route(call: Call, chip: Chip) -> str:
    """Whether the vendor's own "kernel" runs, or a "composite" of other operators."""
    own = call.spec("self")
    return "kernel" if chip.family == "950" and (own.dtype if own else call.dtype) != "float64" else "composite"


def buffer_elements(dtype: str, ub_bytes: int) -> int:
    """Elements of one of the tiling's buffers in a unified buffer of `ub_bytes`; below 0 if less than is kept back."""
    per_word = 4 // itemsize(dtype)
    return (ub_bytes - KEPT_BYTES) // (WORDS_PER_ELEMENT[dtype] * 4) * per_word


def row_pitch(dtype: str, row: int) -> int:
    """Elements between rows of `row` elements in a buffer: a multiple of 32 bytes."""
    block = 32 // itemsize(dtype)
    return -(-row // block) * block


def _dim_in_range(call: Call, _: Chip) -> Outcome:
    own, dim = call.spec("self"), call.attributes["dim"]
    if own is None:
        return Outcome(ok=True, expected="an axis of self", given=str(dim))
    axes = len(own.shape)
    return Outcome(-axes <= dim < axes, f"{-axes}..{axes - 1}", str(dim))


def _even(call: Call, _: Chip) -> Outcome:
    own, dim = call.spec("self"), int(call.attributes["dim"])
    if own is None or not -len(own.shape) <= dim < len(own.shape):
        return Outcome(ok=True, expected="an even number", given=UNKNOWN)
    return Outcome(own.shape[dim] % 2 == 0, "an even number", str(own.shape[dim]))


def _sizes_exist(call: Call, _: Chip) -> Outcome:
    own = call.spec("self")
    ok = own is None or all(0 <= size <= INT64_MAX for size in own.shape)
    return Outcome(ok, f"each 0..{INT64_MAX}", str(list(own.shape)) if own else UNKNOWN)


def _tiled(call: Call, chip: Chip) -> bool:
    """Whether the tiling runs: on the kernel's route, for a tensor with elements."""
    return route(call, chip) == "kernel" and all(call.dims.values())


def _something_left(call: Call, chip: Chip) -> Outcome:
    visible = chip.memory.ub.visible_bytes
    return Outcome(not _tiled(call, chip) or visible > KEPT_BYTES, f"more than {KEPT_BYTES} B of ub", f"{visible} B")


def _a_row_fits(call: Call, chip: Chip) -> Outcome:
    expected = "at least 1; the vendor's code would divide by zero"
    ub, dims, own = chip.memory.ub.visible_bytes, call.dims, call.spec("self")
    dtype = own.dtype if own else call.dtype
    if not _tiled(call, chip) or not call.complete or dtype not in WORDS_PER_ELEMENT or ub <= KEPT_BYTES:
        return Outcome(ok=True, expected=expected, given="not counted")
    elements, row = buffer_elements(dtype, ub), dims["N"] * dims["Y"]
    pitch = row_pitch(dtype, row)
    if row > elements >= 1:
        return Outcome(ok=True, expected=expected, given=f"a part of a row, {elements} elements")
    given = f"{elements // pitch} (a row takes {pitch} elements, a buffer has {elements})"
    return Outcome(elements >= pitch, expected, given)


dim_in_range = Rule("dim range", PARAM_INVALID, _dim_in_range, "dim", tiling=(3, "dim-range"))
even = Rule("split axis even", PARAM_INVALID, _even, "self", tiling=(4, "odd-split"))
sizes_exist = Rule("self sizes", PARAM_INVALID, _sizes_exist, "self")

glu_backward = Operator(
    name="glu_backward",
    api="aclnnGluBackward",
    about="gradient of a gated linear unit",
    dims=(X, N, Y),
    tensors=(Argument("gradOut", "*X N *Y"), Argument("self", "*X 2*N *Y"), result("out", "*X 2*N *Y")),
    lead="self",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("self", "gradOut", "out"),
        dtype_supported("self", tiling=(2, "dtype")),
        dtype_same("gradOut", "self"),
        dtype_same("out", "self"),
        rank("self", 0, MOST_AXES),
        rank("out", 0, MOST_AXES),
        rank("gradOut", 0, MOST_AXES),
        rank("self", 1, MOST_AXES),
        sizes_exist,
        dim_in_range,
        even,
        shape("gradOut"),
        shape("out"),
        Rule("ub", TILING_ERROR, _something_left, "platform", tiling=(1, "ub")),
        Rule("rows of a buffer", TILING_ERROR, _a_row_fits, "platform", tiling=(5, "group")),
    ),
    kernel=kernel,
    variant=route,
)
