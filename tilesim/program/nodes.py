"""The nodes of a recorded phase: a tree of instructions and loops."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesim.program.buffers import Buffer, Range, Value, View
from tilesim.program.isa import ISA, ROUTES
from tilesim.program.sizes import ONE, ZERO, Scalar, Size, Variable, Word, dim

Operand = Value | Buffer | View | Scalar | Size | float
Target = Value | Buffer | View
Source = View | Scalar

PLACE: tuple[Word, ...] = ("start", "size", "after", "before", "index", "row", "rows")
"""The words of the variables that each tile of a loop binds, in the order of a Range."""


@dataclass(frozen=True, eq=False)
class Instr:
    """One recorded instruction: `dst` = op(`src`). `fresh` writes start a new slot of their buffer."""

    op: str
    dst: View
    src: tuple[Source, ...]
    fresh: bool
    where: str

    @property
    def pipe(self) -> str:
        """The pipe that runs it; the route's for a copy."""
        return ISA[self.op].pipe or ROUTES[self.route][1]

    @property
    def route(self) -> tuple[str, str]:
        """The route of a copy: (source space, destination space)."""
        first = self.src[0]
        return (first.space if isinstance(first, View) else "", self.dst.space)

    def reads(self) -> Iterator[View]:
        """Yield the views that it reads, its destination among them where it accumulates."""
        yield from (s for s in self.src if isinstance(s, View))
        if ISA[self.op].accumulates:
            yield self.dst

    def __str__(self) -> str:
        return f"{self.dst} = {self.op}({', '.join(map(str, self.src))})"


@dataclass(eq=False)
class Loop:
    """A loop over the tiles of one axis.

    `tile` [elements] is a number or a name that the plan decides. `split` distributes the axis over cores:
    "block_balanced" (floor and remainder, in units of `unit` elements), "block" (equal shares, the last one short),
    "block_floor" (equal shares, the last one with the remainder) or "cyclic" (tile by tile, to core after core);
    `shares` is their number where it is not as many as there are cores. `even` makes the tiles equal within one
    element instead of full tiles and a tail; `halo` and `lead` are the elements after and before the tile that an
    iteration also reads. A cyclic loop can run over the tiles of `rows` such axes, `strip` of them at a time.
    """

    name: str
    extent: Size
    tile: Size
    split: str = ""
    unit: Size = ONE
    even: bool = False
    halo: int = 0
    lead: int = 0
    rows: Size = ONE
    strip: Size = ONE
    shares: Size | None = None
    carry: tuple[Buffer, ...] = ()
    body: list[Instr | Loop] = field(default_factory=list)
    where: str = ""

    @property
    def whole(self) -> bool:
        """True if all its tiles are full at any sizes: a fixed tile that divides the axis and every share."""
        tile = self.tile.constant
        shares = self.unit.divisor() if self.split else 0
        return tile == 1 or (tile is not None and self.extent.divisor() % tile == 0 and shares % tile == 0)

    @property
    def range(self) -> Range:
        """The symbolic tile that the body is recorded for."""
        start, size, after, before, index, row, rows = map(dim, self.variables)
        size = self.tile if self.whole else size
        height = ONE if self.strip == ONE else rows
        return Range(start, size, after if self.halo else ZERO, before if self.lead else ZERO, index, row, height)

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that each of its tiles binds, in the order of a Range."""
        return tuple(Variable(self.name, word) for word in PLACE)

    @property
    def parts(self) -> Size:
        """The number of shares that its axis is cut into, one a core."""
        return dim(Variable(self.name, "parts"))

    def full(self) -> dict[str, Size | int]:
        """The variables of its tile, bound to the largest that they can be."""
        _, size, after, before, _, _, rows = self.variables
        return {size: self.tile, after: self.halo, before: self.lead, rows: self.strip}

    def trips(self, sizes: Mapping[str, Any]) -> int:
        """Return the number of tiles along its axis, of all cores together."""
        return int(-(-self.extent.bind(sizes) // max(self.tile.bind(sizes), 1)))

    def tiles(self, sizes: Mapping[str, Any]) -> int:
        """Tiles of all its rows, of all cores together."""
        return self.trips(sizes) * int(-(-self.rows.bind(sizes) // max(self.strip.bind(sizes), 1)))


@dataclass(frozen=True)
class Tile:
    """A tile size that the plan decides: the largest that fits, at most `cap`, in steps of `multiple_of` [elements].

    It is `least` or more. An `equal` one is the smallest with which the axis has no more tiles.
    """

    name: str
    cap: Size | None
    multiple_of: int
    cap_reason: str
    least: int = 1
    equal: bool = False

    @property
    def smallest(self) -> int:
        """The smallest size that it can have [elements]."""
        return max(self.least, self.multiple_of)


def walk(
    body: Sequence[Instr | Loop], around: tuple[Loop, ...] = ()
) -> Iterator[tuple[Instr | Loop, tuple[Loop, ...]]]:
    """Yield every node of a body with the loops around it, in program order."""
    for node in body:
        yield node, around
        if isinstance(node, Loop):
            yield from walk(node.body, (*around, node))


def full_tiles(loops: Iterable[Loop], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes with full tiles of the loops, outer before inner, that are not at a tile already."""
    out = dict(sizes)
    for loop in loops:
        for name, most in loop.full().items():
            if name not in out:
                out[name] = Size.of(most).bind(out)
    return out
