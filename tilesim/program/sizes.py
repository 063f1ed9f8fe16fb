"""Whole numbers that are not known yet: polynomials over named sizes and rounded-up quotients.

Tensor sizes are capitals as in the operators' documents (B S C H R D N), tile sizes lower-case words (rows, m, n).
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

Env = Mapping[str, Any]
"""Values of the names: integers, or numpy arrays of integers to evaluate many shapes at once."""

Word = Literal["start", "size", "after", "before", "index", "row", "step", "parts", "core", "cores"]


class Variable(str):
    """The name of a number that changes while a phase runs, written `n.start`: of which loop or phase, and which word.

    A loop binds for each tile the six words of a Range and the `step` that divides the starts of its tiles, and for
    each plan the `parts` that its axis is cut into; a phase binds its number of `cores` and the index of the `core`.
    """

    __slots__ = ("owner", "word")
    owner: str
    word: Word

    def __new__(cls, owner: str, word: Word) -> Self:
        """Keep both parts of the name, so that it is never taken apart again."""
        name = super().__new__(cls, f"{owner}.{word}")
        name.owner, name.word = owner, word
        return name

    def __reduce__(self) -> tuple[type[Self], tuple[str, Word]]:
        """Copies and pickles keep both parts."""
        return type(self), (self.owner, self.word)


@dataclass(frozen=True, slots=True)
class Dim:
    """A named size; `multiple_of` is a promise that lets alignments vanish: align(2H, 32) is 2H if it is 16."""

    name: str
    multiple_of: int = 1

    def bind(self, env: Env) -> Any:
        """Its value."""
        return env[self.name]

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """It with some names replaced."""
        return Size.of(env[self.name]) if self.name in env else Size.of(self)

    def names(self) -> Iterable[str]:
        """The names in it."""
        return (self.name,)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CeilDiv:
    """⌈top / bottom⌉."""

    top: Size
    bottom: Size

    def bind(self, env: Env) -> Any:
        """Its value."""
        return -(-self.top.bind(env) // self.bottom.bind(env))

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """It with some names replaced."""
        return ceil_div(self.top.substitute(env), self.bottom.substitute(env))

    def names(self) -> Iterable[str]:
        """The names in it."""
        return (*self.top.names(), *self.bottom.names())

    @property
    def multiple_of(self) -> int:
        """Nothing is promised."""
        return 1

    def __str__(self) -> str:
        return f"⌈{self.top}/{self.bottom}⌉"


@dataclass(frozen=True, slots=True)
class BitLength:
    """The number of binary digits of a positive whole number, ⌊log2⌋ + 1."""

    of: Size

    def bind(self, env: Env) -> Any:
        """Its value."""
        value = self.of.bind(env)
        return value.bit_length() if isinstance(value, int) else np.frexp(value)[1].astype(np.int64)

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """It with some names replaced."""
        return bit_length(self.of.substitute(env))

    def names(self) -> Iterable[str]:
        """The names in it."""
        return self.of.names()

    @property
    def multiple_of(self) -> int:
        """Nothing is promised."""
        return 1

    def __str__(self) -> str:
        return f"bits({self.of})"


Atom = Dim | CeilDiv | BitLength
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
        """`x` as a Size."""
        if isinstance(x, Size):
            return x
        if isinstance(x, (Dim, CeilDiv, BitLength)):
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

    __radd__ = __add__
    __rmul__ = __mul__

    def bind(self, env: Env) -> Any:
        """Its value [int, or an array of them] with the names of `env`. Raises KeyError for a name that is missing."""
        total: Any = 0
        for monomial, coefficient in self.terms:
            value: Any = coefficient
            for atom in monomial:
                value = value * atom.bind(env)
            total = total + value
        return total

    def substitute(self, env: Mapping[str, int | Size]) -> Size:
        """The Size with some names replaced by numbers or other Sizes."""
        if self.constant is not None:
            return self
        total = ZERO
        for monomial, coefficient in self.terms:
            value = Size.of(coefficient)
            for atom in monomial:
                value = value * atom.substitute(env)
            total = total + value
        return total

    def names(self) -> frozenset[str]:
        """The names that occur in it."""
        return frozenset(n for monomial, _ in self.terms for atom in monomial for n in atom.names())

    def coefficient(self, *names: str) -> int:
        """The coefficient of the product of `names` (of the constant term without names)."""
        wanted = sorted(names)
        return sum(c for m, c in self.terms if sorted(str(a) for a in m) == wanted)

    def divisor(self) -> int:
        """A number that divides its value whatever the names are, by their `multiple_of`; 0 for zero."""
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
    """The size called `name`."""
    return Size.of(Dim(name, multiple_of))


def dims(names: str) -> tuple[Size, ...]:
    """The sizes called by the blank-separated `names`."""
    return tuple(dim(n) for n in names.split())


def ceil_div(top: Size | int, bottom: Size | int) -> Size:
    """⌈top / bottom⌉, with what divides evenly taken out: ⌈(16H + C)/8⌉ is 2H + ⌈C/8⌉."""
    top, bottom = Size.of(top), Size.of(bottom)
    if bottom.constant is None:
        if top == bottom:
            return ONE
        return top if top.constant == 0 else Size.of(CeilDiv(top, bottom))
    n = bottom.constant
    if n <= 0:
        raise ValueError(f"ceil_div by {n}, which is not positive")
    whole, rest = ZERO, ZERO
    for monomial, coefficient in top.terms:
        if coefficient % n == 0:
            whole = whole + Size(((monomial, coefficient // n),))
        else:
            rest = rest + Size(((monomial, coefficient),))
    if rest.constant is not None:
        return whole + -(-rest.constant // n)
    return whole + Size.of(CeilDiv(rest, bottom))


def bit_length(x: Size | int) -> Size:
    """The number of binary digits of `x`, the levels of a binary counter up to it."""
    x = Size.of(x)
    return Size.of(BitLength(x)) if x.constant is None else Size.of(x.constant.bit_length())


def align(x: Size | int, n: int) -> Size:
    """`x` rounded up to a multiple of `n`; `x` itself where the promises of its names say that it is one."""
    x = Size.of(x)
    return x if x.divisor() % n == 0 else ceil_div(x, n) * n


@dataclass(frozen=True)
class Scalar:
    """A real number that is not known yet: floats, Sizes and attributes joined by + - * /; `bind` gives its value."""

    text: str
    value: Callable[[Env], float]
    names: frozenset[str] = frozenset()

    @staticmethod
    def of(x: Scalar | Size | float) -> Scalar:
        """`x` as a Scalar."""
        if isinstance(x, Scalar):
            return x
        if isinstance(x, Size):
            return Scalar(str(x), lambda env: float(x.bind(env)), x.names())
        return Scalar(f"{x:g}", lambda _: float(x))

    def bind(self, env: Env) -> float:
        """Its value with the names and attributes of `env`."""
        return self.value(env)

    def _joined(self, sign: str, other: Scalar | Size | float, join: Callable[[float, float], float]) -> Scalar:
        b = Scalar.of(other)
        text = f"({self.text} {sign} {b.text})"
        return Scalar(text, lambda env: join(self.value(env), b.value(env)), self.names | b.names)

    def __add__(self, other: Scalar | Size | float) -> Scalar:
        return self._joined("+", other, lambda a, b: a + b)

    def __sub__(self, other: Scalar | Size | float) -> Scalar:
        return self._joined("-", other, lambda a, b: a - b)

    def __mul__(self, other: Scalar | Size | float) -> Scalar:
        return self._joined("*", other, lambda a, b: a * b)

    def __truediv__(self, other: Scalar | Size | float) -> Scalar:
        return self._joined("/", other, lambda a, b: a / b)

    def __rsub__(self, other: Size | float) -> Scalar:
        return Scalar.of(other) - self

    def __rtruediv__(self, other: Size | float) -> Scalar:
        return Scalar.of(other) / self

    def __neg__(self) -> Scalar:
        return Scalar(f"-{self.text}", lambda env: -self.value(env), self.names)

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        return self.text.removeprefix("(").removesuffix(")") if self.text.count("(") == 1 else self.text


def attribute(name: str) -> Scalar:
    """The attribute called `name` of an operator (eps, scale ...), as a Scalar."""
    return Scalar(name, lambda env: float(env[name]), frozenset((name,)))
