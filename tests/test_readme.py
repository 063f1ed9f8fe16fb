"""README.md says what the program does: every command in it is run, and its output compared."""

import re

import pytest

from tests.readme import BLOCK, COMMAND, README, renewed, run

TEXT = README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of every command, in the order of the file."""
    found = []

    def output(command, place):
        found.append((command, run(command, place)))
        return found[-1][1]

    renewed(TEXT, tmp_path_factory.mktemp("readme"), output)
    return found


EXPECTED = [pair for kind, body in BLOCK.findall(TEXT) if kind == "console" for pair in COMMAND.findall(body)]


@pytest.mark.parametrize("number", range(len(EXPECTED)), ids=lambda i: EXPECTED[i][0][:60])
def test_the_readme_shows_what_its_commands_print(number, outputs):
    command, shown = outputs[number]
    assert (command, shown) == EXPECTED[number], "`python -m tests.readme` writes the output again"


def test_there_is_something_to_run():
    assert len(EXPECTED) >= 6


def test_the_readme_has_no_places_of_one_machine():
    assert not re.search(r"/(home|root|tmp|Users|work)/", TEXT)
