"""Whole numbers that are not known yet: polynomials over named sizes and functions of them, such as rounded quotients.

Tensor sizes are capitals as in the operators' documents (B S C H R D N), tile sizes lower-case words (rows, m, n).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from tilesim.program.functions import (
    ADD,
    AXIS,
    BIT_LENGTH,
    CEIL_DIV,
    DIVIDE,
    ELEMENTS,
    FLOOR_DIV,
    GREATEST_AXIS,
    LEAST_AXIS,
    LN,
    MAXIMUM,
    MINIMUM,
    MOD,
    MULTIPLY,
    NEGATE,
    POW2,
    POW2_FLOOR,
    POWER,
    RANK,
    SUBTRACT,
    Function,
    RealFunction,
)

Env = Mapping[str, Any]
"""Values of the names: integers, or numpy arrays of integers to evaluate many shapes at once."""

Word = Literal["start", "size", "after", "before", "index", "row", "rows", "step", "parts", "core", "cores"]


class Variable(str):
    """The name of a number that changes while a phase runs, its loop or phase and a word: `n.start`.

    A loop binds for each tile the six words of a Range and the `step` that divides the starts of its tiles, and for
    each plan the `parts` that its axis is cut into; a phase binds its number of `cores` and the index of the `core`.
    """

    __slots__ = ("owner", "word")
    owner: str
    word: Word

    def __new__(cls, owner: str, word: Word) -> Self:
        """Keep both parts of the name, so that it is never parsed again."""
        name = super().__new__(cls, f"{owner}.{word}")
        name.owner, name.word = owner, word
        return name

    def __reduce__(self) -> tuple[type[Self], tuple[str, Word]]:
        """Return the constructor and both parts, which copies and pickles keep."""
        return type(self), (self.owner, self.word)


class Atom(ABC):
    """A factor of a monomial: a name, or a function of Sizes."""

    __slots__ = ()

    @abstractmethod
    def bind(self, env: Env) -> Any:
        """Return its value."""

    @abstractmethod
    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """Return it with some names replaced."""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Return the names in it."""

    @abstractmethod
    def magnitude(self, bounds: Mapping[str, int]) -> int:
        """Return a bound of its absolute value, from bounds of the names'."""

    @property
    def multiple_of(self) -> int:
        """A divisor of its value at any values of the names."""
        return 1


