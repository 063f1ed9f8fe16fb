"""The parameters of a chip that prices declare: all on which cycles rest, and no others."""

from dataclasses import replace

import pytest

from tests.sample_calls import OPERATORS, kinds, one_chip_each, planned
from tilesim.chip.loading import load_chip
from tilesim.ops import load_operator

CALLS = [
    ("add", {"x1": (8192, 8192)}, "float16"),
    ("maximum", {"x1": (4096, 4096)}, "int64"),
    ("maximum", {"x1": (4096, 4096)}, "int8"),
    ("matmul", {"x1": (8192, 8192), "x2": (8192, 8192)}, "float16"),
    ("matmul", {"x1": (64, 33), "x2": (33, 7001)}, "float32"),
    ("softmax", {"x": (8192, 8192), "dim": 0}, "float16"),
    ("swi_glu", {"x": (100_003, 2)}, "bfloat16"),
    ("text_gated_residual_grad", {"B": 1, "S": 64, "C": 2, "H": 64, "R": 16}, "bfloat16"),
    ("glu_backward", {"self": (512, 66), "dim": -1}, "float16"),
    ("copy", {"x": (4096, 4096)}, "float32"),
    ("text_gated_residual_grad", {"B": 1, "S": 4096, "C": 4, "H": 512, "R": 64}, "bfloat16"),
]
"""Large calls, which keep memory and cube busy, and small ones, which wait for latencies."""


def other(value, factor):
    """Another value of a parameter; sizes stay no multiples of banks."""
    return int(value * factor) + 32 if isinstance(value, int) else value * factor or 1e4


def changed(phase, keys, factor=1.37):
    """The phase at the same tiles on a chip with other values of parameters, priced anew."""
    chip = phase.chip.override({key: other(phase.chip.values[key], factor) for key in keys})
    return replace(phase, chip=chip)


def times(phase):
    return phase.shares, phase.makespans, phase.busy_cycles, phase.rates.floor_cycles


@pytest.mark.parametrize("name", OPERATORS)
def test_a_parameter_that_no_price_declares_changes_no_cycles(name):
    op = load_operator(name)
    for chip in one_chip_each(op):
        for dtype in op.dtypes[chip.family]:
            for sizes in kinds(op):
                for phase in planned(name, chip, dtype, sizes).phases:
                    others = chip.values.keys() - phase.parameters
                    assert others
                    assert times(changed(phase, others)) == times(phase), f"{chip.name} {dtype} {phase.phase.name}"


def test_every_parameter_that_a_price_declares_changes_cycles_somewhere():
    chips = [load_chip(name) for name in ("ascend950pr", "ascend910b2")]
    phases = [p for chip in chips for op, sizes, dtype in CALLS for p in planned(op, chip, dtype, sizes).phases]

    def matters(key):
        users = (phase for phase in phases if key in phase.parameters)
        return any(times(changed(phase, [key], factor)) != times(phase) for phase in users for factor in (0.01, 100))

    declared = {key for phase in phases for key in phase.parameters}
    assert len(declared) > 80
    assert not [key for key in declared if not matters(key)]
