"""The commands sweep, whatif, plan --search and check of a file of buffers."""

import csv
import io
import json

import pytest

from tests.commands import answered, refused, runner
from tilesim.cli.tables import shown
from tilesim.feasibility.verdict import check_buffers

CONV = ("masked_causal_conv1d_backward", "S=512", "B=4", "H=1024", "W=3")
CHIP = ("--chip", "ascend950pr")
GATHER = """
name = "gather"
counted_from = "size"
[sizes]
BLOCK = 48000
[buffers.x]
shape = ["BLOCK"]
slots = 2
"""


@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    return runner(tmp_path, monkeypatch, 200)


def test_sensitivity_can_be_asked_for_by_name(tilesim):
    words = ("whatif", "glu_backward", "self=8x64x128", *CHIP)
    assert answered(tilesim(*words, "--sensitivity")) == answered(tilesim(*words))
    for other in (("--set", "cores.vector=32"), ("--solve", "cores.vector")):
        message = refused(tilesim(*words, "--sensitivity", *other))
        assert f"--sensitivity and {other[0]} are both given" in message


def test_graph_and_trace_take_tiles(tilesim):
    words = ("exp", "x=4096x4096", *CHIP, "--tiles", "2")
    alone = answered(tilesim("graph", *words[:-2]))
    assert answered(tilesim("graph", *words)) != alone
    assert len(answered(tilesim("trace", *words))) < len(answered(tilesim("trace", *words[:-2])))


def test_a_sweep_as_text_json_and_csv(tilesim):
    words = ("sweep", "glu_backward", "self=64x512,64x511", *CHIP, "--chip", "ascend910b3")
    text = answered(tilesim(*words))
    assert "glu_backward at 4 points" in text
    assert "split axis even: expected" in text
    data = json.loads(answered(tilesim(*words, "--json")))
    assert [row["verdict"] for row in data["rows"]] == ["fits", "fits", "refused", "refused"]
    rows = list(csv.DictReader(io.StringIO(answered(tilesim(*words, "--csv")))))
    assert [row["chip"] for row in rows] == ["ascend950pr", "ascend910b3"] * 2
    assert "cycles" not in json.loads(answered(tilesim(*words, "--json", "--check")))["rows"][0]


def test_a_sweep_of_ranges_and_figures(tilesim):
    data = json.loads(
        answered(tilesim("sweep", *CONV[:1], "S=128:512:128", *CONV[2:], *CHIP, "--set", "cores.vector=8,64", "--json"))
    )
    assert len(data["rows"]) == 8
    assert data["rows"][0]["cores.vector"] == 8


def test_all_problems_of_a_sweep_at_once(tilesim):
    line = refused(tilesim("sweep", "glu_backward", "sel=64x512", "--set", "a"))
    assert "3 problems: --chip is missing" in line
    assert "did you mean 'self'?" in line
    assert "'a' is not KEY=VALUE" in line
    assert "only one can be printed" in refused(tilesim("sweep", *CONV, *CHIP, "--json", "--csv"))
    assert "did you mean 'cores.vector'?" in refused(tilesim("sweep", *CONV, *CHIP, "--set", "cores.vecto=1"))


def test_figures_can_be_varied(tilesim):
    data = json.loads(
        answered(tilesim("whatif", *CONV, *CHIP, "--set", "memory.ub.size_bytes=65536:131072:32768", "--json"))
    )
    assert [row["memory.ub.size_bytes"] for row in data["rows"]] == [65536, 98304, 131072]
    assert all(row["change"] is not None for row in data["rows"])


def test_tiles_by_hand_can_be_asked_about(tilesim):
    cores = ("--tile", "cores=8")
    data = json.loads(answered(tilesim("whatif", *CONV, *CHIP, *cores, "--set", "clock.vector_hz=1e9,2e9", "--json")))
    assert [row["cores"] for row in data["rows"]] == [8, 8]
    assert ", cores=8 by hand" in answered(tilesim("whatif", *CONV, *CHIP, *cores))
    assert "the least value is" in answered(tilesim("whatif", *CONV, *CHIP, *cores, "--solve", "memory.ub.size_bytes"))
    assert "'rws' is not a tile" in refused(tilesim("whatif", *CONV, *CHIP, "--tile", "rws=8"))


def test_figures_are_ranked_without_set(tilesim):
    text = answered(tilesim("whatif", *CONV, *CHIP))
    assert "sensitivity of the time of masked_causal_conv1d_backward on ascend950pr" in text
    assert "without effect here" not in text
    assert "without effect here" in answered(tilesim("whatif", *CONV, *CHIP, "--all"))


