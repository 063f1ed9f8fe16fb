"""How the work of a phase is shared out over cores: what each core gets of every axis that is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesim.planning.phase_plan import PhasePlan
from tilesim.program.loop_nest import Kinds, cuts, runs


@dataclass(frozen=True)
class Portion:
    """What one core gets of an axis: so many tiles, together so many elements."""

    tiles: int
    elements: int


@dataclass(frozen=True)
class CoreShare:
    """Cores with equal work: `first_core` is one of them, `cycles` is what they take, `portions` go by loop."""

    first_core: int
    cores: int
    cycles: int
    portions: Mapping[str, Portion]

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {
            "first_core": self.first_core,
            "cores": self.cores,
            "cycles": self.cycles,
            "axes": {name: vars(portion) for name, portion in self.portions.items()},
        }


def core_shares(plan: PhasePlan) -> list[CoreShare]:
    """Every distinct share of a phase, the one that takes longest first."""
    found = []
    for cycles, first, cores in plan.shares:
        portions = {}
        for cut in cuts(plan.phase, plan.sizes):
            part = cut.part(first)
            portions[cut.loop.name] = _portion(runs(cut.loop, plan.sizes, cut.parts, part) if part >= 0 else ())
        found.append(CoreShare(first, cores, cycles, portions))
    return sorted(found, key=lambda share: -share.cycles)


def idle_share(plan: PhasePlan) -> float:
    """The share of the chip's core time of a phase's kind in which a core has nothing to do while it runs: 0 to 1."""
    cores = plan.chip.cores
    whole = plan.cycles * (cores.cube if plan.phase.core_kind == "cube" else cores.vector)
    return 1 - sum(cycles * count for cycles, _, count in plan.shares) / whole if whole else 0.0


def _portion(kinds: Kinds) -> Portion:
    tiles = elements = 0
    for kind in kinds:
        if len(kind) == 2:  # a pattern that repeats
            inside = _portion(kind[1])
            tiles, elements = tiles + kind[0] * inside.tiles, elements + kind[0] * inside.elements
        else:
            tiles, elements = tiles + kind[0], elements + kind[0] * kind[1]
    return Portion(tiles, elements)
