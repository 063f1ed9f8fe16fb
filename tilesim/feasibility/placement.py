"""Buffer map: the places of a phase's buffers in the memories of a core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.inequalities import budget, budget_parameters
from tilesim.program.buffers import Buffer
from tilesim.program.isa import REGISTERS, SPACES
from tilesim.program.recorder import Phase


@dataclass(frozen=True)
class Home:
    """Place of a buffer in its memory: `offset` and `bytes` of one slot, slots one after the other."""

    space: str
    offset: int
    bytes: int
    slots: int
    parameters: tuple[str, ...] = ()
    """Keys of the chip that the offset rests on; a pool lies behind the bytes that phases may use."""


def place_buffers(phase: Phase, chip: Chip, sizes: Mapping[str, Any]) -> dict[Buffer, Home]:
    """Return the buffer map: static buffers, then those of the phase in order; pools lie in the reserves."""
    places: dict[Buffer, Home] = {}
    for space in (*SPACES[phase.core_kind], REGISTERS):
        offset = 0
        statics = phase.kernel.statics if space == "ub" else []
        for buffer in (*statics, *(b for b in phase.buffers if b.space == space and not b.pool)):
            offset = _put(places, buffer, space, offset, sizes)
        if space == "ub":
            start = int(budget(phase.kernel, chip, "ub").bind(sizes))
            start += sum(int(b.bytes.bind(sizes)) for b in phase.kernel.statics)
            for name, reserve in phase.kernel.reserves.items():
                place = start
                for buffer in (b for b in phase.buffers if b.pool == name):
                    place = _put(places, buffer, space, place, sizes, budget_parameters(phase.kernel, "ub"))
                start += reserve.bytes
    return places


def _put(
    places: dict[Buffer, Home],
    buffer: Buffer,
    space: str,
    offset: int,
    sizes: Mapping[str, Any],
    parameters: tuple[str, ...] = (),
) -> int:
    """Place a buffer at an offset; return the offset behind it."""
    size = int(buffer.slot_bytes.bind(sizes))
    places[buffer] = Home(space, offset, size, buffer.slots, parameters)
    return offset + size * buffer.slots
