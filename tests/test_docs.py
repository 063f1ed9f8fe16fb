"""The guides say what the program does: every command and every example in them is run, and its output compared."""

import doctest
import re

import pytest

from tests.readme import BLOCK, COMMAND, GUIDES, ROOT, renewed, run

PYCON = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
TEXTS = {guide.stem: guide.read_text(encoding="utf-8") for guide in GUIDES}
EXPECTED = [
    (name, number, pair)
    for name, text in TEXTS.items()
    for number, pair in enumerate(
        pair for kind, body in BLOCK.findall(text) if kind == "console" for pair in COMMAND.findall(body)
    )
]
every_guide = pytest.mark.parametrize("name", TEXTS)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder for each guide, and the output of its commands there, in the order of the file."""
    made = {}

    def of(name):
        if name not in made:
            place, found = tmp_path_factory.mktemp("guide"), []

            def output(command, where):
                found.append((command, run(command, where)))
                return found[-1][1]

            renewed(TEXTS[name], place, output)
            made[name] = (place, found)
        return made[name]

    return of


@pytest.mark.parametrize(
    ("name", "number", "pair"), EXPECTED, ids=[f"{name}-{pair[0][:50]}" for name, _, pair in EXPECTED]
)
def test_a_guide_shows_what_its_commands_print(name, number, pair, places):
    assert places(name)[1][number] == pair, "`python -m tests.readme` writes the output again"


@every_guide
def test_the_examples_in_python_are_as_shown(name, places, monkeypatch):
    monkeypatch.chdir(places(name)[0])
    text = "\n".join(PYCON.findall(TEXTS[name]))
    examples = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    said = []
    doctest.DocTestRunner(optionflags=flags).run(examples, out=said.append)
    assert not said, "".join(said)


@every_guide
def test_a_guide_has_something_to_run(name):
    assert sum(guide == name for guide, *_ in EXPECTED) >= 6
    assert ">>> " in "".join(PYCON.findall(TEXTS[name]))


@every_guide
def test_no_command_of_a_guide_fails_without_saying_so(name, places):
    assert not [command for command, shown in places(name)[1] if "fault of tilesim" in shown or "Traceback" in shown]


@every_guide
def test_a_guide_has_no_places_of_one_machine_and_no_dead_links(name):
    assert not re.search(r"/(home|root|tmp|Users|work)/", TEXTS[name])
    for target in LINK.findall(TEXTS[name]):
        assert (ROOT / "docs" / target).exists(), target


def test_the_readme_leads_to_the_guides():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [guide.name for guide in GUIDES if f"(docs/{guide.name})" not in readme] == []
