"""Traces: what viewers require of the format, and that nothing in them differs from the timeline."""

import itertools
import json
from collections import defaultdict

import pytest

from tests.recorded import CASES, kernel, planned, price, tensor
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.planning.plan import plan
from tilesim.render.trace import core_name, occupied, trace, write_trace
from tilesim.simulation.timeline import simulate

CHIP = load_chip("ascend950pr").override({"launch.base_us": 2, "launch.sync_us": 3, "clock.vector_hz": 1_000_000_000})
COSTS = {"xIn": 10, "adds": 4, "out": 6}
every_case = pytest.mark.parametrize(("op", "dims", "dtype"), CASES, ids=[op for op, *_ in CASES])


def streamed(n=4, *, slots=2, phases=1, cores=1):
    x, out = tensor("x", n, 8), tensor("out", n, 8, role="output")
    made = kernel(x, out)
    for number in range(phases):
        with made.vector(f"phase {number}") as p:
            for i in p.loop("i", n, split=cores > 1):
                p.store(p.adds(p.load(x[i.start], name="xIn", slots=slots), 1.0, slots=slots), out[i.start])
    return planned(made, CHIP, price(COSTS), cores=cores)


def of(made, ph):
    return [e for e in made["traceEvents"] if e["ph"] == ph]


def names(made, what):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in of(made, "M") if e["name"] == what}


def check(made):
    """What Perfetto and chrome://tracing need."""
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    known = names(made, "thread_name")
    processes = {pid for pid, _ in names(made, "process_name")}
    assert {e["pid"] for e in of(made, "M") if e["name"] == "process_sort_index"} == processes
    slices = defaultdict(list)
    for event in made["traceEvents"]:
        assert event["pid"] in processes
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], (int, float))
        assert event["ts"] >= 0
        assert event["ts"] * 1000 == pytest.approx(round(event["ts"] * 1000))
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in known
            slices[event["pid"], event["tid"]].append((event["ts"], round(event["ts"] + event["dur"], 3)))
    for lane in slices.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(lane))
    starts, ends = ({e["id"]: e for e in of(made, ph)} for ph in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == len(of(made, "s"))
    for number, event in starts.items():
        assert event["ts"] <= ends[number]["ts"]
        assert any(a <= event["ts"] <= b for a, b in slices[event["pid"], event["tid"]])
        end = ends[number]
        assert any(a == end["ts"] for a, _ in slices[end["pid"], end["tid"]])
    return made


def test_slices_are_the_events_of_the_timeline():
    timeline = simulate(streamed())
    made = check(trace(timeline))
    mine = [e for e in of(made, "X") if "detail" in e["args"]]
    events = list(timeline.events())
    assert [(e["args"]["detail"], e["args"]["cycles"], e["args"]["start_cycles"]) for e in mine] == [
        (e.text, e.cycles, e.start_cycles) for e in events
    ]
    # a cycle is a nanosecond here, and the launch takes 2 us
    assert [e["ts"] for e in mine] == [2 + e.start_cycles / 1000 for e in events]
    assert set(mine[0]["args"]) >= {"bytes", "cycles", "buffers", "code", "detail", "tile", "phase"}
    assert mine[0]["cname"] == "thread_state_iowait"


def test_lanes_have_the_vendors_names_and_order():
    made = check(trace(plan(*CASES[0][:2], chip="ascend950pr", dtype="bfloat16"), tiles=1))
    lanes = names(made, "thread_name")
    order = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in of(made, "M") if e["name"] == "thread_sort_index"}
    cores = {name: pid for (pid, _), name in names(made, "process_name").items()}
    by_core = {
        core: [lanes[key] for key in sorted(lanes, key=order.get) if key[0] == cores[core]]
        for core in ("core0.veccore0", "core0.cubecore0")
    }
    assert by_core == {
        "core0.veccore0": ["MTE2", "VECTOR", "MTE3"],
        "core0.cubecore0": ["MTE1", "CUBE", "FIXP", "MTE2"],
    }
    sort = {e["pid"]: e["args"]["sort_index"] for e in of(made, "M") if e["name"] == "process_sort_index"}
    assert len(set(sort.values())) == len(sort)
    assert sort[cores["core0.cubecore0"]] < sort[cores["core0.veccore0"]]


