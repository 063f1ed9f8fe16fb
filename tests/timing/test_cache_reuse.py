"""What is read again: from the cache where it fits, from global memory where it does not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.simulation.timeline import simulate
from tilesim.timing.cache_reuse import dram_fetches

PR = load_chip("ascend950pr")
TILES = {"m": 256, "n": 256, "k1": 64, "cores": 4}
SIDE = 2048
STRIP = 256 * SIDE * 2
"""Bytes of the rows, or columns, of one tile."""


def cache(size):
    return PR.override({"memory.l2.size_bytes": size, "memory.l2.absorbed_write_bytes": 0})


def product():
    factors = {"x1": (SIDE, SIDE), "x2": (SIDE, SIDE)}
    (only,) = plan("matmul", factors, chip=cache(1 << 40), dtype="float16", tiles=TILES).phases
    return only


def test_a_product_reads_its_second_factor_again_for_every_row_of_tiles():
    """Four cores have 2 x 2 quarters of 4 x 4 tiles: one row of tiles touches two strips of x1, x2 and 2 x 4 of y."""
    one = product()
    assert (one.sizes["mi.parts"], one.sizes["ni.parts"]) == (2, 2)
    assert dram_fetches(one.phase, one.sizes, 1 << 40) == {"x1": 1, "x2": 1}
    touched = 2 * STRIP + SIDE * SIDE * 2 + 2 * 256 * SIDE * 2
    assert dram_fetches(one.phase, one.sizes, touched)["x2"] == 1
    half = dram_fetches(one.phase, one.sizes, touched // 2)
    assert half["x2"] == pytest.approx(1 + 3 / 2)
    assert half["x1"] == 1  # of a tile of n its strips alone lie between one reading and the next
    assert dram_fetches(one.phase, one.sizes, 1)["x2"] == pytest.approx(4, rel=1e-4)
    assert dram_fetches(one.phase, one.sizes, 1)["x1"] == pytest.approx(4, rel=1e-4)


def test_a_smaller_cache_takes_longer():
    """At the same tiles on the same cores."""
    same = [product().on(cache(size)) for size in (1 << 40, 8 << 20, 4 << 20, 1 << 20)]
    cycles, floors = [one.cycles for one in same], [one.rates.floor_cycles for one in same]
    assert cycles == sorted(cycles)
    assert floors == sorted(floors)
    assert floors[0] < floors[-1]


@pytest.mark.parametrize("name", ["text_gated_residual_grad", "glu_backward", "softmax", "rms_norm", "add", "swi_glu"])
@given(size=st.integers(1, 1 << 28))
@settings(max_examples=5, deadline=None)
def test_nothing_is_fetched_less_than_once_or_more_often_from_a_larger_cache(name, size):
    shapes = {
        "text_gated_residual_grad": {"B": 1, "S": 2048, "C": 4, "H": 512, "R": 64},
        "glu_backward": {"self": (700, 600), "dim": -1},
        "softmax": {"x": (300, 65, 100), "dim": 1},
        "rms_norm": {"x": (1000, 500)},
        "add": {"x1": (400, 300), "x2": (300,)},
        "swi_glu": {"x": (512, 4096)},
    }
    dtype = load_operator(name).dtype
    for one in plan(name, shapes[name], chip=PR, dtype=dtype).phases:
        for tensor, times in dram_fetches(one.phase, one.sizes, size).items():
            assert times >= 1
            assert dram_fetches(one.phase, one.sizes, 2 * size)[tensor] <= times
            read = one.rates.read.get(tensor)
            assert read is None or read > 0


def test_the_cache_is_a_figure_that_a_time_rests_on():
    now = simulate(plan("matmul", {"x1": (16384, 16384), "x2": (16384, 16384)}, chip=PR, dtype="float16"))
    small = PR.override({"memory.l2.size_bytes": 1 << 20, "memory.l2.absorbed_write_bytes": 1 << 20})
    then = simulate(plan("matmul", {"x1": (16384, 16384), "x2": (16384, 16384)}, chip=small, dtype="float16"))
    assert then.time_us > now.time_us
    assert "memory.l2.size_bytes" in then.rests_on["override"]
