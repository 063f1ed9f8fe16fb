"""Verdict on a call of an operator on a chip: all rules, inequalities and buffers, limits and remedies."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput, DoesNotFit, Refused, TilesimError, Unsupported
from tilesim.feasibility.alignment import padding_bytes, unaligned
from tilesim.feasibility.evaluate import evaluated_inequalities, findings, kernel_of, limits_of, of_memories
from tilesim.feasibility.inequalities import EvaluatedInequality, Inequality, counted_bytes, reserves_of
from tilesim.feasibility.limits import SizeLimit, size_limits
from tilesim.feasibility.remedies import Remedy, remedies
from tilesim.late_binding import Shown
from tilesim.operators.binding import Given, bind, parse
from tilesim.operators.buffer_file import BufferFile, load_buffers
from tilesim.operators.buffer_operator import FIXED, BufferOperator, ListedBuffer, buffer_operator
from tilesim.operators.calls import nonempty_call, unknown_sizes
from tilesim.operators.operator import Call, Finding, Operator
from tilesim.operators.status import SUCCESS, Status
from tilesim.ops import load_operator
from tilesim.program.buffers import Buffer, Tensor
from tilesim.program.isa import GLOBAL
from tilesim.program.recorder import Kernel
from tilesim.program.signatures import text
from tilesim.program.sizes import Size

CULPRIT_BUFFERS: Final = 3
"""Number of buffers that the culprit names."""

EVERY_PHASE: Final = "every phase"
"""Phase of a buffer that lives in all of them."""

_Term = tuple[Buffer | Tensor, Size]
"""A buffer or tensor, and those of its bytes that count."""


@dataclass(frozen=True)
class BufferUse:
    """Buffer of a phase: its bytes at the sizes of the call, and its share of what the phase may use: 0 to 1."""

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
    """Answer of `check`.

    `verdict` is "fits", "caution" (fits, with under 256 bytes of slack, or copies what is no multiple of 32 bytes),
    "overflow" (an inequality fails), "refused" (a rule fails) or "unsupported" (the operator does not exist on the
    chip, or not for the dtype). `status` is what the vendor's first call returns, None if there is no such call.
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
    """Parameter that the first broken rule names."""
    tiling_check: str
    """Check that the vendor's tiling function fails first, "" if it fails none."""
    tiling_parameter: str
    """Parameter that this check names."""
    call: Call = field(repr=False)
    on: Chip = field(repr=False)
    tiles: Mapping[str, int] = field(default_factory=dict)
    """Tile sizes by hand at which the inequalities are evaluated; empty if all tiles are at their smallest."""

    @property
    def note(self) -> str:
        """Remark on the vendor's behaviour or on tiles by hand; "" without one."""
        if self.tiles:
            return f"with {', '.join(f'{n}={v}' for n, v in self.tiles.items())} by hand"
        if self.verdict == "overflow" and self.status == SUCCESS:
            unseen = " without a look at global memory" if self.failing[0].memory == GLOBAL else ""
            still = f"the vendor's first call still returns {SUCCESS.name}{unseen}"
            return f"{still}, and its second call launches the kernel"
        if self.ok and self.tiling_check:
            return f"the vendor's tiling would fail its check '{self.tiling_check}', but this call does not run it"
        if self.ok and self.nonempty_call is not self.call and not self.kernel.phases:
            return "nothing is launched without elements; buffers are those of axes of 1"
        return ""

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """The note, notes of the chip, proofs of sizes of which no value fits, reserves of each memory."""
        proven = [limit for limit in self.size_limits if limit.proof]
        scaling = [limit for limit in self.size_limits if limit.scaling_bytes]
        # A proof for a size that the full memory does not depend on misleads if another size helps.
        proofs = [limit.proof for limit in (scaling or proven[:1]) if limit.proof]
        return tuple(note for note in (self.note, *self.on.notes, *proofs, *self._kept_back()) if note)

    def _kept_back(self) -> Iterator[str]:
        """Yield a line for each memory of which the operator reserves bytes."""
        if not self.inequalities:
            return
        kernel = kernel_of(self.nonempty_call, self.on)
        for memory in dict.fromkeys(b.memory for b in of_memories(self.inequalities)):
            reserves, counted = reserves_of(kernel, memory), counted_bytes(kernel, self.on, memory)
            reserved = sum(reserve.bytes_of(counted) for reserve in reserves)
            reasons = "; ".join(reserve.reason for reserve in reserves if reserve.reason)
            if reserved:
                yield f"{reserved:,} B of {counted:,} B of {memory} are kept back" + (f": {reasons}" if reasons else "")

    @functools.cached_property
    def nonempty_call(self) -> Call:
        """Call at whose sizes the inequalities are evaluated: without tiles by hand, empty axes count as axes of 1.

        Its kernel may differ from that of `call`.
        """
        return self.call if self.tiles else nonempty_call(self.call)

    @functools.cached_property
    def kernel(self) -> Kernel:
        """Recorded kernel of `call`."""
        return kernel_of(self.call, self.on)

    @functools.cached_property
    def kernel_inequalities(self) -> Sequence[Inequality]:
        """Inequalities of `kernel`; `inequalities` are those of `nonempty_call`."""
        return limits_of(self.call, self.on)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Findings of the rules that do not hold."""
        return tuple(rule for rule in self.rules if not rule.ok)

    @property
    def failing(self) -> tuple[EvaluatedInequality, ...]:
        """Inequalities that do not hold, the worst first."""
        return tuple(sorted((b for b in self.inequalities if b.slack_bytes < 0), key=lambda b: b.slack_bytes))

    @property
    def tightest(self) -> EvaluatedInequality | None:
        """Inequality of a memory with the least slack, None without any."""
        return min(of_memories(self.inequalities), key=lambda b: b.slack_bytes, default=None)

    @functools.cached_property
    def buffers(self) -> tuple[BufferUse, ...]:
        """Every buffer, and every tensor where global memory is too small; the largest first."""
        env = self.nonempty_call.env
        phases: dict[Buffer | Tensor, dict[str, tuple[_Term, EvaluatedInequality]]] = {}
        for b in self.inequalities:
            for term in b.inequality.terms:
                if isinstance(term[0], Buffer) or b.slack_bytes < 0:
                    phases.setdefault(term[0], {}).setdefault(b.phase, (term, b))
        rows = []
        for sides in phases.values():
            (phase, (term, b)), *others = sides.items()
            rows.append(_use(term, EVERY_PHASE if others else phase, b, env))
        if self.inequalities:
            statics = kernel_of(self.nonempty_call, self.on).statics
            visible = self.on.memory.ub.visible_bytes
            rows += [_row((buffer, buffer.bytes), EVERY_PHASE, buffer.space, env, visible) for buffer in statics]
        return tuple(sorted(rows, key=lambda row: -row.bytes))

    @functools.cached_property
    def size_limits(self) -> tuple[SizeLimit, ...]:
        """Limits of each dim and each tile with the others as they are, and the bytes that depend on it."""
        return size_limits(self.call, self.on) if self.verdict != "unsupported" else ()

    def limit(self, name: str) -> SizeLimit:
        """Return the limit of one dim, or of a tile as "phase.tile". Raises KeyError."""
        return {limit.name: limit for limit in self.size_limits}[name]

    @property
    def limits(self) -> Mapping[str, int | None]:
        """Largest value of each dim and each tile that is limited; None if no value passes."""
        return {limit.name: limit.largest for limit in self.size_limits if limit.limited}

    @functools.cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """Changes that pass; each was checked. Empty if the call passes."""
        return () if self.ok else tuple(remedies(self.call, self.on, self.broken, self.failing))

    @property
    def missing(self) -> str:
        """Missing support: "operator", or "dtype" if only that; "" unless the verdict is "unsupported"."""
        return "" if self.verdict != "unsupported" else "dtype" if self.rules[0].ok else "operator"

    @property
    def culprit(self) -> str:
        """Rule or inequality that decided, with both numbers; "" if the call passes."""
        if self.missing == "dtype":
            rule = next(rule for rule in self.broken if rule.status is None)
            return f"{self.operator} is not made for this dtype on {self.on.product}: {rule}"
        if self.missing:
            return f"{self.operator} is not made for {self.on.product}; its products: {self.rules[0].expected}"
        if self.broken:
            return str(self.broken[0])
        if not self.failing:
            return ""
        return self._needs(self.failing[0])

    def _needs(self, b: EvaluatedInequality, *, detailed: bool = False) -> str:
        """Return a failing inequality with both numbers and the largest buffers; with percent and bits if detailed."""
        env = {**b.inequality.minimum, **self.nonempty_call.env}
        sizes = sorted(((int(size.bind(env)), buffer.name) for buffer, size in b.inequality.terms), key=lambda s: -s[0])
        excess = f"{-b.slack_bytes:,} B too many"
        if detailed:
            percent = f", {-100 * b.slack_bytes / b.right_bytes:.1f} %" if b.right_bytes > 0 else ""
            excess += f"{percent}; in bits {8 * b.left_bytes:,} of {8 * b.right_bytes:,}"
        parts = [
            f"{name} {size:,} B" + (f" ({100 * size / b.left_bytes:.0f} %)" if detailed else "")
            for size, name in sizes[:CULPRIT_BUFFERS]
        ]
        more = f" and {len(sizes) - CULPRIT_BUFFERS} more" if len(sizes) > CULPRIT_BUFFERS else ""
        phase = f"phase '{b.phase}' needs" if b.phase else "needs"
        return f"{phase} {b.left_bytes:,} B of {b.memory}, has {b.right_bytes:,} B ({excess}): {', '.join(parts)}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain data, under the names of the command line's --json."""
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
            "notes": list(self.notes),
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
                    "phase": b.phase or None,
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
            "sizes": [limit.to_json() for limit in self.size_limits],
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }

    def __str__(self) -> str:
        """Return one line: the verdict, and the culprit if there is one."""
        return f"{self.operator} on {self.chip}: {self.verdict}" + (f": {self.culprit}" if self.culprit else "")


