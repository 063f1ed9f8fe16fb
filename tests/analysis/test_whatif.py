import pytest

from tilesim.analysis.search import search
from tilesim.analysis.sensitivity import sensitivity
from tilesim.analysis.solve import solve
from tilesim.analysis.whatif import whatif
from tilesim.chip.loading import load_chip
from tilesim.errors import BadChip, BadInput, DoesNotFit
from tilesim.feasibility.verdict import check, verdict_of
from tilesim.operators.binding import bind
from tilesim.ops import load_operator
from tilesim.planning.plan import plan, plan_of
from tilesim.planning.replan import replan_of
from tilesim.simulation.timeline import simulate

GRAD = "text_gated_residual_grad"
SHAPE = {"B": 1, "S": 256, "C": 4, "H": 512, "R": 64}
TINY = {"B": 1, "S": 16, "C": 2, "H": 64, "R": 16}
CONV = "masked_causal_conv1d_backward"
SMALL = {"S": 512, "B": 4, "H": 1024, "W": 3}
UB = "memory.ub.size_bytes"


def test_every_combination_is_what_a_plan_on_such_a_chip_takes():
    chip = load_chip("ascend950pr")
    table = whatif(GRAD, SHAPE, chip=chip, set={UB: "8192:65536:28672", "cores.vector": [24, 64]})
    assert len(table) == 6
    for row in table:
        changed = chip.override({UB: row[UB], "cores.vector": row["cores.vector"]})
        verdict = check(GRAD, SHAPE, chip=changed)
        assert row["verdict"] == verdict.verdict
        if verdict.ok:
            timeline = simulate(plan(GRAD, SHAPE, chip=changed))
            base = simulate(plan(GRAD, SHAPE, chip=chip))
            assert (row["cycles"], row["time_us"]) == (timeline.cycles, timeline.time_us)
            assert row["change"] == pytest.approx(100 * (timeline.time_us / base.time_us - 1))
        else:
            assert row["time_us"] is row["change"] is None
            assert row["reason"]
    assert {"overflow", "fits"} <= set(table["verdict"])


def test_what_does_not_fit_can_be_asked_about():
    wide = {**SHAPE, "H": 8192}
    table = whatif(GRAD, wide, chip="ascend950pr", set={UB: [253952, 524288]})
    assert table["verdict"] == ("overflow", "fits")
    assert table["change"] == (None, None)
    assert "needs" in table.notes[1]


def test_a_plan_on_a_chip_with_one_other_figure_is_the_same_either_way():
    call, chip = bind(load_operator(GRAD), TINY), load_chip("ascend950pr")
    base = plan_of(verdict_of(call, chip))
    before = simulate(base).time_us
    seen = 0
    for name, table in chip.tables().items():
        for word, value in table.figures().items():
            if not value or name.startswith("kernels.") or word.endswith(("_16bit", "_8bit")):
                continue
            changed = chip.override({f"{name}.{word}": value * 2})
            verdict = verdict_of(call, changed)
            taken = simulate(replan_of(verdict, base)).time_us
            assert taken == simulate(plan_of(verdict)).time_us, f"{name}.{word}"
            seen += taken != before
    assert seen > 15


@pytest.mark.parametrize("tiles", [{"gate backward.rows": 1}, {"norm backward.cores": 3, "m": 16}])
def test_tiles_by_hand_stay_as_they_are_whatever_changes(tiles):
    call, chip = bind(load_operator(GRAD), TINY), load_chip("ascend950pr")
    base = plan_of(verdict_of(call, chip), tiles)
    for key in ("memory.gm.read_bytes_per_s", "cost.binary.cycles_per_vector", "cube.head_cycles", "cores.vector"):
        changed = chip.override({key: chip.get(key) * 2 or 1})
        verdict = verdict_of(call, changed)
        taken, wanted = replan_of(verdict, base), plan_of(verdict, tiles)
        assert simulate(taken).cycles == simulate(wanted).cycles
        assert [p.tiles for p in taken.phases] == [p.tiles for p in wanted.phases]
        assert taken.by_hand == tiles


def test_tables_answers_and_searches_with_tiles_by_hand():
    chip, glu = load_chip("ascend950pr"), ("glu_backward", {"self": (4096, 8192)})
    rows = whatif(*glu, chip=chip, set={UB: [131072, 253952]}, dtype="bfloat16", tiles={"rows": 2})
    assert rows.notes[0].endswith(", rows=2 by hand")
    assert rows["verdict"] == ("overflow", "fits")
    assert rows["tiles"] == (None, "rows=2")
    assert "needs" in rows["reason"][0]
    cores = whatif(*glu, chip=chip, set={"cores.vector": [8, 64]}, tiles={"cores": 32})
    assert cores["verdict"] == ("refused", "fits")
    assert "cores=32 must be at most 8" in cores["reason"][0]
    least = solve(*glu, chip, UB, dtype="bfloat16", tiles={"rows": 2}).value
    assert least > solve(*glu, chip, UB, dtype="bfloat16").value
    assert plan(*glu, chip=chip.override({UB: least}), dtype="bfloat16", tiles={"rows": 2}).ok
    with pytest.raises(DoesNotFit):
        plan(*glu, chip=chip.override({UB: least - 32}), dtype="bfloat16", tiles={"rows": 2})


