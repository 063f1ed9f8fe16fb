"""Elementwise kernels: one phase over the flat elements of tensors of one shape, given what happens to a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilesim.kernels.composites import load_as, store_as
from tilesim.program.buffers import Tensor, Value
from tilesim.program.recorder import Kernel, Phase
from tilesim.program.sizes import ONE

Body = Callable[[Phase, list[Value]], Sequence[Value]]
"""From the tiles of the inputs, in the dtype that is computed in, to those of the outputs."""

LANES = 64
"""Cores share elements out in units of it: a vector register of float32."""


def computed_in(dtype: str) -> str:
    """The dtype in which elements of `dtype` are computed: float32 for the 16-bit floats, else their own."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def elementwise(k: Kernel, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], body: Body) -> None:
    """Record a vector phase that applies `body` to tiles of the inputs, as large as fit, split evenly over cores."""
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
