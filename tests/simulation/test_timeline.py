"""Timelines: sums, bounds, and windows of events that are exactly those of the whole run."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import CASES, RandomProgram, kernel, planned, price, tensor
from tilesim.chip.loading import load_chip
from tilesim.planning.phase_plan import PhasePlan
from tilesim.planning.plan import plan
from tilesim.simulation.events import event_count, phase_events, widest
from tilesim.simulation.timeline import simulate, waves
from tilesim.timing.bandwidth import Rates
from tilesim.timing.schedule import Scheduler

CHIP = load_chip("ascend950pr").override(
    {"launch.base_us": 2, "launch.block_us": 0.5, "launch.sync_us": 3, "clock.vector_hz": 1_000_000_000},
)
every_case = pytest.mark.parametrize(("op", "dims", "dtype"), CASES, ids=[op for op, *_ in CASES])
BACKWARD, ELEMENTWISE = CASES[0], CASES[2]
COSTS = {"xIn": 10, "adds": 4, "out": 6}


def streamed(n=100, *, slots=2, phases=1, split=False, launches=False):
    """A kernel of `phases` like phases: n tiles of load, add one, store."""
    x, out = tensor("x", n, 8), tensor("out", n, 8, role="output")
    made = kernel(x, out)
    made.launches = launches
    for number in range(phases):
        with made.vector(f"phase {number}") as p:
            for i in p.loop("i", n, split=split):
                p.store(p.adds(p.load(x[i.start], name="xIn", slots=slots), 1.0, slots=slots), out[i.start])
    return made


def phase_plan(made: RandomProgram) -> PhasePlan:
    """The plan of a random program."""
    one = PhasePlan(made.phase, CHIP, made.sizes, {}, {}, 1)
    one.__dict__["rates"] = Rates()
    one.__dict__["scheduler"] = Scheduler(made.phase, made.cycles)
    return one


def test_times_add_up():
    timeline = simulate(planned(streamed(phases=3), CHIP, price(COSTS)))
    assert [p.cycles for p in timeline.phases] == [100 * 10 + 4 + 6] * 3
    assert timeline.cycles == 3 * 1010
    assert timeline.time_us == pytest.approx(2 + 3 * 1.010 + 2 * 3)
    assert [p.start_us for p in timeline.phases] == pytest.approx([2, 2 + 1.010 + 3, 2 + 2 * (1.010 + 3)])
    assert timeline.busy_cycles == {"mte2": 3000, "v": 1200, "mte3": 1800}


def test_more_blocks_take_longer_to_launch():
    timeline = simulate(planned(streamed(split=True), CHIP, price(COSTS), cores=10))
    assert timeline.launch_us == pytest.approx(2 + 9 * 0.5)
    assert timeline.cycles == 10 * 10 + 4 + 6
    assert timeline.phases[0].waves == 10
    assert timeline.phases[0].idle_share == pytest.approx(1 - 10 / CHIP.cores.vector)


@pytest.mark.parametrize(("size", "lines"), [(0, 0), (1, 1), (64, 1), (65, 2), (200, 4)])
def test_tiling_data_are_read_line_by_line_before_anything_starts(size, lines):
    made = streamed()
    made.tiling_bytes = size
    timeline = simulate(planned(made, CHIP, price(COSTS)))
    line_us = CHIP.copies.gm_ub.latency_cycles / 1000  # at 1 GHz
    assert timeline.launch_us == pytest.approx(2 + lines * line_us)
    assert timeline.phases[0].start_us == pytest.approx(timeline.launch_us)


@pytest.mark.parametrize(
    ("op", "given", "fields"),
    [
        ("masked_causal_conv1d_backward", {"S": 64, "B": 2, "H": 384, "W": 3}, 23),
        ("glu_backward", {"self": (64, 512), "dim": -1}, 10),
        ("softmax", {"x": (64, 512)}, 0),
    ],
)
def test_tiling_data_are_the_fields_that_the_vendor_hands_over(op, given, fields):
    assert plan(op, given, chip=CHIP).tiling_bytes == 8 * fields


def test_a_composite_launches_every_phase():
    timeline = simulate(planned(streamed(phases=3, launches=True), CHIP, price(COSTS)))
    assert timeline.launch_us == pytest.approx(3 * 2)
    assert timeline.sync_us == 0


def test_shares_tell_main_cores_from_the_others():
    """11 tiles on 4 cores: three cores have 3, one has 2."""
    spent = simulate(planned(streamed(11, split=True), CHIP, price(COSTS), cores=4)).phases[0]
    assert spent.shares == ((3 * 10 + 10, 3), (2 * 10 + 10, 1))
    assert spent.idle_share == pytest.approx(1 - (3 * 40 + 30) / (40 * CHIP.cores.vector))
    assert spent.waves == 3


@pytest.mark.parametrize(
    ("slots", "costs", "bound"),
    [
        (2, {"xIn": 10, "adds": 4, "out": 6}, "mte2"),
        (2, {"xIn": 3, "adds": 9, "out": 6}, "v"),
        (2, {"xIn": 3, "adds": 4, "out": 6}, "mte3"),
        (1, {"xIn": 10, "adds": 8, "out": 6}, "latency: slots/dependencies"),
    ],
)
def test_bound(slots, costs, bound):
    assert simulate(planned(streamed(slots=slots), CHIP, price(costs))).phases[0].bound == bound


def test_bound_by_what_reads_and_writes_share():
    made = planned(streamed(), CHIP, price(COSTS))
    made.phases[0].__dict__["shares"] = [(2000, 0, 1)]
    timeline = simulate(made)
    assert timeline.phases[0].bound == "global memory"
    assert "global memory, shared by reads and writes (mte2 busy 50%)" in timeline.bottleneck


def test_waiting_is_named():
    """With one slot a load waits for the compute that reads it, 4 of 14 cycles."""
    timeline = simulate(planned(streamed(slots=1), CHIP, price({"xIn": 10, "adds": 4, "out": 6})))
    waits = timeline.waits("phase 0")
    assert list(waits) == ["slot of xIn", "mte3 at the end"]
    assert sum(waits.values()) == pytest.approx(1)
    assert waits["slot of xIn"] == pytest.approx(99 * 4 / (99 * 4 + 4 + 6))
    assert timeline.phases[0].waiting


def test_the_bottleneck_names_what_is_waited_for():
    timeline = simulate(planned(streamed(10_000, slots=1), CHIP, price(COSTS)))
    assert timeline.bottleneck == "phase 0: latency (mte2 busy 71%, waits mostly for slot of xIn), 99% of the time"


def test_waits_of_a_long_phase_are_a_sample_that_adds_up():
    timeline = simulate(planned(streamed(100_000, slots=1), CHIP, price(COSTS)))
    assert sum(timeline.waits("phase 0").values()) == pytest.approx(1)


def test_a_small_launch_is_bound_by_the_launch():
    assert simulate(planned(streamed(1), CHIP, price(COSTS))).bottleneck.startswith("launch and sync: 99%")


def test_events_of_a_phase_that_is_not_there():
    timeline = simulate(planned(streamed(), CHIP, price(COSTS)))
    with pytest.raises(KeyError, match="there are: phase 0"):
        list(timeline.events("phase 1"))
    assert list(timeline.events("phase 0", core=1)) == []


def test_dependencies_are_those_of_other_pipes():
    events = list(simulate(planned(streamed(3, slots=1), CHIP, price(COSTS))).events())
    load, add, store, second, *_ = events
    assert (load.start_cycles, load.end_cycles, load.depends, load.waits_for) == (0, 10, (), "")
    assert (add.start_cycles, add.depends, add.waits_for) == (10, (load.number,), "xIn")
    assert (store.start_cycles, store.depends) == (14, (add.number,))
    assert (second.start_cycles, second.depends, second.waits_for) == (14, (add.number,), "slot of xIn")
    assert second.tile == (("i", 1),)
    assert second.waited_cycles == 4
    assert (load.bytes, load.buffers, load.fresh) == (32, ("xIn",), True)
    assert load.where.startswith("test_timeline.py:")


def key(event):
    return event.tile, event.text, event.where


@settings(max_examples=80)
@given(st.integers(0, 2**48), st.integers(1, 3))
def test_windows_are_exactly_the_whole_run(seed, tiles):
    """Every event of a window has the times of the same instruction of the same tile in the plain schedule."""
    one = phase_plan(RandomProgram(seed))
    plain: dict[object, list[tuple[int, int]]] = {}
    for event in phase_events(one):
        plain.setdefault(key(event), []).append((event.start_cycles, event.end_cycles))
    ends = [end for _, _, end in one.scheduler.events(one.nests[0][0])]
    assert max(ends, default=0) == one.cycles
    assert [e.end_cycles for e in phase_events(one)] == ends
    shown = list(phase_events(one, tiles=tiles))
    assert event_count(one, 0, tiles) == len(shown)
    assert event_count(one) == len(ends)
    for event in shown:
        assert (event.start_cycles, event.end_cycles) in plain[key(event)]
    places = [key(event) for event in shown]
    if all(len(times) == 1 for times in plain.values()):
        assert len(set(places)) == len(places)


@settings(max_examples=60)
@given(st.integers(0, 2**48))
def test_pipes_run_one_thing_at_a_time_and_nothing_before_what_it_depends_on(seed):
    events = list(phase_events(phase_plan(RandomProgram(seed)), tiles=2))
    ends: dict[str, int] = {}
    for i, event in enumerate(events):
        assert event.number == i
        assert event.start_cycles >= ends.get(event.pipe, 0)
        ends[event.pipe] = event.end_cycles
        assert all(events[d].end_cycles <= event.start_cycles and events[d].pipe != event.pipe for d in event.depends)


def test_a_window_far_into_a_long_run_costs_nothing():
    n = 2**24
    timeline = simulate(planned(streamed(n), CHIP, price(COSTS)))
    events = list(timeline.events(tiles=2))
    assert len(events) == 3 * 2 * 3
    assert events[-1].end_cycles == timeline.cycles == n * 10 + 10
    middle = [e for e in events if e.tile == (("i", n // 2 - 1),)]
    assert [e.start_cycles for e in middle] == [10 * (n // 2 - 1), 10 * (n // 2), 10 * (n // 2) + 4]


def test_the_widest_window_for_so_many_events():
    one = planned(streamed(100), CHIP, price(COSTS)).phases[0]
    assert widest([(one, 0)], 300) is None
    assert widest([(one, 0)], 299) == 32
    assert widest([(one, 0)], 1) == 1
    assert event_count(one, 0, 32) == 3 * 32 * 3


# -------------------------------------------------------------------- real operators
@every_case
def test_of_an_operator(op, dims, dtype):
    made = plan(op, dims, chip="ascend950pr", dtype=dtype)
    timeline = simulate(made)
    assert timeline.cycles == sum(p.cycles for p in timeline.phases)
    assert timeline.time_us == pytest.approx(
        timeline.launch_us + timeline.sync_us + sum(p.time_us for p in timeline.phases),
    )
    for spent in timeline.phases:
        assert (
            max(spent.busy_cycles.values()) <= spent.makespan_cycles <= spent.cycles <= sum(spent.busy_cycles.values())
        )
        assert sum(cores for _, cores in spent.shares) == spent.cores
        assert 0 <= spent.idle_share < 1
        assert sum(timeline.waits(spent.name).values()) == pytest.approx(1, abs=1e-9) or not timeline.waits(spent.name)
        events = list(timeline.events(spent.name, tiles=1))
        assert max(e.end_cycles for e in events) <= spent.cycles
    assert json.loads(json.dumps(timeline.to_json()))["cycles"] == timeline.cycles


@every_case
def test_the_last_event_ends_the_schedule(op, dims, dtype):
    for one in plan(op, dims, chip="ascend950pr", dtype=dtype).phases:
        for nest, core, _ in one.nests:
            ends = [e.end_cycles for e in phase_events(one, core, 1)]
            assert max(ends) == one.scheduler.makespan(nest)


def test_an_estimate_names_what_it_rests_on():
    op, dims, dtype = BACKWARD
    timeline = simulate(plan(op, dims, chip="ascend950pr", dtype=dtype))
    assert "copy.gm_ub" in timeline.estimate
    known = {f.key: f.status for f in timeline.plan.chip.figures()}
    assert all(known[key] == status for status, keys in timeline.rests_on.items() for key in keys)
    assert "copy.gm_l1.latency_cycles" in {key for keys in timeline.rests_on.values() for key in keys}
    assert "memory.gm.size_bytes" not in timeline.rests_on.get("guess", ())


def test_an_estimate_says_what_was_set_by_hand():
    op, dims, dtype = ELEMENTWISE
    chip = load_chip("ascend950pr").override({"memory.gm.read_bytes_per_s": 2e12})
    timeline = simulate(plan(op, dims, chip=chip, dtype=dtype))
    assert timeline.rests_on["override"] == ("memory.gm.read_bytes_per_s",)
    assert "parameters set by hand in memory.gm" in timeline.estimate


def test_faster_memory_is_faster():
    op, dims, dtype = ELEMENTWISE
    chip = load_chip("ascend950pr")
    rate = {"memory.gm.read_bytes_per_s": chip.memory.gm.read_bytes_per_s / 100}
    slow = simulate(plan(op, dims, chip=chip.override(rate), dtype=dtype))
    assert slow.time_us > simulate(plan(op, dims, chip=chip, dtype=dtype)).time_us


def test_waves_count_tiles_one_after_another():
    made = planned(streamed(10, split=True), CHIP, price(COSTS), cores=3)
    assert [waves(nest) for nest, *_ in made.phases[0].nests] == [4, 3]
