"""The sum of two tensors of one shape."""

from __future__ import annotations

from tilesim.pointwise import LAYOUT, pointwise, two_operands, with_integers

add = pointwise(
    "add",
    two_operands("add"),
    about="sum of two tensors",
    inputs="x1 x2",
    options=LAYOUT,
    families=with_integers("int32"),
)
