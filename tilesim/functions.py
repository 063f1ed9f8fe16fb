"""Composites: plain functions of instructions, with no bytes, cycles or meaning of their own that could drift."""

from __future__ import annotations

from tilesim.program import Operand, Phase, Target
from tilesim.views import Tensor, Value, View


def load_as(p: Phase, source: View | Tensor, dtype: str, *, name: str, slots: int = 2) -> Value:
    """A load, cast to `dtype` where the tensor has another: the copy lands in `<name>In`, the cast in `name`."""
    if source.dtype == dtype:
        return p.load(source, name=name, slots=slots)
    return p.cast(p.load(source, name=f"{name}In", slots=slots), dtype=dtype, name=name)


def store_as(p: Phase, value: Value, target: View, *, name: str, slots: int = 2) -> None:
    """Record a store, through a cast into `name` where the tensor has another dtype."""
    p.store(value if value.dtype == target.dtype else p.cast(value, dtype=target.dtype, name=name, slots=slots), target)


def one_minus(p: Phase, x: Operand, out: Target) -> Value:
    """1 - x."""
    return p.adds(p.muls(x, -1.0, out=out), 1.0, out=out)


def sigmoid(p: Phase, x: Operand, out: Target) -> Value:
    """1 / (1 + exp(-x)); exp overflows to infinity below -88 in float32, and 1/inf is the right 0."""
    e = p.exp(p.muls(x, -1.0, out=out), out=out)
    return p.rec(p.adds(e, 1.0, out=out), out=out)


def compensated_add(p: Phase, total: Value, lost: Value, addend: Value, work: Target) -> tuple[Value, Value]:
    """(total, lost) after adding `addend`, which is overwritten: Kahan's sum, so that long sums do not drift."""
    y = p.sub(addend, lost, out=addend)
    grown = p.add(total, y, out=work)
    lost = p.sub(p.sub(grown, total, out=lost), y, out=lost)
    return p.move(grown, out=total), lost
