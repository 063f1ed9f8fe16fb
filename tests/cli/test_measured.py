"""`tilesim validate` and `tilesim compare`: what they print, what they leave out, how they end."""

import json

import pytest
from typer.testing import CliRunner

from tilesim.chip.loading import load_chip
from tilesim.cli import app
from tilesim.measured.measurement_files import load_measured, measured_csv

HEAD = "Name,Type,Accelerator Core,Duration(us),Block Dim,Input Shapes,Input Data Types,Output Shapes"
PIPES = ",aiv_vec_time(us),aiv_mte2_time(us)"
SIGMOID = 'sig,Sigmoid,AI_VECTOR_CORE,40.5,48,"""2048,2048""",FLOAT,"""2048,2048"""'
UNKNOWN = 'c,Cast,AI_VECTOR_CORE,3.0,48,"""5""",INT64,"""5"""'


@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("TILESIM_CHIPS", raising=False)

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="tilesim")

    return run


@pytest.fixture
def few(tmp_path):
    """A file of a few measured rows: two operators, one that is not known, one of tier B."""
    rows = [r for r in load_measured() if r.chip == "ascend950pr" and r.operator in ("sigmoid", "gelu")]
    text = measured_csv(rows)
    text += "ascend950pr,frobnicate,8x8,float32,3.5,A,,,,nowhere\nascend950pr,exp,64x64,float32,3.5,B,,,,a model\n"
    (tmp_path / "few.csv").write_text(text)
    return tmp_path / "few.csv"


@pytest.fixture
def profile(tmp_path):
    (tmp_path / "kernel_details.csv").write_text(
        "\n".join([HEAD + PIPES, SIGMOID + ",7.2,11.0", SIGMOID + ",7.4,11.2", UNKNOWN + ",1,1"])
    )
    return "kernel_details.csv"


def answered(result, code=0):
    assert (result.exit_code, result.stderr) == (code, "")
    return result.stdout


def refused(result):
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


# ---------------------------------------------------------------- validate
def test_the_package_has_points_to_validate_with(tilesim):
    shown = answered(tilesim("validate", "--chip", "ascend910b2"))
    assert shown.startswith("ascend910b2: 153 rows compared: mean error ")
    for said in (
        "by operator and dtype",
        "MAPE",
        "rank",
        "largest errors",
        "rows by error",
        "--plot",
        "kernels of the vendor's library by class",
    ):
        assert said in shown


def test_groups_errors_and_what_is_left_out(tilesim, few):
    shown = answered(tilesim("validate", few, "--chip", "ascend950pr"))
    assert ": 28 rows compared, 1 left out: mean error " in shown
    assert "frobnicate" in shown
    sigmoid = next(line for line in shown.splitlines() if line.startswith("sigmoid") and " float32 " in line)
    assert sigmoid.split()[2] == "8"
    assert "exp" not in [line.split()[0] for line in shown.splitlines() if line]


def test_all_takes_rows_without_control_too(tilesim, few):
    assert ": 29 rows compared" in answered(tilesim("validate", few, "--chip", "ascend950pr", "--all"))


def test_validate_as_json_has_the_stable_names(tilesim, few):
    found = json.loads(answered(tilesim("validate", few, "--chip", "ascend950pr", "--json")))
    assert found["ok"] is True
    assert set(found["overall"]) >= {"rows", "mape", "median_ape", "bias", "worst", "rank_correlation"}
    assert {(g["operator"], g["dtype"]) for g in found["groups"]} == {
        ("sigmoid", "float32"),
        ("sigmoid", "bfloat16"),
        ("gelu", "float32"),
        ("gelu", "float16"),
    }
    assert [row["row"] for row in found["skipped"]] == ["frobnicate float32 8x8"]


def test_another_figure_moves_the_errors(tilesim, few):
    words = ("validate", few, "--chip", "ascend950pr", "--json")
    base = json.loads(answered(tilesim(*words)))["overall"]
    slow = json.loads(answered(tilesim(*words, "--set", "clock.vector_hz=1e8")))["overall"]
    assert slow["bias"] > base["bias"] + 50


def test_rows_of_other_chips_are_no_answer(tilesim, few):
    shown = answered(tilesim("validate", few, "--chip", "ascend910b2"), 1)
    assert shown == "no measured row is of ascend910b2; there are rows of: ascend950pr (30)\n"
    found = json.loads(answered(tilesim("validate", few, "--chip", "ascend910b2", "--json"), 1))
    assert (found["ok"], found["overall"]["rows"], found["overall"]["mape"]) == (False, 0, None)