@dataclass(frozen=True, slots=True)
class Dim(Atom):
    """A named size; `multiple_of` is a promise that lets alignments vanish: align(2H, 32) is 2H if it is 16."""

    name: str
    multiple_of: int = 1

    def bind(self, env: Env) -> Any:
        """Return its value."""
        return env[self.name]

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """Return it with some names replaced."""
        return Size.of(env[self.name]) if self.name in env else Size.of(self)

    def names(self) -> Iterable[str]:
        """Return the names in it."""
        return (self.name,)

    def magnitude(self, bounds: Mapping[str, int]) -> int:
        """Return a bound of its absolute value."""
        return bounds[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Shape:
    """The named shape of a tensor of any rank, for functions of it."""

    name: str

    def bind(self, env: Env) -> Any:
        """Return its sizes, a tuple of ints or of arrays."""
        return env[self.name]

    def substitute(self, _: Mapping[str, int | Size]) -> Shape:
        """Return it as it is: names are replaced by sizes."""
        return self

    def names(self) -> Iterable[str]:
        """Return its name."""
        return (self.name,)

    def magnitude(self, bounds: Mapping[str, int]) -> int:
        """Return a bound of its rank, sizes and number of elements."""
        return bounds[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Applied(Atom):
    """A function of Sizes, such as ⌈C/8⌉, or of a shape."""

    function: Function
    arguments: tuple[Size | Shape, ...]

    def bind(self, env: Env) -> Any:
        """Return its value."""
        values = [argument.bind(env) for argument in self.arguments]
        for value in values:
            if not isinstance(value, int) and _has_arrays(value):
                return self.function.elementwise(*values)
        return self.function.value(*values)

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """Return it with some names replaced."""
        return _applied(self.function, *(argument.substitute(env) for argument in self.arguments))

    def names(self) -> Iterable[str]:
        """Return the names in it."""
        return (name for argument in self.arguments for name in argument.names())

    def magnitude(self, bounds: Mapping[str, int]) -> int:
        """Return a bound of its absolute value."""
        return self.function.magnitude(*(argument.magnitude(bounds) for argument in self.arguments))

    def __str__(self) -> str:
        return self.function.text.format(*self.arguments, all=", ".join(map(str, self.arguments)))


Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Size:
    """A polynomial with whole coefficients over atoms; `bind` gives its value.

    >>> H = dim("H", multiple_of=16)
    >>> str(3 * H + align(2 * H, 32)), (3 * H).bind({"H": 16})
    ('5H', 48)
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(x: Size | Atom | int) -> Size:
        """Return `x` as a Size."""
        if isinstance(x, Size):
            return x
        if isinstance(x, Atom):
            return Size((((x,), 1),))
        return Size((((), int(x)),)) if x else Size(())

    @functools.cached_property
    def constant(self) -> int | None:
        """Its value if it has no names, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Size | int) -> Size:
        if not isinstance(other, (Size, int)):
            return NotImplemented
        return _collected([*self.terms, *Size.of(other).terms])

    def __mul__(self, other: Size | int) -> Size:
        if not isinstance(other, (Size, int)):
            return NotImplemented
        return _collected((_product(a, b), c * d) for a, c in self.terms for b, d in Size.of(other).terms)

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __rsub__(self, other: int) -> Size:
        return Size.of(other) - self

    def __neg__(self) -> Size:
        return self * -1

    def __rtruediv__(self, other: float) -> Scalar:
        return Scalar.of(other) / Scalar.of(self)

    def __floordiv__(self, other: Size | int) -> Size:
        return floor_div(self, other)

    def __mod__(self, other: Size | int) -> Size:
        return mod(self, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def bind(self, env: Env) -> Any:
        """Return its value [int, or an array of them] with the names of `env`. Raises KeyError for a missing name."""
        total: Any = 0
        for monomial, coefficient in self.terms:
            value: Any = coefficient
            for atom in monomial:
                value = value * atom.bind(env)
            total = total + value
        return total

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """Return the Size with some names replaced by numbers or other Sizes."""
        if self.constant is not None:
            return self
        total = ZERO
        for monomial, coefficient in self.terms:
            value = Size.of(coefficient)
            for atom in monomial:
                value = value * atom.substitute(env)
            total = total + value
        return total

    def magnitude(self, bounds: Mapping[str, int]) -> int:
        """Return a bound of its absolute value, from bounds of the names'."""
        return sum(abs(c) * math.prod(atom.magnitude(bounds) for atom in m) for m, c in self.terms)

    def names(self) -> frozenset[str]:
        """Return the names that occur in it."""
        return frozenset(n for monomial, _ in self.terms for atom in monomial for n in atom.names())

    def coefficient(self, *names: str) -> int:
        """Return the coefficient of the product of `names` (of the constant term without names)."""
        wanted = sorted(names)
        return sum(c for m, c in self.terms if sorted(str(a) for a in m) == wanted)

    def divisor(self) -> int:
        """Return a divisor of its value at any values of the names, by their `multiple_of`; 0 for zero."""
        return math.gcd(*(c * math.prod(a.multiple_of for a in m) for m, c in self.terms)) if self.terms else 0

    def __str__(self) -> str:
        out = ""
        for monomial, coefficient in sorted(self.terms, key=lambda t: t[1] < 0):
            sign = " - " if coefficient < 0 and out else "-" if coefficient < 0 else " + " if out else ""
            number = "" if abs(coefficient) == 1 and monomial else str(abs(coefficient))
            separator = "·" if number and any(len(str(a)) > 1 for a in monomial) else ""
            out += sign + number + separator + "·".join(str(a) for a in monomial)
        return out or "0"

    __repr__ = __str__


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=str)) if a and b else a or b


