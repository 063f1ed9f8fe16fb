"""Predicted against measured times: the accuracy that is promised, the order of variants, files and fits."""

import json
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.measured.error_bands import accuracy, known_accuracy
from tilesim.measured.fit import fitted
from tilesim.measured.measurement import Measurement
from tilesim.measured.measurement_files import SHIPPED, load_measured, measured_csv
from tilesim.measured.predict import timed
from tilesim.measured.profiled_calls import call_of_kernel
from tilesim.measured.validate import correlation, validate
from tilesim.operators.measured_kernels import Unmapped
from tilesim.operators.operator import KernelRow
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.render.plot.validation import scatter
from tilesim.simulation.launch import library_entry
from tilesim.simulation.timeline import simulate

BOUNDS = {
    "ascend910b2": {"elementwise": 10, "glu": 15, "norm": 20, "softmax": 20, "quant": 20, "matmul": 10},
    "ascend950pr": {"elementwise": 12, "glu": 15, "norm": 20, "softmax": 20, "quant": 20},
}


@pytest.fixture(scope="module")
def validations():
    return {chip: validate(None, chip) for chip in ("ascend910b1", "ascend910b2", "ascend950pr")}


@pytest.mark.parametrize(("chip", "family"), [(c, f) for c, some in BOUNDS.items() for f in some])
def test_every_class_is_within_its_bound(validations, chip, family):
    summary = validations[chip].families[family]
    assert summary.mape <= BOUNDS[chip][family]
    if family == "elementwise":
        assert summary.median_ape <= 5


def of(validation, operator, **wanted):
    rows = [c for c in validation.compared if c.row.operator == operator]
    return [c for c in rows if all(c.row.variant.get(k) == v for k, v in wanted.items())]


def test_odd_rows_are_within_30_percent(validations):
    rows = of(validations["ascend910b2"], "swi_glu")
    odd = [c for c in rows if c.row.shapes[0] in {(1_000_003, 2), (363, 367, 14), (2, 3, 17, 512, 100)}]
    assert len(odd) == 3
    assert all(abs(c.error) <= 30 for c in odd)


def test_steps_of_a_product_come_in_the_measured_order(validations):
    rows = of(validations["ascend950pr"], "Matmul")
    times = {(c.row.variant["step"], "wide" in c.row.variant): c.predicted_us for c in rows}
    plain = [times[step, False] for step in (0, 3, 4, 5, 6, 7, 8)]
    order = [*plain[:3], times[5, True], *plain[3:]]
    assert len(rows) == len(order)
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == len(order)


def test_vector_pipe_times_of_add(validations):
    for chip, count in (("ascend910b1", 6), ("ascend950pr", 5)):
        found = [
            (measured, predicted)
            for row, pipe, measured, predicted in validations[chip].pipes
            if row.operator == "Add" and pipe == "v"
        ]
        assert len(found) == count
        assert all(abs(predicted / measured - 1) <= 0.06 for measured, predicted in found)


@pytest.mark.parametrize(
    ("chip", "operator", "order"),
    [
        (
            "ascend910b1",
            "Add",
            [
                ("elements", 4096),
                ("elements", 16384),
                *((way, "true") for way in ("double_buffer", "bypass", "spread")),
            ],
        ),
        (
            "ascend950pr",
            "Add",
            [("elements", 4096), ("elements", 21760), *((way, "true") for way in ("double_buffer", "bypass"))],
        ),
    ],
)
def test_tile_choices_of_add_come_in_the_measured_order(validations, chip, operator, order):
    many = [c for c in of(validations[chip], operator) if c.row.variant["cores"] > 1]
    times = [next(c.predicted_us for c in many if c.row.variant.get(key) == value) for key, value in order]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)


def test_samples_that_bypass_the_cache_are_met(validations):
    """To about the error of elementwise kernels, although no figure is fitted to samples."""
    found = [c for v in validations.values() for c in v.compared if c.row.variant.get("bypass") == "true"]
    assert len(found) == 3
    assert all(abs(c.error) < 5 for c in found)


def test_the_figure_of_misses_gives_back_the_rows_that_it_is_read_from(validations):
    """Add on one core: small copies of data that no cache holds, one after another; the rest is sync, not modelled."""
    found = [c for v in validations.values() for c in of(v, "Add", cores=1)]
    assert len(found) == 2
    assert all(abs(c.error) < 5 for c in found)


