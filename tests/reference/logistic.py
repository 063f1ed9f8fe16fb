"""The logistic function and its complement, both to full relative accuracy at any argument."""

from __future__ import annotations

import numpy as np

from tests.reference.formats import Array


def logistic(values: Array) -> tuple[Array, Array]:
    """Return s(values) and 1 - s(values).

    Only exp(-|v|) is taken, which can not overflow, and the complement is a quotient of its own, because the
    difference 1 - s loses every digit once s rounds to 1.
    """
    decay = np.exp(-np.abs(values))
    near, far = 1.0 / (1.0 + decay), decay / (1.0 + decay)
    return np.where(values >= 0, near, far), np.where(values >= 0, far, near)
