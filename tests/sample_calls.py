"""Small calls of every operator, inputs for them, and what they must result in by the independent references."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from tests.reference import reference_of, tolerance
from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_shipped, load_chip
from tilesim.execution.inputs import random_inputs
from tilesim.execution.run import run
from tilesim.operators.operator import Operator
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import Plan, plan

OPERATORS = operators_shipped()
MAIN = (
    "text_gated_residual_grad",
    "text_gated_residual",
    "masked_causal_conv1d_backward",
    "masked_causal_conv1d",
    "glu_backward",
    "glu",
)
"""The operators of documents, and their forwards."""
WANTED = {"B": 2, "S": 5, "C": 3, "H": 48, "R": 16, "X": 6, "N": 32, "Y": 3, "D": 24, "M": 20, "K": 70}
LARGE = {"B": 3, "S": 700, "C": 4, "H": 1024, "R": 64, "X": 3000, "N": 896, "Y": 2, "D": 5000, "M": 600, "K": 500}


FREE = {("mhc_post", "h_res"): ("950",), ("mhc_post_backward", "h_res"): ("950",)}
"""The chip families where an option may be off."""
TAKEN = {
    "mhc_post": {"N": 4, "D": 256},
    "mhc_post_backward": {"T": 3, "N": 4, "D": 256},
    "mhc_sinkhorn": {"T": 19, "N": 4},
    "mhc_sinkhorn_backward": {"T": 19, "N": 6},
}
"""Sizes of operators that take few others on every chip."""


BROADCAST = [
    {"x1": (5, 300), "x2": (300,)},
    {"x1": (300, 1), "x2": (300, 40)},
    {"x1": (2, 9, 1), "x2": (2, 9, 9000)},
    {"x1": (70, 90), "x2": (1,)},
    {"x1": (3, 1, 7, 33), "x2": (20, 1, 33)},
    {"x1": (90, 1), "x2": (3, 1, 5)},
]
OTHER_KERNELS: dict[str, list[dict[str, Any]]] = {
    "text_gated_residual_grad": [{"B": 2, "S": 20, "C": 3, "H": 48, "R": 16}],
    "glu_backward": [{"self": (2, 60000), "dim": 1}],
    "glu": [{"self": (2, 36000), "dim": 1}],
    "mhc_post": [{"T": 40, "N": 4, "D": 384}, {"T": 2, "N": 4, "D": 24320}],
    "mhc_post_backward": [{"T": 2, "N": 4, "D": 6400}],
    "mhc_sinkhorn": [{"T": 2000, "N": 8, "num_iters": 2}],
    "mhc_sinkhorn_backward": [{"T": 2000, "N": 8, "num_iters": 2}],
    "swi_glu": [{"x": (100, 2048), "dim": 1}],
    "swi_glu_grad": [{"x": (100, 2048), "dim": 1}],
    "rms_norm": [{"x": (5, 3000)}, {"x": (3, 20000)}],
    "ge_glu_grad_v2": [
        {"dy": (7, 20), "dim": 1, "approximate": 1},
        {"dy": (6, 700), "dim": 1, "activate_left": True},
        {"dy": (2, 8200), "dim": 1},
    ],
    "add": BROADCAST,
    "mul": BROADCAST[1:3],
    "maximum": BROADCAST[3:5],
}
"""Sizes for which another kernel runs than for the small ones: many tokens, large rows, operands that broadcast.

Kernels of two operands are the same but for the instruction: all patterns of axes run for one of them.
"""


def chips_of(op: Operator) -> list[Chip]:
    """The chips that have the operator."""
    return [chip for chip in map(load_chip, chips_shipped()) if chip.family in op.products]


def one_chip_each(op: Operator) -> list[Chip]:
    """One chip of every family that has the operator."""
    return list({chip.family: chip for chip in reversed(chips_of(op))}.values())[::-1]


def small(op: Operator, wanted: Mapping[str, int] = WANTED) -> dict[str, int]:
    """Sizes that the operator takes, next to those wanted."""
    named = [d for d in op.dims if d.default is None]
    wanted = {**wanted, **TAKEN.get(op.name, {})}
    sizes = {d.name: max(d.least, wanted.get(d.name, 6)) for d in named}
    return {d.name: -(-sizes[d.name] // d.multiple_of) * d.multiple_of for d in named}


def kinds(op: Operator) -> list[dict[str, Any]]:
    """Sizes of every kernel that the operator has."""
    return [small(op), *OTHER_KERNELS.get(op.name, [])]


def choices(op: Operator, family: str = "950") -> Iterator[dict[str, bool]]:
    """The options as they are by default, each turned alone, and all of them: every combination of two.

    Those that a chip family must have on stay so.
    """
    names = [o.name for o in op.options if family in FREE.get((op.name, o.name), (family,))]
    default = {o.name: o.default for o in op.options}
    turned = [(), *((name,) for name in names), tuple(names)]
    for some in dict.fromkeys(turned):
        yield {name: on != (name in some) for name, on in default.items()}


def cases(*, every_chip: bool) -> list[tuple[str, str, str]]:
    """(operator, chip, dtype) of everything that exists, or of one chip of a family."""
    out = []
    for name in OPERATORS:
        op = load_operator(name)
        for chip in chips_of(op) if every_chip else one_chip_each(op):
            out += [(name, chip.name, dtype) for dtype in op.dtypes[chip.family]]
    return out


def cases_of_kernels() -> list[tuple[str, str, str, dict[str, Any]]]:
    """(operator, chip, dtype, sizes) of every kernel on one chip of a family."""
    return [(*case, sizes) for case in cases(every_chip=False) for sizes in kinds(load_operator(case[0]))]


def made_up(planned: Plan, seed: int = 0) -> dict[str, Any]:
    """Inputs for a plan."""
    return random_inputs(planned.operator, planned.call, seed, chip=planned.chip)


def executed(planned: Plan, inputs: Mapping[str, Any], **how: Any) -> dict[str, Any]:
    """The outputs of a plan."""
    return dict(run(planned, inputs, **how).outputs)


chip_named = functools.cache(load_chip)


def planned(name: str, chip: Chip | str, dtype: str, sizes: Mapping[str, Any] | None = None, **more: Any) -> Plan:
    """The plan of a small call, or of one with these sizes."""
    chip = chip_named(chip) if isinstance(chip, str) else chip
    return plan(name, small(load_operator(name)) if sizes is None else sizes, chip=chip, dtype=dtype, **more)


def bits(outputs: Mapping[str, Any]) -> dict[str, bytes]:
    """The bytes of every output."""
    return {name: array.tobytes() for name, array in outputs.items()}


def judge(
    planned: Plan, inputs: Mapping[str, Any], outputs: Mapping[str, Any], expected: Mapping[str, Any] | None = None
) -> list[tolerance.Measurement]:
    """Return how far outputs are from what is expected, by the reference unless told, all of it within tolerance.

    Raises AssertionError otherwise.
    """
    call, reference = planned.call, reference_of(planned.operator.name)
    kinds = {name: array.dtype.name for name, array in outputs.items()}
    assert {n: (x.shape, kinds[n]) for n, x in outputs.items()} == {
        n: (call.spec(n).shape, call.spec(n).dtype) for n in outputs
    }
    values = reference.expected(call, inputs) if expected is None else expected
    if hasattr(reference, "compare"):
        return list(reference.compare(planned, inputs, outputs, values))
    return tolerance.assert_library(outputs, values, kinds, planned.operator.name)
