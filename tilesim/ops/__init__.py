"""The operators that come with the package, one file each, and how an operator is found by its name or file."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tilesim.arguments import checked
from tilesim.errors import BadInput, BadOperator, did_you_mean
from tilesim.operators.buffer_file import load_buffers
from tilesim.operators.buffer_operator import buffer_operator
from tilesim.operators.operator import Operator
from tilesim.program.author import line_of


@checked
def operators_shipped() -> tuple[str, ...]:
    """The names of the operators that come with the package."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


@checked
def load_operator(source: str | Path | Operator) -> Operator:
    """Return the operator that `source` names: a shipped one, `path/to/file.py:name` or `path/to/buffers.toml`.

    A file with a single operator needs no name after the colon. Raises BadInput for a name or file that does not exist,
    BadOperator with the line for a file that cannot be run.
    """
    if isinstance(source, Operator):
        return source
    source = str(source)
    path, name = _split(source)
    if path is not None:
        return LOADERS[path.suffix.lower()](path, name)
    known = operators_shipped()
    if source not in known:
        hint = did_you_mean(source, known) or f" there are: {', '.join(known)}"
        raise BadInput("operator", [f"{source!r} is not an operator;{hint}"])
    operator = getattr(importlib.import_module(f"{__name__}.{source}"), source, None)
    if not isinstance(operator, Operator):
        raise BadOperator(f"the file defines no operator '{source}'", f"{source}.py:1")
    return operator


def operator_of_kernel(kernel: str) -> Operator | None:
    """Return the shipped operator that profiles and benchmarks call `kernel`, None for an unknown name."""
    return next((op for op in _loaded(operators_shipped()) if op.runs_as(kernel)), None)


@functools.lru_cache(maxsize=8)
def _loaded(names: tuple[str, ...]) -> tuple[Operator, ...]:
    return tuple(map(load_operator, names))


def _split(source: str) -> tuple[Path | None, str]:
    """The file and the name in it; None and `source` for a plain name."""
    head, colon, tail = source.rpartition(":")
    if colon and head.lower().endswith(".py"):
        return Path(head), tail
    return (Path(source), "") if source.lower().endswith(tuple(LOADERS)) else (None, source)


def _from_buffers(path: Path, _: str) -> Operator:
    """Return the operator of a file of buffers."""
    return buffer_operator(load_buffers(str(path)))


def _from_python(path: Path, name: str) -> Operator:
    """Return the operator of that name in a Python file, its only operator for an empty name."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise BadInput("operator", [f"{path} cannot be read: {(error.strerror or 'unknown').lower()}"]) from None
    operators = _run(path.resolve(), changed)
    if not name and len(operators) == 1:
        return next(iter(operators.values()))
    if name not in operators:
        names = ", ".join(operators) or "none"
        problem = f"{name!r} is not an operator of {path.name};{did_you_mean(name, operators)}"
        if not name:
            problem = f"{path.name} needs the name of an operator, as {path.name}:NAME;"
        raise BadInput("operator", [f"{problem} there are: {names}"])
    return operators[name]


@functools.lru_cache(maxsize=64)
def _run(path: Path, changed: int) -> dict[str, Operator]:  # noqa: ARG001  (a part of the key of the cache: a changed file runs again)
    """The operators that a file defines, by name."""
    module_name = f"tilesim_operator_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadInput("operator", [f"{path.name} is not a Python file"])
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(module_name)
    sys.modules[module_name] = module  # dataclasses of the file look their module up
    try:
        spec.loader.exec_module(module)
    except BadOperator:
        raise
    except SyntaxError as error:
        raise BadOperator(f"{error.msg}", f"{Path(error.filename or path).name}:{error.lineno}") from None
    except (Exception, SystemExit) as error:
        raise BadOperator(f"{type(error).__name__}: {error}", line_of(error, f"{path.name}:1")) from error
    finally:
        if before is None:
            del sys.modules[module_name]
        else:
            sys.modules[module_name] = before
    return {name: value for name, value in vars(module).items() if isinstance(value, Operator)}


LOADERS: Final[Mapping[str, Callable[[Path, str], Operator]]] = {".py": _from_python, ".toml": _from_buffers}
"""Endings of files that define operators, and the function that loads one."""