def test_what_the_time_of_tiles_by_hand_depends_on():
    eight = {"cores": 8}
    depends = sensitivity(CONV, SMALL, "ascend950pr", tiles=eight)
    base = simulate(plan(CONV, SMALL, chip="ascend950pr", tiles=eight))
    assert depends.notes[0] == f"{base.time_us:,.1f} us with the chip as it is, cores=8 by hand"
    assert {c.cores for c in search(CONV, SMALL, "ascend950pr", tiles=eight) if c.chosen} == {8}


def test_tiles_that_there_are_not():
    for ask in (
        lambda: whatif(CONV, SMALL, chip="ascend950pr", set={UB: 1}, tiles={"rws": 2}),
        lambda: solve(CONV, SMALL, "ascend950pr", UB, tiles={"rws": 2}),
        lambda: sensitivity(CONV, SMALL, "ascend950pr", tiles={"rws": 2}),
    ):
        with pytest.raises(BadInput, match="'rws' is not a tile"):
            ask()


def test_what_the_time_depends_on():
    table = sensitivity(CONV, SMALL, "ascend950pr")
    weights = [max(abs(less), abs(more)) for less, more in zip(table["change_less"], table["change_more"], strict=True)]
    assert weights == sorted(weights, reverse=True)
    assert min(weights) > 0
    base = simulate(plan(CONV, SMALL, chip="ascend950pr")).time_us
    for row in list(table)[:4]:
        for which in ("less", "more"):
            changed = load_chip("ascend950pr").override({row["figure"]: row[which]})
            time_us = simulate(plan(CONV, SMALL, chip=changed)).time_us
            assert row[f"time_{which}_us"] == time_us
            assert row[f"change_{which}"] == pytest.approx(100 * (time_us / base - 1))
    told = " ".join(table.notes)
    assert "without effect here: " in told
    assert "not changed, since an alignment is a rule, not an amount: " in told
    named = set(table["figure"])
    assert not any(figure.startswith(("cube.", "kernels.")) or figure.endswith("align_bytes") for figure in named)


def test_a_figure_that_cannot_be_less_says_why():
    chip = load_chip("ascend950pr").override({UB: 13 * 64 * 4 + 64 + 4160})
    table = sensitivity(GRAD, TINY, chip)
    row = next(row for row in table if row["figure"] == UB)
    assert row["time_less_us"] is None
    assert "B of ub" in row["reason"]
    assert row["less"] == 6784  # nine tenths of 7552, in whole blocks


def test_sensitivity_needs_a_plan():
    with pytest.raises(DoesNotFit):
        sensitivity(GRAD, {**SHAPE, "H": 8192}, "ascend950pr")


def test_the_least_memory_to_fit_is_the_exact_one():
    answer = solve(GRAD, {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320}, "ascend950pr", UB)
    assert answer.ok
    assert answer.value == 13 * 2560 * 4 + 2 * 8 * 4 + 4160
    assert answer.kind == "least"
    assert answer.beyond.value == answer.value - 32
    assert "(32 B too many)" in answer.beyond.reason
    assert str(answer) == (
        "memory.ub.size_bytes to fit: the least value is 137,344 bytes; 137,312 is not enough; the chip has 253,952"
    )


def test_the_least_value_for_a_time_reaches_it_and_the_next_does_not():
    chip = load_chip("ascend950pr")
    wanted = 1.5 * simulate(plan(CONV, SMALL, chip=chip)).time_us
    answer = solve(CONV, SMALL, chip, "cores.vector", time_us=wanted)

    def time_with(cores):
        return simulate(plan(CONV, SMALL, chip=chip.override({"cores.vector": cores}))).time_us

    assert answer.kind == "least"
    assert answer.time_us == time_with(answer.value) <= wanted < time_with(answer.value - 1)
    assert answer.beyond.value == answer.value - 1
    assert answer.to_json()["value"] == answer.value


def test_of_a_cost_the_greatest_value_is_asked_for():
    chip = load_chip("ascend950pr")
    wanted = simulate(plan(CONV, SMALL, chip=chip)).time_us + 1
    answer = solve(CONV, SMALL, chip, "launch.base_us", time_us=wanted)
    assert answer.kind == "greatest"
    assert answer.value == pytest.approx(chip.launch.base_us + 1, rel=1e-3)
    assert answer.time_us <= wanted < answer.beyond.time_us


def test_no_value_is_an_answer_with_its_reason():
    answer = solve(CONV, SMALL, "ascend950pr", UB, time_us=1.0)
    assert not answer.ok
    assert answer.value is None
    assert answer.best.time_us > 1
    assert answer.reason.startswith("the best seen is ")
    assert answer.best.bound in str(answer)
    refused = solve(CONV, {**SMALL, "W": 9}, "ascend950pr", UB)
    assert not refused.ok
    assert "W" in refused.reason


def test_a_figure_that_does_not_matter():
    answer = solve(CONV, SMALL, "ascend950pr", "cores.cube")
    assert answer.kind == "any"
    assert answer.value == 32


def test_what_is_no_figure():
    with pytest.raises(BadChip, match="did you mean"):
        solve(CONV, SMALL, "ascend950pr", "memory.ub.size_byte")
    with pytest.raises(BadInput, match="time_us is 0, must be a number above 0"):
        solve(CONV, SMALL, "ascend950pr", UB, time_us=0)
