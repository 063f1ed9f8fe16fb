"""Inputs of a call: from a file, from arrays, or random."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput
from tilesim.execution.run import conformed, run
from tilesim.execution.tensor_files import read_arrays
from tilesim.feasibility.verdict import verdict_of
from tilesim.operators.binding import bind, by_own_names
from tilesim.operators.calls import size_of
from tilesim.operators.operator import INPUT, Argument, Call, Operator
from tilesim.operators.shapes import TensorSpec, whole_number
from tilesim.ops import load_operator
from tilesim.planning.plan import plan_of
from tilesim.program.dtypes import DTYPES, FLOATS, dtype_named, in_dtype, is_float, itemsize, numpy_dtype, rounded

Array = Any

BFLOAT16_BITS: Final = frozenset({np.dtype(np.uint16), np.dtype("V2")})
"""Dtypes of arrays that hold the bits of bfloat16: uint16, and the void that numpy makes of it."""


def load_inputs(path: str | Path, op: Operator | str, call: Call) -> dict[str, Array]:
    """Return the inputs of a call from a file or folder, in the call's dtypes, memory-mapped where the dtype is stored.

    Raises BadInput with all problems at once: unreadable files, and names, shapes, dtypes and values that do not match.
    """
    operator = load_operator(op)
    extra = {t.name for t in operator.tensors if t.role != INPUT} | {a.name for a in operator.attributes}
    arrays = _by_name(operator, read_arrays(path))
    return conformed(call, {name: array for name, array in arrays.items() if name not in extra})


def given_from_arrays(op: Operator | str, arrays: Mapping[str, Array], dtype: str | None = None) -> dict[str, Any]:
    """Return the shapes, dtypes, options and attributes that arrays state of a call, as `bind` takes them.

    Attributes are arrays of one number. Missing inputs of an option are null. 16-bit floats in float32 arrays are of
    `dtype`; without it, of the first dtype of the operator that has all the values.
    """
    operator = load_operator(op)
    arrays = _by_name(operator, arrays)
    attributes = {a.name for a in operator.attributes} - operator.arguments.keys()
    names = [t for t in operator.tensors if t.role == INPUT and arrays.get(t.name) is not None]
    main = dtype_named(dtype) if dtype else _main_dtype(operator, [arrays[t.name] for t in names if not t.dtype])
    given: dict[str, Any] = {n: arrays[n].item() for n in attributes if n in arrays and np.size(arrays[n]) == 1}
    for t in names:
        given[t.name] = TensorSpec(arrays[t.name].shape, _stated_dtype(arrays[t.name], t.dtype or main))
    for t in operator.tensors:
        if t.role == INPUT and t.option and t.name not in given:
            given[t.name] = None
    return given


def _by_name(op: Operator, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by the operator's name of every tensor. Raises BadInput for two arrays of one tensor."""
    problems: list[str] = []
    by_name = by_own_names(op, arrays, problems)
    if problems:
        raise BadInput(op.name, problems)
    return by_name


def _main_dtype(op: Operator, arrays: list[Array]) -> str:
    """The first dtype of the operator that the arrays of its main dtype can have."""
    known = list(dict.fromkeys([op.dtype, *(d for dtypes in op.dtypes.values() for d in dtypes)]))
    kinds = {array.dtype for array in arrays}
    for kind in known:
        if numpy_dtype(kind) in kinds or (kind == "bfloat16" and kinds & BFLOAT16_BITS):
            return kind
    return next((kind for kind in known if all(_holds(array, kind) for array in arrays)), op.dtype)


def _holds(array: Array, dtype: str) -> bool:
    try:
        in_dtype(np.asarray(array), dtype)
    except BadInput:
        return False
    return True


def _stated_dtype(array: Array, dtype: str) -> str:
    """The dtype to state for an array: `dtype` where the array may hold its elements, else the array's own."""
    bits = dtype == "bfloat16" and array.dtype in BFLOAT16_BITS
    if bits or (array.dtype == np.float32 and itemsize(dtype) == 2 and is_float(dtype)):
        return dtype
    return next((name for name in DTYPES if numpy_dtype(name) == array.dtype), str(array.dtype))


def random_inputs(op: Operator | str, call: Call, seed: int = 0, *, chip: Chip) -> dict[str, Array]:
    """Return consistent random inputs of a call from a seed: normal values, weights over the root of their fan-in.

    Saved tensors of a backward are results of its forward, which runs on `chip` at the same inputs, or at inputs of its
    own where the two share none: the layout of saved tensors may depend on the chip. A saved tensor and its result have
    the same name, or the same one in the vendor's interface.
    """
    operator = load_operator(op)
    if (number := whole_number(seed)) is None or number < 0:
        raise BadInput(operator.name, [f"seed is {seed!r}, must be a whole number of at least 0"])
    rng = np.random.default_rng(seed)
    wanted = [t for t in operator.tensors if t.role == INPUT and call.spec(t.name) is not None]
    forward = load_operator(operator.forward) if operator.forward else None
    results = {t.alias or t.name: t for t in forward.tensors if t.role != INPUT} if forward else {}
    saved = {t.name: results[t.alias or t.name] for t in wanted if (t.alias or t.name) in results}
    drawn = {t.name: np.asarray(_draw(rng, t, call)) for t in wanted if t.name not in saved}
    if forward is None or not saved:
        return drawn
    inputs = [t for t in forward.tensors if t.role == INPUT]
    shared = {t.name: drawn[t.name] for t in inputs if t.name in drawn}
    missing = [t for t in inputs if not t.option and t.name not in shared]
    given: dict[str, Any] = {name: call.specs[name] for name in shared}
    given |= {t.name: None for t in inputs if t.option and t.name not in shared}
    given |= {t.option: True for t in saved.values() if t.option}
    given |= {a.name: call.attributes[a.name] for a in forward.attributes if a.name in call.attributes}
    given |= {name: size for name, size in call.dims.items() if missing and name in forward.dimensions}
    first = bind(forward, given, dtype=call.dtype)
    shared |= {t.name: np.asarray(_draw(rng, t, first)) for t in missing}
    outputs = run(plan_of(verdict_of(first, chip)), shared).outputs
    return {t.name: outputs[saved[t.name].name] if t.name in saved else drawn[t.name] for t in wanted}


