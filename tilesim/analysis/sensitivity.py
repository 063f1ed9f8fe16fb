"""Sensitivity of the time of a plan to the parameters of a chip."""

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
from tilesim.planning.replan import reprice_of
from tilesim.simulation.timeline import timeline_of

CHANGE: Final = Fraction(1, 10)
"""Share of its value by which `sensitivity` changes a parameter."""

HARDLY: Final = 0.1
"""Change of the time below which the tiles of matrix products stay [%]."""

SENSITIVITY_COLUMNS: Final = (
    Column("figure", "", "the key of the chip"),
    Column("unit", "", "of the three values"),
    Column("value", "", "of the chip"),
    Column("status", "", "source of the value"),
    Column("less", "", "about 10 % less"),
    Column("more", "", "about 10 % more"),
    Column("time_less_us", "us", "the time with less"),
    Column("time_more_us", "us", "the time with more"),
    Column("change_less", "%", "change of the time with less"),
    Column("change_more", "%", "change of the time with more"),
    Column("reason", "", "reason why one of the times is missing"),
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
    """Return the parameters of the chip that the time of a call depends on, those that change it most first.

    Each parameter is set 10 % lower and 10 % higher, the others as they are, and the call is planned again; if a rate
    changes the time by less than 0.1 %, the tiles of matrix products stay. Whole numbers are rounded away from the
    value, by one core or block at least. `tiles` are fixed by hand, as in `plan`. The notes list the parameters without
    effect, and those that were not changed, with the reasons. Raises what `plan` raises.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return sensitivity_of(plan_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), tiles))


def sensitivity_of(plan: Plan) -> Table:
    """Return the table of `sensitivity` for a plan."""
    base = Answer(plan.verdict, plan)
    call, base_chip, base_us = plan.call, plan.chip, timeline_of(plan).time_us
    rows: list[tuple[float, list[Cell]]] = []
    without_effect: list[str] = []
    skipped: dict[str, list[str]] = {}
    tables = base_chip.tables().items()
    fixed = {f"{name}.{key}": reason for name, table in tables for key, reason in table.fixed().items()}
    for parameter in base_chip.figures():
        key, given = parameter.key, parameter.value
        if reason := fixed.get(key, "" if given else "ten percent of 0 is 0"):
            skipped.setdefault(reason, []).append(key)
            continue
        values = (_moved(key, given, -CHANGE), _moved(key, given, CHANGE))
        times, reasons = zip(*(_time(base, plan, base_us, key, value) for value in values), strict=True)
        changes = [None if time is None else percent_of(time, base_us) for time in times]
        weight = max(math.inf if change is None else abs(change) for change in changes)
        if not weight:
            without_effect.append(parameter.key)
            continue
        reason = "; ".join(dict.fromkeys(r for r in reasons if r))
        row = [key, unit_of(key), given, parameter.status, *values, *times, *changes, reason]
        rows.append((weight, row))
    rows.sort(key=lambda pair: (-pair[0], str(pair[1][0])))
    notes = [
        f"{base_us:,.1f} us with the chip as it is{by_hand_text(plan.by_hand)}",
        *([f"without effect here: {_listed(base_chip, without_effect)}"] if without_effect else []),
        *(f"not changed, since {reason}: {_listed(base_chip, keys)}" for reason, keys in skipped.items()),
    ]
    title = f"sensitivity of the time of {call.operator.name} on {base_chip.name}"
    notes[1:1] = accuracy_notes([(call, base_chip)])
    return table_of(title, SENSITIVITY_COLUMNS, [row for _, row in rows], notes)


def _time(base: Answer, plan: Plan, base_us: float, key: str, value: float) -> tuple[float | None, str]:
    """Return the time of a plan with another value of one parameter, or None and the reason why there is none."""
    try:
        chip = plan.chip.override({key: value})
        repriced = reprice_of(plan, chip)
        if repriced is not None:
            time_us = timeline_of(repriced).time_us
            if abs(percent_of(time_us, base_us)) < HARDLY:
                return time_us, ""
        answer = base.on(chip, plan.by_hand)
    except BadInput as error:
        return None, "; ".join(error.problems)
    return answer.time_us, "" if answer.plan else answer.verdict.culprit


def _moved(key: str, value: float, share: Fraction) -> int | float:
    """Return a value changed by a share of itself; a whole number by a step at least, a memory by whole blocks."""
    if not isinstance(value, int):
        return value * float(1 + share)
    step = step_of(key)
    rounded = math.floor if share < 0 else math.ceil
    return max(rounded(value * (1 + share) / step) * step, step)


def _listed(chip: Chip, keys: Iterable[str]) -> str:
    """Return the keys in words: a table with all its keys by its name, keys of other tables in braces."""
    listed = set(keys)
    parts = []
    for name, table in chip.tables().items():
        words = [word for word in table.figures() if f"{name}.{word}" in listed]
        complete = len(words) == len(table.figures()) > 1
        if words:
            parts.append(
                name if complete else f"{name}.{words[0]}" if len(words) == 1 else f"{name}.{{{', '.join(words)}}}"
            )
    return ", ".join(parts)
