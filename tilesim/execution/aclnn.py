"""The vendor's two calls of an operator: the first checks and returns the bytes of workspace, the second computes.

    status, workspace_size, executor = get_workspace_size("aclnnGluBackward", grad_out, x, -1, out, chip="ascend950pr")
    status = executor.run(np.empty(workspace_size, np.uint8))

Parameters have the vendor's names and order: inputs, attributes, outputs. A tensor is a numpy array, or a TensorSpec
for the checks alone; None is a null pointer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, did_you_mean
from tilesim.execution.run import run
from tilesim.feasibility.verdict import Verdict, refusal, verdict_of
from tilesim.operators.binding import bind
from tilesim.operators.operator import INPUT, Operator
from tilesim.operators.shapes import TensorSpec
from tilesim.operators.status import INNER, PARAM_INVALID, PARAM_NULLPTR, SUCCESS, Status
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import Plan, plan_of

FIRST_CALL = "GetWorkspaceSize"
"""Ending of the name of the first call."""


class Returned(Status):
    """The status of a call, equal to the plain Status, with a `message` that gives the reason, "" for a success."""

    message: str
    parameter: str
    """The vendor's name of the parameter that the message is about, "" if it is about none."""
    verdict: Verdict | None
    """The verdict of the first call, with all broken rules."""

    @classmethod
    def of(cls, status: Status, message: str = "", parameter: str = "", verdict: Verdict | None = None) -> Self:
        """Return a status with its message, parameter and verdict."""
        returned = cls(*status)
        returned.message, returned.parameter, returned.verdict = message, parameter, verdict
        return returned

    @property
    def ok(self) -> bool:
        """True if the status is ACLNN_SUCCESS."""
        return self == SUCCESS

    def __str__(self) -> str:
        """The name, the code and the message."""
        return f"{self.name} ({self.code})" + (f": {self.message}" if self.message else "")


