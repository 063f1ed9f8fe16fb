"""Cases of people who could not fit their buffers: the answers that their threads came to."""

import tomllib
from pathlib import Path

import pytest

from tilesim.chip.loading import load_chip
from tilesim.feasibility.verdict import check_buffers

CASES = tomllib.loads((Path(__file__).parent / "data" / "users_cases.toml").read_text(encoding="utf-8"))["case"]
NOT_OF_THE_FILE = {"id", "source", "assumed", "chip", "set", "expect"}


def verdict_of(case):
    chip = load_chip(case["chip"])
    chip = chip.override(case["set"]) if "set" in case else chip
    return check_buffers({key: value for key, value in case.items() if key not in NOT_OF_THE_FILE}, chip)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_answer_is_the_one_that_is_known(case):
    expect, verdict = case["expect"], verdict_of(case)
    assert verdict.verdict == expect["verdict"]
    assert verdict.ok is (expect["verdict"] in ("fits", "caution"))
    worst = verdict.tightest
    assert expect.get("needs", worst and worst.left_bytes) == (worst and worst.left_bytes)
    assert expect.get("has", worst and worst.right_bytes) == (worst and worst.right_bytes)
    assert expect.get("over", worst and -worst.slack_bytes) == (worst and -worst.slack_bytes)
    for name, value in expect.get("largest", {}).items():
        limit = verdict.limit(name)
        assert limit.limited
        assert limit.largest == (None if value == "none" else value)
    for name, value in expect.get("power", {}).items():
        assert verdict.limit(name).power_of_two == value
    for name, value in expect.get("least", {}).items():
        assert verdict.limit(name).least == value
    for name, value in expect.get("sizes", {}).items():
        assert verdict.sizes[name] == value
    if "culprit" in expect:
        assert verdict.buffers[0].name == expect["culprit"]
        assert expect.get("culprit_bytes", verdict.buffers[0].bytes) == verdict.buffers[0].bytes
        assert expect["culprit"] in verdict.culprit
    if "share" in expect:
        assert verdict.buffers[0].share == pytest.approx(expect["share"], abs=5e-5)
    assert expect.get("programs", verdict.programs) == verdict.programs
    if "proof" in expect:
        assert any(expect["proof"] in note for note in verdict.notes)
    if "remedy" in expect:
        assert any(expect["remedy"] in str(remedy) for remedy in verdict.remedies)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["expect"]["verdict"] in ("overflow", "refused")], ids=lambda c: c["id"]
)
def test_remedies_that_change_one_thing_work(case):
    verdict = verdict_of(case)
    file = {key: value for key, value in case.items() if key not in NOT_OF_THE_FILE}
    chip = load_chip(case["chip"])
    chip = chip.override(case["set"]) if "set" in case else chip
    for remedy in verdict.remedies:
        if any(name.endswith("_SUB") for name in remedy.given) or not (remedy.given or remedy.chip or remedy.override):
            continue
        on = load_chip(remedy.chip) if remedy.chip else chip.override(remedy.override) if remedy.override else chip
        assert check_buffers(file, on, remedy.given).ok, str(remedy)


@pytest.mark.parametrize("case", [c for c in CASES if "largest" in c["expect"]], ids=lambda c: c["id"])
def test_the_largest_size_fits_and_the_next_one_does_not(case):
    file = {key: value for key, value in case.items() if key not in NOT_OF_THE_FILE}
    file["sizes"] = {
        name: {key: v for key, v in size.items() if key != "power_of_two"} if isinstance(size, dict) else size
        for name, size in file["sizes"].items()
    }
    chip = load_chip(case["chip"]).override(case.get("set", {}))
    for limit in verdict_of(case).size_limits:
        if limit.limited and limit.largest is not None:
            assert check_buffers(file, chip, {limit.name: limit.largest}).ok
            assert not check_buffers(file, chip, {limit.name: limit.largest + limit.multiple_of}).ok
