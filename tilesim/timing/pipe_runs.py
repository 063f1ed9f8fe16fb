"""Stretches of one pipe in a recorded phase: vector functions, which a chip of arch 3510 runs as one call, and queues.

A run of consecutive vector instructions, including loops of them, is one function: its operands pass between unified
buffer and registers once, and everything between stays in registers. The price of the call and of the operands is
charged to instructions of the run, so that every price stays a constant of the instruction and its tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, View
from tilesim.program.isa import COPIES
from tilesim.program.loop_nest import Sizes
from tilesim.program.nodes import Instr, Loop, full_tiles, walk
from tilesim.program.recorder import Phase


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a vector function that is charged to one instruction, besides its own work."""

    calls: tuple[Loop, ...] | None
    """Loops of the run around the instruction that is charged with the call, in equal parts; None for the others."""
    operands: tuple[View, ...]
    """Operands whose load into or store from registers is charged to it."""
    width_bytes: int
    """Bytes of the widest element in the run, which every operand takes in a register."""


@functools.lru_cache(maxsize=256)
def parts(phase: Phase) -> Mapping[Instr, Part]:
    """Return the part of its function that is charged to every vector instruction of a phase."""
    charged: dict[Instr, Part] = {}
    for run in stretches(phase.body, "v"):
        charged |= _parts_of(phase, run)
    return charged


def _parts_of(phase: Phase, run: list[Instr | Loop]) -> dict[Instr, Part]:
    """Return the parts of one vector function."""
    inside = [(node, around) for node, around in walk(run) if isinstance(node, Instr)]
    if not inside:
        return {}
    instructions = {instr for instr, _ in inside}
    used_elsewhere = {v.base for i in phase.instructions() if i not in instructions for v in i.reads()}
    entered: dict[Instr, list[View]] = {}
    written: set[Buffer] = set()
    loaded: set[Buffer] = set()
    last: dict[Buffer, tuple[Instr, View]] = {}
    for instr, _ in inside:
        for view in instr.reads():
            base = view.base
            if isinstance(base, Buffer) and base not in written | loaded:
                loaded.add(base)
                entered.setdefault(instr, []).append(view)
        if isinstance(instr.dst.base, Buffer):
            written.add(instr.dst.base)
            last[instr.dst.base] = (instr, instr.dst)
    for base, (instr, view) in last.items():
        if base in used_elsewhere:
            entered.setdefault(instr, []).append(view)
    width = max(dtypes.itemsize(v.dtype) for i in instructions for v in (i.dst, *i.reads()))
    payer, around = min(inside, key=lambda pair: len(pair[1]))
    return {
        instr: Part(around if instr is payer else None, tuple(entered.get(instr, ())), width) for instr in instructions
    }


@dataclass(frozen=True, slots=True)
class Queue:
    """Stretch of copies: the loops in it around each of them."""

    around: tuple[tuple[Loop, ...], ...]

    def copies(self, sizes: Sizes) -> int:
        """Return the number of copies that follow each other; loops that `sizes` does not bind have full tiles."""
        full = full_tiles((loop for loops in self.around for loop in loops), sizes)
        return sum(max(1, math.prod(loop.trips(full) for loop in loops)) for loops in self.around)


@functools.lru_cache(maxsize=256)
def queues(phase: Phase) -> Mapping[Instr, Queue]:
    """Return the stretch of every copy of a phase."""
    of_copies: dict[Instr, Queue] = {}
    for pipe in dict.fromkeys(i.pipe for i in phase.instructions() if i.op in COPIES):
        for stretch in stretches(phase.body, pipe):
            inside = [(node, loops) for node, loops in walk(stretch) if isinstance(node, Instr)]
            queue = Queue(tuple(loops for _, loops in inside))
            of_copies |= dict.fromkeys((instr for instr, _ in inside), queue)
    return of_copies


def stretches(body: Sequence[Instr | Loop], pipe: str) -> Iterator[list[Instr | Loop]]:
    """Yield the longest stretches of instructions of one pipe, in program order.

    A loop of such instructions alone is part of a stretch, unless it is split over cores.
    """
    stretch: list[Instr | Loop] = []
    for node in body:
        inside = [n for n, _ in walk((node,))]
        if all(n.pipe == pipe if isinstance(n, Instr) else not n.split for n in inside):
            stretch.append(node)
            continue
        if stretch:
            yield stretch
        stretch = []
        if isinstance(node, Loop):
            yield from stretches(node.body, pipe)
    if stretch:
        yield stretch
