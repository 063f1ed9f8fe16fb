"""Operators as they are declared, found and called: shapes, words, files, recording."""

import json
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.calls import bind, parse, resized
from tilesim.checker import check
from tilesim.chip import load_chip
from tilesim.errors import BadInput, BadOperator
from tilesim.fits import inequalities
from tilesim.operator import Argument, Dimension, Operator, result
from tilesim.ops import load_operator, operators_shipped
from tilesim.rules import not_null
from tilesim.shapes import Pattern, Solution, TensorSpec
from tilesim.sizes import dim

CHIP = load_chip("ascend950pr")
GATED = load_operator("text_gated_residual_grad")
CONV = load_operator("masked_causal_conv1d_backward")
GLU = load_operator("glu_backward")
DIMS = {"B": 1, "S": 8, "C": 4, "H": 32, "R": 16}

FILE = dedent('''
    """An operator of a user."""
    from tilesim.operator import Argument, Dimension, Operator, result
    from tilesim.rules import in_range, not_null, shape

    ROWS, WIDTH = Dimension("N"), Dimension("H", multiple_of=8)


    def kernel(k):
        """Twice x."""
        n_rows, h = ROWS.size, WIDTH.size
        with k.vector("double") as p:
            for n in p.loop("n", n_rows, p.tile("rows"), split=True):
                x = p.load(k["x"][n], name="xIn")
                p.store(p.muls(x, 2.0, name="yOut", slots=2), k["y"][n])


    double = Operator(
        name="double",
        api="",
        about="twice x",
        dims=(ROWS, WIDTH),
        tensors=(Argument("x", "N H"), result("y", "N H")),
        lead="x",
        dtypes={"950": ("float32",)},
        dtype="float32",
        rules=(*not_null("x"), in_range(WIDTH, "x"), shape("y")),
        kernel=kernel,
    )
''')


def problems_of(function, *args, **kwargs):
    with pytest.raises(BadInput) as caught:
        function(*args, **kwargs)
    assert caught.value.exit_code == 2
    return caught.value.problems


# -------------------------------------------------------------------- shapes
def test_a_spec_is_checked_and_written_one_way():
    assert TensorSpec([np.int64(2), 3], "torch.half") == TensorSpec((2, 3), "float16")
    assert len(problems_of(TensorSpec, (1.5, True, 2), "float15")) == 3


@pytest.mark.parametrize(
    ("text", "shape", "split", "sizes"),
    [
        ("B S C*H", (2, 3, 64), None, {"B": 2, "S": 3}),
        ("*X 2*N *Y", (2, 4, 6), -1, {"X": 8, "N": 3, "Y": 1}),
        ("*X 2*N *Y", (2, 4, 6), 0, {"X": 1, "N": 1, "Y": 24}),
        ("*X 2*N *Y", (2, 5), 1, {"X": 2, "Y": 1}),
        ("*X 2*N *Y", (2, 4), 2, {}),
        ("*X H", (7,), None, {"X": 1, "H": 7}),
        ("*X H", (), None, {}),
        ("B S", (1, 2, 3), None, {}),
    ],
)
def test_what_a_shape_says(text, shape, split, sizes):
    names = {name: dim(name) for name in "BSCHNXY"}
    found = Solution(split=split)
    Pattern.parsed(text, names).learn(shape, found)
    assert found.sizes == sizes


@given(shape=st.lists(st.integers(0, 5), min_size=1, max_size=5), data=st.data())
def test_a_pattern_gives_back_the_shape_that_it_learned(shape, data):
    split = data.draw(st.integers(-len(shape), len(shape) - 1))
    pattern = Pattern.parsed("*X N *Y", {name: dim(name) for name in "XNY"})
    found = Solution(split=split)
    pattern.learn(shape, found)
    assert pattern.filled(found) == tuple(shape)


# -------------------------------------------------------------------- what was given
def test_dims_tell_every_tensor():
    call = bind(GATED, DIMS)
    assert call.spec("x") == TensorSpec((1, 8, 128), "bfloat16")
    assert call.spec("invRms") == TensorSpec((1, 8, 4), "float32")
    assert call.spec("dwUp") == TensorSpec((128, 16), "bfloat16")
    assert call.attributes == {"channels": 4}
    assert call.dims == DIMS
    assert call.options == {"inject": True, "gamma": True}


def test_tensors_tell_the_dims():
    given = {"x": TensorSpec((1, 8, 128), "float16"), "wDown": (16, 128), "channels": 4}
    call = bind(GATED, given, inject=False)
    assert call.dims == DIMS
    assert call.dtype == "float16"
    assert call.spec("wGate") is None


def test_a_derived_size_may_be_given():
    assert bind(GATED, {"B": 1, "S": 8, "C": 4, "D": 128, "R": 16}).dims == DIMS