@pytest.mark.parametrize("chip", ["ascend910b1", "ascend950pr"])
def test_copies_in_come_in_the_measured_order(validations, chip):
    rows = of(validations[chip], "DataCopy GM->UB only")
    by_tile = {
        (c.row.variant.get("rows"), c.row.variant.get("columns")): c.predicted_us
        for c in rows
        if "rows" in c.row.variant
    }
    assert by_tile[1, 64] > by_tile[64, 64]
    shapes = [c for c in rows if c.row.shapes[0] == (12288, 12288)]
    wide = next(c.predicted_us for c in shapes if c.row.variant.get("columns") == 1024)
    assert by_tile[64, 64] > wide


def test_plain_data_has_the_promised_names(validations):
    data = json.loads(json.dumps(validations["ascend910b2"].to_json()))
    assert set(data["overall"]) >= {"rows", "mape", "median_ape", "bias"}
    assert all({"operator", "dtype", "rows", "mape"} <= set(group) for group in data["groups"])
    assert isinstance(data["skipped"], list)


def test_the_shipped_points_survive_a_round_trip(tmp_path):
    rows = load_measured()
    file = tmp_path / "again.csv"
    file.write_text(measured_csv(rows), encoding="utf-8")
    assert load_measured(file) == rows
    assert file.read_text(encoding="utf-8") == SHIPPED.read_text(encoding="utf-8")


def test_what_cannot_be_done_is_listed_with_the_reason(tmp_path):
    records = [
        record("gqa", [[1, 2]]),
        record("sigmoid", [[64, 64]], dtype="complex64"),
        record("sigmoid", [[64, 64]], duration_us=None),
        record("Add", [[64, 64], [64, 64]], notes="scalar GetValue"),
        record("Matmul+Gelu fused", [[64, 64], [64, 64]]),
        record("maximum", [[64, 64], [63]]),
        record("sigmoid", [[64, 64]]),
    ]
    file = tmp_path / "m.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    found = validate(file, "ascend910b2")
    assert found.overall.rows == 1
    reasons = " | ".join(why for _, why in found.skipped)
    for word in ("unknown operator gqa", "dtype", "no duration", "scalar", "several kernels", "broadcast"):
        assert word in reasons


BAD = {
    "no duration": [None],
    "the duration is not a number": ["x", "12.5", "", True, False, [1.0], {"us": 1}],
    "the duration is below 0": [-3, -0.5],
    "the duration is 0": [0, 0.0],
    "the duration is not finite": [float("inf"), float("-inf"), float("nan"), 10**400],
}


def test_records_with_a_bad_duration_are_listed_and_never_compared(tmp_path):
    given = [(value, why) for why, values in BAD.items() for value in values]
    records = [record("sigmoid", [[64, 64]], duration_us=value) for value, _ in given]
    del records[0]["duration_us"]
    file = tmp_path / "m.json"
    file.write_text(json.dumps([*records, record("sigmoid", [[64, 64]])]), encoding="utf-8")
    found = validate(file, "ascend910b2", all=True)
    assert [one.row.time_us for one in found.compared] == [10.0]
    assert [why for _, why in found.skipped] == [why for _, why in given]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        *((cell, "no duration") for cell in ("", "N/A", "-")),
        *((cell, "the duration is not a number") for cell in ("x", "True", "1_0", "3 us")),
        *((cell, "the duration is below 0") for cell in ("-3", "-1e-9")),
        *((cell, "the duration is 0") for cell in ("0", "0.0")),
        *((cell, "the duration is not finite") for cell in ("inf", "nan", "1e400")),
    ],
)
def test_rows_with_a_bad_duration_are_listed_and_never_compared(tmp_path, cell, why):
    file = tmp_path / "m.csv"
    lines = (f"ascend910b2,sigmoid,64x64,float32,{time}" for time in ("10", cell))
    file.write_text("\n".join(["chip,operator,shape,dtype,time_us", *lines]), encoding="utf-8")
    found = validate(file, "ascend910b2")
    assert [one.row.time_us for one in found.compared] == [10.0]
    assert [reason for _, reason in found.skipped] == [why]


@pytest.mark.parametrize("value", ["x", -3, float("inf"), float("nan"), True])
def test_rows_with_a_bad_time_of_a_pipe_are_listed(tmp_path, value):
    pipes = {"aiv_vec_time": value, "aiv_mte2_time": 2.0, "aiv_mte3_time": 0}
    file = tmp_path / "m.json"
    file.write_text(json.dumps([record("sigmoid", [[64, 64]]) | {"pipe_times_us": pipes}]), encoding="utf-8")
    table = tmp_path / "m.csv"
    head = "chip,operator,shape,dtype,time_us,pipes_us"
    table.write_text(f"{head}\nascend910b2,sigmoid,64x64,float32,9,v={value};mte2=2;mte3=0", encoding="utf-8")
    for one in (file, table):
        (row,) = load_measured(one)
        assert (row.call, row.pipes_us) == (None, {"mte2": 2.0})
        assert row.problem.startswith("pipe v: the duration is ")


