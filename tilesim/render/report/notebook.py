"""Results as HTML for notebooks: small, self-contained, in the colours of the page around them.

The drawings are those of a report. The style applies to the class `tilesim` only, not to the page around it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from tilesim.analysis.table import Cell, Column, Table, shown, table_of
from tilesim.feasibility.verdict import BuffersVerdict, Verdict
from tilesim.measured.compare import Comparison
from tilesim.measured.error_bands import known_accuracy
from tilesim.measured.validate import Summary, Validation
from tilesim.operators.binding import in_words
from tilesim.planning.plan import Plan
from tilesim.render.excerpts import lanes
from tilesim.render.memory_map import fullest_ub_of
from tilesim.render.report.facts import Facts, fits_next, inequality, limiting, plan_facts, time_facts
from tilesim.render.report.report import environment
from tilesim.simulation.timeline import Timeline, timeline_of
from tilesim.text import several

BUFFERS = 12
"""Buffers that a verdict lists, at most."""


def html(what: object) -> str:
    """Return a result as a fragment of HTML. Raises TypeError for an object that is not a result."""
    if isinstance(what, Verdict):
        return _rendered("verdict", what, _verdict(what))
    if isinstance(what, Plan):
        return _rendered("plan", what.verdict, _plan(what))
    if isinstance(what, Timeline):
        return _rendered("timeline", what.plan.verdict, _timeline(what))
    if isinstance(what, Table | Comparison | Validation):
        return environment().get_template("notebook_tables.html.jinja").render(page=page(what).to_json(), zip=zip)
    raise TypeError(f"{type(what).__name__} is not shown as HTML, only results are")


def _rendered(kind: str, verdict: Verdict, facts: Facts) -> str:
    subject = {
        "operator": verdict.operator,
        "chip": verdict.on.soc,
        "dtype": verdict.dtype,
        "words": in_words(verdict.call),
        "verdict": verdict.verdict,
        "ok": verdict.ok,
        "note": verdict.note,
        "overridden": {key: (was, verdict.on.get(key)) for key, was in sorted(verdict.on.overridden.items())},
    }
    return environment().get_template("notebook.html.jinja").render(kind=kind, subject=subject, **facts)


def _verdict(verdict: Verdict) -> Facts:
    rows = [inequality(balance) for balance in verdict.inequalities]
    return {
        "status": verdict.status,
        "limiting": limiting(verdict),
        "notes": [note for note in verdict.notes if note != verdict.note],
        "programs": verdict.programs if isinstance(verdict, BuffersVerdict) else None,
        "sizes": verdict.size_limits,
        "largest": [f for f in fits_next(verdict) if f["largest"] is not None],
        "broken": verdict.broken,
        "main": [row for row in rows if row["main"]],
        "rest": [row for row in rows if not row["main"]],
        "buffers": verdict.buffers[:BUFFERS],
        "buffer_count": len(verdict.buffers),
        "remedies": [str(remedy) for remedy in verdict.remedies],
    }


def _plan(plan: Plan) -> Facts:
    fullest = fullest_ub_of(plan)
    return {"plan": plan_facts(plan, timeline_of(plan)), "map": fullest.to_json() if fullest else None}


def _timeline(timeline: Timeline) -> Facts:
    longest = max(timeline.phases, key=lambda phase: phase.cycles, default=None)
    plan = timeline.plan
    return {
        "time": time_facts(timeline),
        "lanes": lanes(timeline, longest.name).to_json() if longest and longest.cycles else None,
        "accuracy": str(known_accuracy(plan.call, plan.chip)),
    }


MOST_ROWS: Final = 60
"""Rows of a table, at most."""


NUMBERS: Final = (
    Column("rows"),
    *(Column(name, "%") for name in ("mean error", "median", "worst", "bias")),
    Column("rank correlation"),
)
"""Columns of a summary of errors."""


@dataclass(frozen=True)
class Page:
    """Result as lines and tables. `state` is "plain", or "no" for a comparison without rows."""

    state: str
    head: str
    lines: tuple[str, ...]
    tables: tuple[Table, ...]
    folded: tuple[Table, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the page as data of the template."""
        tables = [_table(table) for table in self.tables]
        return {**vars(self), "tables": tables, "folded": [_table(table) for table in self.folded if table.rows]}


