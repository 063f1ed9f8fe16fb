"""What a measured kernel is among our operators: its call, from the name, shapes and dtypes that a profiler has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesim.errors import BadInput
from tilesim.measured.sample_kernels import product
from tilesim.operators.kernel_names import NAMES
from tilesim.operators.operator import Operator
from tilesim.operators.shapes import apart, merged
from tilesim.program import dtypes
from tilesim.program.dtypes import dtype_named

Shape = tuple[int, ...]

FAMILY: Mapping[str, str] = {
    **dict.fromkeys(
        ("exp", "sigmoid", "gelu", "mish", "maximum", "addcdiv", "adam_w", "add", "mul", "copy"), "elementwise"
    ),
    "swi_glu": "glu",
    "rms_norm": "norm",
    "softmax": "softmax",
    "dynamic_quant": "quant",
    "matmul": "matmul",
}
"""The class of an operator, for which an accuracy is known."""
OPERANDS: Mapping[str, int] = {
    **dict.fromkeys(("add", "mul", "maximum", "matmul", "rms_norm", "dynamic_quant"), 2),
    "addcdiv": 3,
    "adam_w": 4,
}
"""How many of the first inputs have to be of one dtype, where it is more than one: a plan has one dtype for them."""
WORD_BYTES = 4
BROADCAST = "broadcast"
"""The class of calls whose operands have shapes that broadcast; no figure of a chip is fitted to them."""
INTEGERS = "integers"
"""The class of calls on integers of another width than 32 bits; no figure is fitted to them either."""


class Unmapped(Exception):
    """A measurement that no operator of ours can be asked about, and why."""


@dataclass(frozen=True)
class Case:
    """A call that `plan` takes."""

    operator: Operator | str
    given: Mapping[str, Any]
    dtype: str
    tiles: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)
    """Figures of on-chip memories that the kernel had at its disposal, other than the chip file's."""
    note: str = ""
    """Where it is not what the kernel is called: what it is instead, and why."""
    kind: str = ""
    """Its class, where that is not the operator's."""

    @property
    def name(self) -> str:
        """The name of the operator."""
        return self.operator if isinstance(self.operator, str) else self.operator.name

    @property
    def family(self) -> str:
        """Its class, "" if it has none."""
        return self.kind or FAMILY.get(self.name, "")


def operator_named(kernel: str) -> str:
    """Our operator for a kernel type; raises Unmapped."""
    found = NAMES.get(kernel.replace("_", "").lower())
    if found is None:
        raise Unmapped(f"unknown operator {kernel}")
    return found


def case_of(
    kernel: str,
    inputs: Sequence[Shape],
    dtypes: Sequence[str],
    outputs: Sequence[Shape] = (),
    attributes: Mapping[str, Any] | None = None,
) -> Case:
    """The call of a kernel with these shapes; raises Unmapped with the reason."""
    name = operator_named(kernel)
    attributes = attributes or {}
    if not inputs or not dtypes:
        raise Unmapped("no shapes or dtypes")
    dtype = _one_dtype(dtypes[: OPERANDS.get(name, 1)])
    first = inputs[0]
    if any(size < 0 for shape in inputs for size in shape):
        raise Unmapped("a size below 0")
    if name in ("add", "mul", "maximum"):
        return _two_operands(name, inputs, dtypes, dtype)
    if name == "matmul":
        return _product(inputs, outputs, dtype)
    if name in ("addcdiv", "adam_w"):
        return Case(name, {"x1" if name == "addcdiv" else "var": first}, dtype)
    if name in ("swi_glu", "softmax"):
        return Case(name, {"x": first, "dim": int(attributes.get("dim", -1))}, dtype)
    if name == "rms_norm" and len(inputs) > 1 and inputs[1] != first[-1:]:
        raise Unmapped(f"gamma {list(inputs[1])} covers more than the last axis of {list(first)}")
    if name == "gelu":
        return _gelu(first, dtype, attributes.get("approximate"))
    return Case(name, {"x": first}, dtype)


def _one_dtype(written: Sequence[str]) -> str:
    """The dtype that all operands have, by its canonical name; raises Unmapped where one is unknown or another."""
    found: dict[str, None] = {}
    for one in written:
        try:
            found[dtype_named(one)] = None
        except BadInput:
            raise Unmapped(f"unknown dtype {one}") from None
    if len(found) > 1:
        raise Unmapped(f"operands of different dtypes: {', '.join(found)}")
    return next(iter(found))


def _two_operands(name: str, inputs: Sequence[Shape], dtypes: Sequence[str], dtype: str) -> Case:
    """A call of two operands; a second one that has a dtype and no shape is a scalar."""
    if len(inputs) < 2 and len(dtypes) < 2:
        raise Unmapped("the shape of one operand only")
    first, second = inputs[0], inputs[1] if len(inputs) > 1 else ()
    if apart(first, second):
        raise Unmapped(f"shapes {list(first)} and {list(second)} do not broadcast")
    kind = class_beside(dtype, spread=merged(first, second).spread)
    return Case(name, {"x1": first, "x2": second}, dtype, kind=kind)


def class_beside(dtype: str, *, spread: bool) -> str:
    """The class of a call of two operands where that is not its operator's, else ""."""
    if spread:
        return BROADCAST
    return "" if dtypes.is_float(dtype) or dtypes.itemsize(dtype) == WORD_BYTES else INTEGERS


def _gelu(shape: Shape, dtype: str, asked: Any) -> Case:
    """A call of gelu: measured times of both forms are alike, and those of the tanh form."""
    same = "predicted with the tanh form, as the library's kernel takes its time for both"
    notes = {"tanh": "", "none": f"approximate=none, {same}"}
    note = notes.get(str(asked).lower(), f"form not told, {same}")
    return Case("gelu", {"x": shape}, dtype, options={"approximate": "tanh"}, note=note)


def _product(inputs: Sequence[Shape], outputs: Sequence[Shape], dtype: str) -> Case:
    """A matrix product, its factors transposed as its result tells."""
    if len(inputs) < 2 or any(len(s) != 2 for s in inputs[:2]):
        raise Unmapped("not a product of two matrices")
    if any(len(s) > 1 for s in inputs[2:]):
        raise Unmapped("a third matrix is added in the same kernel")
    (a0, a1), (b0, b1) = inputs[0], inputs[1]
    wanted = tuple(outputs[0]) if outputs else None
    for first in (False, True):
        for second in (False, True):
            m, k = (a1, a0) if first else (a0, a1)
            inner, n = (b1, b0) if second else (b0, b1)
            if k == inner and wanted in (None, (m, n)):
                plain = not first and not second
                operator = "matmul" if plain else product(transpose1=first, transpose2=second)
                return Case(operator, {"x1": inputs[0], "x2": inputs[1]}, dtype)
    raise Unmapped(f"shapes {list(inputs[0])} and {list(inputs[1])} are no product")