def test_names_of_cores():
    assert [core_name(CHIP, "vector", core) for core in range(3)] == [
        "core0.veccore0",
        "core0.veccore1",
        "core1.veccore0",
    ]
    assert core_name(CHIP, "cube", 3) == "core3.cubecore0"
    assert core_name(load_chip("ascend310p3"), "vector", 3).endswith("veccore0")


def test_arrows_go_from_lane_to_lane():
    made = check(trace(streamed(2, slots=1)))
    tile = ["MTE2ToVECTOR", "VECTORToMTE3"]
    slots = ["VECTORToMTE2", "MTE3ToVECTOR"]
    assert [e["cat"] for e in of(made, "s")] == [*tile, *slots, *tile]
    assert {e["name"] for e in of(made, "s")} == {"flow"}
    assert {e["bp"] for e in of(made, "f")} == {"e"}


def test_the_counter_is_what_is_still_needed():
    """One tile: xIn from 0 to 14, its sum from 10 to 20, 32 bytes each, of 2 slots each."""
    made = check(trace(streamed(1)))
    counters = [(round((e["ts"] - 2) * 1000), e["args"]["in use"]) for e in of(made, "C")]
    assert counters == [(0, 32), (10, 64), (14, 32), (20, 0), (20, 0)]
    assert {e["name"] for e in of(made, "C")} == {"ub bytes"}
    assert of(made, "C")[0]["args"]["allocated, not in use"] == 4 * 32 - 32


def test_slots_are_occupied_until_their_last_use():
    events = list(simulate(streamed(3)).events())
    stays = sorted(occupied(events, {"xIn": 2}))
    assert stays == [("xIn", 0, 14), ("xIn", 10, 24), ("xIn", 20, 34)]


def test_launch_phases_and_syncs_are_an_overview():
    made = check(trace(streamed(phases=2)))
    overview = [(e["name"], e["ts"], e["dur"]) for e in of(made, "X") if e["pid"] == 1]
    spent = 0.05
    assert overview == [
        ("launch", 0, 2),
        ("phase 0", 2, spent),
        ("sync", pytest.approx(2 + spent), 3),
        ("phase 1", pytest.approx(5 + spent), spent),
    ]


def test_a_whole_run_says_that_nothing_is_left_out():
    assert trace(streamed())["otherData"]["left out"] == "nothing"


def test_a_long_run_is_cut_to_windows_and_says_so():
    made = check(trace(streamed(1_000_000), most_events=1000))
    slices = [e for e in of(made, "X") if "detail" in e["args"]]
    assert 500 < len(slices) <= 1000
    assert made["otherData"]["left out"] == (
        f"{3_000_000 - len(slices):,} of 3,000,000 instructions: every loop has 64 tiles at its start, in its middle "
        "and at its end"
    )
    assert slices[-1]["ts"] + slices[-1]["dur"] == pytest.approx(simulate(streamed(1_000_000)).time_us, abs=0.001)


def test_one_core_of_every_distinct_share_is_shown():
    made = check(trace(streamed(11, cores=4)))
    assert set(names(made, "process_name").values()) == {"made_up", "core0.veccore0", "core1.veccore1"}
    assert made["otherData"]["left out"] == "2 of 4 vector cores"
    assert set(names(trace(streamed(11, cores=4), cores=[1, 9]), "process_name").values()) == {
        "made_up",
        "core0.veccore1",
    }


@every_case
@pytest.mark.parametrize("tiles", [None, 1, 3])
def test_of_an_operator(op, dims, dtype, tiles):
    made = plan(op, dims, chip="ascend950pr", dtype=dtype)
    data = check(trace(made, tiles=tiles, most_events=3000))
    assert len([e for e in of(data, "X") if "detail" in e["args"]]) <= (3000 if tiles is None else 10**9)
    for counter in of(data, "C"):
        assert all(value >= 0 for value in counter["args"].values())


def test_the_file(tmp_path):
    path = write_trace(tmp_path / "trace.json", streamed())
    assert json.loads(path.read_text(encoding="utf-8")) == trace(streamed())
    with pytest.raises(BadInput, match="cannot be written"):
        write_trace(tmp_path / "missing" / "trace.json", streamed())
