import csv
import io
import json
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tilesim.analysis.ranges import axes_of, numbers, parse_grid, parse_settings
from tilesim.analysis.sweep import sweep
from tilesim.chip.loading import load_chip
from tilesim.errors import BadChip, BadInput
from tilesim.feasibility.verdict import check
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.simulation.timeline import simulate

GRAD = "text_gated_residual_grad"
SHAPE = {"B": 1, "S": 256, "C": 4, "H": 512, "R": 64}
CONV = "masked_causal_conv1d_backward"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16", [16]),
        ("16,32", [16, 32]),
        ("16:64:16", [16, 32, 48, 64]),
        ("16:65:16", [16, 32, 48, 64]),
        ("1:3", [1, 2, 3]),
        ("3:1", [3, 2, 1]),
        ("64:16:-16,8", [64, 48, 32, 16, 8]),
        ("0.1:0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1e12,2.5e12", [10**12, 25 * 10**11]),
        ("196_608", [196608]),
        ("-1", [-1]),
    ],
)
def test_ranges(text, values):
    assert numbers(text) == values
    assert [type(number) for number in numbers(text)] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("many", "'many' is not a number or a range start:stop:step"),
        ("1:2:3:4", "'1:2:3:4' has 4 parts, a range has start:stop:step"),
        ("1:x:y", "'1:x:y': 'x' is not a number; '1:x:y': 'y' is not a number"),
        ("1:2:0", "'1:2:0' does not lead from 1 to 2 by 0"),
        ("1:2:-1", "'1:2:-1' does not lead from 1 to 2 by -1"),
        ("1:1e9:1", "'1:1e9:1' has 1,000,000,000 values, at most 100,000"),
        ("1/2", "'1/2' is not a number"),
        (",", "'' is not a number"),
    ],
)
def test_what_is_no_range(text, problem):
    with pytest.raises(BadInput) as caught:
        numbers(text)
    assert problem in str(caught.value)


def test_whole_ranges_take_no_fractions():
    with pytest.raises(BadInput, match=r"'1\.5' is not a whole number"):
        numbers("1.5", whole=True)


def test_words_of_a_grid():
    op = load_operator(GRAD)
    words = ["H=16:64:16", "R=64,80", "B=1", "inject=true,false"]
    assert parse_grid(op, words) == {"H": [16, 32, 48, 64], "R": [64, 80], "B": 1, "inject": [True, False]}
    glu = parse_grid(load_operator("glu_backward"), ["self=2x4x6:bfloat16,2x8", "dim=-1"])
    assert [spec.shape if hasattr(spec, "shape") else spec for spec in glu["self"]] == [(2, 4, 6), (2, 8)]
    with pytest.raises(BadInput) as caught:
        parse_grid(op, ["HH=1", "R=1:x:2", "B=1,y", "inject", "R=64"])
    assert caught.value.problems == (
        "'HH' is not a key; did you mean 'H'?",
        "R: '1:x:2': 'x' is not a whole number",
        "B=y is not a whole number",
        "'inject' is not KEY=VALUE",
    )


def test_words_of_settings():
    assert parse_settings(["cores.vector=24:48:12", "memory.gm.read_bytes_per_s=1e12"]) == {
        "cores.vector": [24, 36, 48],
        "memory.gm.read_bytes_per_s": [10**12],
    }
    with pytest.raises(BadInput) as caught:
        parse_settings(["cores.vector", "a=b", "c=1", "c=2"])
    assert caught.value.problems == (
        "'cores.vector' is not KEY=VALUE",
        "a: 'b' is not a number or a range start:stop:step",
        "c is given twice",
    )


def test_a_shape_is_one_value():
    op = load_operator("glu_backward")
    assert axes_of(op, {"self": (2, 4, 6)}) == {"self": [(2, 4, 6)]}
    assert axes_of(op, {"self": [(2, 4), (2, 8)]}) == {"self": [(2, 4), (2, 8)]}
    assert axes_of(load_operator(GRAD), {"H": range(16, 64, 16)}) == {"H": [16, 32, 48]}


def test_every_point_is_what_check_and_plan_say():
    chips = ["ascend950pr", "ascend910b3"]
    table = sweep(GRAD, {**SHAPE, "H": [512, 528, 8192], "C": [2, 4]}, chips=chips)
    assert len(table) == 12
    assert table.names[:3] == ("C", "H", "chip")
    for row in table:
        given = {**SHAPE, "H": row["H"], "C": row["C"]}
        verdict = check(GRAD, given, chip=row["chip"])
        assert row["verdict"] == verdict.verdict
        assert row["slack"] == verdict.tightest.slack_bytes
        assert row["reason"] == verdict.culprit
        if verdict.ok:
            timeline = simulate(plan(GRAD, given, chip=row["chip"]))
            assert (row["cycles"], row["time_us"]) == (timeline.cycles, timeline.time_us)
            assert row["bound"] == timeline.bottleneck
            assert "gate backward rows=" in row["tiles"]
        else:
            assert row["cycles"] is row["tiles"] is None


def test_figures_of_chips_can_be_swept():
    table = sweep(CONV, {"S": 2048, "B": 4, "H": 4096, "W": 3}, chips="ascend950pr", set={"cores.vector": "16:64:16"})
    assert table["cores.vector"] == (16, 32, 48, 64)
    assert table["time_us"][0] > table["time_us"][-1]
    assert table.columns[0].unit == "cores"


