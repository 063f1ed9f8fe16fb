"""Plots: what they show, that nothing overlaps or is cut off, and files that are whole, equal or not there."""

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text
from typer.testing import CliRunner

from tilesim.analysis.sensitivity import SENSITIVITY_COLUMNS, sensitivity
from tilesim.analysis.sweep import sweep
from tilesim.analysis.table import Column, table_of
from tilesim.chip.loading import load_chip
from tilesim.cli import app
from tilesim.errors import BadInput
from tilesim.feasibility.evaluate import passes
from tilesim.feasibility.limits import largest
from tilesim.kernels.composites import load_as, store_as
from tilesim.operators.binding import bind
from tilesim.operators.calls import resized
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.ops import load_operator
from tilesim.planning.plan import plan
from tilesim.program.sizes import dim
from tilesim.render import plot
from tilesim.render.plot.style import CYCLE, FORMATS, styled
from tilesim.render.report.drawings import letter
from tilesim.render.report.report import report
from tilesim.simulation.timeline import simulate

PR, B3, A3 = (load_chip(name) for name in ("ascend950pr", "ascend910b3", "ascend910_9391"))
GATED, CONV, GLU = "text_gated_residual_grad", "masked_causal_conv1d_backward", "glu_backward"
DIMS = {"B": 1, "S": 4096, "C": 4, "H": 2560, "R": 320}
CONV_DIMS = {"S": 8192, "B": 2, "H": 4096, "W": 3}
SELF = {"self": (2, 4096, 8192)}


def call_of(name, given):
    return bind(load_operator(name), given)


@pytest.fixture(scope="module")
def gated():
    return simulate(plan(GATED, DIMS, chip=PR))


@pytest.fixture(scope="module")
def figures(gated):
    table = sweep(GATED, DIMS | {"H": "1024:5120:1024"}, chips=[PR, B3])
    return {
        "region": plot.feasible_region(call_of(GATED, DIMS), B3),
        "region outside": plot.feasible_region(call_of(GATED, DIMS | {"H": 5120, "R": 656}), B3),
        "region of another kernel": plot.feasible_region(call_of(GLU, SELF), PR),
        "region by computed sizes": plot.feasible_region(call_of(GATED, DIMS), PR, "S", "H"),
        "region of a convolution": plot.feasible_region(call_of(CONV, CONV_DIMS), PR),
        "buffers": plot.buffer_map(gated.plan),
        "buffers of one phase": plot.buffer_map(gated.plan, "gate backward"),
        "buffers of a composite": plot.buffer_map(plan(GLU, SELF, chip=B3)),
        "gantt": plot.gantt(gated),
        "gantt of one phase": plot.gantt(gated.plan, "norm backward"),
        "gantt of a convolution": plot.gantt(plan(CONV, CONV_DIMS, chip=PR)),
        "roofline": plot.roofline(gated),
        "roofline of a composite": plot.roofline(plan(GLU, SELF, chip=A3)),
        "sweep": plot.sweep_curves(table),
        "sweep of slack": plot.sweep_curves(table, "slack"),
        "tornado": plot.tornado(sensitivity(GLU, SELF, PR)),
    }


@pytest.fixture(scope="module")
def written(figures):
    """What is written on each figure, drawn once."""
    return {name: texts(figure) for name, figure in figures.items()}


NAMES = (
    "region", "region outside", "region of another kernel", "region by computed sizes", "region of a convolution",
    "buffers", "buffers of one phase", "buffers of a composite", "gantt", "gantt of one phase",
    "gantt of a convolution", "roofline", "roofline of a composite", "sweep", "sweep of slack", "tornado",
)  # fmt: skip
every_figure = pytest.mark.parametrize("name", NAMES)


def texts(figure):
    """(text, box in pixels) of everything that is written and seen."""
    with styled():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        found = []
        for text in figure.findobj(Text):
            if text.get_visible() and text.get_text().strip() and (text.axes is None or text.axes.get_visible()):
                # an annotation's own box would take in the point that it is about
                box = (
                    Text.get_window_extent(text, renderer)
                    if isinstance(text, Annotation)
                    else text.get_window_extent(renderer)
                )
                found.append((text, box))
        return found


def shown(figure, found):
    """Without the ticks that matplotlib keeps outside of an axis, which it does not draw."""
    hidden = set()
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not min(low, high) <= tick.get_loc() <= max(low, high):
                    hidden |= {tick.label1, tick.label2}
    return [(t, b) for t, b in found if t not in hidden]


# ------------------------------------------------------------------- all of them
@every_figure
def test_no_text_overlaps_another_or_is_cut_off(figures, written, name):
    assert len(written[name]) > 8
    assert_apart(figures[name], written[name])


