"""Differences of results from references in float64, and their tolerances.

fro is |e| / |ref| over the tensor; t is max |e| / (|ref| + rms(ref)), which stays meaningful next to zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilesim.program.dtypes import is_float, numpy_dtype

Array = Any


@dataclass(frozen=True)
class Tolerance:
    """The largest `fro` and `t` of a tensor, or at each element `ulps` of its dtype plus `share` of a magnitude.

    The operator states the magnitude: the sum of the absolute terms of a sum, or the factor of a cancellation.
    """

    source: str
    fro: float = math.inf
    t: float = math.inf
    ulps: float = math.inf
    share: float = 0.0

    def __str__(self) -> str:
        """Return the tolerance as text: `fro 0.005, t 0.04` or `0.55 ulp + 1e-06 of the magnitude`."""
        if self.ulps < math.inf:
            return f"{self.ulps:g} ulp + {self.share:g} of the magnitude"
        return f"fro {self.fro:g}, t {self.t:g}"


@dataclass(frozen=True)
class Difference:
    """The difference of one output from its reference."""

    output: str
    max_abs: float
    fro: float
    t: float
    worst: float
    """The largest error of an element relative to its tolerance; 0 if only fro and t count."""
    tolerance: Tolerance

    @property
    def ok(self) -> bool:
        """True if every measure is within its tolerance; False for NaN."""
        return self.fro <= self.tolerance.fro and self.t <= self.tolerance.t and self.worst <= 1

    def __str__(self) -> str:
        """Return one line with the measures and the tolerance."""
        measures = f"max |e| {self.max_abs:.3g}, fro {self.fro:.3g}, t {self.t:.3g}"
        return f"{self.output}: {measures}; {'within' if self.ok else 'beyond'} {self.tolerance}"


def usual(dtype: str) -> Tolerance:
    """Return the tolerance of an operator that states none."""
    fro, t = {"bfloat16": (5e-3, 4e-2), "float16": (6e-4, 5e-3), "float32": (1e-5, 1e-4)}.get(dtype, (1e-12, 1e-11))
    return Tolerance("a few roundings of the dtype", fro, t)


def difference(
    name: str, actual: Array, expected: Array, dtype: str, tolerance: Tolerance, magnitude: Array | None = None
) -> Difference:
    """Return the difference of `actual` in `dtype` from `expected` in float64, of the same shape.

    Infinity is right for a reference beyond the largest number of a float dtype. An element whose reference and
    magnitude are zero must be zero. An element whose reference is NaN is not compared.
    """
    result, ref = np.asarray(actual).astype(np.float64), np.asarray(expected, dtype=np.float64)
    stated = ~np.isnan(ref)
    result, ref = np.where(stated, result, 0.0), np.where(stated, ref, 0.0)
    beyond = (np.abs(ref) > _largest(dtype)) & np.isinf(result) & (np.sign(ref) == np.sign(result))
    error, ref = np.where(beyond, 0.0, np.abs(result - np.where(beyond, result, ref))), np.where(beyond, 0.0, ref)
    worst = 0.0
    if tolerance.ulps < math.inf:
        size = np.abs(ref) if magnitude is None else magnitude
        allowed = tolerance.ulps * np.where(ref == 0, 0.0, ulp(ref, dtype)) + tolerance.share * size
        ratio = np.divide(error, allowed, out=np.full(error.shape, np.inf), where=allowed > 0)
        worst = float(np.max(np.where(error == 0, 0.0, ratio), initial=0.0))
    rms = float(np.sqrt(np.mean(ref**2))) if ref.size else 0.0
    ref_norm, error_norm = float(np.linalg.norm(ref)), float(np.linalg.norm(error))
    scale = np.abs(ref) + rms
    t = float(np.max(error / scale, initial=0.0)) if rms else _zero_or_infinite(error_norm)
    fro = error_norm / ref_norm if ref_norm else _zero_or_infinite(error_norm)
    return Difference(name, float(np.max(error, initial=0.0)), fro, t, worst, tolerance)


def _zero_or_infinite(error: float) -> float:
    return 0.0 if error == 0 else math.inf


def ulp(values: Array, dtype: str) -> Array:
    """Return the distance between neighbouring numbers of a float dtype at each value."""
    info = _format(dtype)
    exponent = np.maximum(np.frexp(values)[1] - 1, int(info.minexp))
    return np.ldexp(1.0, exponent - int(info.nmant))


def _largest(dtype: str) -> float:
    return float(_format(dtype).max) if is_float(dtype) else math.inf


def _format(dtype: str) -> Any:
    return ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]


Arrays = Mapping[str, Array]
"""Tensors by their documents' names."""

Numbers = Mapping[str, int | float]
"""Attributes, dims and the sizes of a plan by name."""

ClosedForm = Callable[[Arrays, Numbers], Arrays]
"""A function from inputs in float64 (a mask stays bool) to outputs in float64."""


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), to full relative accuracy and without overflow at any x; 1 - s(x) is s(-x)."""
    return np.exp(-np.logaddexp(0.0, -x))


def of_magnitudes(form: ClosedForm) -> ClosedForm:
    """Return the closed form of absolute values: for a sum of products, the sum of their absolute values."""
    return lambda given, numbers: form({name: abs(x) for name, x in given.items()}, numbers)
