"""Copies in flight: those that follow each other without another instruction between them wait for the memory once.

A pipe takes the next copy while the data of the last one is still under way, as long as not too many bytes are. So a
run of small copies on one pipe, loops of nothing else among them, pays the latency of its path once, which is laid on
its copies in equal parts: every price stays a constant of the instruction and its tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilesim.program.isa import COPIES
from tilesim.program.loop_nest import Sizes
from tilesim.program.nodes import full_tiles, stretches, walk
from tilesim.program.recorder import Instr, Loop, Phase


@dataclass(frozen=True, slots=True)
class Queue:
    """A stretch of copies: the loops in it around each of them."""

    around: tuple[tuple[Loop, ...], ...]

    def copies(self, sizes: Sizes) -> int:
        """How many copies follow each other; loops around other copies than the one of `sizes` are at full tiles."""
        full = full_tiles((loop for loops in self.around for loop in loops), sizes)
        return sum(max(1, math.prod(loop.trips(full) for loop in loops)) for loops in self.around)


@functools.lru_cache(maxsize=256)
def queues(phase: Phase) -> Mapping[Instr, Queue]:
    """The stretch that every copy of a phase is in."""
    found: dict[Instr, Queue] = {}
    for pipe in dict.fromkeys(i.pipe for i in phase.instructions() if i.op in COPIES):
        for stretch in stretches(phase.body, pipe):
            inside = [(node, loops) for node, loops in walk(stretch) if isinstance(node, Instr)]
            queue = Queue(tuple(loops for _, loops in inside))
            found |= dict.fromkeys((instr for instr, _ in inside), queue)
    return found
