"""Limits against a search by hand: the largest tile of an inequality and of a phase, the smallest memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sample_calls import OPERATORS, chips_of, small
from tilesim.chip.loading import load_chip
from tilesim.feasibility.inequalities import Inequality
from tilesim.feasibility.verdict import check
from tilesim.operators import Argument, Dimension, Operator, result
from tilesim.ops import load_operator
from tilesim.program.buffers import Buffer
from tilesim.program.sizes import Size, dim

PR = load_chip("ascend950pr")
UB = "memory.ub.size_bytes"
N, H = Dimension("N"), Dimension("H")


@given(
    each=st.integers(1, 9),
    fixed=st.integers(0, 40),
    room=st.integers(0, 60),
    beyond=st.integers(-8, 8),
    step=st.integers(1, 8),
)
def test_the_largest_tile_is_the_largest_of_all(each, fixed, room, beyond, step):
    buffer, cap = Buffer("b", "ub", (), (), "int8"), max(room + beyond, 0)
    right = Size.of(each * room + fixed)
    limit = Inequality("p", "ub", ((buffer, each * dim("rows") + fixed),), right, {"rows": step})
    tiles = [*range(step, cap, step), *([cap] if cap else [])]
    assert limit.largest("rows", {}, cap, step) == max((tile for tile in tiles if tile <= room), default=0)


@pytest.mark.parametrize("pool_bytes", [256, 4096])
def test_a_tile_is_limited_by_the_memory_and_by_the_pool(pool_bytes):
    def kernel(k):
        k.reserve("scratch", pool_bytes, "kept back")
        with k.vector("p") as p:
            for n in p.loop("n", N.size, p.tile("rows")):
                x = p.load(k["x"][n], name="x", slots=1)
                most = p.row_max(x, out=p.buffer("most", n.size, pool="scratch"))
                p.store(p.sub_rows(x, most, out=x), k["y"][n])

    op = Operator(
        name="made_up",
        api="",
        about="",
        dims=(N, H),
        tensors=(Argument("x", "N H"), result("y", "N H")),
        lead="x",
        kernel=kernel,
        dtypes={"950": ("float32",)},
        dtype="float32",
    )
    verdict = check(op, {"N": 10000, "H": 64}, chip=PR)
    memory, pool = (PR.memory.ub.visible_bytes - pool_bytes) // 256, pool_bytes // 4
    assert verdict.limits["p.rows"] == min(memory, pool)
    assert (memory < pool) == (pool_bytes == 4096)


@pytest.mark.parametrize("size_bytes", [32, 4096, 8000])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_larger_memory_is_the_smallest_that_is_enough(name, size_bytes):
    op = load_operator(name)
    for chip in chips_of(op)[-1:]:
        verdict = check(op, small(op), chip=chip.override({UB: size_bytes}))
        enough = [remedy.override[UB] for remedy in verdict.remedies if UB in remedy.override]
        assert verdict.ok or len(enough) == 1
        for least in enough:
            assert check(op, small(op), chip=chip.override({UB: least})).ok
            assert not check(op, small(op), chip=chip.override({UB: least - 32})).ok
