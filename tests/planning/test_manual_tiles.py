"""Tiles by hand in Python: what is refused, and that whatever fits is planned as it was given."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, DoesNotFit
from tilesim.planning.plan import plan
from tilesim.simulation.timeline import simulate

PR = load_chip("ascend950pr")
GATED = ("text_gated_residual_grad", {"B": 1, "S": 64, "C": 4, "H": 48, "R": 32})
SIDES = st.sampled_from([16, 32, 48, 112, 256, 512, 4096, 16 * 10**6])


@pytest.mark.parametrize("size", ["3", 2.5, None, True])
def test_what_is_no_whole_number(size):
    with pytest.raises(BadInput, match=rf"tiles\['rows'\] is {size!r}, must be a whole number"):
        plan("glu", {"self": (8, 64)}, chip=PR, tiles={"rows": size})


def test_all_problems_at_once():
    with pytest.raises(BadInput, match=r"4 problems: m=17 must be a multiple of 16; rows=0 .*; cores=99 .*; 'nn'"):
        plan(*GATED, chip=PR, tiles={"m": 17, "rows": 0, "cores": 99, "nn": 1})


@settings(max_examples=40)
@given(st.fixed_dictionaries({}, optional={
    "m": SIDES, "n": SIDES, "k1": st.sampled_from([64, 128, 1024, 65536]), "cores": st.integers(1, 32),
    "rows": st.integers(1, 500),
}))  # fmt: skip
def test_tiles_are_taken_or_do_not_fit(tiles):
    try:
        made = plan(*GATED, chip=PR, tiles=tiles)
    except DoesNotFit as refusal:
        error = refusal
    else:
        taken(made, tiles)
        return
    verdict = error.verdict
    assert (verdict.ok, verdict.verdict, verdict.tiles) == (False, "overflow", tiles)
    assert verdict.failing[0].left_bytes == error.needed_bytes > error.available_bytes
    for remedy in verdict.remedies:
        assert all(size < tiles[name] for name, size in remedy.given.items())
        taken(plan(*GATED, chip=PR, tiles={**tiles, **remedy.given}), {**tiles, **remedy.given})


def taken(made, tiles):
    """Whether a plan has the tiles that were given."""
    for phase in made.phases:
        assert {name: size for name, size in phase.tiles.items() if name in tiles} == {
            name: size for name, size in tiles.items() if name in phase.tiles
        }
        assert phase.cores <= tiles.get("cores", phase.cores)
        assert all(phase.reasons[name] == "by hand" for name in phase.tiles if name in tiles)
    assert simulate(made).cycles > 0