def test_rows_without_control_only_are_told(tilesim, few):
    few.write_text("\n".join(line for line in few.read_text().splitlines() if ",A," not in line))
    assert "1 other row: --all" in answered(tilesim("validate", few, "--chip", "ascend950pr"), 1)


def test_rows_of_which_none_can_be_compared(tilesim, few, tmp_path):
    lines = few.read_text().splitlines()
    few.write_text("\n".join([lines[0], *(line for line in lines if "frobnicate" in line)]))
    shown = answered(tilesim("validate", few, "--chip", "ascend950pr", "--plot", "x.svg"), 1)
    assert shown.startswith("ascend950pr: no row could be compared, 1 left out")
    assert not (tmp_path / "x.svg").exists()


def test_a_plot_is_written(tilesim, few, tmp_path):
    assert "written to x.svg" in answered(tilesim("validate", few, "--chip", "ascend950pr", "--plot", "x.svg"))
    assert "predicted [us]" in (tmp_path / "x.svg").read_text() or (tmp_path / "x.svg").stat().st_size > 5000


def test_a_fit_writes_a_chip_that_can_be_used(tilesim, few):
    pytest.importorskip("scipy")
    shown = answered(tilesim("validate", few, "--chip", "ascend950pr", "--fit", "mine.toml"))
    for said in ("28 rows fitted", "rows held out of the fit", "written to mine.toml", "kernels.gelu.fixed_us"):
        assert said in shown
    assert load_chip("mine.toml").kernels["gelu"].status == "fitted"
    assert ": 28 rows compared" in answered(tilesim("validate", few, "--chip", "mine.toml"))


