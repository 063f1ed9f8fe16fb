"""A plan on a changed chip: the one that is made from the start, with the work that the change does not touch kept."""

import random

import pytest

from tests.sample_calls import OPERATORS, kinds, one_chip_each
from tilesim.errors import TilesimError
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.binding import bind
from tilesim.ops import load_operator
from tilesim.planning.plan import plan_of
from tilesim.planning.replan import replan_of, reprice_of
from tilesim.simulation.timeline import timeline_of


def changed(chip, keys):
    """The chip with other values of parameters; 0 becomes 1."""
    values = {key: chip.values[key] for key in keys}
    return chip.override({k: int(v * 1.37) + 32 if isinstance(v, int) else v * 1.37 or 1.0 for k, v in values.items()})


def traits(plan):
    return [
        (p.tiles, p.reasons, p.cores, p.sizes, p.shares, p.busy_cycles, p.homes, p.chip.values) for p in plan.phases
    ], timeline_of(plan).time_us


@pytest.mark.parametrize("name", OPERATORS)
def test_it_is_the_plan_that_is_made_from_the_start(name):
    op, chance = load_operator(name), random.Random(name)
    chip = chance.choice(one_chip_each(op))
    base = plan_of(verdict_of(bind(op, chance.choice(kinds(op))), chip))
    timeline_of(base)
    for table in chance.sample(sorted(chip.tables()), 8):
        other = changed(chip, [key for key in chip.values if key.rpartition(".")[0] == table])
        verdict = verdict_of(base.call, other)
        try:
            wanted = plan_of(verdict)
        except TilesimError:
            continue  # a larger reserve can leave no room
        assert traits(replan_of(verdict, base)) == traits(wanted), table
        repriced = reprice_of(base, other)
        assert repriced is None or [p.tiles.keys() for p in repriced.phases] == [p.tiles.keys() for p in wanted.phases]


@pytest.mark.parametrize("name", ["text_gated_residual_grad", "matmul", "rms_norm"])
def test_phases_that_rest_on_no_changed_parameter_are_kept(name):
    op = load_operator(name)
    chip = one_chip_each(op)[0]
    base = plan_of(verdict_of(bind(op, kinds(op)[0]), chip))
    timeline_of(base)
    for key in ("cube.head_cycles", "cost.reduce.head_cycles", "memory.gm.cube_read_bytes_per_s"):
        plan = replan_of(verdict_of(base.call, changed(chip, [key])), base)
        for before, after in zip(base.phases, plan.phases, strict=True):
            assert (after.scheduler is before.scheduler) == (key not in before.parameters)
    rest_on = {key for phase in base.phases for key in phase.parameters | phase.tiling_parameters}
    of_kernels = ("tiling.", "vector.registers")
    others = {key for key in chip.values.keys() - rest_on if not key.startswith(of_kernels)}
    assert timeline_of(reprice_of(base, changed(chip, others))).cycles == timeline_of(base).cycles
