"""What holds of every plan: bytes and arenas, the largest tiles, values that do not depend on how they were tiled."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.sample_calls import (
    LARGE,
    MAIN,
    bits,
    cases,
    cases_of_kernels,
    choices,
    executed,
    kinds,
    made_up,
    one_chip_each,
    planned,
    small,
)
from tilesim.chip.loading import load_chip
from tilesim.errors import DoesNotFit
from tilesim.execution.interpreter import PhaseJob, execute
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.inequalities import inequalities
from tilesim.operators.binding import bind
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.isa import REGISTERS
from tilesim.program.loop_nest import cuts
from tilesim.program.loop_nest import tiles as places
from tilesim.program.recorder import Instr, walk

BLOCK_BYTES = 32
ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2}
EACH = cases(every_chip=False)
EVERY = cases(every_chip=True)
MAINS = [case for case in cases_of_kernels() if case[0] in MAIN]
ON_ONE_CHIP = list(
    {(name, dtype, str(sizes)): (name, chip, dtype, sizes) for name, chip, dtype, sizes in MAINS}.values()
)
"""Of every kernel, dtype and size one chip: what is about the executor alone."""


def aligned(size):
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def bytes_of(buffer, sizes):
    """Bytes of a buffer by its own words: rows padded to a block, slots one after the other."""
    elements = math.prod(int(s.bind(sizes)) for s in buffer.allocated)
    return aligned(elements * ITEM_BYTES.get(buffer.dtype, 1)) * buffer.slots


# -------------------------------------------------------------------- bytes and arenas
@pytest.mark.parametrize(
    ("name", "chip", "dtype", "sizes"),
    [
        *((*c, small(load_operator(c[0]))) for c in EVERY),
        *((*c, small(load_operator(c[0]), LARGE)) for c in EACH),
        *MAINS,
    ],
)
def test_inequalities_equal_an_aligned_allocation(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, sizes)
    limits = inequalities(one.kernel, one.chip)
    for phase in one.phases:
        for limit in (q for q in limits if q.phase == phase.phase.name):
            pool = limit.memory if limit.memory in one.kernel.reserves else ""
            space = "ub" if pool else limit.memory
            mine = [b for b in phase.phase.buffers if b.space == space and b.pool == pool]
            assert limit.left_bytes(phase.sizes) == sum(bytes_of(b, phase.sizes) for b in mine)
            assert limit.slack_bytes(phase.sizes) >= 0
            if not pool:
                kept = sum(r.bytes for r in one.kernel.reserves.values()) if space == "ub" else 0
                statics = sum(bytes_of(b, phase.sizes) for b in one.kernel.statics) if space == "ub" else 0
                memory = one.chip.memory.on_chip(space)
                whole = memory.size_bytes if "ub" in one.kernel.whole_memories else memory.visible_bytes
                budget = whole if space == "ub" else memory.visible_bytes
                assert limit.right_bytes(phase.sizes) == budget - kept - statics
        lie_apart(one, phase)


def lie_apart(one, phase):
    """Every buffer has its bytes, in its memory, to itself."""
    homes = list(phase.homes.items())
    assert {b for b, _ in homes} >= set(phase.phase.buffers)
    for buffer, home in homes:
        assert home.bytes * home.slots == bytes_of(buffer, phase.sizes)
        assert home.offset % BLOCK_BYTES == 0
        if home.space != REGISTERS:
            assert home.offset + home.bytes * home.slots <= one.chip.memory.on_chip(home.space).size_bytes
    for space in {home.space for _, home in homes}:
        spans = sorted((h.offset, h.offset + h.bytes * h.slots) for _, h in homes if h.space == space)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(("name", "sizes"), [(name, sizes) for name in MAIN for sizes in kinds(load_operator(name))])
def test_widening_a_buffer_changes_its_inequality(name, sizes):
    op, chip = load_operator(name), load_chip("ascend950pr")
    plain = kernel_of(bind(op, sizes), chip)
    for index, buffer in enumerate(all_buffers(plain)):
        for change in ("wider", "another slot") if len(plain.phases) == 1 else (("wider", "another slot")[index % 2],):
            changed = dataclasses.replace(op, kernel=altered(op, index, change))
            call = bind(changed, sizes)
            found = [
                (a.left_bytes(call.env) - b.left_bytes(call.env), b.right_bytes(call.env) - a.right_bytes(call.env))
                for a, b in zip(inequalities(kernel_of(call, chip), chip), inequalities(plain, chip), strict=True)
            ]
            if buffer.space == REGISTERS:
                assert not any(map(any, found))
            elif buffer.static:
                assert all(more == 0 for more, _ in found)
                assert any(less > 0 for _, less in found)
            else:
                assert [bool(more) for more, _ in found].count(True) == 1
                assert not any(less for _, less in found)


def all_buffers(kernel):
    yield from (b for phase in kernel.phases for b in phase.buffers)
    yield from kernel.statics


def altered(op, index, change):
    """The kernel function, with one buffer changed once it is recorded."""

    def kernel(k):
        op.kernel(k)
        buffer = list(all_buffers(k))[index]
        if change == "wider":
            *rows, last = buffer.allocated
            buffer.allocated = (*rows, last + BLOCK_BYTES)
        else:
            buffer.slots += 1
        buffer.__dict__.pop("slot_bytes", None)
        buffer.__dict__.pop("bytes", None)

    return kernel


@pytest.mark.parametrize(("name", "chip", "dtype", "sizes"), ON_ONE_CHIP)
def test_the_executor_needs_every_byte(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, sizes)
    for phase in one.phases:
        job = PhaseJob.of(phase)
        for space in {home.space for home in phase.homes.values()}:
            short = {**job.memory_bytes, space: phase.used_bytes(space) - BLOCK_BYTES}
            with pytest.raises(ValueError, match="size"):
                execute([dataclasses.replace(job, memory_bytes=short)], tensors(one))


def tensors(one):
    kernel = one.kernel
    present = [*(t for t in kernel.tensors.values() if t is not None), *kernel.workspaces.values()]
    dtypes = {"bool": np.bool_, "float32": np.float32, "float64": np.float64}
    return {
        t.name: np.zeros([int(s.bind(one.sizes)) for s in t.shape], dtypes.get(t.dtype, np.float16)) for t in present
    }


def test_a_plan_that_overflows_is_not_executed():
    tiny = load_chip("ascend950pr").override({"memory.ub.size_bytes": 9000})
    one = planned("masked_causal_conv1d_backward", tiny, "bfloat16")
    assert one.verdict.verdict == "overflow"
    with pytest.raises(DoesNotFit, match="does not fit: needs"):
        executed(one, {})


# -------------------------------------------------------------------- the largest tiles
WHOLE_SHARE = "the whole axis of a core's share"


@pytest.mark.parametrize(
    ("name", "chip", "dtype", "sizes"),
    [*((*case, small(load_operator(case[0]), LARGE)) for case in EACH), *cases_of_kernels()],
)
def test_the_largest_tile_fits_and_one_more_does_not(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, sizes)
    limits, fixed = inequalities(one.kernel, one.chip), one.operator.tiles(one.call, one.chip)
    for phase in (p for p in one.phases if p.phase.core_kind == "vector"):
        mine = [q for q in limits if q.phase == phase.phase.name]
        for tile, size in phase.tiles.items():
            assert all(q.holds(phase.sizes) for q in mine)
            step = phase.phase.tiles[tile].multiple_of
            if phase.reasons[tile] == "the largest that fits":
                more = size + step
            elif phase.reasons[tile] == "equal tiles, as few as fit":
                loops = [loop for loop in phase.phase.loops() if tile in loop.tile.names()]
                extent = max(int(loop.extent.bind(phase.sizes)) for loop in loops)
                fewer = -(-extent // (-(-extent // size) - 1))
                more = -(-fewer // step) * step
            else:
                if phase.reasons[tile] == WHOLE_SHARE:
                    assert tiles_of_a_core(phase, tile) <= 1
                elif tile not in fixed:
                    assert size >= cap_of(phase, tile)
                continue
            assert not all(q.holds({**phase.sizes, tile: more}) for q in mine), (phase.phase.name, tile, size)


def tiles_of_a_core(phase, tile):
    """The most tiles of that name that the core with the largest share has of a loop."""
    parts = {cut.loop: cut.parts for cut in cuts(phase.phase, phase.sizes)}
    loops = [loop for loop in phase.phase.loops() if tile in loop.tile.names() and loop.split != "cyclic"]
    return max((len(list(places(loop, phase.sizes, parts.get(loop, 1)))) for loop in loops), default=0)


def cap_of(phase, tile):
    """The size that a kernel states for a tile at most; of tiles that are made equal, the least that they can be."""
    stated = phase.phase.tiles[tile].cap
    assert stated is not None, "a reason is missing"
    cap = stated.bind({**phase.sizes, "copy_bytes": phase.chip.tiling.copy_bytes, "vector_cores": phase.cores})
    equal = any(tile in loop.tile.names() and (loop.even or loop.split == "cyclic") for loop in phase.phase.loops())
    return -(-cap // 2) if equal else cap


# -------------------------------------------------------------------- the documented inequalities
DOCUMENTED = {
    "gate backward": lambda _c, h, _r: 13 * h,
    "activation backward": lambda _c, h, r: 3 * h + 8 * r,
    "norm backward": lambda _c, h, _r: 13 * h,
    "fixed-order reduction": lambda _c, h, r: 7 * h + 6 * r,
}
"""Words of the vendor's document, by the phase that has them."""
CAPACITY = {"950": 62448, "a2": 39664, "a3": 39664}


