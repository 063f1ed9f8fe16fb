"""What notebooks show: well-formed, escaped, self-contained, and only styled within itself."""

import dataclasses
import re
import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tilesim
from tests.measured.test_compare import SHAPED, SIGMOID
from tests.samples import GATED
from tilesim.analysis.table import Column, Table
from tilesim.ops import load_operator
from tilesim.render.report.notebook import html

VOID = {"meta", "br", "img", "link"}
ALONE = {"line", "rect", "circle", "path"}
"""SVG elements that close themselves."""
GLU = ("glu_backward", {"self": (16, 64, 256)})
EVIL = "<script>alert(1)</script>"


class Tree(HTMLParser):
    """The elements of a piece of HTML, and whether every one is closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in ALONE
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def results():
    for op, given in (GATED[:2], GLU):
        plan = tilesim.plan(op, given, chip="ascend950pr")
        yield from (plan.verdict, plan, tilesim.simulate(plan))
    yield tilesim.check("glu_backward", {"self": (8, 4097)}, chip="ascend950pr")
    yield tilesim.check(GATED[0], GATED[1] | {"H": 5120}, chip="ascend950pr")
    yield tilesim.check("masked_causal_conv1d_backward", {"S": 64, "B": 2, "H": 64, "W": 3}, chip="ascend310p3")
    empty = tilesim.plan("glu_backward", {"self": (0, 4, 6)}, chip="ascend950pr")
    yield from (empty.verdict, empty, tilesim.simulate(empty))


def tables():
    """Results that are tables or have some: those of buffers, sweeps, profiles and measurements."""
    row = {"sizes": {"rows": 64, "H": 1024}, "buffers": {"x": {"shape": ["rows", "H"], "slots": 2}}}
    yield from (tilesim.check_buffers(row, "ascend910b3", {"rows": rows}) for rows in (8, 64))
    yield tilesim.check_buffers({"name": EVIL, "grid": {"programs": 0}}, "ascend910b3")
    yield tilesim.check_buffers(row | {"caps": {EVIL: {"of": "H", "most": 1}}}, "ascend910b3")
    yield tilesim.sweep(*GLU, chips=["ascend950pr", "ascend910b3"])
    yield tilesim.sweep("glu_backward", {"self": [(n, 64) for n in range(1, 101)]}, chips="ascend950pr", times=False)
    yield tilesim.whatif(*GLU, chip="ascend950pr", set={"cores.vector": "8,64"})
    yield Table(EVIL, (Column(EVIL, EVIL, EVIL), Column("none")), ((EVIL, None), (1.5, "")), (EVIL,))
    with tempfile.TemporaryDirectory() as place:
        profile = Path(place) / "p.csv"
        for rows in ([SIGMOID, SIGMOID.replace("Sigmoid", EVIL)], []):
            profile.write_text("\n".join([SHAPED, *rows]), encoding="utf-8")
            yield tilesim.compare(profile, "ascend910b2")
    yield tilesim.validate(None, "ascend910b2", all=True)
    yield tilesim.validate(None, "ascend910a")


RESULTS = [*results(), *tables()]
every_result = pytest.mark.parametrize("result", RESULTS, ids=lambda r: type(r).__name__)


@every_result
def test_the_html_is_whole_and_small(result):
    text = result._repr_html_()
    tree = Tree(text)
    assert tree.open == []
    assert tree.tags[0] == "div"
    assert len(text) < 40_000


@every_result
def test_nothing_is_loaded_and_nothing_runs(result):
    text = result._repr_html_()
    tree = Tree(text)
    assert not {"script", "link", "img", "iframe", "html", "body"} & set(tree.tags)
    assert not [name for name, _ in tree.attributes if name.startswith("on") or name in ("src", "href", "id")]
    assert not re.search(r"https?:|url\(|@import", text)


@every_result
def test_styles_reach_nothing_else(result):
    style = re.search(r"<style>(.*?)</style>", result._repr_html_(), re.DOTALL)[1]
    selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style) for one in rule.split(",")]
    assert selectors
    assert all(one.startswith(".tilesim.view") for one in selectors)


@every_result
def test_texts_keep_the_colour_of_the_page(result):
    style = re.search(r"<style>(.*?)</style>", result._repr_html_(), re.DOTALL)[1]
    assert set(re.findall(r"[{; ]color: ([^;]+);", style)) == {"inherit"}


@pytest.mark.parametrize("result", RESULTS[:3], ids=lambda r: type(r).__name__)
def test_words_of_users_are_escaped(result):
    operator = dataclasses.replace(load_operator(GATED[0]), name=f"{EVIL} & co")
    plan = tilesim.plan(operator, GATED[1], chip="ascend950pr")
    mine = {"Verdict": plan.verdict, "Plan": plan, "Timeline": tilesim.simulate(plan)}[type(result).__name__]
    text = mine._repr_html_()
    assert "<script" not in text
    assert f"{EVIL} & co on Ascend950PR" in Tree(text).words


def test_a_verdict_tells_the_culprit_and_what_would_pass():
    words = Tree(RESULTS[7]._repr_html_()).words
    assert words.startswith("overflow: text_gated_residual_grad on Ascend950PR")
    for said in (RESULTS[7].culprit, "ACLNN_ERR_INNER_NULLPTR (561103)", "What would pass (checked)", "-16,512 B"):
        assert said in words


def test_a_broken_rule_is_shown():
    assert "split axis even an even number 4097 ACLNN_ERR_PARAM_INVALID" in Tree(RESULTS[6]._repr_html_()).words


def test_a_plan_tells_cores_tiles_and_the_fullest_phase():
    words = Tree(RESULTS[4]._repr_html_()).words
    for said in ("plan: glu_backward", "64 of 64 vector", "the fullest phase: backward", "tiling data, 10 fields"):
        assert said in words


def test_a_timeline_tells_time_bottleneck_and_error():
    timeline = RESULTS[2]
    words = Tree(timeline._repr_html_()).words
    assert words.startswith(f"{timeline.time_us:,.1f} µs" if timeline.time_us >= 10 else f"{timeline.time_us:,.2f} µs")
    for said in (timeline.bottleneck, "known error: ", "steady state"):
        assert said in words


def test_results_with_tables_say_what_their_screens_say():
    fits, overflow, empty, refused, swept, long, _, odd, compared, nothing, validated, none = (
        Tree(one._repr_html_()).words for one in RESULTS[-12:]
    )
    assert fits.startswith("fits: buffers on Ascend910B3, float32 rows=8 H=1024 ub: at the smallest tiles 65,536 of")
    assert "rows 8 1 23" in fits
    for said in (RESULTS[-11].culprit, "rows = 23, the largest", "267%", "2 x [rows, H] float32"):
        assert said in overflow
    assert "nothing is launched" in empty
    assert "What would pass (checked): H = 1" in refused
    assert swept.startswith("glu_backward at 2 points X = 1024")
    assert "and 40 more rows" in long
    assert odd.count(EVIL) == 4
    assert "1 of 2 calls compared" in compared
    assert f"unknown operator {EVIL}" in compared
    assert nothing.startswith("ascend910b2: 0 of 0 calls compared")
    assert validated.startswith(str(RESULTS[-2]))
    assert none.startswith("ascend910a: no row could be compared")


def test_rows_that_are_not_shown_are_counted():
    said = [Tree(Table("", (Column("n"),), tuple((i,) for i in range(n)))._repr_html_()).words for n in (60, 61, 1062)]
    assert [text.partition("59")[2] for text in said] == ["", " and 1 more row", " and 1,002 more rows"]


def test_figures_set_by_hand_are_told():
    chip = tilesim.load_chip("ascend950pr").override({"cores.vector": 48})
    assert "cores.vector = 48 (file: 64)" in Tree(tilesim.check(*GLU, chip=chip)._repr_html_()).words


def test_other_things_are_not_shown():
    with pytest.raises(TypeError, match="int is not shown as HTML"):
        html(3)


@pytest.mark.browser
@pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="no chromium")
@pytest.mark.parametrize("width", [380, 900])
def test_in_a_browser_it_stays_within_its_cell(width, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    page = tmp_path / "cells.html"
    cells = "".join(f'<div class="cell">{result._repr_html_()}</div>' for result in RESULTS)
    page.write_text(f"<!doctype html><meta charset=utf-8><body style='color: rgb(1, 2, 3)'>{cells}<p>beside</p>")
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(shutil.which("chromedriver")))
    try:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(page.as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        colours = driver.execute_script(
            "return [...document.querySelectorAll('.cell td, .cell p')].map(e => getComputedStyle(e).color)"
        )
        assert set(colours) == {"rgb(1, 2, 3)"}
        drawn = driver.execute_script(
            "return [...document.querySelectorAll('.cell svg rect')].map(e => getComputedStyle(e).fill)"
        )
        assert drawn
        assert "rgb(0, 0, 0)" not in drawn
    finally:
        driver.quit()
