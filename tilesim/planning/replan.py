"""Document me."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tilesim.chip.chip import Chip
from tilesim.planning.plan import Plan, plan_of

NOT_OF_CUBES: Final = (
    "vector.",
    "overhead.",
    "memory.ub.",
    "copy.gm_ub.",
    "copy.ub_gm.",
    "cost.",
    "tiling.",
    "launch.",
    "workspace.",
    "kernels.",
    "clock.vector_hz",
)
"""Figures that no phase of cube cores depends on."""


NOT_OF_VECTORS: Final = (
    "cube.",
    "memory.l1.",
    "memory.l0",
    "copy.gm_l1.",
    "copy.l1_",
    "copy.l0c_gm.",
    "launch.",
    "workspace.",
    "kernels.",
    "clock.cube_hz",
)
"""Figures that no phase of vector cores depends on."""


CHANGING_TILES: Final = ("memory.ub.", "memory.l1.", "memory.l0", "cores.", "tiling.")
"""Figures that decide which tiles there are."""


def replanned(base: Plan, chip: Chip, changed: Iterable[str]) -> Plan:
    """The plan of the same call and tiles by hand on a chip that differs in the figures `changed` only.

    It is as `planned` would make it; what does not depend on those figures is taken over, with all that has been
    computed of it. Raises what `planned` does.
    """
    changed = tuple(changed)
    return _taken_over(base, chip, changed, _tiles(base, _untouched(changed) & {"cube"}))


def _untouched(changed: Sequence[str]) -> set[str]:
    """The kinds of cores whose phases do not depend on figures."""
    apart = {"cube": NOT_OF_CUBES, "vector": NOT_OF_VECTORS}
    return {kind for kind, figures in apart.items() if all(key.startswith(figures) for key in changed)}


def _tiles(base: Plan, kinds: set[str]) -> dict[str, int]:
    """The tile sizes of the phases of some kinds of cores, to fix them in another plan."""
    phases = [one for one in base.phases if one.phase.core_kind in kinds]
    return {f"{one.phase.name}.{tile}": size for one in phases for tile, size in one.tiles.items()}


def _taken_over(base: Plan, chip: Chip, changed: Sequence[str], tiles: Mapping[str, int]) -> Plan:
    """The plan on a changed chip with some tiles fixed, and the phases of `base` that the change does not touch."""
    made = plan_of(base.call, chip, {**tiles, **base.by_hand})
    if made.kernel is not base.kernel:
        return plan_of(base.call, chip, base.by_hand)
    kinds = _untouched(changed)
    kept = {one.phase: one for one in base.phases if one.phase.core_kind in kinds}
    phases = tuple(kept.get(one.phase, one) for one in made.phases)
    return dataclasses.replace(made, phases=phases, by_hand=base.by_hand)
