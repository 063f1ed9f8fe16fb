"""Expressions as source text: Sizes, Scalars and conditions in Python, C++ and JavaScript, by one printer.

Names of facts become identifiers, the parameters of a printed function; a fact that is unknown is None in Python,
undefined in JavaScript and a default value in C++. Whole numbers are exact: BigInt in JavaScript, 128 bits in C++,
where a larger one throws. `runtime` is the text that printed expressions need before them.
"""

from __future__ import annotations

import functools
import json
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilesim.operators.conditions import (
    AllOf,
    AnyOf,
    Broadcastable,
    Comparison,
    Condition,
    Fact,
    Flag,
    Kind,
    Known,
    Not,
    OneOf,
    SameShape,
    SameWord,
    facts_of,
)
from tilesim.program import arithmetic
from tilesim.program.sizes import Applied, Atom, Dim, Scalar, Shape, Size

Expression = Condition | Size | Scalar


@dataclass(frozen=True)
class Language:
    """The syntax of a language where languages differ; `{}` stands for an operand."""

    runtime: str
    """The file with the functions that expressions call."""
    whole: Callable[[int], str]
    infinity: str
    both: str
    either: str
    negation: str
    true: str
    false: str
    equal: str
    known: str
    words: str
    sizes: str
    shapes: str
    parameters: Mapping[Kind, str]
    """A parameter of a function, by the kind of the fact."""
    function: str
    """The definition of a function, with its {type}, {name}, {parameters} and {body}."""


def _of_128_bits(number: int) -> str:
    return str(number) if abs(number) < 2**63 else f'integer("{number}")'


PYTHON = Language(
    runtime="arithmetic.py",
    whole=str,
    infinity="math.inf",
    both=" and ",
    either=" or ",
    negation="not ({})",
    true="True",
    false="False",
    equal="==",
    known="{} is not None",
    words="({},)",
    sizes="({},)",
    shapes="({},)",
    parameters=dict.fromkeys(Kind, "{}"),
    function="def {name}({parameters}):\n    return {body}\n",
)
JAVASCRIPT = Language(
    runtime="arithmetic.js",
    whole="{}n".format,
    infinity="Infinity",
    both=" && ",
    either=" || ",
    negation="!({})",
    true="true",
    false="false",
    equal="===",
    known="{} !== undefined",
    words="[{}]",
    sizes="[{}]",
    shapes="[{}]",
    parameters=dict.fromkeys(Kind, "{}"),
    function="function {name}({parameters}) {{\n  return {body};\n}}\n",
)
CPP = Language(
    runtime="arithmetic.hpp",
    whole=_of_128_bits,
    infinity="INFINITY",
    both=" && ",
    either=" || ",
    negation="!({})",
    true="true",
    false="false",
    equal="==",
    known="{}.known",
    words="{{{}}}",
    sizes="Shape({{{}}})",
    shapes="{{{}}}",
    parameters={
        Kind.NUMBER: "const Int& {}",
        Kind.REAL: "double {}",
        Kind.WORD: "const Word& {}",
        Kind.FLAG: "bool {}",
        Kind.SHAPE: "const Shape& {}",
    },
    function="inline {type} {name}({parameters}) {{\n  return {body};\n}}\n",
)

_KEYWORDS = """alignas alignof asm auto bool case catch char const constexpr decltype default delete do double enum
explicit export extern float friend function goto inline int let long mutable namespace new null operator private
protected public register short signed sizeof static struct super switch template this throw typedef typeid typename
undefined union unsigned using var virtual void volatile"""
_RESERVED = frozenset((*keyword.kwlist, *_KEYWORDS.split()))


def identifier(name: str) -> str:
    """Return the identifier of a fact in printed code.

    >>> identifier("x.shape"), identifier("new")
    ('x_shape', 'new_')
    """
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if word in _RESERVED else word


def parameters(expression: Expression) -> tuple[Fact, ...]:
    """Return the facts in an expression in the order of their names, the parameters of its printed function."""
    return tuple(sorted(set(facts_of(expression)), key=lambda fact: (fact.name, fact.kind.value)))


def runtime(language: Language) -> str:
    """Return the functions that printed expressions call."""
    return Path(arithmetic.__file__).with_name(language.runtime).read_text(encoding="utf-8")


