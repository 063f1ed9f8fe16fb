"""`tilesim plan --search`: other ways to tile, ranked, and why the others lost."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from tilesim.analysis.table import shown
from tilesim.cli.console import Column, emit, heading, line, table

if TYPE_CHECKING:
    from tilesim.analysis.search import Candidate
    from tilesim.planning.plan import Plan

SHOWN_RANKED: Final = 6
"""As many that were timed does a screen show of a phase."""
SHOWN_REJECTED: Final = 3
"""As many that were turned down for their longest pipe, and for their bytes."""


def answer_search(plan: Plan, *, everything: bool, as_json: bool) -> None:
    """Print the candidates of every phase of a plan."""
    from tilesim.analysis.search import search_table, searched  # noqa: PLC0415 - numpy and pydantic load when a command runs
    from tilesim.measured.error_bands import known_accuracy  # noqa: PLC0415

    found = searched(plan)
    total, trust = search_table(found).notes[0], str(known_accuracy(plan.call, plan.chip, plan.by_hand))
    if as_json:
        emit({"ok": plan.verdict.ok, "summary": total, "accuracy": trust, "candidates": [c.to_json() for c in found]})
        return
    line(total, "bold")
    line(f"accuracy: {trust}")
    for phase, group in groupby(found, key=lambda candidate: candidate.phase):
        heading(phase)
        _phase(list(group), everything=everything)


def _phase(candidates: list[Candidate], *, everything: bool) -> None:
    ranked = [c for c in candidates if c.rank is not None]
    rejected = [c for c in candidates if c.rank is None]
    if not everything:
        # One of each kind says more than many of the first.
        late = [c for c in rejected if c.bound_cycles is not None][:SHOWN_REJECTED]
        large = [c for c in rejected if c.bound_cycles is None][:SHOWN_REJECTED]
        chosen = [c for c in ranked[SHOWN_RANKED:] if c.chosen]
        ranked, rejected = ranked[:SHOWN_RANKED] + chosen, late + large
    columns = (
        Column("", number=True),
        Column("tiles", prose=True),
        Column("slots", prose=True),
        Column("cores", number=True),
        Column("cycles", number=True),
        Column("why", prose=True),
    )
    rows = [
        (
            shown(c.rank) or "-",
            ", ".join(f"{name} {size:,}" for name, size in c.tiles.items()),
            c.slots,
            f"{c.cores:,} = {c.grid}" if " x " in c.grid else c.cores,
            shown(c.cycles),
            c.reason,
        )
        for c in (*ranked, *rejected)
    ]
    table(columns, rows)
    left = len(candidates) - len(rows)
    if left:
        line(f"and {left} more: --all")
