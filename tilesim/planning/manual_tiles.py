"""Tile sizes and cores given by hand: refusal of names and sizes that no phase can have, and check of their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput, did_you_mean
from tilesim.feasibility.inequalities import EvaluatedInequality, Inequality
from tilesim.feasibility.remedies import Remedy
from tilesim.feasibility.verdict import Verdict
from tilesim.operators.shapes import whole_number
from tilesim.program.isa import GLOBAL
from tilesim.program.recorder import Kernel, Phase

CORES: Final = "cores"
"""Name under which a number of cores is given, like a tile."""


def refuse_impossible(kernel: Kernel, chip: Chip, given: Mapping[str, int]) -> None:
    """Raise BadInput, with all problems at once, for tiles that no phase has, and for sizes that no tile can have."""
    problems = []
    names = _names(kernel)
    for name, wanted in given.items():
        value = whole_number(wanted)
        if name not in names:
            hint = did_you_mean(name, names) or f" there are: {', '.join(sorted(n for n in names if '.' not in n))}"
            problems.append(f"{name!r} is not a tile;{hint}")
        elif value is None:
            problems.append(f"{name} is {wanted!r}, must be a whole number")
        elif value < 1:
            problems.append(f"{name}={value} must be at least 1")
        elif value % names[name]:
            problems.append(f"{name}={value} must be a multiple of {names[name]}")
        else:
            problems += _too_many_cores(kernel, chip, name, value)
    if problems:
        raise BadInput(f"{kernel.name} on {chip.name}", problems)


def of_phase(phase: Phase, tiles: Mapping[str, int]) -> dict[str, int]:
    """Return those of `tiles` that a phase has: "rows" for every phase, "gate backward.rows" for one."""
    named = {name.rpartition("."): value for name, value in tiles.items()}
    return {
        name: value
        for (owner, _, name), value in named.items()
        if owner in ("", phase.name) and (name == CORES or name in phase.tiles)
    }


def overflowing(
    verdict: Verdict, kernel: Kernel, limits: Sequence[Inequality], tiles: Mapping[str, int], given: Mapping[str, int]
) -> Verdict | None:
    """Return the verdict on a call with tiles by hand that do not fit; None if they fit.

    `tiles` are all fixed tiles, including those that are `given` by hand; all others are at their smallest.
    """
    env = verdict.call.env
    by_phase = {phase.name: of_phase(phase, tiles) for phase in kernel.phases}
    evaluated = []
    for limit in limits:
        tiles_of_phase = _without_cores(by_phase.get(limit.phase, {}))
        fixed = replace(limit, minimum={**limit.minimum, **tiles_of_phase})
        evaluated.append(EvaluatedInequality(fixed, fixed.left_bytes(env), fixed.right_bytes(env)))
    if all(b.slack_bytes >= 0 for b in evaluated if b.memory != GLOBAL):  # no tile decides what global memory holds
        return None
    overflow = replace(verdict, ok=False, verdict="overflow", inequalities=tuple(evaluated), tiles=dict(given))
    # Remedies for tiles by hand are other tiles, not other dims or chips.
    overflow.__dict__["remedies"] = tuple(_remedies(kernel, overflow, given))
    return overflow


def _remedies(kernel: Kernel, verdict: Verdict, given: Mapping[str, int]) -> Iterator[Remedy]:
    """Yield the largest size of each tile by hand that fits, or of all of them together."""
    env = verdict.call.env
    phases = {phase.name: phase for phase in kernel.phases}
    limits = [(b.inequality, phases[b.phase]) for b in verdict.inequalities if b.phase in phases]
    largest: dict[str, int] = {}
    for key, value in given.items():
        bounds = [
            (limit, name, phase.tiles[name].multiple_of)
            for limit, phase in limits
            for name in _without_cores(of_phase(phase, {key: value}))
        ]
        fits = min((limit.largest(name, env, value, step) for limit, name, step in bounds), default=0)
        if 0 < fits < value:
            largest[key] = fits

    def passes(changes: Mapping[str, int]) -> bool:
        return all(limit.holds({**env, **_without_cores(of_phase(phase, changes))}) for limit, phase in limits)

    single = [{key: size} for key, size in largest.items() if passes({key: size})]
    for changes in single or ([largest] if largest and passes(largest) else []):
        text = ", ".join(f"{key} = {size}" for key, size in changes.items())
        yield Remedy(f"{text}, the largest that fits", given=changes)


def _names(kernel: Kernel) -> dict[str, int]:
    """Return the names of tiles and cores, each with the number that it must be a multiple of."""
    names = dict.fromkeys([CORES, *(f"{phase.name}.{CORES}" for phase in kernel.phases)], 1)
    for phase in kernel.phases:
        for tile in phase.tiles.values():
            names |= dict.fromkeys([tile.name, f"{phase.name}.{tile.name}"], tile.multiple_of)
    return names


def _too_many_cores(kernel: Kernel, chip: Chip, name: str, value: int) -> list[str]:
    """Return the problem with a number of cores that the chip does not have."""
    owner, _, last = name.rpartition(".")
    kinds = {phase.core_kind for phase in kernel.phases if last == CORES and owner in ("", phase.name)}
    cores = {kind: chip.cores.of(kind) for kind in kinds}
    exceeded = {kind: count for kind, count in cores.items() if value > count}
    if not exceeded:
        return []
    counts = " and ".join(f"{count} {kind} cores" for kind, count in sorted(exceeded.items()))
    hint = "" if owner or len(exceeded) == len(cores) else "; 'PHASE.cores' is for one phase"
    return [f"{name}={value} must be at most {min(exceeded.values())}: the chip has {counts}{hint}"]


def _without_cores(tiles: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in tiles.items() if name != CORES}
