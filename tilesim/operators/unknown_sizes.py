"""The sizes that a call lacks, and what would tell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilesim.operators.operator import Call, Operator
from tilesim.program.sizes import Size

PLACES = 2
"""As many tensors are named as places for a size."""


def unknown_sizes(call: Call) -> list[str]:
    """One line for every dim that nothing tells; dims that follow from each other are one line.

    >>> from tilesim.operators.binding import bind
    >>> from tilesim.ops import load_operator
    >>> unknown_sizes(bind(load_operator("glu_backward"), {}))
    ['N is missing: give N=... or the shape of gradOut or self']
    """
    op, known = call.operator, set(call.dims)
    shaped = [axis for name, spec in call.specs.items() if spec is not None for axis in _axes(op, name)]
    found = []
    for name in op.dimensions:
        if name in known:
            continue
        together = _with_what_follows({*known, name}, shaped) - known
        names = [n for n in op.dimensions if n in together]
        keys = [f"{n}=..." for n in (*names, *(a.name for a in op.attributes if a.dim in together))]
        places = [t for t in op.arguments if t not in call.specs and _tells(_axes(op, t), known, together, shaped)]
        give = ", ".join(keys) + (f" or the shape of {' or '.join(places[:PLACES])}" if places else "")
        found.append(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing: give {_one_of(names)}{give}")
        known |= together
    return found


def _one_of(names: list[str]) -> str:
    return "one of " if len(names) > 1 else ""


def _axes(op: Operator, tensor: str) -> list[frozenset[str]]:
    """The names in every axis of the declared shape of a tensor."""
    return [axis.names() if isinstance(axis, Size) else frozenset((axis,)) for axis in op.patterns[tensor].axes]


def _with_what_follows(known: set[str], shaped: Iterable[frozenset[str]]) -> set[str]:
    """`known` with every name that is the only unknown one of an axis whose length is known."""
    while alone := set(_alone(shaped, known)):
        known = known | alone
    return known


def _alone(axes: Iterable[frozenset[str]], known: set[str]) -> Iterator[str]:
    """The only unknown name of every axis that has one."""
    for axis in axes:
        if len(unknown := axis - known) == 1:
            yield from unknown


def _tells(axes: Iterable[frozenset[str]], known: set[str], wanted: set[str], shaped: Iterable[frozenset[str]]) -> bool:
    """Whether a tensor with these axes would tell a name that is wanted, by an axis that no other tensor has told."""
    told = set(shaped)
    return bool(wanted & set(_alone((axis for axis in axes if axis not in told), known)))
