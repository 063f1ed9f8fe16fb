"""Copies: what is in flight together, where bursts start, and what cores get of the cache."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.measured.sample_kernels import copy_in
from tilesim.measured.validate import validate
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.planning.plan import plan
from tilesim.program import dtypes
from tilesim.program.loop_nest import steps
from tilesim.timing.bursts import Bursts, Occupancy, bursts
from tilesim.timing.pipe_runs import queues

B1, B2, PR = (load_chip(f"ascend{name}") for name in ("910b1", "910b2", "950pr"))
CHIPS = pytest.mark.parametrize("chip", [B1, PR], ids=lambda chip: chip.name)


def copies(chip, shape, **tiles):
    (only,) = plan(copy_in(), {"x": shape}, chip=chip, dtype="float16", tiles={"cores": 1, **tiles}).phases
    return only


N, H = Dimension("N"), Dimension("H", multiple_of=16)


def nested(k):
    """A copy, then a loop of copies whose axis is the tile of the loop around it, with nothing between."""
    with k.vector("nested") as p:
        for n in p.loop("n", N.size, 8, split=True):
            w = p.buffer("wIn", (8, H.size), k.dtype, slots=2)
            p.load(k["w"][:], out=w[0, :])
            for m in p.loop("m", n.size, 4, carry=(w,)):
                for r in p.loop("r", m.size, carry=(w,)):
                    p.load(k["x"][n.start + m.start + r.start, :], out=w[m.start + r.start, :])
            doubled = p.muls(p.read(w)[0], 2.0, out=p.buffer("yOut", (H.size,), k.dtype, slots=2))
            p.store(doubled, k["y"][n.start])


NESTED = Operator(
    name="nested",
    api="",
    about="rows copied one by one",
    lead="x",
    kernel=nested,
    dims=(N, H),
    tensors=(Argument("x", "N H"), Argument("w", "H"), result("y", "N H")),
    dtypes={"950": ("float32",), "a2": ("float32",)},
    dtype="float32",
)


@CHIPS
@pytest.mark.parametrize("rows", [1, 7, 64, 69])
def test_copies_in_nested_loops_are_counted_together(chip, rows):
    (one,) = plan(NESTED, {"N": rows, "H": 64}, chip=chip, tiles={"cores": 1}).phases
    ((queue,),) = ({queues(one.phase)[i] for i in one.phase.instructions() if i.pipe == "mte2"},)
    full = next(s for s in steps(one.nests[0][0]) if s.instr.pipe == "mte2")
    assert 1 + min(rows, 8) <= queue.copies(full.sizes) <= 9  # the rows around other copies at full tiles
    assert one.busy_cycles["mte2"] < (1 + min(rows, 8)) * -(-rows // 8) * chip.copies.gm_ub.latency_cycles


@CHIPS
def test_small_copies_one_after_another_take_what_issuing_them_takes(chip):
    one = copies(chip, (64, 64 * 256), rows=1, columns=64)
    figures = chip.copies.gm_ub
    count = 64 * 256
    first = figures.latency_cycles + chip.memory.gm.miss_cycles + 128 / figures.bytes_per_cycle
    each = max(figures.issue_cycles, first * 128 / figures.in_flight_bytes)
    rounded = 0.5 / each  # every copy takes whole cycles
    assert one.busy_cycles["mte2"] == pytest.approx(each * count + 64 * (first - each), rel=rounded)
    slower = chip.override({"copy.gm_ub.issue_cycles": 4 * figures.issue_cycles})
    assert copies(slower, (64, 64 * 256), rows=1, columns=64).busy_cycles["mte2"] > 3.5 * one.busy_cycles["mte2"]


@CHIPS
def test_large_copies_wait_for_the_memory_each(chip):
    one = copies(chip, (64, 4096 * 8), rows=1, columns=4096)
    figures = chip.copies.gm_ub
    waits = figures.latency_cycles + chip.memory.gm.miss_cycles
    alone = max(waits + 8192 / figures.bytes_per_cycle, 8192 / figures.peak_bytes_per_cycle)
    assert one.busy_cycles["mte2"] == pytest.approx(alone * 64 * 8, rel=0.01)


@CHIPS
def test_what_the_cache_holds_is_not_waited_for_as_long(chip):
    """Of a row that each of 8 tiles of 8 rows reads, only the first tile waits for global memory, for 9000 cycles here.

    Copies of 8 KiB are not in flight together, so that each waits for itself.
    """
    slow = chip.override({"memory.gm.miss_cycles": 9000})
    (one,) = plan(NESTED, {"N": 64, "H": 2048}, chip=slow, tiles={"cores": 1}).phases
    assert one.rates.miss_rate == {"x": 1, "w": 1 / 8}
    hit = chip.copies.gm_ub.latency_cycles + 8192 / chip.copies.gm_ub.bytes_per_cycle
    assert one.busy_cycles["mte2"] == pytest.approx(64 * (hit + 9000) + 8 * (hit + 9000 / 8), rel=1e-3)


@CHIPS
@pytest.mark.parametrize("columns", [64, 512, 4096])
def test_copies_in_one_tile_or_in_many_are_ordered_by_size(chip, columns):
    small, large = (copies(chip, (64, 8192), rows=1, columns=c).cycles for c in (columns, 8192))
    assert small >= large


def test_measured_copies_of_128_bytes_are_met(validated):
    found = [c for one in validated for c in one.compared if c.row.variant.get("rows") == 1]
    assert len(found) == 2
    assert all(abs(c.predicted_us / c.row.time_us - 1) < 0.1 for c in found)


def test_measured_rows_that_are_not_aligned_are_met(validated):
    found = [
        c
        for one in validated
        for c in one.compared
        if c.row.operator.startswith("DataCopy") and c.row.shapes[0] == (12288, 12287)
    ]
    assert len(found) == 2
    assert all(abs(c.predicted_us / c.row.time_us - 1) < 0.05 for c in found)


@pytest.fixture(scope="module")
def validated():
    return [validate(None, chip) for chip in ("ascend910b1", "ascend950pr")]


@given(
    rows=st.integers(1, 9),
    columns=st.integers(16, 400),
    tile=st.tuples(st.integers(1, 4), st.integers(16, 100)),
    cores=st.integers(1, 5),
    dtype=st.sampled_from(["float16", "float32"]),
)
@settings(max_examples=60, deadline=None)
def test_the_alignment_of_bursts_divides_every_place_at_which_one_starts(rows, columns, tile, cores, dtype):
    """Against the places of all tiles of all cores, read off a matrix of numbers."""
    tiles = {"rows": min(tile[0], rows), "columns": min(tile[1], columns), "cores": cores}
    (only,) = plan(copy_in(), {"x": (rows, columns)}, chip=PR, dtype=dtype, tiles=tiles).phases
    places = np.arange(rows * columns).reshape(rows, columns) * dtypes.itemsize(dtype)
    share = -(-rows // only.cores)
    starts: dict[tuple[int, int], list[int]] = {}
    for first in range(0, rows, share):
        for r in range(first, min(first + share, rows), tiles["rows"]):
            for c in range(0, columns, tiles["columns"]):
                part = places[r : min(r + tiles["rows"], first + share), c : c + tiles["columns"]]
                starts.setdefault(part.shape, []).extend(int(row[0]) for row in part)
    loads = [s for nest, _, _ in only.nests for s in steps(nest) if s.instr.op == "copy" and s.instr.dst.space == "ub"]
    for step in loads:
        found = starts[step.sizes["row.size"], step.sizes["column.size"]]
        align = bursts(step).align_bytes
        assert all(place % align == 0 if align else place == 0 for place in found)


def test_a_burst_off_the_requests_costs_more_in_either_direction():
    for chip in (B2, PR):
        for route in ("gm_ub", "ub_gm"):
            figures = chip.copies.path(route)
            aligned, off = (
                Occupancy(chip, route).bytes(runs)
                for runs in (Bursts(1, 8192, figures.request_bytes), Bursts(1, 8192, figures.request_bytes + 32))
            )
            assert off == math.ceil(aligned * figures.unaligned_stretch)
            assert off > aligned


@pytest.mark.parametrize("chip", [B2, PR], ids=lambda chip: chip.name)
@pytest.mark.parametrize("shape", [(128, 4096, 4096), (512, 1024, 768)])
def test_cube_cores_that_do_nothing_take_nothing(chip, shape):
    m, k, n = shape
    more = chip.override({"cores.cube": 2 * chip.cores.cube})
    tiles = {"m": 128, "n": 256, "k1": 256, "cores": 8}
    now, then = (
        plan("matmul", {"x1": (m, k), "x2": (k, n)}, chip=one, dtype="float16", tiles=tiles).phases[0].cycles
        for one in (chip, more)
    )
    assert now == then


def test_hits_go_on_beside_what_crosses_global_memory():
    """The second pass of a softmax over columns hits: it makes the phase longer by less than what it reads."""
    (once,) = plan("softmax", {"x": (8192, 8192), "dim": 0}, chip=PR, dtype="float16").phases
    cold = once.traffic.reads["x"].bytes // 2 / PR.memory.gm.read_bytes_per_s
    assert once.traffic.reads["x"].bytes == 2 * 8192 * 8192 * 2
    hits = once.traffic.reads["x"].bytes // 2 / PR.memory.l2.read_bytes_per_s
    slow = PR.override({"memory.l2.read_bytes_per_s": PR.memory.l2.read_bytes_per_s * 0.9})
    (later,) = plan("softmax", {"x": (8192, 8192), "dim": 0}, chip=slow, dtype="float16").phases
    assert hits < cold
    assert later.rates.floor_cycles == once.rates.floor_cycles


def test_64_bit_integers_are_slow_where_no_vector_instruction_takes_them():
    wide, narrow = (
        plan("maximum", {"x1": (4096, 4096)}, chip=B2, dtype=dtype).phases[0] for dtype in ("int64", "int32")
    )
    each = wide.busy_cycles["v"] / (4096 * 4096 / B2.cores.vector)
    assert each == pytest.approx(B2.overhead.cycles_per_64bit_element, abs=0.2)
    assert narrow.busy_cycles["v"] < wide.busy_cycles["v"] / 20


def test_reading_the_same_rows_by_all_cores_takes_longer():
    passes = {"x": (512, 512), "P": B1.cores.vector}
    tiles = {"rows": 64, "columns": 64, "cores": B1.cores.vector}
    (same,) = plan(copy_in(together=True), passes, chip=B1, dtype="float16", tiles=tiles).phases
    apart = B1.override({"memory.l2.same_address_ub_stretch": 1.0})
    (free,) = plan(copy_in(together=True), passes, chip=apart, dtype="float16", tiles=tiles).phases
    assert same.cores == B1.cores.vector
    stretch = B1.memory.l2.same_address_ub_stretch
    assert same.busy_cycles["mte2"] / free.busy_cycles["mte2"] == pytest.approx(stretch, rel=0.02)
