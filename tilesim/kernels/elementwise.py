"""Elementwise operators: tensors seen as one axis, split over cores and cut into tiles of a good copy.

    def kernel(k):
        with k.vector("sigmoid") as p:
            for t in flat_tiles(k, p):
                t.store(sigmoid(p, t.load("x"), out=t.room("y")), "y")

Floats of 16 bits are computed in float32: a load widens them, a store rounds them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.kernels.composites import load_as, store_as
from tilesim.operators.operator import Argument, Attribute, Call, Dimension, Operator, Option, result
from tilesim.operators.rules import broadcasts, dtype_same, dtype_supported, not_null, rank, shape
from tilesim.program import dtypes
from tilesim.program.buffers import Buffer, Tensor, Value, View
from tilesim.program.recorder import Kernel, Phase, Target
from tilesim.program.sizes import ONE, Size, ceil_div, dim
from tilesim.program.units import LANES

COPY_BYTES = dim("copy_bytes")
"""The copy beyond which a larger one gains nothing: `tiling.copy_bytes` of the chip, known when a tile is decided."""
VECTOR_CORES = dim("vector_cores")
"""The vector cores that a phase may use, known when a tile is decided."""
MOST_AXES = 8
"""Of operands that are broadcast. Source: vendor's documents of aclnnAdd, aclnnMul, aclnnMaximum."""
REQUEST_BYTES = 128
"""What copies into the unified buffer ask the memory for at a time; source: Ascend/msopprof, REQ_DATA."""
EMPTY = "empty"
"""The variant without elements: nothing is launched."""
X = Dimension("X", least=0)
"""All elements of a tensor of any rank."""
FLOATS = ("float32", "float16", "bfloat16")
WITHOUT_BFLOAT16 = ("float32", "float16")
FAMILIES: Mapping[str, Sequence[str]] = {
    "950": FLOATS,
    "a3": FLOATS,
    "a2": FLOATS,
    "inference-200i": WITHOUT_BFLOAT16,
    "inference": WITHOUT_BFLOAT16,
    "training": WITHOUT_BFLOAT16,
}
"""The dtypes of a library operator by chip family; the cores before arch 2201 have no bfloat16."""


def with_integers(*integers: str) -> dict[str, Sequence[str]]:
    """FAMILIES with integer dtypes beside the floats."""
    return {family: (*floats, *integers) for family, floats in FAMILIES.items()}


def copy_elements(dtype: str) -> Size:
    """Elements of the largest copy that gains anything, in whole units."""
    return ceil_div(COPY_BYTES, LANES * dtypes.itemsize(dtype)) * LANES


@dataclass(frozen=True)
class ElementTile:
    """One tile of a phase: loads and stores of the same part of every tensor, in float32 where they are narrower."""

    kernel: Kernel
    phase: Phase
    part: Callable[[Tensor], View]
    shape: tuple[Size, ...]
    slots: int = 2
    allocated: tuple[Size, ...] | None = None
    """What a buffer takes, where its rows are not padded to blocks."""

    def buffer(self, name: str, dtype: str = "float32", slots: int = 1) -> Buffer:
        """A buffer of the tile's shape."""
        return self.phase.buffer(name, self.shape, dtype, slots=slots, allocated=self.allocated)

    def load(self, name: str, *, widen: bool = True) -> Value:
        """The tile of an input, in float32 unless told otherwise."""
        tensor = self.kernel[name]
        value = self.phase.load(self.part(tensor), out=self.buffer(f"{name}In", tensor.dtype, self.slots))
        return self.widened(value, name) if widen else value

    def widened(self, value: Value, name: str) -> Value:
        """The value in float32, in a buffer of its own if that takes a cast."""
        narrow = dtypes.is_float(value.dtype) and dtypes.itemsize(value.dtype) == 2
        return self.phase.cast(value, out=self.buffer(f"{name}32")) if narrow else value

    def room(self, name: str) -> Buffer:
        """Where the value of an output is computed: its own buffer, or a float32 one to be rounded from."""
        tensor = self.kernel[name]
        narrow = dtypes.is_float(tensor.dtype) and dtypes.itemsize(tensor.dtype) == 2
        return self.buffer(f"{name}32") if narrow else self.buffer(f"{name}Out", tensor.dtype, self.slots)

    def store(self, value: Value, name: str, out: Target | None = None) -> None:
        """Copy the value to the tile of an output, through a rounding cast into `out` or a buffer of its own."""
        tensor = self.kernel[name]
        if value.dtype != tensor.dtype:
            target = self.buffer(f"{name}Out", tensor.dtype, self.slots) if out is None else out
            value = self.phase.cast(value, out=target)
        self.phase.store(value, self.part(tensor))