@pytest.mark.parametrize("chip", one_chip_each(load_operator("text_gated_residual_grad")), ids=lambda c: c.name)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("tokens", [3, 300])
def test_gated_residual_gradients_have_the_documented_inequalities(chip, dtype, tokens):
    op = load_operator("text_gated_residual_grad")
    sides = np.arange(16, 5200, 16)
    c, h, r = np.arange(1, 21)[:, None, None], sides[None, :, None], sides[None, None, :200]
    for options in choices(op):
        call = bind(op, {"B": 2, "S": tokens, "C": 4, "H": 2560, "R": 320}, dtype=dtype, **options)
        env = {**call.env, "C": c, "H": h, "R": r, "D": c * h}
        capacity = CAPACITY[chip.family] - 16 * -(-c // 8)
        fits = np.ones(np.broadcast_shapes(c.shape, h.shape, r.shape), bool)
        for limit in inequalities(kernel_of(call, chip), chip):
            left, right = limit.left_bytes(env), limit.right_bytes(env)
            if limit.memory == "ub":
                words = DOCUMENTED[limit.phase](c, h, r)
                assert np.array_equal(np.broadcast_to(left, fits.shape), np.broadcast_to(4 * words, fits.shape))
                assert np.array_equal(np.broadcast_to(right, fits.shape), np.broadcast_to(4 * capacity, fits.shape))
                fits &= left <= right
            else:
                assert np.all(left <= right), (limit.phase, limit.memory)
        documented = (13 * h <= capacity) & (3 * h + 8 * r <= capacity) & (7 * h + 6 * r <= capacity)
        assert np.array_equal(fits, documented)


@pytest.mark.parametrize("name", ["text_gated_residual", "text_gated_residual_grad"])
def test_the_forward_fits_wherever_the_backward_does(name):
    op = load_operator(name)
    for chip in one_chip_each(op):
        for channels in (1, 4, 8, 20):
            most = (CAPACITY[chip.family] - 16 * -(-channels // 8)) // 13 // 16 * 16
            call = bind(op, {"B": 1, "S": 1, "C": channels, "H": most, "R": 640})
            assert all(q.holds(call.env) for q in inequalities(kernel_of(call, chip), chip))


# -------------------------------------------------------------------- values and tiles
SUMS = {
    ("text_gated_residual_grad", "dgamma"): {"cores"},
    ("masked_causal_conv1d_backward", "gradWeight"): {"rows"},
    ("softmax", "y"): {"depth"},
    ("mhc_post_backward", "grad_h_post"): {"columns"},
    ("mhc_sinkhorn_backward", "grad_input"): {"tokens", "cores"},
    ("rms_norm", "rstd"): {"columns"},
    ("rms_norm", "y"): {"columns"},
}
"""Outputs made of sums or of inputs in the plan's order, and what of the plan that order depends on."""


def variations(one):
    """Tiles and cores to plan with instead: all tiles halved, all tiles a seventh; one core and a few."""
    for part in (2, 7):
        tiles = {}
        for phase in one.phases:
            for tile, size in phase.tiles.items():
                step = phase.phase.tiles[tile].multiple_of
                tiles[f"{phase.phase.name}.{tile}"] = max(step, size // part // step * step)
        yield tiles
    yield from ({"cores": n} for n in (1, 7))


@pytest.mark.parametrize(
    ("name", "chip", "dtype", "sizes"), [c for c in cases_of_kernels() if c[0] in MAIN or c[1].startswith("ascend950")]
)
def test_values_do_not_depend_on_tiles_and_cores(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, sizes)
    inputs = made_up(one)
    expected = bits(executed(one, inputs))
    for tiles in variations(one):
        keys = {tile.rpartition(".")[-1] for tile in tiles}
        skipped = {n for (o, n), causes in SUMS.items() if o == name and keys & causes}
        found = bits(executed(plan(one.operator, sizes, chip=chip, dtype=dtype, tiles=tiles), inputs))
        assert {n for n in found if found[n] != expected[n]} <= skipped, tiles


@pytest.mark.parametrize(("name", "chip", "dtype", "sizes"), ON_ONE_CHIP)
def test_values_repeat_whatever_the_threads(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, sizes)
    inputs = made_up(one)
    expected = bits(executed(one, inputs))
    for threads, blas in ((2, 1), (5, 2)):
        with threadpool_limits(blas):
            assert bits(executed(one, inputs, threads=threads)) == expected


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(33, 40), (40, 33), (17, 17)])
def test_a_product_does_not_depend_on_a_tile_of_one_row_or_column(rows, columns, dtype):
    sizes = {"x1": (rows, 300), "x2": (300, columns)}
    one = planned("matmul", "ascend910b1", dtype, sizes, tiles={"m": 64, "n": 64})
    inputs = made_up(one)
    tails = planned("matmul", "ascend910b1", dtype, sizes, tiles={"m": 16, "n": 16})
    assert bits(executed(tails, inputs)) == bits(executed(one, inputs))


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1"])
def test_large_products_repeat_whatever_the_threads(chip):
    sizes = {"B": 1, "S": 130, "C": 2, "H": 512, "R": 128}
    one = planned("text_gated_residual_grad", chip, "bfloat16", sizes)
    inputs = made_up(one)
    found = []
    for threads, blas in ((1, 1), (1, 2), (2, 2)):
        with threadpool_limits(blas):
            found.append(bits(executed(one, inputs, threads=threads)))
    assert found[0] == found[1] == found[2]


ROW_AXES = {
    "text_gated_residual_grad": ({"dx": (0, 1)}, (0, 1)),
    "text_gated_residual": (dict.fromkeys(("mixed", "invRms", "downPreAct", "up", "inject"), (0, 1)), (0, 1)),
    "masked_causal_conv1d_backward": ({"gradX": (1,)}, (1,)),
    "masked_causal_conv1d": ({"out": (1,)}, (1,)),
    "glu_backward": ({"out": (0,)}, (0,)),
    "glu": ({"out": (0,)}, (0,)),
}
"""The outputs that are made row by row, and the axes of rows: tokens, sequences, rows."""
WEIGHTS = {"wDown", "wUp", "wGate", "gamma", "weight", "mask"}


@pytest.mark.parametrize(("name", "chip", "dtype", "sizes"), ON_ONE_CHIP)
def test_a_row_does_not_depend_on_its_neighbours(name, chip, dtype, sizes):
    one = planned(name, chip, dtype, {"self": (7, 6), "dim": -1} if "X" in sizes else sizes)
    outputs, axes = ROW_AXES[name]
    inputs = made_up(one)
    before = executed(one, inputs)
    for row in (0, 1):
        at = tuple(slice(row, row + 1) if axis in axes else slice(None) for axis in range(max(axes) + 1))
        others = {}
        for key, array in made_up(one, seed=9).items():
            others[key] = inputs[key] if key in WEIGHTS else array * 16
            if key not in WEIGHTS:
                others[key][at] = inputs[key][at]
        after = executed(one, others)
        for output in outputs:
            assert before[output][at].tobytes() == after[output][at].tobytes(), output


# -------------------------------------------------------------------- one definition
SMALL_PRODUCTS = {"m": 16, "n": 16, "k1": 64}
HIDDEN = {
    "text_gated_residual_grad": {
        # Of a single partial sum nothing is lost that compensation could give back.
        "values": {f"{op} {buffer}" for op in ("sub", "fill") for buffer in ("compH", "compR", "partialH", "partialR")}
        | {"sub dgammaComp", "sub work32"},
        "cycles": {"clear c"},
    },
    "text_gated_residual": {"cycles": {"clear c"}},
    "masked_causal_conv1d_backward": {"values": {"fill sums"}, "cycles": {"fill rowSum"}},
}
"""What a small call does not show: a first product that overwrites, what a longer pipe of a vector function hides."""


@pytest.mark.parametrize(("name", "chip"), [(n, "ascend910b1" if "text" in n else "ascend950pr") for n in MAIN])
def test_removing_an_instruction_changes_values_graph_and_cycles(name, chip):
    op = load_operator(name)
    sizes = {"self": (200, 6), "dim": -1} if name.startswith("glu") else small(op, {"B": 2, "S": 70, "C": 3, "H": 48})
    sizes |= {"S": 5} if name.startswith("text") else {}
    tiles = SMALL_PRODUCTS if name.startswith("text") else {}
    base = plan(op, sizes, chip=chip, tiles=tiles)
    inputs = made_up(base)
    before = traits(base, inputs)
    total = sum(1 for phase in base.kernel.phases for _ in phase.instructions())
    same = {"values": set(), "graph": set(), "cycles": set()}
    for index in range(0, total, 1 + total // 25):
        removed = []
        changed = dataclasses.replace(op, kernel=without(op, index, removed))
        after = traits(plan(changed, sizes, chip=chip, tiles=tiles), inputs)
        for trait, was, now in zip(same, before, after, strict=True):
            if was == now:
                same[trait].add(removed[0])
    for trait, found in same.items():
        assert found <= HIDDEN.get(name, {}).get(trait, set()), trait


def traits(one, inputs):
    """The values, the graph and the busy cycles of a plan."""
    graph = one.graph()
    nodes = sorted(str(sorted(data.items(), key=str)) for _, data in graph.nodes(data=True))
    edges = sorted(str(data) for *_, data in graph.edges(data=True))
    return bits(executed(one, inputs)), (nodes, edges), [p.busy_cycles for p in one.phases]


def without(op, index, removed):
    """The kernel function, with one instruction taken out once it is recorded."""

    def kernel(k):
        op.kernel(k)
        places = [
            (around[-1].body if around else phase.body, node)
            for phase in k.phases
            for node, around in walk(phase.body)
            if isinstance(node, Instr)
        ]
        body, node = places[index]
        body.remove(node)
        removed.append(f"{node.op} {node.dst.base.name}")

    return kernel
