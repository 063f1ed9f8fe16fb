"""Instruction counts of a plan: the golden ones of two kernels, and that they add up for every operator."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import golden
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import check
from tilesim.ops.masked_causal_conv1d_backward import folded
from tilesim.planning.plan import plan
from tilesim.program.loop_nest import Nests, executed, steps
from tilesim.simulation.counts import Count, counts, shares
from tilesim.timing.bursts import bursts

CONV, GLU, GATED = "masked_causal_conv1d_backward", "glu_backward", "text_gated_residual_grad"
PR = load_chip("ascend950pr")
ONE_ROW = {"bytes_in", "duplicate_registers", "mask_broadcast_load", "mask_broadcast_store", "mask_mul"}
"""What differs where a tile has one row of S: the vendor's kernel reads halo beyond the tensor."""


def sized(case):
    return PR.override({"cores.vector": case.cores, "memory.ub.size_bytes": case.ub_size_bytes})


def convolution(case):
    return plan(CONV, case.dims, chip=sized(case), dtype=case.dtype, mask=case.mask)


# -------------------------------------------------------------------- golden counts
@pytest.mark.parametrize("case", golden.conv1d_tilings(), ids=lambda case: case.name)
def test_counts_of_the_convolution(case):
    """Of a tile of columns, of the first and the last core, and of all cores."""
    made, tiling, expected = convolution(case), case.tiling, case.transfers | case.vector
    tile = counts(made, loop="h").vendor
    different = {name for name in tile.keys() | expected.keys() if tile.get(name) != expected.get(name)}
    assert different <= (ONE_ROW if tiling["ubTailFactorS"] == 1 and tiling["sLoopCnt"] > 1 else set())
    main, tail = tiling["hMainCoreCnt"], tiling["hTailCoreCnt"]
    for core, times in ((0, case.main_h_tiles), (main + tail - 1, case.tail_h_tiles or case.main_h_tiles)):
        assert counts(made, core).vendor == {name: value * times for name, value in tile.items()}
    tiles = tiling["H"] // 64
    assert counts(made, None).vendor == {name: value * tiles for name, value in tile.items()}


def test_the_documented_differences_of_a_tile_of_one_row():
    (case,) = (case for case in golden.conv1d_tilings() if case.name == "conv1d-193")
    found, expected = counts(convolution(case), loop="h").vendor, case.transfers | case.vector
    pairs = {name: (found[name], expected[name]) for name in ONE_ROW}
    assert pairs == {
        "duplicate_registers": (256, 224),
        "bytes_in": (812000, 816128),
        "mask_broadcast_load": (4704, 4736),
        "mask_broadcast_store": (4704, 4736),
        "mask_mul": (3136, 3168),
    }


@pytest.mark.parametrize("case", golden.glu_tilings(), ids=lambda case: case.name)
def test_counts_of_the_gated_unit(case):
    made = plan(GLU, {"self": case.shape, "dim": case.dim}, chip=sized(case), dtype=case.dtype)
    by_share = shares(made)
    found = counts(made, None).vendor | {
        "max_blocks_per_core": max(share.counts.vendor["ub_blocks"] for share in by_share),
        "idle_cores": made.block_dim - sum(share.cores for share in by_share),
    }
    assert found == case.work


def test_the_documented_column_sum():
    assert folded("reduce", 158) == {"reduce_load": 196, "reduce_store": 39, "reduce_add": 157}


@given(st.integers(1, 5000))
def test_a_column_sum_adds_all_rows_but_one(rows):
    found = folded("x", rows)
    assert found["x_add"] == rows - 1
    assert found["x_load"] >= rows >= found["x_store"]


# -------------------------------------------------------------------- any plan
PLANS = [
    (CONV, {"S": 300, "B": 3, "H": 704}, "ascend950pr", "bfloat16", {"mask": True}),
    (GLU, {"self": (5, 200000)}, "ascend950pr", "float16", {}),
    (GLU, {"self": (500, 66)}, "ascend950pr", "float32", {}),
    (GLU, {"self": (7, 66)}, "ascend910b1", "float16", {}),
    (GATED, {"B": 1, "S": 75, "C": 4, "H": 64, "R": 32}, "ascend950pr", "bfloat16", {}),
    (GATED, {"B": 2, "S": 130, "C": 3, "H": 64, "R": 48}, "ascend910b3", "float16", {"inject": False}),
]


