"""Results as HTML for notebooks: small, self-contained, in the colours of the page around them.

The pieces are those of a report; a style of its own, for the class `tilesim`, reaches nothing else on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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
from tilesim.render.memory_map import memory_map_of
from tilesim.render.report.facts import Facts, fits_next, inequality, limiting, plan_facts, time_facts
from tilesim.render.report.report import environment
from tilesim.simulation.timeline import Timeline, timeline_of
from tilesim.text import several

BUFFERS = 12
"""As many buffers does a verdict list."""


def html(what: object) -> str:
    """A result as a piece of HTML. Raises TypeError for what is none."""
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
    asked = {
        "operator": verdict.operator,
        "chip": verdict.on.soc,
        "dtype": verdict.dtype,
        "words": in_words(verdict.call),
        "verdict": verdict.verdict,
        "ok": verdict.ok,
        "note": verdict.note,
        "overridden": {key: (was, verdict.on.get(key)) for key, was in sorted(verdict.on.overridden.items())},
    }
    return environment().get_template("notebook.html.jinja").render(kind=kind, asked=asked, **facts)


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
    maps = [memory_map_of(one, "ub") for one in plan.phases if one.phase.core_kind == "vector"]
    fullest = max(maps, key=lambda one: one.used_bytes, default=None)
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
"""As many rows of a table are shown."""


SHARE: Final = "share"
"""The unit of a column whose numbers are drawn as bars."""


NUMBERS: Final = (
    Column("rows"),
    *(Column(name, "%") for name in ("mean error", "median", "worst", "bias")),
    Column("rank correlation"),
)
"""The columns of a summary of errors."""


@dataclass(frozen=True)
class Page:
    """A result as lines and tables. `state` is "fits", "caution" or "no"; "plain" for what is no verdict."""

    state: str
    head: str
    words: str
    lines: tuple[str, ...]
    remedies: tuple[str, ...]
    tables: tuple[Table, ...]
    folded: tuple[Table, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it as the template takes it."""
        tables = {"tables": [drawn(t) for t in self.tables], "folded": [drawn(t) for t in self.folded if t.rows]}
        return {**vars(self), **tables}


def page(what: Table | Comparison | Validation) -> Page:
    """The page of a result that is a table or has some."""
    if isinstance(what, Table):
        return Page("plain", what.title, "", what.notes, (), (Table("", what.columns, what.rows),))
    return _comparison(what) if isinstance(what, Comparison) else _validation(what)


def drawn(table: Table) -> dict[str, Any]:
    """A table as the template takes it; columns in which no row says anything are left out."""
    heads = [
        {"text": one.name, "about": one.about, "kind": SHARE}
        if one.unit == SHARE
        else {"text": one.short, "about": one.about, "kind": "number" if number else ""}
        for _, one, number in table.nonempty_columns
    ]
    rows = [
        [row[i] if one.unit == SHARE else shown(row[i]) for i, one, _ in table.nonempty_columns]
        for row in table.rows[:MOST_ROWS]
    ]
    more = len(table) - MOST_ROWS
    return {"title": table.title, "heads": heads, "rows": rows, "more": several(more, "more row") if more > 0 else ""}


def _comparison(made: Comparison) -> Page:
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
            for k in made.kernels
        ],
    )
    left = table_of(
        f"left out, {len(made.left)}",
        (*map(Column, ("kernel", "calls")), Column("time", "us"), Column("reason")),
        [(one.kind, one.calls, one.time_us, one.reason) for one in made.left],
    )
    known = table_of(
        "known error of the predictions",
        (Column("operator"), Column("error")),
        dict.fromkeys((k.operator, f"{k.accuracy}{f'; {k.note}' if k.note else ''}") for k in made.kernels),
    )
    return Page("plain" if made.kernels else "no", str(made), "", (), (), (kernels,), (known, left))


def _validation(made: Validation) -> Page:
    groups = table_of(
        "",
        (Column("operator"), Column("dtype"), *NUMBERS),
        [(operator, dtype, *_numbers(s)) for (operator, dtype), s in made.groups.items()],
    )
    classes = table_of(
        "kernels of the vendor's library by class",
        (Column("class"), *NUMBERS),
        [(name, *_numbers(s)) for name, s in made.families.items()],
    )
    rows = table_of(
        "rows, the furthest off first",
        (Column("row"), Column("measured", "us"), Column("predicted", "us"), Column("error", "%")),
        [
            (one.row.text, one.row.time_us, one.predicted_us, one.error)
            for one in sorted(made.compared, key=lambda one: -abs(one.error))
        ],
    )
    counts = Counter(reason for _, reason in made.skipped)
    left = table_of(f"left out, {len(made.skipped)}", (Column("rows"), Column("reason")), _turned(counts.most_common()))
    changed = made.fit.changed.items() if made.fit is not None else ()
    fit = table_of(
        "figures of the fit",
        (Column("figure"), Column("before"), Column("after")),
        [(key, before, after) for key, (before, after) in changed],
    )
    return Page("plain" if made.compared else "no", str(made), "", (), (), (groups,), (classes, rows, fit, left))


def _numbers(summary: Summary) -> tuple[Cell, ...]:
    """The cells of a summary."""
    errors = (summary.mape, summary.median_ape, summary.worst, summary.bias)
    return (summary.rows, *errors, summary.rank_correlation)


def _turned(pairs: Iterable[tuple[str, int]]) -> list[tuple[int, str]]:
    return [(count, name) for name, count in pairs]