def record(op, shapes, *, dtype="float32", duration_us=10.0, notes="", tier="A"):
    return {
        "chip": "Ascend910B2",
        "op": op,
        "shapes": {"inputs": shapes},
        "dtype": {"inputs": [dtype] * len(shapes)},
        "duration_us": duration_us,
        "tier": tier,
        "kind": "kernel",
        "notes": notes,
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "{}"),
        ("a.json", "[1]"),
        ("a.json", '[{"a": 1}]'),
        ("a.json", "9" * 5000),
        ("a.csv", "x,y\n1,2\n"),
        ("a.csv", f"chip,operator,shape,dtype,time_us\n{'9' * 140_000}\n"),
        ("none.csv", None),
    ],
)
def test_files_that_are_no_measurements_are_refused(tmp_path, name, text):
    file = tmp_path / name
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        validate(file, "ascend910b2")


def test_factors_are_transposed_as_the_result_tells():
    row = KernelRow([(4096, 1024), (4096, 1024)], ["DT_BF16", "DT_BF16"], [(4096, 4096)])
    assert call_of_kernel("MatMulV3", row).operator.patterns["x2"].text == "N K"
    with pytest.raises(Unmapped):
        call_of_kernel("MatMulV3", KernelRow([(4, 5), (6, 7)], ["FLOAT", "FLOAT"]))