@dataclass(frozen=True)
class BuffersVerdict(Verdict):
    """Answer of `check_buffers`: a Verdict on a file of buffers, which has no vendor call; its status is None."""

    @property
    def file(self) -> BufferFile:
        """File of buffers."""
        return self._operator.file

    @functools.cached_property
    def sizes(self) -> Mapping[str, int]:
        """Every size, derived sizes included, in the order of the file."""
        return self._operator.sizes_of(self.call.dims)

    @functools.cached_property
    def programs(self) -> int | None:
        """Number of programs of a launch, None if the file states none."""
        return self._operator.programs(self.call.dims)

    @property
    def _operator(self) -> BufferOperator:
        operator = self.call.operator
        if not isinstance(operator, BufferOperator):
            raise TypeError(f"{operator.name} is not a file of buffers")
        return operator

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes of a verdict, the copies that are not aligned, and the waves of the programs of a grid."""
        env = self.nonempty_call.env
        return (*super().notes, *map(str, unaligned(self.inequalities, env)), *self._launched())

    def _launched(self) -> Iterator[str]:
        """Yield remarks on an empty grid and on more programs than cores."""
        programs, kind = self.programs, self.file.core_kind
        cores = self.on.cores.of(kind)
        if programs == 0:
            yield "empty: nothing is launched"
        elif programs is not None and programs > cores:
            waves = -(-programs // cores)
            idle = 1 - programs / (waves * cores)
            yield (
                f"{programs:,} programs on {cores:,} {kind} cores: {waves:,} waves, {100 * idle:.1f} % of their places"
                f" idle; {cores:,} programs with a loop inside the kernel take one wave"
            )

    @functools.cached_property
    def padding(self) -> Mapping[str, int]:
        """Bytes of every buffer, with all its slots, that hold no element."""
        env = self.nonempty_call.env
        buffers = dict.fromkeys(buffer for b in self.inequalities for buffer, _ in b.inequality.terms)
        return {b.name: padding_bytes(b, env) for b in buffers if isinstance(b, ListedBuffer) and b.name != FIXED}

    @property
    def culprit(self) -> str:
        """Every rule and every inequality that does not hold, with the excess in bytes, percent and bits."""
        return "; ".join([*map(str, self.broken), *(self._needs(b, detailed=True) for b in self.failing)])

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain data, with every size of the file, the programs and the padding [bytes]."""
        return {**super().to_json(), "dims": dict(self.sizes), "programs": self.programs, "padding": dict(self.padding)}


