"""Shapes of tensors: the specification of a tensor, shapes in text, and two shapes that broadcast to each other."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tilesim.errors import BadInput
from tilesim.program.dtypes import dtype_named

INT64_MAX = 2**63 - 1
"""The largest size that the vendor's interfaces can pass."""
SCALARS = ("scalar", "()", "[]")
"""Texts of the shape without axes; `shape_text` writes the first."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape [elements] and dtype of a tensor without its values; sizes may be zero or negative.

    >>> TensorSpec((2, 4), "bf16")
    TensorSpec(shape=(2, 4), dtype='bfloat16')

    Raises BadInput, with all problems, if a size is not a whole number or the dtype does not exist.
    """

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        """Check, and write sizes as int and the dtype by its canonical name."""
        problems: list[str] = []
        object.__setattr__(self, "shape", whole_numbers(self.shape, problems))
        try:
            object.__setattr__(self, "dtype", dtype_named(self.dtype))
        except BadInput as error:
            problems += error.problems
        if problems:
            raise BadInput("tensor", problems)

    def __str__(self) -> str:
        """Return the shape and the dtype as text: `[2, 4] bfloat16`."""
        return f"{list(self.shape)} {self.dtype}"


def shape_text(shape: Iterable[int]) -> str:
    """Return a shape as the command line writes it.

    >>> shape_text((2, 4, 6)), shape_text(())
    ('2x4x6', 'scalar')
    """
    return "x".join(map(str, shape)) or SCALARS[0]


def shape_of(text: str) -> tuple[int, ...]:
    """Return the shape that `text` writes in the form of `shape_text`. Raises ValueError for any other text.

    >>> shape_of("2x4x6"), shape_of("scalar")
    ((2, 4, 6), ())
    """
    word = text.lower()
    return () if word in SCALARS else tuple(int(part) for part in word.split("x"))


def whole_numbers(shape: Iterable[Any], problems: list[str]) -> tuple[int, ...]:
    """Return the sizes of `shape` as ints, and add the sizes that are not whole numbers to `problems`."""
    try:
        sizes = tuple(shape)
    except TypeError:
        problems.append(f"{shape!r} is not a shape")
        return ()
    numbers = []
    for size in sizes:
        value = whole_number(size)
        if value is None:
            problems.append(f"{size!r} in a shape is not a whole number")
        else:
            numbers.append(value)
    return tuple(numbers)


def whole_number(value: Any) -> int | None:
    """Return `value` as an int; None for a value that is not a whole number, and for a bool.

    >>> whole_number(3), whole_number(3.0), whole_number(True)
    (3, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


BOTH: Final = "="
FIRST: Final = "1"
SECOND: Final = "2"
"""Kinds of axes by the operands that have them; the other operand has one value for all of the axis."""


class Merged(NamedTuple):
    """The axes of a result that hold more than one element: `word` has a letter for each, `sizes` its elements."""

    word: str
    sizes: tuple[int, ...]

    @property
    def spread(self) -> bool:
        """True if an operand has fewer elements than the result."""
        return self.word not in ("", BOTH)

    @property
    def has_no_elements(self) -> bool:
        """True if the result has no elements."""
        return 0 in self.sizes


def broadcast(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape of the result of two operands; None if they do not broadcast.

    >>> broadcast((4, 1, 3), (2, 3)), broadcast((4, 3), (4,))
    ((4, 2, 3), None)
    """
    return None if apart(first, second) else tuple(b if a == 1 else a for a, b in _aligned(first, second))


def apart(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (axis, counted from the end, size in the first, size in the second) of all axes that do not broadcast.

    >>> apart((4, 5, 6), (3, 6))
    [(-2, 5, 3)]
    """
    pairs = _aligned(first, second)
    return [(i - len(pairs), a, b) for i, (a, b) in enumerate(pairs) if a != b and 1 not in (a, b)]


def merged(first: Sequence[int], second: Sequence[int]) -> Merged:
    """Return the merged axes of the result of two operands; none for operands that do not broadcast.

    >>> merged((8, 4, 2, 3), (2, 3)), merged((5, 1), (5, 7)), merged((1, 6), (6,))
    (Merged(word='1=', sizes=(32, 6)), Merged(word='=2', sizes=(5, 7)), Merged(word='=', sizes=(6,)))
    """
    if apart(first, second):
        return Merged("", ())
    kinds = [(_kind(a, b), b if a == 1 else a) for a, b in _aligned(first, second) if (a, b) != (1, 1)]
    groups = itertools.groupby(kinds, operator.itemgetter(0))
    runs = [(kind, math.prod(size for _, size in run)) for kind, run in groups]
    return Merged("".join(kind for kind, _ in runs), tuple(size for _, size in runs))


def _kind(a: int, b: int) -> str:
    return BOTH if a == b else SECOND if a == 1 else FIRST


def _aligned(first: Iterable[int], second: Iterable[int]) -> list[tuple[int, int]]:
    """Return the sizes of both shapes axis by axis, the shorter one with axes of 1 in front."""
    pairs = itertools.zip_longest(reversed(tuple(first)), reversed(tuple(second)), fillvalue=1)
    return list(pairs)[::-1]
