"""Options of one value are given once."""

import pytest

from tests.commands import refused, runner

CALL = ("glu_backward", "self=2x8")
CHIP = ("--chip", "ascend950pr")


@pytest.mark.parametrize("command", ["check", "plan", "simulate", "run", "whatif", "compare", "graph", "trace"])
@pytest.mark.parametrize("option", [CHIP, ("--dtype", "float16")])
def test_an_option_of_one_value_is_given_once(command, option, tmp_path, monkeypatch):
    words = (command, *CALL, *CHIP) if option != CHIP else (command, *CALL)
    message = refused(runner(tmp_path, monkeypatch, 200)(*words, *option, *option))
    assert f"{option[0]} is given more than once" in message


def test_a_seed_and_a_parameter_to_solve_are_given_once(tmp_path, monkeypatch):
    run = runner(tmp_path, monkeypatch, 200)
    assert "--random" in refused(run("run", *CALL, *CHIP, "--random", "0", "--random", "1"))
    assert "--solve" in refused(run("whatif", *CALL, *CHIP, "--solve", "cores.vector", "--solve", "cores.cube"))


def test_what_may_repeat_repeats(tmp_path, monkeypatch):
    run = runner(tmp_path, monkeypatch, 200)
    assert run("check", *CALL, *CHIP, "--set", "cores.vector=8", "--set", "cores.cube=4").exit_code == 0
