"""On-chip memory of an execution: a fresh write takes the next slot, and what nothing wrote is NaN."""

import numpy as np
import pytest

from tilesim.execution.interpreter import PhaseJob, Worker
from tilesim.execution.run import run
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.planning.plan import plan
from tilesim.program.dtypes import numpy_dtype

N, H = Dimension("N"), Dimension("H")
CHIP = "ascend950pr"
TILES = 7


def planned(body, dtype="float32"):
    """The plan of a kernel that records `body` as its only phase, from x to y of N rows."""

    def kernel(k):
        with k.vector("p") as p:
            body(k, p)

    op = Operator(
        name="made_up",
        api="",
        about="",
        dims=(N, H),
        tensors=(Argument("x", "N H"), result("y", "N H")),
        lead="x",
        kernel=kernel,
        dtypes={"950": (dtype,)},
        dtype=dtype,
    )
    return plan(op, {"N": TILES, "H": 64}, chip=CHIP, dtype=dtype)


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_tiles_take_the_slots_in_turn(slots, parts):
    """Also tiles that are loaded part by part: the first part takes the next slot, the others go on in it."""
    size = 64 // parts

    def body(k, p):
        for n in p.loop("n", N.size):
            b = p.buffer("b", H.size, k.dtype, slots=slots)
            for first in range(0, 64, size):
                p.load(k["x"][n.start, first : first + size], out=b[first : first + size])
            p.store(p.read(b), k["y"][n.start])

    (phase,) = planned(body).phases
    x = np.arange(TILES, dtype=np.float32)[:, None] + np.zeros(64, np.float32)
    worker = Worker(PhaseJob.of(phase), {"x": x, "y": np.empty_like(x)})
    worker.run(0)
    (buffer,) = phase.homes
    kept = sorted(worker.slots[buffer].arrays, key=lambda array: array.flat[0])
    np.testing.assert_array_equal(kept, x[-slots:], "each slot keeps one of the last tiles")


@pytest.mark.parametrize("part", [1, 8, 63])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_nothing_wrote_is_nan(dtype, part):
    def body(k, p):
        for n in p.loop("n", N.size):
            b = p.buffer("b", H.size, k.dtype)
            p.load(k["x"][n.start, :part], out=b[:part])
            p.store(p.read(b), k["y"][n.start])

    x = np.ones((TILES, 64), numpy_dtype(dtype))
    y = run(planned(body, dtype), {"x": x}).outputs["y"].astype(np.float32)
    assert (y[:, :part] == 1).all()
    assert np.isnan(y[:, part:]).all()
