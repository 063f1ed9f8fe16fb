"""Gradients of a masked, causal, depthwise convolution over tokens, of width 3.

Source: the vendor's document of aclnnMaskedCausalConv1dBackward, and its public host code of 2026-08-21: the first call
looks for null, then at the dtypes of the operator definition, then runs the tiling, whose own order is another.
"""

from __future__ import annotations

from tilesim.chip import Chip
from tilesim.operator import Argument, Call, Dimension, Operator, Option, Outcome, Rule, result
from tilesim.program import Kernel
from tilesim.rules import (
    about,
    axis,
    dtype_is,
    dtype_same,
    dtype_supported,
    in_range,
    multiple,
    not_null,
    product_at_most,
    rank,
    shape,
)
from tilesim.status import SUCCESS, TILING_ERROR

S = Dimension("S")
B = Dimension("B", most=32)
H = Dimension("H", least=384, most=24576, multiple_of=64)
W = Dimension("W", least=3, most=3, default=3)

MOST_TOKENS = 524288
"""Of all sequences together, S*B."""
KEPT_BYTES = 8192
"""What the tiling leaves of the unified buffer to the library."""


def kernel(k: Kernel) -> None:
    """The tile program."""


def _something_left(_: Call, chip: Chip) -> Outcome:
    visible = chip.memory.ub.visible_bytes
    return Outcome(visible > KEPT_BYTES, f"more than {KEPT_BYTES} B of ub", f"{visible} B")


def ub_left(place: int) -> Rule:
    """The rule that the unified buffer is larger than what is kept back."""
    return Rule("ub", TILING_ERROR, _something_left, "platform", tiling=(place, "ub"))


def tokens_exist(parameter: str, place: int) -> Rule:
    """The rule that S is not 0, which the vendor's checks let through."""
    expected = "at least 1; the vendor's code would divide by zero"
    return about(("S",), "S range", expected, lambda s: (s >= 1, s), parameter, TILING_ERROR, (place, "empty"))


masked_causal_conv1d_backward = Operator(
    name="masked_causal_conv1d_backward",
    api="aclnnMaskedCausalConv1dBackward",
    about="gradients of a masked causal depthwise convolution over tokens",
    dims=(S, B, H, W),
    tensors=(
        Argument("gradY", "S B H"),
        Argument("x", "S B H"),
        Argument("weight", "W H"),
        Argument("mask", "B S", dtype="bool", option="mask", alias="maskOptional"),
        result("gradX", "S B H", alias="gradXOut"),
        result("gradWeight", "W H", alias="gradWeightOut"),
    ),
    lead="gradY",
    options=(Option("mask", default=False),),
    dtypes={"950": ("bfloat16", "float16")},
    dtype="bfloat16",
    rules=(
        *not_null("gradY", "x", "weight", "gradX", "gradWeight"),
        dtype_supported("gradY", tiling=(14, "dtype")),
        dtype_same("x", "gradY", tiling=(15, "dtype")),
        dtype_same("weight", "gradY", tiling=(16, "dtype")),
        dtype_is("mask", "bool", tiling=(17, "dtype")),
        dtype_same("gradX", "gradY"),
        dtype_same("gradWeight", "gradY"),
        rank("gradY", 3, status=TILING_ERROR, tiling=(1, "rank")),
        in_range(B, "gradY", status=TILING_ERROR, tiling=(2, "batch")),
        product_at_most(("S", "B"), MOST_TOKENS, "gradY", status=TILING_ERROR, tiling=(3, "batch-times-seq")),
        in_range(H, "gradY", status=TILING_ERROR, tiling=(4, "hidden-range")),
        multiple(H, "gradY", status=TILING_ERROR, tiling=(5, "hidden-multiple")),
        rank("x", 3, status=TILING_ERROR, tiling=(6, "rank")),
        shape("x", status=TILING_ERROR, tiling=(7, "shape")),
        rank("weight", 2, status=TILING_ERROR, tiling=(8, "rank")),
        in_range(W, "weight", status=TILING_ERROR, tiling=(9, "width")),
        axis("weight", 1, "H", status=TILING_ERROR, tiling=(10, "columns")),
        rank("mask", 2, status=TILING_ERROR, tiling=(11, "rank")),
        axis("mask", 0, "B", status=TILING_ERROR, tiling=(12, "rows")),
        axis("mask", 1, "S", status=TILING_ERROR, tiling=(13, "columns")),
        ub_left(18),
        tokens_exist("gradY", 19),
    ),
    kernel=kernel,
    # The tiling keeps one row even where that does not fit, so the first call succeeds.
    overflow=SUCCESS,
)
