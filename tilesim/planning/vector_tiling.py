"""Tiles of a vector phase: as large as fits, at most a core's share of the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.inequalities import Inequality
from tilesim.planning.phase_plan import PhasePlan, capacities
from tilesim.program.loop_nest import cuts, split_loops
from tilesim.program.recorder import Loop, Phase, Tile
from tilesim.program.sizes import Variable
from tilesim.timing.parameters import Parameters


def vector_plan(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> PhasePlan:
    """Return the plan of a vector phase with the largest tiles that fit; `wanted` fixes tiles and "cores" by hand."""
    limits, parameters = list(limits), Parameters(chip)
    cores = parameters.whole("cores.vector")
    available = wanted.get("cores", cores)
    sizes = {**dims, **{name: wanted[name] for name in phase.tiles if name in wanted}}
    tiles: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for tile in phase.tiles.values():
        users = [loop for loop in phase.loops() if tile.name in loop.tile.names() | loop.strip.names()]
        longest = max((_longest_share(loop, tile, sizes, available) for loop in users), default=1)
        cap = longest
        if tile.cap is not None:
            chip_values = {"vector_cores": available}
            if "copy_bytes" in tile.cap.names():
                chip_values["copy_bytes"] = parameters.whole("tiling.copy_bytes")
            cap = max(1, min(longest, int(tile.cap.bind({**sizes, **chip_values}))))
        cap = max(-(-cap // tile.multiple_of) * tile.multiple_of, tile.smallest)  # alignments rely on it
        if tile.name in wanted:
            tiles[tile.name], reasons[tile.name] = wanted[tile.name], "given"
        else:
            largest = min((q.largest(tile.name, sizes, cap, tile.multiple_of) for q in limits), default=cap)
            tiles[tile.name] = max(largest, tile.smallest)
            reasons[tile.name] = (
                "the whole axis of a core's share"
                if largest >= longest
                else tile.cap_reason or f"at most {tile.cap}"
                if largest == cap
                else "the largest that fits"
            )
            if tile.equal or any(loop.even or loop.split == "cyclic" for loop in users):
                equal = -(-longest // -(-longest // tiles[tile.name]))
                equal = max(-(-equal // tile.multiple_of) * tile.multiple_of, tile.smallest)
                if equal < largest < cap:
                    reasons[tile.name] = "equal tiles, as few as fit"
                tiles[tile.name] = equal
        sizes[tile.name] = tiles[tile.name]
    for loop, around in split_loops(phase):
        grid = math.prod(int(outer.parts.bind(sizes)) for outer in around)
        sizes[Variable(loop.name, "parts")] = _parts(loop, sizes, max(available // grid, 1))
    used = max((cut.cores for cut in cuts(phase, sizes)), default=0)
    sizes[Variable(phase.name, "cores")] = max(used, 1)
    rests_on = frozenset({*parameters.keys, *capacities(phase)})
    return PhasePlan(phase, chip, sizes, tiles, reasons, max(used, 1), rests_on)


def _units(loop: Loop, sizes: Mapping[str, Any]) -> int:
    if loop.split == "cyclic":
        return loop.tiles(sizes)
    return -(-int(loop.extent.bind(sizes)) // max(int(loop.unit.bind(sizes)), 1))


def _parts(loop: Loop, sizes: Mapping[str, Any], available: int) -> int:
    units = _units(loop, sizes)
    if loop.shares is not None:
        return int(loop.shares.bind(sizes))
    if loop.split == "block":
        each = -(-units // available) if units else 1
        return -(-units // each) if units else 1
    return max(min(available, units), 1)


def _longest_share(loop: Loop, tile: Tile, sizes: Mapping[str, Any], available: int) -> int:
    extent = int((loop.extent if tile.name in loop.tile.names() else loop.rows).bind(sizes))
    if not loop.split or loop.split == "cyclic":
        return max(extent, 1)
    unit = int(loop.unit.bind(sizes))
    parts = available if loop.shares is None else int(loop.shares.bind(sizes))
    return max(min(extent, -(-_units(loop, sizes) // parts) * unit), 1)