@pytest.fixture(scope="module", params=PLANS, ids=lambda case: f"{case[0]}-{case[2]}-{case[3]}")
def made(request):
    op, dims, chip, dtype, options = request.param
    return plan(op, dims, chip=chip, dtype=dtype, **options)


def test_cores_add_up(made):
    every = [counts(made, core).by_op for core in range(max(phase.cores for phase in made.phases))]
    whole = counts(made, None).by_op
    assert whole == {op: sum((one[op] for one in every if op in one), Count()) for op in whole}


def test_shares_add_up(made):
    whole = {}
    for phase in made.phases:
        for share in shares(made, phase.phase.name):
            for line in share.counts.lines:
                whole[line.instr] = whole.get(line.instr, 0) + line.count.times * share.cores
    assert whole == {line.instr: line.count.times for line in counts(made, None).lines}


def test_counted_one_by_one(made):
    """Every executed instruction, without multiplication."""
    for phase in made.phases:
        nest = Nests(phase.phase, phase.sizes).core(0)
        found = {}
        for item in _unrolled(nest):
            found[item.instr] = found.get(item.instr, 0) + 1
        mine = {line.instr: line.count.times for line in counts(made).lines if line.phase == phase.phase.name}
        assert mine == found
        assert {item.instr for item in steps(nest)} == mine.keys()


def _unrolled(nest):
    for item in nest:
        if hasattr(item, "times"):
            for _ in range(item.times):
                yield from _unrolled(item.body)
        else:
            yield item


def test_bytes_are_those_that_the_rates_use(made):
    for phase in made.phases:
        lines = [line for line in counts(made, None).lines if line.phase == phase.phase.name]
        moved = sum(line.count.bytes for line in lines if "gm" in line.instr.route)
        assert moved == phase.traffic.bytes
        steps_run = (pair for nest, _, cores in phase.nests for pair in executed(nest, cores))
        assert moved == sum(bursts(s).total_bytes * times for s, times in steps_run if "gm" in s.instr.route)


def test_only_copies_have_bytes_and_only_vectors_pass_registers(made):
    for line in counts(made, None).lines:
        assert line.count.times > 0
        assert (line.count.bytes > 0) == (line.count.bursts > 0) == (line.instr.op in ("copy", "copy_transposed"))
        assert (line.count.vectors > 0) == (line.instr.pipe == "v")
        assert line.count.bursts >= line.count.times or not line.count.bursts


def test_composites_have_no_names_of_the_vendors_kernel(made):
    assert bool(counts(made).vendor) == (made.operator.vendor_counters is not None and made.route == "kernel")


def test_plain_data():
    data = counts(plan(GLU, {"self": (4, 64)}, chip=PR)).to_json()
    assert data["by_op"]["gm_ub"] == {"times": 3, "vectors": 0, "bursts": 3, "bytes": 3 * 32 * 4}
    assert data["vendor"]["dma_in"] == 3
    assert data["instructions"][0].keys() == {"phase", "op", "text", "times", "vectors", "bursts", "bytes"}


def test_an_empty_plan_has_no_counts():
    made = plan(GLU, {"self": (0, 4)}, chip=PR)
    assert counts(made).by_op == counts(made, None).by_op == {}
    assert shares(made) == ()


def test_what_is_not_there_is_bad_input(made):
    for wrong, text in (
        (lambda: counts(made, 64), "64 is not one of 0"),
        (lambda: counts(made, -1), "-1 is not one of 0"),
        (lambda: counts(made, loop="hh"), "'hh' is not a loop"),
        (lambda: shares(made, "backwards"), "'backwards' is not one of"),
    ):
        with pytest.raises(BadInput, match=text):
            wrong()


@settings(max_examples=60)
@given(
    rows=st.integers(1, 400),
    row=st.integers(1, 70000),
    cores=st.integers(1, 64),
    dtype=st.sampled_from(["float32", "float16"]),
)
def test_every_element_is_read_and_written_once(rows, row, cores, dtype):
    chip, own = PR.override({"cores.vector": cores}), {"self": (rows, 2 * row)}
    assume(check(GLU, own, chip=chip, dtype=dtype).ok)  # a row between the buffer and its pitch is refused
    made = plan(GLU, own, chip=chip, dtype=dtype)
    size = 4 if dtype == "float32" else 2
    found = counts(made, None).vendor
    assert (found["bytes_in"], found["bytes_out"]) == (3 * rows * row * size, 2 * rows * row * size)
    assert found["dma_in"] * 2 == found["dma_out"] * 3