@checked
def check_buffers(
    source: str | Path | Mapping[str, Any] | BufferFile,
    chip: Chip | str | Path,
    sizes: Mapping[str, int | str] | None = None,
    *,
    dtype: str | None = None,
) -> BuffersVerdict:
    """Return the verdict on the buffers of a TOML file, or of a mapping of the same form, on a chip.

    `sizes` replaces the default sizes, `dtype` the dtype of the file.

    >>> gather = {"sizes": {"BLOCK": 48000}, "buffers": {"x": {"shape": ["BLOCK"], "slots": 2}}, "counted_from": "size"}
    >>> verdict = check_buffers(gather, "ascend910b3")
    >>> verdict.verdict, verdict.failing[0].left_bytes, verdict.limit("BLOCK").largest
    ('overflow', 384000, 24576)

    Raises BadInput, with all problems at once, for an invalid file, key, size or chip.
    """
    operator = buffer_operator(load_buffers(source))
    words = [f"{name}={value}" for name, value in (sizes or {}).items() if isinstance(value, str)]
    numbers = {name: value for name, value in (sizes or {}).items() if not isinstance(value, str)}
    call = bind(operator, {**numbers, **parse(operator, words)}, dtype=dtype)
    return cast("BuffersVerdict", verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip)))


@checked
def check(
    op: Operator | str | Path, given: Given, *, chip: Chip | str | Path, dtype: str | None = None, **options: Any
) -> Verdict:
    """Return the verdict on a call: `given` are dims, tensors (TensorSpec, shape, array or None), options, attributes.

    >>> str(check("glu_backward", {"self": (2, 4, 5)}, chip="ascend950pr"))
    'glu_backward on ascend950pr: refused: split axis even: expected an even number, given 5'

    Raises BadInput for an invalid shape, dtype, chip, key or operator, and for a size that is not given, unless the
    call breaks a rule without it. A size that the operator refuses gives a verdict.
    """
    operator = load_operator(op)
    call = bind(operator, given, dtype=dtype, **options)
    return verdict_of(call, chip if isinstance(chip, Chip) else load_chip(chip))


