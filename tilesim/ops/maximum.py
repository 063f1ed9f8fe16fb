"""The greater element of two tensors of one shape."""

from __future__ import annotations

from tilesim.pointwise import LAYOUT, pointwise, two_operands, with_integers

maximum = pointwise(
    "maximum",
    two_operands("maximum"),
    about="greater element of two tensors",
    inputs="x1 x2",
    options=LAYOUT,
    families=with_integers("int32", "int64", "int8"),
)
