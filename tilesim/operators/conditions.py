"""Conditions over named facts: comparisons of Sizes, words, flags and shapes, joined by and, or, not.

A condition is data: it is evaluated for one set of facts or for arrays of sizes at once, and printed as source text.
Facts may be unknown: their names are missing. A comparison of an unknown fact raises KeyError, so a condition
begins with `unless_known(...) | ...`: terms are evaluated in order, and only as far as they decide.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from tilesim.program import arithmetic
from tilesim.program.sizes import Applied, Dim, Env, Scalar, Shape, Size, exact


class Kind(Enum):
    """The type of a fact."""

    NUMBER = "number"
    """A whole number."""
    REAL = "real"
    WORD = "word"
    """A dtype, a family."""
    FLAG = "flag"
    SHAPE = "shape"
    """A tuple of whole numbers."""


class Fact(NamedTuple):
    """A name with the kind of its value."""

    name: str
    kind: Kind


class Condition(ABC):
    """A statement about facts that holds or does not hold."""

    @abstractmethod
    def holds(self, env: Env) -> Any:
        """Return True if it holds [bool, or an array of them].

        Facts of `env` are ints, bools, words and tuples of ints; arrays of sizes have one shape.
        """

    @abstractmethod
    def facts(self) -> Iterator[Fact]:
        """Yield the facts in it in order, once for each occurrence."""

    def __and__(self, other: Condition) -> Condition:
        return all_of(self, other)

    def __or__(self, other: Condition) -> Condition:
        return any_of(self, other)

    def __invert__(self) -> Condition:
        return Not(self)


@dataclass(frozen=True)
class Comparison(Condition):
    """The condition left <= right, or left == right."""

    left: Size
    sign: str
    right: Size

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        left, right = self.left.bind(env), self.right.bind(env)
        if not (isinstance(left, int) and isinstance(right, int)):
            env = exact(env, self.left, self.right)
            left, right = self.left.bind(env), self.right.bind(env)
        return left <= right if self.sign == "<=" else left == right

    def facts(self) -> Iterator[Fact]:
        """Yield the facts in both sides."""
        yield from facts_of(self.left)
        yield from facts_of(self.right)

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True)
class AllOf(Condition):
    """The condition that every term holds; true without terms."""

    terms: tuple[Condition, ...]

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        return _until(False, self.terms, env)

    def facts(self) -> Iterator[Fact]:
        """Yield the facts in its terms."""
        for term in self.terms:
            yield from term.facts()

    def __str__(self) -> str:
        return " and ".join(f"({t})" if isinstance(t, AnyOf) else str(t) for t in self.terms) or "true"


@dataclass(frozen=True)
class AnyOf(Condition):
    """The condition that at least one term holds; false without terms."""

    terms: tuple[Condition, ...]

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        return _until(True, self.terms, env)

    def facts(self) -> Iterator[Fact]:
        """Yield the facts in its terms."""
        for term in self.terms:
            yield from term.facts()

    def __str__(self) -> str:
        return " or ".join(map(str, self.terms)) or "false"


@dataclass(frozen=True)
class Not(Condition):
    """The condition that its term does not hold."""

    term: Condition

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        result = self.term.holds(env)
        return np.logical_not(result) if isinstance(result, np.ndarray) else not result

    def facts(self) -> Iterator[Fact]:
        """Yield the facts in its term."""
        yield from self.term.facts()

    def __str__(self) -> str:
        return f"not ({self.term})"


@dataclass(frozen=True)
class Known(Condition):
    """The condition that a fact has a value."""

    fact: Fact

    def holds(self, env: Env) -> bool:
        """Return True if it holds."""
        return self.fact.name in env

    def facts(self) -> Iterator[Fact]:
        """Yield the fact."""
        yield self.fact

    def __str__(self) -> str:
        return f"{self.fact.name} is known"


@dataclass(frozen=True)
class Flag(Condition):
    """The condition that a flag is set."""

    name: str

    def holds(self, env: Env) -> bool:
        """Return True if it holds."""
        return bool(env[self.name])

    def facts(self) -> Iterator[Fact]:
        """Yield the flag."""
        yield Fact(self.name, Kind.FLAG)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class OneOf(Condition):
    """The condition that a word is one of some words."""

    name: str
    words: tuple[str, ...]

    def holds(self, env: Env) -> bool:
        """Return True if it holds."""
        return arithmetic.one_of(env[self.name], self.words)

    def facts(self) -> Iterator[Fact]:
        """Yield the word's fact."""
        yield Fact(self.name, Kind.WORD)

    def __str__(self) -> str:
        return f"{self.name} is {' or '.join(self.words)}"


