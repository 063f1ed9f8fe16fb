"""Results as HTML for notebooks: small, self-contained, in the colours of the page around them.

The pieces are those of a report; a style of its own, for the class `tilesim`, reaches nothing else on the page.
"""

from __future__ import annotations

from tilesim.analysis.table import Table
from tilesim.feasibility.buffer_verdict import BuffersVerdict
from tilesim.feasibility.verdict import Verdict
from tilesim.measured.compare import Comparison
from tilesim.measured.error_bands import known_accuracy
from tilesim.measured.validate import Validation
from tilesim.operators.binding import in_words
from tilesim.planning.plan import Plan
from tilesim.render.excerpts import lanes
from tilesim.render.memory_map import planned
from tilesim.render.report.facts import Facts, fits_next, inequality, limiting, plan_facts, time_facts
from tilesim.render.report.notebook_tables import page
from tilesim.render.report.report import environment
from tilesim.simulation.timeline import Timeline, simulate

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
    if isinstance(what, Table | BuffersVerdict | Comparison | Validation):
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
        "largest": [f for f in fits_next(verdict) if f["largest"] is not None],
        "broken": verdict.broken,
        "main": [row for row in rows if row["main"]],
        "rest": [row for row in rows if not row["main"]],
        "buffers": verdict.buffers[:BUFFERS],
        "buffer_count": len(verdict.buffers),
        "remedies": [str(remedy) for remedy in verdict.remedies],
    }


def _plan(plan: Plan) -> Facts:
    maps = [planned(one, "ub") for one in plan.phases if one.phase.core_kind == "vector"]
    fullest = max(maps, key=lambda one: one.used_bytes, default=None)
    return {"plan": plan_facts(plan, simulate(plan)), "map": fullest.to_json() if fullest else None}


def _timeline(timeline: Timeline) -> Facts:
    longest = max(timeline.phases, key=lambda phase: phase.cycles, default=None)
    plan = timeline.plan
    return {
        "time": time_facts(timeline),
        "lanes": lanes(timeline, longest.name).to_json() if longest and longest.cycles else None,
        "accuracy": str(known_accuracy(plan.call, plan.chip)),
    }