def test_an_overlap_would_be_seen(gated):
    figure = plot.roofline(gated)
    figure.text(0.02, 0.98, "a text upon the title", va="top")
    with pytest.raises(AssertionError, match="overlaps"):
        assert_apart(figure, texts(figure))


def assert_apart(figure, found):
    """Fail if a text lies upon another or outside of the figure."""
    found = shown(figure, found)
    width, height = figure.canvas.get_width_height()
    for text, box in found:
        assert -1 <= box.x0 <= box.x1 <= width + 1, f"{text.get_text()!r} is cut off"
        assert -1 <= box.y0 <= box.y1 <= height + 1, f"{text.get_text()!r} is cut off"
    for (a, one), (b, other) in itertools.combinations(found, 2):
        over_x = min(one.x1, other.x1) - max(one.x0, other.x0)
        over_y = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert over_x < 1 or over_y < 1.5, f"{a.get_text()!r} overlaps {b.get_text()!r}"


@every_figure
def test_text_is_large_enough_to_read(written, name):
    for text, _ in written[name]:
        assert text.get_fontsize() >= 6, text.get_text()


@every_figure
def test_every_axis_says_what_it_is_and_in_which_unit(figures, name):
    for axes in figures[name].axes:
        if axes.get_xlabel() or not name.startswith("buffers"):
            assert "[" in axes.get_xlabel() or "cycles" in axes.get_xlabel()
        if axes.get_ylabel():
            assert "[" in axes.get_ylabel()


@every_figure
def test_every_plot_has_a_title_with_the_operator(written, name):
    words = " ".join(text.get_text() for text, _ in written[name])
    assert any(op in words for op in (GATED, CONV, GLU))


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_plot_is_the_same_file(gated, tmp_path, ending):
    first = plot.write_figure(plot.roofline(gated), tmp_path / f"a.{ending}").read_bytes()
    assert first == plot.write_figure(plot.roofline(gated), tmp_path / f"b.{ending}").read_bytes()
    assert first.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    assert len(list(tmp_path.iterdir())) == 2


def test_an_svg_is_xml_with_its_text_as_text(gated, tmp_path):
    root = ET.fromstring(plot.write_figure(plot.roofline(gated), tmp_path / "a.svg").read_text())
    assert "roofline" in " ".join(root.itertext())


def test_another_ending_and_another_place_write_nothing(gated, tmp_path):
    figure = plot.roofline(gated)
    with pytest.raises(BadInput, match=r"must end in one of \.svg, \.png, \.pdf"):
        plot.write_figure(figure, tmp_path / "a.jpg")
    with pytest.raises(BadInput, match="cannot be written"):
        plot.write_figure(figure, tmp_path / "none" / "a.svg")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------- one by one
def test_a_region_has_a_line_for_each_inequality_that_limits_it(figures):
    (axes,) = figures["region"].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("H [elements]", "R [elements]")
    words = [text.get_text() for text in figures["region"].legends[0].get_texts()]
    assert any("13H <= 39664" in w for w in words)
    assert any("3H + 8R" in w and "holds in the whole plot" in w for w in words)
    assert any("documented range of R: 1 to 640, a multiple of 16" in w for w in words)
    assert words[0] == "H = 2,560, R = 320: fits"


def test_the_line_of_a_region_is_where_the_largest_size_is():
    call = call_of(GATED, DIMS)
    (axes,) = plot.feasible_region(call, B3).axes
    line = next(c for c in axes.collections if not c.get_facecolor().size)
    xs = np.concatenate([p.vertices[:, 0] for p in line.get_paths()])
    limit = largest(call, B3, call.operator.dimensions["H"])
    assert limit == 3040
    assert limit <= xs.min() <= xs.max() < limit + 16