def verdict_of(call: Call, chip: Chip) -> Verdict:
    """Return the verdict on a call. Raises BadInput for sizes that are not given, unless the call breaks a rule."""
    rules = findings(call, chip)
    broken = [rule for rule in rules if not rule.ok]
    if not broken and (unknown := unknown_sizes(call)):
        raise BadInput(call.operator.name, unknown)
    evaluated = evaluated_inequalities(call, chip)
    overflow = any(b.slack_bytes < 0 for b in evaluated)
    caution = any(b.slack_bytes < call.operator.caution_bytes for b in of_memories(evaluated))
    caution |= any(buffer.copied for buffer in unaligned(evaluated, nonempty_call(call).env))
    if broken:
        if isinstance(call.operator, BufferOperator):
            unsupported = bool(call.operator.lacking(chip.family, call.dtype))
        else:
            unsupported = any(rule.status is None for rule in broken)
        verdict, status = ("unsupported", None) if unsupported else ("refused", broken[0].status)
    elif overflow:
        on_chip = any(b.slack_bytes < 0 for b in evaluated if b.memory != GLOBAL)
        verdict, status = "overflow", call.operator.overflow if on_chip else SUCCESS
    else:
        verdict, status = ("caution" if caution else "fits"), SUCCESS
    failed = [*broken, *(f for rule in call.operator.tiling_only_rules if not (f := rule.apply(call, chip)).ok)]
    tiling_check = min(((rule.tiling, rule.parameter) for rule in failed if rule.tiling), default=((0, ""), ""))
    verdict_type: type[Verdict] = Verdict
    if isinstance(call.operator, BufferOperator):
        verdict_type, status = BuffersVerdict, None
    return verdict_type(
        ok=verdict in ("fits", "caution"),
        verdict=verdict,
        status=status,
        operator=call.operator.name,
        chip=chip.name,
        dims=call.dims,
        dtype=call.dtype,
        options=call.options,
        rules=tuple(rules),
        inequalities=tuple(evaluated),
        parameter=broken[0].parameter if broken else "",
        tiling_check=tiling_check[0][1],
        tiling_parameter=tiling_check[1],
        call=call,
        on=chip,
    )


def _use(term: _Term, phase: str, b: EvaluatedInequality, env: Mapping[str, Any]) -> BufferUse:
    """Return the row of a buffer or tensor of an inequality."""
    return _row(term, phase, b.memory, {**b.inequality.minimum, **env}, b.right_bytes)


def _row(term: _Term, phase: str, memory: str, env: Mapping[str, Any], available_bytes: int) -> BufferUse:
    buffer, size_bytes, slots = term[0], int(term[1].bind(env)), int(term[0].slot_count.bind(env))
    share = size_bytes / available_bytes if available_bytes > 0 else 1.0
    return BufferUse(buffer.name, phase, memory, buffer.dtype, text(buffer.allocated), slots, size_bytes, share)


def _status(status: Status | None) -> dict[str, Any] | None:
    return None if status is None else {"name": status.name, "code": status.code}


def refusal(verdict: Verdict) -> TilesimError:
    """Return the exception for a verdict that refuses its call."""
    error: TilesimError
    if verdict.verdict == "unsupported":
        error = Unsupported(verdict.operator, verdict.culprit)
    elif verdict.broken:
        error = Refused(verdict.operator, [str(rule) for rule in verdict.broken])
    else:
        worst = verdict.failing[0]
        terms = [(b.name, b.bytes) for b in verdict.buffers if (b.phase, b.memory) == (worst.phase, worst.memory)]
        phase = f"phase '{worst.phase}' of " if verdict.tiles else ""
        subject, remedies = f"{phase}{verdict.operator} on {verdict.chip}", [str(r) for r in verdict.remedies]
        error = DoesNotFit(subject, worst.memory, worst.left_bytes, worst.right_bytes, terms=terms, remedies=remedies)
    error.verdict = verdict
    return error
