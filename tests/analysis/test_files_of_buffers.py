"""A file of buffers where an operator can stand: sweep, what-if, report and region say what its check says."""

import pytest

import tilesim
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.operators.binding import bind
from tilesim.ops import load_operator
from tilesim.render.plot import feasible_region
from tilesim.render.report.report import report

CHIPS = ("ascend910b3", "ascend950pr")
GATHER = """
name = "gather"
about = "rows of a table by index"
counted_from = "size"
[sizes]
BLOCK = 48000
rows = 1
[[buffers]]
name = "block"
shape = ["rows", "BLOCK"]
slots = 2
[reserve]
ub = "5%"
[grid]
programs = "ceil(1000000 / BLOCK)"
"""


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "gather.toml"
    place.write_text(GATHER, encoding="utf-8")
    return str(place)


def test_a_sweep_checks_every_point(path):
    table = tilesim.sweep(path, {"BLOCK": "8000:48000:8000"}, chips=CHIPS)
    assert len(table) == 12
    for block, chip, verdict, slack in zip(*(table[n] for n in ("BLOCK", "chip", "verdict", "slack")), strict=True):
        one = tilesim.check_buffers(path, chip, {"BLOCK": block})
        assert (verdict, slack) == (one.verdict, one.tightest.slack_bytes)
    assert "time_us" not in [column.name for column in table.columns]


def test_a_what_if_checks_every_memory(path):
    table = tilesim.whatif(path, {}, chip=CHIPS[0], set={"memory.ub.size_bytes": "196608,393216,786432"})
    sizes = table["memory.ub.size_bytes"]
    chips = [load_chip(CHIPS[0]).override({"memory.ub.size_bytes": size}) for size in sizes]
    assert list(table["verdict"]) == [tilesim.check_buffers(path, chip).verdict for chip in chips]
    assert set(table["verdict"]) == {"overflow", "fits"}


def test_a_report_is_about_every_chip(path):
    made = report(path, {"BLOCK": 24000}, chips=CHIPS)
    assert [chip["verdict"]["verdict"] for chip in made.to_json()["chips"]] == ["overflow", "fits"]
    for text in (made.markdown(), made.html()):
        assert "rows of a table by index" in text
        assert "block" in text


def test_a_region_has_the_line_of_the_buffers(path):
    figure = feasible_region(bind(load_operator(path), {}), load_chip(CHIPS[0]))
    assert any("BLOCK" in text.get_text() for legend in figure.legends for text in legend.get_texts())


@pytest.mark.parametrize("ask", [tilesim.plan, tilesim.check])
def test_a_check_is_a_verdict_and_a_plan_is_refused(path, ask):
    if ask is tilesim.check:
        assert ask(path, {}, chip=CHIPS[0]).to_json() == tilesim.check_buffers(path, CHIPS[0]).to_json()
        return
    with pytest.raises(BadInput, match="no instructions"):
        ask(path, {"BLOCK": 100}, chip=CHIPS[0])
