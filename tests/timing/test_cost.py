"""Prices: linear in vectors, from addresses, bursts and shares; phases that keep their bounds."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sample_calls import LARGE, OPERATORS, planned, small
from tilesim.chip.loading import load_chip
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.buffers import Buffer, padded
from tilesim.program.dtypes import itemsize
from tilesim.program.sizes import Size
from tilesim.timing.cost import collide, vector_bytes

B2, PR = load_chip("ascend910b2"), load_chip("ascend950pr")
CHIPS = pytest.mark.parametrize("chip", [B2, PR], ids=lambda chip: chip.name)


def phase(op, given, chip, dtype="float32", tiles=None, **options):
    (only,) = plan(op, given, chip=chip, dtype=dtype, tiles=tiles, **options).phases
    return only


def add(chip, elements, **options):
    whole = chip.override({"memory.ub.reserved_bytes": 0})
    return phase("add", {"x1": (8192, 8192)}, whole, "float16", {"elements": elements}, **options)


@pytest.mark.parametrize(("apart", "blocks", "hit"), [(0, 8, 1), (256, 8, 0), (224, 8, 1), (512, 8, 1), (256, 1, 0)])
def test_two_reads_collide_unless_half_of_the_groups_lies_between(apart, blocks, hit):
    groups = B2.memory.ub.bank_groups
    assert collide(groups, 4096, 4096 + apart, blocks * 32) == bool(hit)
    assert collide(groups, 4096 + apart, 4096, blocks * 32) == bool(hit)


def test_a_gap_between_the_operands_takes_the_conflict_away():
    vectors = 8192 * 8192 // 48 * 2 // 256
    together, apart = add(B2, 16256), add(B2, 16256, spread=True)
    assert together.busy_cycles["v"] - apart.busy_cycles["v"] == pytest.approx(vectors, rel=0.01)


def test_a_vector_function_is_called_once_a_tile():
    one, more = phase("sigmoid", {"x": (64, 2048)}, PR), phase("mish", {"x": (64, 2048)}, PR)
    assert one.busy_cycles["v"] < more.busy_cycles["v"]
    free = PR.override({"overhead.call_cycles": 1e-9})
    call = one.busy_cycles["v"] - phase("sigmoid", {"x": (64, 2048)}, free).busy_cycles["v"]
    assert call == pytest.approx(PR.overhead.call_cycles, abs=2)


@CHIPS
@pytest.mark.parametrize("elements", [512, 2048, 4096])
def test_more_slots_are_never_slower(chip, elements):
    assert add(chip, elements).cycles <= add(chip, elements, double_buffer=False).cycles


@CHIPS
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("wanted", [{}, LARGE], ids=["small", "large"])
def test_a_phase_lies_between_its_longest_pipe_and_their_sum(chip, name, wanted):
    """Also where the cores wait for memory that reads and writes share."""
    op = load_operator(name)
    if chip.family not in op.products:
        return
    for one in planned(name, chip, op.dtypes[chip.family][0], small(op, wanted)).phases:
        for (nest, *_), makespan, (cycles, *_) in zip(one.nests, one.makespans, one.shares, strict=True):
            busy = one.scheduler.busy(nest).values()
            assert max(busy) <= makespan <= cycles <= sum(busy)


def test_short_unaligned_rows_are_slow_because_of_their_bursts():
    short = phase("swi_glu", {"x": (1_000_003, 2)}, B2, "bfloat16")
    smooth = phase("swi_glu", {"x": (512, 4096)}, B2, "bfloat16")
    assert short.cycles > 40 * smooth.cycles
    free = B2.override({"copy.gm_ub.partial_burst_cycles": 0, "copy.gm_ub.burst_gap_bytes": 0})
    assert phase("swi_glu", {"x": (1_000_003, 2)}, free, "bfloat16").cycles < short.cycles / 2


@CHIPS
def test_memory_that_is_twice_as_fast_takes_less_time(chip):
    now = add(chip, 4096)
    faster = chip.override(
        {f"memory.gm.{k}": 2 * chip.get(f"memory.gm.{k}") for k in ("read_bytes_per_s", "write_bytes_per_s")}
    )
    assert add(faster, 4096).cycles < 0.7 * now.cycles


def test_reading_the_same_addresses_takes_longer():
    """Every core reads gamma from the same place."""
    slow = B2.override({"memory.l2.same_address_ub_stretch": 50.0})
    given = {"x": (48, 8000)}
    assert phase("rms_norm", given, slow, "float16").cycles > phase("rms_norm", given, B2, "float16").cycles


def test_absorbed_writes_are_cheaper():
    full = B2.override({"memory.l2.absorbed_write_bytes": 0})
    assert phase("exp", {"x": (4096, 4096)}, full).cycles > 1.2 * phase("exp", {"x": (4096, 4096)}, B2).cycles


@CHIPS
@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("add", {"x1": (4096, 4096)}),
        ("softmax", {"x": (1023, 1025)}),
        ("rms_norm", {"x": (4096, 4096)}),
        ("swi_glu", {"x": (4096, 8192)}),
        ("glu_backward", {"self": (4096, 4096), "dim": -1}),
        ("text_gated_residual_grad", {"B": 2, "S": 2048, "C": 4, "H": 1024, "R": 128}),
    ],
)
def test_waiting_less_for_memory_takes_no_longer(chip, op, given):
    """But for what half of the waiting hides: 0.3 % at most in what was tried."""
    keys = ["memory.gm.miss_cycles", *(f"copy.{path}.latency_cycles" for path in ("gm_ub", "ub_gm", "gm_l1"))]
    made = plan(op, given, chip=chip, dtype="float16")
    for one in made.phases:
        times = [
            one.on(chip.override({key: share * chip.get(key) for key in keys})).cycles for share in (0, 0.25, 0.5, 1)
        ]
        assert all(a <= b * 1.003 for a, b in itertools.pairwise(times))


@given(
    rows=st.integers(2, 9),
    columns=st.integers(1, 300),
    part=st.integers(1, 300),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
)
def test_whole_rows_pass_with_their_padding_and_parts_in_blocks(rows, columns, part, dtype):
    shape = (Size.of(rows), Size.of(columns))
    buffer, part = Buffer("b", "ub", shape, padded(shape, dtype), dtype), min(part, columns)
    row_bytes = -(-part * itemsize(dtype) // 32) * 32
    assert vector_bytes(buffer[:, :part], {}, 256) == rows * row_bytes
    assert vector_bytes(buffer[0, :part], {}, 256) == part * itemsize(dtype)


BURSTS = ("burst_setup_cycles", "burst_cycles", "partial_burst_cycles")


@CHIPS
def test_only_copies_of_several_bursts_pay_for_bursts(chip):
    slow = chip.override({f"copy.gm_ub.{word}": 1000 for word in BURSTS})
    flat, halves = ("sigmoid", {"x": (64, 2048)}), ("swi_glu", {"x": (640, 2048)})
    assert phase(*flat, slow).busy_cycles["mte2"] == phase(*flat, chip).busy_cycles["mte2"]
    assert phase(*halves, slow).busy_cycles["mte2"] > phase(*halves, chip).busy_cycles["mte2"]
