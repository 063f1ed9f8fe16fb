"""Reports: what they say, that they say it again, that nothing of a user gets into a page, and the samples."""

import itertools
import json
import re
import shlex
import time
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from tests.samples import CHIPS, CONVOLUTION, GATED, GLU, PAGE, PLACE, TRACKED, sample
from tests.samples import words as sample_words
from tilesim.chip.loading import load_chip
from tilesim.cli import app
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import check, verdict_of
from tilesim.measured.error_bands import accuracy
from tilesim.operators.binding import bind, parse
from tilesim.operators.operator import Argument as Tensor
from tilesim.operators.operator import Dimension, Operator, result
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import plan
from tilesim.program.sizes import dim
from tilesim.render import memory_map
from tilesim.render.excerpts import MOST_EVENTS, lanes
from tilesim.render.report.drawings import arcs, bars, blocks, letter, roofs
from tilesim.render.report.facts import facts
from tilesim.render.report.report import FORMATS, command_line, report, report_of
from tilesim.simulation.roofline import roofline
from tilesim.simulation.timeline import simulate
from tilesim.text import si, size

PR = load_chip("ascend950pr")
EVIL = "<script>alert('x')</script>\"'|`$(id)\n# head"
PARTS = (
    "verdict",
    "budget",
    "memory",
    "cores",
    "workspace",
    "time",
    "pipes",
    "roofline",
    "stages",
    "program",
    "next",
    "sources",
)
VOID = {"meta", "link", "img", "br", "hr", "input"}


@pytest.fixture(scope="module")
def main():
    return report(*GATED, chips=CHIPS)


@pytest.fixture(scope="module")
def page(main):
    return main.html()


