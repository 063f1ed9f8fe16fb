"""Golden gradients through plan and run, and the example of the document."""

from pathlib import Path

import numpy as np
import pytest

from tests import golden
from tests.sample_calls import judge
from tilesim.execution.inputs import given_from_arrays
from tilesim.execution.run import run
from tilesim.execution.verify import verify
from tilesim.planning.plan import plan

SHARED = Path(__file__).parents[3] / "shared" / "golden" / "numerics"
NAMES = {"tgr": "text_gated_residual_grad", "con": "masked_causal_conv1d_backward", "glu": "glu_backward"}
ATTRIBUTES = ("channels", "dim")


def check(name, dtype, attributes, inputs, expected):
    arrays = {**inputs, **{n: np.array(v) for n, v in attributes.items() if n in ATTRIBUTES}}
    one = plan(name, given_from_arrays(name, arrays, dtype), chip="ascend950pr", dtype=dtype)
    for threads in (1, 3):
        made = run(one, inputs, threads=threads)
        judge(one, inputs, made.outputs, expected)
        assert all(difference.ok for difference in verify(made, one, inputs))


@pytest.mark.parametrize("case", golden.gradient_cases(), ids=lambda case: case.name)
def test_golden_gradients(case):
    check(case.operator, case.dtype, case.attributes, case.inputs, case.expected)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the full-precision golden gradients are not next to this checkout")
@pytest.mark.parametrize("path", sorted(SHARED.glob("*.npz")), ids=lambda path: path.stem)
def test_full_precision_gradients(path):
    with np.load(path) as archive:
        stored = {name: archive[name] for name in archive.files}
    attributes = {name: int(stored[name]) for name in ATTRIBUTES if name in stored}
    inputs = {name[3:]: x for name, x in stored.items() if name.startswith("in_")}
    expected = {name[4:]: x for name, x in stored.items() if name.startswith("exp_")}
    check(NAMES[path.stem[:3]], str(stored["dtype"]), attributes, inputs, expected)


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1", "ascend910_9391"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_example_of_the_document(chip, dtype):
    sizes = {"B": 1, "S": 2, "C": 4, "H": 16, "R": 16}
    one = plan("text_gated_residual_grad", sizes, chip=chip, dtype=dtype)
    specs = {name: one.call.specs[name] for name in one.kernel.tensors if one.kernel[name].role == "input"}
    inputs = {name: np.zeros(spec.shape, np.float32) for name, spec in specs.items()}
    for name, value in {"gradMixed": 1, "gradInject": 1, "invRms": 1000, "inject": 1}.items():
        inputs[name] += value
    made = run(one, inputs).outputs
    assert np.array_equal(made["dx"].astype(np.float32), np.full((1, 2, 64), 125, np.float32))
    assert set(made) == {"dx", "dwDown", "dwUp", "dwGate", "dgamma"}
    assert all(not made[name].any() for name in ("dwDown", "dwUp", "dwGate", "dgamma"))
