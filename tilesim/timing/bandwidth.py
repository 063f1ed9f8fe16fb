"""What copies ask of global memory: bursts, bytes, and the rate that each core gets while a phase runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tilesim.chip.chip import Chip
from tilesim.program.buffers import Tensor
from tilesim.program.recorder import Phase

MIXED = 0.25
"""Writes by reads from which on reads take as long as beside as many writes; a guess, as nobody measured between."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per cycle that one core gets of global memory while a phase runs; inf where only the core limits."""

    read: Mapping[str, float] = field(default_factory=dict)
    """Of every tensor that is read."""
    write: float = math.inf
    together: frozenset[str] = frozenset()
    """Tensors of which all cores read the same addresses of the cache at the same time."""
    floor_cycles: int = 0
    """Cycles in which global memory passes all that the phase reads and writes, whatever the cores do meanwhile."""
    missed: Mapping[str, float] = field(default_factory=dict)
    """Of every tensor that is read, the share of the reads that the cache does not hold: 0 to 1."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a phase reads of one tensor, or writes to all: `moved` bytes, for which the memory spends `paid`.

    `distinct` of them are no repetition that the cache still holds (of writes, also not where something was read),
    `cached` of these are in the cache already; `together` says that all cores read the same addresses at the same time,
    `past` that the reads go past the cache.
    """

    moved: int
    paid: int
    distinct: int
    cached: int = 0
    together: bool = False
    past: bool = False

    @property
    def missed(self) -> float:
        """The share of what is read that the cache does not hold: 0 to 1."""
        return (self.distinct - self.cached) / self.moved

    @property
    def crossing(self) -> float:
        """What global memory spends on the reads [bytes of an ideal copy]."""
        return self.missed * self.paid

    @property
    def hits(self) -> int:
        """What is read of the cache [bytes]."""
        return self.moved - self.distinct + self.cached


class _Written(NamedTuple):
    """What the cache takes for the writes that it absorbs, and global memory for the others [s]."""

    absorbed: float
    drained: float


def rates(chip: Chip, core_kind: str, reads: Mapping[str, Traffic], writes: Traffic, active: float) -> Rates:
    """What one of `active` cores gets of global memory.

    Distinct bytes cross global memory and repeated reads hit the cache, which also absorbs a share of the writes, the
    larger the more of what goes through it is written. What is read past it leaves it to the others.
    """
    l2, hz, cube = chip.memory.l2, chip.clock.hz(core_kind), core_kind == "cube"
    hit, one_core = (l2.l1_read_bytes_per_s, l2.core_l1_read_bytes_per_s) if cube else (l2.read_bytes_per_s, math.inf)
    reads = {name: t for name, t in reads.items() if t.moved}
    filled = sum(t.distinct for t in reads.values() if not t.past)
    past, beside = _seconds_a_byte(chip, core_kind, writes.moved, filled)
    crossing = {name: t.crossing * (past if t.past else beside) for name, t in reads.items()}
    written = _write_seconds(chip, writes, filled)
    both = written.absorbed + written.drained
    share = writes.paid / both / active / hz if both else math.inf
    return Rates(
        read={
            name: t.paid / hz / (crossing[name] * active + t.hits * max(active / hit, 1 / one_core))
            for name, t in reads.items()
        },
        # The results of products leave in bursts with long pauses, in which the cache passes them on.
        write=l2.write_bytes_per_s / active / hz if cube else share,
        together=frozenset(name for name, t in reads.items() if t.together and not t.past),
        floor_cycles=math.floor(_floor_seconds(reads, crossing, written, hit) * hz),
        missed={name: t.missed for name, t in reads.items()},
    )


def _floor_seconds(
    reads: Mapping[str, Traffic], crossing: Mapping[str, float], written: _Written, hit_bytes_per_s: float
) -> float:
    """The longer of what global memory reads, and of what the cache passes and absorbs, then what is written to memory.

    The cache passes what is read through it, hits beside what comes from global memory for other cores or tiles, and
    absorbs writes in turn with that; what is read past it takes global memory alone.
    """
    through = [name for name, t in reads.items() if not t.past]
    passed = max(sum(crossing[n] for n in through), sum(reads[n].moved for n in through) / hit_bytes_per_s)
    return max(sum(crossing.values()), passed + written.absorbed) + written.drained


def _seconds_a_byte(chip: Chip, core_kind: str, written: int, filled: int) -> tuple[float, float]:
    """What global memory takes for a byte that is read past the cache, and for one that fills it [s].

    The vector cores' reads are slower beside writes: where they fill the cache, others have to leave it.
    """
    gm = chip.memory.gm
    if core_kind == "cube":
        return 1 / gm.cube_read_bytes_per_s, 1 / gm.cube_read_bytes_per_s
    mixed = min(1.0, written / filled / MIXED) if filled else 1.0
    return 1 / gm.read_alone_bytes_per_s, (1 - mixed) / gm.read_alone_bytes_per_s + mixed / gm.read_bytes_per_s


def _write_seconds(chip: Chip, writes: Traffic, filled: int) -> _Written:
    """The seconds of the writes beside so many bytes of reads that fill the cache."""
    if not writes.moved:
        return _Written(0.0, 0.0)
    gm, l2 = chip.memory.gm, chip.memory.l2
    dirty = min(1.0, writes.moved / (filled + writes.distinct))
    absorbed = min(writes.moved, 2 * dirty * l2.absorbed_write_bytes)
    # What is paid beyond the bytes is the rest of lines, from global memory although the cache takes the write.
    return _Written(absorbed / l2.write_bytes_per_s, (writes.paid - absorbed) / gm.write_bytes_per_s)


def read_together(phase: Phase, shared: Iterable[str]) -> set[str]:
    """The tensors of which every core reads the same addresses in order; `shared` are the names of the split loops."""
    moving = {f"{name}.{what}" for name in shared for what in ("start", "index", "row")} | {f"{phase.name}.core"}
    found: dict[str, bool] = {}
    for instr in phase.instructions():
        for view in instr.reads():
            if isinstance(view.base, Tensor):
                here = not any(start.names() & moving for start in view.starts)
                found[view.base.name] = found.get(view.base.name, True) and here
    return {name for name, here in found.items() if here}
