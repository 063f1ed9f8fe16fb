"""Tiles of a matrix product: candidates by doubling, filtered by all inequalities, ranked by exact makespan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.feasibility.inequalities import Inequality
from tilesim.planning.phase_plan import PhasePlan, capacities
from tilesim.program.nodes import full_tiles
from tilesim.program.recorder import Phase
from tilesim.program.sizes import Variable
from tilesim.program.units import FRACTAL


def cube_plan(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> PhasePlan:
    """Return the plan of a matrix product with the fewest cycles; `wanted` fixes "m", "n", "k1" and "cores" by hand."""
    limits = list(limits)
    options = _large(cube_options(phase, dims, chip, limits, wanted), wanted.get("cores", chip.cores.cube))
    plans = sorted((_planned(phase, dims, chip, o) for o in options), key=lambda plan: plan.longest_pipe_cycles)
    best = plans[0]
    for other in plans[1:]:
        if other.longest_pipe_cycles >= best.cycles:
            break
        best = min(best, other, key=lambda p: p.cycles)
    return best


def cube_options(
    phase: Phase, dims: Mapping[str, Any], chip: Chip, limits: Iterable[Inequality], wanted: Mapping[str, int]
) -> list[dict[str, int]]:
    """Return the tiles and grids of cores to schedule: sides that fit, doubled from a fractal, with the deepest k."""
    loops = {loop.name: loop for loop in phase.loops()}
    extent = {axis: int(loops[name].extent.bind(dims)) for axis, name in (("m", "mi"), ("n", "ni"))}
    groups = loops["group"].trips(dims)
    deepest = int(loops["k"].extent.bind(full_tiles([loops["group"]], dims)))
    cores = wanted.get("cores", chip.cores.cube)

    def fits(tiles: Mapping[str, int]) -> bool:
        return all(q.holds({**dims, **tiles}) for q in limits)

    block = phase.k_block
    doubled = [2**i * FRACTAL for i in range(8)]
    longest = {axis: min(doubled[-1], -(-size // FRACTAL) * FRACTAL) for axis, size in extent.items()}
    sides = {axis: [*(side for side in doubled if side < extent[axis]), longest[axis]] for axis in extent}
    sides = {a: [wanted[a]] if a in wanted else s for a, s in sides.items()}
    out: list[dict[str, int]] = []
    least = wanted.get("k1", block)
    pairs = [(m, n) for m in sides["m"] for n in sides["n"] if fits({"m": m, "n": n, "k1": least})]
    for m, n in pairs:
        depth = least
        while "k1" not in wanted and depth < deepest and fits({"m": m, "n": n, "k1": depth * 2}):
            depth *= 2
        tiles = {"m": m, "n": n}
        count = {a: -(-extent[a] // tiles[a]) for a in extent}
        out += [{**tiles, "k1": depth, **parts} for parts in _grids(groups, count["m"], count["n"], cores)]
    return out


def used_cores(option: Mapping[str, int]) -> int:
    """Return the number of cores of the grid of an option."""
    return math.prod(count for name, count in option.items() if isinstance(name, Variable))


def _large(options: list[dict[str, int]], cores: int) -> list[dict[str, int]]:
    """Return the options without those that could have four times the area with every core still at work.

    Twice the area copies less, but a smaller tile starts its first product and ends its last one sooner.
    """
    busy = {(o["m"], o["n"]) for o in options if used_cores(o) == cores}

    def could_grow(o: dict[str, int]) -> bool:
        return any((o["m"] * i, o["n"] * 4 // i) in busy for i in (1, 2, 4))

    return [o for o in options if not could_grow(o)] or options


def _grids(groups: int, rows: int, columns: int, cores: int) -> list[dict[str, int]]:
    """Return the one or two grids of cores over groups, m and n with the fewest tiles on the busiest core."""
    loads: dict[tuple[int, int, int], tuple[int, int]] = {}
    for g in range(1, min(groups, cores) + 1):
        for i in range(1, min(rows, cores // g) + 1):
            j = min(columns, cores // g // i)
            if j:
                loads[g, i, j] = (-(-groups // g) * -(-rows // i) * -(-columns // j), g * i * j)
    fewest = min(t for t, _ in loads.values())
    best = sorted((k for k, v in loads.items() if v[0] == fewest), key=lambda k: (loads[k][1], abs(k[1] - k[2])))
    return [
        {Variable("group", "parts"): g, Variable("mi", "parts"): i, Variable("ni", "parts"): j} for g, i, j in best[:2]
    ]


def _planned(phase: Phase, dims: Mapping[str, Any], chip: Chip, option: Mapping[str, int]) -> PhasePlan:
    tiles = {name: option[name] for name in phase.tiles}
    used = used_cores(option)
    sizes = {**dims, **option, Variable(phase.name, "cores"): used}
    reasons = dict.fromkeys(tiles, "the fewest cycles of the tiles that fit")
    return PhasePlan(phase, chip, sizes, tiles, reasons, used, frozenset({"cores.cube", *capacities(phase)}))
