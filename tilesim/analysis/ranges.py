"""Lists and ranges of values, `KEY=a,b,c` and `KEY=start:stop:step`, for dims and for parameters of a chip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from tilesim.errors import BadInput
from tilesim.operators.binding import parse, tensor_named
from tilesim.operators.operator import Operator
from tilesim.operators.shapes import TensorSpec

MOST_VALUES: Final = 100_000
"""Most values of a range and most points of a sweep; more are a mistake in a step."""
STARTS_AND_STOP: Final = (2, 3)
"""Numbers of parts of a range: start and stop, or start, stop and step."""


def numbers(text: str, *, whole: bool = False) -> list[int | float]:
    """Return the numbers that `text` lists: single ones and ranges start:stop:step, stop included, in the given order.

    Fractions are stepped exactly; a number without a fraction is an int.

    >>> numbers("16,32"), numbers("16:64:16"), numbers("1:2:0.25"), numbers("4:1:-1,8")
    ([16, 32], [16, 32, 48, 64], [1, 1.25, 1.5, 1.75, 2], [4, 3, 2, 1, 8])

    Raises BadInput with all problems at once.
    """
    values: list[int | float] = []
    problems: list[str] = []
    for part in text.split(","):
        try:
            values += _run(part.strip(), whole=whole)
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput("range", problems)
    return values


def parse_grid(op: Operator, words: Iterable[str]) -> dict[str, Any]:
    """Return the values of command-line words, each KEY=VALUE with one value or several; several are a list.

    Dims and attributes take lists and ranges, tensors and options lists: `H=16:4800:16`, `self=2x4x6,2x4x8`,
    `inject=true,false`. Raises BadInput with all problems at once.
    """
    out: dict[str, Any] = {}
    problems: list[str] = []
    for word in words:
        key, equals, text = word.partition("=")
        try:
            values = _values(op, key, text) if equals else parse(op, [word])
        except BadInput as error:
            problems += error.problems
            continue
        problems += [f"{name} is given twice" for name in values if name in out]
        out |= values
    if problems:
        raise BadInput(op.name, list(dict.fromkeys(problems)))
    return out


def parse_settings(words: Iterable[str]) -> dict[str, list[int | float]]:
    """Return the values of command-line words KEY=VALUES for parameters of a chip; the keys are not checked.

    >>> parse_settings(["memory.ub.size_bytes=131072:196608:32768", "cores.vector=24,48"])
    {'memory.ub.size_bytes': [131072, 163840, 196608], 'cores.vector': [24, 48]}

    Raises BadInput with all problems at once.
    """
    out: dict[str, list[int | float]] = {}
    problems: list[str] = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            problems.append(f"{word!r} is not KEY=VALUE")
        elif key in out:
            problems.append(f"{key} is given twice")
        else:
            try:
                out[key] = numbers(text)
            except BadInput as error:
                problems += [f"{key}: {problem}" for problem in error.problems]
    if problems:
        raise BadInput("set", problems)
    return out


def axes_of(op: Operator, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values of every key of `given`, a list of one value for a key that does not vary.

    A text is read as in `parse_grid`. A range or a sequence is several values, of a tensor a sequence of shapes.
    Raises BadInput with all problems at once.
    """
    out: dict[str, list[Any]] = {}
    problems: list[str] = []
    for key, value in given.items():
        if isinstance(value, str):
            try:
                (out[key],) = (v if isinstance(v, list) else [v] for v in _values(op, key, value).values())
            except BadInput as error:
                problems += error.problems
            continue
        out[key] = list(value) if _is_axis(value, tensor=tensor_named(op, key) is not None) else [value]
        if not out[key]:
            problems.append(f"{key} has no values")
    if problems:
        raise BadInput(op.name, problems)
    return out


def settings_of(given: Mapping[str, Any]) -> dict[str, list[int | float | str]]:
    """Return the values of every parameter to set: a number, a text as on the command line, or a sequence of them.

    Raises BadInput with all problems at once.
    """
    out: dict[str, list[int | float | str]] = {}
    problems: list[str] = []
    for key, value in given.items():
        if isinstance(value, str):
            try:
                out[key] = list(numbers(value))
            except BadInput as error:
                problems += [f"{key}: {problem}" for problem in error.problems]
            continue
        out[key] = list(value) if _is_axis(value, tensor=False) else [value]
        if not out[key]:
            problems.append(f"{key} has no values")
    if problems:
        raise BadInput("set", problems)
    return out


def _is_axis(value: Any, *, tensor: bool) -> bool:
    """Return True if `value` is several values; a shape is one."""
    if isinstance(value, range):
        return True
    if isinstance(value, TensorSpec) or not isinstance(value, Sequence):
        return False
    return not tensor or any(isinstance(item, bool) or not isinstance(item, int) for item in value)


def _values(op: Operator, key: str, text: str) -> dict[str, Any]:
    """Return the operator's name for a key with its value or list of values. Raises BadInput."""
    ranged = key in op.sizes or (key in {a.name for a in op.attributes} and key not in op.arguments)
    if ranged and ":" in text:
        try:
            return {key: numbers(text, whole=key in op.sizes)}
        except BadInput as error:
            raise BadInput(key, [f"{key}: {problem}" for problem in error.problems]) from None
    values: list[Any] = []
    problems: list[str] = []
    name = key
    for part in text.split(","):
        try:
            ((name, value),) = parse(op, [f"{key}={part}"]).items()
            values.append(value)
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput(key, list(dict.fromkeys(problems)))
    return {name: values[0] if len(values) == 1 else values}


def _run(part: str, *, whole: bool) -> list[int | float]:
    """Return the numbers of one part of a list."""
    words = part.split(":")
    kind = "whole number" if whole else "number"
    parsed = [_number(word, whole=whole) for word in words]
    invalid = [word for word, number in zip(words, parsed, strict=True) if number is None]
    if len(words) == 1 and invalid:
        raise BadInput("range", [f"{part!r} is not a {kind} or a range start:stop:step"])
    if len(words) not in (1, *STARTS_AND_STOP):
        raise BadInput("range", [f"{part!r} has {len(words)} parts, a range has start:stop:step"])
    if invalid:
        raise BadInput("range", [f"{part!r}: {word!r} is not a {kind}" for word in invalid])
    bounds = [number for number in parsed if number is not None]
    if len(bounds) == 1:
        return [_plain(bounds[0])]
    start, stop = bounds[:2]
    step = bounds[2] if len(bounds) > 2 else Fraction(1 if stop >= start else -1)
    if not step or (stop - start) / step < 0:
        raise BadInput("range", [f"{part!r} does not lead from {_plain(start)} to {_plain(stop)} by {_plain(step)}"])
    count = int((stop - start) / step) + 1
    if count > MOST_VALUES:
        raise BadInput("range", [f"{part!r} has {count:,} values, at most {MOST_VALUES:,}"])
    return [_plain(start + i * step) for i in range(count)]


def _number(word: str, *, whole: bool) -> Fraction | None:
    try:
        number = Fraction(word.strip().replace("_", ""))
    except (ValueError, ZeroDivisionError):
        return None
    return None if "/" in word or (whole and number.denominator != 1) else number


def _plain(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)
