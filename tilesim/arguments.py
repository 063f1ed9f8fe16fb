"""Arguments of public functions against their annotations: one line names every argument of a wrong type."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from tilesim.errors import BadInput

UNCHECKED: Final = ("dtype",)
"""Arguments that accept more types than their annotation states; the function itself checks them."""
WORDS: Final[Mapping[Any, str]] = {
    str: "a text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    types.NoneType: "None",
    Mapping: "a mapping with names as keys",
    Sequence: "a list",
    Iterable: "a list",
    Callable: "a function",
}
"""Words for the classes that annotations name; any other class is called by its name."""
TESTS: Final[Mapping[Any, Callable[[object], bool]]] = {
    int: lambda value: isinstance(value, Integral) and not isinstance(value, bool),
    float: lambda value: isinstance(value, Real) and not isinstance(value, bool),
    bool: lambda value: type(value).__name__ in ("bool", "bool_"),  # numpy's too, which chips do without
    Path: lambda value: isinstance(value, os.PathLike),
    Sequence: lambda value: isinstance(value, Sequence) and not isinstance(value, str | bytes),
    Iterable: lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping),
    Callable: callable,
}
"""Tests of a value for the classes for which `isinstance` is not enough."""
PLAIN: Final = (str, int, float, bool, types.NoneType)
"""Classes that the values of a mapping are checked for; the function itself checks all others."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function with a check that raises BadInput for arguments that do not match its annotations.

    >>> @checked
    ... def area(sides: Mapping[str, int], unit: str) -> int: ...
    >>> area({"a": 1, "b": "2"}, unit=3)
    Traceback (most recent call last):
    tilesim.errors.BadInput: area: 2 problems: sides['b'] is '2', must be a whole number; unit is 3, must be a text
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        """Annotations by parameter, resolved at the first call, when all classes that they name exist."""
        single = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        stated = {p.name: p.annotation for p in single if p.annotation is not p.empty and p.name not in UNCHECKED}
        return get_type_hints(types.SimpleNamespace(__annotations__=stated), inspect.unwrap(function).__globals__)

    @functools.wraps(function)
    def call(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError:  # an argument too many or too few: Python's message says which
            return function(*args, **named)
        problems = [p for name, hint in hints().items() if name in given for p in _problems(name, given[name], hint)]
        if problems:
            raise BadInput(function.__name__, problems)
        return function(*args, **named)

    return call


def _problems(name: str, value: object, hint: Any) -> Iterator[str]:
    """Yield the problems of a value and of the values that it holds."""
    choices = _choices(hint)
    match = next((choice for choice in choices if _is(value, choice)), None)
    if match is None:
        plain = isinstance(value, (bytes, *PLAIN))
        *others, last = dict.fromkeys(map(_words, choices))
        expected = f"{', '.join(others)} or {last}" if others else last
        yield f"{name} is {repr(value) if plain else f'of type {type(value).__name__}'}, must be {expected}"
        return
    inner = get_args(match)
    if isinstance(value, Mapping) and inner:
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{name} has the key {key!r}, must be a text"
            elif all(choice in PLAIN for choice in _choices(inner[1])):
                yield from _problems(f"{name}[{key!r}]", item, inner[1])
    elif isinstance(value, Collection) and get_origin(match) in (Sequence, Iterable):
        for place, item in enumerate(value):
            yield from _problems(f"{name}[{place}]", item, inner[0])


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the hint itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is(value: object, choice: Any) -> bool:
    """Return True if a value is of the class of a hint that is not a union, whatever it holds."""
    kind = get_origin(choice) or choice
    return kind is Any or (TESTS[kind](value) if kind in TESTS else isinstance(value, kind))


def _words(choice: Any) -> str:
    """Return the words for a hint that is not a union."""
    kind = get_origin(choice) or choice
    return WORDS.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
