"""Problems of the data of a file, one line each, from the errors of pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails, ValidationError

from tilesim.errors import did_you_mean

_MUST_BE: Final[dict[str, str]] = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "greater_than": "must be more than 0",
    "greater_than_equal": "must be 0 or more",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be a list",
}


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one line for each problem of `error` in data for `model`, each beginning with the dotted key.

    A misspelt key is one problem, not two: the intended key is not reported as missing.
    """
    lines: list[str] = []
    meant: set[str] = set()
    missing: list[str] = []
    for detail in error.errors(include_url=False):
        key = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "missing":
            missing.append(key)
        elif detail["type"] == "extra_forbidden":
            table, _, word = key.rpartition(".")
            hint = did_you_mean(word, _fields(model, detail["loc"][:-1]))
            if hint:
                meant.add(f"{table}.{hint.split(chr(39))[1]}".removeprefix("."))
            where = f" of {table}" if table else ""
            lines.append(f"{key} is not a key{where}{';' if hint else ''}{hint}")
        else:
            lines.append(_line(key, detail))
    return lines + [f"{key} is missing" for key in missing if key not in meant]


def _line(key: str, detail: ErrorDetails) -> str:
    """Return the problem of a given value."""
    context: Mapping[str, Any] = detail.get("ctx", {})
    kind, given = detail["type"], detail["input"]
    if kind == "value_error":
        return f"{key}: {context['error']}"
    if kind == "literal_error":
        choices = str(context["expected"])
        return f"{key} is {given!r}, must be one of {choices};{did_you_mean(str(given), _quoted(choices))}".rstrip(";")
    value = "a table" if isinstance(given, Mapping) else repr(given)
    return f"{key} is {value}, {_MUST_BE.get(kind, detail['msg'].lower())}"


def _quoted(text: str) -> list[str]:
    """Return the quoted words of `text`.

    >>> _quoted("'a', 'b' or 'c'")
    ['a', 'b', 'c']
    """
    return text.split("'")[1::2]


def _fields(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table at `path` in `model`."""
    table_of_any_name: object = None
    for part in path:
        by_key = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        inner = by_key.get(str(part), table_of_any_name)
        table_of_any_name = next(iter(get_args(inner)[1:]), None)  # of dict[str, Kernel]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return [field.alias or name for name, field in model.model_fields.items()]