def test_defaults():
    assert bind(CONV, {"S": 8, "B": 1, "H": 384}).dims["W"] == 3
    assert bind(CONV, {"S": 8, "B": 1, "H": 384}).spec("mask") is None
    assert bind(CONV, {"S": 8, "B": 1, "H": 384}, mask=True).spec("mask") == TensorSpec((1, 8), "bool")
    glu = bind(GLU, {"self": (2, 4, 6)})
    assert (glu.dtype, glu.attributes["dim"], glu.expected("gradOut")) == ("float32", -1, (2, 4, 3))


@pytest.mark.parametrize(
    ("dims", "shape"), [({"N": 3}, (6,)), ({"X": 8, "N": 3}, (8, 6)), ({"X": 8, "N": 3, "Y": 2}, (8, 6, 2))]
)
def test_folded_dims_make_a_shape(dims, shape):
    call = bind(GLU, dims)
    assert call.spec("self").shape == shape
    assert dims.items() <= call.dims.items()


def test_arrays_are_tensors():
    call = bind(GATED, DIMS | {"x": np.zeros((1, 8, 128), ml_dtypes.bfloat16), "gamma": np.zeros(128, np.float32)})
    assert call.spec("x") == TensorSpec((1, 8, 128), "bfloat16")


def test_one_name_may_be_an_option_and_a_tensor():
    assert bind(GATED, DIMS, inject=False).spec("inject") is None
    assert bind(GATED, DIMS | {"inject": (1, 8, 4)}).options["inject"]
    partly = bind(GATED, DIMS | {"inject": None})
    assert partly.spec("wGate") is not None
    assert not partly.options["inject"]


def test_outputs_follow_the_inputs_of_their_group():
    assert bind(GATED, DIMS | {"gamma": None}).is_null("dgamma")
    assert bind(GATED, DIMS | {"wGate": None}).spec("dwGate") is not None
    assert bind(GATED, DIMS | dict.fromkeys(("wGate", "inject", "gradInject"))).is_null("dwGate")


def test_the_vendors_names_of_tensors_are_known():
    call = bind(CONV, {"grad_y": (8, 1, 384), "maskOptional": TensorSpec((1, 8), "bool")})
    assert call.spec("gradY").shape == (8, 1, 384)
    assert call.options["mask"]


def test_all_problems_come_at_once():
    problems = problems_of(
        bind, GATED, {"h": 16, "B": 1.5, "x": "2x3", "S": True}, dtype="float15", inject=3, gama=True
    )
    assert len(problems) == 7
    assert "did you mean 'H'?" in problems[0]
    assert any("did you mean 'gamma'?" in problem for problem in problems)


def test_a_size_that_nothing_tells_is_missing():
    assert [p.split(" ")[0] for p in problems_of(bind, GATED, {"B": 1, "S": 8, "H": 16})] == ["C", "R"]
    assert problems_of(bind, GLU, {}) == ("N is missing: give N=... or the shape of gradOut or self",)


def test_resized_is_as_if_it_had_been_given():
    for op, first, other in (
        (GATED, DIMS, {"H": 64, "C": 2}),
        (CONV, {"S": 8, "B": 1, "H": 384, "W": 3}, {"S": 9}),
        (GLU, {"X": 8, "N": 3, "Y": 2}, {"N": 5, "Y": 4}),
    ):
        changed, made = resized(bind(op, first), other), bind(op, first | other)
        assert changed.specs == made.specs
        assert changed.dims == made.dims
        assert changed.attributes == made.attributes


# -------------------------------------------------------------------- words
def test_words_say_the_same_as_python():
    words = ["B=1", "x=2x3x128:bf16", "wGate=none", "inject=false", "gamma=yes", "channels=4", "wUp=[]", "invRms=4"]
    assert parse(GATED, words) == {
        "B": 1,
        "x": TensorSpec((2, 3, 128), "bfloat16"),
        "wGate": None,
        "inject": False,
        "gamma": True,
        "channels": 4,
        "wUp": (),
        "invRms": (4,),
    }
    assert parse(GLU, ["self=2x4x6", "dim=-1"]) == {"self": (2, 4, 6), "dim": -1}
    assert parse(load_operator("text_gated_residual"), ["eps=1e-5"]) == {"eps": 1e-5}


def test_bad_words_come_all_at_once():
    words = ["B", "S=x", "hidden=3", "x=2y3", "x=1x2:float15", "B=1", "B=2", "channels=many", "inject=perhaps"]
    problems = problems_of(parse, GATED, words)
    assert len(problems) == 8


