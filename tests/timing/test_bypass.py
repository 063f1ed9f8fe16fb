"""Reads past the L2 cache: what they cost, what they leave to others, and that they change no value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.errors import BadOperator
from tilesim.execution.run import run
from tilesim.operators.operator import Argument, Dimension, Operator, Option, result
from tilesim.planning.plan import plan
from tilesim.program.sizes import dim
from tilesim.render.listing import listing
from tilesim.simulation.timeline import simulate

B1, PR = load_chip("ascend910b1"), load_chip("ascend950pr")
CHIPS = pytest.mark.parametrize("chip", [B1, PR], ids=lambda chip: chip.name)
OPERATORS = pytest.mark.parametrize("name", ["add", "mul", "maximum"])
LARGE = {"x1": (8192, 8192), "x2": (8192, 8192)}


def phase(op, shapes, chip, **options):
    (only,) = plan(op, shapes, chip=chip, dtype="float16", **options).phases
    return only


@CHIPS
@OPERATORS
def test_reads_past_the_cache_leave_it_to_the_writes(chip, name):
    """Beside 134 MB of results, 268 MB of operands are read as if alone, as the cache takes most of the results."""
    through, past = (phase(name, LARGE, chip, bypass=b) for b in (False, True))
    assert past.cycles < 0.8 * through.cycles
    read, written = 2 * 8192 * 8192 * 2, 8192 * 8192 * 2
    taken = min(written, 2 * chip.memory.l2.absorbed_write_bytes)
    seconds = read / chip.memory.gm.read_alone_bytes_per_s + (written - taken) / chip.memory.gm.write_bytes_per_s
    assert past.rates.floor_cycles == pytest.approx(seconds * chip.clock.vector_hz, rel=1e-3)


@OPERATORS
def test_no_value_depends_on_it(name):
    rng = np.random.default_rng(0)
    data = {key: rng.standard_normal((64, 33)).astype(np.float16) for key in LARGE}
    shapes = {key: values.shape for key, values in data.items()}
    through, past = (
        run(plan(name, shapes, chip=B1, dtype="float16", bypass=b), data).outputs["y"] for b in (False, True)
    )
    assert np.array_equal(through, past)


def operator(kernel, dims, tensors, options=()):
    """An operator of those tensors on 950, x first, all float32."""
    return Operator(
        name="made_up",
        api="",
        about="what a test needs",
        dims=tuple(Dimension(d) for d in dims),
        tensors=tensors,
        lead="x",
        dtypes={"950": ("float32",)},
        dtype="float32",
        options=options,
        kernel=kernel,
    )


def twice(*, bypass):
    """An operator that reads one tensor in every iteration of a loop over another."""
    rows, columns = dim("R"), dim("C")

    def kernel(k):
        if k.options["bypass"]:
            k.bypass("again")
        with k.vector("twice") as p:
            for r in p.loop("r", rows, split="block"):
                for c in p.loop("c", columns, p.tile("columns", columns, 64)):
                    p.store(p.add(p.load(k["x"][r.start, c]), p.load(k["again"][c])), k["y"][r.start, c])

    tensors = (Argument("x", "R C"), Argument("again", "C"), result("y", "R C"))
    made = operator(kernel, "RC", tensors, options=(Option("bypass", default=False),))
    (only,) = plan(made, {"x": (4096, 2048), "again": (2048,)}, chip=PR, bypass=bypass).phases
    return only


def test_what_is_read_again_past_the_cache_comes_from_global_memory_again():
    through, past = twice(bypass=False), twice(bypass=True)
    assert through.rates.miss_rate["again"] == pytest.approx(1 / 4096)
    assert past.rates.miss_rate["again"] == 1
    assert past.rates.floor_cycles > 1.5 * through.rates.floor_cycles


def copied(*names, over=""):
    """An operator that adds x and w, with the reads of some tensors past the cache, and y where `over` is."""

    def kernel(k):
        k.bypass(*names)
        if over:
            k.overwrites["y"] = over
        with k.vector("copied") as p:
            for n in p.loop("n", dim("R"), p.tile("rows"), split="block"):
                p.store(p.add(p.load(k["x"][n]), p.load(k["w"][n])), k["y"][n])

    return operator(kernel, "R", (Argument("x", "R"), Argument("w", "R"), result("y", "R")))


@pytest.mark.parametrize(
    ("name", "word"),
    [("z", "'z' is absent or not a tensor of made_up"), ("y", "'y' is an output; only the reads of inputs")],
)
def test_only_an_input_can_go_past_the_cache(name, word):
    with pytest.raises(BadOperator, match=word):
        plan(copied(name), {"x": (64,), "w": (64,)}, chip=PR)


def test_what_overwrites_an_input_past_the_cache_is_new_to_it():
    """The cache takes the writes as it would in another place, where it holds no line of theirs either."""
    over, apart = (
        plan(made, {"x": (1 << 26,), "w": (1 << 26,)}, chip=PR).phases[0].rates
        for made in (copied("x", over="x"), copied("x"))
    )
    assert over == apart


def streams(*names):
    """An operator that reads w again for every row of x, with the reads of some tensors past the cache."""
    rows, columns = dim("R"), dim("C")

    def kernel(k):
        k.bypass(*names)
        with k.vector("streams") as p:
            for r in p.loop("r", rows):
                for c in p.loop("c", columns, 4096, split="block", unit=4096):
                    p.store(p.add(p.load(k["x"][r.start, c]), p.load(k["w"][c])), k["y"][r.start, c])

    made = operator(kernel, "RC", (Argument("x", "R C"), Argument("w", "C"), result("y", "R C")))
    chip = PR.override({"memory.l2.size_bytes": 96 << 20})
    (only,) = plan(made, {"x": (4, 1 << 24), "w": (1 << 24,)}, chip=chip).phases
    return only


def test_what_goes_past_the_cache_leaves_it_to_what_is_read_again():
    """A row is 64 MiB: with w and the row of y, 128 MiB touch a cache of 96 MiB; with the row of x, 192 MiB."""
    through, past = streams(), streams("x")
    assert through.rates.miss_rate["w"] == pytest.approx((1 + 3 * (1 - 96 / 192)) / 4)
    assert past.rates.miss_rate["w"] == pytest.approx((1 + 3 * (1 - 96 / 128)) / 4)


def test_what_goes_past_the_cache_does_not_take_its_time():
    """With a slow cache, what it passes is the floor: x, and w as often as it is read, or w alone."""
    slow = {"memory.l2.read_bytes_per_s": 1e9, "memory.l2.absorbed_write_bytes": 0}
    through, past = (streams(*names).on(PR.override(slow)).rates.floor_cycles for names in ((), ("x",)))
    assert through == pytest.approx(2 * past, rel=1e-2)


@pytest.mark.parametrize("shapes", [((64, 1, 4096), (64, 128, 4096)), ((64, 64, 49), (64, 1)), ((4096, 512), (1,))])
@CHIPS
def test_an_operand_that_is_read_again_stays_in_the_cache(chip, shapes):
    through, past = (phase("add", dict(zip(("x1", "x2"), shapes, strict=True)), chip, bypass=b) for b in (False, True))
    assert len(past.bypassing) == 1
    assert past.cycles <= through.cycles


@given(rows=st.integers(1, 4096), columns=st.integers(1, 4096))
@settings(max_examples=20, deadline=None)
def test_streams_gain_by_it_or_stay_as_they_are(rows, columns):
    """What is read once is not slower past the cache."""
    for chip in (B1, PR):
        same = {"x1": (rows, columns), "x2": (rows, columns)}
        through, past = (phase("add", same, chip, bypass=b) for b in (False, True))
        assert past.cycles <= through.cycles


def test_the_listing_says_what_goes_past_the_cache():
    made = plan("add", LARGE, chip=B1, dtype="float16", bypass=True)
    assert any("; x1, x2 past the L2 cache" in line for line in listing(simulate(made)))
    assert not any("past" in line for line in listing(simulate(plan("add", LARGE, chip=B1, dtype="float16"))))