def _draw(rng: np.random.Generator, argument: Argument, call: Call) -> Array:
    spec = call.specs[argument.name]
    if spec is None:
        raise BadInput(argument.name, ["is null"])
    if spec.dtype == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if spec.dtype not in FLOATS:
        return rng.integers(0, 100, spec.shape).astype(numpy_dtype(spec.dtype))
    sizes = call.operator.sizes
    fan_in = int(sizes[argument.fan_in].bind(call.dims)) if argument.fan_in else 1
    values = rng.standard_normal(spec.shape) / math.sqrt(fan_in)
    values = np.abs(values) if argument.positive else values
    return values if spec.dtype == "float64" else rounded(values.astype(np.float32), spec.dtype)


def agreed(
    op: Operator | str, arrays: Mapping[str, Any], stated: Mapping[str, Any], dtype: str | None = None
) -> dict[str, Any]:
    """Return a call as `bind` takes it from arrays and from what a caller states, which is as `parse` returns it.

    The arrays of inputs give shapes, dtypes and options with tensors; `stated` adds the others. Raises BadInput, with
    all problems at once, where the two contradict each other.
    """
    operator = load_operator(op)
    inputs = [t.name for t in operator.tensors if t.role == INPUT]
    specs = {n: v for n, v in stated.items() if n in inputs and not isinstance(v, bool)}
    options = {o.name for o in operator.options if any(t.name in inputs for t in operator.members(o.name))}
    chosen = {n: on for n, on in stated.items() if n in options and isinstance(on, bool)}
    numbers = {n: v for n, v in stated.items() if n not in specs and n not in chosen}

    dtypes = {n: v.dtype for n, v in specs.items() if isinstance(v, TensorSpec)}
    main_dtypes = [kind for n, kind in dtypes.items() if not operator.arguments[n].dtype]
    main = dtype_named(dtype) if dtype else next(iter(main_dtypes), None)
    given = given_from_arrays(operator, arrays, main)
    tensors = {n: spec for n, spec in given.items() if isinstance(spec, TensorSpec)}
    wanted = {n: dtypes.get(n) or operator.arguments[n].dtype or main for n in tensors}
    problems = [
        *_other_shapes(tensors, specs),
        *_other_dtypes(tensors, wanted),
        *_other_options(operator, tensors, chosen),
        *_other_numbers(given, numbers),
    ]
    sizes = {a.name: a.dim for a in operator.attributes if a.dim} | {n: n for n in operator.sizes}
    call = bind(operator, {**given, **{n: v for n, v in numbers.items() if n not in sizes}})
    for name in [n for n in numbers if n in sizes]:
        size = size_of(call, sizes[name])
        if size is not None and size != numbers[name] and name not in given:
            problems.append(f"{name} is {size}, must be {numbers[name]}")
        if size is not None:
            del numbers[name]
    if problems:
        raise BadInput(operator.name, problems)
    return {**given, **numbers}


def _other_shapes(tensors: Mapping[str, TensorSpec], stated: Mapping[str, Any]) -> Iterator[str]:
    """Tensors that are stated and missing, stated as null and given, or of another shape than stated."""
    for name, value in stated.items():
        shape = None if value is None else tuple(getattr(value, "shape", value))
        if shape is None and name in tensors:
            yield f"{name} is given, must be null"
        elif shape is not None and name not in tensors:
            yield f"{name} is missing, {list(shape)} is needed"
        elif shape is not None and shape != tensors[name].shape:
            yield f"{name} has shape {list(tensors[name].shape)}, must be {list(shape)}"


def _other_dtypes(tensors: Mapping[str, TensorSpec], wanted: Mapping[str, str | None]) -> Iterator[str]:
    """Tensors of another dtype than stated, those of equal dtypes together."""
    names_of: dict[tuple[str, str], list[str]] = {}
    for name, spec in tensors.items():
        dtype = wanted[name]
        if dtype is not None and dtype != spec.dtype:
            names_of.setdefault((spec.dtype, dtype), []).append(name)
    for (given, dtype), names in names_of.items():
        yield f"{_are(names)} {given}, must be {dtype}"


def _other_options(op: Operator, tensors: Mapping[str, TensorSpec], stated: Mapping[str, bool]) -> Iterator[str]:
    """Options whose tensors contradict the stated option."""
    for option, on in stated.items():
        inputs = [t.name for t in op.members(option) if t.role == INPUT]
        if wrong := [name for name in inputs if (name in tensors) != on]:
            yield f"{_are(wrong)} {'missing' if on else 'given'}, but the option {option} is {str(on).lower()}"


def _other_numbers(given: Mapping[str, Any], stated: Mapping[str, Any]) -> Iterator[str]:
    """Attributes whose array of one number differs from the stated number."""
    for name in [n for n in stated if isinstance(given.get(n), int | float)]:
        if not math.isclose(given[name], stated[name], rel_tol=1e-6):  # a file may have it in float32
            yield f"{name} is {given[name]}, must be {stated[name]}"


def _are(names: list[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