def _collected(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: defaultdict[Monomial, int] = defaultdict(int)
    for monomial, coefficient in terms:
        total[monomial] += coefficient
    kept = [(m, c) for m, c in total.items() if c]
    return Size(tuple(sorted(kept, key=lambda t: (not t[0], -len(t[0]), [str(a) for a in t[0]]))))


ZERO = Size(())
ONE = Size.of(1)


def dim(name: str, multiple_of: int = 1) -> Size:
    """Return the size called `name`."""
    return Size.of(Dim(name, multiple_of))


def dims(names: str) -> tuple[Size, ...]:
    """Return the sizes called by the blank-separated `names`."""
    return tuple(dim(n) for n in names.split())


def exact(env: Env, *sizes: Size) -> Env:
    """Return `env` with arrays of Python ints in place of those of int64, if values of `sizes` may exceed 63 bits."""
    names = {name for size in sizes for name in size.names()}
    if not any(_has_arrays(env[name]) for name in names):
        return env
    bounds = {name: _bound(env[name]) for name in names}
    if all(size.magnitude(bounds) < 2**63 for size in sizes):
        return env
    return {**env, **{name: _of_objects(env[name]) for name in names}}


def _has_arrays(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) or (isinstance(value, tuple) and any(map(_has_arrays, value)))


def _bound(value: Any) -> int:
    """Return the largest absolute value of a number or an array; of a shape, that of its rank, sizes and elements."""
    if isinstance(value, tuple):
        return max(len(value), math.prod(max(1, _bound(size)) for size in value))
    return max(abs(int(np.min(value, initial=0))), abs(int(np.max(value, initial=0))))


def _of_objects(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_of_objects, value))
    return value.astype(object) if isinstance(value, np.ndarray) else value


def _applied(function: Function, *arguments: Any) -> Size:
    """Return the function of some arguments, simplified where a rule is known."""
    return _SIMPLIFIED[function.name](*arguments) if function.name in _SIMPLIFIED else _call(function, *arguments)


def _call(function: Function, *arguments: Size | Shape) -> Size:
    return Size.of(Applied(function, arguments))


def ceil_div(top: Size | int, bottom: Size | int) -> Size:
    """Return ⌈top / bottom⌉, without the terms that divide evenly: ⌈(16H + C)/8⌉ is 2H + ⌈C/8⌉."""
    return _quotient(CEIL_DIV, Size.of(top), Size.of(bottom))


def floor_div(top: Size | int, bottom: Size | int) -> Size:
    """Return ⌊top / bottom⌋, without the terms that divide evenly."""
    return _quotient(FLOOR_DIV, Size.of(top), Size.of(bottom))


def _quotient(function: Function, top: Size, bottom: Size) -> Size:
    n = bottom.constant
    if n is None:
        if top == bottom:
            return ONE
        return top if top.constant == 0 else _call(function, top, bottom)
    if n <= 0:
        raise ValueError(f"{function.name} by {n}, which is not positive")
    quotient, remainder = _parted(top, n)
    if remainder.constant is not None:
        return quotient + function.value(remainder.constant, n)
    return quotient + _call(function, remainder, bottom)


def mod(x: Size | int, n: Size | int) -> Size:
    """Return the remainder x - n⌊x/n⌋, without the terms that divide evenly: (16H + C) mod 8 is C mod 8."""
    x, n = Size.of(x), Size.of(n)
    if n.constant is None:
        return ZERO if x == n else _call(MOD, x, n)
    if n.constant <= 0:
        raise ValueError(f"mod by {n.constant}, which is not positive")
    _, remainder = _parted(x, n.constant)
    return _call(MOD, remainder, n) if remainder.constant is None else Size.of(remainder.constant % n.constant)


