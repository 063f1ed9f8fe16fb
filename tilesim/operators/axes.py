"""The axes of two shapes that are broadcast to each other, as numpy does it, with neighbours of one kind merged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

BOTH: Final = "="
FIRST: Final = "1"
SECOND: Final = "2"
"""Which of two operands have an axis; the other one has one value for all of it."""


class Merged(NamedTuple):
    """The axes of a result that hold more than one element: `word` has a letter for each, `sizes` its elements."""

    word: str
    sizes: tuple[int, ...]

    @property
    def spread(self) -> bool:
        """Whether an operand has fewer elements than the result."""
        return self.word not in ("", BOTH)

    @property
    def has_no_elements(self) -> bool:
        """Whether the result has none."""
        return 0 in self.sizes


def broadcast(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of a result of two operands, None where they do not broadcast.

    >>> broadcast((4, 1, 3), (2, 3)), broadcast((4, 3), (4,))
    ((4, 2, 3), None)
    """
    return None if apart(first, second) else tuple(b if a == 1 else a for a, b in _aligned(first, second))


def apart(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int, int]]:
    """(axis, counted from the end, size in the first, size in the second) of all that keep two shapes apart.

    >>> apart((4, 5, 6), (3, 6))
    [(-2, 5, 3)]
    """
    pairs = _aligned(first, second)
    return [(i - len(pairs), a, b) for i, (a, b) in enumerate(pairs) if a != b and 1 not in (a, b)]


def merged(first: Sequence[int], second: Sequence[int]) -> Merged:
    """The axes of the result of two operands; none of two that do not broadcast.

    >>> merged((8, 4, 2, 3), (2, 3)), merged((5, 1), (5, 7)), merged((1, 6), (6,))
    (Merged(word='1=', sizes=(32, 6)), Merged(word='=2', sizes=(5, 7)), Merged(word='=', sizes=(6,)))
    """
    if apart(first, second):
        return Merged("", ())
    kinds = [(_kind(a, b), b if a == 1 else a) for a, b in _aligned(first, second) if (a, b) != (1, 1)]
    runs = [(kind, math.prod(size for _, size in run)) for kind, run in itertools.groupby(kinds, lambda one: one[0])]
    return Merged("".join(kind for kind, _ in runs), tuple(size for _, size in runs))


def _kind(a: int, b: int) -> str:
    return BOTH if a == b else SECOND if a == 1 else FIRST


def _aligned(first: Iterable[int], second: Iterable[int]) -> list[tuple[int, int]]:
    """The sizes of both, axis by axis, the shorter shape with axes of 1 in front."""
    pairs = itertools.zip_longest(reversed(tuple(first)), reversed(tuple(second)), fillvalue=1)
    return list(pairs)[::-1]
