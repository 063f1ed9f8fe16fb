"""What if the chip were another: tables over figures of a chip, and what the time of a plan depends on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tilesim.analysis.sweep import (
    REASON,
    TIME_COLUMNS,
    VERDICT_COLUMNS,
    accuracy_notes,
    answers,
    chip_variants,
    unit_of,
)
from tilesim.analysis.table import Cell, Column, Table, table_of
from tilesim.chip.chip import Chip, load_chip
from tilesim.chip.tables import ON_CHIP
from tilesim.errors import BadInput, DoesNotFit
from tilesim.feasibility.verdict import Verdict, judged
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Call, Operator
from tilesim.ops import load_operator
from tilesim.planning.plan import Plan, planned
from tilesim.simulation.timeline import simulate

CHANGE: Final = Fraction(1, 10)
"""By this share does `sensitivity` change a figure."""
SIZE_STEP_BYTES: Final = 32
"""Sizes of on-chip memories are changed by whole blocks."""

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
HARDLY: Final = 0.1
"""A change of the time by less is none worth choosing tiles anew for [%]."""
LEFT_ALONE: Final = {
    "align_bytes": "an alignment is a rule, not an amount",
    "burst_align_bytes": "an alignment is a rule, not an amount",
    "request_bytes": "an alignment is a rule, not an amount",
    "width_bytes": "a vector is a power of two",
    "bank_groups": "banks are an address rule, not an amount",
    "banks_per_group": "banks are an address rule, not an amount",
    "bank_bytes": "banks are an address rule, not an amount",
    "system_bytes": "the system's part of a workspace takes no time",
}
"""The last word of keys that `sensitivity` does not change, and why."""

SENSITIVITY_COLUMNS: Final = (
    Column("figure", "", "the key of the chip"),
    Column("unit", "", "of the three values"),
    Column("value", "", "as the chip has it"),
    Column("status", "", "what the value rests on"),
    Column("less", "", "about 10 % less"),
    Column("more", "", "about 10 % more"),
    Column("time_less_us", "us", "the time with less"),
    Column("time_more_us", "us", "the time with more"),
    Column("change_less", "%", "how the time changes with less"),
    Column("change_more", "%", "how the time changes with more"),
    Column("reason", "", "why there is no time with one of them"),
)


def whatif(
    op: Operator | str | Path,
    given: Given,
    *,
    chip: Chip | str | Path,
    set: Mapping[str, Any],  # noqa: A002  (the word of the command line)
    dtype: str | None = None,
    tiles: Mapping[str, int] | None = None,
    **options: Any,
) -> Table:
    """The table of one call on a chip under every combination of figures: verdict, tile, cycles, time and bound.

    `set` maps keys of the chip to a value, a list or a text such as "131072:262144:32768" (stop included). The change
    of the time is against the chip as it is. `tiles` are fixed by hand, as in `plan`. Raises BadInput with all problems
    at once.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return varied(call, chip if isinstance(chip, Chip) else load_chip(chip), set, tiles)


def varied(call: Call, base_chip: Chip, settings: Mapping[str, Any], tiles: Mapping[str, int] | None = None) -> Table:
    """The table of `whatif` for a call that is already made."""
    variants = list(chip_variants([base_chip], settings))
    keys = list(settings)
    as_given, base = attempted(call, base_chip, tiles)
    base_us = simulate(base).time_us if base else None
    place = len(VERDICT_COLUMNS) + [c.name for c in TIME_COLUMNS].index("time_us") + 1
    change = Column("change", "%", "of the time, against the chip as it is")
    head = [*VERDICT_COLUMNS, *TIME_COLUMNS, REASON]
    rows = []
    for where, changed in variants:
        try:
            verdict, plan = attempted(call, changed, tiles, base, keys)
            cells = answers(verdict, plan=plan)
        except BadInput as error:  # tiles by hand that the chip cannot have
            cells = ["refused", *[None] * (len(head) - 2), "; ".join(error.problems)]
        time_us = cells[place - 1]
        more = percent_of(time_us, base_us) if isinstance(time_us, float) and base_us else None
        rows.append([*(where[key] for key in keys), *cells[:place], more, *cells[place:]])
    columns = [*(Column(key, unit_of(key)) for key in keys), *head[:place], change, *head[place:]]
    asked = ", ".join(f"{name} = {value}" for name, value in call.dims.items())
    as_it_is = f"{base_us:,.1f} us" if base_us is not None else as_given.culprit
    notes = [f"{asked}, {call.dtype}{_by_hand(tiles)}", f"{base_chip.name} as it is: {as_it_is}"]
    notes += accuracy_notes([(call, base_chip)])
    return table_of(f"{call.operator.name} on {base_chip.name}", columns, rows, notes)