class Page(HTMLParser):
    """Tags in order, ids, links, addresses of what is loaded, and whether every tag is closed by its own."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links, self.loaded, self.text = [], [], [], [], []
        self.open, self.wrong = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.loaded += [found[key] for key in ("src", "href") if key in found and tag != "a"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))

    def handle_data(self, data):
        self.text.append(data)


# ------------------------------------------------------------------- a page
def test_a_page_is_well_formed_and_whole(page):
    parsed = Page(page)
    assert parsed.wrong == []
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)
    for i in range(1, len(CHIPS) + 1):
        assert {f"chip-{i}-{part}" for part in PARTS} <= set(parsed.ids)


def test_a_page_loads_nothing(page):
    assert all(address.startswith("data:") for address in Page(page).loaded)
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page.replace("url(%23tip)", ""))


def test_a_page_follows_light_dark_and_paper(page):
    assert "screen and (prefers-color-scheme: dark)" in page
    assert "@media print" in page
    assert 'name="viewport"' in page


def test_the_verdict_comes_first_and_the_comparison_before_it(page):
    assert page.index("Chips side by side") < page.index('id="chip-1-verdict"') < page.index('id="chip-1-budget"')
    assert page.index('id="chip-1"') < page.index('id="chip-2"') < page.index('id="chip-3"')


def test_a_page_says_what_the_verdict_and_the_plan_say(main, page):
    for answer in main.answers:
        shown = " ".join("".join(Page(page).text).split())
        for b in answer.verdict.inequalities:
            assert b.text in shown
            assert f"{b.slack_bytes:,} B" in shown
        for p in answer.timeline.phases:
            assert f"{p.cycles:,}" in shown
        for name in answer.plan.workspace:
            assert name in shown
        assert f"{answer.plan.workspace_bytes:,} B" in shown
        assert answer.timeline.bottleneck in shown


def test_a_report_on_three_chips_is_fast_and_small(page):
    begin = time.perf_counter()
    again = report(*GATED, chips=CHIPS).html()
    assert time.perf_counter() - begin < 5
    assert len(again.encode()) < 2_000_000
    assert again == page


def test_a_report_has_no_time_and_no_place_in_it(page, main):
    for text in (page, main.markdown(), main.text("json")):
        assert str(PLACE.parent) not in text
        assert not re.search(r"20[2-9]\d-\d\d-\d\d|\d\d:\d\d:\d\d", text)


def test_one_chip_has_no_comparison():
    assert "side by side" not in report(*GLU, chips=["ascend950pr"]).html()


def test_tensors_are_told_with_their_shapes():
    shown = " ".join(" ".join(Page(report(*GATED, chips=["ascend950pr"], gamma=False).html()).text).split())
    assert "gradMixed 1 x 4096 x 2560 bfloat16" in shown
    assert "dgamma null" in shown


def test_the_known_error_is_told_or_that_there_is_none():
    measured = report("softmax", {"self": (4096, 4096)}, chips=["ascend950pr"])
    unknown = report(*GLU, chips=["ascend950pr"])
    for one, words in ((measured, str(accuracy(PR, "softmax"))), (unknown, "unvalidated: ")):
        assert words in one.html()
        assert words in one.markdown()
    assert "±" in str(accuracy(PR, "softmax"))


# ------------------------------------------------------------------- every operator and format
@pytest.mark.parametrize("name", operators_shipped())
@pytest.mark.parametrize("chip", CHIPS)
def test_every_operator_has_a_report(name, chip):
    op = load_operator(name)
    sizes = {
        d.name: d.default or max(d.least, 1, min(64, d.most or 64)) // d.multiple_of * d.multiple_of for d in op.dims
    }
    made = report(
        op, {n: max(s, d.multiple_of) for (n, s), d in zip(sizes.items(), op.dims, strict=True)}, chips=[chip]
    )
    parsed = Page(made.html())
    assert (parsed.wrong, parsed.open) == ([], [])
    assert made.markdown().startswith(f"# {name}")
    json.loads(made.text("json"))


def test_json_has_the_facts_of_the_page(main):
    data = json.loads(main.text("json"))
    assert [c["chip"]["name"] for c in data["chips"]] == list(CHIPS)
    for chip, answer in zip(data["chips"], main.answers, strict=True):
        assert chip["verdict"] == json.loads(json.dumps(answer.verdict.to_json()))
        assert chip["plan"]["block_dim"] == answer.plan.block_dim
        assert [p["cycles"] for p in chip["time"]["phases"]] == [p.cycles for p in answer.timeline.phases]


def test_markdown_tables_have_as_many_cells_as_heads(main):
    bad = report(GATED[0], {**GATED[1], "R": 656}, chips=CHIPS)
    for text in (main.markdown(), bad.markdown()):
        head = 0
        for line in text.splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line))
            head = (head or cells) if line.startswith("|") else 0
            assert not line.startswith("|") or cells == head, line
        assert "\n\n\n\n" not in text


ODD = {
    "nothing to launch": ("glu_backward", {"self": (0, 4)}),
    "no tokens": (GATED[0], {**GATED[1], "S": 0}),
    "one token": (GATED[0], {**GATED[1], "S": 1}),
    "2^40 tokens": (GATED[0], {**GATED[1], "S": 2**40}),
    "without options": (GATED[0], {**GATED[1], "inject": False, "gamma": False}),
    "split in the middle": ("glu_backward", {"self": (2, 4, 6, 8), "dim": 1}),
    "one axis": ("glu_backward", {"self": (2,)}),
    "masked": ("masked_causal_conv1d_backward", {"S": 70, "B": 1, "H": 64, "W": 3, "mask": True}),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_shapes_have_a_report(case):
    op, given = ODD[case]
    made = report(op, given, chips=["ascend950pr", "ascend910b3"])
    parsed = Page(made.html())
    assert (parsed.wrong, parsed.open) == ([], [])
    assert made.markdown()
    json.loads(made.text("json"), parse_constant=pytest.fail)


# ------------------------------------------------------------------- what is refused
REFUSED = {
    "overflow": (GATED[0], {**GATED[1], "H": 5120}, "16,512 B too many"),
    "rule": (GATED[0], {**GATED[1], "R": 656}, "R range"),
    "negative": (GATED[0], {**GATED[1], "H": -16}, "H"),
    "odd": ("glu_backward", {"self": (2, 4, 5)}, "an even number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_no_has_a_report_that_says_why(case):
    op, given, why = REFUSED[case]
    made = report(op, given, chips=CHIPS[:2])
    assert not made.ok
    for text in (made.html(), made.markdown(), made.text("json")):
        assert why in text
    for answer in made.answers:
        assert answer.plan is None
        assert answer.verdict.culprit
        for remedy in answer.verdict.remedies:
            assert str(remedy) in made.html()


def test_an_overflow_is_drawn_with_the_end_of_the_budget():
    made = report(GATED[0], {**GATED[1], "H": 5120}, chips=["ascend950pr"])
    assert 'class="limit"' in made.html()
    assert "4,800" in made.html()


def test_a_chip_without_the_operator_stands_beside_one_with_it():
    made = report(*CONVOLUTION, chips=CHIPS)
    assert [a.verdict.verdict for a in made.answers] == ["fits", "unsupported", "unsupported"]
    assert Page(made.html()).wrong == []


def test_no_chip_and_a_wrong_ending_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no chip is given"):
        report(*GLU, chips=[])
    with pytest.raises(BadInput, match=r"must end in one of \.html"):
        report(*GLU, chips=["ascend950pr"]).write(tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------- what a user wrote
def evil_operator():
    n = dim("N")

    def kernel(k):
        with k.vector(EVIL) as p:
            for i in p.loop(EVIL, n, p.tile("rows"), split=True):
                a = p.load(k["x"][i], name=EVIL)
                p.store(p.move(a, name=EVIL, slots=2), k["y"][i])

    return Operator(
        name=EVIL, api=EVIL, about=EVIL, dims=(Dimension("N"),), tensors=(Tensor("x", "N"), result("y", "N")),
        kernel=kernel, dtypes={"950": ("float32",)}, dtype="float32", lead="x",
    )  # fmt: skip


def test_what_a_user_wrote_stays_text():
    chip = PR.model_copy(update={"name": EVIL, "soc": EVIL, "product": EVIL})
    call = bind(evil_operator(), {"N": 4096})
    made = report_of([verdict_of(call, one) for one in (chip, PR)], command=f"tilesim report {EVIL}")
    text = made.html()
    parsed = Page(text)
    assert "script" not in parsed.tags
    assert "<script" not in text
    assert (parsed.wrong, parsed.open) == ([], [])
    assert "alert('x')" in "".join(parsed.text)
    assert "<script" not in made.markdown()
    assert "\n# head" not in made.markdown()
    json.loads(made.text("json"))


# ------------------------------------------------------------------- drawings
@pytest.mark.parametrize("chip", CHIPS)
def test_memory_maps_are_to_scale_and_without_gaps(chip):
    made = plan(*GATED, chip=chip)
    for one in made.phases:
        for memory in ("ub",) if one.phase.core_kind == "vector" else ("l1", "l0a", "l0b", "l0c"):
            found = memory_map.memory_map_of(one, memory)
            at = 0
            for block in found.blocks:
                assert block.offset_bytes == at
                at += block.bytes
            assert at == found.size_bytes == made.chip.memory.on_chip(memory).size_bytes
            drawn = list(blocks(found.to_json()))
            assert sum(b["width"] for b in drawn) == pytest.approx(100, abs=0.05)
            assert all(len(b["dividers"]) == b["slots"] - 1 for b in drawn)


def test_the_map_of_an_inequality_takes_what_its_left_side_says():
    verdict = check(GATED[0], {**GATED[1], "H": 5120}, chip=PR)
    for b in verdict.inequalities:
        if b.memory in ("ub", "l1", "l0a", "l0b", "l0c"):
            found = memory_map.needed(verdict, b)
            assert found.used_bytes - found.budget_bytes == -b.slack_bytes


@pytest.mark.parametrize("given", [GATED, GLU, CONVOLUTION], ids=lambda g: g[0])
def test_excerpts_are_exact_pieces_of_the_timeline(given):
    timeline = simulate(plan(*given, chip=PR))
    for i, phase in enumerate(timeline.phases):
        found = lanes(timeline, phase.name)
        assert 1 <= len(found.excerpts) <= 3
        for excerpt in found.excerpts:
            assert len(excerpt.events) <= MOST_EVENTS
            assert 0 <= excerpt.start_cycles < excerpt.end_cycles <= phase.cycles
            for pipe in found.pipes:
                lane = excerpt.lane(pipe)
                assert all(a.end_cycles <= b.start_cycles for a, b in itertools.pairwise(lane))
        for a, b in itertools.pairwise(found.excerpts):
            assert a.start_cycles < b.start_cycles
        assert found.pipes_end_cycles == max(timeline.plan.phases[i].makespans) <= phase.cycles
        data = found.to_json()
        for excerpt in data["excerpts"]:
            for bar in bars(excerpt, data["pipes"]):
                assert 0 <= bar["x"] <= 1000
                assert bar["x"] + bar["width"] <= 1001


def test_a_roofline_counts_multiply_adds_and_bytes(main):
    answer = main.answers[0]
    found = roofline(answer.timeline)
    dims = GATED[1]
    tokens, wide = dims["B"] * dims["S"], dims["C"] * dims["H"]
    product = next(p for p in found.points if p.phase == "dXn = dDown wDown")
    assert product.operations == 2 * tokens * dims["R"] * wide
    for point in found.points:
        spent = answer.timeline.phase(point.phase)
        assert point.bytes == spent.read_bytes + spent.write_bytes
        assert point.per_s <= max(r.per_s for r in found.roofs if r.core_kind == point.core_kind)
    drawn = roofs(found.to_json())
    frame = drawn["frame"]
    for dot in drawn["dots"]:
        assert frame["left"] <= dot["x"] <= frame["right"]
        assert frame["top"] <= dot["y"] <= frame["bottom"]


def test_arcs_join_what_writes_to_what_reads(main):
    flow = facts(main.answers[0])["flow"]
    assert {"from": "gate backward", "to": "norm backward", "tensor": "mixGrad"} not in flow["edges"]
    assert {"from": "activation backward", "to": "norm backward", "tensor": "mixGrad"} in flow["edges"]
    drawn = arcs(flow)
    assert len(drawn["nodes"]) == len(flow["phases"])
    assert len(drawn["arcs"]) == len({(e["from"], e["to"]) for e in flow["edges"]})


# ------------------------------------------------------------------- words
def test_words():
    assert [letter(i) for i in (0, 25, 26)] == ["a", "z", "a2"]
    assert (size(512), size(2048), size(3 << 30)) == ("512 B", "2.0 KiB", "3.0 GiB")
    assert (si(1.4e12), si(12.0)) == ("1.4 T", "12 ")
    assert command_line("x", {"self": (2, 4), "a": None, "b": True}, [PR], "float16") == (
        "tilesim report x self=2x4 a=none b=true --chip ascend950pr --dtype float16"
    )


def test_the_command_of_a_report_asks_for_the_same_call():
    given = {"x1": (8, 4), "x2": ()}
    op = load_operator("add")
    words = command_line("add", given, [PR]).removesuffix(f" --chip {PR.name}").split()[3:]
    assert bind(op, parse(op, words)).specs == bind(op, given).specs


def test_letters_of_a_phase_go_on_from_memory_to_memory():
    page = report("matmul", {"M": 256, "K": 256, "N": 256}, chips=[PR]).html()
    letters = re.findall(r"<i></i><b>(\w+)</b>", page)
    assert len(letters) > 3
    assert len(set(letters)) == len(letters)
    assert "There is no inequality" not in page


# ------------------------------------------------------------------- the samples
@pytest.mark.parametrize("name", TRACKED)
def test_the_samples_are_what_the_command_makes(name, tmp_path):
    written = (PLACE / name).read_text(encoding="utf-8")
    assert shlex.join(["tilesim", *sample_words(name)]) in written
    assert sample(name, tmp_path).read_text(encoding="utf-8") == written, "write them again with: make samples"


def test_the_page_says_which_command_makes_it(tmp_path):
    page = sample(PAGE, tmp_path).read_text(encoding="utf-8")
    assert shlex.join(["tilesim", *sample_words(PAGE)]) in page.replace("&#39;", "'")


def test_the_command_keeps_the_path_within_its_directory(tilesim, tmp_path):
    (tmp_path / "to").mkdir()
    for out, told in (("to/r.md", "to/r.md"), (tmp_path / "to" / "r.md", "r.md"), ("to/../r.md", "r.md")):
        tilesim("report", "glu_backward", "self=2x64x128", "--chip", "ascend950pr", "--out", out)
        assert f"--chip ascend950pr --out {told}\n" in (tmp_path / out).read_text(encoding="utf-8")


def test_the_samples_are_small_and_there_are_no_others():
    files = {path.name: path.stat().st_size for path in PLACE.glob("*.md")}
    assert set(files) == {*TRACKED, "accuracy.md"}  # the last is written by bench.accuracy
    assert sum(files.values()) < 2_000_000


# ------------------------------------------------------------------- the command
@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="tilesim")


@pytest.mark.parametrize("ending", FORMATS)
def test_the_command_writes_a_report(tilesim, tmp_path, ending):
    done = tilesim("report", "glu_backward", "self=2x64x128", "--chip", "ascend950pr", "--out", f"r.{ending}")
    assert (done.exit_code, done.stderr) == (0, "")
    text = (tmp_path / f"r.{ending}").read_text(encoding="utf-8")
    assert f"tilesim report glu_backward self=2x64x128 --chip ascend950pr --out r.{ending}" in text
    assert "glu_backward on ascend950pr: fits" in done.stdout


def test_the_command_for_several_chips_and_a_changed_figure(tilesim):
    words = ["--chip", "ascend950pr", "--chip", "ascend910b3", "--set", "cores.vector=8", "--json"]
    done = tilesim("report", "glu_backward", "self=2x64x128", *words)
    data = json.loads(done.stdout)
    assert [c["chip"]["vector_cores"] for c in data["chips"]] == [8, 8]
    assert data["chips"][0]["chip"]["overridden"] == {"cores.vector": {"was": 64, "is": 8}}


def test_a_no_is_exit_code_1_and_a_file(tilesim, tmp_path):
    done = tilesim("report", "glu_backward", "self=2x4x5", "--chip", "ascend950pr", "--out", "r.html")
    assert done.exit_code == 1
    assert "an even number" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_without_a_file_the_report_is_printed(tilesim):
    done = tilesim("report", "glu_backward", "self=2x64x128", "--chip", "ascend950pr")
    assert done.stdout.startswith("# glu_backward\n")


@pytest.mark.parametrize("words", [
    ["self=2x64x128", "--chip", "ascend950pr", "--out", "r.pdf"],
    ["self=2x64x128", "--chip", "ascend950"],
    ["self=2x64x128"],
    ["selves=2x64x128", "--chip", "ascend950pr", "--out", "r.html"],
    ["self=2x64x128", "--chip", "ascend950pr", "--out", "none/r.html"],
    ["self=2x64x128", "--chip", "ascend950pr", "--tile", "rows=0"],
])  # fmt: skip
def test_bad_input_is_exit_code_2_and_no_file(tilesim, tmp_path, words):
    done = tilesim("report", "glu_backward", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
