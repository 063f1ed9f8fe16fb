"""One call from what arrays say of it and what a caller says beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tilesim.errors import BadInput
from tilesim.execution.inputs import given_from_arrays
from tilesim.operators.binding import bind, size_of
from tilesim.operators.operator import INPUT, Operator
from tilesim.operators.shapes import TensorSpec
from tilesim.ops import load_operator
from tilesim.program.dtypes import dtype_named


def agreed(
    op: Operator | str, arrays: Mapping[str, Any], asked: Mapping[str, Any], dtype: str | None = None
) -> dict[str, Any]:
    """What arrays and a caller say of a call together, as `bind` takes it; `asked` is as `parse` returns it.

    The arrays of inputs tell shapes, dtypes and which options with tensors are on; what is asked adds what they leave
    open. Raises BadInput, with all problems at once, where the two contradict each other.
    """
    operator = load_operator(op)
    inputs = [t.name for t in operator.tensors if t.role == INPUT]
    specs = {n: v for n, v in asked.items() if n in inputs and not isinstance(v, bool)}
    options = {o.name for o in operator.options if any(t.name in inputs for t in operator.members(o.name))}
    chosen = {n: on for n, on in asked.items() if n in options and isinstance(on, bool)}
    rest = {n: v for n, v in asked.items() if n not in specs and n not in chosen}

    dtypes = {n: v.dtype for n, v in specs.items() if isinstance(v, TensorSpec)}
    own = [kind for n, kind in dtypes.items() if not operator.arguments[n].dtype]
    main = dtype_named(dtype) if dtype else next(iter(own), None)
    told = given_from_arrays(operator, arrays, main)
    there = {n: spec for n, spec in told.items() if isinstance(spec, TensorSpec)}
    wanted = {n: dtypes.get(n) or operator.arguments[n].dtype or main for n in there}
    problems = [
        *_other_shapes(there, specs),
        *_other_dtypes(there, wanted),
        *_other_options(operator, there, chosen),
        *_other_numbers(told, rest),
    ]
    sizes = {a.name: a.dim for a in operator.attributes if a.dim} | {n: n for n in operator.sizes}
    call = bind(operator, {**told, **{n: v for n, v in rest.items() if n not in sizes}})
    for name in [n for n in rest if n in sizes]:
        size = size_of(call, sizes[name])
        if size is not None and size != rest[name] and name not in told:
            problems.append(f"{name} is {size}, must be {rest[name]}")
        if size is not None:
            del rest[name]
    if problems:
        raise BadInput(operator.name, problems)
    return {**told, **rest}


def _other_shapes(there: Mapping[str, TensorSpec], asked: Mapping[str, Any]) -> Iterator[str]:
    """Tensors that are there or not, or of another shape, against what is asked."""
    for name, value in asked.items():
        shape = None if value is None else tuple(getattr(value, "shape", value))
        if shape is None and name in there:
            yield f"{name} is given, must be null"
        elif shape is not None and name not in there:
            yield f"{name} is missing, {list(shape)} is needed"
        elif shape is not None and shape != there[name].shape:
            yield f"{name} has shape {list(there[name].shape)}, must be {list(shape)}"


def _other_dtypes(there: Mapping[str, TensorSpec], wanted: Mapping[str, str | None]) -> Iterator[str]:
    """Tensors of another dtype than is asked, those of one dtype together."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, spec in there.items():
        dtype = wanted[name]
        if dtype is not None and dtype != spec.dtype:
            found.setdefault((spec.dtype, dtype), []).append(name)
    for (given, dtype), names in found.items():
        yield f"{_are(names)} {given}, must be {dtype}"


def _other_options(op: Operator, there: Mapping[str, TensorSpec], asked: Mapping[str, bool]) -> Iterator[str]:
    """Options of which the tensors are not as the option is asked to be."""
    for option, on in asked.items():
        inputs = [t.name for t in op.members(option) if t.role == INPUT]
        if wrong := [name for name in inputs if (name in there) != on]:
            yield f"{_are(wrong)} {'missing' if on else 'given'}, but the option {option} is {str(on).lower()}"


def _other_numbers(told: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Attributes that are given as arrays of one number, and as another number."""
    for name in [n for n in asked if isinstance(told.get(n), int | float)]:
        if not math.isclose(told[name], asked[name], rel_tol=1e-6):  # a file may have it in float32
            yield f"{name} is {told[name]}, must be {asked[name]}"


def _are(names: list[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
