"""Signatures: the shapes that an instruction takes and yields, in numpy's notation "(*rows,n),(*rows)->(*rows,n)".

A name stands for one size and a starred name for any number of axes. "()" is one value: a scalar or an element of a
buffer. Equal names stand for equal sizes, so an instruction broadcasts only what its signature states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilesim.program.sizes import ONE, Size

Shape = tuple[Size, ...]
Axes = tuple[str, ...]
Sizes = dict[str, Shape]
"""Name -> the sizes that it stands for, one unless it is starred."""


class ShapeError(ValueError):
    """The error of operands with shapes that an instruction does not take."""


def text(shape: Sequence[object]) -> str:
    """Return a shape as text: [rows, H]."""
    return "[" + ", ".join(map(str, shape)) + "]"


@dataclass(frozen=True, slots=True)
class Signature:
    """The axes of the operands and of the result."""

    operands: tuple[Axes, ...]
    result: Axes

    @staticmethod
    def parsed(signature: str) -> Signature:
        """Return the signature that a text states.

        >>> Signature.parsed("(*rows,n)->(*rows)")
        Signature(operands=(('*rows', 'n'),), result=('*rows',))
        """
        operands, result = ([_axes(group) for group in side.split("),(")] for side in signature.split("->"))
        return Signature(tuple(operands), result[0])

    def yields(self, shapes: Sequence[Shape], out: Shape | None = None) -> Shape:
        """Return the shape of the result; `shapes` are those of the operands, `out` that of a known destination.

        Raises ShapeError for operands or a destination of other shapes, and for a result that only `out` determines.
        """
        sizes: Sizes = {}
        if len(shapes) != len(self.operands):
            raise ShapeError(f"takes {len(self.operands)} operands, not {len(shapes)}")
        if not all(_matches(axes, shape, sizes) for axes, shape in zip(self.operands, shapes, strict=True)):
            if len(set(self.operands)) == 1 and all(shapes):
                raise ShapeError(f"shapes differ: {_listed(shapes)}; broadcast explicitly")
            raise ShapeError(f"takes {_listed(self.operands)}, not {_listed(shapes)}")
        if out is not None:
            if not _matches(self.result, out or (ONE,), sizes):
                raise ShapeError(f"yields {text(_filled(self.result, sizes))} of {_listed(shapes)}, not {text(out)}")
            return out
        if any(name not in sizes for name in self.result):
            raise ShapeError("the shape of the result is not known from its operands; give out=")
        return tuple(size for name in self.result for size in sizes[name]) or (ONE,)


def _axes(group: str) -> Axes:
    return tuple(name for name in group.strip("()").split(",") if name)


def _listed(shapes: Sequence[Sequence[object]]) -> str:
    return " and ".join(text(shape) if shape else "one value" for shape in shapes)


def _filled(axes: Axes, sizes: Sizes) -> tuple[Size | str, ...]:
    """Return the axes with known sizes in the place of names."""
    return tuple(size for name in axes for size in sizes.get(name, (name,))) or (ONE,)


def _matches(axes: Axes, shape: Shape, sizes: Sizes) -> bool:
    """Return True if a shape has these axes; names without a size take theirs from it."""
    at = next((i for i, name in enumerate(axes) if name.startswith("*")), None)
    groups: list[Shape] = [(size,) for size in shape]
    if at is not None:
        end = len(shape) - (len(axes) - at - 1)
        if end < at or not shape:
            return False
        groups[at:end] = [shape[at:end]]
    if len(groups) != len(axes):
        return False
    for name, group in zip(axes, groups, strict=True):
        known = sizes.setdefault(name, group)
        if known != group and not (len(axes) == 1 and known == () and group == (ONE,)):
            return False
    return True
