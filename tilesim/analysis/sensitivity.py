"""The parameters of a chip that the time of a plan depends on, those that change it most first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tilesim.analysis.answer import Answer
from tilesim.analysis.sweep import accuracy_notes
from tilesim.analysis.table import Cell, Column, Table, table_of
from tilesim.analysis.whatif import by_hand_text, percent_of
from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import step_of, unit_of
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Operator
from tilesim.ops import load_operator
from tilesim.planning.plan import Plan, plan_of
from tilesim.planning.replan import CHANGING_TILES, reprice_of
from tilesim.simulation.timeline import timeline_of

CHANGE: Final = Fraction(1, 10)
"""By this share does `sensitivity` change a figure."""


HARDLY: Final = 0.1
"""A change of the time by less is none worth choosing tiles anew for [%]."""


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


@checked
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
    return sensitivity_of(plan_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), tiles))


def sensitivity_of(plan: Plan) -> Table:
    """Return the table of `sensitivity` for a plan."""
    base = Answer(plan.verdict, plan)
    timeline = timeline_of(plan)
    call, base_chip, base_us, used = plan.call, plan.chip, timeline.time_us, timeline.parameters
    rows: list[tuple[float, list[Cell]]] = []
    idle: list[str] = []
    skipped: dict[str, list[str]] = {}
    fixed = {f"{name}.{key}": why for name, table in base_chip.tables().items() for key, why in table.fixed().items()}
    for figure in base_chip.figures():
        why = fixed.get(figure.key, "" if figure.value else "ten percent of 0 is 0")
        if why:
            skipped.setdefault(why, []).append(figure.key)
            continue
        if figure.key.startswith(("cost.", "copy.", "cube.")) and figure.key not in used:
            idle.append(figure.key)
            continue
        values = (_moved(figure.key, figure.value, -CHANGE), _moved(figure.key, figure.value, CHANGE))
        times, reasons = zip(*(_time(base, plan, base_us, figure.key, value) for value in values), strict=True)
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
        f"{base_us:,.1f} us with the chip as it is{by_hand_text(plan.by_hand)}",
        *([f"without effect here: {_listed(base_chip, idle)}"] if idle else []),
        *(f"left alone, since {why}: {_listed(base_chip, keys)}" for why, keys in skipped.items()),
    ]
    title = f"what the time of {call.operator.name} on {base_chip.name} depends on"
    notes[1:1] = accuracy_notes([(call, base_chip)])
    return table_of(title, SENSITIVITY_COLUMNS, [row for _, row in rows], notes)


def _time(base: Answer, plan: Plan, base_us: float, key: str, value: float) -> tuple[float | None, str]:
    """Return the time of a plan with another value of one parameter, or None and the reason why there is none."""
    try:
        chip = plan.chip.override({key: value})
        if not key.startswith(CHANGING_TILES):
            time_us = timeline_of(reprice_of(plan, chip, [key])).time_us
            if abs(percent_of(time_us, base_us)) < HARDLY:
                return time_us, ""
        answer = base.on(chip, [key], plan.by_hand)
    except BadInput as error:
        return None, "; ".join(error.problems)
    return answer.time_us, "" if answer.plan else answer.verdict.culprit


def _moved(key: str, value: float, share: Fraction) -> int | float:
    """A figure changed by a share of itself; a whole number by a whole step at least, a memory by whole blocks."""
    if not isinstance(value, int):
        return value * float(1 + share)
    step = step_of(key)
    towards = math.floor if share < 0 else math.ceil
    return max(towards(value * (1 + share) / step) * step, step)


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
