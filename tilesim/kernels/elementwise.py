"""Elementwise operators: tensors as one axis, split over cores and cut into tiles of a good copy.

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
"""Bytes of a good copy, beyond which a larger one gains nothing: `tiling.copy_bytes` of the chip, bound by the plan."""
COPY_REASON = "no larger copy gains anything"
"""The reason of a cap on a tile at a good copy."""
MOST_AXES = 8
"""The largest rank of operands that broadcast. Source: vendor's documents of aclnnAdd, aclnnMul, aclnnMaximum."""
REQUEST_BYTES = 128
"""Bytes of a memory request of copies into the unified buffer. Source: Ascend/msopprof, REQ_DATA."""
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
    """Return FAMILIES with integer dtypes beside the floats."""
    return {family: (*floats, *integers) for family, floats in FAMILIES.items()}


def copy_elements(dtype: str) -> Size:
    """Return the elements of a good copy, a multiple of LANES."""
    return ceil_div(COPY_BYTES, LANES * dtypes.itemsize(dtype)) * LANES


@dataclass(frozen=True)
class ElementTile:
    """One tile of a phase: loads and stores of the same part of every tensor, 16-bit floats in float32."""

    kernel: Kernel
    phase: Phase
    part: Callable[[Tensor], View]
    shape: tuple[Size, ...]
    slots: int = 2
    allocated: tuple[Size, ...] | None = None
    """The allocated shape of a buffer whose rows are not padded to blocks."""

    def buffer(self, name: str, dtype: str = "float32", slots: int = 1) -> Buffer:
        """Return a buffer of the tile's shape."""
        return self.phase.buffer(name, self.shape, dtype, slots=slots, allocated=self.allocated)

    def load(self, name: str, *, widen: bool = True) -> Value:
        """Load the tile of an input, 16-bit floats in float32 unless `widen` is False."""
        tensor = self.kernel[name]
        value = self.phase.load(self.part(tensor), out=self.buffer(f"{name}In", tensor.dtype, self.slots))
        return self.widened(value, name) if widen else value

    def widened(self, value: Value, name: str) -> Value:
        """Return a 16-bit float in float32, cast into a separate buffer; any other value unchanged."""
        return self.phase.cast(value, out=self.buffer(f"{name}32")) if dtypes.is_short_float(value.dtype) else value

    def room(self, name: str) -> Buffer:
        """Return the buffer for the value of an output: float32 for a 16-bit float, which the store rounds."""
        dtype = self.kernel[name].dtype
        if dtypes.is_short_float(dtype):
            return self.buffer(f"{name}32")
        return self.buffer(f"{name}Out", dtype, self.slots)

    def store(self, value: Value, name: str, out: Target | None = None) -> None:
        """Copy the value to the tile of an output, through a rounding cast into `out` or a new buffer."""
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
    cap_reason: str = COPY_REASON,
    share: Size | None = None,
) -> Iterator[ElementTile]:
    """Yield the one symbolic tile of a phase over all elements, at most a good copy of every tensor or `cap` elements.

    Shares of cores are multiples of `share` elements, or of a vector and a request to the memory.
    """
    *_, last = (t for t in k.tensors.values() if t is not None)
    total = math.prod(last.shape, start=ONE)
    most = copy_elements(k.dtype) if cap is None else Size.of(cap)
    unit = max(LANES, REQUEST_BYTES // dtypes.itemsize(k.dtype))
    tile = p.tile("elements", most, unit, cap_reason)
    for n in p.loop("x", total, tile, split="block", unit=unit if share is None else share):
        yield ElementTile(k, p, lambda tensor, n=n: tensor.reshape(total)[n], (n.size,), slots)  # type: ignore[misc]


def variant_of_one_shape(call: Call, _: Chip) -> str:
    """Return EMPTY for a call without elements, else ""."""
    return "" if call.dims.get("X", 1) else EMPTY


def _unless_empty(kernel: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
    """Return the kernel, which records nothing for the variant EMPTY."""

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
    """Return an operator whose tensors, blank-separated `inputs` first, all have one shape of any rank.

    Without `outputs` it has one output `y`. With `spread` the two inputs have shapes that broadcast to it, and `kernel`
    records the variant EMPTY too.
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
"""A function from the tiles of the inputs, in the dtypes of `computed_in`, to those of the outputs."""


def computed_in(dtype: str) -> str:
    """Return the dtype in which elements of `dtype` are computed: float32 for 16-bit floats, else `dtype`."""
    return "float32" if dtypes.is_short_float(dtype) else dtype


def elementwise(k: Kernel, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], body: Body) -> None:
    """Record a vector phase that applies `body` to the largest tiles of the inputs that fit.

    Cores share the elements evenly, in whole vector registers of float32.
    """
    total = math.prod(outputs[0].shape, start=ONE)
    with k.vector(name) as p:
        for t in p.loop("t", total, p.tile("elements", multiple_of=LANES), split=True, unit=LANES):
            views = [x.reshape(total)[t] for x in inputs]
            values = [load_as(p, v, computed_in(v.dtype), name=v.base.name) for v in views]
            for value, out in zip(body(p, values), outputs, strict=True):
                store_as(p, value, out.reshape(total)[t], name=f"{out.name}Out")


def cast(_: Phase, values: list[Value]) -> Sequence[Value]:
    """Return the values: the body that changes the dtype alone."""
    return values


def zeros(k: Kernel, name: str, outputs: Sequence[Tensor]) -> None:
    """Record a vector phase that fills [rows, width] tensors with zeros, row by row."""
    with k.vector(name) as p:
        for out in outputs:
            rows, width = out.shape
            zero = p.buffer(f"{out.name}Zero", width, out.dtype)
            for r in p.loop(out.name, rows, split=True):
                p.store(p.fill(0.0, out=zero), out[r.start])
