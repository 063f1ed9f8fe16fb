"""How far a result may be from its reference in float64, and how far it is.

fro is |e| / |ref| over the whole tensor; t is max |e| / (|ref| + rms(ref)), which stays meaningful next to zeros.
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
    """What is allowed: `fro` and `t` of a tensor, or at each element `ulps` of its dtype plus `share` of a magnitude.

    The magnitude is what the operator says: the sum of the absolute terms of a sum, or the factor of a cancellation.
    """

    source: str
    fro: float = math.inf
    t: float = math.inf
    ulps: float = math.inf
    share: float = 0.0

    def __str__(self) -> str:
        """What is allowed: `fro 0.005, t 0.04` or `0.55 ulp + 1e-06 of the magnitude`."""
        if self.ulps < math.inf:
            return f"{self.ulps:g} ulp + {self.share:g} of the magnitude"
        return f"fro {self.fro:g}, t {self.t:g}"


@dataclass(frozen=True)
class Difference:
    """How far one output is from its reference."""

    output: str
    max_abs: float
    fro: float
    t: float
    worst: float
    """The largest error of an element in units of what is allowed there; 0 where only fro and t count."""
    tolerance: Tolerance

    @property
    def ok(self) -> bool:
        """Whether all that counts is allowed; a NaN is not."""
        return self.fro <= self.tolerance.fro and self.t <= self.tolerance.t and self.worst <= 1

    def __str__(self) -> str:
        """One line with what was seen and what is allowed."""
        seen = f"max |e| {self.max_abs:.3g}, fro {self.fro:.3g}, t {self.t:.3g}"
        return f"{self.output}: {seen}; allowed {self.tolerance}{'' if self.ok else ', which it is not'}"


def usual(dtype: str) -> Tolerance:
    """The tolerance of an operator that states none."""
    fro, t = {"bfloat16": (5e-3, 4e-2), "float16": (6e-4, 5e-3), "float32": (1e-5, 1e-4)}.get(dtype, (1e-12, 1e-11))
    return Tolerance("a few roundings of the dtype", fro, t)


def difference(
    name: str, actual: Array, expected: Array, dtype: str, tolerance: Tolerance, magnitude: Array | None = None
) -> Difference:
    """How far `actual` in `dtype` is from `expected` in float64, of the same shape.

    Where the reference is beyond the largest number of a float dtype, infinity is right. Where an element's reference
    and magnitude are zero, it must be zero. Where the reference is NaN, a number says nothing about the element.
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
    size, off = float(np.linalg.norm(ref)), float(np.linalg.norm(error))
    scale = np.abs(ref) + rms
    t = float(np.max(error / scale, initial=0.0)) if rms else _zero_or_infinite(off)
    fro = off / size if size else _zero_or_infinite(off)
    return Difference(name, float(np.max(error, initial=0.0)), fro, t, worst, tolerance)


def _zero_or_infinite(error: float) -> float:
    return 0.0 if error == 0 else math.inf


def ulp(values: Array, dtype: str) -> Array:
    """The distance between neighbouring numbers of a float dtype at each value."""
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
"""From inputs in float64 (a mask stays bool) to outputs in float64."""


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), to full relative accuracy and without overflow at any x; 1 - s(x) is s(-x)."""
    return np.exp(-np.logaddexp(0.0, -x))


def of_magnitudes(form: ClosedForm) -> ClosedForm:
    """The closed form applied to absolute values: of a sum of products, the sum of their absolute values."""
    return lambda given, numbers: form({name: abs(x) for name, x in given.items()}, numbers)
