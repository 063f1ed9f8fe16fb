"""Fetches of a phase's reads from global memory: one if the cache keeps the bytes until they are read again.

A loop that does not move along a tensor reads the same part of it in every iteration. The part is still in the cache if
all bytes that the cores touch in one iteration fit there; otherwise the share that does not fit is fetched again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilesim.program import dtypes
from tilesim.program.buffers import View, tensor_bytes
from tilesim.program.isa import COPIES
from tilesim.program.loop_nest import Sizes
from tilesim.program.nodes import Instr, full_tiles, walk
from tilesim.program.recorder import Loop, Phase
from tilesim.program.sizes import Variable


@dataclass(frozen=True)
class Touch:
    """Copy from or to a tensor, with the loops around it."""

    view: View
    around: tuple[Loop, ...]

    def along(self, axis: int) -> list[Loop]:
        """Return the loops that move along an axis of the tensor."""
        names = {name.owner for name in self.view.starts[axis].names() if isinstance(name, Variable)}
        return [loop for loop in self.around if loop.name in names]

    @functools.cached_property
    def moving(self) -> set[Loop]:
        """Loops that move along any axis."""
        return {loop for axis in range(len(self.view.starts)) for loop in self.along(axis)}


def dram_fetches(phase: Phase, sizes: Sizes, cache_bytes: int) -> Mapping[str, float]:
    """Return how many times a phase fetches each tensor from global memory; 1 if the cache keeps it."""
    reads, writes = _copies(phase)
    touches = (*reads, *writes)
    fetches = dict.fromkeys((read.view.base.name for read in reads), 1.0)
    if sum(tensor_bytes(base, sizes) for base in {touch.view.base for touch in touches}) <= cache_bytes:
        return fetches
    sizes = full_tiles(phase.loops(), sizes)
    for read in reads:
        times = 1.0
        for depth, loop in enumerate(read.around):
            repeats = -(-loop.tiles(sizes) // _parts(loop, sizes)) - 1
            if loop not in read.moving and repeats:
                touched = _footprint(touches, loop, depth, sizes)
                times *= 1 + repeats * max(0.0, 1 - cache_bytes / touched)
        name = read.view.base.name
        fetches[name] = max(fetches[name], times)
    return fetches


@functools.lru_cache(maxsize=256)
def _copies(phase: Phase) -> tuple[list[Touch], list[Touch]]:
    """Return (reads, writes) of tensors that a phase makes through the cache."""
    copies = [(node, around) for node, around in walk(phase.body) if isinstance(node, Instr) and node.op in COPIES]
    sides = ([(node.src[0], around) for node, around in copies], [(node.dst, around) for node, around in copies])
    reads, writes = ([Touch(v, a) for v, a in side if isinstance(v, View) and v.space == "gm"] for side in sides)
    return [read for read in reads if read.view.base.name not in phase.kernel.uncached], writes


def _footprint(touches: Sequence[Touch], loop: Loop, depth: int, sizes: Sizes) -> int:
    """Return the bytes that all cores touch in one iteration of a loop."""
    parts: dict[str, int] = {}
    for touch in touches:
        if len(touch.around) > depth and touch.around[depth] is loop:
            name = touch.view.base.name
            parts[name] = max(parts.get(name, 0), _bytes(touch, depth, sizes))
    return sum(parts.values())


def _bytes(touch: Touch, depth: int, sizes: Sizes) -> int:
    """Return the bytes of a tensor that all cores touch in one iteration of the loop at `depth`."""
    inside = touch.around[depth + 1 :]
    total = dtypes.itemsize(touch.view.dtype)
    for axis, (size, full) in enumerate(zip(touch.view.sizes, touch.view.base.shape, strict=True)):
        count = size.bind(sizes)
        for loop in touch.along(axis):
            count *= loop.tiles(sizes) if loop in inside else _parts(loop, sizes)
        total *= min(count, full.bind(sizes))
    return int(total)


def _parts(loop: Loop, sizes: Sizes) -> int:
    """Return the number of cores that share a loop."""
    return int(loop.parts.bind(sizes)) if loop.split else 1
