"""Bounds of what instructions access in a tensor or buffer.

A plan checks the first and last tiles of loops, an execution at every access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilesim.errors import BadOperator
from tilesim.program.buffers import Tensor, View
from tilesim.program.loop_nest import Place, Sizes, bound, segments
from tilesim.program.recorder import Instr, Loop, Phase, walk
from tilesim.program.sizes import ZERO, Variable


def inside(start: Any, count: Any, size: int) -> bool:
    """Return True if `count` elements from `start` on lie on an axis of `size`; no elements lie on any axis."""
    return bool(0 <= start <= size - count if count > 0 else count == 0)


def outside(instr: Instr, view: View, full: Sequence[int], sizes: Sizes) -> BadOperator | None:
    """Return the error of the first axis on which a view leaves a base of shape `full`; None if it stays inside."""
    name, verb = view.base.name, "writes" if view is instr.dst else "reads"
    for axis, (at, of, size) in enumerate(zip(view.starts, view.sizes, full, strict=True)):
        start, count = int(at.bind(sizes)), int(of.bind(sizes))
        if not inside(start, count, size):
            indices = f"{start}" if count == 1 else f"{start} to {start + count - 1}"
            indices = indices if count > 0 else f"{count} elements from {start} on"
            fact = f"{instr.op} {verb} '{view}' outside '{name}': {indices} on axis {axis}, which has {size}"
            return BadOperator(fact, instr.where)
    return None


def refuse_outside(phase: Phase, sizes: Sizes) -> None:
    """Refuse a phase that leaves a tensor or buffer in the first or last tiles of its loops. Raises BadOperator."""
    for node, around in walk(phase.body):
        if not isinstance(node, Instr):
            continue
        for view in (*node.reads(), node.dst):
            names = {n for size in (*view.starts, *view.sizes, *node.dst.shape) for n in size.names()}
            if Variable(phase.name, "core") in names or all(_surely_inside(view, axis, around) for axis in _axes(view)):
                continue
            base = view.base
            shape = base.shape if isinstance(base, Tensor) else base.allocated
            full = [int(size.bind(sizes)) for size in shape]
            for at in _ends(_needed(around, names), sizes):
                if all(size.bind(at) > 0 for size in node.dst.shape) and (error := outside(node, view, full, at)):
                    raise error


def _axes(view: View) -> range:
    return range(len(view.starts))


def _surely_inside(view: View, axis: int, around: Sequence[Loop]) -> bool:
    """Return True if a view takes all of an axis, or the tile of a loop over it."""
    start, size, length = view.starts[axis], view.sizes[axis], view.base.shape[axis]
    if start == ZERO and size == length:
        return True
    tiles = [(loop.range, loop.extent) for loop in around]
    tiles += [(loop.range.strip, loop.rows) for loop in around]
    return any(start == tile.start and size in (tile.size, 1) and extent == length for tile, extent in tiles)


def _needed(around: Sequence[Loop], names: set[str]) -> list[tuple[Loop, bool]]:
    """Return (loop, True if the bounds depend on its tile) of the loops around."""
    loops: list[tuple[Loop, bool]] = []
    names = set(names)
    for loop in reversed(around):
        needed = not names.isdisjoint(loop.variables)
        names |= {n for size in (loop.extent, loop.tile, loop.unit, loop.rows, loop.strip) for n in size.names()}
        loops.append((loop, needed))
    return loops[::-1]


def _ends(loops: Sequence[tuple[Loop, bool]], sizes: Sizes) -> Iterator[Sizes]:
    """Yield the sizes at the first and last tiles of every loop that is needed, at any tile of the others."""
    if not loops:
        yield sizes
        return
    (loop, needed), *inner = loops
    places = dict.fromkeys(_places(loop, sizes))
    for place in places if needed else list(places)[:1]:
        yield from _ends(inner, {**sizes, **bound(loop, place)})


def _places(loop: Loop, sizes: Sizes) -> Iterator[Place]:
    """Yield the first and the last tile of every size, of the first share of a loop and of the last."""
    tile, extent = loop.tile.bind(sizes), loop.extent.bind(sizes)
    if loop.split == "cyclic":
        each, rows, strip = loop.trips(sizes), loop.rows.bind(sizes), loop.strip.bind(sizes)
        last = (rows - 1) // strip * strip
        for row, index in ((0, 0), (0, each - 1), (last, 0), (last, each - 1)) if each * rows > 0 else ():
            yield Place(index * tile, min(tile, extent - index * tile), 0, 0, index, row, min(strip, rows - row))
        return
    parts = int(loop.parts.bind(sizes)) if loop.split else 1
    for part in (0, parts - 1):
        number = 0
        for s in segments(loop, sizes, parts, part):
            for i in (0, s.times - 1):
                start = s.start + i * s.step
                yield Place(start, s.size, s.after, s.before, number + i if loop.even else start // tile)
            number += s.times
