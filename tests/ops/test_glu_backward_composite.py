"""The composite of glu_backward: its values, its workspace, its launches, and what fusing would save."""

import json
import math

import ml_dtypes
import numpy as np
import pytest

from tests.reference import glu_backward, tolerance
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, Refused
from tilesim.execution.aclnn import get_workspace_size
from tilesim.planning.plan import plan
from tilesim.program.dtypes import itemsize, numpy_dtype
from tilesim.simulation.fusion_saving import fusion_saving
from tilesim.simulation.timeline import simulate

GLU = "glu_backward"
SHAPES = [((2, 4, 6), -1), ((7, 66), 1), ((64,), 0), ((3, 4, 5, 6), 1), ((1000, 2), 1), ((2, 90000), 1), ((6, 1, 3), 0)]
MIB = 1 << 20


def ran(chip, shape, dim, dtype, spread=4.0):
    """(inputs, out, executor) of one call."""
    inputs = glu_backward.random_inputs(shape, dim, dtype, seed=5, spread=spread)
    kind = numpy_dtype(dtype)
    out = np.zeros(shape, kind)
    own = [inputs[name].astype(kind) for name in ("gradOut", "self")]
    status, size, executor = get_workspace_size("aclnnGluBackward", *own, dim, out, chip=chip)
    assert status.ok
    assert executor.run(bytearray(size)).ok
    return inputs, out, executor


def launch_by_launch(grad_out, own, dim, dtype):
    """The seven operators in numpy: float32 inside each, its result rounded to the tensor's dtype."""
    kind = numpy_dtype(dtype)

    def rounded(value):
        return np.asarray(value, np.float32).astype(kind).astype(np.float32)

    a, b = np.split(own.astype(np.float32), 2, axis=dim)
    g = grad_out.astype(np.float32)
    with np.errstate(over="ignore"):
        s = rounded(np.float32(1) / (np.float32(1) + np.exp(-b)))
    grad_a, a_s = rounded(g * s), rounded(a * s)
    grad_b = rounded(grad_a * rounded(a - a_s))
    return np.concatenate([grad_a, grad_b], axis=dim).astype(kind)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("chip", ["ascend910b1", "ascend910_9391"])
def test_bfloat16_is_rounded_after_every_launch(chip, shape, dim):
    inputs, out, executor = ran(chip, shape, dim, "bfloat16", spread=15.0)
    expected = launch_by_launch(inputs["gradOut"], inputs["self"], dim, "bfloat16")
    np.testing.assert_array_equal(out.view(np.uint16), expected.view(np.uint16))
    # In float64 no gate below -88 becomes 0, so that spread would differ.
    second = glu_backward.composite(inputs, dim, "bfloat16")["out"].astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out.view(np.uint16), second.view(np.uint16))
    assert [p.phase.name for p in executor.plan.phases] == [
        *("SplitV", "Sigmoid", "Mul gradOut", "Mul a", "Sub", "Mul gradA", "ConcatD"),
    ]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("chip", ["ascend910b1", "ascend310p3"])
def test_float16_goes_through_float32(chip, shape, dim):
    inputs, out, executor = ran(chip, shape, dim, "float16")
    expected = launch_by_launch(inputs["gradOut"], inputs["self"], dim, "float32").astype(np.float16)
    np.testing.assert_array_equal(out, expected)
    tolerance.assert_glu(
        {"out": out.astype(np.float64)},
        glu_backward.backward(inputs, dim),
        glu_backward.tolerance_scale(inputs, dim),
        "float16",
    )
    names = [p.phase.name for p in executor.plan.phases]
    assert (len(names), [n for n in names if n.startswith("Cast")]) == (10, ["Cast self", "Cast gradOut", "Cast out"])


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1", "ascend310p3", "ascend910a"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_floats(chip, dtype, shape, dim):
    inputs, out, executor = ran(chip, shape, dim, dtype)
    tolerance.assert_glu(
        {"out": out.astype(np.float64)},
        glu_backward.backward(inputs, dim),
        glu_backward.tolerance_scale(inputs, dim),
        dtype,
    )
    fused = (chip, dtype) == ("ascend950pr", "float32")
    assert (executor.plan.route, len(executor.plan.phases)) == (("kernel", 1) if fused else ("composite", 7))