def sensitivity(
    op: Operator | str | Path,
    given: Given,
    chip: Chip | str | Path,
    *,
    dtype: str | None = None,
    tiles: Mapping[str, int] | None = None,
    **options: Any,
) -> Table:
    """The figures of the chip that the time of a call depends on, those that change it most first.

    Every figure is taken 10 % lower and 10 % higher, the others as they are, and the call is planned anew; only where a
    rate changes the time by less than 0.1 % do the tiles of matrix products stay. Whole numbers are rounded away from
    the value, by one core or block at least. `tiles` are fixed by hand, as in `plan`. The notes tell which figures
    change nothing, and which were left alone and why. Raises what `plan` raises.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return weighed(call, chip if isinstance(chip, Chip) else load_chip(chip), tiles)


def weighed(call: Call, base_chip: Chip, tiles: Mapping[str, int] | None = None) -> Table:
    """The table of `sensitivity` for a call that is already made."""
    base = planned(call, base_chip, tiles)
    timeline = simulate(base)
    base_us, used = timeline.time_us, timeline.figures
    rows: list[tuple[float, list[Cell]]] = []
    idle: list[str] = []
    skipped: dict[str, list[str]] = {}
    for figure in base_chip.figures():
        word = figure.key.rpartition(".")[2]
        why = LEFT_ALONE.get(word, "" if figure.value else "ten percent of 0 is 0")
        if why:
            skipped.setdefault(why, []).append(figure.key)
            continue
        if figure.key.startswith(("cost.", "copy.", "cube.")) and figure.key not in used:
            idle.append(figure.key)
            continue
        values = (_moved(figure.key, figure.value, -CHANGE), _moved(figure.key, figure.value, CHANGE))
        times, reasons = zip(*(_time(base, base_us, figure.key, value) for value in values), strict=True)
        changes = [None if time is None else percent_of(time, base_us) for time in times]
        weight = max(math.inf if change is None else abs(change) for change in changes)
        if not weight:
            idle.append(figure.key)
            continue
        reason = "; ".join(dict.fromkeys(r for r in reasons if r))
        row = [figure.key, unit_of(figure.key), figure.value, figure.status, *values, *times, *changes, reason]
        rows.append((weight, row))
    rows.sort(key=lambda pair: (-pair[0], str(pair[1][0])))
    notes = [
        f"{base_us:,.1f} us with the chip as it is{_by_hand(tiles)}",
        *([f"without effect here: {_listed(base_chip, idle)}"] if idle else []),
        *(f"left alone, since {why}: {_listed(base_chip, keys)}" for why, keys in skipped.items()),
    ]
    title = f"what the time of {call.operator.name} on {base_chip.name} depends on"
    notes[1:1] = accuracy_notes([(call, base_chip)])
    return table_of(title, SENSITIVITY_COLUMNS, [row for _, row in rows], notes)


def attempted(
    call: Call, chip: Chip, tiles: Mapping[str, int] | None, base: Plan | None = None, changed: Iterable[str] = ()
) -> tuple[Verdict, Plan | None]:
    """The verdict on a call with tiles by hand, and its plan if that is a yes; `base` and `changed` as of `replanned`.

    Raises BadInput for tiles that the chip cannot have.
    """
    verdict = judged(call, chip)
    if not verdict.ok:
        return verdict, None
    try:
        return verdict, replanned(base, chip, changed) if base else planned(call, chip, tiles)
    except DoesNotFit as error:
        if not isinstance(error.verdict, Verdict):
            raise
        return error.verdict, None


def _by_hand(tiles: Mapping[str, int] | None) -> str:
    return f", {', '.join(f'{name}={size}' for name, size in tiles.items())} by hand" if tiles else ""


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
    made = planned(base.call, chip, {**tiles, **base.by_hand})
    if made.kernel is not base.kernel:
        return planned(base.call, chip, base.by_hand)
    kinds = _untouched(changed)
    kept = {one.phase: one for one in base.phases if one.phase.core_kind in kinds}
    phases = tuple(kept.get(one.phase, one) for one in made.phases)
    return dataclasses.replace(made, phases=phases, by_hand=base.by_hand)


def percent_of(value: float, base: float) -> float:
    """How much more than `base` a value is, in percent."""
    return 100.0 * (value / base - 1.0) if base else 0.0


def _time(base: Plan, base_us: float, key: str, value: float) -> tuple[float | None, str]:
    """The time of a plan with another value of one figure, or None and why there is none."""
    try:
        chip = base.chip.override({key: value})
        if not key.startswith(CHANGING_TILES):
            time_us = simulate(_taken_over(base, chip, [key], _tiles(base, {"cube"}))).time_us
            if abs(percent_of(time_us, base_us)) < HARDLY:
                return time_us, ""
        verdict, plan = attempted(base.call, chip, base.by_hand, base, [key])
    except BadInput as error:
        return None, "; ".join(error.problems)
    return (simulate(plan).time_us, "") if plan else (None, verdict.culprit)


def _moved(key: str, value: float, share: Fraction) -> int | float:
    """A figure changed by a share of itself; a whole number by a whole step at least, a memory by whole blocks."""
    if not isinstance(value, int):
        return value * float(1 + share)
    step = step_of(key)
    towards = math.floor if share < 0 else math.ceil
    return max(towards(value * (1 + share) / step) * step, step)


def step_of(key: str) -> int:
    """By how much a figure that is a whole number is changed at least: on-chip memories by blocks."""
    return SIZE_STEP_BYTES if key.startswith(tuple(f"memory.{space}." for space in ON_CHIP)) else 1


def _listed(chip: Chip, keys: Iterable[str]) -> str:
    """The keys in words; a table of which all figures are among them by its name, the figures of others in braces."""
    left = dict.fromkeys(keys)
    parts = []
    for name, table in chip.tables().items():
        words = [word for word in table.figures() if f"{name}.{word}" in left]
        whole = len(words) == len(table.figures()) > 1
        if words:
            parts.append(
                name if whole else f"{name}.{words[0]}" if len(words) == 1 else f"{name}.{{{', '.join(words)}}}"
            )
    return ", ".join(parts)