@pytest.mark.parametrize("case", [
    (GATED, DIMS, B3, "H", "R"), (GATED, DIMS | {"R": 640}, PR, "H", "C"), (CONV, CONV_DIMS, PR, "B", "H"),
], ids=lambda case: "-".join((case[0], *case[3:])))  # fmt: skip
def test_the_region_is_where_the_check_says_yes(case):
    name, given, chip, x, y = case
    call = call_of(name, given)
    (axes,) = plot.feasible_region(call, chip, x, y).axes
    area = axes.collections[0].get_paths()
    random = np.random.default_rng(0)
    answers = set()
    for _ in range(120):
        at = {}
        for name, (low, high) in ((x, axes.get_xlim()), (y, axes.get_ylim())):
            step, least = call.operator.dimensions[name].multiple_of, max(call.operator.dimensions[name].least, 1)
            at[name] = max(int(random.uniform(low, high)) // step, -(-least // step)) * step
        near = [
            (at[x] + dx * axes.get_xlim()[1] / 200, at[y] + dy * axes.get_ylim()[1] / 200)
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
        ]
        inside = {any(path.contains_point(p) for path in area) for p in near if min(p) > 0}
        if len(inside) == 1:  # not at the edge, where the lines of the grid are too coarse
            assert inside == {passes(resized(call, at), chip)}, at
            answers |= inside
    assert answers == {True, False}


def test_a_shape_outside_the_region_is_marked_as_such(figures):
    assert figures["region outside"].legends[0].get_texts()[0].get_text() == "H = 5,120, R = 656: does not pass"


def test_where_another_kernel_takes_over_nothing_is_left_out():
    call = call_of(GLU, SELF)
    assert passes(call_of(GLU, {"self": (2, 4096, 65536)}), PR)
    (axes,) = plot.feasible_region(call, PR).axes
    words = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert all("nowhere" not in w for w in words)


def test_a_region_refuses_what_is_no_dim():
    call = call_of(GATED, DIMS)
    with pytest.raises(BadInput, match="'Hh' is not a dim; did you mean 'H'"):
        plot.feasible_region(call, PR, "Hh")
    with pytest.raises(BadInput, match="H cannot be both axes"):
        plot.feasible_region(call, PR, "H", "H")


def test_buffers_are_drawn_to_scale(gated, figures):
    (axes,) = figures["buffers of one phase"].axes
    one = gated.plan.phases[0]
    drawn = {p.get_label(): (p.get_x() * 1024, p.get_width() * 1024) for p in axes.patches}
    for buffer, home in one.homes.items():
        if not buffer.pool:
            assert drawn[buffer.name] == pytest.approx((home.offset, home.bytes * home.slots))
    assert {"scratch", "scalars"} <= drawn.keys()
    assert axes.get_xlim() == (0, 253952 / 1024)
    assert f"{axes.get_title(loc='left')}".startswith("gate backward, ub: ")


def many_buffers(count):
    """An operator whose one phase has so many buffers."""

    def kernel(k):
        with k.vector("chain") as p:
            for n in p.loop("n", dim("X"), p.tile("rows"), split=True):
                value = load_as(p, k["x"][n], "float32", name="x")
                for i in range(count - 1):
                    value = p.adds(value, 1, out=p.buffer(f"b{i}", value.shape))
                store_as(p, value, k["y"][n], name="out")

    return Operator(
        name="chain", api="", about="x + count", lead="x", kernel=kernel, dims=(Dimension("X"),),
        tensors=(Argument("x", "X"), result("y", "X")), dtypes={"950": ("float32",)}, dtype="float32",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("op", "given"), [(GATED, DIMS), ("matmul", {"M": 256, "K": 256, "N": 256}), (many_buffers(200), {"X": 8})]
)
def test_a_mark_means_one_buffer_of_a_phase(op, given):
    made = plan(op, given, chip=PR)
    figure = plot.buffer_map(made)
    marks, drawn = {}, {}
    for axes in figure.axes:
        phase = axes.get_title(loc="left").partition(",")[0]
        texts = [t for t in axes.texts if not isinstance(t, Annotation)]
        drawn.setdefault(phase, []).extend(t.get_text() for t in texts)
        listed = [t.get_text() for t in axes.texts if isinstance(t, Annotation)]
        marks.setdefault(phase, []).extend(m for t in listed for m in re.findall(r"(?:^|   )(\d+)\u00a0", t))
    for one in made.phases:
        found, buffers = marks[one.phase.name], [b for b in one.homes if not b.pool]
        assert len(found) == len(set(found)) == len(buffers)
        assert set(drawn[one.phase.name]) <= set(found)
    page = report(op, given, chips=[PR]).html()
    for part in page.split("<h4")[1:]:
        letters = re.findall(r"<i></i><b>(\w+)</b>", part)
        assert len(letters) == len(set(letters))


def test_letters_are_unique_for_any_number_of_buffers():
    assert len({letter(number) for number in range(5000)}) == 5000


def test_a_gantt_has_a_lane_for_every_pipe_that_works(gated, figures):
    axes = figures["gantt of one phase"].axes
    assert len(axes) == 3
    assert [t.get_text() for t in axes[0].get_yticklabels()] == ["copy in (mte2)", "vector (v)", "copy out (mte3)"]
    assert [a.get_title(loc="left").partition(",")[0] for a in axes] == ["first tiles", "steady state", "last tiles"]
    assert len(figures["gantt"].subfigs) == len(gated.phases)
    assert all(len(a.collections) == 3 for a in axes)


def test_a_roofline_has_four_roofs_and_a_point_for_each_phase(gated, figures):
    (axes,) = figures["roofline"].axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    dots = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert len(dots) == len(gated.phases)
    assert len(axes.lines) - len(dots) == 4
    assert len(figures["roofline of a composite"].axes[0].lines) > 3


def test_a_sweep_has_a_curve_for_each_chip_and_crosses_where_there_is_no_time(figures):
    (axes,) = figures["sweep"].axes
    words = [text.get_text() for text in figures["sweep"].legends[0].get_texts()]
    assert words[0] == "chip = ascend950pr"
    assert "does not pass: chip = ascend910b3" in words
    assert axes.get_ylabel() == "time [µs]"
    assert axes.get_ylim()[0] == 0
    assert "the limit" in [text.get_text() for text in figures["sweep of slack"].legends[0].get_texts()]


def test_a_sweep_refuses_what_cannot_be_drawn():
    columns = (Column("H", "elements"), Column("S", "elements"), Column("time_us", "us"))
    rows = [(h, s, 1.0) for h in range(20) for s in range(20)]
    with pytest.raises(BadInput, match=f"20 curves, at most {len(CYCLE)}"):
        plot.sweep_curves(table_of("t", columns, rows))
    with pytest.raises(BadInput, match="'time' is not a column; did you mean 'time_us'"):
        plot.sweep_curves(table_of("t", columns, rows), "time")
    with pytest.raises(BadInput, match="no dim and no parameter has numbers"):
        plot.sweep_curves(table_of("t", (Column("chip"), Column("time_us", "us")), [("a", 1.0)]))


def test_a_tornado_has_two_bars_a_figure_and_marks_guesses(figures):
    (axes,) = figures["tornado"].axes
    names = [t.get_text() for t in axes.get_yticklabels()]
    assert len(axes.patches) == 2 * len(names)
    widths = [abs(p.get_width()) for p in axes.patches]
    most = [max(widths[i], widths[i + len(names)]) for i in range(len(names))]
    assert most == sorted(most, reverse=True)


def test_a_tornado_without_bars_is_refused():
    row = ("clock.vector_hz", "Hz", 1, "platform", 1, 1, 1.0, 1.0, 0.0, 0.0, "")
    with pytest.raises(BadInput, match="no parameter of the chip changes the time"):
        plot.tornado(table_of("t", SENSITIVITY_COLUMNS, [row]))


def test_what_is_not_launched_cannot_be_drawn():
    empty = plan(GLU, {"self": (0, 4)}, chip=PR)
    for draw in (plot.buffer_map, plot.gantt, plot.roofline):
        with pytest.raises(BadInput, match=r"nothing is launched|no phase"):
            draw(empty)


def test_a_phase_that_is_not_there_is_refused(gated):
    for draw in (plot.buffer_map, plot.gantt):
        with pytest.raises(BadInput, match="'gate backwards' is not a phase; did you mean 'gate backward'"):
            draw(gated.plan, "gate backwards")


# ------------------------------------------------------------------- the command
@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="tilesim")


