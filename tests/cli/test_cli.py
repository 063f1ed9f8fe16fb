"""The command line: answers on stdout, all else on stderr, exit codes, JSON, and nothing written on failure."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from typer import Context
from typer.main import get_command

import tilesim as library
from tests.chip.test_chip import INI
from tests.commands import answered, runner
from tests.commands import refused as line_of
from tests.sample_calls import OPERATORS, small
from tilesim.cli import app
from tilesim.cli import commands as command_files
from tilesim.cli.console import emit
from tilesim.cli.verdict import show
from tilesim.ops import load_operator

GATED = ("text_gated_residual_grad", "B=1", "S=64", "C=4", "H=256", "R=32")
GLU = ("glu_backward", "self=8x64x128")
CHIP = ("--chip", "ascend950pr")
PROFILE = """\
Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes
sig,Sigmoid,40.5,"2048,2048",FLOAT,"2048,2048"
"""
PLANNED = ("plan", "explain", "graph", "simulate", "trace", "run")
"""Commands that need a plan."""


@pytest.fixture
def tilesim(tmp_path, monkeypatch):
    """Run a command in an empty directory."""
    return runner(tmp_path, monkeypatch, 80)


def refused(result, tmp_path):
    """The one line of a command that could not make sense of its input, and that left nothing behind."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())
    return result.stderr


def commands(group, path=("tilesim",)):
    """Every command with the words that call it."""
    context = Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(get_command(app)))
every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


# -------------------------------------------------------------------- help
@every_command
def test_every_command_has_help_with_an_example_that_works(words, tilesim, tmp_path):
    shown = answered(tilesim(*words[1:], "--help"))
    assert "Example: " in shown
    example = COMMANDS[words].epilog.removeprefix("Example: ")
    assert example.startswith(" ".join(words))
    assert len(example) < 80
    (tmp_path / "Ascend910B3.ini").write_text(INI)
    (tmp_path / "mine.toml").write_text(tilesim("chips", "import", "Ascend910B3.ini").stdout)
    text = (tmp_path / "mine.toml").read_text().replace('"ascend910b4-1"', '"mine"')
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "kernel_details.csv").write_text(PROFILE)
    result = tilesim(*example.split()[1:])
    assert result.exit_code == (1 if "diff" in words else 0), result.stderr
    assert result.stdout


@every_command
def test_help_is_no_wider_than_a_terminal(words, tilesim):
    assert max(map(len, tilesim(*words[1:], "--help").stdout.splitlines())) <= 80


def test_without_a_command_there_is_help(tilesim):
    assert answered(tilesim()) == answered(tilesim("--help"))


def test_a_file_is_a_command(tilesim, tmp_path, monkeypatch):
    added = tmp_path / "added"
    added.mkdir()
    (added / "greatest.py").write_text(
        '''"""`tilesim greatest`."""
from tilesim.cli.console import line
from tilesim.cli.question import App, CallQuestion
from tilesim.feasibility.verdict import verdict_of

app = App()


@app.command(example="tilesim greatest glu self=8x64 --chip ascend950pr")
def greatest(question: CallQuestion) -> int:
    """Print the largest buffer."""
    line(verdict_of(*question.call_and_chip()).buffers[0].name)
    return 0
'''
    )
    monkeypatch.setattr(command_files, "__path__", [*command_files.__path__, str(added)])
    assert "Print the largest buffer." in answered(tilesim("--help"))
    verdict = library.check("glu", {"self": (8, 64)}, chip="ascend950pr")
    assert answered(tilesim("greatest", "glu", "self=8x64", *CHIP)) == f"{verdict.buffers[0].name}\n"
    assert "Example: tilesim greatest" in answered(tilesim("greatest", "--help"))


# -------------------------------------------------------------------- check
def test_check_says_the_verdict_first(tilesim):
    lines = answered(tilesim("check", *GATED, *CHIP)).splitlines()
    assert lines[0] == "fits: text_gated_residual_grad on ascend950pr, bfloat16: B=1 S=64 C=4 H=256 R=32"
    assert lines[1].startswith("limited by  ub in phase")
    shown = "\n".join(lines)
    assert "ACLNN_SUCCESS (0)" in shown
    assert "H 4,800" in shown
    assert "13H <= 62448" in shown
    assert "and 65 smaller buffers: --all" in shown
    assert "gammaIn" in tilesim("check", *GATED, *CHIP, "--all").stdout


def test_check_names_the_culprit_and_what_would_pass(tilesim):
    words = [word if not word.startswith("H=") else "H=4816" for word in GATED]
    shown = answered(tilesim("check", *words, *CHIP), 1)
    assert shown.startswith("overflow: ")
    assert "R=32 phase 'gate backward' needs 250,432 B of ub, has 249,728 B (704 B too many): " in " ".join(
        shown.split()
    )
    assert "H = 4800, the largest" in shown
    assert "-704" in shown


def test_check_shows_broken_rules_and_on_request_all(tilesim):
    shown = answered(tilesim("check", "glu_backward", "self=2x4x5", *CHIP), 1)
    assert shown.startswith("refused: ")
    assert "split axis even" in shown
    assert "gradOut given" not in shown
    assert "\nyes" in tilesim("check", "glu_backward", "self=2x4x5", *CHIP, "--rules").stdout
    assert "\nyes" not in shown


