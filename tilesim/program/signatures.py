"""Which shapes an instruction takes and yields, written as numpy writes them: "(*rows,n),(*rows)->(*rows,n)".

A name stands for one size and a starred name for any number of axes. "()" is one value: a scalar or an element of a
buffer. Equal names stand for equal sizes, so nothing is broadcast that the signature does not say.
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
    """Operands whose shapes an instruction does not take."""


def text(shape: Sequence[object]) -> str:
    """A shape as it is written: [rows, H]."""
    return "[" + ", ".join(map(str, shape)) + "]"


@dataclass(frozen=True, slots=True)
class Signature:
    """The axes of the operands and of the result."""

    operands: tuple[Axes, ...]
    result: Axes

    @staticmethod
    def parsed(signature: str) -> Signature:
        """The signature that a text states.

        >>> Signature.parsed("(*rows,n)->(*rows)")
        Signature(operands=(('*rows', 'n'),), result=('*rows',))
        """
        operands, result = ([_axes(group) for group in side.split("),(")] for side in signature.split("->"))
        return Signature(tuple(operands), result[0])

    def yields(self, shapes: Sequence[Shape], out: Shape | None = None) -> Shape:
        """The shape of the result of operands; `out` is that of the destination, if there is one already.

        Raises ShapeError for operands or a destination of other shapes, and for a result that only `out` can tell.
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
    """The axes with the sizes that are known in the place of names."""
    return tuple(size for name in axes for size in sizes.get(name, (name,))) or (ONE,)


def _matches(axes: Axes, shape: Shape, sizes: Sizes) -> bool:
    """Whether a shape has these axes; names that are not known yet take their sizes from it."""
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
