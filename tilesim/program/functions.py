"""The table of functions in sizes and scalars: one row a function, with its value for ints, arrays and floats."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilesim.program import arithmetic


@dataclass(frozen=True)
class Function:
    """A function to a whole number, exact for ints and for numpy arrays; `name` is its name in printed code."""

    name: str
    text: str
    """Template of a call: `{}` stands for each argument, `{all}` for the list of them."""
    value: Callable[..., int]
    """The function of ints, of shapes of ints."""
    elementwise: Callable[..., Any]
    """The function of arrays of int64, or of object arrays of ints."""
    magnitude: Callable[..., int]
    """The function that bounds the absolute value, from bounds of the arguments."""


def _floor_div(top: Any, bottom: Any) -> Any:
    if np.any(bottom == 0):
        raise ZeroDivisionError("integer division by zero")
    return top // bottom


def _bit_length(values: Any) -> Any:
    """Return the digits of every element; of int64 those of the nearest float64, which may be one too many."""
    if values.dtype == object:
        return np.frompyfunc(arithmetic.bit_length, 1, 1)(values)
    digits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    return digits - ((values != 0) & (np.abs(values) >> np.maximum(digits - 1, 0) == 0))


def _powers_of_two(exponents: Any) -> Any:
    return np.left_shift(np.ones_like(exponents), exponents)


def _pow2(x: Any) -> Any:
    return _powers_of_two(_bit_length(np.maximum(x - 1, 0)))


def _pow2_floor(x: Any) -> Any:
    return np.where(x > 0, _powers_of_two(np.maximum(_bit_length(np.maximum(x, 0)) - 1, 0)), 0)


def _maximum(*values: Any) -> Any:
    return functools.reduce(np.maximum, values)


def _minimum(*values: Any) -> Any:
    return functools.reduce(np.minimum, values)


CEIL_DIV = Function("ceil_div", "⌈{}/{}⌉", arithmetic.ceil_div, lambda a, b: -_floor_div(-a, b), lambda a, _: a + 1)
FLOOR_DIV = Function("floor_div", "⌊{}/{}⌋", arithmetic.floor_div, _floor_div, lambda a, _: a + 1)
MOD = Function(
    "mod", "({} mod {})", arithmetic.mod, lambda a, b: a - b * _floor_div(a, b), lambda a, b: a + b * (a + 1)
)
MAXIMUM = Function("maximum", "max({all})", arithmetic.maximum, _maximum, max)
MINIMUM = Function("minimum", "min({all})", arithmetic.minimum, _minimum, max)
BIT_LENGTH = Function("bit_length", "bits({})", arithmetic.bit_length, _bit_length, lambda x: x + 1)
POW2 = Function("pow2", "pow2({})", arithmetic.pow2, _pow2, lambda x: 2 * x + 2)
POW2_FLOOR = Function("pow2_floor", "pow2_floor({})", arithmetic.pow2_floor, _pow2_floor, lambda x: x)

RANK = Function("rank", "rank of {}", arithmetic.rank, arithmetic.rank, lambda shape: shape)
AXIS = Function("axis", "{}[{}]", arithmetic.axis, arithmetic.axis, lambda shape, _: shape)
ELEMENTS = Function("elements", "elements of {}", arithmetic.elements, arithmetic.elements, lambda shape: shape)
LEAST_AXIS = Function(
    "least_axis", "least of {}", arithmetic.least_axis, lambda shape: _minimum(*(shape or (1,))), lambda shape: shape
)
GREATEST_AXIS = Function(
    "greatest_axis",
    "most of {}",
    arithmetic.greatest_axis,
    lambda shape: _maximum(*(shape or (1,))),
    lambda shape: shape,
)


@dataclass(frozen=True)
class RealFunction:
    """A function of float64; a name that is a sign stands between its arguments in every language."""

    name: str
    text: str
    value: Callable[..., float]


ADD = RealFunction("+", "({} + {})", operator.add)
SUBTRACT = RealFunction("-", "({} - {})", operator.sub)
MULTIPLY = RealFunction("*", "({} * {})", operator.mul)
DIVIDE = RealFunction("/", "({} / {})", operator.truediv)
NEGATE = RealFunction("-", "-{}", operator.neg)
POWER = RealFunction("power", "{}^{}", arithmetic.power)
LN = RealFunction("ln", "ln({})", arithmetic.ln)