@pytest.mark.parametrize("name", OPERATORS)
def test_all_rules_are_short_on_a_terminal_of_80_columns(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    op = load_operator(name)
    verdict = library.check(op, small(op), chip="ascend950pr")
    show(verdict, rules=True)
    shown = capsys.readouterr().out
    table = shown.partition("\nrules\n")[2].partition("\nstatus of a call that breaks one: ")[0].splitlines()[2:]
    assert sum(line.startswith(("yes", "NO ")) for line in table) == len(verdict.rules)
    assert len(table) < 1.5 * len(verdict.rules) + 4
    assert all(len(line) <= 80 for line in shown.splitlines())
    words = shown.split()
    for rule in verdict.rules:
        assert set(f"{rule.name} {rule.expected} {rule.given}".split()) <= set(words)
        assert rule.status is None or {str(rule.status.code), rule.status.name} <= {one.strip(",") for one in words}


def test_check_as_json_has_the_stable_names(tilesim):
    found = json.loads(answered(tilesim("check", *GATED, *CHIP, "--json")))
    assert found["ok"] is True
    assert found["verdict"] == "fits"
    assert found["status"] == {"name": "ACLNN_SUCCESS", "code": 0}
    assert set(found) >= {"rules", "inequalities", "buffers", "limits", "remedies"}
    assert set(found["rules"][0]) >= {"name", "ok", "expected", "given"}
    assert set(found["inequalities"][0]) >= {"phase", "memory", "text", "left_bytes", "right_bytes", "slack_bytes"}


@pytest.mark.parametrize(
    ("words", "verdict", "code"),
    [
        (("glu_backward", "self=2x4x6"), "fits", 0),
        (("glu_backward", "self=2x4x5"), "refused", 1),
        (("glu_backward", "self=0x4x6"), "fits", 0),
        (("text_gated_residual_grad", "B=1", "S=-1", "C=4", "H=256", "R=32"), "refused", 1),
        (("text_gated_residual_grad", "B=1", "S=9999999999999999999999", "C=4", "H=256", "R=32"), "refused", 1),
        (("text_gated_residual_grad", "B=1", "S=1", "C=4", "H=0", "R=32"), "refused", 1),
        (("text_gated_residual_grad", "B=1", "S=1", "C=4", "H=8000", "R=32"), "overflow", 1),
    ],
)
def test_exit_codes_of_verdicts(words, verdict, code, tilesim):
    result = tilesim("check", *words, *CHIP, "--json")
    assert json.loads(answered(result, code))["verdict"] == verdict
    assert answered(tilesim("check", *words, *CHIP), code).startswith(f"{verdict}: ")


def test_an_operator_that_a_chip_does_not_have(tilesim):
    result = tilesim("check", *GATED, "--chip", "ascend310p3", "--json")
    assert json.loads(answered(result, 1))["verdict"] == "unsupported"
    assert json.loads(result.stdout)["status"] is None
    assert answered(tilesim("check", *GATED, "--chip", "ascend310p3"), 1).startswith("unsupported: ")


def test_figures_can_be_set(tilesim):
    shown = answered(tilesim("check", *GATED, *CHIP, "--set", "memory.ub.size_bytes=131072", "--set", "cores.vector=8"))
    assert "memory.ub.size_bytes = 131072 (file: 253952)" in " ".join(shown.split())
    assert "8 of 8" in tilesim("plan", *GATED, *CHIP, "--set", "cores.vector=8").stdout


# -------------------------------------------------------------------- plans
@pytest.mark.parametrize("command", PLANNED)
def test_commands_that_need_a_plan_refuse_as_check_does(command, tilesim):
    bad = ("glu_backward", "self=2x4x5", *CHIP)
    more = ("--random", "0") if command == "run" else ()
    assert answered(tilesim(command, *bad, *more), 1) == tilesim("check", *bad).stdout
    assert answered(tilesim(command, *bad, *more, "--json"), 1) == tilesim("check", *bad, "--json").stdout


def test_plan_shows_cores_tiles_and_reasons(tilesim):
    shown = answered(tilesim("plan", *GATED, *CHIP))
    assert shown.startswith("plan: text_gated_residual_grad on ascend950pr")
    assert "64 of 64" in shown
    assert "rows 4" in shown
    assert "the whole axis of a core's share" in shown
    assert "dwDownPartial" in shown
    assert "scratch" in tilesim("plan", *GATED, *CHIP, "--buffers").stdout


def test_plan_as_json(tilesim):
    found = json.loads(answered(tilesim("plan", *GLU, *CHIP, "--json")))
    assert (found["ok"], found["verdict"], found["route"]) == (True, "fits", "kernel")
    assert found["tiling_key"] == 0
    assert found["tiling_data"]["realCoreNum"] == found["block_dim"]
    assert 0 < found["ub_used_bytes"] <= found["ub_available_bytes"]
    (phase,) = found["phases"]
    assert set(phase) >= {"name", "core_kind", "cores", "tiles", "reasons", "buffers", "shares", "idle_share"}
    assert set(phase["buffers"][0]) >= {"name", "space", "offset", "bytes", "slots", "dtype", "shape"}


def test_the_buffers_of_a_plan_do_not_overlap(tilesim):
    for phase in json.loads(tilesim("plan", *GATED, *CHIP, "--json").stdout)["phases"]:
        for space in {buffer["space"] for buffer in phase["buffers"]}:
            mine = sorted((b["offset"], b["bytes"]) for b in phase["buffers"] if b["space"] == space)
            assert all(at + size <= after for (at, size), (after, _) in pairwise(mine))


def test_the_shares_of_a_plan_cover_every_core(tilesim):
    found = json.loads(tilesim("plan", *GATED, *CHIP, "--json").stdout)
    for phase in found["phases"]:
        assert sum(share["cores"] for share in phase["shares"]) == phase["cores"]
    n = [sum(s["cores"] * s["axes"]["n"]["elements"] for s in p["shares"]) for p in found["phases"][:1]]
    assert n == [64]


def test_a_plan_that_the_vendor_makes_of_what_does_not_fit(tilesim):
    words = ("masked_causal_conv1d_backward", "S=8", "B=1", "H=5000", *CHIP)
    found = json.loads(tilesim("check", *words, "--json").stdout)
    result = tilesim("plan", *words, "--json")
    assert json.loads(result.stdout)["ok"] == found["ok"]
    assert result.exit_code == (0 if found["ok"] else 1)


@pytest.mark.parametrize(
    ("tile", "code", "said"),
    [
        ("rows=2", 0, ""),
        ("rows=9999", 1, ""),
        ("rows=0", 2, "rows=0 must be at least 1"),
        ("row=2", 2, "did you mean 'rows'?"),
        ("rows=two", 2, "rows=two is not a whole number"),
        ("rows", 2, "'rows' is not KEY=VALUE"),
    ],
)
def test_tiles_by_hand(tile, code, said, tilesim):
    result = tilesim("plan", "text_gated_residual_grad", *GATED[1:3], "C=8", *GATED[4:], *CHIP, "--tile", tile)
    assert result.exit_code == code
    assert said in result.stderr
    assert bool(result.stdout) == (code != 2)


@pytest.mark.parametrize("command", PLANNED)
@pytest.mark.parametrize(
    ("words", "tile", "memory", "needs", "fits"),
    [
        ((*GATED[:4], "H=16", "R=16"), "m=512", "l0a", 131072, {"m": 256}),
        ((*GATED[:4], "H=16", "R=16"), "n=1600000", "l0b", 409600000, {"n": 256}),
        ((*GATED[:4], "H=16", "R=16"), "k1=65536", "l1", 8388608, {"k1": 4096}),
        (GATED, "gate backward.rows=99999", "ub", 0, {"gate backward.rows": 21}),
        (("glu", "self=8x64"), "rows=999999999999999999999", "ub", 0, {"rows": 496}),
        (("masked_causal_conv1d_backward", "S=8", "B=1", "H=384"), "rows=99999", "ub", 0, None),
    ],
)
def test_tiles_that_do_not_fit_are_an_answer(words, tile, memory, needs, fits, command, tilesim):
    more = ("--random", "0") if command == "run" else ()
    words = (command, *words, *CHIP, "--tile", tile, *more)
    found = json.loads(answered(tilesim(*words, "--json"), 1))
    name, _, size = tile.partition("=")
    assert (found["ok"], found["verdict"], found["tiles"]) == (False, "overflow", {name: int(size)})
    worst = min(found["inequalities"], key=lambda one: one["slack_bytes"])
    assert worst["memory"] == memory
    assert worst["left_bytes"] == (needs or worst["left_bytes"])
    if fits:
        assert found["remedies"][0]["given"] == fits
    for remedy in found["remedies"]:  # each is the largest that fits
        ((key, largest),) = remedy["given"].items()
        again = tuple(word if word != tile else f"{key}={largest}" for word in words)
        assert tilesim(*again, "--json").exit_code == 0
    shown = " ".join(answered(tilesim(*words), 1).split())
    assert shown.startswith(f"overflow: {words[1]} on ascend950pr")
    assert f"with {tile} by hand" in shown
    assert f"{worst['left_bytes']:,} B of {memory}, has {worst['right_bytes']:,} B" in shown


@pytest.mark.parametrize(
    ("words", "tile", "said"),
    [
        (("glu", "self=8x64"), "cores=999", "cores=999 must be at most 64: the chip has 64 vector cores"),
        (("glu", "self=80000x64"), "cores=999", "cores=999 must be at most 64: the chip has 64 vector cores"),
        (GATED, "cores=64", "cores=64 must be at most 32: the chip has 32 cube cores; 'PHASE.cores' is for one phase"),
        (GATED, "gate backward.cores=65", "gate backward.cores=65 must be at most 64: the chip has 64 vector cores"),
        (GATED, "dwUp partials.cores=33", "dwUp partials.cores=33 must be at most 32: the chip has 32 cube cores"),
        (GATED, "m=17", "m=17 must be a multiple of 16"),
    ],
)
def test_tiles_that_nothing_can_have_are_quoted(words, tile, said, tilesim, tmp_path):
    assert said in refused(tilesim("plan", *words, *CHIP, "--tile", tile), tmp_path)


@pytest.mark.parametrize("tile", ["rows=2", "cores=7", "rows=2 cores=64"])
def test_tiles_by_hand_are_not_the_vendors(tile, tilesim):
    words = ("plan", "glu_backward", "self=80000x64", *CHIP, *(w for one in tile.split() for w in ("--tile", one)))
    result = tilesim(*words, "--json")
    found = json.loads(result.stdout)
    assert (found["tiling_data"], found["tiling_key"]) == (None, None)
    assert found["block_dim"] == found["phases"][0]["cores"]
    assert "by hand is not the vendor's tiling" in found["note"]
    assert "not the vendor's tiling" in " ".join(result.stderr.split())
    assert "no tiling data" in tilesim(*words).stdout


def test_tiles_by_hand_may_be_the_vendors(tilesim):
    words = ("plan", "glu_backward", "self=80000x64", *CHIP)
    usual = json.loads(answered(tilesim(*words, "--json")))
    found = json.loads(answered(tilesim(*words, "--tile", "rows=192", "--tile", "cores=64", "--json")))
    assert found["tiling_data"] == usual["tiling_data"]
    assert (found["note"], found["block_dim"]) == (None, usual["block_dim"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_composite_says_what_fusing_would_save(dtype, tilesim):
    words = ("glu_backward", "self=64x640", "--chip", "ascend910b1", "--dtype", dtype)
    for command in ("plan", "simulate", "explain"):
        shown = " ".join(answered(tilesim(command, *words)).split())
        assert "one fused kernel would save" in shown
        saved = json.loads(answered(tilesim(command, *words, "--json")))["fusing"]["saved"]
        assert f"{saved['time_us']:,.1f} of" in shown
        assert f"{saved['launches']} of" in shown
        assert json.loads(tilesim(command, *GLU, *CHIP, "--json").stdout)["fusing"] is None
        assert "fused" not in tilesim(command, *GLU, *CHIP).stdout


@pytest.mark.parametrize("name", OPERATORS)
def test_a_screen_says_whether_the_chip_lacks_the_operator_or_only_the_dtype(name, capsys):
    op = load_operator(name)
    verdicts = {}
    for chip in ("ascend950pr", "ascend910b1", "ascend310p3", "ascend910a", "ascend310b1"):
        for dtype in sorted({dtype for some in op.dtypes.values() for dtype in some}):
            verdict = library.check(op, small(op), chip=chip, dtype=dtype)
            lacks = verdict.on.family not in op.products, verdict.status is None
            assert verdict.missing == {(True, True): "operator", (False, True): "dtype", (False, False): ""}[lacks]
            verdicts.setdefault(verdict.missing, verdict)
    for missing, verdict in verdicts.items():
        show(verdict)
        shown = " ".join(capsys.readouterr().out.split())
        assert ("the chip does not have the operator in this dtype" in shown) is (missing == "dtype")
        assert ("first call none: the chip does not have" in shown) is bool(missing and op.api)


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1"], ids=["kernel", "composite"])
def test_json_is_the_plain_data_of_the_result_in_python(chip, tilesim):
    verdict = library.check("glu_backward", {"self": (64, 640)}, chip=chip)
    plan = library.plan("glu_backward", {"self": (64, 640)}, chip=chip)
    for command, result in (("check", verdict), ("plan", plan), ("simulate", library.simulate(plan))):
        shown = json.loads(answered(tilesim(command, "glu_backward", "self=64x640", "--chip", chip, "--json")))
        assert shown == json.loads(json.dumps(result.to_json()))
    assert (plan.to_json()["fusing"] is None) is (chip == "ascend950pr")


def test_a_composite_without_a_fused_kernel_says_so(tilesim):
    for chip in ("ascend950pr", "ascend910b1", "ascend310p3", "ascend910a"):
        words = ("glu_backward", "self=64x640", "--chip", chip, "--dtype", "float64")
        said = "fusing no fused kernel to compare with: the kernel takes float32, float16"
        assert said in " ".join(tilesim("plan", *words).stdout.split())
        assert json.loads(tilesim("plan", *words, "--json").stdout)["fusing"] is None


EMPTY = [
    ("glu_backward", "self=8x0"),
    ("glu_backward", "self=0x8"),
    ("glu_backward", "self=4x0x8", "dim=1"),
    ("glu", "self=0x8"),
    ("glu", "self=4x0"),
    ("add", "x1=0x3"),
    ("add", "x1=0x3", "x2=3"),
    ("mul", "x1=4x1", "x2=0"),
    ("copy", "X=0"),
    ("adam_w", "X=0"),
    ("text_gated_residual", "B=0", "S=4", "C=4", "H=64", "R=32"),
    ("text_gated_residual_grad", "B=2", "S=0", "C=4", "H=64", "R=32"),
]


@pytest.mark.parametrize(("chip", "form"), [("ascend950pr", ()), ("ascend910b1", ("--json",))], ids=["screen", "json"])
@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_empty_data_is_no_fault_of_any_command(words, chip, form, tilesim):
    for command in (*PLANNED, "check", "report", "sweep", "whatif", "plan --search", "plan --buffers"):
        name, *more = command.split()
        more += ["--random", "0"] if name == "run" else []
        result = tilesim(name, *words, "--chip", chip, *more, *form)
        assert result.exit_code == 0, (command, result.stderr)
        assert result.stdout
    for kind in ("buffers", "gantt", "roofline", "tornado"):
        result = tilesim("plot", kind, *words, "--chip", chip, "--out", "a.svg")
        assert result.exit_code in (0, 1, 2), (kind, result.stderr)


REFUSED_EMPTY = [
    ("add", "x1=0x3", "x2=3", "y=4"),
    ("maximum", "x1=0x1x1x1x1x1x1x1x5", "x2=5"),
    ("mul", "x1=1x2147483647x129x1x1x2147483648x4096", "x2=0x2147483647x1x1x1x1x1"),
    ("copy", "x=0x3", "y=4"),
]


@pytest.mark.parametrize("words", REFUSED_EMPTY, ids=" ".join)
def test_empty_data_that_is_refused_has_a_report(words, tilesim):
    for ending in ("md", "html", "json"):
        result = tilesim("report", *words, *CHIP, "--out", f"r.{ending}")
        assert result.exit_code in (0, 1), result.stderr
        assert "refused" in result.stdout


def test_simulate_shows_time_by_phase_and_pipe(tilesim):
    shown = answered(tilesim("simulate", *GATED, *CHIP))
    assert "cycles, " in shown.splitlines()[0]
    shown = " ".join(shown.split())
    assert all(word in shown for word in ("bottleneck", "mte2", "fixp", "bound by", "unvalidated", "guesses in"))
    found = json.loads(answered(tilesim("simulate", *GATED, *CHIP, "--json")))
    assert found["cycles"] == sum(phase["cycles"] for phase in found["phases"])
    assert set(found) >= {"ok", "time_us", "busy_cycles", "bottleneck", "accuracy", "estimate", "rests_on"}


def test_explain_lists_the_program(tilesim):
    shown = answered(tilesim("explain", *GLU, *CHIP))
    assert "for row in X" in shown
    assert "glu_backward.py:" not in shown
    assert "glu_backward.py:" in tilesim("explain", *GLU, *CHIP, "--where").stdout


def test_explain_as_json_is_data(tilesim, monkeypatch):
    for words in (GATED, GLU):
        found = json.loads(answered(tilesim("explain", *words, *CHIP, "--json")))
        monkeypatch.setenv("COLUMNS", "400")
        simulated = json.loads(answered(tilesim("simulate", *words, *CHIP, "--json")))
        for phase, spent in zip(found["phases"], simulated["phases"], strict=True):
            assert (phase["name"], phase["cycles"], phase["totals"]) == (
                spent["name"],
                spent["cycles"],
                spent["busy_cycles"],
            )
            instructions = [line for line in phase["lines"] if line["kind"] == "instruction"]
            assert all(line["op"] and line["pipe"] and ".py:" in line["where"] for line in instructions)
            assert all(line["busy_cycles"] == {line["pipe"]: line["cycles"]} for line in instructions)
            assert all(line["text"] in "\n".join(found["lines"]) for line in instructions if len(line["text"]) < 50)
            assert {line["depth"] for line in phase["lines"]} >= {1}
            sizes = [buffer["bytes"] for buffer in phase["buffers"]]
            assert sizes == sorted(sizes, reverse=True)
        assert found["cycles"] == sum(phase["cycles"] for phase in found["phases"])
        assert found["lines"] == json.loads(tilesim("explain", *words, *CHIP, "--json").stdout)["lines"]


@pytest.mark.parametrize("ending", ["graphml", "dot", "json", "svg"])
def test_graph_writes_a_file(ending, tilesim, tmp_path):
    shown = answered(tilesim("graph", *GLU, *CHIP, "--out", f"g.{ending}"))
    assert f"written to g.{ending}" in shown
    assert (tmp_path / f"g.{ending}").stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 1


def test_graph_as_json_is_the_graph(tilesim):
    found = json.loads(answered(tilesim("graph", *GLU, *CHIP, "--json")))
    names = {node["id"] for node in found["nodes"]}
    assert {edge[end] for edge in found["edges"] for end in ("source", "target")} <= names


def test_trace_writes_a_file_or_stdout(tilesim, tmp_path):
    found = json.loads(answered(tilesim("trace", *GLU, *CHIP, "--tiles", "1")))
    assert found["traceEvents"]
    result = tilesim("trace", *GLU, *CHIP, "--tiles", "1", "--out", "t.json")
    assert result.stdout == "written to t.json\n"
    assert json.loads((tmp_path / "t.json").read_text()) == found


# -------------------------------------------------------------------- values
@pytest.mark.parametrize("ending", ["npz", "safetensors", ""])
def test_run_computes_compares_and_keeps(ending, tilesim, tmp_path):
    out = f"out.{ending}".rstrip(".")
    shown = answered(tilesim("run", *GATED, *CHIP, "--random", "0", "--verify", "--out", out, "--threads", "2"))
    assert shown.startswith("run and verified: ")
    assert all(word in shown for word in ("dwDown  32x1024", "allowed", "predicted: ", "unvalidated", "written to out"))
    assert [path.name for path in tmp_path.iterdir()] == [out]
    found = json.loads(answered(tilesim("run", *GATED, *CHIP, "--random", "0", "--verify", "--json")))
    assert found["ok"]
    assert [o["name"] for o in found["outputs"]] == ["dx", "dwDown", "dwUp", "dwGate", "dgamma"]
    assert all(o["ok"] and o["fro"] < 0.01 for o in found["outputs"])


def test_run_takes_shapes_from_a_file(tilesim, tmp_path):
    np.savez(tmp_path / "in.npz", self=np.ones((3, 8), np.float32), gradOut=np.ones((3, 4), np.float32))
    shown = answered(tilesim("run", "glu_backward", *CHIP, "--inputs", "in.npz", "--out", "out.npz"))
    assert "out     3x8    float32" in shown
    half = 1 / (1 + np.exp(-1))
    assert np.allclose(np.load("out.npz")["out"], np.repeat([half, half * (1 - half)], 4))
    found = json.loads(answered(tilesim("run", "glu_backward", *CHIP, "--inputs", "in.npz", "--json")))
    assert (found["verified"], found["out"]) == (False, None)
    result = tilesim("run", "glu_backward", "self=4x8", *CHIP, "--inputs", "in.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "self has shape [3, 8], must be [4, 8]" in result.stderr


def test_run_tells_what_differs(tilesim, monkeypatch):
    from tilesim.operators.reference import Tolerance

    op = load_operator("glu_backward")
    monkeypatch.setitem(vars(op), "tolerance", lambda *_: Tolerance("none at all", fro=0, t=0))
    words = ("run", "glu_backward", "self=4x8", *CHIP, "--dtype", "bfloat16", "--random", "0")
    assert answered(tilesim(*words, "--verify"), 1).startswith("differs: out: glu_backward on ascend950pr")
    assert json.loads(answered(tilesim(*words, "--verify", "--json"), 1))["ok"] is False
    assert answered(tilesim(*words)).startswith("run: ")


# -------------------------------------------------------------------- chips and operators
def test_chips_are_listed_and_shown(tilesim):
    found = json.loads(answered(tilesim("chips", "--json")))
    assert {"ascend950pr", "ascend910b3"} <= {chip["name"] for chip in found}
    shown = answered(tilesim("chips"))
    assert all(chip["name"] in shown and f"{chip['ub_bytes']:,}" in shown for chip in found)
    assert all(chip["family"] in shown and chip["product"] in shown for chip in found)
    assert len(shown.splitlines()) <= len(found) + 12
    chip = json.loads(answered(tilesim("chips", "show", "ascend910b3", "--json")))
    assert {k: chip["figures"][0][k] for k in ("key", "value")} == {"key": "cores.vector", "value": 40}
    assert "memory.ub.size_bytes" in answered(tilesim("chips", "show", "ascend910b3"))


def test_chips_of_a_family_with_several_products_are_told_apart(tilesim, tmp_path):
    text = (library.load_chip("ascend910b3").to_toml()).replace('name = "ascend910b3"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text(text.replace("Atlas A2 training, Atlas 800I A2 inference", "A card"))
    shown = answered(tilesim("chips", "--chips", "."))
    products = " ".join(shown.partition("products\n")[2].split())
    others = "ascend910b1, ascend910b2, ascend910b3, ascend910b4"
    assert f"a2 Atlas A2 training, Atlas 800I A2 inference ({others}), A card (mine)" in products


def test_chips_differ_or_not(tilesim):
    assert "clock.vector_hz" in answered(tilesim("chips", "diff", "ascend910b1", "ascend910b3"), 1)
    assert answered(tilesim("chips", "diff", "ascend910b1", "ascend910b1")).endswith("differ in 0 parameters\n")
    found = json.loads(answered(tilesim("chips", "diff", "ascend910b1", "ascend910b3", "--json"), 1))
    assert {"key": "cores.vector", "first": 48, "second": 40} in found["differences"]


def test_a_chip_of_ones_own(tilesim, tmp_path, monkeypatch):
    (tmp_path / "Ascend910B4-1.ini").write_text(INI)
    result = tilesim("chips", "import", "Ascend910B4-1.ini", "--out", "mine.toml")
    assert result.exit_code == 0
    assert "parameters from Ascend910B4-1.ini" in result.stderr
    assert "mine is a chip" in answered(tilesim("chips", "validate", "mine.toml"))
    assert answered(tilesim("check", *GLU, "--chip", "mine.toml")).startswith("fits: glu_backward on mine")
    assert answered(tilesim("check", *GLU, "--chip", "Ascend910B4-1.ini")).startswith("fits: ")
    for words in (("check", *GLU, "--chip", "mine", "--chips", "."), ("--chips", ".", "check", *GLU, "--chip", "mine")):
        assert answered(tilesim(*words)).startswith("fits: glu_backward on mine")
    assert tilesim("check", *GLU, "--chip", "mine").exit_code == 2  # what one command was given is forgotten
    monkeypatch.setenv("TILESIM_CHIPS", str(tmp_path))
    assert "mine" in answered(tilesim("chips"))


def test_operators_are_listed_and_shown(tilesim):
    found = {op["name"]: op for op in json.loads(answered(tilesim("ops", "--json")))}
    assert {"glu_backward", "text_gated_residual_grad", "masked_causal_conv1d_backward"} <= set(found)
    assert [d["name"] for d in found["text_gated_residual_grad"]["dims"]] == ["B", "S", "C", "H", "R"]
    shown = answered(tilesim("ops"))
    assert all(name in shown for name in found)
    assert "split axis even" in answered(tilesim("ops", "show", "glu_backward"))
    assert json.loads(answered(tilesim("ops", "show", "glu_backward", "--json"))) == found["glu_backward"]


# -------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chek",), "did you mean 'check'?"),
        (("chips", "sow"), "did you mean 'show'?"),
        (("check",), "missing argument 'OP'"),
        (("check", *GLU), "--chip is missing; there are: ascend310b1"),
        (("check", *GLU, "--chp", "x"), "'--chp' is not an option; did you mean '--chip'?"),
        (("chips", "--jsn"), "'--jsn' is not an option; did you mean '--json'?"),
        (("--zzz",), "'--zzz' is not an option; there are: --chips"),
        (("check", *GLU, "--chip"), "'--chip' requires an argument"),
        (("check", *GLU, "--chip", "ascend950p"), "did you mean 'ascend950pr'?"),
        (("check", *GLU, "--chip", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("check", *GLU, "--chip", "nowhere.ini"), "nowhere.ini: cannot be read"),
        (("check", *GLU, *CHIP, "--chips", "nowhere"), "nowhere: is not a directory of chip files"),
        (("check", *GLU, *CHIP, "--set", "memory.ub.size_byte=3"), "did you mean 'memory.ub.size_bytes'?"),
        (("check", *GLU, *CHIP, "--set", "cores.vector"), "'cores.vector' is not KEY=VALUE"),
        (("check", *GLU, *CHIP, "--set", "cores.vector=0"), "cores.vector is 0"),
        (("check", *GLU, *CHIP, "--dtype", "float15"), "'float15' is not a dtype"),
        (("check", "glu_bckward", *CHIP), "did you mean 'glu_backward'?"),
        (("check", "nowhere.py:op", *CHIP), "nowhere.py cannot be read"),
        (("check", "glu_backward", "self=2xx4", *CHIP), "self=2xx4 is not"),
        (("check", "glu_backward", "self", *CHIP), "'self' is not KEY=VALUE"),
        (("check", "glu_backward", "slf=2x4", *CHIP), "did you mean 'self'?"),
        (("check", "glu_backward", *CHIP), "is missing: give"),
        (("check", "text_gated_residual_grad", "B=1.5", "S=1", "C=1", "H=16", "R=16", *CHIP), "is not a whole number"),
        (("graph", *GLU, *CHIP, "--out", "g.gif"), "must end in one of .graphml"),
        (("graph", *GLU, *CHIP, "--out", "nowhere/g.svg"), "nowhere/g.svg: cannot be written"),
        (("trace", *GLU, *CHIP, "--out", "nowhere/t.json"), "nowhere/t.json: cannot be written"),
        (("trace", *GLU, *CHIP, "--tiles", "0"), "invalid value for '--tiles'"),
        (("run", *GLU, *CHIP), "give either --inputs FILE or --random SEED"),
        (("run", *GLU, *CHIP, "--random", "0", "--inputs", "x.npz"), "give either --inputs FILE or --random SEED"),
        (("run", *GLU, *CHIP, "--random", "-1", "--threads", "0"), "2 problems: --random -1 must be at least 0; --thr"),
        (("run", *GLU, *CHIP, "--random", "zero"), "invalid value for '--random'"),
        (("run", *GLU, *CHIP, "--random", "0", "--out", "nowhere/x.npz"), "nowhere/x.npz cannot be written"),
        (("run", *GLU, *CHIP, "--inputs", "nowhere.npz"), "nowhere.npz: "),
        (("chips", "show", "ascend951"), "is not a chip"),
        (("chips", "diff", "ascend950pr"), "missing argument 'NAME'"),
        (("chips", "import", "nowhere.ini", "--out", "x.toml"), "nowhere.ini: cannot be read"),
        (("chips", "validate", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("ops", "show", "glu"[:2]), "is not an operator"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, said, tilesim, tmp_path):
    assert said in refused(tilesim(*words), tmp_path)


def test_all_problems_are_told_at_once(tilesim, tmp_path):
    words = ("glu_backward", "slf=2x4", "self=axb", "--chip", "ascend951", "--dtype", "float15")
    said = refused(tilesim("check", *words), tmp_path)
    assert all(word in said for word in ("4 problems", "'slf'", "self=axb", "'ascend951'", "'float15'"))


def test_a_bad_chip_file_is_told_with_all_its_problems(tilesim, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text('name = "bad"\n[cores]\nvector = -1\n')
    result = tilesim("chips", "validate", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "problems: " in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_bad_chip_file_hides_no_other_chip(tilesim, tmp_path):
    (tmp_path / "broken.toml").write_text("x =")
    (tmp_path / "other.toml").write_text('name = "misnamed"')
    for form in ((), ("--json",)):
        result = tilesim("chips", "--chips", tmp_path, *form)
        assert result.exit_code == 0
        assert "ascend950pr" in result.stdout
        assert "misnamed" not in result.stdout
        assert result.stderr.count("warning: ") == 2
        assert "broken.toml" in result.stderr
    assert tilesim("check", *GLU, *CHIP, "--chips", tmp_path).exit_code == 0
    assert answered(tilesim("check", "glu_backward", "self=2x5", *CHIP, "--chips", tmp_path), 1)
    assert tilesim("chips", "validate", "broken", "--chips", tmp_path).exit_code == 2


def test_chips_are_validated_by_name(tilesim):
    assert answered(tilesim("chips", "validate", "Ascend950PR")).startswith("ascend950pr is a chip with ")
    assert json.loads(answered(tilesim("chips", "validate", "ascend910b1", "--json")))["ok"]
    assert "did you mean 'ascend950pr'?" in tilesim("chips", "validate", "ascend950p").stderr


def test_exit_codes_are_documented(tilesim):
    shown = " ".join(answered(tilesim("--help")).split())
    assert "Exit codes: 0 yes, 1 no, 2 invalid input" in shown
    assert all(code in shown for code in ("70 a fault of tilesim itself", "130 Ctrl-C", "141 output closed"))


def test_an_operators_file_that_fails_names_the_line(tilesim, tmp_path):
    (tmp_path / "mine.py").write_text("x = 1\ny = 1 / 0\n")
    result = tilesim("check", "mine.py:op", *CHIP)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: mine.py:2: ZeroDivisionError: division by zero\n"


def test_a_file_that_is_there_survives_a_failure(tilesim, tmp_path):
    (tmp_path / "g.svg").write_text("mine")
    assert tilesim("graph", "glu_backward", "self=2x5", *CHIP, "--out", "g.svg").exit_code == 1
    assert tilesim("graph", "glu_backward", "self=2xx5", *CHIP, "--out", "g.svg").exit_code == 2
    assert (tmp_path / "g.svg").read_text() == "mine"


def test_a_fault_is_one_line_too(tilesim, monkeypatch):
    monkeypatch.setattr("tilesim.cli.commands.check.verdict_of", lambda *_: 1 / 0)
    result = tilesim("check", *GLU, *CHIP)
    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.startswith("error: ZeroDivisionError: division by zero; this is a fault of tilesim")
    monkeypatch.setenv("TILESIM_TRACEBACK", "1")
    assert isinstance(tilesim("check", *GLU, *CHIP).exception, ZeroDivisionError)


# -------------------------------------------------------------------- screens
LARGE = ("text_gated_residual_grad", "B=2", "S=262144", "C=4", "H=2560", "R=320")
SCREENS = [
    *((command, *words) for command in ("check", "plan", "simulate", "explain") for words in (GATED, LARGE, GLU)),
    ("check", *LARGE, "--rules", "--all"),
    ("check", *LARGE[:4], "H=5120", "R=320"),
    ("plan", *LARGE, "--buffers"),
    ("plan", *GLU, "--search"),
    ("plan", *GATED, "--tile", "m=1600000000000"),
    ("explain", *LARGE, "--where"),
    ("explain", "masked_causal_conv1d_backward", "S=8192", "B=2", "H=4096", "W=3"),
    ("run", *GATED, "--random", "0", "--verify"),
    ("graph", *GATED),
    ("whatif", *GLU),
    ("sweep", *GLU),
]


@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1"])
@pytest.mark.parametrize("words", SCREENS, ids=" ".join)
def test_screens_fit_the_terminal_and_break_no_word(words, chip, tilesim, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    wide = set(tilesim(*words, "--chip", chip).stdout.split())
    monkeypatch.setenv("COLUMNS", "80")
    shown = tilesim(*words, "--chip", chip).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert all(line == line.rstrip() for line in shown.splitlines())
    lost = wide - set(shown.split())
    assert all(set(word) == {"─"} for word in lost), lost


@pytest.mark.parametrize(
    "words", [("chips",), ("chips", "show", "ascend950pr"), ("chips", "diff", "ascend950pr", "ascend910b1"), ("ops",)]
)
def test_lists_fit_the_terminal(words, tilesim):
    assert max(map(len, tilesim(*words).stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", [*PLANNED, "check", "report", "sweep", "whatif"])
@pytest.mark.parametrize(
    "words",
    [
        ("glu", "self=8x64", "--tile", "cores=1"),
        ("glu", "self=scalar"),
        ("glu", "self=none"),
        ("glu", "self=2x4", "dim=9"),
        ("glu", "self=2x4", "dim=x"),
        ("glu", "self=99999999999x99999999999"),
        ("glu_backward", "self=2x4:int8"),
        ("glu_backward", "self=2x4", "gradOut=none"),
        ("glu_backward", "self=-1x4"),
        ("glu", "self=8x64", "--set", "memory.ub.size_bytes=9000"),
        ("glu_backward", "self=8x64", "--set", "cores.vector=1"),
        ("glu_backward", "self=8x64", "--set", "memory.ub.size_bytes=1e99"),
        ("text_gated_residual_grad", "x=1x2x128", "R=16"),
        ("text_gated_residual_grad", "x=2x3x128:bfloat16", "wGate=none"),
        ("text_gated_residual_grad", "B=0", "S=0", "C=0", "H=0", "R=0"),
        ("text_gated_residual_grad", "B=1", "S=1", "C=1", "H=16", "R=16", "--tile", "m=16", "--tile", "k1=4096"),
        ("masked_causal_conv1d_backward", "S=0", "B=1", "H=384"),
        ("masked_causal_conv1d_backward", "S=1", "B=1", "H=384", "mask=true", "--tile", "rows=1"),
    ],
    ids=" ".join,
)
def test_no_input_is_a_fault(words, command, tilesim):
    more = ["--random", "0"] if command == "run" else []
    words = [word for word in words if "--tile" not in words or command not in ("check", "sweep", "whatif")]
    result = tilesim(command, *words, *CHIP, *more)
    assert result.exit_code in (0, 1, 2), result.stderr
    assert bool(result.stdout) == (result.exit_code != 2)


def test_json_has_no_word_for_what_is_not_finite(capsys):
    emit({"a": float("nan"), "b": [float("inf"), 1.5]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5]}


# -------------------------------------------------------------------- processes
def process(*words, **more):
    command = [sys.executable, "-m", "tilesim", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_a_process_answers_with_its_exit_code():
    run = process("check", "glu_backward", "self=2x4x5", *CHIP)
    out, err = run.communicate(timeout=30)
    assert (run.returncode, err) == (1, "")
    assert out.startswith("refused: ")
    run = process("check", "nothing")
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out) == (2, "")
    assert err.count("\n") == 1


def test_a_pipe_has_no_colours_and_no_width():
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    out, _ = process("check", *GATED, *CHIP, env=environment).communicate(timeout=30)
    assert "\x1b" not in out
    assert "13H <= 62448 - 16·⌈C/8⌉ words" in out
    out, _ = process("check", *GATED, *CHIP, env={**environment, "PYTHONIOENCODING": "ascii"}).communicate(timeout=30)
    assert "13H <= 62448 - 16??C/8? words" in out


def test_a_closed_pipe_is_no_error():
    run = process("check", *GATED, *CHIP)
    run.stdout.close()
    assert run.stderr.read() == ""
    run.wait(timeout=30)
    run.stderr.close()


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is no signal there")
def test_ctrl_c_is_quiet():
    words = [
        "tilesim",
        "run",
        "text_gated_residual_grad",
        "B=1",
        "S=4096",
        "C=4",
        "H=2560",
        "R=320",
        *CHIP,
        "--random",
        "0",
    ]
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # background jobs ignore it
    code = f"import sys; from tilesim.cli import main; {heard}; print('ready', flush=True); sys.argv = {words}; main()"
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.3)
    for _ in range(12):  # Python drops one that meets a callback of the interpreter, such as while a module is loaded
        run.send_signal(signal.SIGINT)
        try:
            out, err = run.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            continue
    assert (run.returncode, out, err) == (130, "", "")


def test_importing_the_package_imports_nothing_else():
    code = "import sys, tilesim.cli; print({'numpy', 'pydantic', 'rich', 'networkx', 'matplotlib'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert out.strip() == "set()"


def test_a_link_stays_and_what_is_no_plain_file_is_refused(tmp_path, monkeypatch):
    tilesim = runner(tmp_path, monkeypatch, 80)
    target, link, pipe = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("before")
    link.symlink_to(target)
    os.mkfifo(pipe)
    words = ["trace", "softmax", "self=64x64", "--chip", "ascend910b2", "--out"]
    assert tilesim(*words, link).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("{")
    assert line_of(tilesim(*words, pipe)).endswith("pipe: cannot be written: it is not a regular file\n")
    assert line_of(tilesim(*words, tmp_path)).endswith("cannot be written: it is a directory\n")
    assert pipe.is_fifo()


def test_a_file_that_exits_is_no_verdict(tmp_path, monkeypatch):
    (tmp_path / "leaves.py").write_text("import sys\n\nsys.exit()\n")
    words = ("check", "leaves.py:any", "N=3", "--chip", "ascend910b2")
    assert "leaves.py:3: SystemExit" in line_of(runner(tmp_path, monkeypatch, 80)(*words))
