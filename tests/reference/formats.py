"""Rounding of float64 values to the narrower formats, and the spacing of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
Inputs = Mapping[str, AnyArray]
Outputs = dict[str, Array]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    `digits` counts the significant bits with the hidden one; `least_exponent` is the exponent of the smallest
    subnormal, and `greatest` the largest finite number.
    """

    digits: int
    least_exponent: int
    greatest: float


FORMATS = {
    "bfloat16": Format(8, -133, float(np.ldexp(255.0, 120))),
    "float16": Format(11, -24, 65504.0),
    "float32": Format(24, -149, float(np.finfo(np.float32).max)),
    "float64": Format(53, -1074, float(np.finfo(np.float64).max)),
}


def widened(values: npt.ArrayLike) -> Array:
    """Return the values as float64, which holds every narrower format exactly."""
    return np.asarray(values).astype(np.float64)


def _spacing_exponent(values: Array, dtype: str) -> npt.NDArray[np.int_]:
    """Return the exponent of the distance between neighbours of the format around each value."""
    form = FORMATS[dtype]
    exponent = np.frexp(values)[1].astype(np.int_) - form.digits
    return np.where(values == 0, form.least_exponent, np.maximum(exponent, form.least_exponent))


def ulp(values: npt.ArrayLike, dtype: str) -> Array:
    """Return the distance between neighbouring numbers of the format in the binade of each value."""
    return np.ldexp(1.0, _spacing_exponent(widened(values), dtype))


def rounded(values: npt.ArrayLike, dtype: str) -> Array:
    """Return the values rounded once to the format, to nearest with ties to even, as float64.

    Going through float32 instead would round twice and miss the nearest number close to ties.
    """
    wide = widened(values)
    if dtype == "float64":
        return wide
    exponent = _spacing_exponent(wide, dtype)
    nearest = np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent)
    return np.where(np.abs(nearest) > FORMATS[dtype].greatest, np.copysign(np.inf, wide), nearest)


def carried(values: npt.ArrayLike, dtype: str) -> AnyArray:
    """Return the values rounded to the format in the array type that carries it exactly: float32, or float64."""
    return rounded(values, dtype).astype(np.float64 if dtype == "float64" else np.float32)
