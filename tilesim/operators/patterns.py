"""Declared shapes as patterns, matched against given shapes to solve for the sizes of an operator.

A pattern is written as documents write shapes, "B S C*H" or "*X 2*N *Y". A starred name is a run of axes of any length,
folded into one size: their product. Where two runs stand around one axis, an attribute of the operator gives the index
of that axis. "~X" is a run that broadcasts to X with others like it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from tilesim.operators.shapes import broadcast
from tilesim.program.sizes import ONE, Size


@dataclass
class Solution:
    """The sizes of given shapes: `sizes` of the names [elements], and the axes behind each folded name."""

    sizes: dict[str, int] = field(default_factory=dict)
    folds: dict[str, tuple[int, ...]] = field(default_factory=dict)
    split: int | None = None
    """The axis between two folded runs, as the attribute gives it (negative: from the end)."""
    stated: set[str] = field(default_factory=set)
    """The names with a value given as a number, which broadcast shapes do not change."""

    def bind(self, name: str, value: int) -> None:
        """Keep `value` for `name` unless it has one."""
        self.sizes.setdefault(name, value)

    def spread(self, name: str, shape: tuple[int, ...]) -> None:
        """Broadcast the axes behind a folded name with those of `shape`, if they broadcast."""
        wider = broadcast(self.folds.get(name, shape), shape)
        size = math.prod(wider or ())
        if wider is None or (name in self.folds and name in self.stated and size != self.sizes[name]):
            return
        self.folds[name] = wider
        if name not in self.stated:
            self.sizes[name] = size

    def complete(self, other: Self) -> None:
        """Take the values of `other` for names without a value."""
        self.sizes = {**other.sizes, **self.sizes}
        self.folds = {**other.folds, **self.folds}

    def solve(self, size: Size, value: int) -> None:
        """Solve size = value for the only unknown name of `size`, if the quotient is whole."""
        unknown = size.names() - self.sizes.keys()
        if len(unknown) != 1 or len(size.terms) != 1:
            return
        (name,) = unknown
        factor = size.substitute({**self.sizes, name: 1}).constant
        if factor and value % factor == 0:
            self.bind(name, value // factor)


@dataclass(frozen=True)
class Pattern:
    """The declared shape of a tensor: a Size for each axis, and the names of the axes that are folded runs."""

    text: str
    axes: tuple[Size | str, ...]
    spread: bool = False
    """True if it is one run that broadcasts."""

    @classmethod
    def parsed(cls, text: str, names: Mapping[str, Size]) -> Self:
        """Return the pattern that `text` writes with `names`. Raises KeyError for an unknown name."""
        return cls(text, tuple(_axis(word, names) for word in text.split()), text.startswith("~"))

    def names(self) -> frozenset[str]:
        """Return the names that occur in it."""
        return frozenset(n for axis in self.axes for n in ([axis] if isinstance(axis, str) else axis.names()))

    @property
    def folded(self) -> tuple[str, ...]:
        """The names of its folded runs."""
        return tuple(axis for axis in self.axes if isinstance(axis, str))

    @property
    def paired(self) -> bool:
        """True if it is two adjacent folded runs."""
        return len(self.folded) == len(self.axes) == 2

    def learn(self, shape: Sequence[int], into: Solution) -> None:
        """Add the sizes of `shape` to a solution; its values so far stay."""
        runs = self._runs(shape, into.split, into.folds)
        if runs is None:
            return
        start = 0
        compound: list[tuple[Size, int]] = []
        for axis, length in zip(self.axes, runs, strict=True):
            part = tuple(shape[start : start + length])
            start += length
            if isinstance(axis, str) and self.spread:
                into.spread(axis, part)
            elif isinstance(axis, str):
                into.folds.setdefault(axis, part)
                into.bind(axis, math.prod(into.folds[axis]))
            elif len(axis.names()) == 1 and axis == Size.of(next(iter(axis.terms[0][0]))):
                into.bind(next(iter(axis.names())), math.prod(part))
            else:
                compound.append((axis, math.prod(part)))
        for size, value in compound:
            into.solve(size, value)

    def filled(self, solution: Solution, literal: Mapping[Size, int] | None = None) -> tuple[int, ...] | None:
        """Return the shape that a solution gives it, None if a size is unknown; axes of `literal` take its values.

        >>> from tilesim.program.sizes import dim
        >>> c, h = dim("C"), dim("H")
        >>> Pattern.parsed("D", {"D": c * h}).filled(Solution({"C": 4}), {c * h: 130})
        (130,)
        """
        known = literal or {}
        out: list[int] = []
        for axis in self.axes:
            if isinstance(axis, str):
                if axis not in solution.folds:
                    return None
                out += solution.folds[axis]
            elif axis in known:
                out.append(known[axis])
            elif axis.names() <= solution.sizes.keys():
                out.append(axis.bind(solution.sizes))
            else:
                return None
        return tuple(out)

    def _runs(self, shape: Sequence[int], split: int | None, folded: Mapping[str, tuple[int, ...]]) -> list[int] | None:
        """Return the number of axes of `shape` for each axis of the pattern; None if it does not match.

        The second of two adjacent runs takes the number of axes that another tensor gives, else the last axis. An axis
        such as 2*N whose size is not a multiple of 2 takes the axes after it too, if their product is a multiple.
        """
        folds, rank = len(self.folded), len(shape)
        spare = rank - (len(self.axes) - folds)
        if spare < 0 or (spare and not folds):
            return None
        if folds < 2:
            return [spare if isinstance(axis, str) else 1 for axis in self.axes]
        if self.paired:
            last = len(folded.get(self.folded[-1], ("the last axis",)))
            return [rank - last, last] if last <= rank else None
        if split is None or not -rank <= split < rank:
            return None
        before = split % rank
        multiple = next(axis.divisor() for axis in self.axes if isinstance(axis, Size))
        joined = shape[before] % multiple and not math.prod(shape[before:]) % multiple
        return [before, rank - before, 0] if joined else [before, 1, rank - 1 - before]


def _axis(word: str, names: Mapping[str, Size]) -> Size | str:
    """Return one axis of a pattern: a folded name, or a product of names and numbers."""
    if word.startswith(("*", "~")):
        return word[1:]
    return math.prod((Size.of(int(part)) if part.isdigit() else names[part] for part in word.split("*")), start=ONE)
