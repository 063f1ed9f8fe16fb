"""What if the chip were another: tables over figures of a chip, and what the time of a plan depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilesim.analysis.sweep import REASON, TIME_COLUMNS, VERDICT_COLUMNS, accuracy_notes, answers, chip_variants
from tilesim.analysis.table import Column, Table, table_of
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import unit_of
from tilesim.errors import BadInput, DoesNotFit
from tilesim.feasibility.verdict import Verdict, verdict_of
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Call, Operator
from tilesim.ops import load_operator
from tilesim.planning.plan import Plan, plan_of
from tilesim.planning.replan import replanned
from tilesim.simulation.timeline import simulate


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
    return whatif_of(call, chip if isinstance(chip, Chip) else load_chip(chip), set, tiles)


def whatif_of(
    call: Call, base_chip: Chip, settings: Mapping[str, Any], tiles: Mapping[str, int] | None = None
) -> Table:
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


def attempted(
    call: Call, chip: Chip, tiles: Mapping[str, int] | None, base: Plan | None = None, changed: Iterable[str] = ()
) -> tuple[Verdict, Plan | None]:
    """The verdict on a call with tiles by hand, and its plan if that is a yes; `base` and `changed` as of `replanned`.

    Raises BadInput for tiles that the chip cannot have.
    """
    verdict = verdict_of(call, chip)
    if not verdict.ok:
        return verdict, None
    try:
        return verdict, replanned(base, chip, changed) if base else plan_of(call, chip, tiles)
    except DoesNotFit as error:
        if not isinstance(error.verdict, Verdict):
            raise
        return error.verdict, None


def _by_hand(tiles: Mapping[str, int] | None) -> str:
    return f", {', '.join(f'{name}={size}' for name, size in tiles.items())} by hand" if tiles else ""


def percent_of(value: float, base: float) -> float:
    """How much more than `base` a value is, in percent."""
    return 100.0 * (value / base - 1.0) if base else 0.0
