"""A new operator is its own file and its reference: with these two the tests over every operator take it in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPERATOR = """
from tilesim.kernels.elementwise import flat_tiles, pointwise


def kernel(k):
    with k.vector("{name}") as p:
        for t in flat_tiles(k, p):
            x = t.load("x")
            t.store(p.mul(x, x, out=t.room("y")), "y")


{name} = pointwise("{name}", kernel, about="square", inputs="x", reference=lambda given, _: {{"y": given["x"] ** 2}})
"""
REFERENCE = """
from tests.reference.formats import widened


def expected(_, inputs):
    return {{"y": {value}}}
"""
VALUES = {"squared": 'widened(inputs["x"]) ** 2', "doubled": '2 * widened(inputs["x"])'}
"""Two operators that square, and what their references say."""
CHOICE = "squared or (doubled and match_the_reference)"
TESTS = ("tests/ops/test_every_operator.py", "tests/planning/test_invariants.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What becomes of each test of the new operators in a copy of the checkout, by its name."""
    place = tmp_path_factory.mktemp("checkout")
    for part in ("tilesim", "tests", "chips"):
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    for name, value in VALUES.items():
        (place / "tilesim" / "ops" / f"{name}.py").write_text(OPERATOR.format(name=name))
        (place / "tests" / "reference" / f"{name}.py").write_text(REFERENCE.format(value=value))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-k",
        CHOICE,
        *TESTS,
    ]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    output = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False).stdout
    return {test: word for word, test in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\S+)", output, re.MULTILINE)}


def test_every_test_over_all_operators_passes_for_the_new_one(results):
    mine = {test: word for test, word in results.items() if "squared" in test}
    assert set(mine.values()) == {"PASSED"}
    of_chips = [test for test in mine if "inequalities" in test]
    assert len(of_chips) > 20


def test_a_reference_that_says_another_value_fails(results):
    words = {word for test, word in results.items() if "doubled" in test and "match_the_reference" in test}
    assert words == {"FAILED"}
