"""Formulas for sizes in a file, such as "2*H" or "ceil(N/BLOCK)", as the Sizes of kernels."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tilesim.errors import BadInput, did_you_mean
from tilesim.program.sizes import ONE, Size, ceil_div, dim, floor_div, maximum, minimum, mod, pow2, pow2_floor

MOST_CHARACTERS: Final = 500
"""The longest formula."""


@dataclass(frozen=True)
class _Ratio:
    """A rational number: a quotient of two sizes."""

    top: Size
    bottom: Size = ONE

    def __add__(self, other: _Ratio) -> _Ratio:
        if self.bottom == other.bottom:
            return _ratio(self.top + other.top, self.bottom)
        return _ratio(self.top * other.bottom + other.top * self.bottom, self.bottom * other.bottom)

    def __sub__(self, other: _Ratio) -> _Ratio:
        return self + -other

    def __neg__(self) -> _Ratio:
        return _Ratio(-self.top, self.bottom)

    def __mul__(self, other: _Ratio) -> _Ratio:
        return _ratio(self.top * other.top, self.bottom * other.bottom)

    def __truediv__(self, other: _Ratio) -> _Ratio:
        return _ratio(self.top * other.bottom, self.bottom * other.top)

    def __floordiv__(self, other: _Ratio) -> _Ratio:
        return (self / other).floor()

    def __mod__(self, other: _Ratio) -> _Ratio:
        n = other.top.constant
        if self.bottom == other.bottom == ONE and (n is None or n > 0):
            return _Ratio(mod(self.top, other.top))
        return self - other * (self // other)

    def ceil(self) -> _Ratio:
        """Return it rounded up."""
        return _Ratio(ceil_div(self.top, self.bottom))

    def floor(self) -> _Ratio:
        """Return it rounded down."""
        return _Ratio(floor_div(self.top, self.bottom))


def _ratio(top: Size, bottom: Size) -> _Ratio:
    """Return the quotient, its whole coefficients in lowest terms, a constant denominator positive."""
    n = bottom.constant
    if n == 0:
        raise ZeroDivisionError
    if n is None:
        return _Ratio(ONE) if top == bottom else _Ratio(top, bottom)
    shared = math.gcd(n, *(coefficient for _, coefficient in top.terms)) * (1 if n > 0 else -1)
    return _Ratio(Size(tuple((m, c // shared) for m, c in top.terms)), Size.of(n // shared))


def _extreme(choose: Callable[..., Size], ratios: tuple[_Ratio, ...]) -> _Ratio:
    """Return the largest or smallest of some numbers, over one positive denominator."""
    positive = [r if (r.bottom.constant or 0) > 0 else _Ratio(r.top * r.bottom, r.bottom * r.bottom) for r in ratios]
    bottoms = list(dict.fromkeys(r.bottom for r in positive))
    common = math.prod(bottoms, start=ONE)
    others = {bottom: math.prod((b for b in bottoms if b != bottom), start=ONE) for bottom in bottoms}
    return _ratio(choose(*(r.top * others[r.bottom] for r in positive)), common)


FUNCTIONS: Final[Mapping[str, tuple[int | None, Callable[..., _Ratio]]]] = {
    "ceil": (1, lambda x: x.ceil()),
    "floor": (1, lambda x: x.floor()),
    "max": (None, lambda *xs: _extreme(maximum, xs)),
    "min": (None, lambda *xs: _extreme(minimum, xs)),
    "align": (2, lambda x, n: (x / n).ceil() * n),
    "pow2": (1, lambda x: _Ratio(pow2(x.ceil().top))),
    "pow2_floor": (1, lambda x: _Ratio(pow2_floor(x.floor().top))),
}
"""The functions of formulas: the number of arguments (None: at least one) and the meaning.

`pow2` is the next power of two, `pow2_floor` the one before, `align(x, n)` the next multiple of n.
"""

OPERATORS: Final[Mapping[type[ast.operator], Callable[[_Ratio, _Ratio], _Ratio]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
"""The operators between two numbers; the value of a formula must be whole, its parts may be fractions."""


@dataclass(frozen=True)
class Formula:
    """A whole number made from named sizes.

    >>> ratio = formula("ceil(N/BLOCK) * B")
    >>> ratio.value({"N": 1000, "BLOCK": 64, "B": 2}), str(ratio.size)
    (32, 'B·⌈N/BLOCK⌉')
    """

    text: str
    names: frozenset[str]
    top: Size
    bottom: Size

    @property
    def size(self) -> Size:
        """The number as a Size of kernels, rounded down if it is not whole."""
        return floor_div(self.top, self.bottom)

    def value(self, sizes: Mapping[str, int]) -> int:
        """Return its value with the sizes. Raises BadInput for a value that is not a whole number."""
        try:
            value = Fraction(self.top.bind(sizes), self.bottom.bind(sizes))
        except ZeroDivisionError:
            raise BadInput(self.text, ["divides by 0"]) from None
        if value.denominator != 1:
            raise BadInput(self.text, [f"is {float(value):g}, not a whole number; round with ceil() or floor()"])
        return value.numerator


@functools.lru_cache(maxsize=1024)
def formula(text: str) -> Formula:
    """Return the formula that `text` writes. Raises BadInput for any other text."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput("formula", [f"has {len(text)} characters, at most {MOST_CHARACTERS}"])
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput("formula", [f"{text!r} is not a formula"]) from None
    names: set[str] = set()
    try:
        ratio = _read(tree, names)
    except ZeroDivisionError:
        raise BadInput(text, ["divides by 0"]) from None
    return Formula(text, frozenset(names), ratio.top, ratio.bottom)


def _read(node: ast.expr, names: set[str]) -> _Ratio:
    """Return the number that a node writes, and collect the names. Raises BadInput for an unsupported node."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _Ratio(Size.of(node.value))
    if isinstance(node, ast.Name):
        names.add(node.id)
        return _Ratio(dim(node.id))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_read(node.left, names), _read(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        meaning = _function(node.func.id, len(node.args))
        return meaning(*(_read(argument, names) for argument in node.args))
    functions = ", ".join(FUNCTIONS)
    raise BadInput("formula", [f"{ast.unparse(node)!r} is not supported; there are + - * / // %, {functions}"])


def _function(name: str, count: int) -> Callable[..., _Ratio]:
    """Return the function called `name`. Raises BadInput for an unknown one and for a wrong number of arguments."""
    if name not in FUNCTIONS:
        hint = did_you_mean(name, FUNCTIONS) or f" there are: {', '.join(FUNCTIONS)}"
        raise BadInput("formula", [f"{name!r} is not a function;{hint}"])
    takes, meaning = FUNCTIONS[name]
    if count != takes and (takes is not None or not count):
        raise BadInput("formula", [f"{name} has {count} arguments, takes {takes or 'at least 1'}"])
    return meaning
