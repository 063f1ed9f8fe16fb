"""A new chip needs one TOML and nothing else: it is checked, planned and simulated by its name."""

import json

import pytest

import tilesim
from tests.commands import answered, runner
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import toml_value

CALL = ("glu_backward", {"self": (64, 4096)})
WORDS = ("glu_backward", "self=64x4096", "--chip", "ascend999x", "--json")


@pytest.fixture
def directory(tmp_path):
    """A directory with the chip: a 950 with half the vector cores and twice the clock."""
    base = load_chip("ascend950pr")
    half = base.override({"cores.vector": base.cores.vector // 2, "clock.vector_hz": 2 * base.clock.vector_hz})
    chip = half.model_copy(update={"name": "ascend999x", "soc": "Ascend999X", "product": "Ascend 999X"})
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "ascend999x.toml").write_text(chip.to_toml(), encoding="utf-8")
    return tmp_path / "chips"


def test_it_is_checked_planned_and_simulated(directory):
    chip, base = load_chip("ascend999x", directory=directory), load_chip("ascend950pr")
    assert tilesim.check(*CALL, chip=chip).ok
    plans = [tilesim.plan(*CALL, chip=one) for one in (chip, base)]
    assert plans[0].block_dim == chip.cores.vector == plans[1].block_dim // 2
    assert tilesim.simulate(plans[0]).time_us > 0
    assert tilesim.simulate(plans[0]).plan.chip.name == "ascend999x"


def test_the_command_line_knows_it_by_name(directory, tmp_path, monkeypatch):
    run = runner(tmp_path, monkeypatch, 100)
    monkeypatch.setenv("TILESIM_CHIPS", str(directory))
    found = {word: json.loads(answered(run(word, *WORDS))) for word in ("check", "plan", "simulate")}
    assert found["check"]["ok"]
    assert found["plan"]["block_dim"] == 32
    assert found["simulate"]["time_us"] > 0


@pytest.mark.parametrize(("registers", "route"), [(32, "kernel"), (0, "composite")])
def test_its_features_decide_which_kernel_runs(directory, registers, route):
    file = directory / "ascend999x.toml"
    text = file.read_text(encoding="utf-8")
    assert "registers = 32" in text
    file.write_text(text.replace("registers = 32", f"registers = {toml_value(registers)}"), encoding="utf-8")
    assert tilesim.plan(*CALL, chip=load_chip(file)).route == route
