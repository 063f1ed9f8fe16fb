"""A masked, causal, depthwise convolution over tokens, of width 3.

Source: the vendor's document of aclnnMaskedCausalConv1d (ops-transformer, attention/masked_causal_conv1d), which unlike
the backward's does not limit B by itself. The order of its tiling checks is taken from the backward.
"""

from __future__ import annotations

from tilesim.operator import Argument, Dimension, Operator, Option, result
from tilesim.ops.masked_causal_conv1d_backward import MOST_TOKENS, H, S, W, tokens_exist, ub_left
from tilesim.program import Kernel
from tilesim.rules import (
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
from tilesim.status import TILING_ERROR

B = Dimension("B")


def kernel(k: Kernel) -> None:
    """The tile program."""


masked_causal_conv1d = Operator(
    name="masked_causal_conv1d",
    api="aclnnMaskedCausalConv1d",
    about="masked causal depthwise convolution over tokens",
    dims=(S, B, H, W),
    tensors=(
        Argument("x", "S B H"),
        Argument("weight", "W H"),
        Argument("mask", "B S", dtype="bool", option="mask", alias="maskOptional"),
        result("out", "S B H"),
    ),
    lead="x",
    options=(Option("mask", default=False),),
    dtypes={"950": ("bfloat16", "float16")},
    dtype="bfloat16",
    rules=(
        *not_null("x", "weight", "out"),
        dtype_supported("x", tiling=(12, "dtype")),
        dtype_same("weight", "x", tiling=(13, "dtype")),
        dtype_is("mask", "bool", tiling=(14, "dtype")),
        dtype_same("out", "x"),
        rank("x", 3, status=TILING_ERROR, tiling=(1, "rank")),
        in_range(B, "x", status=TILING_ERROR, tiling=(2, "batch")),
        product_at_most(("S", "B"), MOST_TOKENS, "x", status=TILING_ERROR, tiling=(3, "batch-times-seq")),
        in_range(H, "x", status=TILING_ERROR, tiling=(4, "hidden-range")),
        multiple(H, "x", status=TILING_ERROR, tiling=(5, "hidden-multiple")),
        rank("weight", 2, status=TILING_ERROR, tiling=(6, "rank")),
        in_range(W, "weight", status=TILING_ERROR, tiling=(7, "width")),
        axis("weight", 1, "H", status=TILING_ERROR, tiling=(8, "columns")),
        rank("mask", 2, status=TILING_ERROR, tiling=(9, "rank")),
        axis("mask", 0, "B", status=TILING_ERROR, tiling=(10, "rows")),
        axis("mask", 1, "S", status=TILING_ERROR, tiling=(11, "columns")),
        shape("out", status=TILING_ERROR),
        ub_left(15),
        tokens_exist("x", 16),
    ),
    kernel=kernel,
)
