"""The product of two tensors of one shape."""

from __future__ import annotations

from tilesim.closed_form import Arrays, Numbers
from tilesim.pointwise import LAYOUT, pointwise, two_operands, with_integers


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": given["x1"] * given["x2"]}


mul = pointwise(
    "mul",
    two_operands("mul"),
    about="product of two tensors",
    inputs="x1 x2",
    options=LAYOUT,
    reference=reference,
    families=with_integers("int32"),
)