def page(what: Table | Comparison | Validation) -> Page:
    """Return the page of a result that consists of tables."""
    if isinstance(what, Table):
        return Page("plain", what.title, what.notes, (Table("", what.columns, what.rows),))
    return _comparison(what) if isinstance(what, Comparison) else _validation(what)


def _table(table: Table) -> dict[str, Any]:
    """Return a table as data of the template, without its empty columns."""
    heads = [
        {"text": column.short, "about": column.about, "number": number} for _, column, number in table.nonempty_columns
    ]
    rows = [[shown(row[i]) for i, *_ in table.nonempty_columns] for row in table.rows[:MOST_ROWS]]
    more = len(table) - MOST_ROWS
    return {"title": table.title, "heads": heads, "rows": rows, "more": several(more, "more row") if more > 0 else ""}


def _comparison(comparison: Comparison) -> Page:
    kernels = table_of(
        "",
        (
            *map(Column, ("kernel", "shapes", "dtype", "calls")),
            *(Column(name, "us") for name in ("measured", "predicted")),
            Column("ratio", "", "measured by predicted"),
            Column("gain", "us", "of all calls together"),
        ),
        [
            (k.kind, k.shapes_text, k.dtype, k.calls, k.measured_us, k.predicted_us, k.ratio, k.gain_us)
            for k in comparison.kernels
        ],
    )
    omitted = table_of(
        f"left out, {len(comparison.left)}",
        (*map(Column, ("kernel", "calls")), Column("time", "us"), Column("reason")),
        [(row.kind, row.calls, row.time_us, row.reason) for row in comparison.left],
    )
    known = table_of(
        "known error of the predictions",
        (Column("operator"), Column("error")),
        dict.fromkeys((k.operator, f"{k.accuracy}{f'; {k.note}' if k.note else ''}") for k in comparison.kernels),
    )
    return Page("plain" if comparison.kernels else "no", str(comparison), (), (kernels,), (known, omitted))


def _validation(validation: Validation) -> Page:
    groups = table_of(
        "",
        (Column("operator"), Column("dtype"), *NUMBERS),
        [(operator, dtype, *_numbers(s)) for (operator, dtype), s in validation.groups.items()],
    )
    classes = table_of(
        "kernels of the vendor's library by class",
        (Column("class"), *NUMBERS),
        [(name, *_numbers(s)) for name, s in validation.families.items()],
    )
    rows = table_of(
        "rows, the largest error first",
        (Column("row"), Column("measured", "us"), Column("predicted", "us"), Column("error", "%")),
        [
            (row.row.text, row.row.time_us, row.predicted_us, row.error)
            for row in sorted(validation.compared, key=lambda row: -abs(row.error))
        ],
    )
    counts = Counter(reason for _, reason in validation.skipped)
    omitted = table_of(
        f"left out, {len(validation.skipped)}",
        (Column("rows"), Column("reason")),
        [(count, reason) for reason, count in counts.most_common()],
    )
    changed = validation.fit.changed.items() if validation.fit is not None else ()
    fit = table_of(
        "parameters of the fit",
        (Column("parameter"), Column("before"), Column("after")),
        [(key, before, after) for key, (before, after) in changed],
    )
    return Page("plain" if validation.compared else "no", str(validation), (), (groups,), (classes, rows, fit, omitted))


def _numbers(summary: Summary) -> tuple[Cell, ...]:
    """Return the cells of a summary."""
    errors = (summary.mape, summary.median_ape, summary.worst, summary.bias)
    return (summary.rows, *errors, summary.rank_correlation)
