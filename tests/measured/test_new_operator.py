"""A new operator that is measured needs its own file and nothing else: a temporary file beside the shipped ones."""

import json
import sys

import numpy as np
import pytest

import tilesim
import tilesim.ops
from tests.measured.test_compare import SUMMARY, written
from tilesim.measured.error_bands import known_accuracy
from tilesim.measured.validate import validate
from tilesim.ops import operators_shipped
from tilesim.planning.plan import plan

RELU = '''
"""max(x, 0)."""
from tilesim.kernels import flat_tiles, pointwise

def kernel(k):
    with k.vector("relu") as p:
        for t in flat_tiles(k, p):
            t.store(p.maxs(t.load("x"), 0.0, out=t.room("y")), "y")

relu = pointwise(
    "relu", kernel, about="rectified unit", inputs="x", kernel_names=("Relu", "ReluV2"), accuracy_class="elementwise"
)
'''
SHIFT = '''
"""x + amount, whose measured kernel has the option `exact` and states its amount."""
from dataclasses import replace

from tilesim.kernels import attribute, flat_tiles, pointwise
from tilesim.operators import Attribute, Option, Sample, Unmapped, call_of_shapes

def kernel(k):
    with k.vector("shift") as p:
        for t in flat_tiles(k, p):
            t.store(p.adds(t.load("x"), attribute("amount"), out=t.room("y")), "y")

def kernel_call(row):
    call = call_of_shapes(shift, row)
    if row.variant:
        return call
    if "amount" not in row.attributes:
        raise Unmapped("the source states no amount")
    given = {**call.given, "amount": float(row.attributes["amount"])}
    return replace(call, given=given, note="in the exact form")

shift = pointwise(
    "shift",
    kernel,
    about="sum with a number",
    inputs="x",
    attributes=(Attribute("amount", default=1.0),),
    options=(Option("exact", default=False),),
    kernel_names=("Shift",),
    accuracy_class="shifts",
    measured_options={"exact": True},
    kernel_call=kernel_call,
    sample=Sample("Shift", lambda record: {"elements": record["tile_elems"]}),
)
'''
HEAD = "chip,operator,shape,dtype,time_us,tier,attributes"


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The package's operators with two more."""
    folder = tmp_path / "ops"
    folder.mkdir()
    for name, text in {"relu": RELU, "shift": SHIFT}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    shipped = operators_shipped()
    monkeypatch.setattr(tilesim.ops, "__path__", [*tilesim.ops.__path__, str(folder)])
    yield shipped
    for name in ("relu", "shift"):
        sys.modules.pop(f"tilesim.ops.{name}", None)
        vars(tilesim.ops).pop(name, None)


def test_it_is_one_of_the_operators(files):
    assert set(operators_shipped()) - set(files) == {"relu", "shift"}
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    outputs = tilesim.run(plan("relu", {"x": (3,)}, chip="ascend910b2"), {"x": x}).outputs
    assert outputs["y"].tolist() == [0.0, 0.0, 2.0]


def test_a_measured_row_is_predicted_and_has_its_class(tmp_path):
    rows = (
        "ascend910b2,relu_v2,2048x2048,float32,40,A,",
        "ascend910b2,Shift,64x64,float16,9,A,amount=2.5",
        "ascend910b2,Shift,64x64,float16,9,A,",
    )
    validation = validate(written(tmp_path, HEAD, *rows), "ascend910b2")
    assert {name: s.rows for name, s in validation.families.items()} == {"elementwise": 1, "shifts": 1}
    assert all(compared.predicted_us > 0 for compared in validation.compared)
    assert validation.notes == {("Shift", "float16"): {"in the exact form": 1}}
    assert [reason for _, reason in validation.skipped] == ["the source states no amount"]
    call = validation.compared[1].row.call
    assert (call.given["amount"], call.options) == (2.5, {"exact": True})


def test_a_row_of_a_profile_is_predicted_and_has_its_accuracy(tmp_path):
    row = 'r,ReluV2,AI_CORE,40.5,48,"""2048,2048""",FLOAT,"""2048,2048"""'
    (kernel,) = tilesim.compare(written(tmp_path, SUMMARY, row), "ascend910b2").kernels
    assert (kernel.operator, kernel.fixed_from) == ("relu", "launch")
    assert kernel.predicted_us > kernel.fixed_us > 0
    assert kernel.accuracy.validated
    assert kernel.accuracy.kind == "elementwise"


def test_a_record_of_a_published_sample_is_predicted_by_its_build(tmp_path):
    record = {
        "chip": "Ascend910B2",
        "op": "Shift",
        "shapes": {"inputs": [[4096, 64]]},
        "dtype": {"inputs": ["float16"]},
        "duration_us": 10.0,
        "tier": "A",
        "tile_elems": 2048,
        "block_dim": 8,
    }
    file = tmp_path / "m.json"
    file.write_text(json.dumps([record, record | {"single_kernel": True, "attrs": {"amount": 1, "who": 2}}]), "utf-8")
    sample, library = validate(file, "ascend910b2").compared
    assert sample.row.variant == {"elements": 2048, "cores": 8}
    assert sample.prediction.plan.by_hand == {"elements": 2048, "cores": 8}
    assert sample.prediction.plan.chip.memory.ub.reserved_bytes == 0
    assert (library.row.variant, library.row.attributes) == ({}, {"amount": 1})


def test_the_class_and_the_measured_form_decide_what_is_known():
    plans = {exact: plan("shift", {"x": (64, 64)}, chip="ascend910b2", exact=exact) for exact in (True, False)}
    texts = {exact: str(known_accuracy(made.call, made.chip)) for exact, made in plans.items()}
    assert texts == {
        True: "unvalidated: no measured shifts kernel of ascend910b2",
        False: "unvalidated: no measured row is predicted with exact=false",
    }