def test_ranks():
    assert correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert correlation([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)
    assert correlation([1, 1, 1], [1, 2, 3]) is None
    assert correlation([1, 2], [1, 2]) is None


def test_error_bands():
    known = accuracy("ascend910b2", "matmul")
    assert known.validated
    assert 0 < known.band < 20
    assert str(accuracy("ascend910b4", "softmax")).startswith("unvalidated")
    assert str(accuracy("ascend910b2", "text_gated_residual_grad")).startswith("unvalidated")
    changed = load_chip("ascend910b2").override({"memory.l2.size_bytes": 1 << 28})
    assert "set by hand" in str(accuracy(changed, "matmul"))


def test_accuracy_is_of_the_shipped_figures_not_of_a_name():
    shipped = load_chip("ascend950pr")
    assert accuracy(shipped, "exp").validated
    data = shipped.model_dump(by_alias=True)
    data["clock"]["vector_hz"] = 3_000_000_000
    edited = type(shipped).model_validate(data)
    assert not accuracy(edited, "exp").validated
    assert "clock.vector_hz differs" in str(accuracy(edited, "exp"))


def test_an_estimate_has_the_fixed_time_of_the_vendors_kernel():
    chip = load_chip("ascend910b2")
    timeline = simulate(plan("exp", {"x": (1023, 1023)}, chip=chip, dtype="bfloat16"))
    assert timeline.launch.table == "kernels.exp"
    assert timeline.launch_us == chip.kernels["exp"].fixed_us
    assert "kernels.exp" in timeline.estimate
    assert timeline.time_us == pytest.approx(timed(timeline.plan).time_us)
    own = simulate(plan("add", {"x1": (1023, 1023)}, chip=chip))
    assert own.launch.table == "launch"
    assert "since kernels.add has no fixed time" in own.estimate


def test_an_entry_may_have_the_vendors_name():
    chip = load_chip("ascend910b2")
    data = chip.model_dump(by_alias=True)
    data["kernels"] = {"foreach_addcdiv_scalar": data["kernels"]["addcdiv"], "gemm": data["kernels"]["exp"]}
    other = type(chip).model_validate(data)
    names = [library_entry(other, load_operator(name)) for name in ("addcdiv", "matmul", "exp")]
    assert names == ["foreach_addcdiv_scalar", "gemm", ""]


def test_a_fit_says_what_it_changed_and_how_it_holds():
    rows = [r for r in load_measured() if r.operator in ("sigmoid", "gelu")]
    found = validate(rows, "ascend950pr", fit=True)
    fit = found.fit
    assert fit.rows == 28
    assert {h.by for h in fit.held} == {"group"}
    assert not math.isnan(fit.held_mape)
    assert fit.chip.kernels["sigmoid"].n == 14
    assert 'status = "fitted"' in fit.toml("mine")


def test_a_fit_does_not_depend_on_where_the_chip_file_stands():
    rows = [r for r in load_measured() if r.operator == "gemm" and r.chip == "ascend910b2"]
    chip = load_chip("ascend910b2")
    far = chip.override({"memory.gm.cube_read_bytes_per_s": 0.8e12, "memory.l2.core_l1_read_bytes_per_s": 0.6e11})
    fits = [fitted(rows, one) for one in (chip, far)]
    assert [f.problems for f in fits] == [(), ()]
    assert fits[0].held_mape == pytest.approx(fits[1].held_mape, rel=0.05)  # tiles are chosen on the file's figures
    for key in ("memory.gm.cube_read_bytes_per_s", "memory.l2.core_l1_read_bytes_per_s"):
        assert fits[0].chip.get(key) == pytest.approx(fits[1].chip.get(key), rel=0.05)


def test_what_is_held_out_has_no_part_in_its_fold():
    """A group whose times are all ten times longer is predicted as it was."""
    rows = [r for r in load_measured() if r.chip == "ascend950pr" and r.operator in ("sigmoid", "gelu")]
    odd = [replace(r, time_us=10 * r.time_us) if r.dtype == "bfloat16" else r for r in rows]
    errors = [
        next(h for h in validate(some, "ascend950pr", fit=True).fit.held if h.dtype == "bfloat16")
        for some in (rows, odd)
    ]
    assert (100 + errors[1].worst) <= (100 + abs(errors[0].worst)) / 10 * 1.05


def test_a_row_that_is_predicted_as_something_else_says_so(validations):
    notes = validations["ascend910b2"].notes
    assert set(notes) == {("gelu", "float16"), ("gelu", "float32")}
    assert all("approximate=none, predicted with the tanh form" in note for some in notes.values() for note in some)
    forms = {form: plan("gelu", {"x": (64, 64)}, chip="ascend910b2", approximate=form) for form in ("tanh", "none")}
    known = {form: known_accuracy(made.call, made.chip) for form, made in forms.items()}
    assert known["tanh"].validated
    assert str(known["none"]) == "unvalidated: no measured row is predicted with approximate=none"


def test_the_scatter_plot_has_a_point_for_every_row(validations):
    figure = scatter(validations["ascend910b2"])
    (axes,) = figure.axes
    assert sum(len(line.get_xdata()) for line in axes.lines[1:]) == validations["ascend910b2"].overall.rows


def test_rows_that_broadcast_are_a_class_and_a_group_of_their_own(tmp_path):
    records = [record("maximum", [[1024, 1024], shape]) for shape in ([1024, 1024], [1024], [])]
    file = tmp_path / "m.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    found = validate(file, "ascend910b2")
    assert {name: s.rows for name, s in found.families.items()} == {"broadcast": 2, "elementwise": 1}
    assert {key: s.rows for key, s in found.groups.items()} == {
        ("maximum", "float32"): 1,
        ("maximum broadcast", "float32"): 2,
    }
    rows = load_measured(file)
    again = tmp_path / "again.csv"
    again.write_text(measured_csv(rows), encoding="utf-8")
    assert [r.shapes for r in load_measured(again)] == [r.shapes for r in rows]


def test_no_figure_is_fitted_to_rows_that_broadcast(monkeypatch):
    seen = []
    monkeypatch.setattr(
        sys.modules["tilesim.measured.validate"],
        "fitted",
        lambda rows, chip: seen.extend(rows) or SimpleNamespace(chip=chip),
    )
    shapes = [[(64, 64), other] for other in ((64, 64), (64,))]
    pair = [call_of_kernel("maximum", KernelRow(both, ["FLOAT", "FLOAT"])) for both in shapes]
    rows = [Measurement("ascend910b2", "maximum", (), "float32", 10.0, "A", "", call=call) for call in pair]
    made = validate(rows, "ascend910b2", fit=True)
    assert [row.call for row in seen] == pair[:1]
    assert made.overall.rows == 2


@pytest.mark.parametrize(
    ("options", "tiles", "why"),
    [
        ({"bypass": True}, None, "bypass=true"),
        ({"double_buffer": False, "spread": True}, None, "double_buffer=false, spread=true"),
        ({}, {"elements": 64}, "elements=64"),
        ({}, {"cores": 2}, "cores=2"),
    ],
)
def test_no_band_is_told_for_choices_that_no_measured_kernel_has(options, tiles, why):
    shapes = {"x1": (64, 64), "x2": (64, 64)}
    plain, other = (
        plan("add", shapes, chip="ascend910b2", tiles=t, **chosen) for t, chosen in ((None, {}), (tiles, options))
    )
    assert known_accuracy(plain.call, plain.chip, plain.by_hand).validated
    assert str(known_accuracy(other.call, other.chip, other.by_hand)) == f"unvalidated: no measured kernel has {why}"
