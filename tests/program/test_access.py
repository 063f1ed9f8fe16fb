"""Accesses outside a tensor or buffer: refused with the author's line when planned, or when run at the latest."""

import sys

import numpy as np
import pytest

from tilesim.errors import BadOperator
from tilesim.execution.run import run
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.planning.plan import plan
from tilesim.program import access as bounds
from tilesim.program.buffers import Range
from tilesim.program.sizes import ONE

N, H = Dimension("N"), Dimension("H")
W, O = Dimension("W", default=8), Dimension("O", default=0, least=0)
CHIP = "ascend910b3"


def loaded(key, split=True, tile=None):
    """A body that copies x to y, reading what `key` says of a tile."""

    def body(k, p):
        for n in p.loop("n", N.size, p.tile("rows") if tile is None else tile, split=split):
            p.store(p.load(k["x"][key(n)], name="b"), k["y"][n if tile is None else n.start])

    return body


def stored(key):
    def body(k, p):
        for n in p.loop("n", N.size, p.tile("rows"), split=True):
            p.store(p.load(k["x"][n], name="b"), k["y"][key(n)])

    return body


def through(row, back=0):
    """A body that takes every row through one of the four of a buffer."""

    def body(k, p):
        for n in p.loop("n", N.size, split=True):
            b = p.buffer("b", (4, H.size), k.dtype, slots=2)
            p.load(k["x"][n.start], out=b[row])
            p.store(p.read(b)[back], k["y"][n.start])

    return body


def inner(k, p):
    """One row too far in an inner loop of few tiles."""
    for n in p.loop("n", N.size, 4, split="cyclic"):
        for r in p.loop("r", n.size):
            p.store(p.load(k["x"][n.start + r.start + 1], name="b"), k["y"][n.start + r.start])


def columns(k, p):
    for n in p.loop("n", N.size, p.tile("rows"), split=True):
        p.store(p.load(k["x"][n, Range(O.size, W.size)], name="b"), k["y"][n, Range(O.size, W.size)])


OUTSIDE = {
    "before": (loaded(lambda n: n.start - 1, tile=1), "copy reads 'x[n.start - 1, :]' outside 'x': -1 on axis 0"),
    "after": (loaded(lambda n: n.start + 1, tile=1), "copy reads 'x[n.start + 1, :]' outside 'x': 64 on axis 0"),
    "block": (loaded(lambda n: n.start + 1, "block", 1), "copy reads 'x[n.start + 1, :]' outside 'x': 64 on axis 0"),
    "cyclic": (loaded(lambda n: n.start + 1, "cyclic", 1), "copy reads 'x[n.start + 1, :]' outside 'x': 64 on axis 0"),
    "one core": (loaded(lambda n: n.start - 2, "", 1), "copy reads 'x[n.start - 2, :]' outside 'x': -2 on axis 0"),
    "end": (loaded(lambda n: Range(n.start + 3, n.size)), "copy reads 'x[n.start + 3:+n.size, :]' outside 'x': 6"),
    "store": (stored(lambda n: Range(n.start + 3, n.size)), "copy writes 'y[n.start + 3:+n.size, :]' outside 'y': 6"),
    "inner": (inner, "copy reads 'x[n.start + r.start + 1, :]' outside 'x': 64 on axis 0"),
    "buffer after": (through(5), "copy writes 'b[5, :]' outside 'b': 5 on axis 0, which has 4"),
    "buffer before": (through(-1), "copy writes 'b[-1, :]' outside 'b': -1 on axis 0, which has 4"),
    "buffer read": (through(0, -1), "copy reads 'b[-1, :]' outside 'b': -1 on axis 0, which has 4"),
    "columns": (columns, "copy reads 'x[n.start:+n.size, O:+W]' outside 'x': 30 to 39 on axis 1, which has 32"),
}


def operator(body):
    def kernel(k):
        with k.vector("p") as p:
            body(k, p)

    return Operator(
        name="odd",
        api="",
        about="",
        dims=(N, H, W, O),
        tensors=(Argument("x", "N H"), result("y", "N H")),
        lead="x",
        kernel=kernel,
        dtypes={"a2": ("float32",)},
        dtype="float32",
    )


def planned(body):
    return plan(operator(body), {"N": 64, "H": 32, "W": 10, "O": 30}, chip=CHIP)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_plan_names_the_line_that_leaves_a_tensor(name):
    body, fact = OUTSIDE[name]
    with pytest.raises(BadOperator) as caught:
        planned(body)
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.startswith("test_access.py:")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", OUTSIDE)
def test_an_execution_refuses_what_a_plan_did_not_see(name, threads, monkeypatch):
    body, fact = OUTSIDE[name]
    monkeypatch.setattr(sys.modules["tilesim.planning.plan"], "refuse_outside", lambda *_: None)
    made = planned(body)
    with pytest.raises(BadOperator) as caught:
        run(made, {"x": np.zeros((64, 32), np.float32)}, threads=threads)
    assert caught.value.fact.startswith(fact.rpartition(": ")[0])
    assert caught.value.where.startswith("test_access.py:")


@pytest.mark.parametrize("count", [1, 3, 64, 1000])
def test_what_lies_inside_is_planned_and_run(count):
    def shifted(k, p):
        """Every row but the first from the one before, in tiles of the rows that are left."""
        for n in p.loop("n", N.size - 1, p.tile("rows", 5), split=True):
            p.store(p.load(k["x"][Range(n.start, n.size)], name="b"), k["y"][Range(n.start + 1, n.size)])
        for n in p.loop("m", 1):
            p.store(p.load(k["x"][Range(N.size - 1 - n.start, ONE)], name="c"), k["y"][0:1])

    x = np.arange(count * 8, dtype=np.float32).reshape(count, 8)
    made = run(plan(operator(shifted), {"N": count, "H": 8}, chip=CHIP), {"x": x})
    np.testing.assert_array_equal(made.outputs["y"], np.roll(x, 1, axis=0))


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [(0, 4, True), (1, 4, False), (-1, 1, False), (3, 1, True), (4, 1, False), (9, 0, True), (0, -1, False)],
)
def test_what_is_inside_an_axis_of_four(start, count, expected):
    assert bounds.inside(start, count, 4) is expected
