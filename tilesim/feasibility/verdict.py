"""Does it fit? The verdict on a shape of an operator on a chip: all rules, inequalities and buffers, what would fit."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.evaluate import balances, findings, kernel_of
from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.feasibility.remedies import Remedy, limits, remedies
from tilesim.late_binding import Shown
from tilesim.operators.binding import Given, bind
from tilesim.operators.calls import nonempty_call, unknown_sizes
from tilesim.operators.operator import Call, Finding, Operator
from tilesim.operators.status import SUCCESS, Status
from tilesim.ops import load_operator
from tilesim.program import isa
from tilesim.program.buffers import Buffer
from tilesim.program.recorder import Kernel
from tilesim.program.signatures import text

CAUTION_BYTES: Final = 256
"""A shape that fits with less slack than this is near enough to the edge to say so."""
CULPRIT_BUFFERS: Final = 3
"""As many buffers does the culprit name."""


@dataclass(frozen=True)
class BufferUse:
    """One buffer of a phase: its bytes at the sizes of the call, and its share of the memory that its phase may use."""

    name: str
    phase: str
    memory: str
    dtype: str
    shape: str
    slots: int
    bytes: int
    share: float


@dataclass(frozen=True)
class Verdict(Shown):
    """The answer of `check`.

    `verdict` is "fits", "caution" (fits, with under 256 bytes of slack), "overflow" (an inequality fails), "refused" (a
    rule fails) or "unsupported" (the operator does not exist on the chip, or not for the dtype). `status` is what the
    vendor's first call returns, None if there is nothing to call.
    """

    ok: bool
    verdict: str
    status: Status | None
    operator: str
    chip: str
    dims: Mapping[str, int]
    dtype: str
    options: Mapping[str, bool]
    rules: tuple[Finding, ...]
    inequalities: tuple[EvaluatedInequality, ...]
    parameter: str
    """What the first broken rule is about."""
    tiling_check: str
    """The check that the vendor's tiling function fails first, "" if it fails none."""
    tiling_parameter: str
    """What that check is about."""
    call: Call = field(repr=False)
    on: Chip = field(repr=False)
    tiles: Mapping[str, int] = field(default_factory=dict)
    """Tile sizes by hand that the inequalities are about; without them, all tiles are at their smallest."""

    @property
    def note(self) -> str:
        """What the verdict alone does not tell: that the vendor launches what does not fit, and what it never asks."""
        if self.tiles:
            return f"with {', '.join(f'{n}={v}' for n, v in self.tiles.items())} by hand"
        if self.verdict == "overflow" and self.status == SUCCESS:
            return f"the vendor's first call returns {SUCCESS.name} all the same, and its second call would launch this"
        if self.ok and self.tiling_check:
            return f"the vendor's tiling would fail its check '{self.tiling_check}', but is not asked"
        if self.ok and self.nonempty_call is not self.call and not self.kernel.phases:
            return "nothing is launched without elements; buffers are those of axes of 1"
        return ""

    @functools.cached_property
    def nonempty_call(self) -> Call:
        """The call whose inequalities it has: without tiles by hand, the one with axes of 1 for those without elements.

        Its kernel may be another one than that of the call.
        """
        return self.call if self.tiles else nonempty_call(self.call)

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The recorded kernel of its call."""
        return kernel_of(self.call, self.on)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The rules that do not hold."""
        return tuple(rule for rule in self.rules if not rule.ok)

    @property
    def failing(self) -> tuple[EvaluatedInequality, ...]:
        """The inequalities that do not hold, the worst first."""
        return tuple(sorted((b for b in self.inequalities if b.slack_bytes < 0), key=lambda b: b.slack_bytes))

    @property
    def tightest(self) -> EvaluatedInequality | None:
        """The inequality of a memory with the least slack."""
        return min(_of_memories(self.inequalities), key=lambda b: b.slack_bytes, default=None)

    @functools.cached_property
    def buffers(self) -> tuple[BufferUse, ...]:
        """Every buffer, the largest first."""
        env = self.nonempty_call.env
        rows = [
            _use(buffer, b.phase, b.memory, size.bind({**b.inequality.minimum, **env}), b.right_bytes)
            for b in self.inequalities
            for buffer, size in b.inequality.terms
        ]
        if self.inequalities:
            visible = self.on.memory.ub.visible_bytes
            statics = kernel_of(self.nonempty_call, self.on).statics
            rows += [_use(buffer, "every phase", buffer.space, buffer.bytes.bind(env), visible) for buffer in statics]
        return tuple(sorted(rows, key=lambda row: -row.bytes))

    @functools.cached_property
    def limits(self) -> Mapping[str, int | None]:
        """The largest value of each dim that something limits, the others as given, and the largest tile of a phase."""
        return limits(self.call, self.on) if self.verdict != "unsupported" else {}

    @functools.cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would pass; each has been checked. Empty if the shape passes."""
        return () if self.ok else tuple(remedies(self.call, self.on, self.broken, self.failing))

    @property
    def missing(self) -> str:
        """What the chip does not have: "operator", or "dtype" if only that; "" unless the verdict is "unsupported"."""
        return "" if self.verdict != "unsupported" else "dtype" if self.rules[0].ok else "operator"

    @property
    def culprit(self) -> str:
        """The rule or the inequality that decided, with both numbers; "" if the shape passes."""
        if self.missing == "dtype":
            rule = next(rule for rule in self.broken if rule.status is None)
            return f"{self.operator} is not made for this dtype on {self.on.product}: {rule}"
        if self.missing:
            return f"{self.operator} is not made for {self.on.product}; its products: {self.rules[0].expected}"
        if self.broken:
            return str(self.broken[0])
        if not self.failing:
            return ""
        worst = self.failing[0]
        mine = [row for row in self.buffers if (row.phase, row.memory) == (worst.phase, worst.memory)]
        parts = ", ".join(f"{row.name} {row.bytes:,} B" for row in mine[:CULPRIT_BUFFERS])
        rest = f" and {len(mine) - CULPRIT_BUFFERS} more" if len(mine) > CULPRIT_BUFFERS else ""
        return (
            f"phase '{worst.phase}' needs {worst.left_bytes:,} B of {worst.memory}, has {worst.right_bytes:,} B"
            f" ({-worst.slack_bytes:,} B too many): {parts}{rest}"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, under the names of the command line's --json."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "status": _status(self.status),
            "operator": self.operator,
            "chip": self.chip,
            "dims": dict(self.dims),
            "dtype": self.dtype,
            "options": dict(self.options),
            "attributes": dict(self.call.attributes),
            "tensors": {
                name: None if spec is None else {"shape": list(spec.shape), "dtype": spec.dtype}
                for name, spec in self.call.specs.items()
            },
            "parameter": self.parameter or None,
            "tiling_check": self.tiling_check or None,
            "tiling_parameter": self.tiling_parameter or None,
            "culprit": self.culprit,
            "note": self.note or None,
            "tiles": dict(self.tiles),
            "rules": [
                {
                    "name": rule.name,
                    "ok": rule.ok,
                    "expected": rule.expected,
                    "given": rule.given,
                    "parameter": rule.parameter,
                    "status": _status(rule.status),
                }
                for rule in self.rules
            ],
            "inequalities": [
                {
                    "phase": b.phase,
                    "memory": b.memory,
                    "text": b.text,
                    "left_bytes": b.left_bytes,
                    "right_bytes": b.right_bytes,
                    "slack_bytes": b.slack_bytes,
                }
                for b in self.inequalities
            ],
            "buffers": [vars(row) for row in self.buffers],
            "limits": dict(self.limits),
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }

    def __str__(self) -> str:
        """One line: the verdict, and the culprit if there is one."""
        return f"{self.operator} on {self.chip}: {self.verdict}" + (f": {self.culprit}" if self.culprit else "")


@checked
def check(
    op: Operator | str | Path, given: Given, *, chip: Chip | str | Path, dtype: str | None = None, **options: Any
) -> Verdict:
    """The verdict on a call: `given` are dims, tensors (TensorSpec, shape, array or None), options and attributes.

    >>> str(check("glu_backward", {"self": (2, 4, 5)}, chip="ascend950pr"))
    'glu_backward on ascend950pr: refused: split axis even: expected an even number, given 5'

    Raises BadInput for what is no shape, dtype, chip, key or operator, and for a size that nothing tells, unless a rule
    is broken already; a size that the operator refuses is a verdict.
    """
    call = bind(load_operator(op), given, dtype=dtype, **options)
    return verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip))


def verdict_of(call: Call, chip: Chip) -> Verdict:
    """The verdict on a call that is already made. Raises BadInput for sizes that it lacks and that would decide."""
    rules = findings(call, chip)
    broken = [rule for rule in rules if not rule.ok]
    if not broken and (unknown := unknown_sizes(call)):
        raise BadInput(call.operator.name, unknown)
    sides = balances(call, chip)
    overflow = any(b.slack_bytes < 0 for b in sides)
    near = any(b.slack_bytes < CAUTION_BYTES for b in _of_memories(sides))
    if broken:
        nothing = any(rule.status is None for rule in broken)
        verdict, status = ("unsupported", None) if nothing else ("refused", broken[0].status)
    elif overflow:
        verdict, status = "overflow", call.operator.overflow
    else:
        verdict, status = ("caution" if near else "fits"), SUCCESS
    failed = [*broken, *(f for rule in call.operator.tiling_only_rules if not (f := rule.apply(call, chip)).ok)]
    tiled = min(((rule.tiling, rule.parameter) for rule in failed if rule.tiling), default=((0, ""), ""))
    return Verdict(
        ok=verdict in ("fits", "caution"),
        verdict=verdict,
        status=status,
        operator=call.operator.name,
        chip=chip.name,
        dims=call.dims,
        dtype=call.dtype,
        options=call.options,
        rules=tuple(rules),
        inequalities=tuple(sides),
        parameter=broken[0].parameter if broken else "",
        tiling_check=tiled[0][1],
        tiling_parameter=tiled[1],
        call=call,
        on=chip,
    )


def _of_memories(sides: list[EvaluatedInequality] | tuple[EvaluatedInequality, ...]) -> list[EvaluatedInequality]:
    """The inequalities of real memories; what an operator keeps back may be used to the last byte."""
    spaces = {space for some in isa.SPACES.values() for space in some}
    return [b for b in sides if b.memory in spaces]


def _use(buffer: Buffer, phase: str, memory: str, size_bytes: int, available_bytes: int) -> BufferUse:
    share = size_bytes / available_bytes if available_bytes > 0 else 1.0
    shape = text(buffer.allocated)
    return BufferUse(buffer.name, phase, memory, buffer.dtype, shape, buffer.slots, size_bytes, share)


def _status(status: Status | None) -> dict[str, Any] | None:
    return None if status is None else {"name": status.name, "code": status.code}