def test_a_swept_shape_is_told_as_the_command_line_writes_it():
    table = sweep("add", {"x1": (8, 4), "x2": [(), (4,), (8, 1)]}, chips="ascend950pr", times=False)
    assert table["x2"] == ("scalar", "4", "8x1")
    one = sweep("add", {"x1": (8, 4), "x2": [()]}, chips="ascend950pr", times=False)
    assert (table.title, one.title) == ("add at 3 points", "add at 1 point")


def test_options_and_dtypes_can_be_swept():
    table = sweep(GRAD, SHAPE, chips="ascend950pr", dtype=["bfloat16", "float16"], inject=[True, False], times=False)
    assert [(row["inject"], row["dtype"]) for row in table] == [
        (True, "bfloat16"),
        (True, "float16"),
        (False, "bfloat16"),
        (False, "float16"),
    ]
    assert "tiles" not in table.names


def test_a_frontier_of_thousands_of_points_takes_seconds():
    start = time.process_time()
    table = sweep(GRAD, {**SHAPE, "H": "16:16000:16", "C": [4, 8]}, chips="ascend950pr", times=False)
    assert len(table) == 2000
    assert time.process_time() - start < 6
    for channels in (4, 8):
        fits = [row["H"] for row in table if row["C"] == channels and row["verdict"] in ("fits", "caution")]
        assert max(fits) == check(GRAD, {**SHAPE, "C": channels}, chip="ascend950pr").limits["H"]


def test_all_problems_at_once_before_anything_is_computed():
    with pytest.raises(BadInput) as caught:
        sweep(GRAD, {**SHAPE, "HH": 3, "S": "1:2:0"}, chips="ascend950pr")
    assert caught.value.problems == ("S: '1:2:0' does not lead from 1 to 2 by 0",)
    with pytest.raises(BadInput, match="'HH' is not a key; did you mean 'H'"):
        sweep(GRAD, {**SHAPE, "HH": [3, 4]}, chips="ascend950pr")
    with pytest.raises(BadChip) as caught:
        sweep(GRAD, SHAPE, chips="ascend950pr", set={"core.vector": [1], "memory.ub.size_bytes": [-1, 0]})
    assert "'core.vector' is not a key of a chip; did you mean 'cores.vector'?" in caught.value.problems
    with pytest.raises(BadInput, match="100,000"):
        sweep(GRAD, {**SHAPE, "H": "1:1000", "S": "1:1000"}, chips="ascend950pr", times=False)
    with pytest.raises(BadInput, match="H has no values"):
        sweep(GRAD, {**SHAPE, "H": []}, chips="ascend950pr")


def test_sizes_that_nothing_tells_are_asked_for_before_anything_is_computed():
    with pytest.raises(BadInput) as caught:
        sweep("text_gated_residual_grad", {"x": [(1, 2, 128), (1, 2, 256)]}, chips="ascend950pr")
    assert [problem.split(" missing")[0] for problem in caught.value.problems] == ["C and H are", "R is"]
    table = sweep("text_gated_residual_grad", {"R": [656, 672]}, chips="ascend950pr")
    assert table["verdict"] == ("refused", "refused")


def test_a_shape_under_the_vendors_name_is_one_value():
    table = sweep(
        "masked_causal_conv1d_backward",
        {"S": 8, "B": [1, 2], "H": 384, "maskOptional": None, "grad_y": (8, 1, 384)},
        chips="ascend950pr",
        dtype=np.float16,
    )
    assert table["verdict"] == ("fits", "refused")


def test_tables_as_data_and_csv():
    table = sweep("glu_backward", {"self": [(64, 512), (64, 511)]}, chips=[load_chip("ascend950pr")], times=False)
    data = json.loads(json.dumps(table.to_json()))
    assert data["rows"][0]["self"] == "64x512"
    assert [column["name"] for column in data["columns"]] == list(table.names)
    assert data["notes"] == ["X = 64, Y = 1", "float32", "on ascend950pr"]
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["verdict"] for row in rows] == ["fits", "refused"]
    assert rows[1]["tightest"] == ""
    with pytest.raises(KeyError, match="no column"):
        table["time"]


def test_times_are_told_with_their_accuracy():
    table = sweep("exp", {"x": [(64, 64), (128, 64)]}, chips=["ascend950pr", "ascend910b4"])
    assert any(note.startswith("accuracy on ascend950pr: ±") for note in table.notes)
    assert any(note.startswith("accuracy on ascend910b4: unvalidated: ") for note in table.notes)
    words = [(row["chip"], row["accuracy"]) for row in table]
    assert all(word == "unvalidated" if chip == "ascend910b4" else word.startswith("±") for chip, word in words)
    untimed = sweep("exp", {"x": [(64, 64)]}, chips="ascend950pr", times=False)
    assert "accuracy" not in " ".join((*untimed.names, *untimed.notes))


@pytest.mark.parametrize("value", [object(), Decimal(3), 1j, Path("x"), slice(3), len, int, b"x", [object()]])
@pytest.mark.parametrize(("name", "given"), [("add", {"x1": (2,)}), ("rms_norm", {"X": 2, "D": 16})])
def test_one_of_several_values_that_means_nothing_is_told(value, name, given):
    (varied, good), *_ = given.items()
    with pytest.raises(BadInput) as caught:
        sweep(name, given | {varied: [value, good]}, chips="ascend910b3")
    assert varied in str(caught.value)
    assert "\n" not in str(caught.value)
