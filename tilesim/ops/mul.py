"""The product of two tensors whose shapes broadcast."""

from __future__ import annotations

from tilesim.kernels import pointwise, with_integers
from tilesim.kernels.broadcast import CHOICES, axis_sizes, two_operands, variant
from tilesim.operators import Arrays, Numbers


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": given["x1"] * given["x2"]}


mul = pointwise(
    "mul",
    two_operands("mul", "muls"),
    about="product of two tensors",
    inputs="x1 x2",
    options=CHOICES,
    spread=True,
    variant=variant,
    shape_sizes=axis_sizes,
    reference=reference,
    families=with_integers("int32"),
    kernel_names=("Mul",),
    accuracy_class="elementwise",
)
