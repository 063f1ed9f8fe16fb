"""Every mistake that can be made in an operator file is reported with that file and the line of the mistake."""

import ast
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import tilesim.ops
from tilesim.chip.loading import load_chip
from tilesim.errors import BadOperator
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.binding import bind
from tilesim.operators.operator import FUNCTIONS, Operator
from tilesim.ops import load_operator
from tilesim.planning.plan import plan_of

CHIP = load_chip("ascend950pr")
FILE = """
from tilesim.kernels import load_as, store_as
from tilesim.operators import Argument, Dimension, Operator, Option, Outcome, Rule, result

N, H = Dimension("N"), Dimension("H", multiple_of=16)


def kernel(k):
    kept = k.workspace("kept", (N.size, H.size), "float32")
    with k.vector("first") as p:  # first
        for n in p.loop("n", N.size, p.tile("rows"), split=True):  # loop
            x = load_as(p, k["x"][n], "float32", name="x")
            s = p.muls(x, 2.0, out=p.buffer("s", x.shape))
            spare = p.buffer("spare", x.shape)
            pass  # body
            store_as(p, p.adds(s, 1.0, out=spare), k["y"][n], name="yOut")
        pass  # end
    with k.vector("second") as p:  # second
        pass  # other
    pass  # kernel


def variant(call, chip):
    return ""  # variant


def tiles(call, chip):
    return {}  # tiles


def derived(dims):
    return {}  # derived


def rule(call, chip): return Outcome(ok=True, expected="", given="")  # rule


pass  # module
made = Operator(  # operator
    name="made", api="", about="", lead="x", kernel=kernel, variant=variant, tiles=tiles, derived_sizes=derived,
    dims=(N, H), tensors=(Argument("x", "N H"), result("y", "N H")), options=(Option("fast"),),
    dtypes={"950": ("float32",)}, dtype="float32", rules=(Rule("N range", None, rule),),
)
"""
"""An operator file. A mistake takes the place of a line that ends in a comment, or is one of a text in such a line."""


def body(text):
    return ("body", "pass", text)


MISTAKES = {
    # the file itself
    "no Python": ("module", "pass", "x = 1 +"),
    "a file that fails": ("module", "pass", "x = 1 / 0"),
    "a file that ends the program": ("module", "pass", "raise SystemExit"),
    "a failure inside a library": ("module", "pass", "import json; json.loads('{')"),
    # declarations
    "a kernel that is no function": ("operator", "Operator(", "Operator(", ("kernel=kernel", "kernel=3")),
    "a variant that is no function": ("operator", "Operator(", "Operator(", ("variant=variant", "variant='long'")),
    "a size that is not declared": ("operator", "Operator(", "Operator(", ('("y", "N H")', '("y", "N Q")')),
    "an option that is not declared": ("operator", "Operator(", "Operator(", ('"N H"), r', '"N H", option="z"), r')),
    "a lead that is not a tensor": ("operator", "Operator(", "Operator(", ('lead="x"', 'lead="z"')),
    "a split that is not an attribute": ("operator", "Operator(", "Operator(", ('lead="x"', 'lead="x", split="dim"')),
    # functions of the author that fail
    "a kernel that fails": body("1 / 0"),
    "a kernel that fails in numpy": body("import numpy; numpy.reshape(numpy.zeros(3), (2, 2))"),
    "an instruction that there is not": body("p.cosine(x)"),
    "a variant that fails": ("variant", 'return ""', "return call.nothing"),
    "a variant that fails deep in tilesim": ("variant", 'return ""', "return chip.override({'cores.vector': 'x'}) / 2"),
    "no variant": ("operator", "Operator(", "Operator(", ('return ""', "return ()")),
    "a variant that is no plain data": ("operator", "Operator(", "Operator(", ('return ""', "return [{}]")),
    "tiles that fail": ("tiles", "return {}", "return {'rows': 1 // 0}"),
    "sizes that fail": ("derived", "return {}", "return {'K': dims['Q']}"),
    "a rule that fails": ("rule", 'ok=True, expected="", given=""', "1 // 0"),
    "a rule that is no condition, where it is printed": ("rule", "ok=True", "ok=bool(call)"),
    # numbers without a meaning
    "half a slot": body('p.buffer("b", x.shape, slots=0.5)'),
    "no slots": body('p.buffer("b", x.shape, slots=0)'),
    "a tile of no elements": ("loop", 'p.tile("rows")', 'p.tile("rows", multiple_of=0)'),
    "a cap that is no size": ("loop", 'p.tile("rows")', 'p.tile("rows", "all")'),
    "a split that there is not": ("loop", "split=True", 'split="diced"'),
    "a tile of a loop that is text": ("loop", 'p.tile("rows")', '"rows"'),
    # buffers
    "a memory that a core does not have": body('p.buffer("b", x.shape, space="l1")'),
    "a pool that is not reserved": body('p.buffer("b", x.shape, pool="scratch")'),
    "a buffer that is never read": (
        "first",
        '"first"',
        '"first"',
        ("spare = ", 'p.fill(0.0, out=p.buffer("b", 8)); spare = '),
    ),
    "a buffer that is never written": ("first", '"first"', '"first"', ("spare = ", 'p.buffer("b", 8); spare = ')),
    # operands
    "a destination that is a tensor": body('p.add(x, x, out=k["y"])'),
    "an operand that is a tensor": body('p.adds(k["x"], 1.0, out=s)'),
    "a tensor that a loop carries": ("loop", "split=True", 'split=True, carry=(k["y"][0],)'),
    "shapes that differ": body("p.add(x, p.row_sum(x))"),
    "a row where one value a row is taken": body("p.mul_rows(x, x)"),
    "a destination of another shape": body('p.row_sum(x, out=p.buffer("b", x.shape))'),
    "a result of a shape that nothing tells": body("p.fill(0.0)"),
    "another dtype": body('p.add(x, x, out=p.buffer("b", x.shape, "float16"))'),
    "a path that there is not": body('p.emit("copy", x, out=p.buffer("b", x.shape))'),
    "a path of the other kind of core": (
        "other",
        "pass",
        'p.load(k["x"], out=p.static)',
        ("kept = ", 'static = k.static("b", (N.size, H.size), "float32", (N.size, H.size)); kept = '),
        ('k.vector("second")', 'k.phase("second", "cube")'),
        ("p.static", "static"),
    ),
    "a memory of registers without vld": body('p.add(x, x, out=p.buffer("b", x.shape, space="reg"))'),
    "vld into the unified buffer": body('p.vld(x, out=p.buffer("b", x.shape))'),
    "an instruction on global memory": body('p.add(x, x, out=k["y"][n])'),
    "an instruction of the other kind of core": body("p.clear(0.0, out=spare)"),
    # reads and writes
    "a read before a write": body("p.adds(spare, 1.0, out=spare)"),
    "a read of the contents before a write": body("p.read(spare)"),
    "an accumulation into nothing": body("p.madd(x, x, out=spare)"),
    "a value that was overwritten": body("p.adds(x, 1.0, out=x); p.adds(x, 1.0, out=spare)"),
    "a value of an earlier loop": ("end", "pass", "p.adds(s, 1.0, out=s)"),
    "a value of an earlier phase": ("other", "pass", "p.adds(s, 1.0, out=s)"),
    "a write around a loop that writes": ("end", "pass", "p.fill(0.0, out=spare)"),
    "a write of a reserved buffer": body('p.fill(0.0, out=p.buffer("b", x.shape, reserved=True))'),
    "a load of an output": body('p.load(k["y"][n])'),
    "a load of a workspace that nobody wrote": body("p.load(kept[n])"),
    "a load of a workspace in the phase that writes it": body("p.store(s, kept[n]); p.load(kept[n])"),
    "a store to an input": body('p.store(x, k["x"][n])'),
    "a row beyond the last": body('p.store(p.load(k["x"][n.start + n.size], name="b"), kept[n.start])'),
    # the kernel
    "a tensor that there is not": body('k["z"]'),
    "two phases of one name": ("second", '"second"', '"first"'),
    "a bypass of an output": ("kernel", "pass", 'k.bypass("y")'),
}
"""What is wrong -> the comment of the line that is reported, a text in that line and what takes its place; further
replacements anywhere in the file."""