@pytest.mark.parametrize("kind", plot.KINDS)
def test_the_command_draws_every_kind(tilesim, tmp_path, kind):
    words = ["self=2x64x128", "--chip", "ascend950pr"]
    if kind == "sweep":
        words = [
            "self=2x64x128,2x64x256",
            "--chip",
            "ascend950pr",
            "--set",
            "cores.vector=8:64:8",
            "--x",
            "cores.vector",
        ]
    done = tilesim("plot", kind, "glu_backward", *words, "--out", f"{kind}.svg")
    assert (done.exit_code, done.stderr) == (0, "")
    assert plot.KINDS[kind] in " ".join(done.stdout.split())  # lines wrap where the terminal ends
    assert "glu_backward" in " ".join(ET.fromstring((tmp_path / f"{kind}.svg").read_text()).itertext())


def test_the_region_of_what_does_not_pass_is_drawn_with_exit_code_1(tilesim, tmp_path):
    done = tilesim(
        "plot", "region", GATED, "B=1", "S=64", "C=4", "H=5120", "R=32", "--chip", "ascend950pr", "--out", "a.svg"
    )
    assert done.exit_code == 1
    assert (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(("words", "said"), [
    (["regoin", GLU, "self=2x4", "--chip", "ascend950pr", "--out", "a.svg"], "did you mean 'region'"),
    (["region", GLU, "self=2x4", "--chip", "ascend950pr"], "--out is missing"),
    (["region", GLU, "self=2x4", "--chip", "ascend950pr", "--out", "a.gif"], "must end in one of"),
    (["gantt", GLU, "self=2x4", "--chip", "ascend950pr", "--chip", "ascend910b3", "--out", "a.svg"], "takes one"),
    (["gantt", GLU, "self=2x4", "--chip", "ascend950pr", "--phase", "x", "--out", "a.svg"], "is not a phase"),
    (["sweep", GLU, "self=2x4", "--out", "a.svg"], "--chip is missing"),
    (["sweep", GLU, "self=2x4", "--chip", "ascend950pr", "--out", "a.svg"], "no parameter has numbers"),
])  # fmt: skip
def test_bad_input_is_exit_code_2_and_no_file(tilesim, tmp_path, words, said):
    done = tilesim("plot", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
