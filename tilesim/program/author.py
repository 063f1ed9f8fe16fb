"""The line of an operator's author, stated in the error of every mistake in an operator file.

The author's frames are those outside tilesim and of the operators that come with it; frames of the standard library and
of numpy are not the author's.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

_PACKAGE = Path(__file__).parents[1]
_FINDING = str(_PACKAGE / "ops" / "__init__.py")
_DECLARING = str(_PACKAGE / "operators" / "operator.py")
_SHIPPED = tuple(f"{_PACKAGE / wing}{os.sep}" for wing in ("ops", "measured"))
_NO_AUTHOR = (f"{Path(np.__file__).parent}{os.sep}", "<string>", "<frozen ")  # dataclasses write methods in <string>
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"


def caller(operator: str = "") -> str:
    """Return file:line of the innermost frame of the author.

    `operator` is the line of the operator whose kernel is being recorded: the answer for a kernel that is not written
    by the author.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to name the author's line
    while frame.f_back is not None and not _is_authors(frame.f_code.co_filename):
        if operator and frame.f_code.co_filename == _DECLARING:
            return operator
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


def line_of(error: BaseException, operator: str) -> str:
    """Return file:line of the innermost frame of the author in the traceback of `error`; else `operator`."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [_line(frame.filename, frame.lineno) for frame in frames if _is_authors(frame.filename)]
    return lines[-1] if lines else operator


def first_line(function: Callable[..., object]) -> str:
    """Return file:line of the definition of a function, or of the class of a callable object."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None) or type(plain).__call__.__code__
    return _line(code.co_filename, code.co_firstlineno)


def _is_authors(file: str) -> bool:
    if file.startswith(f"{_PACKAGE}{os.sep}"):
        return file.startswith(_SHIPPED) and file != _FINDING
    installed = "-packages" in file  # a folder of the standard library has them
    return not file.startswith(_NO_AUTHOR) and (installed or not file.startswith(_STANDARD_LIBRARY))


def _line(file: str, number: int | None) -> str:
    return f"{Path(file).name}:{number}"