def test_values_do_not_depend_on_the_chip():
    outs = [ran(chip, (5, 700), 1, "float16")[1] for chip in ("ascend910b1", "ascend910b4", "ascend310p3")]
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize(
    ("chip", "dtype"),
    [
        ("ascend910b1", "bfloat16"),
        ("ascend910b1", "float16"),
        ("ascend950pr", "float64"),
        ("ascend310p3", "float32"),
        ("ascend910a", "float16"),
    ],
)
def test_workspace(chip, dtype, shape, dim):
    """Seven halves between the launches; float16 also self, gradOut and out in float32; each on 512 bytes."""
    half = math.prod(shape) // 2
    size = 4 if dtype == "float16" else itemsize(dtype)
    wide = [2 * half, half, *[half] * 7, 2 * half] if dtype == "float16" else [half] * 7
    *before, last = [elements * size for elements in wide]
    used = sum(-(-one // 512) * 512 for one in before) + last
    made = plan(GLU, {"self": shape, "dim": dim}, chip=chip, dtype=dtype)
    system = 16 * MIB if load_chip(chip).arch in ("2201", "3510") else 2 * MIB
    assert made.workspace_bytes == system + used
    assert len(made.workspace) == len(wide)


# -------------------------------------------------------------------- time
@pytest.mark.parametrize(("chip", "dtype"), [("ascend910b1", "bfloat16"), ("ascend950pr", "float64")])
def test_every_launch_is_paid(chip, dtype):
    made = plan(GLU, {"self": (64, 2560)}, chip=chip, dtype=dtype)
    times, launch = simulate(made), made.chip.launch
    paid = sum(launch.base_us + launch.block_us * (phase.cores - 1) for phase in made.phases)
    assert times.launch_us == pytest.approx(paid)
    assert times.sync_us == 0
    assert times.time_us == pytest.approx(paid + sum(phase.time_us for phase in times.phases))


@pytest.mark.parametrize(
    ("chip", "dtype", "passes", "launches"),
    [
        ("ascend910b1", "float32", 22, 7),
        ("ascend910b1", "bfloat16", 22, 7),
        ("ascend910_9391", "bfloat16", 22, 7),
        ("ascend310p3", "float32", 22, 7),
        # in float16: the casts read 5 halves of 2 bytes and write 2, and as many of 4 bytes the other way about
        ("ascend910b1", "float16", 44 + 5 + 10, 10),
    ],
)
@pytest.mark.parametrize("shape", [(64, 2560), (4096, 11008), (3, 300000)])
def test_what_fusing_saves(chip, dtype, passes, launches, shape):
    made = plan(GLU, {"self": shape}, chip=chip, dtype=dtype)
    saving = fusion_saving(made)
    half = math.prod(shape) // 2 * itemsize(dtype)
    assert (saving.composite.launches, saving.fused.launches) == (launches, 1)
    assert (saving.composite.bytes, saving.fused.bytes) == (passes * half, 5 * half)
    assert saving.saved.bytes == saving.composite.bytes - saving.fused.bytes
    assert saving.composite.time_us == simulate(made).time_us
    assert saving.saved.time_us > 0
    assert saving.fused_plan.kernel.variant in ("small", "big")
    assert saving.fused_plan.tiling_data is not None
    data = json.loads(json.dumps(saving.to_json()))
    assert data.keys() == {"composite", "fused", "saved"}
    assert data["saved"]["launches"] == launches - 1


def test_the_fused_plan_is_the_one_of_a_chip_that_has_the_kernel():
    """Where memory and cores are the same, so is the tiling."""
    old = load_chip("ascend910b1")
    new = load_chip("ascend950pr").override(
        {"cores.vector": old.cores.vector, "memory.ub.size_bytes": old.memory.ub.visible_bytes}
    )
    for shape in ((64, 2560), (7, 30000)):
        fused = fusion_saving(plan(GLU, {"self": shape}, chip=old, dtype="float16")).fused_plan
        assert fused.tiling_data == plan(GLU, {"self": shape}, chip=new, dtype="float16").tiling_data


def test_what_cannot_be_fused():
    with pytest.raises(BadInput, match="route 'kernel'; there is nothing to fuse"):
        fusion_saving(plan(GLU, {"self": (4, 8)}, chip="ascend950pr"))
    with pytest.raises(BadInput, match="float32, float16, bfloat16; given float64"):
        fusion_saving(plan(GLU, {"self": (4, 8)}, chip="ascend950pr", dtype="float64"))
    chip = load_chip("ascend910b1").override({"memory.ub.size_bytes": 196864})  # 196608 visible
    with pytest.raises(Refused, match="divide by zero"):
        fusion_saving(plan(GLU, {"self": (4, 9420)}, chip=chip))
