"""The functions that printed expressions call. arithmetic.js and arithmetic.hpp have the same for other languages.

Python that is printed carries the text of this module, so it imports nothing of the package.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

Shape = Sequence[int]


def ceil_div(top: int, bottom: int) -> int:
    """Return the quotient, rounded up."""
    return -(-top // bottom)


def floor_div(top: int, bottom: int) -> int:
    """Return the quotient, rounded down."""
    return top // bottom


def mod(x: int, n: int) -> int:
    """Return the remainder of the quotient rounded down."""
    return x % n


def maximum(*values: int) -> int:
    """Return the largest value."""
    return max(values)


def minimum(*values: int) -> int:
    """Return the smallest value."""
    return min(values)


def bit_length(x: int) -> int:
    """Return the number of binary digits."""
    return x.bit_length()


def pow2(x: int) -> int:
    """Return the smallest power of two that is at least `x`."""
    return 1 << max(x - 1, 0).bit_length()


def pow2_floor(x: int) -> int:
    """Return the largest power of two that is at most `x`; 0 if `x` is not positive."""
    return 1 << (x.bit_length() - 1) if x > 0 else 0


def rank(shape: Shape) -> int:
    """Return the number of axes."""
    return len(shape)


def axis(shape: Shape, index: int) -> int:
    """Return the size of an axis; a negative index counts from the end."""
    return shape[index]


def elements(shape: Shape) -> int:
    """Return the number of elements."""
    return math.prod(shape)


def least_axis(shape: Shape) -> int:
    """Return the smallest size of an axis; 1 without axes."""
    return min(shape, default=1)


def greatest_axis(shape: Shape) -> int:
    """Return the largest size of an axis; 1 without axes."""
    return max(shape, default=1)


def same_shape(shape: Shape, parts: Sequence[Shape]) -> bool:
    """Return True if a shape is the parts one after the other."""
    joined = [size for part in parts for size in part]
    if len(shape) != len(joined):
        return False
    return functools.reduce(operator.and_, (a == b for a, b in zip(shape, joined, strict=True)), True)


def broadcastable(first: Shape, second: Shape) -> bool:
    """Return True if two shapes broadcast to each other."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return functools.reduce(operator.and_, ((a == b) | (a == 1) | (b == 1) for a, b in pairs), True)


def one_of(word: str, words: Sequence[str]) -> bool:
    """Return True if a word is one of some words."""
    return word in words


def real(x: float) -> float:
    """Return a number as a float64."""
    return float(x)


def power(x: float, exponent: float) -> float:
    """Return a power."""
    return math.pow(x, exponent)


def ln(x: float, otherwise: float) -> float:
    """Return the natural logarithm, or `otherwise` for a number that is not positive."""
    return math.log(x) if x > 0 else otherwise
