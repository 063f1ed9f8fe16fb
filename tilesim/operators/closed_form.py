"""What references are made of: results of an operator in float64 from formulas alone, not from its tile program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = Any
Arrays = Mapping[str, Array]
"""Tensors by their documents' names."""
Numbers = Mapping[str, int | float]
"""Attributes and dims by name."""
ClosedForm = Callable[[Arrays, Numbers], Arrays]
"""From inputs in float64 (a mask stays bool) to outputs in float64."""


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), to full relative accuracy and without overflow at any x; 1 - s(x) is s(-x)."""
    return np.exp(-np.logaddexp(0.0, -x))


def of_magnitudes(form: ClosedForm) -> ClosedForm:
    """The closed form applied to absolute values: of a sum of products, the sum of their absolute values."""
    return lambda given, numbers: form({name: abs(x) for name, x in given.items()}, numbers)
