"""A plan executed in numpy, tile by tile in the chip's memories: the operator's outputs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilesim.arguments import checked
from tilesim.errors import BadInput, did_you_mean
from tilesim.execution.interpreter import PhaseJob, Progress, execute
from tilesim.feasibility.verdict import refusal
from tilesim.operators.binding import by_own_names
from tilesim.operators.operator import INPUT, Call
from tilesim.operators.shapes import whole_number
from tilesim.planning.plan import Plan
from tilesim.program.dtypes import in_dtype, numpy_dtype
from tilesim.simulation.timeline import Timeline, timeline_of

Array = Any


@dataclass(frozen=True, eq=False)
class Run:
    """An execution of a plan: `outputs` by their documents' names, in the operator's dtypes and shapes."""

    plan: Plan
    outputs: Mapping[str, Array]

    @functools.cached_property
    def timeline(self) -> Timeline:
        """The time that the plan takes on the chip; it does not depend on values."""
        return timeline_of(self.plan)


@checked
def run(
    plan: Plan,
    inputs: Mapping[str, Array],
    *,
    outputs: Mapping[str, Array] | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Run:
    """Return the outputs of a plan for `inputs`, which map the documents' names to arrays of any strides.

    `outputs` may give arrays to overwrite, of any strides under which no two elements overlap; new arrays hold the
    others. Arrays without gaps, memory-mapped files among them, are read and written in place, tile by tile. Values may
    come in the forms that `dtypes.in_dtype` takes. `threads` cores of the chip run at once; results do not depend on
    the number.

    Raises BadInput with all problems at once for arrays that do not match the call, and DoesNotFit for a plan that
    overflows its memories although the vendor launches it.
    """
    if plan.verdict.failing:
        raise refusal(plan.verdict)
    problems: list[str] = []
    count = whole_number(threads)
    if count is None:
        problems.append(f"threads is {threads!r}, must be a whole number")
    elif count < 1:
        problems.append(f"threads is {threads}, must be at least 1")
    given = _conformed(plan.call, inputs, problems)
    wanted = _writable(plan, {} if outputs is None else outputs, problems)
    if problems:
        raise BadInput(plan.operator.name, problems)
    arrays: dict[str, Array] = {}
    for name, array in given.items():
        arrays[name] = _in_kernel_shape(plan, name, np.ascontiguousarray(array))
    results = {name: _target(wanted.get(name), plan, name, given.values()) for name in _written(plan)}
    for name, array in results.items():
        arrays[name] = _in_kernel_shape(plan, name, array)
    for name, tensor in plan.kernel.workspaces.items():
        arrays[name] = _blank([int(s.bind(plan.sizes)) for s in tensor.shape], tensor.dtype)
    execute([PhaseJob.of(phase) for phase in plan.phases], arrays, threads=threads, progress=progress)
    for name, array in wanted.items():
        if array is not results[name]:
            array[...] = results[name]
    return Run(plan, {**results, **wanted})


def conformed(call: Call, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a call in its dtypes, checked against it. Raises BadInput with all problems."""
    problems: list[str] = []
    arrays = _conformed(call, inputs, problems)
    if problems:
        raise BadInput(call.operator.name, problems)
    return arrays


def _conformed(call: Call, inputs: Mapping[str, Array], problems: list[str]) -> dict[str, Array]:
    inputs = by_own_names(call.operator, inputs, problems)
    names = [t.name for t in call.operator.tensors if t.role == INPUT]
    expected = {name: call.specs[name] for name in names if call.spec(name) is not None}
    arrays: dict[str, Array] = {}
    for name in inputs:
        if name in names and name not in expected and inputs[name] is not None:
            option = call.operator.arguments[name].option
            problems.append(f"{name} is given, but the call has none: {option} is off")
        elif name not in names:
            hint = did_you_mean(name, expected) or f" there are: {', '.join(expected)}"
            problems.append(f"{name!r} is not an input;{hint}")
    for name, spec in expected.items():
        array = inputs.get(name)
        if array is None:
            problems.append(f"{name} is missing, {spec} is needed")
        elif spec is not None:
            _keep(name, array, spec.shape, spec.dtype, arrays, problems)
    return arrays


