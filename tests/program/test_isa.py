"""The instruction table: what an instruction takes is computed as numpy does, and everything else is refused."""

import numpy as np
import pytest

from tests.recorded import kernel, planned, tensor
from tilesim.chip.loading import load_chip
from tilesim.errors import BadOperator
from tilesim.execution.interpreter import PhaseJob, execute
from tilesim.program.buffers import view
from tilesim.program.isa import COPIES, ISA, PIPES
from tilesim.program.recorder import Phase
from tilesim.program.sizes import Size

CHIP = load_chip("ascend950pr")
SIZES = {"*shape": (4, 8), "*rows": (2, 3), "rows": (5,), "level": (3,), "m": (16,), "k": (32,), "n": (48,)}
VALUE = 5
"""The operand that is one value; as a count of tiles it has bits 0 and 2."""


MEANING = {
    "copy": lambda x: x,
    "copy_transposed": np.transpose,
    "vld": lambda x: x,
    "vst": lambda x: x,
    "fill": lambda value: np.full(SIZES["*shape"], value),
    "move": lambda x: x,
    "cast": lambda x: x,
    "adds": lambda x, value: x + value,
    "muls": lambda x, value: x * value,
    "maxs": np.maximum,
    "mins": np.minimum,
    "divs": lambda x, value: x / value,
    "abs": np.abs,
    "rint": np.rint,
    "exp": np.exp,
    "ln": np.log,
    "sqrt": np.sqrt,
    "rec": lambda x: 1 / x,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "div": lambda a, b: a / b,
    "sub_rows": lambda x, row: x - row[..., None],
    "mul_rows": lambda x, row: x * row[..., None],
    "div_rows": lambda x, row: x / row[..., None],
    "select": np.where,
    "madd": lambda out, a, b: out + a * b,
    "axpy": lambda out, a, value: out + a * value,
    "row_sum": lambda x: x.sum(-1),
    "row_max": lambda x: x.max(-1),
    "column_sum": lambda x: x.sum(0),
    "broadcast": lambda x: np.repeat(x[..., None], *SIZES["n"], axis=-1),
    "push": lambda out, value, _: [out[0], out[0] + value, out[2]],  # 5 has bit 0, which is carried
    "drain": lambda out, counter, _: out + counter[0] + counter[2],
    "clear": lambda value: np.full(SIZES["*shape"], value),
    "mmad": lambda out, a, b: out + a @ b,
}
READING_OUT = ("madd", "axpy", "push", "drain", "mmad")
"""Instructions whose result depends on what the destination held."""


def shape(axes, sizes=SIZES):
    return tuple(size for name in axes for size in sizes[name])


def shapes_of(op):
    """The shapes of the operands, () for one value, and of the result."""
    row = ISA[op]
    return [shape(axes) for axes in row.shapes.operands], shape(row.shapes.result)


def core_of(op):
    return "cube" if op == "copy_transposed" or ISA[op].pipe == "m" else "vector"


class Program:
    """One instruction on loaded operands."""

    def __init__(self, op, operands, out):
        self.op, self.row = op, ISA[op]
        self.tensors = [tensor(f"x{i}", *sizes) for i, sizes in enumerate(operands)]
        self.before = tensor("before", *out)
        self.result = tensor("y", *out, role="output")
        self.kernel = kernel(*self.tensors, self.before, self.result)
        self.phase = Phase("p", core_of(op), self.kernel)
        self.kernel.phases.append(self.phase)
        spaces = [*self.row.spaces[:-1], *("" for _ in self.tensors)]
        self.operands = [
            self.operand(x, space) if x.shape else float(VALUE) for x, space in zip(self.tensors, spaces, strict=False)
        ]
        self.out = self.destination(out, self.row.spaces[-1] if self.row.spaces else "")

    def operand(self, x, space):
        p = self.phase
        if self.op == "copy":
            return view(x)
        if p.core_kind == "cube":
            loaded = p.load(x, out=p.buffer(x.name, x.shape, space="l1"))
            return loaded if not space else p.emit("copy", loaded, out=p.buffer(x.name, x.shape, space=space))
        loaded = p.load(x, name=x.name)
        return loaded if space in ("", "ub") else p.vld(loaded, out=p.buffer(x.name, x.shape, space=space))

    def destination(self, out, space):
        p = self.phase
        buffer = p.buffer("out", out, space=space or ("l0a" if p.core_kind == "cube" else "ub"))
        if self.op not in READING_OUT:
            return buffer
        if space == "l0c":
            p.clear(2.0, out=buffer)
        else:
            p.load(self.before, out=buffer)
        return buffer

    def emit(self):
        return self.phase.emit(self.op, *self.operands, out=self.out)

    def stored(self, value):
        """Record the way of a value to global memory."""
        p, space = self.phase, value.buffer.space
        if space == "reg":
            value = p.vst(value, out=p.buffer("ub", value.shape))
        elif space == "l0a":  # times one
            one = tensor("one", value.shape[1], value.shape[1])
            self.tensors.append(one)
            self.kernel.tensors = {**self.kernel.tensors, "one": one}
            loaded = p.load(one, out=p.buffer("oneL1", one.shape, space="l1"))
            right = p.emit("copy", loaded, out=p.buffer("oneL0", one.shape, space="l0b"))
            total = p.buffer("total", value.shape, space="l0c")
            p.clear(0.0, out=total)
            value = p.mmad(value, right, out=total)
        p.store(value, self.result)
        p.finish()


