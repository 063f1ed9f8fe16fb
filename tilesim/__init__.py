"""Tiling, resource planning and simulation of NPU operators, without the NPU.

The public names below are loaded when they are first used, so that `import tilesim` costs nothing.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from tilesim.notebook_repr import Shown

if TYPE_CHECKING:
    from tilesim.analysis.search import search
    from tilesim.analysis.sensitivity import sensitivity
    from tilesim.analysis.solve import solve
    from tilesim.analysis.sweep import sweep
    from tilesim.analysis.whatif import whatif
    from tilesim.chip.chip import Chip
    from tilesim.chip.loading import chips_found, load_chip
    from tilesim.errors import BadChip, BadInput, BadOperator, Differs, DoesNotFit, Refused, TilesimError, Unsupported
    from tilesim.execution.run import Run, run
    from tilesim.feasibility.buffer_verdict import BuffersVerdict, check_buffers
    from tilesim.feasibility.verdict import Verdict, check
    from tilesim.measured.compare import Comparison, compare
    from tilesim.measured.validate import Validation, validate
    from tilesim.operators.operator import Operator
    from tilesim.operators.shapes import TensorSpec
    from tilesim.ops import load_operator, operators_shipped
    from tilesim.planning.plan import Plan, plan
    from tilesim.simulation.fusion_saving import Saving, fusion_saving
    from tilesim.simulation.timeline import Timeline, simulate

__all__ = [
    "BadChip",
    "BadInput",
    "BadOperator",
    "BuffersVerdict",
    "Chip",
    "Comparison",
    "Differs",
    "DoesNotFit",
    "Operator",
    "Plan",
    "Refused",
    "Run",
    "Saving",
    "TensorSpec",
    "TilesimError",
    "Timeline",
    "Unsupported",
    "Validation",
    "Verdict",
    "check",
    "check_buffers",
    "chips_found",
    "compare",
    "fusion_saving",
    "load_chip",
    "load_operator",
    "operators_shipped",
    "plan",
    "run",
    "search",
    "sensitivity",
    "simulate",
    "solve",
    "sweep",
    "validate",
    "whatif",
]

_HOMES: Final = {
    "feasibility.buffer_verdict": ("BuffersVerdict", "check_buffers"),
    "feasibility.verdict": ("Verdict", "check"),
    "chip.chip": ("Chip",),
    "chip.loading": ("chips_found", "load_chip"),
    "measured.compare": ("Comparison", "compare"),
    "simulation.fusion_saving": ("Saving", "fusion_saving"),
    "errors": (
        "BadChip",
        "BadInput",
        "BadOperator",
        "Differs",
        "DoesNotFit",
        "Refused",
        "TilesimError",
        "Unsupported",
    ),
    "operators.operator": ("Operator",),
    "ops": ("load_operator", "operators_shipped"),
    "planning.plan": ("Plan", "plan"),
    "execution.run": ("Run", "run"),
    "analysis.search": ("search",),
    "operators.shapes": ("TensorSpec",),
    "analysis.solve": ("solve",),
    "analysis.sweep": ("sweep",),
    "simulation.timeline": ("Timeline", "simulate"),
    "measured.validate": ("Validation", "validate"),
    "analysis.sensitivity": ("sensitivity",),
    "analysis.whatif": ("whatif",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "aclnn":
        return importlib.import_module(f"{__name__}.execution.aclnn")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    if isinstance(found, FunctionType):
        from tilesim.arguments import checked  # noqa: PLC0415 - `import tilesim` costs nothing

        found = checked(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _drawn(what: object) -> str:
    """A result as HTML."""
    from tilesim.render.report.notebook import html  # noqa: PLC0415 - only notebooks need it

    return html(what)


def _known(what: Any) -> dict[str, Any]:
    """What there is to know of a plan, or of the timeline of one, that its own module cannot know."""
    from tilesim.measured.error_bands import known_accuracy  # noqa: PLC0415
    from tilesim.simulation.fusion_saving import fusing_json  # noqa: PLC0415 - `import tilesim` costs nothing

    plan = getattr(what, "plan", None)
    if plan is None:
        return {"fusing": fusing_json(what)}
    return {"accuracy": str(known_accuracy(plan.call, plan.chip, plan.by_hand)), "fusing": fusing_json(plan)}


Shown.drawn_by = _drawn
Shown.known_of = _known