def _keep(
    name: str, array: Array, shape: tuple[int, ...], dtype: str, into: dict[str, Array], problems: list[str]
) -> None:
    """Put an array into `into` in its dtype, as a plain array of the same memory, or add its problems."""
    if not isinstance(array, np.ndarray):
        problems.append(f"{name} is a {type(array).__name__}, must be a numpy array")
        return
    if array.shape != shape:
        problems.append(f"{name} has shape {list(array.shape)}, must be {list(shape)}")
    try:
        into[name] = in_dtype(np.asarray(array), dtype)
    except BadInput as error:
        problems += [f"{name} {problem}" for problem in error.problems]


def _written(plan: Plan) -> list[str]:
    """Names of the tensors that the kernel writes."""
    return [name for name, t in plan.kernel.tensors.items() if t is not None and t.role != INPUT]


def _writable(plan: Plan, outputs: Mapping[str, Array], problems: list[str]) -> dict[str, Array]:
    """The arrays that the caller gives for outputs, in the dtypes of the call."""
    op, names = plan.operator, _written(plan)
    arrays: dict[str, Array] = {}
    for name in names:
        spec, tensor = plan.call.spec(name), plan.kernel[name]
        if spec is not None and spec.dtype != tensor.dtype:
            problems.append(f"{name} is {spec.dtype}; the kernel writes {tensor.dtype} only")
    for name, array in by_own_names(op, outputs, problems).items():
        spec = plan.call.spec(name)
        if name not in names or spec is None:
            hint = did_you_mean(name, names) or f" there are: {', '.join(names)}"
            problems.append(f"{name!r} is not an output;{hint}")
            continue
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            problems.append(f"{name} is read-only")
        if isinstance(array, np.ndarray) and _overlaps_itself(array):
            problems.append(f"{name} has strides of {list(array.strides)} B, under which its elements share memory")
        if isinstance(array, np.ndarray) and array.dtype == np.float32 != numpy_dtype(spec.dtype):
            problems.append(f"{name} is float32, must be {spec.dtype}")
        else:
            _keep(name, array, spec.shape, spec.dtype, arrays, problems)
    for a, b in itertools.combinations(arrays, 2):
        if np.may_share_memory(arrays[a], arrays[b]):
            problems.append(f"{a} and {b} share memory")
    return arrays


def _overlaps_itself(array: Array) -> bool:
    """Return True if two elements of an array share a byte, as those of a broadcast array do."""
    axes = sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)
    reach, apart = array.itemsize, True
    for stride, size in axes:
        apart = apart and stride >= reach
        reach += stride * (size - 1)
    if apart or not array.size:
        return False
    if any(stride < array.itemsize for stride, _ in axes) or array.size * array.itemsize > reach:
        return True
    places = np.zeros((), np.int64)  # strides that are not multiples of each other may still avoid each other
    for stride, size in axes:
        places = np.add.outer(places, np.arange(size) * stride)
    return bool((np.diff(np.sort(places, axis=None)) < array.itemsize).any())


def _target(wanted: Array | None, plan: Plan, name: str, inputs: Iterable[Array]) -> Array:
    """The array that the execution writes: the caller's if it has no gaps and no memory of an input, else a new one."""
    spec = plan.call.spec(name)
    shape = spec.shape if spec is not None else ()
    if wanted is None or not wanted.flags.c_contiguous or any(np.may_share_memory(wanted, x) for x in inputs):
        return _blank(shape, plan.kernel[name].dtype)
    return wanted


def _blank(shape: Iterable[int], dtype: str) -> Array:
    """An array of NaN, so that an element that nothing writes shows."""
    kind, sizes = numpy_dtype(dtype), tuple(shape)
    return np.full(math.prod(sizes) * kind.itemsize, 0xFF, dtype=np.uint8).view(kind).reshape(sizes)


def _in_kernel_shape(plan: Plan, name: str, array: Array) -> Array:
    return array.reshape([int(size.bind(plan.sizes)) for size in plan.kernel[name].shape])
