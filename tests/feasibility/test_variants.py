"""The variant of a kernel is the first that fits, by nothing but its recorded buffers or a vendor's published rule."""

import math

import pytest

from tests.sample_calls import OPERATORS, cases, kinds, small
from tilesim.chip.loading import load_chip
from tilesim.errors import BadOperator
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.limits import largest
from tilesim.kernels.rows import LONG, WHOLE, Parts
from tilesim.operators.binding import bind
from tilesim.operators.calls import resized
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.ops import load_operator
from tilesim.ops.softmax import Columns
from tilesim.planning.plan import plan
from tilesim.program.dtypes import numpy_dtype
from tilesim.program.isa import SPACES

BLOCK_BYTES = 32
EACH = cases(every_chip=False)
LARGE = {"X": 3000, "N": 900, "Y": 700, "D": 5000, "S": 700, "H": 1024}
MOST = 2**20
"""Elements of a row that no memory holds."""
STARTS = {"softmax": [{"X": 8, "N": 4, "Y": 1}, {"X": 900, "N": 4, "Y": 700}]}
"""Sizes of which an operator states several variants; the small ones for all others."""
SEVERAL = {"softmax", "rms_norm", "dynamic_quant", "glu", "glu_backward"}


def calls_of(name, dtype):
    op = load_operator(name)
    return [bind(op, sizes, dtype=dtype) for sizes in (*kinds(op), small(op, LARGE))]


