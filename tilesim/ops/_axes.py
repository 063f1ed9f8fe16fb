"""Rules of library operators that work along one axis of a tensor of any rank."""

from __future__ import annotations

from tilesim.chip.chip import Chip
from tilesim.operators.operator import Call, Dimension, Outcome, Rule
from tilesim.operators.rules import UNKNOWN
from tilesim.operators.status import PARAM_INVALID

X = Dimension("X", least=0)
"""The product of the sizes before the axis."""
N = Dimension("N")
"""The axis, or half of it where it is split in two."""
Y = Dimension("Y", least=0)
"""The product of the sizes after it."""


def _axis(call: Call) -> tuple[tuple[int, ...] | None, int]:
    """The shape of the operator's leading tensor and the attribute `dim`."""
    spec = call.spec(call.operator.lead)
    return None if spec is None else spec.shape, int(call.attributes["dim"])


def _in_range(call: Call, _: Chip) -> Outcome:
    shape, dim = _axis(call)
    if shape is None:
        return Outcome(ok=True, expected="an axis", given=str(dim))
    return Outcome(-len(shape) <= dim < len(shape), f"{-len(shape)}..{len(shape) - 1}", str(dim))


def _even(call: Call, _: Chip) -> Outcome:
    shape, dim = _axis(call)
    if shape is None or not -len(shape) <= dim < len(shape):
        return Outcome(ok=True, expected="an even number", given=UNKNOWN)
    return Outcome(shape[dim] % 2 == 0, "an even number", str(shape[dim]))


dim_in_range = Rule("dim range", PARAM_INVALID, _in_range, "dim")
even_axis = Rule("split axis even", PARAM_INVALID, _even)