def written(path, comment, old, new, *elsewhere):
    """Write the file with a mistake; the number of the line that must be reported."""
    lines = FILE.splitlines()
    (number,) = (i for i, line in enumerate(lines) if line.endswith(f"# {comment}"))
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new)
    text = "\n".join(lines)
    for before, after in elsewhere:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)
    return number + 1


def used(path, *, printed=False):
    """Ask an operator of a file for what a plan needs, and for its printed rules."""
    op = load_operator(str(path))
    plan_of(verdict_of(bind(op, {"N": 64, "H": 64}), CHIP))
    if printed:
        _ = [rule.condition for rule in op.rules]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Of every mistake, the line that must be reported, what is, and the places in tilesim that refuse it."""
    refused = []

    path = tmp_path_factory.mktemp("author") / "made.py"
    init = BadOperator.__init__

    def observed(self, *fields):
        frame = sys._getframe(1)
        refused.append((Path(frame.f_code.co_filename), frame.f_lineno))
        init(self, *fields)

    lines = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BadOperator, "__init__", observed)
        for mistake, change in MISTAKES.items():
            line = written(path, *change)
            with pytest.raises(BadOperator) as caught:
                used(path, printed=True)
            lines[mistake] = (f"made.py:{line}", caught.value.where)
        path.with_name("nothing.py").write_text("x = 1")
        patch.setattr(tilesim.ops, "__path__", [*tilesim.ops.__path__, str(path.parent)])
        with pytest.raises(BadOperator) as caught:
            load_operator("nothing")
        lines["a file of the package without an operator"] = ("nothing.py:1", caught.value.where)
    del sys.modules["tilesim.ops.nothing"]
    return lines, refused


def test_the_file_without_a_mistake_is_used(tmp_path):
    path = tmp_path / "made.py"
    written(path, "kernel", "pass", "pass")
    used(path)


def test_every_mistake_is_reported_with_its_line(reports):
    lines, _ = reports
    assert {m: reported for m, (_, reported) in lines.items()} == {m: line for m, (line, _) in lines.items()}


def test_every_refusal_is_provoked(reports):
    """No BadOperator of the wings that declare and record operators is left out above."""
    _, refused = reports
    package = Path(tilesim.__file__).parent
    files = [
        package / "ops" / "__init__.py",
        *(f for w in ("operators", "program", "kernels") for f in package.glob(f"{w}/*.py")),
    ]
    missed = [
        f"{file.relative_to(package)}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BadOperator"
        if not any(seen == file and node.lineno <= line <= node.end_lineno for seen, line in refused)
    ]
    assert missed == []


def test_every_function_of_an_operator_is_the_authors():
    """Exceptions in any of them are reported with the author's line."""
    functions = [f.name for f in fields(Operator) if "Callable[" in f.type or "ClosedForm" in f.type]
    assert list(FUNCTIONS) == functions