def test_what_cannot_be_validated(tilesim, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    assert "--chip is missing" in refused(tilesim("validate"))
    assert "did you mean 'ascend950pr'" in refused(tilesim("validate", "--chip", "ascend950p"))
    assert "cannot be read" in refused(tilesim("validate", "nothing.csv", "--chip", "ascend950pr"))
    assert "is not JSON" in refused(tilesim("validate", "broken.json", "--chip", "ascend950pr"))
    assert "must end in one of" in refused(tilesim("validate", "--chip", "ascend950pr", "--plot", "x.bmp"))
    both = refused(tilesim("validate", "--chip", "ascend950pr", "--fit", "no/such.txt"))
    assert "must end in .toml" in both
    assert "is not a directory" in both
    assert [p.name for p in tmp_path.iterdir()] == ["broken.json"]


# ---------------------------------------------------------------- compare
def test_a_profile_is_compared_and_what_is_unknown_counted(tilesim, profile):
    shown = answered(tilesim("compare", profile, "--chip", "ascend910b2"))
    assert shown.startswith("kernel_details.csv on ascend910b2: 2 of 3 calls compared, 81.0 of 84.0 us (96.4%)")
    for said in (
        "Sigmoid",
        "2048x2048",
        "unknown operator Cast",
        "pipes, measured / predicted",
        "7.30 / ",
        "sigmoid: ±",
    ):
        assert said in shown


def test_compare_as_json(tilesim, profile):
    found = json.loads(answered(tilesim("compare", profile, "--chip", "ascend910b2", "--json")))
    assert (found["ok"], found["rows"], found["compared"]) == (True, 3, 2)
    (one,) = found["kernels"]
    assert one["fixed_from"] == "kernels.sigmoid"
    assert one["gain_us"] == pytest.approx(2 * (one["measured_us"] - one["predicted_us"]), abs=0.01)
    assert found["skipped"][0]["reason"].startswith("unknown operator")


def test_a_profile_of_nothing_that_is_known(tilesim, tmp_path):
    (tmp_path / "p.csv").write_text(f"{HEAD}\n{UNKNOWN}\n")
    shown = answered(tilesim("compare", "p.csv", "--chip", "ascend910b2"), 1)
    assert "0 of 1 call compared" in shown
    assert "unknown operator Cast" in shown


def test_a_kernel_without_a_fixed_time_is_marked(tilesim, tmp_path):
    (tmp_path / "p.csv").write_text(
        f"{HEAD}\n{SIGMOID.replace('Sigmoid', 'Add').replace('2048,2048', '64,64;64,64', 1)}\n"
    )
    shown = answered(tilesim("compare", "p.csv", "--chip", "ascend910b2"))
    assert "no fixed time for this kernel" in shown


def test_long_profiles_are_cut_short(tilesim, tmp_path):
    rows = [SIGMOID.replace("2048,2048", f"{n},64") for n in range(64, 64 + 25)]
    (tmp_path / "p.csv").write_text("\n".join([HEAD, *rows]))
    assert "and 5 kernels with less to gain: --all" in answered(tilesim("compare", "p.csv", "--chip", "ascend910b2"))
    assert "less to gain" not in answered(tilesim("compare", "p.csv", "--chip", "ascend910b2", "--all"))


def test_what_is_no_profile(tilesim, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    assert "is it a profiler's table" in refused(tilesim("compare", "x.csv", "--chip", "ascend910b2"))
    assert "is empty" in refused(tilesim("compare", "empty.csv", "--chip", "ascend910b2"))
    both = refused(tilesim("compare", "none.csv", "--chip", "ascend911b"))
    assert "cannot be read" in both
    assert "is not a chip" in both


def test_pipe_times_of_one_operator_with_what_lies_beside_them(tilesim, tmp_path):
    (tmp_path / "PipeUtilization.csv").write_text("block_id,aiv_vec_time(us),aiv_mte2_time(us)\n0,7.1,11.0\n1,7.4,10\n")
    words = ("compare", "PipeUtilization.csv", "--chip", "ascend910b2")
    alone = answered(tilesim(*words), 1)
    assert "OpBasicInfo.csv" in alone
    assert "v 7.40, mte2 11.00" in alone
    (tmp_path / "OpBasicInfo.csv").write_text("Op Name,Op Type,Task Duration(us),Block Dim\nsigmoid_1,vector,40.5,48\n")
    named = answered(tilesim(*words), 1)
    assert "sigmoid_1" in named
    assert "--op NAME" in named
    told = answered(tilesim(*words[:2], "x=2048x2048", "--op", "sigmoid", *words[2:]))
    assert "1 of 1 call compared, 40.5 of 40.5 us" in told
    assert "7.40 / " in told
    assert "--op NAME" in refused(tilesim(*words[:2], "x=2048x2048", *words[2:]))


def test_rows_without_a_time_are_told(tilesim, tmp_path):
    rows = [SIGMOID, *(SIGMOID.replace("40.5", time) for time in ("N/A", "-3", "abc"))]
    (tmp_path / "p.csv").write_text("\n".join([HEAD, *rows]))
    shown = answered(tilesim("compare", "p.csv", "--chip", "ascend910b2"))
    assert "1 of 4 calls compared, 40.5 of 40.5 us (100.0%); 3 calls without a time" in shown
    for said in ("no duration", "the duration is below 0", "the duration is not a number"):
        assert said in shown


def test_a_profile_without_durations_is_predicted(tilesim, tmp_path):
    (tmp_path / "p.csv").write_text(f"{HEAD}\n{SIGMOID}".replace("Duration(us),", "").replace("40.5,", ""))
    shown = answered(tilesim("compare", "p.csv", "--chip", "ascend910b2"))
    assert shown.count("no durations") == 1
    assert "1 of 1 call predicted" in shown
    assert "nan" not in shown
    (tmp_path / "PipeUtilization.csv").write_text("block_id,aiv_vec_time(us)\n0,7.1\n")
    words = ("compare", "PipeUtilization.csv", "x=2048x2048", "--op", "sigmoid", "--chip", "ascend910b2")
    assert "7.10 / " in answered(tilesim(*words))


def test_bad_durations_are_left_out_and_are_null(tilesim, tmp_path):
    base = {"chip": "Ascend910B2", "op": "sigmoid", "shapes": {"inputs": [[64, 64]]}, "dtype": {"inputs": ["float32"]}}
    (tmp_path / "m.json").write_text(json.dumps([base | {"duration_us": d} for d in (10.0, "x", -3, float("inf"))]))
    shown = answered(tilesim("validate", "m.json", "--chip", "ascend910b2"))
    assert "1 row compared, 3 left out" in shown
    found = json.loads(answered(tilesim("validate", "m.json", "--chip", "ascend910b2", "--json")))
    assert [row["measured_us"] for row in found["skipped"]] == [None, None, None]
