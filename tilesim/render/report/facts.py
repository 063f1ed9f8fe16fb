"""Facts of a report about an operator on one chip, as plain data: the one source of its HTML, Markdown and JSON.

Floats are rounded here, so that the same plan gives the same bytes on every machine.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from tilesim.analysis.answer import Answer
from tilesim.chip.chip import Chip
from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.feasibility.limits import UNLIMITED
from tilesim.feasibility.verdict import Verdict
from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import Plan
from tilesim.program.buffers import Tensor
from tilesim.program.isa import SPACES
from tilesim.program.recorder import Loop
from tilesim.render.excerpts import lanes
from tilesim.render.listing import listing
from tilesim.render.memory_map import MemoryMap, fullest_ub_of, memory_maps_of, needed
from tilesim.simulation.roofline import roofline
from tilesim.simulation.timeline import PhaseTime, Timeline

Facts = dict[str, Any]
LEAST_STATUS = ("guess", "override", "fitted", "measured", "datasheet", "platform")
"""Statuses of parameters, the least certain first."""


def facts(answer: Answer) -> Facts:
    """Return the facts of one chip."""
    verdict, plan, timeline = answer.verdict, answer.plan, answer.timeline
    out: Facts = {
        "chip": _chip(verdict.on),
        "verdict": verdict.to_json(),
        "limiting": limiting(verdict),
        "inequalities": [inequality(b) for b in verdict.inequalities],
        "maps": [m.to_json() for m in _maps(answer)],
        "fits_next": fits_next(verdict),
        "problem": "" if plan is not None else verdict.culprit,
        "plan": None,
        "time": None,
    }
    if plan is not None and timeline is not None:
        out["plan"] = plan_facts(plan, timeline)
        out["time"] = time_facts(timeline)
        out["lanes"] = [lanes(timeline, p.name).to_json() for p in timeline.phases if p.cycles]
        out["roofline"] = roofline(timeline).to_json()
        out["flow"] = flow(plan)
        out["listing"] = listing(timeline, where=False) if plan.phases else ["nothing is launched"]
        out["figures"] = figures(timeline)
        out["accuracy"] = str(known_accuracy(plan.call, verdict.on, plan.by_hand))
    return out


def _chip(chip: Chip) -> Facts:
    return {
        "name": chip.name,
        "soc": chip.soc,
        "product": chip.product,
        "family": chip.family,
        "vector_cores": chip.cores.vector,
        "cube_cores": chip.cores.cube,
        "overridden": {key: {"was": was, "is": chip.get(key)} for key, was in sorted(chip.overridden.items())},
    }


def limiting(verdict: Verdict) -> str:
    """Return what decides, in one line: the broken rule, the worst inequality, or the one with the least slack."""
    if verdict.culprit:
        return verdict.culprit
    tightest = min(
        (b for b in verdict.inequalities if b.memory == "ub"), key=lambda b: b.slack_bytes, default=verdict.tightest
    )
    if tightest is None:
        return "nothing limits it"
    return (
        f"{tightest.place}: at the smallest tiles {tightest.left_bytes:,} of"
        f" {tightest.right_bytes:,} B, {tightest.slack_bytes:,} B to spare"
    )


def inequality(balance: EvaluatedInequality) -> Facts:
    """Return an inequality with both sides and the share that is used."""
    left, right = balance.left_bytes, balance.right_bytes
    return {
        "phase": balance.phase,
        "memory": balance.memory,
        "text": balance.text,
        "left_bytes": left,
        "right_bytes": right,
        "slack_bytes": balance.slack_bytes,
        "used": round(left / right, 4) if right > 0 else 1.0 if not left else 9.99,
        "ok": balance.slack_bytes >= 0,
        "main": balance.memory == "ub" or balance.slack_bytes < 0,
    }


def _maps(answer: Answer) -> list[MemoryMap]:
    """Return the memories of every phase; without a plan, the buffers of the inequalities."""
    if answer.plan is not None:
        return memory_maps_of(answer.plan)
    balances = [b for b in answer.verdict.inequalities if b.memory == "ub" or b.slack_bytes < 0]
    spaces = set(chain.from_iterable(SPACES.values()))
    return [needed(answer.verdict, b) for b in balances if b.memory in spaces]


def fits_next(verdict: Verdict) -> list[Facts]:
    """Return the largest value of every dim and tile with a limit, beside the given value."""
    given = verdict.dims
    return [
        {
            "name": name,
            "given": given.get(name),
            "largest": value if value != UNLIMITED else None,
            "none": value is None,
            "tile": name not in given,
        }
        for name, value in verdict.limits.items()
    ]


def plan_facts(plan: Plan, timeline: Timeline) -> Facts:
    """Return the split over cores, the tiles and the launch."""
    fullest = fullest_ub_of(plan)
    return {
        "block_dim": plan.block_dim,
        "route": plan.route,
        "tiling_key": plan.tiling_key,
        "template": None if plan.template is None else list(plan.template),
        "tiling_data": None if plan.tiling_data is None else dict(plan.tiling_data),
        "ub_used_bytes": fullest.used_bytes if fullest else 0,
        "ub_available_bytes": fullest.budget_bytes if fullest else 0,
        "workspace_bytes": plan.workspace_bytes,
        "system_bytes": plan.chip.workspace.system_bytes,
        "workspace": [{"name": n, "offset": o, "bytes": b} for n, (o, b) in plan.workspace.items()],
        "phases": [_cores(phase, spent) for phase, spent in zip(plan.phases, timeline.phases, strict=True)],
    }


def _cores(plan: PhasePlan, spent: PhaseTime) -> Facts:
    """Return the split of a phase over cores."""
    split = [loop.name for loop in plan.phase.loops() if loop.split]
    return {
        "name": plan.phase.name,
        "note": plan.phase.note,
        "core_kind": spent.core_kind,
        "cores": spent.cores,
        "of": spent.chip_cores,
        "split": split,
        "loops": [_loop(loop, plan) for loop in plan.phase.loops() if loop.split],
        "waves": spent.waves,
        "shares": [{"cores": cores, "cycles": cycles} for cycles, cores in spent.shares],
        "idle_share": round(spent.idle_share, 4),
        "tiles": [{"name": n, "size": s, "reason": plan.reasons.get(n, "")} for n, s in plan.tiles.items()],
    }


def _loop(loop: Loop, plan: PhasePlan) -> str:
    """Return a split loop as text: its name, extent and tile."""
    extent, tile = int(loop.extent.bind(plan.sizes)), int(loop.tile.bind(plan.sizes))
    return f"{loop.name}: {extent:,}" + (f" in tiles of {tile:,}" if tile > 1 else "")


def time_facts(timeline: Timeline) -> Facts:
    """Return the times of a launch, rounded."""
    total_us = timeline.time_us
    return {
        "time_us": round(total_us, 3),
        "launch_us": round(timeline.launch_us, 3),
        "sync_us": round(timeline.sync_us, 3),
        "cycles": timeline.cycles,
        "bottleneck": timeline.bottleneck,
        "estimate": timeline.estimate,
        "rests_on": {status: list(keys) for status, keys in timeline.rests_on.items()},
        "phases": [
            {
                "name": p.name,
                "core_kind": p.core_kind,
                "cycles": p.cycles,
                "time_us": round(p.time_us, 3),
                "share": round(p.time_us / total_us, 4) if total_us else 0.0,
                "busy": [
                    {"pipe": pipe, "cycles": c, "share": round(c / p.cycles, 4) if p.cycles else 0.0}
                    for pipe, c in p.busy_cycles.items()
                ],
                "bound": p.bound,
                "read_bytes": p.read_bytes,
                "write_bytes": p.write_bytes,
            }
            for p in timeline.phases
        ],
    }


def flow(plan: Plan) -> Facts:
    """Return the tensors that each phase reads and writes, and the edges between phases."""
    writer: dict[str, list[str]] = {}
    phases, edges = [], []
    for phase_plan in plan.phases:
        phase, reads, writes = phase_plan.phase, phase_plan.traffic.reads, phase_plan.traffic.writes
        for name in reads:
            edges += [{"from": w, "to": phase.name, "tensor": name} for w in writer.get(name, []) if w != phase.name]
        for name in writes:
            kept = writer.get(name, []) if name not in reads else []
            writer[name] = [*kept, phase.name]
        phases.append(
            {
                "name": phase.name,
                "core_kind": phase.core_kind,
                "reads": [{"tensor": name, "bytes": moved.bytes} for name, moved in reads.items()],
                "writes": [{"tensor": name, "bytes": moved.bytes} for name, moved in writes.items()],
            }
        )
    outputs = {t.name for t in plan.kernel.tensors.values() if isinstance(t, Tensor) and t.role == "output"}
    inputs = {t.name for t in plan.kernel.tensors.values() if isinstance(t, Tensor) and t.role == "input"}
    return {"phases": phases, "edges": edges, "inputs": sorted(inputs), "outputs": sorted(outputs)}


def figures(timeline: Timeline) -> list[Facts]:
    """Return the chip tables that the times rest on: parameters, status and source, the least certain first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for figure in timeline.plan.chip.figures():
        if figure.key in timeline.parameters:
            table, _, key = figure.key.rpartition(".")
            groups.setdefault((table, figure.status, figure.source), []).append(f"{key} = {figure.value:g}")
    order = {status: i for i, status in enumerate(LEAST_STATUS)}
    rows = [{"table": t, "status": s, "source": source, "figures": keys} for (t, s, source), keys in groups.items()]
    return sorted(rows, key=lambda row: order.get(str(row["status"]), len(order)))