@dataclass(frozen=True, eq=False)
class Executor:
    """A prepared call. Inputs are read and outputs are written when it runs, which it can do any number of times."""

    plan: Plan
    tensors: Mapping[str, Any]
    """Array, TensorSpec or None of every tensor, by the operator's name of it."""

    @property
    def workspace_size(self) -> int:
        """Bytes of workspace that the call takes."""
        return self.plan.workspace_bytes

    @checked
    def run(self, workspace: Any = None, *, threads: int = 1) -> Returned:
        """Return the status of the second call: ACLNN_SUCCESS with every output written, ACLNN_ERR_INNER with none.

        `workspace` is any buffer of at least `workspace_size` bytes, or None if that is 0. Raises BadInput for a
        workspace that is not a buffer, for a TensorSpec in place of an array, and for outputs that are read-only, share
        memory with each other or have elements that share memory.
        """
        described = [name for name, value in self.tensors.items() if isinstance(value, TensorSpec)]
        if described:
            names = ", ".join(_vendor_name(self.plan.operator, name) for name in described)
            raise BadInput(self.plan.operator.api, [f"{names} described without values; run needs numpy arrays"])
        size = _bytes_of(workspace)
        if size is None and self.workspace_size:
            return Returned.of(INNER, f"workspace: expected {self.workspace_size} B, given null", "workspace")
        if size is not None and size < self.workspace_size:
            return Returned.of(INNER, f"workspace: expected {self.workspace_size} B, given {size} B", "workspace")
        if self.plan.verdict.failing:  # the first call of the convolution accepts a call that does not fit
            return Returned.of(INNER, self.plan.verdict.culprit)
        for name, expected in self._outputs():
            given = self.tensors[name].shape
            if given != expected:  # the first call of the convolution does not check its outputs
                parameter = _vendor_name(self.plan.operator, name)
                return Returned.of(INNER, f"{parameter}: expected {list(expected)}, given {list(given)}", parameter)
        given = {name: value for name, value in self.tensors.items() if value is not None}
        inputs = {name: value for name, value in given.items() if self.plan.operator.arguments[name].role == INPUT}
        run(self.plan, inputs, outputs={n: v for n, v in given.items() if n not in inputs}, threads=threads)
        return Returned.of(SUCCESS)

    def _outputs(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (name, shape) of every output that is given."""
        call = self.plan.call
        names = [t.name for t in call.operator.tensors if t.role != INPUT and self.tensors[t.name] is not None]
        return [(name, shape) for name in names if (shape := call.expected(name)) is not None]


@checked
def get_workspace_size(
    api: str, /, *parameters: Any, chip: Chip | str | Path, **named: Any
) -> tuple[Returned, int, Executor | None]:
    """Return (status, bytes of workspace, executor) of the first call of `api`; 0 and None without a success.

    `api` is the vendor's name, such as "aclnnGluBackward", with or without "GetWorkspaceSize". Checks run in the
    vendor's order. An optional tensor may be left out. A tensor with gaps is accepted where the
    document accepts it; elsewhere the status is ACLNN_ERR_PARAM_INVALID, as for a format (the document names none).

    Raises BadInput for an unknown api or parameter and a value of a wrong type, Unsupported where the vendor has no
    such operator for the chip.
    """
    op = operator_of(api)
    values = _sorted_out(op, _signature(op, api), parameters, named)
    device = chip if isinstance(chip, Chip) else load_chip(chip)
    call = bind(op, values)
    verdict = verdict_of(call, device)
    if verdict.status is None:
        raise refusal(verdict)
    failure = _failure(op, verdict, values)
    if failure is not None:
        return failure, 0, None
    plan = plan_of(verdict)
    tensors = {name: None if call.is_null(name) else value for name, value in values.items() if name in op.arguments}
    return Returned.of(SUCCESS, verdict.note, verdict=verdict), plan.workspace_bytes, Executor(plan, tensors)


@checked
def parameters_of(api: str) -> tuple[str, ...]:
    """The parameters of the first call of `api` in the vendor's order, but for workspaceSize and executor."""
    return tuple(_signature(operator_of(api), api))


@checked
def operator_of(api: str) -> Operator:
    """The operator that the vendor calls `api`; raises BadInput with the nearest name if there is none."""
    known = {name: op for op in map(load_operator, operators_shipped()) for name in (op.api, *op.other_apis)}
    name = api.removesuffix(FIRST_CALL)
    if name not in known:
        hint = did_you_mean(name, known) or f" there are: {', '.join(known)}"
        raise BadInput("api", [f"{api!r} is not a call;{hint}"])
    return known[name]


def _signature(op: Operator, api: str) -> dict[str, str]:
    """The vendor's name of every parameter of a call, in order, and the operator's own name for it."""
    inputs = [t for t in op.tensors if t.role == INPUT]
    outputs = [t for t in op.tensors if t.role != INPUT]
    names = {t.alias or t.name: t.name for t in inputs}
    lacking = op.other_apis.get(api.removesuffix(FIRST_CALL), ())
    names |= {name: a.name for a in op.attributes if (name := a.alias or a.name) not in lacking}
    return names | {t.alias or t.name: t.name for t in outputs}


def _sorted_out(
    op: Operator, signature: Mapping[str, str], parameters: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The value of every parameter by the operator's name; raises BadInput with all that is wrong with the call."""
    order = list(signature)
    problems = []
    if len(parameters) > len(order):
        problems.append(f"{len(parameters)} parameters given, at most {len(order)} are expected: {', '.join(order)}")
    values = dict(zip(order, parameters, strict=False))
    for name, value in named.items():
        if name not in signature:
            problems.append(f"{name!r} is not a parameter;{did_you_mean(name, order)} there are: {', '.join(order)}")
        elif name in values:
            problems.append(f"{name} is given twice")
        else:
            values[name] = value
    optional = {t.alias or t.name for t in op.tensors if t.option}
    problems += [f"{name} is missing" for name in order if name not in values and name not in optional]
    for name, value in values.items():
        if signature[name] in op.arguments and not (value is None or isinstance(value, TensorSpec | np.ndarray)):
            problems.append(f"{name} is of type {type(value).__name__}, must be a numpy array, a TensorSpec or None")
        elif signature[name] not in op.arguments and value is None:
            problems.append(f"{name} is None, must be a number")
    if problems:
        raise BadInput(op.api, problems)
    return {key: values.get(name) for name, key in signature.items()}


def _failure(op: Operator, verdict: Verdict, values: Mapping[str, Any]) -> Returned | None:
    """The status of a first call that fails, None for a success."""
    status = verdict.status or SUCCESS
    if status not in (PARAM_NULLPTR, PARAM_INVALID):
        for name, argument in op.arguments.items():
            value = values.get(name)
            if argument.contiguous and isinstance(value, np.ndarray) and not value.flags.c_contiguous:
                parameter = _vendor_name(op, name)
                message = f"{parameter}: expected a contiguous tensor, given strides of {list(value.strides)} B"
                return Returned.of(PARAM_INVALID, message, parameter, verdict)
    if status == SUCCESS:
        return None
    parameter = _vendor_name(op, verdict.parameter)
    message = f"{parameter}: {verdict.culprit}" if parameter else verdict.culprit
    return Returned.of(status, message, parameter, verdict)


def _vendor_name(op: Operator, name: str) -> str:
    return op.arguments[name].alias or name if name in op.arguments else name


def _bytes_of(workspace: Any) -> int | None:
    """Bytes of a buffer, None for a null pointer; raises BadInput for any other value."""
    if workspace is None:
        return None
    with contextlib.suppress(TypeError):
        return int(workspace.nbytes) if hasattr(workspace, "nbytes") else memoryview(workspace).nbytes
    raise BadInput("workspace", [f"is of type {type(workspace).__name__}, must be a buffer of bytes or None"])
