"""Composites: plain functions of instructions; bytes, cycles and values follow from the instructions alone."""

from __future__ import annotations

from tilesim.program.buffers import Range, Tensor, Value, View
from tilesim.program.recorder import Operand, Phase, Target
from tilesim.program.sizes import Size


def load_as(p: Phase, source: View | Tensor, dtype: str, *, name: str, slots: int = 2) -> Value:
    """Record a load, cast to `dtype` where the tensor has another: the copy goes to `<name>In`, the cast to `name`."""
    if source.dtype == dtype:
        return p.load(source, name=name, slots=slots)
    return p.cast(p.load(source, name=f"{name}In", slots=slots), dtype=dtype, name=name)


def store_as(p: Phase, value: Value, target: View, *, name: str, slots: int = 2) -> None:
    """Record a store, through a cast into `name` where the tensor has another dtype."""
    p.store(value if value.dtype == target.dtype else p.cast(value, dtype=target.dtype, name=name, slots=slots), target)


def one_minus(p: Phase, x: Operand, out: Target) -> Value:
    """Record 1 - x."""
    return p.adds(p.muls(x, -1.0, out=out), 1.0, out=out)


def sigmoid(p: Phase, x: Operand, out: Target) -> Value:
    """Record 1 / (1 + exp(-x)); exp overflows to infinity below -88 in float32, and 1/inf is the right 0."""
    e = p.exp(p.muls(x, -1.0, out=out), out=out)
    return p.rec(p.adds(e, 1.0, out=out), out=out)


def compensated_add(p: Phase, total: Value, lost: Value, addend: Value, work: Target) -> tuple[Value, Value]:
    """Record Kahan's sum, so that long sums do not drift, and return (total, lost); `addend` is overwritten."""
    y = p.sub(addend, lost, out=addend)
    grown = p.add(total, y, out=work)
    lost = p.sub(p.sub(grown, total, out=lost), y, out=lost)
    return p.move(grown, out=total), lost


class FixedOrderSum:
    """The sum of the partial sums of one row in order, with buffers partial (two slots), sum, compensation and work."""

    def __init__(self, p: Phase, suffix: str, width: Size) -> None:
        self.p = p
        self.partial = p.buffer(f"partial{suffix}", width, slots=2)
        self.sum, self.lost, self.work = (p.buffer(f"{name}{suffix}", width) for name in ("sum", "comp", "work"))

    def total(self, source: Tensor, row: Range) -> Value:
        """Record the sum over the first axis of source[:, row]."""
        p = self.p
        total, lost = p.fill(0.0, out=self.sum), p.fill(0.0, out=self.lost)
        for g in p.loop("g", source.shape[0], carry=(self.sum, self.lost)):
            partial = p.load(source[g.start, row.start], out=self.partial)
            total, lost = compensated_add(p, total, lost, partial, self.work)
        return total