LINE = f"test_isa.py:{Program.emit.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize("op", ISA)
def test_an_instruction_computes_what_numpy_does(op):
    program = Program(op, *shapes_of(op))
    program.stored(program.emit())
    random = np.random.default_rng(0)
    arrays = {
        x.name: np.eye(x.shape[0].constant, dtype=np.float32)
        if x.name == "one"
        else random.uniform(0.5, 4, [size.constant for size in x.shape]).astype(np.float32)
        for x in (*program.tensors, program.before, program.result)
    }
    inputs = [arrays[x.name] if x.shape else VALUE for x in program.tensors if x.name != "one"]
    if op in READING_OUT:
        inputs.insert(0, np.full_like(arrays["y"], 2.0) if op == "mmad" else arrays["before"].copy())
    expected = MEANING[op](*inputs)
    execute([PhaseJob.of(phase) for phase in planned(program.kernel, CHIP, lambda _: 1).phases], arrays)
    np.testing.assert_allclose(arrays["y"], expected, rtol=1e-6)


def other_shapes(op, axes):
    """Shapes of fewer axes, of more, and of one other extent where the signature names the axis twice."""
    sizes, signature = shape(axes), ISA[op].shapes
    yield from (sizes[:-1], (1, *sizes), (*sizes, 1), (*sizes, *sizes))
    names = [name for name in axes for _ in SIZES[name]]
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        if sum(name in other for other in (*signature.operands, signature.result)) > 1:
            yield from ((*sizes[:i], other, *sizes[i + 1 :]) for other in (1, size - 1, 2 * size))


def wrong_operands(op):
    """Operands that differ in one respect from what an instruction takes: their number, order or shape."""
    operands, out = shapes_of(op)
    for i, axes in enumerate(ISA[op].shapes.operands):
        others = [*other_shapes(op, axes), ()] if axes else [(1,), out]
        yield from ([*operands[:i], other, *operands[i + 1 :]] for other in others)
        yield [*operands[:i], *operands[i + 1 :]]
    yield from ([*operands, operands[-1]], [*operands, ()])
    if len(set(operands)) > 1:
        yield operands[::-1]


def wrong_results(op):
    """Destinations of other shapes than the operands tell; none where any will do."""
    signature = ISA[op].shapes
    if {name for axes in signature.operands for name in axes}.isdisjoint(signature.result):
        return []
    return [other for other in other_shapes(op, signature.result) if other]


@pytest.mark.parametrize("op", ISA)
def test_every_other_shape_is_refused_with_the_line(op):
    operands, out = shapes_of(op)
    cases = [(other, out) for other in wrong_operands(op)] + [(operands, other) for other in wrong_results(op)]
    for case in cases:
        with pytest.raises(BadOperator, match=f"^{LINE}: {op}: "):
            pytest.fail(f"{op} took {case}: {Program(op, *case).emit()}")


@pytest.mark.parametrize("op", ISA)
def test_a_result_has_the_shape_that_its_operands_tell(op):
    operands, out = shapes_of(op)
    program = Program(op, operands, out)
    known = {name for axes in ISA[op].shapes.operands for name in axes}
    if op in COPIES or ISA[op].spaces:
        return
    if set(ISA[op].shapes.result) <= known and op not in READING_OUT:
        value = program.phase.emit(op, *program.operands)
        assert tuple(size.constant for size in value.shape) == out
    else:
        with pytest.raises(BadOperator):
            program.phase.emit(op, *program.operands)


@pytest.mark.parametrize("op", [op for op in ISA if op not in COPIES])
def test_a_core_has_no_pipes_of_the_other_kind(op):
    other = "vector" if core_of(op) == "cube" else "cube"
    assert ISA[op].pipe not in PIPES[other]
    program = Program(op, *shapes_of(op))
    program.phase.core_kind = other
    with pytest.raises(BadOperator, match=f"runs on the pipe {ISA[op].pipe}, which a {other} core does not have"):
        program.emit()


@pytest.mark.parametrize("op", ["sub_rows", "mul_rows", "div_rows"])
def test_one_row_takes_its_value_from_one_element(op):
    x, value, out = np.arange(1, 9, dtype=np.float32), np.array([4], np.float32), np.empty(8, np.float32)
    (size,), (one,) = (np.shape(x), np.shape(value))
    assert ISA[op].shapes.yields([(Size.of(size),), (Size.of(one),)], (Size.of(size),))
    ISA[op].meaning(out, x, value)
    np.testing.assert_array_equal(out, MEANING[op](x[None], value)[0])
