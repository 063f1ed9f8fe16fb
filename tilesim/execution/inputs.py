"""The inputs of a call: from a file, from arrays alone, or made up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


def load_inputs(path: str | Path, op: Operator | str, call: Call) -> dict[str, Array]:
    """The inputs of a call from a file or folder, in the call's dtypes, memory-mapped where they are stored as such.

    Raises BadInput with all problems at once: what cannot be read, names, shapes, dtypes and values that do not match.
    """
    operator = load_operator(op)
    extra = {t.name for t in operator.tensors if t.role != INPUT} | {a.name for a in operator.attributes}
    arrays = _by_own_names(operator, read_arrays(path))
    return conformed(call, {name: array for name, array in arrays.items() if name not in extra})


def given_from_arrays(op: Operator | str, arrays: Mapping[str, Array], dtype: str | None = None) -> dict[str, Any]:
    """What arrays say of a call, as `bind` takes it: shapes and dtypes, which options are there, attributes.

    Attributes are arrays of one number. Inputs that are not there are null where they belong to an option. 16-bit
    floats that come as float32 are of `dtype`; without it, of the first dtype of the operator that has all the values.
    """
    operator = load_operator(op)
    arrays = _by_own_names(operator, arrays)
    attributes = {a.name for a in operator.attributes} - operator.arguments.keys()
    names = [t for t in operator.tensors if t.role == INPUT and arrays.get(t.name) is not None]
    main = dtype_named(dtype) if dtype else _told(operator, [arrays[t.name] for t in names if not t.dtype])
    given: dict[str, Any] = {n: arrays[n].item() for n in attributes if n in arrays and np.size(arrays[n]) == 1}
    for t in names:
        given[t.name] = TensorSpec(arrays[t.name].shape, _spelled(arrays[t.name], t.dtype or main))
    for t in operator.tensors:
        if t.role == INPUT and t.option and t.name not in given:
            given[t.name] = None
    return given


def _by_own_names(op: Operator, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays with every tensor under its own name. Raises BadInput for two that are the same tensor."""
    problems: list[str] = []
    found = by_own_names(op, arrays, problems)
    if problems:
        raise BadInput(op.name, problems)
    return found


def _told(op: Operator, arrays: list[Array]) -> str:
    """The dtype that the arrays of the operator's own dtype can have."""
    known = list(dict.fromkeys([op.dtype, *(d for some in op.dtypes.values() for d in some)]))
    kinds = {array.dtype for array in arrays}
    for kind in known:
        if numpy_dtype(kind) in kinds or (kind == "bfloat16" and kinds & {np.dtype(np.uint16), np.dtype("V2")}):
            return kind
    return next((kind for kind in known if all(_holds(array, kind) for array in arrays)), op.dtype)


def _holds(array: Array, dtype: str) -> bool:
    try:
        in_dtype(np.asarray(array), dtype)
    except BadInput:
        return False
    return True


def _spelled(array: Array, dtype: str) -> str:
    """The dtype to state for an array: `dtype` where its elements may stand for that, else its own."""
    stands = array.dtype in (np.dtype(np.uint16), np.dtype("V2")) if dtype == "bfloat16" else False
    if stands or (array.dtype == np.float32 and itemsize(dtype) == 2 and is_float(dtype)):
        return dtype
    return next((name for name in DTYPES if numpy_dtype(name) == array.dtype), str(array.dtype))


def random_inputs(op: Operator | str, call: Call, seed: int = 0, *, chip: Chip) -> dict[str, Array]:
    """Inputs of a call that go together, from a seed: normal, weights divided by the root of what they sum over.

    What a backward needs saved comes from its forward, run on `chip` at the same inputs, or at others where it has none
    of them: the layout of what is saved may depend on the chip. Both have the same name, or the same in the vendor's
    interface.
    """
    operator = load_operator(op)
    if (number := whole_number(seed)) is None or number < 0:
        raise BadInput(operator.name, [f"seed is {seed!r}, must be a whole number of at least 0"])
    rng = np.random.default_rng(seed)
    wanted = [t for t in operator.tensors if t.role == INPUT and call.spec(t.name) is not None]
    forward = load_operator(operator.forward) if operator.forward else None
    results = {t.alias or t.name: t for t in forward.tensors if t.role != INPUT} if forward else {}
    saved = {t.name: results[t.alias or t.name] for t in wanted if (t.alias or t.name) in results}
    drawn = {t.name: np.asarray(_drawn(rng, t, call)) for t in wanted if t.name not in saved}
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
    shared |= {t.name: np.asarray(_drawn(rng, t, first)) for t in missing}
    outputs = run(plan_of(verdict_of(first, chip)), shared).outputs
    return {t.name: outputs[saved[t.name].name] if t.name in saved else drawn[t.name] for t in wanted}


def _drawn(rng: np.random.Generator, argument: Argument, call: Call) -> Array:
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
