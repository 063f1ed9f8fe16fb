"""Differences of the outputs of a run from the operator's reference in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilesim.errors import BadInput
from tilesim.execution.run import Run, conformed
from tilesim.operators.reference import Arrays, Difference, difference
from tilesim.planning.plan import Plan


def verify(run: Run, plan: Plan, inputs: Mapping[str, Any]) -> list[Difference]:
    """Return the difference of every output from the reference at these inputs, with its tolerance.

    Raises BadInput for an operator that has no reference.
    """
    op, call = plan.operator, plan.call
    if op.reference is None:
        raise BadInput(op.name, ["the operator has no reference to compare with"])
    given = {name: _wide(array) for name, array in conformed(call, inputs).items()}
    numbers = dict(call.env)
    for phase in plan.phases:
        numbers |= phase.sizes
    expected = op.reference(given, numbers)
    sizes: Arrays = op.magnitude(given, numbers) if op.magnitude else {}
    return [
        difference(
            name, array, expected[name], plan.kernel[name].dtype, op.tolerance(name, plan.kernel), sizes.get(name)
        )
        for name, array in run.outputs.items()
    ]


def _wide(array: Any) -> Any:
    """The array in float64; booleans stay."""
    return array if array.dtype == np.bool_ else array.astype(np.float64)
