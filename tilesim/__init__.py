"""Tiling, resource planning and simulation of NPU operators, without the NPU.

The public names below are loaded when they are first used, so that `import tilesim` costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from tilesim.shown import Shown

if TYPE_CHECKING:
    from tilesim.buffers import BuffersVerdict, check_buffers
    from tilesim.checker import Verdict, check
    from tilesim.chip import Chip, chips_found, load_chip
    from tilesim.compare import Comparison, compare
    from tilesim.composite import Saving, fusion_saving
    from tilesim.errors import BadChip, BadInput, BadOperator, Differs, DoesNotFit, Refused, TilesimError, Unsupported
    from tilesim.operator import Operator
    from tilesim.ops import load_operator, operators_shipped
    from tilesim.plan import Plan, plan
    from tilesim.run import Run, run
    from tilesim.search import search
    from tilesim.shapes import TensorSpec
    from tilesim.solving import solve
    from tilesim.sweep import sweep
    from tilesim.timeline import Timeline, simulate
    from tilesim.validate import Validation, validate
    from tilesim.whatif import sensitivity, whatif

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
    "buffers": ("BuffersVerdict", "check_buffers"),
    "checker": ("Verdict", "check"),
    "chip": ("Chip", "chips_found", "load_chip"),
    "compare": ("Comparison", "compare"),
    "composite": ("Saving", "fusion_saving"),
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
    "operator": ("Operator",),
    "ops": ("load_operator", "operators_shipped"),
    "plan": ("Plan", "plan"),
    "run": ("Run", "run"),
    "search": ("search",),
    "shapes": ("TensorSpec",),
    "solving": ("solve",),
    "sweep": ("sweep",),
    "timeline": ("Timeline", "simulate"),
    "validate": ("Validation", "validate"),
    "whatif": ("sensitivity", "whatif"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


class _Package(ModuleType):
    """A package in which a public function keeps its name although a module has the same one, such as `plan`."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, save where the import system would put a module in a function's place."""
        if not (isinstance(value, ModuleType) and name in _HOME_OF):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
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
    from tilesim.html import html  # noqa: PLC0415 - only notebooks need it

    return html(what)


def _known(what: Any) -> dict[str, Any]:
    """What there is to know of a plan, or of the timeline of one, that its own module cannot know."""
    from tilesim.composite import fusing_json  # noqa: PLC0415 - `import tilesim` costs nothing
    from tilesim.error_bands import known_accuracy  # noqa: PLC0415

    plan = getattr(what, "plan", None)
    if plan is None:
        return {"fusing": fusing_json(what)}
    return {"accuracy": str(known_accuracy(plan.call, plan.chip, plan.by_hand)), "fusing": fusing_json(plan)}


Shown.drawn_by = _drawn
Shown.known_of = _known
sys.modules[__name__].__class__ = _Package