def _parted(x: Size, n: int) -> tuple[Size, Size]:
    """Return the quotient of the terms of `x` whose coefficients `n` divides, and the other terms."""
    quotient = Size(tuple((m, c // n) for m, c in x.terms if c % n == 0))
    return quotient, Size(tuple((m, c) for m, c in x.terms if c % n))


def maximum(*sizes: Size | int) -> Size:
    """Return the largest of some sizes."""
    return _extreme(MAXIMUM, sizes)


def minimum(*sizes: Size | int) -> Size:
    """Return the smallest of some sizes."""
    return _extreme(MINIMUM, sizes)


def _extreme(function: Function, sizes: Iterable[Size | int]) -> Size:
    different = dict.fromkeys(map(Size.of, sizes))
    constants = [size.constant for size in different if size.constant is not None]
    parts = [size for size in different if size.constant is None]
    if constants:
        parts.append(Size.of(function.value(*constants, constants[0])))
    return parts[0] if len(parts) == 1 else _call(function, *parts)


def bit_length(x: Size | int) -> Size:
    """Return the number of binary digits of `x`, the levels of a binary counter up to it."""
    return _unary(BIT_LENGTH, x)


def pow2(x: Size | int) -> Size:
    """Return the smallest power of two that is at least `x`."""
    return _unary(POW2, x)


def pow2_floor(x: Size | int) -> Size:
    """Return the largest power of two that is at most `x`; 0 if `x` is not positive."""
    return _unary(POW2_FLOOR, x)


def _unary(function: Function, x: Size | int) -> Size:
    x = Size.of(x)
    return _call(function, x) if x.constant is None else Size.of(function.value(x.constant))


_SIMPLIFIED: Mapping[str, Callable[..., Size]] = {
    "ceil_div": ceil_div,
    "floor_div": floor_div,
    "mod": mod,
    "maximum": maximum,
    "minimum": minimum,
    "bit_length": bit_length,
    "pow2": pow2,
    "pow2_floor": pow2_floor,
}


def align(x: Size | int, n: int) -> Size:
    """Return `x` rounded up to a multiple of `n`; `x` itself where the `multiple_of` of its names makes it one."""
    x = Size.of(x)
    return x if x.divisor() % n == 0 else ceil_div(x, n) * n


def rank(shape: Shape) -> Size:
    """Return the number of axes of a shape."""
    return _call(RANK, shape)


def axis(shape: Shape, index: Size | int) -> Size:
    """Return the size of an axis of a shape; a negative index counts from the end."""
    return _call(AXIS, shape, Size.of(index))


def elements(shape: Shape) -> Size:
    """Return the number of elements of a shape."""
    return _call(ELEMENTS, shape)


def least_axis(shape: Shape) -> Size:
    """Return the smallest size in a shape; 1 without axes."""
    return _call(LEAST_AXIS, shape)


def greatest_axis(shape: Shape) -> Size:
    """Return the largest size in a shape; 1 without axes."""
    return _call(GREATEST_AXIS, shape)


@dataclass(frozen=True)
class Scalar:
    """A real number that is not known yet: floats, Sizes and attributes joined by + - * /; `bind` gives its value.

    It is a number, a Size, the name of an attribute, or a function of other Scalars.
    """

    leaf: float | Size | str = 0.0
    function: RealFunction | None = None
    arguments: tuple[Scalar, ...] = ()

    @staticmethod
    def of(x: Scalar | Size | float) -> Scalar:
        """Return `x` as a Scalar."""
        return x if isinstance(x, Scalar) else Scalar(x if isinstance(x, Size) else float(x))

    def bind(self, env: Env) -> float:
        """Return its value with the names and attributes of `env`."""
        if self.function is not None:
            return self.function.value(*(argument.bind(env) for argument in self.arguments))
        if isinstance(self.leaf, Size):
            return float(self.leaf.bind(env))
        return float(env[self.leaf]) if isinstance(self.leaf, str) else self.leaf

    @property
    def text(self) -> str:
        """Its text inside a larger formula."""
        if self.function is not None:
            return self.function.text.format(*(argument.text for argument in self.arguments))
        return f"{self.leaf:g}" if isinstance(self.leaf, float) else str(self.leaf)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names that occur in it."""
        if isinstance(self.leaf, Size):
            return self.leaf.names()
        leaf = {self.leaf} if isinstance(self.leaf, str) else set()
        return frozenset(leaf.union(*(argument.names for argument in self.arguments)))

    def __add__(self, other: Scalar | Size | float) -> Scalar:
        return _real(ADD, self, other)

    def __sub__(self, other: Scalar | Size | float) -> Scalar:
        return _real(SUBTRACT, self, other)

    def __mul__(self, other: Scalar | Size | float) -> Scalar:
        return _real(MULTIPLY, self, other)

    def __truediv__(self, other: Scalar | Size | float) -> Scalar:
        return _real(DIVIDE, self, other)

    def __pow__(self, other: Scalar | Size | float) -> Scalar:
        return _real(POWER, self, other)

    def __rsub__(self, other: Size | float) -> Scalar:
        return _real(SUBTRACT, other, self)

    def __rtruediv__(self, other: Size | float) -> Scalar:
        return _real(DIVIDE, other, self)

    def __neg__(self) -> Scalar:
        return _real(NEGATE, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        signs = (ADD, SUBTRACT, MULTIPLY, DIVIDE)
        return self.text[1:-1] if self.function in signs else self.text


def _real(function: RealFunction, *arguments: Scalar | Size | float) -> Scalar:
    return Scalar(0.0, function, tuple(map(Scalar.of, arguments)))


def attribute(name: str) -> Scalar:
    """Return the attribute called `name` of an operator (eps, scale ...), as a Scalar."""
    return Scalar(name)


def ln(x: Scalar | Size | float, otherwise: float) -> Scalar:
    """Return the natural logarithm of `x`, or `otherwise` where `x` is not positive."""
    return _real(LN, x, otherwise)
