import time

import pytest

from tilesim.analysis.search import search, search_of, search_table
from tilesim.errors import BadInput, DoesNotFit
from tilesim.feasibility.inequalities import inequalities
from tilesim.planning.plan import plan, plan_of

GRAD = "text_gated_residual_grad"
LARGE = {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320}
CALLS = {
    "grad": (GRAD, {"B": 1, "S": 256, "C": 4, "H": 512, "R": 64}, "ascend910b3"),
    "conv": ("masked_causal_conv1d_backward", {"S": 512, "B": 4, "H": 1024, "W": 3}, "ascend950pr"),
    "glu": ("glu_backward", {"self": (512, 2048)}, "ascend950pr"),
    "composite": ("glu_backward", {"self": (64, 1024)}, "ascend910b3"),
}


@pytest.fixture(scope="module", params=CALLS, ids=list(CALLS))
def found(request):
    op, given, chip = CALLS[request.param]
    made = plan(op, given, chip=chip)
    return made, search_of(made)


def test_the_plan_is_among_them_with_its_cycles(found):
    made, candidates = found
    for phase in made.phases:
        (chosen,) = (c for c in candidates if c.chosen and c.phase == phase.phase.name)
        assert chosen.cycles == phase.cycles
        assert chosen.tiles == phase.tiles
        assert chosen.reason.startswith("chosen by ")


def test_ranks_go_by_cycles_and_nothing_beats_its_longest_pipe(found):
    made, candidates = found
    for phase in made.phases:
        mine = [c for c in candidates if c.phase == phase.phase.name]
        timed = [c for c in mine if c.rank]
        assert [c.rank for c in timed] == list(range(1, len(timed) + 1))
        assert [c.cycles for c in timed] == sorted(c.cycles for c in timed)
        assert all(c.bound_cycles <= c.cycles for c in timed)
        assert len({(tuple(c.tiles.items()), c.slots, c.cores, c.cycles) for c in timed}) >= len(timed) - 1
        best = timed[0].cycles
        for c in mine:
            if c.rank is None and c.bound_cycles is not None:
                assert c.bound_cycles >= best


def test_every_one_that_lost_says_why(found):
    _, candidates = found
    kinds = ("chosen by", "best", "as fast as the best", "lost: ", "longest pipe alone ", "does not fit: ")
    for c in candidates:
        assert c.reason.startswith(kinds) or " is " in c.reason, c.reason


def test_tiles_that_do_not_fit_are_shown():
    assert any(c.reason.startswith("does not fit: ") for c in search(*CALLS["conv"]))


def test_what_fits_fits_and_what_does_not_lacks_as_many_bytes(found):
    made, candidates = found
    limits = {}
    for limit in inequalities(made.kernel, made.chip):
        limits.setdefault(limit.phase, []).append(limit)
    for c in candidates:
        if c.slots != "as recorded":
            continue
        slack = min((limit.slack_bytes({**made.sizes, **c.tiles}) for limit in limits[c.phase]), default=0)
        if c.reason.startswith("does not fit"):
            assert slack < 0
            assert f"{-slack:,} B too many" in c.reason
        elif not c.chosen:
            assert slack >= 0


def test_tiles_of_a_candidate_can_be_planned(found):
    made, candidates = found
    for phase in made.phases:
        rivals = [
            c for c in candidates if c.phase == phase.phase.name and c.rank and c.slots == "as recorded" and c.tiles
        ]
        for c in rivals[:3]:
            tiles = {f"{c.phase}.{name}": size for name, size in c.tiles.items()} | {f"{c.phase}.cores": c.cores}
            again = plan_of(made.verdict, tiles)
            cycles = next(p.cycles for p in again.phases if p.phase.name == c.phase)
            assert cycles <= c.cycles


def test_the_recorded_kernel_stays_as_it_is(found):
    made, _ = found
    before = [[b.slots for b in phase.buffers] for phase in made.kernel.phases]
    search_of(made)
    assert [[b.slots for b in phase.buffers] for phase in made.kernel.phases] == before


def test_other_slots_change_bytes_and_cycles():
    candidates = search(GRAD, LARGE, "ascend950pr", phase="fixed-order reduction")
    by_slots = {c.slots: c for c in candidates if c.cores == 64}
    assert by_slots["1 for all"].cycles > by_slots["as recorded"].cycles >= by_slots["3 for all of several"].cycles


def test_a_large_call_takes_a_second():
    search(GRAD, LARGE, "ascend950pr")
    start = time.process_time()
    candidates = search(GRAD, LARGE, "ascend950pr")
    assert time.process_time() - start < 3  # one second, of which a busy machine makes more
    assert len({c.phase for c in candidates}) == 9


def test_the_table_sums_up():
    candidates = search(*CALLS["conv"])
    table = search_table(candidates)
    assert len(table) == len(candidates)
    assert table.notes[0].startswith("the plan takes ")


def test_what_cannot_be_searched():
    with pytest.raises(DoesNotFit):
        search(GRAD, {**LARGE, "H": 8192}, "ascend950pr")
    with pytest.raises(BadInput, match="did you mean 'norm backward'"):
        search(GRAD, LARGE, "ascend950pr", phase="norm backwards")
