"""Chips by the names that people use: parts, aliases, families, and hints."""

import json
from itertools import product

import pytest

import tilesim
from tests.commands import answered, runner
from tilesim.chip.loading import chips_shipped, load_chip, load_chips
from tilesim.errors import BadChip

# SoC name: (cube cores, vector cores, global memory [GB or GiB as stated], L2 [bytes], clock [MHz]) of the vendor's
# platform files; None where the file states none or a measurement contradicts it.
PARTS = {
    "Ascend910B1": (24, 48, 68719476736, 201326592, 1850),
    "Ascend910B2": (24, 48, 68719476736, 201326592, 1800),
    "Ascend910B2C": (24, 48, None, 201326592, 1800),
    "Ascend910B3": (20, 40, 68719476736, 201326592, 1800),
    "Ascend910B4": (20, 40, 34359738368, 100663296, None),
    "Ascend910B4-1": (20, 40, 34359738368, 176160768, None),
    "Ascend910_9362": (20, 40, 34359738368, 176160768, 1500),
    "Ascend910_9372": (20, 40, 68719476736, 201326592, 1800),
    "Ascend910_9381": (24, 48, 68719476736, 201326592, 1800),
    "Ascend910_9382": (24, 48, 68719476736, 201326592, 1800),
    "Ascend910_9391": (24, 48, 68719476736, 201326592, 1850),
    "Ascend910_9392": (24, 48, 68719476736, 201326592, 1850),
    "Ascend910_95": (32, 64, 137438953472, 134217728, 1650),
    "Ascend910_5591": (24, 24, 34359738368, 50331648, 1500),
    "Ascend310P1": (10, 10, 24000000000, 16777216, 1060),
    "Ascend310P3": (8, 8, 24000000000, 16777216, 1060),
    "Ascend310B1": (1, 1, 34359738368, 4194304, 1224),
    "Ascend910A": (32, 32, None, 33554432, 1000),
    "Ascend910ProB": (30, 30, None, 33554432, 1150),
}
FAMILIES = {
    "A2": "a2",
    "910B": "a2",
    "A3": "a3",
    "910C": "a3",
    "910_93": "a3",
    "A5": "950",
    "950": "950",
    "310P": "inference",
    "310B": "inference-200i",
}
GLU = ("glu_backward", "self=2x4x8")


def spellings(name: str) -> set[str]:
    word = name.lower().removeprefix("ascend")
    names = {f"{front}{word}" for front in ("", "ascend", "Ascend", "ASCEND")}
    return {spelling for n in names for spelling in (n, n.upper(), n.lower())}


@pytest.fixture
def run(tmp_path, monkeypatch):
    return runner(tmp_path, monkeypatch, 200)


@pytest.mark.parametrize("soc", PARTS)
def test_every_part_has_the_figures_of_its_platform_file(soc):
    (chip,) = {load_chip(name) for name in spellings(soc)}
    cube, vector, gm_bytes, l2_bytes, mhz = PARTS[soc]
    assert (chip.cores.cube, chip.cores.vector, chip.memory.l2.size_bytes) == (cube, vector, l2_bytes)
    assert gm_bytes in (None, chip.memory.gm.size_bytes)
    assert mhz in (None, chip.clock.cube_hz / 1e6)
    assert chip.overridden == {}
    if chip.soc != soc:
        assert chip.notes[0].startswith(f"{soc.lower()} is computed as {chip.name}: ")


def test_every_alias_is_a_chip_and_says_what_it_rests_on():
    for base in map(load_chip, chips_shipped()):
        for name, alias in base.aliases.items():
            chip = load_chip(name)
            changed = {key for key, (_, value) in base.diff(chip).items() if value is not None}
            assert changed == {key for key, value in alias.parameters.items() if value != base.get(key)}
            assert changed == set(alias.parameters), "an alias states only what differs"
            assert alias.source in chip.notes[0]
            for figure in chip.figures():
                if figure.key in changed:
                    assert figure.source.startswith(alias.source)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_the_same_members_in_every_spelling(name):
    members = {tuple(chip.name for chip in load_chips(spelling)) for spelling in spellings(name)}
    assert len(members) == 1
    shipped = {n for n in chips_shipped() if load_chip(n).family == FAMILIES[name]}
    assert shipped <= set(*members)
    assert {chip.family for chip in load_chips(name)} == {FAMILIES[name]}
    assert len({chip.values.__repr__() for chip in load_chips(name)} | {""}) > 1


@pytest.mark.parametrize("name", [name for name in FAMILIES if len(load_chips(name)) > 1])
def test_what_needs_one_chip_refuses_a_family_with_its_members(name, run):
    for command in ("plan", "simulate", "whatif"):
        result = run(command, *GLU, "--chip", name)
        assert result.exit_code == 2
        assert all(chip.name in result.stderr for chip in load_chips(name))
    with pytest.raises(BadChip, match="one is needed"):
        tilesim.plan("glu_backward", {"self": (2, 8)}, chip=name)


def test_no_hint_leads_to_another_family():
    digits, letters = ("310", "910", "950"), "abcdefp"
    wrong = [f"{n}{a}{b}" for n, a, b in product(digits, letters, ("", "5", "x", "_9"))]
    wrong += [f"910_{n}" for n in (9300, 9393, 9599, 5500, 9100)] + ["a1", "a4", "a6", "a22", "a35", "951", "920b"]
    for word, front in product(wrong, ("", "ascend", "Ascend", "asend")):
        try:
            load_chips(front + word)
        except BadChip as error:
            hint = str(error).partition("did you mean '")[2].partition("'")[0]
            if hint:
                assert hint.removeprefix("ascend")[:4].rstrip("_") == word[:4].rstrip("_"), (word, hint)
                assert len({chip.family for chip in load_chips(hint)}) == 1


def test_the_screen_and_json_say_what_an_alias_stands_for(run):
    result = run("plan", *GLU, "--chip", "910B2C")
    assert "ascend910b2c is computed as ascend910b2" in result.stderr
    answer = json.loads(answered(run("check", *GLU, "--chip", "Ascend910_9382", "--json")))
    assert answer["chip"] == "ascend910_9382"
    assert any(
        text.startswith("ascend910_9382 has the other parameters of ascend910_9391: ") for text in answer["notes"]
    )


@pytest.mark.parametrize("name", ["957b", "957c", "9571", "9579"])
def test_a_950_of_28_cube_cores_has_the_figures_of_its_platform_file(name):
    (chip,) = {load_chip(spelling) for spelling in (*spellings(f"950PR_{name}"), name)}
    assert (chip.name, chip.cores.cube, chip.cores.vector) == ("ascend950pr_957b", 28, 56)
    assert (chip.memory.gm.size_bytes, chip.memory.l2.size_bytes) == (120259084288, 117440512)
    assert bool(chip.notes) == (name != "957b")
    assert all("no public parameters" in note for note in chip.notes)
    assert chip.name in {member.name for member in load_chips("950")}
