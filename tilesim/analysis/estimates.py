"""Accuracy of the time of a plan and saving of one fused kernel: the last keys of its JSON."""

from __future__ import annotations

from typing import Any

from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.plan import Plan
from tilesim.simulation.fusion_saving import fusing_json
from tilesim.simulation.timeline import Timeline


def estimates_of(result: Plan | Timeline) -> dict[str, Any]:
    """Return "fusing", and of a timeline "accuracy", as plain data."""
    if isinstance(result, Plan):
        return {"fusing": fusing_json(result)}
    plan = result.plan
    return {"accuracy": str(known_accuracy(plan.call, plan.chip, plan.by_hand)), "fusing": fusing_json(plan)}
