"""The command `run` with files of inputs, and what commands say where sizes are not known."""

import json

import numpy as np
import pytest

from tests.commands import answered, refused, runner
from tilesim.execution.inputs import random_inputs
from tilesim.execution.tensor_files import save_outputs
from tilesim.planning.plan import plan

GATED = "text_gated_residual_grad"
CHIP = ("--chip", "ascend950pr")


@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    return runner(tmp_path, monkeypatch, 200)


@pytest.fixture
def stored(tmp_path, tilesim):
    """Files of inputs for a small call: all of them in float16, and without an option in float32."""
    del tilesim  # which makes the directory the current one
    one = plan(GATED, {"B": 1, "S": 4, "C": 4, "H": 64, "R": 32}, chip="ascend950pr", dtype="float16")
    inputs = random_inputs(one.operator, one.call, chip=one.chip)
    save_outputs(tmp_path / "all.npz", inputs)
    alone = {n: x.astype(np.float32) for n, x in inputs.items() if n not in ("wGate", "gradInject", "inject")}
    save_outputs(tmp_path / "alone.safetensors", alone)


RUN_ALL = ("run", GATED, *CHIP, "--json", "--inputs", "all.npz")
RUN_ALONE = ("run", GATED, *CHIP, "--json", "--inputs", "alone.safetensors")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "words",
    [
        *([w] for w in ("channels=4", "C=4", "inject=true", "gamma=true", "B=1", "D=256", "x=1x4x256", "dx=1x4x256")),
        ["x=1x4x256:float16", "invRms=1x4x4:float32"],
        ["B=1", "S=4", "C=4", "H=64", "R=32"],
        ["--dtype", "fp16"],
        [],
    ],
)
def test_run_adds_what_is_said_to_what_a_file_tells(words, tilesim):
    found = json.loads(answered(tilesim(*RUN_ALL, *words)))
    assert (found["dims"], found["dtype"]) == ({"B": 1, "S": 4, "C": 4, "H": 64, "R": 32}, "float16")
    assert len(found["outputs"]) == 5
    if not {"inject=true"} & set(words):
        found = json.loads(answered(tilesim(*RUN_ALONE, *words)))
        assert [o["name"] for o in found["outputs"]] == ["dx", "dwDown", "dwUp", "dgamma"]
        assert found["dtype"] == "float16"
    assert json.loads(answered(tilesim(*RUN_ALONE, "inject=false", "R=32")))["ok"]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["channels=8"], "channels is 4, must be 8"),
        (["C=8", "B=2"], "2 problems: C is 4, must be 8; B is 1, must be 2"),
        (["D=250"], "D is 256, must be 250"),
        (["x=1x4x25"], "x has shape [1, 4, 256], must be [1, 4, 25]"),
        (["inject=false"], "gradInject, wGate, inject are given, but the option inject is false"),
        (["wGate=none"], "wGate is given, must be null"),
        (["invRms=1x4x4:float16"], "invRms is float32, must be float16"),
        *(
            (words, "gradMixed, x, wDown, wUp, downPreAct, up, gradInject, wGate, inject are float16, must be bfloat16")
            for words in (["--dtype", "bf16"], ["x=1x4x256:bf16"])
        ),
    ],
)
def test_run_refuses_what_contradicts_a_file(words, said, tilesim):
    result = tilesim(*RUN_ALL, *words)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: all.npz: {said}\n")


@pytest.mark.usefixtures("stored")
def test_run_refuses_what_a_file_lacks(tilesim):
    for words, said in (
        (["inject=true"], "gradInject, wGate, inject are missing, but the option inject is true"),
        (["wGate=4x256"], "wGate is missing, [4, 256] is needed"),
    ):
        result = tilesim(*RUN_ALONE, *words)
        assert (result.exit_code, result.stderr) == (2, f"error: alone.safetensors: {said}\n")


def test_run_takes_sizes_that_a_file_leaves_open(tilesim, tmp_path):
    one = plan("text_gated_residual", {"B": 1, "S": 4, "C": 4, "H": 64, "R": 32, "inject": False}, chip="ascend950pr")
    save_outputs(tmp_path / "in.npz", random_inputs(one.operator, one.call, chip=one.chip))
    words = ("run", "text_gated_residual", *CHIP, "--inputs", "in.npz", "--json")
    result = tilesim(*words)
    assert result.exit_code == 2
    assert "C and H are missing: give one of C=..., H=..." in result.stderr
    for word in ("C=4", "H=64"):
        assert json.loads(answered(tilesim(*words, word)))["dims"] == {"B": 1, "S": 4, "C": 4, "H": 64, "R": 32}
    np.savez(tmp_path / "glu.npz", self=np.ones((3, 4, 2), np.float32), gradOut=np.ones((3, 2, 2), np.float32))
    words = ("run", "glu_backward", *CHIP, "--inputs", "glu.npz", "--json", "dim=1")
    assert json.loads(answered(tilesim(*words, "N=2", "X=3")))["dims"] == {"X": 3, "N": 2, "Y": 2}
    assert "N is 2, must be 1" in tilesim(*words, "N=1").stderr


@pytest.mark.parametrize("command", ["check", "plan", "explain", "graph", "simulate", "trace", "sweep", "report"])
def test_no_command_answers_before_it_knows_all_sizes(command, tilesim, tmp_path):
    words = ("--out", "x.md") if command == "report" else ("--out", "x.json") if command in ("graph", "trace") else ()
    given = ("x=1x2x128", "R=16")
    said = refused(tilesim(command, GATED, *given, *CHIP, *words))
    assert "C and H are missing: give one of C=..., H=..., channels=... or the shape of gradMixed or invRms" in said
    assert "C and H are missing" in refused(tilesim("run", GATED, *given, *CHIP, "--random", "0"))
    assert not list(tmp_path.iterdir())


def test_a_null_decides_whatever_the_sizes_are(tilesim):
    for words in (["x=2x3x128:bfloat16", "wGate=none"], ["wGate=none"], ["x=none"]):
        found = json.loads(answered(tilesim("check", GATED, *words, *CHIP, "--json"), 1))
        assert (found["status"]["code"], found["parameter"]) == (161001, words[-1].split("=")[0])
        assert answered(tilesim("check", GATED, *words, *CHIP), 1).startswith("refused: ")