def needed_bytes(kernel, env):
    """The most bytes of the unified buffer that a phase takes at its smallest tiles, buffer by buffer."""
    most = 0
    for phase in kernel.phases:
        sizes = {**env, **{tile.name: tile.multiple_of for tile in phase.tiles.values()}}
        total = 0
        for buffer in (b for b in phase.buffers if b.space == "ub" and not b.pool):
            elements = math.prod(int(size.bind(sizes)) for size in buffer.allocated)
            slot_bytes = -(-elements * numpy_dtype(buffer.dtype).itemsize // BLOCK_BYTES) * BLOCK_BYTES
            total += slot_bytes * buffer.slots
        most = max(most, total)
    return most


def fits(call, chip, variant):
    return needed_bytes(call.operator.record(call, chip, variant), call.env) <= chip.memory.ub.visible_bytes


@pytest.mark.parametrize(("name", "chip", "dtype"), EACH)
def test_variants_do_not_depend_on_the_size_of_a_memory(name, chip, dtype):
    chip = load_chip(chip)
    spaces = {space for kind in SPACES.values() for space in kind}
    sizes = {f"memory.{space}.size_bytes": chip.memory.on_chip(space).size_bytes for space in sorted(spaces)}
    for call in calls_of(name, dtype):
        if call.operator.tiling and (len(call.operator.variants(call, chip)) == 1 or name == "mhc_post"):
            continue  # the vendor's published tiling decides
        for factor in (2, 4):
            changed = chip.override({key: size // factor for key, size in sizes.items()})
            assert call.operator.variants(call, changed) == call.operator.variants(call, chip)


@pytest.mark.parametrize(("name", "chip", "dtype"), EACH)
def test_the_first_variant_that_fits_is_taken(name, chip, dtype):
    chip = load_chip(chip)
    for call in calls_of(name, dtype):
        *preferred, last = call.operator.variants(call, chip)
        expected = next((variant for variant in preferred if fits(call, chip, variant)), last)
        assert kernel_of(call, chip).variant == expected


def test_operators_with_several_variants():
    found = set()
    for name, chip, dtype in EACH:
        found |= {name for call in calls_of(name, dtype) if len(call.operator.variants(call, load_chip(chip))) > 1}
    assert found == SEVERAL


def step(call, chip):
    """The last call of which the preferred variant has room for its buffers, along the row or the axis; the next."""
    (dim,) = {"D", "N"} & call.dims.keys()
    low, high = call.dims[dim], MOST
    while high - low > 1:
        middle = resized(call, {dim: (low + high) // 2})
        roomy = fits(middle, chip, call.operator.variants(middle, chip)[0])
        low, high = (middle.dims[dim], high) if roomy else (low, middle.dims[dim])
    assert call.dims[dim] < low < high < MOST
    return resized(call, {dim: low}), resized(call, {dim: high})


@pytest.mark.parametrize(("name", "chip", "dtype"), [case for case in EACH if case[0] in SEVERAL])
def test_one_step_past_the_last_size_that_fits_takes_the_next_variant(name, chip, dtype):
    op, chip = load_operator(name), load_chip(chip)
    for sizes in STARTS.get(name, [small(op)]):
        call = bind(op, sizes, dtype=dtype)
        if len(op.variants(call, chip)) == 1:
            assert op.tiling, "the vendor's tiling decides"
            continue
        last, after = step(call, chip)
        assert kernel_of(last, chip).variant == op.variants(last, chip)[0]
        assert kernel_of(after, chip).variant == op.variants(after, chip)[1]


@pytest.mark.parametrize(
    ("name", "chip", "dtype", "sizes", "dim", "most", "then"),
    [
        # x and y 2 slots, scratch: 20 B an element; two values a row in a block each
        ("softmax", "ascend950pr", "float32", {"X": 8, "Y": 1}, "N", 12688, LONG),
        # x 2 slots 4 B, x32 and size 8 B, y 1 B: 13 B an element; four blocks of values a row
        ("dynamic_quant", "ascend950pr", "float16", {"X": 8}, "D", 19520, LONG),
        # a and b 2 slots, 16 B an element of 196352 B; the result is in b's buffer
        ("glu", "ascend910b2", "float32", {"X": 8, "Y": 1}, "N", 12272, Parts()),
        # two halves of 2 slots, 16 B an element, of 196352 B
        ("glu_backward", "ascend910b2", "float32", {"X": 8, "Y": 1}, "N", 12272, "composite in parts"),
    ],
)
def test_the_last_row_that_fits(name, chip, dtype, sizes, dim, most, then):
    fitting = plan(name, {**sizes, dim: most}, chip=chip, dtype=dtype)
    assert fitting.kernel.variant in (WHOLE, "composite")
    assert plan(name, {**sizes, dim: most + 1}, chip=chip, dtype=dtype).kernel.variant == then


def test_the_last_axis_in_the_middle_that_fits():
    # 64 columns a tile: x 2 slots, 8 B an element of 253952 B; largest and total of a column in 4 B each
    for rows, once in ((495, True), (496, False)):
        made = plan("softmax", {"X": 900, "N": rows, "Y": 64}, chip="ascend950pr", dtype="float32")
        assert made.kernel.variant == Columns(64, by_rows=True, once=once)


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_variants_that_take_any_size_leave_it_without_a_limit(name):
    op, chip = load_operator(name), load_chip("ascend910b2").override({"memory.gm.size_bytes": 2**60})
    call = bind(op, small(op))
    (dim,) = {"D", "N"} & call.dims.keys()
    assert largest(call, chip, op.dimensions[dim]) == 2**40


@pytest.mark.parametrize("name", OPERATORS)
def test_variants_are_frozen_data(name):
    op = load_operator(name)
    for chip in map(load_chip, {case[1] for case in EACH if case[0] == name}):
        for call in calls_of(name, None):
            variants = op.variants(call, chip)
            assert len(set(variants)) == len(variants) >= 1
            assert op.variants(call, chip) == variants


# -------------------------------------------------------------------- files of users
def doubled(variant):
    """An operator of a user whose rows are whole in one variant and in parts in another."""

    def kernel(k):
        with k.vector("double") as p:
            for n in p.loop("n", k["x"].shape[0], split=True):
                for h in p.loop("h", k["x"].shape[1], p.tile("part", multiple_of=8) if k.variant == "parts" else 1024):
                    p.store(p.muls(p.load(k["x"][n.start, h]), 2.0), k["y"][n.start, h])

    return Operator(
        name="double",
        api="",
        about="twice x",
        dims=(Dimension("N"), Dimension("H")),
        tensors=(Argument("x", "N H"), result("y", "N H")),
        lead="x",
        dtypes={"950": ("float32",)},
        dtype="float32",
        kernel=kernel,
        variant=variant,
    )


@pytest.mark.parametrize(
    ("stated", "taken"),
    [("parts", "parts"), ("", ""), (["", "parts"], ""), (("parts", ""), "parts"), ((("a", 1), "b"), ("a", 1))],
)
def test_one_variant_or_several(stated, taken):
    call = bind(doubled(lambda _, __: stated), {"N": 4, "H": 8})
    assert kernel_of(call, load_chip("ascend950pr")).variant == taken


def test_the_last_variant_tells_what_does_not_fit():
    chip = load_chip("ascend950pr").override({"memory.ub.size_bytes": 64})
    call = bind(doubled(lambda _, __: ("", "parts")), {"N": 4, "H": 8})
    assert kernel_of(call, chip).variant == "parts"


@pytest.mark.parametrize(("stated", "fact"), [((), "has no variant"), ([], "has no variant"), ([{}], "unhashable")])
def test_variants_that_are_none(stated, fact):
    op = doubled(lambda _, __: stated)
    with pytest.raises(BadOperator, match=fact) as caught:
        kernel_of(bind(op, {"N": 4, "H": 8}), load_chip("ascend950pr"))
    assert caught.value.where.startswith("test_variants.py:")


def test_a_variant_that_fails_names_its_line():
    op = doubled(lambda call, _: call.dims["Q"])
    with pytest.raises(BadOperator, match="KeyError") as caught:
        kernel_of(bind(op, {"N": 4, "H": 8}), load_chip("ascend950pr"))
    assert caught.value.where.startswith("test_variants.py:")
