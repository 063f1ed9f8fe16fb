"""Random calls of an operator: legal, nearly legal and broken ones, by changes to small legal calls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tests.sample_calls import choices, kinds
from tilesim.operators.binding import bind
from tilesim.operators.calls import call_with, resized
from tilesim.operators.operator import Call, Operator
from tilesim.operators.shapes import TensorSpec

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "bool")
SIZES = (-(2**62), -1, 0, 1, 2, 3, 15, 16, 17, 100, 4096, 6144, 2**19, 2**24, 2**31, 2**40, 2**62, 2**63 - 1, 2**63)
"""Sizes at which rules change their minds."""


def random_calls(op: Operator, count: int, seed: int) -> Iterator[Call]:
    """Yield random calls, each one to four changes away from a legal call."""
    choose = random.Random(seed)
    legal = [bind(op, given | options) for given in kinds(op) for options in choices(op)]
    for _ in range(count):
        call = choose.choice(legal)
        for _ in range(choose.choice((0, 1, 1, 1, 2, 2, 4))):
            call = changed(call, choose)
        yield call


def changed(call: Call, choose: random.Random) -> Call:
    """Return the call with one change: a dim, an attribute, or a tensor that is missing, null or of other axes."""
    op = call.operator
    kind = choose.choice(("dim", "dim", "attribute", "tensor", "tensor", "tensor"))
    if kind == "dim" and call.dims:
        return resized(call, {choose.choice(list(call.dims)): _size(choose)})
    if kind == "attribute" and op.attributes:
        name = choose.choice(op.attributes).name
        return call_with(op, call.dtype, call.specs, call.options, {**call.attributes, name: choose.randint(-9, 9)})
    specs = dict(call.specs)
    name = choose.choice(list(op.arguments))
    spec = specs.get(name)
    if spec is None:
        specs[name] = TensorSpec(tuple(_size(choose) for _ in range(choose.randint(0, 4))), choose.choice(DTYPES))
    else:
        other = _axes(spec.shape, choose)
        changes = [None, "missing", replace(spec, dtype=choose.choice(DTYPES)), *[replace(spec, shape=other)] * 3]
        specs[name] = choose.choice(changes)
        if specs[name] == "missing":
            del specs[name]
    lead = specs.get(op.lead)
    return call_with(op, lead.dtype if lead else call.dtype, specs, call.options, call.attributes)


def _size(choose: random.Random) -> int:
    return choose.choice((choose.choice(SIZES), choose.randint(0, 40), 16 * choose.randint(1, 500)))


def _axes(shape: tuple[int, ...], choose: random.Random) -> tuple[int, ...]:
    axes = list(shape)
    kind = choose.choice(("size", "size", "longer", "shorter", "many"))
    if kind == "size" and axes:
        axes[choose.randrange(len(axes))] = _size(choose)
    elif kind == "shorter" and axes:
        axes.pop(choose.randrange(len(axes)))
    else:
        axes += [_size(choose) if choose.random() < 0.5 else 1 for _ in range(9 if kind == "many" else 1)]
    return tuple(axes)
