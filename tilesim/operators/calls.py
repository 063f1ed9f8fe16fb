"""Calls made from other calls: other dims, other tensors, many sizes at once; and the sizes that a call leaves open."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilesim.chip.chip import Chip
from tilesim.operators.facts import Facts, axes_of, shape_of
from tilesim.operators.operator import Call, Operator
from tilesim.operators.patterns import Solution
from tilesim.operators.shapes import TensorSpec
from tilesim.program.sizes import Size, exact


def split_of(op: Operator, attributes: Mapping[str, int | float]) -> int | None:
    """Return the index of the axis between two folded runs; None for an operator without that attribute."""
    return int(attributes[op.split]) if op.split in attributes else None


def stated(op: Operator, attributes: Mapping[str, int | float]) -> Solution:
    """Return the sizes that the attributes alone give."""
    solution = Solution(split=split_of(op, attributes))
    for attribute in op.attributes:
        if attribute.dim and attribute.name in attributes:
            solution.bind(attribute.dim, int(attributes[attribute.name]))
    return solution


def learned(op: Operator, specs: Mapping[str, TensorSpec | None], into: Solution) -> Solution:
    """Return `into` with the sizes of the tensors; two passes, since one shape can give a size that another needs.

    Tensors that have the second of two adjacent runs alone come first: they give the number of its axes.
    """
    names, seconds = tuple(op.reading_order()), [(p.axes[1],) for p in op.patterns.values() if p.paired]
    for name in (*(n for n in names if op.patterns[n].axes in seconds), *names, *names):
        spec = specs.get(name)
        if spec is not None:
            op.patterns[name].learn(spec.shape, into)
    return into


def call_with(
    op: Operator,
    main: str,
    specs: Mapping[str, TensorSpec | None],
    options: Mapping[str, bool],
    attributes: Mapping[str, int | float],
) -> Call:
    """Return the call with these tensors; an option without tensors is on by `options` or default."""
    ordered = {name: specs[name] for name in op.arguments if name in specs}
    on = {}
    for o in op.options:
        members = [t.name for t in op.members(o.name) if t.name in specs]
        on[o.name] = all(specs[n] is not None for n in members) if members else options.get(o.name, o.default)
    return Call(op, main, ordered, on, attributes, learned(op, specs, stated(op, attributes)))


def resized(call: Call, changes: Mapping[str, int]) -> Call:
    """Return the call with other dims: every tensor that is not null takes the shape that they give."""
    op, old = call.operator, call.solution
    folds = {name: (changes[name],) if name in changes else axes for name, axes in old.folds.items()}
    new = Solution({**old.sizes, **changes}, folds, old.split)
    attributes = dict(call.attributes)
    for a in op.attributes:
        if a.dim in changes:
            attributes[a.name] = changes[a.dim]
    if op.split and folds:
        attributes[op.split] = new.split = -1 - len(list(folds.values())[-1])
    specs: dict[str, TensorSpec | None] = {}
    for name, spec in call.specs.items():
        shape = op.patterns[name].filled(new)
        specs[name] = spec if spec is None or shape is None else TensorSpec(shape, spec.dtype)
    return Call(op, call.dtype, specs, call.options, attributes, new)


def facts_of_sizes(call: Call, chip: Chip, sizes: Mapping[str, Any]) -> Facts:
    """Return the facts of calls with other dims, arrays of one shape: a condition is evaluated for all of them at once.

    Every tensor that is not null has the shape that these dims give, as of `resized`.
    """
    op = call.operator
    dims = {**call.dims, **sizes}
    folds = {name: (sizes[name],) if name in sizes else axes for name, axes in call.solution.folds.items()}
    facts = dict(call.facts(chip)) | dims | {axes_of(name).name: axes for name, axes in folds.items()}
    facts |= {a.name: sizes[a.dim] for a in op.attributes if a.dim in sizes}
    if op.split and folds:
        facts[op.split] = -1 - len(list(folds.values())[-1])
    for name, spec in call.specs.items():
        axes = op.patterns[name].axes
        known = all(a in folds if isinstance(a, str) else a.names() <= dims.keys() for a in axes)
        if spec is not None and known:
            parts = (folds[axis] if isinstance(axis, str) else (axis.bind(exact(dims, axis)),) for axis in axes)
            facts[shape_of(name).name] = tuple(itertools.chain(*parts))
    return Facts(facts, chip)


def size_of(call: Call, name: str) -> int | None:
    """Return the size [elements] of a dim, or of a product of dims such as D, in a call; None if it is unknown."""
    size, dims = call.operator.sizes[name], call.dims
    if size.names() <= dims.keys():
        return int(size.bind(dims))
    for tensor, spec in call.specs.items():
        axes = call.operator.patterns[tensor].axes
        if spec is not None and size in axes and len(axes) == len(spec.shape):
            return spec.shape[axes.index(size)]
    return None


def retensored(call: Call, tensors: Mapping[str, TensorSpec | None]) -> Call:
    """Return the call with other tensors in the place of some."""
    lead = tensors.get(call.operator.lead)
    return call_with(
        call.operator, lead.dtype if lead else call.dtype, {**call.specs, **tensors}, call.options, call.attributes
    )


PLACES = 2
"""The most tensors that a line names as places for a size."""


def unknown_sizes(call: Call) -> list[str]:
    """Return one line for every unknown dim; dims that follow from each other share a line.

    >>> from tilesim.operators.binding import bind
    >>> from tilesim.ops import load_operator
    >>> unknown_sizes(bind(load_operator("glu_backward"), {}))
    ['N is missing: give N=... or the shape of gradOut or self']
    """
    op, known = call.operator, set(call.dims)
    shaped = [axis for name, spec in call.specs.items() if spec is not None for axis in _axes(op, name)]
    lines = []
    for name in op.dimensions:
        if name in known:
            continue
        together = _with_what_follows({*known, name}, shaped) - known
        names = [n for n in op.dimensions if n in together]
        keys = [f"{n}=..." for n in (*names, *(a.name for a in op.attributes if a.dim in together))]
        places = [t for t in op.arguments if t not in call.specs and _gives(_axes(op, t), known, together, shaped)]
        give = ", ".join(keys) + (f" or the shape of {' or '.join(places[:PLACES])}" if places else "")
        lines.append(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing: give {_one_of(names)}{give}")
        known |= together
    return lines


def _one_of(names: list[str]) -> str:
    return "one of " if len(names) > 1 else ""


def _axes(op: Operator, tensor: str) -> list[frozenset[str]]:
    """Return the names in every axis of the declared shape of a tensor."""
    return [axis.names() if isinstance(axis, Size) else frozenset((axis,)) for axis in op.patterns[tensor].axes]


def _with_what_follows(known: set[str], shaped: Iterable[frozenset[str]]) -> set[str]:
    """Return `known` with every name that is the only unknown one of an axis of known length."""
    while solved := set(_solvable(shaped, known)):
        known = known | solved
    return known


def _solvable(axes: Iterable[frozenset[str]], known: set[str]) -> Iterator[str]:
    """Yield the unknown name of every axis that has exactly one."""
    for axis in axes:
        if len(unknown := axis - known) == 1:
            yield from unknown


def _gives(axes: Iterable[frozenset[str]], known: set[str], wanted: set[str], shaped: Iterable[frozenset[str]]) -> bool:
    """Return True if the shape of a tensor would give a wanted name, by an axis that no tensor of known shape has."""
    known_axes = set(shaped)
    return bool(wanted & set(_solvable((axis for axis in axes if axis not in known_axes), known)))


def nonempty_call(call: Call) -> Call:
    """Return the call with no dim below its least or, if the kernel computes, below 1."""
    least = {d.name: max(d.least, 1 if call.operator.has_instructions else 0) for d in call.operator.dims}
    changes = {name: least[name] for name, value in call.dims.items() if value < least[name]}
    return resized(call, changes) if changes else call
