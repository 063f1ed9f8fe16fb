"""The gated linear unit: the first half of `self` along one axis times the sigmoid of the second.

Source: the vendor's document of aclnnGlu and its public host code (ops-nn, activation/sigmoid) for the order of the
checks. The result may have another dtype than `self` if `self` can be cast to it, as every float can.
"""

from __future__ import annotations

from tilesim.operator import Argument, Attribute, Operator, result
from tilesim.ops.glu_backward import DTYPES, MOST_AXES, N, X, Y, dim_in_range, even, sizes_exist
from tilesim.program import Kernel
from tilesim.rules import dtype_supported, not_null, rank, shape


def kernel(k: Kernel) -> None:
    """The tile program."""


glu = Operator(
    name="glu",
    api="aclnnGlu",
    about="gated linear unit",
    dims=(X, N, Y),
    tensors=(Argument("self", "*X 2*N *Y"), result("out", "*X N *Y")),
    lead="self",
    attributes=(Attribute("dim", default=-1),),
    split="dim",
    dtypes=DTYPES,
    dtype="float32",
    rules=(
        *not_null("self", "out"),
        dtype_supported("self"),
        dtype_supported("out"),
        rank("self", 0, MOST_AXES),
        rank("out", 0, MOST_AXES),
        rank("self", 1, MOST_AXES),
        sizes_exist,
        dim_in_range,
        even,
        shape("out"),
    ),
    kernel=kernel,
)