# -------------------------------------------------------------------- where operators come from
def test_every_shipped_operator_loads_by_its_name():
    assert {"text_gated_residual_grad", "masked_causal_conv1d_backward", "glu_backward"} <= set(operators_shipped())
    for name in operators_shipped():
        op = load_operator(name)
        assert op.name == name
        assert len({rule.name for rule in op.rules}) == len(op.rules), "two rules of one name"


def test_a_name_that_is_not_there():
    assert "did you mean 'glu_backward'?" in problems_of(load_operator, "glu_backwards")[0]


@pytest.mark.parametrize("ending", ["", ":double"])
def test_an_operator_of_a_file(tmp_path, ending):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    op = load_operator(f"{path}{ending}")
    assert op is load_operator(path), "a file that did not change is not run again"
    call = bind(op, {"N": 4, "H": 8})
    kernel = op.record(call, CHIP)
    assert kernel is op.record(bind(op, {"N": 5, "H": 16}), CHIP), "one recording serves all shapes"
    (inequality,) = inequalities(kernel, CHIP)
    assert inequality.left_bytes({"H": 8}) == 2 * 2 * 8 * 4


@pytest.mark.parametrize(
    ("text", "where", "fact"),
    [
        ("x = 1 +\n", "mine.py:1", "invalid syntax"),
        ("\nx = 1 / 0\n", "mine.py:2", "ZeroDivisionError"),
        (FILE.replace('"N H")', '"N Q")', 1), "mine.py:", "'Q' is no dim"),
        (FILE.replace('lead="x"', 'lead="z"'), "mine.py:", "lead is 'z'"),
    ],
)
def test_a_file_that_cannot_be_used_names_its_line(tmp_path, text, where, fact):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadOperator, match=fact) as caught:
        load_operator(f"{path}:double")
    assert caught.value.where.startswith(where)


def test_a_kernel_that_fails_names_its_line(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace("2.0", "2.0 / 0"))
    op = load_operator(str(path))
    with pytest.raises(BadOperator, match="ZeroDivisionError") as caught:
        op.record(bind(op, {"N": 4, "H": 8}), CHIP)
    line = 1 + FILE.split("2.0")[0].count("\n")
    assert caught.value.where == f"mine.py:{line}"


def test_files_that_are_not_there(tmp_path):
    path = tmp_path / "mine.py"
    assert "cannot be read" in problems_of(load_operator, f"{path}:double")[0]
    path.write_text(FILE)
    assert "did you mean 'double'?" in problems_of(load_operator, f"{path}:doubel")[0]


def test_an_operator_names_only_what_it_declares():
    with pytest.raises(BadOperator, match="which is no option") as caught:
        Operator(
            name="odd",
            api="",
            about="",
            dims=(Dimension("N"),),
            tensors=(Argument("x", "N", option="maybe"), result("y", "N M")),
            lead="x",
            dtypes={"950": ("float32",)},
            dtype="float32",
            kernel=lambda _: None,
        )
    assert "'M' is no dim" in str(caught.value)
    assert caught.value.where.startswith("test_operator.py:")


def test_plain_data_of_a_spec():
    assert json.loads(json.dumps(str(TensorSpec((2, 3), "bool")))) == "[2, 3] bool"


def declared(**changes):
    """An operator that states no rule of its own."""
    rows, width = Dimension("N"), Dimension("H", most=8192, multiple_of=16)

    def kernel(k):
        with k.vector("copy") as p:
            for n in p.loop("n", rows.size, p.tile("rows"), split=True):
                p.store(p.load(k["x"][n]), k["y"][n])

    fields = {
        "name": "copied",
        "api": "",
        "about": "a copy",
        "lead": "x",
        "kernel": kernel,
        "dims": (rows, width),
        "tensors": (Argument("x", "N H"), result("y", "N H")),
        "dtypes": {"950": ("float32",)},
        "dtype": "float32",
    }
    return Operator(**fields | changes)


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ({"N": 4, "H": 4100}, "H multiple"),
        ({"N": 4, "H": 16384}, "H range"),
        ({"N": 0, "H": 16}, "N range"),
        ({"x": (4, 16), "y": (4, 32)}, "y shape"),
        ({"x": None, "N": 4, "H": 16}, "x given"),
    ],
)
def test_declarations_are_rules_where_an_operator_states_none(given, broken):
    verdict = check(declared(), given, chip="ascend950pr")
    assert not verdict.ok
    assert broken in [rule.name for rule in verdict.broken]
    assert check(declared(), {"N": 4, "H": 4096}, chip="ascend950pr").ok


def test_a_promised_multiple_is_a_rule_beside_stated_ones():
    stated = declared(rules=tuple(not_null("x", "y")))
    assert [rule.name for rule in check(stated, {"N": 4, "H": 4100}, chip="ascend950pr").broken] == ["H multiple"]
