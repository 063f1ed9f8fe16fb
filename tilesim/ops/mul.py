"""The product of two tensors of one shape."""

from __future__ import annotations

from tilesim.pointwise import LAYOUT, pointwise, two_operands, with_integers

mul = pointwise(
    "mul",
    two_operands("mul"),
    about="product of two tensors",
    inputs="x1 x2",
    options=LAYOUT,
    families=with_integers("int32"),
)
