"""What must hold for every operator, dtype and chip: results by the independent references, whatever the shape."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import sample_calls as operators
from tests.reference import formats, text_gated_residual_grad, tolerance
from tests.sample_calls import cases, cases_of_kernels, executed, judge, made_up, planned
from tilesim.chip.loading import load_chip
from tilesim.execution.run import run
from tilesim.execution.verify import verify
from tilesim.ops import load_operator
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.isa import ISA

PR = load_chip("ascend950pr")
FLOATS = ("bfloat16", "float16")
few = settings(max_examples=6, derandomize=True)


@pytest.mark.parametrize(("name", "chip", "dtype", "sizes"), cases_of_kernels())
def test_results_match_the_reference(name, chip, dtype, sizes):
    """Of every kernel with all combinations of options; values depend on the family, not on the chip."""
    for options in operators.choices(load_operator(name), load_chip(chip).family):
        one = planned(name, chip, dtype, sizes, **options)
        every_buffer_is_written_and_read(one.kernel)
        inputs = made_up(one, seed=1)
        judge(one, inputs, executed(one, inputs))


def every_buffer_is_written_and_read(kernel):
    """So is every tensor and workspace; what is reserved for an option that is off is not touched."""
    for phase in kernel.phases:
        written = {i.dst.base for i in phase.instructions()}
        read = {view.base for i in phase.instructions() for view in i.reads()}
        idle = {b.name for b in phase.buffers if not b.reserved and not (b in written and b in read)}
        touched = {b.name for b in phase.buffers if b.reserved and (b in written or b in read)}
        assert not idle | touched, phase.name
        assert {b for b in written | read if isinstance(b, Buffer)} <= {*phase.buffers, *kernel.statics}
    moved = [v.base for p in kernel.phases for i in p.instructions() for v in (*i.reads(), i.dst)]
    touched = {base.name for base in moved if isinstance(base, Tensor)}
    assert touched == {n for n, t in kernel.tensors.items() if t is not None} | kernel.workspaces.keys()


@pytest.mark.parametrize("name", operators.OPERATORS)
def test_instructions_have_rows(name):
    chip = operators.chips_of(load_operator(name))[0]
    kernel = planned(name, chip, load_operator(name).dtypes[chip.family][0]).kernel
    assert {i.op for p in kernel.phases for i in p.instructions()} <= ISA.keys()


@pytest.mark.parametrize("name", [n for n in operators.MAIN if n.startswith("text")])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gated_residual_of_any_shape(name, dtype):
    @few
    @given(
        tokens=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 7, 20, 40])),
        channels=st.integers(1, 20),
        sides=st.tuples(st.integers(1, 9), st.integers(1, 5)),
        options=st.tuples(st.booleans(), st.booleans()),
        seed=st.integers(0, 99),
    )
    def holds(tokens, channels, sides, options, seed):
        sizes = dict(zip("BSCHR", (*tokens, channels, 16 * sides[0], 16 * sides[1]), strict=True))
        one = planned(name, PR, dtype, sizes, inject=options[0], gamma=options[1])
        inputs = made_up(one, seed)
        judge(one, inputs, executed(one, inputs))

    holds()


@pytest.mark.parametrize("name", ["text_gated_residual", "text_gated_residual_grad"])
def test_gated_residual_of_the_documents_size(name):
    one = planned(name, PR, "bfloat16", {"B": 1, "S": 3, "C": 4, "H": 2560, "R": 320})
    inputs = made_up(one)
    assert all(d.ok for d in verify(run(one, inputs), one, inputs))


@pytest.mark.parametrize("name", ["text_gated_residual", "text_gated_residual_grad"])
@pytest.mark.parametrize("lead", [(0, 3), (2, 0), (0, 0)])
def test_gated_residual_without_tokens(name, lead):
    for dtype in FLOATS:
        for options in operators.choices(load_operator(name)):
            sizes = {"B": lead[0], "S": lead[1], "C": 3, "H": 48, "R": 16}
            one = planned(name, PR, dtype, sizes, **options)
            found = executed(one, made_up(one))
            assert {n: x.shape for n, x in found.items()} == {n: one.call.spec(n).shape for n in found}
            assert all(not x.any() for x in found.values())
            assert len(found) == (3 if name.endswith("grad") else 4) + sum(options.values()) - (
                not name.endswith("grad") and options["gamma"]
            )


def test_float16_gradients_do_not_underflow():
    for scale in (1e-3, 1e-4, 1e-5):
        for sizes in ({"B": 2, "S": 24, "C": 4, "H": 256, "R": 64}, {"B": 1, "S": 8, "C": 20, "H": 48, "R": 16}):
            inputs = text_gated_residual_grad.random_inputs(sizes, "float16", grad_scale=scale)
            found = executed(planned("text_gated_residual_grad", PR, "float16", sizes), inputs)
            for name, expected in text_gated_residual_grad.backward(inputs, sizes["C"]).items():
                limits = tolerance.GATED_RESIDUAL["float16"].get(name, tolerance.GATED_RESIDUAL["float16"]["other"])
                # What the dtype of the output cannot hold is not the kernel's error.
                nearest = formats.rounded(expected, "float32" if name == "dgamma" else "float16")
                for metric in ("fro", "t"):
                    measure = getattr(tolerance, metric)
                    allowed = getattr(limits, metric) + measure(nearest, expected)
                    assert measure(found[name].astype(np.float64), expected) <= allowed, (name, metric, scale)


def test_float16_gradients_that_differ_in_size_do_not_overflow():
    sizes = {"B": 1, "S": 6, "C": 2, "H": 64, "R": 32}
    inputs = text_gated_residual_grad.random_inputs(sizes, "float16")
    for large, tiny in (("gradMixed", "gradInject"), ("gradInject", "gradMixed")):
        scaled = {**inputs, large: inputs[large] * 8192, tiny: inputs[tiny] * 0}
        found = executed(planned("text_gated_residual_grad", PR, "float16", sizes), scaled)
        tolerance.assert_text_gated_residual(found, text_gated_residual_grad.backward(scaled, 2), "float16")


MASKS = {
    "all": lambda shape, _: np.ones(shape, bool),
    "none": lambda shape, _: np.zeros(shape, bool),
    "right": lambda shape, rng: np.arange(shape[1]) < rng.integers(0, shape[1] + 1, (shape[0], 1)),
    "any": lambda shape, rng: rng.random(shape) < 0.5,
}


@pytest.mark.parametrize("name", [n for n in operators.MAIN if n.startswith("masked")])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_convolution_of_any_length(name, dtype, mask):
    rng = np.random.default_rng(3)
    # A small unified buffer has tiles of few rows, so that short sequences have many of them.
    small = {size: PR.override({"memory.ub.size_bytes": size}) for size in (20480, 24576)}
    for tokens, chips in (
        (1, [PR]),
        (2, [PR]),
        (3, [PR]),
        (4, [small[20480]]),
        (33, [PR, *small.values()]),
        (66, [PR]),
    ):
        for chip in chips:
            one = planned(name, chip, dtype, {"S": tokens, "B": 2, "H": 384}, mask=mask is not None)
            inputs = made_up(one, tokens)
            if mask is not None:
                inputs["mask"] = MASKS[mask]((2, tokens), rng)
            judge(one, inputs, executed(one, inputs))


@pytest.mark.parametrize("name", ["glu", "glu_backward"])
@pytest.mark.parametrize("chip", ["ascend950pr", "ascend910b1", "ascend310p3"])
def test_glu_of_every_rank_and_axis(name, chip):
    rng = np.random.default_rng(5)
    op = load_operator(name)
    dtypes = op.dtypes[load_chip(chip).family]
    for rank in range(1, 9):
        for dim in range(-rank, rank):
            shape = rng.integers(1, 4, rank)
            shape[dim] *= 2
            one = planned(name, chip, dtypes[(rank + dim) % len(dtypes)], {"self": tuple(map(int, shape)), "dim": dim})
            inputs = made_up(one, rank)
            judge(one, inputs, executed(one, inputs))


@pytest.mark.parametrize(("name", "chip", "dtype"), [c for c in cases(every_chip=False) if c[0].startswith("glu")])
def test_glu_that_saturates_has_no_nan(name, chip, dtype):
    one = planned(name, chip, dtype, {"self": (9, 64), "dim": -1})
    inputs = made_up(one)
    edges = np.array([0.0, -0.0, 1e-30, 17, -17, 88, -88, 89, -89, 104, -104, 710, -710, 6e4, -6e4])
    gate = np.resize(edges, (9, 32))
    own = np.concatenate([inputs["self"][:, :32].astype(np.float64), gate], axis=1)
    narrow = own if dtype == "float64" else own.astype(np.float32)
    with np.errstate(over="ignore"):
        inputs["self"] = narrow.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    found = executed(one, inputs)
    assert np.isfinite(found["out"].astype(np.float64)).all()
    judge(one, inputs, found)


@pytest.mark.parametrize(("name", "chip", "dtype"), [c for c in cases(every_chip=False) if c[0].startswith("glu")])
def test_glu_of_large_rows_and_of_nothing(name, chip, dtype):
    for shape, dim in (((2, 40000), 1), ((2, 30000, 3), 1), ((0, 4), 1), ((3, 0), 1), ((2, 4, 0), 0), ((700, 6), 1)):
        one = planned(name, chip, dtype, {"self": shape, "dim": dim})
        inputs = made_up(one)
        judge(one, inputs, executed(one, inputs))
