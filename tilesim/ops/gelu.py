"""Gaussian error linear unit, x * Phi(x): exact, or with `approximate=tanh` the tanh form.

The tanh form is x / (1 + e^-2u) with u = sqrt(2/pi) * (x + 0.044715 x^3). The exact form uses the complement of the
error function of |x|/sqrt(2), polynomial 7.1.26 of Abramowitz and Stegun (error 1.5e-7), so that no digits cancel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilesim.kernels import ElementTile, Kernel, Value, flat_tiles, pointwise
from tilesim.operators import KernelCall, KernelRow, Option, Sample, Unmapped, call_of_shapes

SLOPE = 0.3275911 / math.sqrt(2)
POLYNOMIAL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Coefficients of powers of t = 1 / (1 + 0.3275911 z), highest power first."""


def tanh_form(t: ElementTile, x: Value) -> Value:
    """x / (1 + e^-2u)."""
    p, y = t.phase, t.room("y")
    cubed = p.muls(p.mul(p.mul(x, x, out=y), x, out=y), 0.044715, out=y)
    u = p.muls(p.add(cubed, x, out=y), -2 * math.sqrt(2 / math.pi), out=y)
    return p.div(x, p.adds(p.exp(u, out=y), 1.0, out=y), out=y)


def exact_form(t: ElementTile, x: Value) -> Value:
    """max(x, 0) - |x|/2 * erfc(|x|/sqrt(2))."""
    p, y = t.phase, t.room("y")
    size, ratio = p.abs(x, out=t.buffer("size")), t.buffer("ratio")
    inverse = p.rec(p.adds(p.muls(size, SLOPE, out=ratio), 1.0, out=ratio), out=ratio)
    total = p.muls(inverse, POLYNOMIAL[0] / 2, out=y)
    for coefficient in POLYNOMIAL[1:]:
        total = p.mul(p.adds(total, coefficient / 2, out=y), inverse, out=y)
    total = p.mul(total, size, out=y)
    square = p.muls(p.mul(size, size, out=size), -0.5, out=size)
    total = p.mul(total, p.exp(square, out=size), out=y)
    return p.sub(p.maxs(x, 0.0, out=size), total, out=y)


def kernel(k: Kernel) -> None:
    """Record the phase."""
    with k.vector("gelu") as p:
        for t in flat_tiles(k, p):
            form = tanh_form if k.options["approximate"] else exact_form
            t.store(form(t, t.load("x")), "y")


OPTIONS = (Option("approximate", default=False, words=("none", "tanh")),)
SAME_TIME = "predicted with the tanh form, whose time the library's kernel takes for both"


def kernel_call(row: KernelRow) -> KernelCall:
    """Return the call of a measured kernel in the tanh form, whose time the library's kernel takes for both forms."""
    if row.variant.get("fused") == "false":
        raise Unmapped("the vector instructions go through memory; the model fuses them on this chip")
    call = call_of_shapes(gelu, row)
    form = str(row.attributes.get("approximate")).lower()
    if row.variant or form == "tanh":
        return call
    return replace(call, note=f"{'approximate=none' if form == 'none' else 'form not stated'}, {SAME_TIME}")


def sample_variant(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tile of a published sample, and `fused=false` without fusion, from the notes of its record."""
    notes = str(record.get("notes") or "")
    tile = re.search(r"tile (\d+)", notes.lower())
    elements = {"elements": int(tile.group(1))} if tile else {}
    return elements | ({"fused": "false"} if "未使能" in notes else {})


gelu = pointwise(
    "gelu",
    kernel,
    about="Gaussian error linear unit",
    inputs="x",
    options=OPTIONS,
    kernel_names=("Gelu", "GeluV2"),
    accuracy_class="elementwise",
    measured_options={"approximate": True},
    kernel_call=kernel_call,
    sample=Sample("Gelu", sample_variant),
)
