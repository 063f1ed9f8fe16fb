"""The line of an operator's author, which every mistake in an operator file is reported with.

Frames of the wings that declare and record operators, of the standard library and of numpy are passed over. Every other
frame is the author's; that of a shipped operator's file, too.
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
_OPERATORS = f"{_PACKAGE / 'operators'}{os.sep}"
_PASSED = (
    f"{_PACKAGE / 'program'}{os.sep}",
    f"{_PACKAGE / 'kernels'}{os.sep}",
    _OPERATORS,
    str(_PACKAGE / "ops" / "__init__.py"),
    f"{Path(np.__file__).parent}{os.sep}",
    "<string>",  # methods that dataclasses write
    "<frozen ",
)
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"


def caller(operator: str = "") -> str:
    """Return file:line of the innermost frame of the author.

    `operator` is the line of the operator whose kernel is being recorded: the answer for a kernel that is not written
    by the author.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to name the author's line
    while frame.f_back is not None and _is_passed(frame.f_code.co_filename):
        if operator and frame.f_code.co_filename.startswith(_OPERATORS):
            return operator
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


def line_of(error: BaseException, operator: str) -> str:
    """Return file:line of the innermost frame of the author in the traceback of `error`; else `operator`."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [_line(frame.filename, frame.lineno) for frame in frames if not _is_passed(frame.filename)]
    return lines[-1] if lines else operator


def first_line(function: Callable[..., object]) -> str:
    """Return file:line of the definition of a function, or of the class of a callable object."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None) or type(plain).__call__.__code__
    return _line(code.co_filename, code.co_firstlineno)


def _is_passed(file: str) -> bool:
    return file.startswith(_PASSED) or (file.startswith(_STANDARD_LIBRARY) and "-packages" not in file)


def _line(file: str, number: int | None) -> str:
    return f"{Path(file).name}:{number}"
