"""The greater element of two tensors whose shapes broadcast."""

from __future__ import annotations

import numpy as np

from tilesim.kernels import pointwise, with_integers
from tilesim.kernels.broadcast import CHOICES, axis_sizes, two_operands, variant
from tilesim.operators import Arrays, Numbers


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": np.maximum(given["x1"], given["x2"])}


maximum = pointwise(
    "maximum",
    two_operands("maximum", "maxs"),
    about="greater element of two tensors",
    inputs="x1 x2",
    options=CHOICES,
    spread=True,
    variant=variant,
    shape_sizes=axis_sizes,
    reference=reference,
    families=with_integers("int32", "int64", "int8"),
    kernel_names=("Maximum",),
    accuracy_class="elementwise",
)