def test_a_figure_that_is_enough(tilesim):
    wide = ("text_gated_residual_grad", "B=1", "S=64", "C=4", "H=2560", "R=320")
    text = answered(tilesim("whatif", *wide, *CHIP, "--solve", "memory.ub.size_bytes"))
    assert "the least value is 137,344 bytes" in text
    data = json.loads(
        answered(tilesim("whatif", *CONV, *CHIP, "--solve", "cores.vector", "--time-us", "1", "--json"), 1)
    )
    assert data["ok"] is False
    assert data["best"]["time_us"] > 1


def test_questions_that_exclude_each_other(tilesim):
    line = refused(tilesim("whatif", *CONV, *CHIP, "--set", "cores.vector=1", "--solve", "cores.vector", "--csv"))
    assert "2 problems: --set and --solve are both given" in line
    assert "--time-us is given without --solve" in refused(tilesim("whatif", *CONV, *CHIP, "--time-us", "3"))


def test_a_refusal_is_the_answer(tilesim):
    assert "overflow" in answered(
        tilesim("whatif", "text_gated_residual_grad", "B=1", "S=1", "C=4", "H=8192", "R=64", *CHIP), 1
    )


def test_other_tilings_of_a_plan(tilesim):
    text = answered(tilesim("plan", *CONV, *CHIP, "--search"))
    assert "the plan takes " in text
    assert "more: --all" in text
    assert "chosen by " in text
    assert "more: --all" not in answered(tilesim("plan", *CONV, *CHIP, "--search", "--all"))
    data = json.loads(answered(tilesim("plan", *CONV, *CHIP, "--search", "--json")))
    assert sum(candidate["chosen"] for candidate in data["candidates"]) == 1


def test_buffers_of_a_file(tilesim, tmp_path):
    path = tmp_path / "gather.toml"
    path.write_text(GATHER, encoding="utf-8")
    text = answered(tilesim("check", path, "--chip", "ascend910b3"), 1)
    assert text.startswith(
        "overflow: gather on ascend910b3, float32: BLOCK=48000\nneeds 384,000 B of ub, has 196,608 B"
    )
    assert "BLOCK = 24576, the largest (16384 as a power of two)" in text
    assert "24,576" in text
    for words in (("BLOCK=24576",), ("--set", "BLOCK=24576")):
        assert answered(tilesim("check", path, "--chip", "ascend910b3", *words)).startswith("caution: ")
    larger = ("--set", "memory.ub.size_bytes=384000")
    data = json.loads(answered(tilesim("check", path, "--chip", "ascend910b3", *larger, "--json")))
    assert data["verdict"] == "caution"
    assert data["inequalities"][0]["right_bytes"] == 384000
    assert check_buffers(path, "ascend910b3").to_json() == json.loads(
        answered(tilesim("check", path, "--chip", "ascend910b3", "--json"), 1)
    )


def test_problems_of_a_file_of_buffers(tilesim, tmp_path):
    path = tmp_path / "gather.toml"
    path.write_text(GATHER, encoding="utf-8")
    line = refused(tilesim("check", path, "--chip", "ascend910b33", "--set", "BLOCK"))
    assert "did you mean 'ascend910b3'" in line
    assert "'BLOCK' is not KEY=VALUE" in line
    assert "did you mean 'BLOCK'?" in refused(tilesim("check", path, "--chip", "ascend910b3", "BLOK=3"))
    assert "cannot be read: no such file" in refused(tilesim("check", "none.toml", "--chip", "ascend910b3"))


def test_cells():
    assert shown(-0.0) == "-0.00"
    assert shown("fits") == "fits"


def test_a_table_of_figures_can_be_drawn(tilesim, tmp_path):
    words = ("whatif", "glu_backward", "self=8x64x128", "--chip", "ascend950pr")
    answered(tilesim(*words, "--set", "cores.vector=8,16,32", "--plot", "curves.svg"))
    assert "cores.vector" in (tmp_path / "curves.svg").read_text(encoding="utf-8")
    answered(tilesim(*words, "--plot", "tornado.svg"))
    assert (tmp_path / "tornado.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    "words",
    [("--plot", "curves.xyz", "--set", "cores.vector=8,16"), ("--plot", "x.svg", "--solve", "memory.ub.size_bytes")],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(tilesim, tmp_path, words):
    refused(tilesim("whatif", "glu_backward", "self=8x64x128", "--chip", "ascend950pr", *words))
    assert list(tmp_path.iterdir()) == []