@dataclass(frozen=True)
class SameWord(Condition):
    """The condition that two words are the same."""

    name: str
    other: str

    def holds(self, env: Env) -> bool:
        """Return True if it holds."""
        return bool(env[self.name] == env[self.other])

    def facts(self) -> Iterator[Fact]:
        """Yield the facts of both words."""
        yield Fact(self.name, Kind.WORD)
        yield Fact(self.other, Kind.WORD)

    def __str__(self) -> str:
        return f"{self.name} is {self.other}"


@dataclass(frozen=True)
class SameShape(Condition):
    """The condition that a shape is some sizes and shapes one after the other."""

    shape: Shape
    parts: tuple[Size | Shape, ...]

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        env = exact(env, *(part for part in self.parts if isinstance(part, Size)))
        parts = [part.bind(env) if isinstance(part, Shape) else (part.bind(env),) for part in self.parts]
        return arithmetic.same_shape(self.shape.bind(env), parts)

    def facts(self) -> Iterator[Fact]:
        """Yield the shape, and the facts in its parts."""
        for part in (self.shape, *self.parts):
            yield from facts_of(part)

    def __str__(self) -> str:
        return f"{self.shape} = [{', '.join(map(str, self.parts))}]"


@dataclass(frozen=True)
class Broadcastable(Condition):
    """The condition that two shapes broadcast to each other."""

    first: Shape
    second: Shape

    def holds(self, env: Env) -> Any:
        """Return True if it holds."""
        return arithmetic.broadcastable(self.first.bind(env), self.second.bind(env))

    def facts(self) -> Iterator[Fact]:
        """Yield the facts of both words."""
        yield from facts_of(self.first)
        yield from facts_of(self.second)

    def __str__(self) -> str:
        return f"{self.first} broadcasts with {self.second}"


def at_most(left: Size | int, right: Size | int) -> Condition:
    """Return the condition left <= right."""
    return Comparison(Size.of(left), "<=", Size.of(right))


def less(left: Size | int, right: Size | int) -> Condition:
    """Return the condition left < right."""
    return at_most(Size.of(left) + 1, right)


def equal(left: Size | int, right: Size | int) -> Condition:
    """Return the condition left == right."""
    return Comparison(Size.of(left), "==", Size.of(right))


def within(least: Size | int, x: Size | int, most: Size | int) -> Condition:
    """Return the condition least <= x <= most."""
    return at_most(least, x) & at_most(x, most)


def all_of(*conditions: Condition) -> Condition:
    """Return the condition that every condition holds."""
    terms = [term for c in conditions for term in (c.terms if isinstance(c, AllOf) else (c,))]
    return terms[0] if len(terms) == 1 else AllOf(tuple(terms))


def any_of(*conditions: Condition) -> Condition:
    """Return the condition that at least one condition holds."""
    terms = [term for c in conditions for term in (c.terms if isinstance(c, AnyOf) else (c,))]
    return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))


def unless_known(*facts: Fact) -> Condition:
    """Return the condition that at least one fact is unknown."""
    return any_of(*(~Known(fact) for fact in facts))


def facts_of(expression: Condition | Size | Shape | Scalar) -> Iterator[Fact]:
    """Yield the facts in an expression in order, once for each occurrence."""
    if isinstance(expression, Condition):
        yield from expression.facts()
    elif isinstance(expression, Shape):
        yield Fact(expression.name, Kind.SHAPE)
    elif isinstance(expression, Size):
        for monomial, _ in expression.terms:
            for atom in monomial:
                if isinstance(atom, Dim):
                    yield Fact(atom.name, Kind.NUMBER)
                elif isinstance(atom, Applied):
                    for argument in atom.arguments:
                        yield from facts_of(argument)
    elif isinstance(expression.leaf, str):
        yield Fact(expression.leaf, Kind.REAL)
    else:
        for part in (expression.leaf, *expression.arguments):
            if not isinstance(part, float):
                yield from facts_of(part)


def _until(decisive: bool, terms: Sequence[Condition], env: Env) -> Any:
    """Evaluate terms in order, each for the facts that those before it left undecided."""
    result: Any = not decisive
    for term in terms:
        if isinstance(result, np.ndarray):
            undecided = result != decisive
            if not undecided.any():
                break
            result = result.copy()
            result[undecided] = term.holds(_narrowed(env, term, undecided))
        elif result != decisive:
            result = term.holds(env)
    return result


def _narrowed(env: Env, term: Condition, chosen: Any) -> dict[str, Any]:
    """Return the facts of a term, of arrays the chosen elements only."""
    narrowed = {}
    for fact in term.facts():
        with contextlib.suppress(KeyError):
            narrowed[fact.name] = _elements(env[fact.name], chosen)
    return narrowed


def _elements(value: Any, chosen: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_elements(size, chosen) for size in value)
    return value[chosen] if isinstance(value, np.ndarray) else value
