"""Limits of dims and tiles, with the bytes that depend on them: the same facts for every operator and for a file."""

import pytest

from tests.sample_calls import cases_of_kernels
from tilesim.feasibility.evaluate import fits, obeys, passes
from tilesim.feasibility.verdict import check, check_buffers
from tilesim.operators.calls import resized
from tilesim.ops import load_operator

EACH = [case for case in cases_of_kernels() if case[2] == load_operator(case[0]).dtype]
FILE = {
    "sizes": {"rows": 4, "N": {"default": 1000, "multiple_of": 8}, "trips": "ceil(N / 64)"},
    "buffers": {
        "x": {"shape": ["rows", "N"], "dtype": "float16", "slots": 2},
        "sums": {"shape": ["trips + 1"], "slots": "rows"},
        "a": {"memory": "l0a", "shape": ["pow2(rows)", "align(N, 16)"], "dtype": "float16", "phase": "product"},
    },
    "fixed": {"ub": 4096},
}


@pytest.mark.parametrize(("name", "chip", "dtype", "sizes"), EACH)
def test_limits_of_every_operator(name, chip, dtype, sizes):
    limits_hold(check(name, sizes, chip=chip, dtype=dtype))


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr"])
@pytest.mark.parametrize("given", [{}, {"rows": 100}, {"rows": 1, "N": 80000}])
def test_limits_of_a_file(chip, given):
    limits_hold(check_buffers(FILE, chip, given))


def limits_hold(verdict):
    """Every largest value is the largest, and fixed and scaling bytes are those of an inequality of the memory."""
    call, chip = verdict.nonempty_call, verdict.on
    data = verdict.to_json()
    assert data["limits"] == {limit["name"]: limit["largest"] for limit in data["sizes"] if limit["limited"]}
    for limit in verdict.size_limits:
        sides = [b for b in verdict.inequalities if b.memory == limit.memory]
        assert limit.fixed_bytes + limit.scaling_bytes in {b.left_bytes for b in sides}
        assert limit.available_bytes in {b.right_bytes for b in sides}
        if limit.name in call.dims:
            dim_holds(call, chip, limit)
        else:
            tile_holds(call, verdict, limit)


def dim_holds(call, chip, limit):
    if limit.largest is not None and passes(call, chip):
        assert passes(resized(call, {limit.name: limit.largest}), chip)
        more = resized(call, {limit.name: limit.largest + limit.multiple_of})
        assert not (obeys(more, chip) and fits(more, chip))
    if limit.power_of_two is not None:
        assert limit.power_of_two <= limit.largest < 2 * limit.power_of_two
        assert fits(resized(call, {limit.name: limit.power_of_two}), chip)


def tile_holds(call, verdict, limit):
    phase, _, tile = limit.name.rpartition(".")
    sides = [b.inequality for b in verdict.inequalities if b.phase == phase]
    sides = [i for i in sides if tile in i.left.names()]
    assert limit.largest is not None
    assert all(i.holds({**call.env, tile: limit.largest}) for i in sides)
    assert not all(i.holds({**call.env, tile: limit.largest + limit.multiple_of}) for i in sides)


def test_fixed_bytes_are_of_a_memory_that_depends_on_the_size():
    limits = check_buffers(FILE, "ascend910b3")
    assert limits.limit("rows").memory == "l0a"
    assert (limits.limit("rows").fixed_bytes, limits.limit("rows").scaling_bytes) == (2048, 6144)
    assert (
        check_buffers({**FILE, "buffers": {"x": FILE["buffers"]["x"]}}, "ascend910b3").limit("rows").fixed_bytes == 4096
    )
