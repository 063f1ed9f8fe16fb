"""Operators as they are declared, found and called: shapes, words, files, recording."""

import itertools
import json
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sample_calls import chips_of, small
from tilesim.analysis.sweep import sweep
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, BadOperator
from tilesim.feasibility.evaluate import kernel_of
from tilesim.feasibility.inequalities import inequalities
from tilesim.feasibility.verdict import check
from tilesim.operators.binding import bind, in_words, parse
from tilesim.operators.calls import resized
from tilesim.operators.operator import Argument, Dimension, Operator, result
from tilesim.operators.patterns import Pattern, Solution
from tilesim.operators.rules import multiple, not_null
from tilesim.operators.shapes import TensorSpec
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import plan
from tilesim.program.buffers import Tensor
from tilesim.program.dtypes import DTYPES
from tilesim.program.recorder import Kernel
from tilesim.program.sizes import dim, dims

CHIP = load_chip("ascend950pr")
GATED = load_operator("text_gated_residual_grad")
CONV = load_operator("masked_causal_conv1d_backward")
GLU = load_operator("glu_backward")
DIMS = {"B": 1, "S": 8, "C": 4, "H": 32, "R": 16}

FILE = dedent('''
    """An operator of a user."""
    from tilesim.operators import Argument, Dimension, Operator, in_range, not_null, result, shape

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
    told = {"B": 1, "S": 8, "H": 16}
    assert [p.split(" ")[0] for p in problems_of(check, GATED, told, chip=CHIP)] == ["C", "R"]
    assert problems_of(check, GLU, {}, chip=CHIP) == ("N is missing: give N=... or the shape of gradOut or self",)


@pytest.mark.parametrize("told", [{"x": (1, 2, 128)}, {"x": (1, 2, 128), "D": 128}, {"B": 1, "S": 2, "D": 128}])
def test_sizes_that_follow_from_each_other_are_asked_for_together(told):
    places = "give one of C=..., H=..., channels=... or the shape of gradMixed or invRms"
    assert problems_of(check, GATED, {**told, "R": 16}, chip=CHIP) == (f"C and H are missing: {places}",)
    for more in ({"C": 4}, {"H": 32}, {"channels": 4}, {"invRms": (1, 2, 4)}, {"gradMixed": (1, 2, 32)}):
        assert check(GATED, {**told, "R": 16, **more}, chip=CHIP).dims == {"B": 1, "S": 2, "C": 4, "H": 32, "R": 16}


@pytest.mark.parametrize("name", operators_shipped())
def test_a_size_is_told_or_asked_for_whatever_is_left_out(name):
    op = load_operator(name)
    dims = small(op)
    folded = {axis for pattern in op.patterns.values() for axis in pattern.folded}
    chip = chips_of(op)[-1]
    assert check(op, dims, chip=chip).ok
    for count in range(len(dims)):
        for left in itertools.combinations(dims, count):
            lost = [n for n in dims if n not in left and n not in folded]
            told = {n: dims[n] for n in left}
            if lost:
                assert [p.split(" ")[0] for p in problems_of(check, op, told, chip=chip)] == lost
                problems_of(plan, op, told, chip=chip)
            else:
                assert check(op, told, chip=chip).dims.keys() == op.dimensions.keys()


@pytest.mark.parametrize("name", operators_shipped())
def test_null_and_dtype_decide_without_sizes(name):
    op = load_operator(name)
    chip = chips_of(op)[-1]
    for tensor in (t for t in op.tensors if not t.option):
        verdict = check(op, {tensor.name: None}, chip=chip)
        assert (verdict.verdict, verdict.parameter, verdict.ok) == ("refused", tensor.name, False)
        json.dumps(verdict.to_json())
        assert verdict.remedies == () or verdict.dims.keys() == op.dimensions.keys()
    for dtype in [d for d in DTYPES if d not in op.dtypes[chip.family]][:1]:
        assert check(op, {op.lead: TensorSpec((2, 4, 32), dtype)}, chip=chip).verdict == "refused"
    if "inference-200i" not in op.products:
        assert check(op, {}, chip="ascend310b1").verdict == "unsupported"


@pytest.mark.parametrize("member", ["wGate", "gradInject", "inject", "dwGate", "dgamma"])
def test_half_a_group_is_refused_without_sizes(member):
    given = {"x": TensorSpec((2, 3, 128), "bfloat16"), member: None}
    for sizes in ({}, {"C": 4}, {"R": 16}, {"C": 4, "R": 16}):
        verdict = check(GATED, {**given, **sizes}, chip=CHIP)
        assert (verdict.status.code, verdict.parameter) == (161001, member)
        assert f"{member}=none" in in_words(verdict.call)


@pytest.mark.parametrize(
    ("told", "parameter"),
    [
        ({"C": 4, "H": 32, "D": 127}, "channels"),
        ({"C": 4, "H": 32, "D": 256}, "gradMixed"),
        ({"C": 4, "D": 130}, "channels"),
        ({"C": 4, "x": (2, 3, 128), "D": 256}, "wDown"),
        ({"C": 4, "H": 32, "x": (2, 3, 256)}, "gradMixed"),
    ],
)
def test_a_product_of_dims_that_contradicts_them_is_refused(told, parameter):
    verdict = check(GATED, {"B": 2, "S": 3, "R": 16, **told}, chip=CHIP)
    assert (verdict.status.code, verdict.parameter) == (161002, parameter)
    assert check(GATED, {"B": 2, "S": 3, "R": 16, "C": 4, "H": 32, "D": 128}, chip=CHIP).ok


def test_a_size_against_all_tensors_is_refused_though_no_tensor_is_left_to_show_it():
    every = {"self": (8, 4), "out": (8, 2)}
    glu = load_operator("glu")
    assert problems_of(bind, glu, {**every, "N": 7}) == ("N is 7, but the given shapes make it 2",)
    assert problems_of(bind, glu, {**every, "X": 7}) == ("X is 7, but the given shapes make it 8",)
    assert check(glu, {**every, "X": 8, "N": 2}, chip=CHIP).ok
    assert check(glu, {"self": (8, 4), "N": 7}, chip=CHIP).status.code == 161002
    whole = bind(GATED, DIMS)
    assert problems_of(bind, GATED, {**whole.specs, "D": 127}) == ("D is 127, but the given shapes make it 128",)
    assert bind(GATED, {**whole.specs, "D": 128}).dims == DIMS


def test_a_folded_size_may_repeat_what_a_shape_says():
    assert check(GLU, {"self": (2, 4, 6), "X": 8}, chip=CHIP).ok
    assert not check(GLU, {"self": (2, 4, 6), "X": 4}, chip=CHIP).ok


# -------------------------------------------------------------------- values of other types
@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), "half", "torch.float16"])
def test_a_dtype_may_be_an_object(dtype):
    assert bind(GATED, DIMS, dtype=dtype).dtype == "float16"
    assert TensorSpec((2,), dtype) == TensorSpec((2,), "float16")
    assert bind(GATED, {**DIMS, "x": np.zeros((1, 8, 128), np.float16)}).dtype == "float16"


def test_bfloat16_may_be_a_scalar_type():
    assert bind(GLU, {"self": (2, 4)}, dtype=ml_dtypes.bfloat16).dtype == "bfloat16"


@pytest.mark.parametrize("dtype", [3, 0, "", float, (), ["float16"], object()])
def test_what_is_no_dtype_is_one_problem(dtype):
    (problem,) = problems_of(bind, GATED, DIMS, dtype=dtype)
    assert "is not a dtype" in problem


@pytest.mark.parametrize("given", [None, [1], "self=2x4", 3])
def test_what_is_no_mapping_is_one_problem(given):
    kind = f"of type {type(given).__name__}"
    shown = kind if isinstance(given, list) else repr(given)
    for function, how in ((check, {"chip": CHIP}), (plan, {"chip": CHIP}), (sweep, {"chips": CHIP})):
        assert problems_of(function, GLU, given, **how) == (f"given is {shown}, must be a mapping with names as keys",)
    assert "'3' is not a key" in problems_of(bind, GLU, {3: 4})[0]


@pytest.mark.parametrize("value", ["false", "no", 0, 1, 1.0, "perhaps"])
def test_an_option_is_true_or_false(value):
    for name in ("inject", "gamma"):
        (problem,) = problems_of(bind, GATED, {**DIMS, name: value})
        assert problem == f"{name} is {value!r}, must be true or false, or the shape of that tensor"
    (problem,) = problems_of(bind, load_operator("gelu"), {"X": 8, "approximate": value})
    assert problem == f"approximate is {value!r}, must be none or tanh"
    assert bind(GATED, DIMS, inject=np.False_).options["inject"] is False


def test_a_tensor_of_an_option_names_the_option():
    (problem,) = problems_of(bind, GATED, {**DIMS, "wGate": False})
    assert "wGate is False" in problem
    assert "inject is the option that may be true or false" in problem


def test_one_tensor_under_two_names_is_given_twice():
    sizes = {"S": 8, "B": 1, "H": 384}
    for two in ({"mask": True, "maskOptional": (1, 8)}, {"gradX": (8, 1, 384), "grad_x": (8, 1, 384)}):
        assert "given twice" in problems_of(bind, CONV, {**sizes, **two})[0]
    assert problems_of(bind, CONV, {**sizes, "mask": True}, maskOptional=(1, 8)) == ("mask is given twice",)


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
    kernel = kernel_of(call, CHIP)
    assert kernel is kernel_of(bind(op, {"N": 5, "H": 16}), CHIP), "one recording serves all shapes"
    (inequality,) = (i for i in inequalities(kernel, CHIP) if i.memory == "ub")
    assert inequality.left_bytes({"H": 8}) == 2 * 2 * 8 * 4


@pytest.mark.parametrize(
    ("text", "where", "fact"),
    [
        ("x = 1 +\n", "mine.py:1", "invalid syntax"),
        ("\nx = 1 / 0\n", "mine.py:2", "ZeroDivisionError"),
        (FILE.replace('"N H")', '"N Q")', 1), "mine.py:", "'Q' is not a dim"),
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
        kernel_of(bind(op, {"N": 4, "H": 8}), CHIP)
    line = 1 + FILE.split("2.0")[0].count("\n")
    assert caught.value.where == f"mine.py:{line}"


def test_files_that_are_not_there(tmp_path):
    path = tmp_path / "mine.py"
    assert "cannot be read" in problems_of(load_operator, f"{path}:double")[0]
    path.write_text(FILE)
    assert "did you mean 'double'?" in problems_of(load_operator, f"{path}:doubel")[0]


def test_an_operator_names_only_what_it_declares():
    with pytest.raises(BadOperator, match="which is not an option") as caught:
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
    assert "'M' is not a dim" in str(caught.value)
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


# -------------------------------------------------------------------- what a recorder refuses
def recorded(body):
    """Record a body into a phase of a kernel of one input x and one output y."""
    tensors = {name: Tensor(name, dims("N H"), "float32", role) for name, role in (("x", "input"), ("y", "output"))}
    k = Kernel("odd", "float32", {}, tensors)
    with k.vector("p") as p:
        body(k, p)


def tiled(k, p, *, slots=2, cap=None, multiple_of=1, **loop):
    """x copied to y, with some of the numbers that the recorder takes."""
    loop = {"extent": dim("N"), "split": True} | loop
    loop.setdefault("tile", p.tile("rows", cap, multiple_of))
    for n in p.loop("n", **loop):
        p.store(p.load(k["x"][n], name="b", slots=slots), k["y"][n])


@pytest.mark.parametrize(
    ("numbers", "fact"),
    [
        ({"slots": 0}, "slots of buffer 'b' is 0, must be at least 1"),
        ({"slots": -1}, "slots of buffer 'b' is -1, must be at least 1"),
        ({"slots": 1.5}, "slots of buffer 'b' is 1.5, must be a whole number"),
        ({"slots": True}, "slots of buffer 'b' is True, must be a whole number"),
        ({"slots": "2"}, "slots of buffer 'b' is '2', must be a whole number"),
        ({"slots": dim("N")}, "slots of buffer 'b' is N, must be a whole number"),
        ({"cap": 0}, "cap of tile 'rows' is 0, must be at least 1"),
        ({"cap": 2.5}, "cap of tile 'rows' is 2.5, must be a whole number"),
        ({"multiple_of": 0}, "multiple_of of tile 'rows' is 0, must be at least 1"),
        ({"multiple_of": -8}, "multiple_of of tile 'rows' is -8, must be at least 1"),
        ({"multiple_of": None}, "multiple_of of tile 'rows' is None, must be a whole number"),
        ({"extent": -4}, "extent of loop 'n' is -4, must be at least 0"),
        ({"extent": "N"}, "extent of loop 'n' is 'N', must be a whole number"),
        ({"tile": 0}, "tile of loop 'n' is 0, must be at least 1"),
        ({"tile": -3}, "tile of loop 'n' is -3, must be at least 1"),
        ({"tile": dim("N") - dim("N")}, "tile of loop 'n' is 0, must be at least 1"),
        ({"tile": 0.5}, "tile of loop 'n' is 0.5, must be a whole number"),
        ({"unit": 0}, "unit of loop 'n' is 0, must be at least 1"),
        ({"rows": -1}, "rows of loop 'n' is -1, must be at least 0"),
        ({"halo": -1}, "halo of loop 'n' is -1, must be at least 0"),
        ({"lead": 1.0}, "lead of loop 'n' is 1.0, must be a whole number"),
        (
            {"split": "block_balance"},
            "split of loop 'n' is 'block_balance', which is not a split; did you mean 'block_balanced'?",
        ),
        (
            {"split": "foo"},
            "split of loop 'n' is 'foo', which is not a split; there are: True, block_balanced, block",
        ),
        (
            {"split": 1},
            "split of loop 'n' is 1, which is not a split; there are: True, block_balanced, block",
        ),
    ],
    ids=str,
)
def test_numbers_that_mean_nothing_name_their_line(numbers, fact):
    with pytest.raises(BadOperator) as caught:
        recorded(lambda k, p: tiled(k, p, **numbers))
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.startswith("test_operator.py:")


@pytest.mark.parametrize("split", ["", "block_balanced", "block", "cyclic", True, False])
def test_every_way_to_share_a_loop_out_is_taken(split):
    recorded(lambda k, p: tiled(k, p, split=split, cap=dim("N"), multiple_of=8, unit=dim("H"), slots=1))


def test_parts_that_are_read_after_their_loop_name_the_remedy():
    def parts(k, p, *, carried):
        b = p.buffer("b", (4, dim("H")))
        for r in p.loop("r", 4, carry=(b,) if carried else ()):
            part = p.load(k["x"][r.start], out=b[r.start])
        p.store(p.read(b) if carried else part, k["y"][:4])

    with pytest.raises(BadOperator, match=r"give that loop carry=\(b,\), its buffer, and read it as p.read\(b\)"):
        recorded(lambda k, p: parts(k, p, carried=False))
    recorded(lambda k, p: parts(k, p, carried=True))


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_a_dtype_that_the_operator_does_not_have_is_no_yes(dtype):
    """Whether a rule about dtypes is stated or not: there is no kernel, so there are no inequalities to break."""

    def kernel(k):
        with k.vector("p") as p:
            for n in p.loop("n", k["x"].shape[0], p.tile("rows"), split="block"):
                p.store(p.load(k["x"][n]), k["y"][n])

    made = Operator(
        name="plain",
        api="",
        about="a copy",
        dims=(Dimension("N"),),
        tensors=(Argument("x", "N"), result("y", "N")),
        lead="x",
        dtypes={"950": ("float32", "bfloat16")},
        dtype="float32",
        rules=(multiple(Dimension("N", multiple_of=1), "x"),),
        kernel=kernel,
    )
    assert check(made, {"x": (64,)}, chip="ascend950pr").ok
    verdict = check(made, {"x": (64,)}, chip="ascend950pr", dtype=dtype)
    assert not verdict.ok
    assert [f.name for f in verdict.broken] == ["x dtype"]
