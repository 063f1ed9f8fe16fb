"""The greater element of two tensors of one shape."""

from __future__ import annotations

import numpy as np

from tilesim.closed_form import Arrays, Numbers
from tilesim.pointwise import LAYOUT, pointwise, two_operands, with_integers


def reference(given: Arrays, _: Numbers) -> Arrays:
    """The result in float64."""
    return {"y": np.maximum(given["x1"], given["x2"])}


maximum = pointwise(
    "maximum",
    two_operands("maximum"),
    about="greater element of two tensors",
    inputs="x1 x2",
    options=LAYOUT,
    reference=reference,
    families=with_integers("int32", "int64", "int8"),
)