def function(name: str, expression: Expression, language: Language) -> str:
    """Return an expression as a function of its facts.

    >>> from tilesim.operators.conditions import at_most
    >>> from tilesim.program.sizes import ceil_div, dim
    >>> print(function("fits", at_most(13 * dim("H"), 62448 - 16 * ceil_div(dim("C"), 8)), JAVASCRIPT), end="")
    function fits(C, H) {
      return 13n * H <= 62448n - 16n * ceil_div(C, 8n);
    }
    """
    facts = parameters(expression)
    names = {identifier(fact.name) for fact in facts}
    if len(names) < len(facts):
        raise ValueError(f"the facts {', '.join(fact.name for fact in facts)} share an identifier in printed code")
    types = {Size: "Int", Scalar: "double"}
    return language.function.format(
        type=types.get(type(expression), "bool"),
        name=name,
        parameters=", ".join(language.parameters[fact.kind].format(identifier(fact.name)) for fact in facts),
        body=printed(expression, language),
    )


def printed(expression: Expression, language: Language) -> str:
    """Return an expression as source text.

    >>> from tilesim.operators.conditions import Fact, Kind, equal, unless_known
    >>> from tilesim.program.sizes import dim, mod
    >>> printed(unless_known(Fact("H", Kind.NUMBER)) | equal(mod(dim("H"), 16), 0), PYTHON)
    'not (H is not None) or mod(H, 16) == 0'
    """
    if isinstance(expression, Size):
        return _size(expression, language)
    if isinstance(expression, Scalar):
        return _scalar(expression, language)
    return _condition(expression, language)


def _condition(condition: Condition, language: Language) -> str:
    write = functools.partial(printed, language=language)
    match condition:
        case Comparison(left, sign, right):
            text = f"{write(left)} {language.equal if sign == '==' else sign} {write(right)}"
        case AllOf(terms):
            parts = [f"({write(t)})" if isinstance(t, AnyOf) else write(t) for t in terms]
            text = language.both.join(parts) or language.true
        case AnyOf(terms):
            parts = [f"({write(t)})" if isinstance(t, AllOf) else write(t) for t in terms]
            text = language.either.join(parts) or language.false
        case Not(term):
            text = language.negation.format(write(term))
        case Known(fact):
            text = language.known.format(identifier(fact.name))
        case Flag(name):
            text = identifier(name)
        case OneOf(name, words):
            text = f"one_of({identifier(name)}, {language.words.format(', '.join(map(json.dumps, words)))})"
        case SameWord(name, other):
            text = f"{identifier(name)} {language.equal} {identifier(other)}"
        case SameShape(shape, sides):
            text = f"same_shape({identifier(shape.name)}, {language.shapes.format(', '.join(_parts(sides, language)))})"
        case Broadcastable(first, second):
            text = f"broadcastable({identifier(first.name)}, {identifier(second.name)})"
        case _:
            raise TypeError(f"{type(condition).__name__} cannot be printed")
    return text


def _parts(parts: tuple[Size | Shape, ...], language: Language) -> list[str]:
    return [
        identifier(part.name) if isinstance(part, Shape) else language.sizes.format(_size(part, language))
        for part in parts
    ]


def _size(size: Size, language: Language) -> str:
    out = ""
    for monomial, coefficient in sorted(size.terms, key=lambda term: term[1] < 0):
        sign = " - " if coefficient < 0 and out else "-" if coefficient < 0 else " + " if out else ""
        number = [language.whole(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        out += sign + " * ".join([*number, *(_atom(atom, language) for atom in monomial)])
    return out or language.whole(0)


def _atom(atom: Atom, language: Language) -> str:
    match atom:
        case Dim(name):
            return identifier(name)
        case Applied(applied, arguments):
            texts = [identifier(a.name) if isinstance(a, Shape) else _size(a, language) for a in arguments]
            return f"{applied.name}({', '.join(texts)})"
    raise TypeError(f"{type(atom).__name__} cannot be printed")


def _real(number: float, language: Language) -> str:
    if math.isinf(number):
        return language.infinity if number > 0 else f"-{language.infinity}"
    return repr(number)


def _scalar(scalar: Scalar, language: Language) -> str:
    if scalar.function is None:
        leaf = scalar.leaf
        if isinstance(leaf, Size):
            return f"real({_size(leaf, language)})"
        return identifier(leaf) if isinstance(leaf, str) else _real(leaf, language)
    arguments = [_scalar(argument, language) for argument in scalar.arguments]
    if scalar.function.name.isidentifier():
        return f"{scalar.function.name}({', '.join(arguments)})"
    return scalar.function.text.format(*arguments)
