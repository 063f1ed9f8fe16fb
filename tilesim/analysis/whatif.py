"""What-if tables of a call over parameters of a chip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilesim.analysis.answer import fitting_answer_of
from tilesim.analysis.sweep import REASON, TIME_COLUMNS, VERDICT_COLUMNS, accuracy_notes, cells_of, chip_variants
from tilesim.analysis.table import Column, Table, table_of
from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import unit_of
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import Verdict, verdict_of
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Operator
from tilesim.ops import load_operator


@checked
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
    """Return the table of a call under every combination of parameters: verdict, tiles, cycles, time and bound.

    `set` maps keys of the chip to a value, a list or a text such as "131072:262144:32768" (stop included). The change
    of the time is against the chip as it is. `tiles` are fixed by hand, as in `plan`. Raises BadInput with all problems
    at once.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return whatif_of(verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)), set, tiles)


def whatif_of(verdict: Verdict, settings: Mapping[str, Any], tiles: Mapping[str, int] | None = None) -> Table:
    """Return the table of `whatif` from the verdict on the chip as it is."""
    call, base_chip = verdict.call, verdict.on
    variants = list(chip_variants([base_chip], settings))
    keys = list(settings)
    base = fitting_answer_of(verdict, tiles)
    place = len(VERDICT_COLUMNS) + [c.name for c in TIME_COLUMNS].index("time_us") + 1
    change = Column("change", "%", "of the time, against the chip as it is")
    head = [*VERDICT_COLUMNS, *TIME_COLUMNS, REASON]
    rows = []
    for values, chip in variants:
        try:
            answer = base.on(chip, tiles)
            cells, time_us = cells_of(answer), answer.time_us
        except BadInput as error:  # tiles by hand that the chip cannot have
            cells, time_us = ["refused", *[None] * (len(head) - 2), "; ".join(error.problems)], None
        change_percent = percent_of(time_us, base.time_us) if time_us is not None and base.time_us else None
        rows.append([*(values[key] for key in keys), *cells[:place], change_percent, *cells[place:]])
    columns = [*(Column(key, unit_of(key)) for key in keys), *head[:place], change, *head[place:]]
    sizes = ", ".join(f"{name} = {value}" for name, value in call.dims.items())
    as_it_is = f"{base.time_us:,.1f} us" if base.time_us is not None else base.verdict.culprit or base.verdict.verdict
    notes = [f"{sizes}, {call.dtype}{by_hand_text(tiles)}", f"{base_chip.name} as it is: {as_it_is}"]
    notes += accuracy_notes([(call, base_chip)]) if call.operator.has_instructions else []
    return table_of(f"{call.operator.name} on {base_chip.name}", columns, rows, notes)


def by_hand_text(tiles: Mapping[str, int] | None) -> str:
    """Return `, rows=2 by hand`; "" without tiles by hand."""
    return f", {', '.join(f'{name}={size}' for name, size in tiles.items())} by hand" if tiles else ""


def percent_of(value: float, base: float) -> float:
    """Return the difference of a value from `base` [%]; 0 if `base` is 0."""
    return 100.0 * (value / base - 1.0) if base else 0.0