def flat_tiles(
    k: Kernel,
    p: Phase,
    *,
    slots: int = 2,
    cap: int | None = None,
    cap_reason: str = "no larger copy gains anything",
    share: Size | None = None,
) -> Iterator[ElementTile]:
    """The one symbolic tile of a phase over all elements, at most a good copy of every tensor or `cap` elements.

    Cores share the elements out in multiples of `share`, or of a vector and a request to the memory.
    """
    *_, last = (t for t in k.tensors.values() if t is not None)
    whole = math.prod(last.shape, start=Size.of(1))
    most = copy_elements(k.dtype) if cap is None else Size.of(cap)
    unit = max(LANES, REQUEST_BYTES // dtypes.itemsize(k.dtype))
    tile = p.tile("elements", most, unit, cap_reason)
    for n in p.loop("x", whole, tile, split="block", unit=unit if share is None else share):
        yield ElementTile(k, p, lambda tensor, n=n, whole=whole: tensor.reshape(whole)[n], (n.size,), slots)  # type: ignore[misc]


def variant_of_one_shape(call: Call, _: Chip) -> str:
    """EMPTY without elements, else ""."""
    return "" if call.dims.get("X", 1) else EMPTY


def _unless_empty(kernel: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
    """The kernel, which records nothing where its variant is EMPTY."""

    @functools.wraps(kernel)
    def record(k: Kernel) -> None:
        if k.variant == EMPTY:
            k.route = EMPTY
        else:
            kernel(k)

    return record


def pointwise(  # noqa: PLR0913 - one argument a field of the operator
    name: str,
    kernel: Callable[[Kernel], None],
    *,
    about: str,
    inputs: str,
    outputs: Sequence[Argument] = (),
    api: str = "",
    attributes: Sequence[Attribute] = (),
    options: Sequence[Option] = (),
    families: Mapping[str, Sequence[str]] = FAMILIES,
    positive: str = "",
    spread: bool = False,
    variant: Callable[[Call, Chip], Hashable] = variant_of_one_shape,
    **more: Any,
) -> Operator:
    """An operator whose tensors, blank-separated `inputs` first, all have one shape of any rank; one output `y`.

    With `spread` the two inputs have shapes that broadcast to it, and `kernel` records the variant EMPTY too.
    """
    names = inputs.split()
    results = tuple(outputs) or (result("y", "*X", alias="out"),)
    others = [t.name for t in results if not t.dtype]
    return Operator(
        name=name,
        api=api or f"aclnn{name.title().replace('_', '')}",
        about=about,
        dims=(X,),
        tensors=(*(Argument(n, "~X" if spread else "*X", positive=n in positive.split()) for n in names), *results),
        lead=names[0],
        attributes=attributes,
        options=options,
        dtypes=families,
        dtype="float32",
        rules=(
            *not_null(*names, *(t.name for t in results)),
            dtype_supported(names[0]),
            *(dtype_same(n, names[0]) for n in (*names[1:], *others)),
            *(rank(n, 0, MOST_AXES) for n in names if spread),
            *(broadcasts(n, names[0]) if spread else shape(n) for n in names[1:]),
            *(shape(t.name) for t in results),
        ),
        kernel=kernel if spread else _unless_empty(kernel),
        variant=variant,
        **more,
    )


Body = Callable[[Phase, list[Value]], Sequence[Value]]
"""From the tiles of the inputs, in the dtype that is computed in, to those of the outputs."""


def computed_in(dtype: str) -> str:
    """The dtype in which elements of `dtype` are computed: float32 for the 16-bit floats, else their own."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def elementwise(k: Kernel, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], body: Body) -> None:
    """Record a vector phase that applies `body` to tiles of the inputs, as large as fit.

    Cores share the elements out evenly in whole vector registers of float32.
    """
    total = math.prod(outputs[0].shape, start=ONE)
    with k.vector(name) as p:
        for t in p.loop("t", total, p.tile("elements", multiple_of=LANES), split=True, unit=LANES):
            views = [x.reshape(total)[t] for x in inputs]
            values = [load_as(p, v, computed_in(v.dtype), name=v.base.name) for v in views]
            for value, out in zip(body(p, values), outputs, strict=True):
                store_as(p, value, out.reshape(total)[t], name=f"{out.name}Out")


def cast(_: Phase, values: list[Value]) -> Sequence[Value]:
    """The body that changes nothing but the dtype."""
    return values


def zeros(k: Kernel, name: str, outputs: Sequence[Tensor]) -> None:
    """Record a vector phase that fills [rows, width] tensors with zeros, row by row."""
    with k.vector(name) as p:
        for out in outputs:
            rows, width = out.shape
            zero = p.buffer(f"{out.name}Zero", width, out.dtype)
            for r in p.loop(out.name, rows, split=True):
                p.store(p.fill(0.0, out=zero), out[r.start])
