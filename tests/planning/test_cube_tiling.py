"""Tiles of matrix products: no other tiles that fit take clearly fewer cycles."""

import pytest

from tilesim.feasibility.inequalities import inequalities
from tilesim.planning.cube_tiling import cube_options
from tilesim.planning.plan import plan

LEFT_OUT = 0.995
"""Candidates that could be larger with all cores at work are not scheduled, although one may be faster by a little."""
TILES = ("m", "n", "k1")


@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950pr"])
@pytest.mark.parametrize("shape", [(50, 70, 90), (512, 512, 512), (1000, 96, 3000), (33, 4096, 260)], ids=str)
def test_no_other_tiles_are_faster(shape, chip):
    m, k, n = shape
    given = {"x1": (m, k), "x2": (k, n)}
    best = plan("matmul", given, chip=chip, dtype="float16")
    (phase,) = best.phases
    options = cube_options(phase.phase, best.sizes, best.chip, inequalities(best.kernel, best.chip), {})
    others = {tuple(option[tile] for tile in TILES) for option in options}
    assert len(others) > 3
    for other in others:
        tiles = dict(zip(TILES, other, strict=True))
        (by_hand,) = plan("matmul", given, chip=chip, dtype="float16", tiles=tiles).phases
        assert by_hand.cycles > LEFT_OUT * phase.cycles
