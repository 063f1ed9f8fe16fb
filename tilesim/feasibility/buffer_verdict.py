"""Does it fit? The verdict on buffers that a file lists, without an operator; `buffer_file` says how to write one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.feasibility.buffer_file import BufferFile, load_buffers
from tilesim.feasibility.buffer_limits import SizeLimit, buffer_remedies, size_limits
from tilesim.feasibility.buffer_needs import Need, Situation, asked_sizes, programs_of, rules_of
from tilesim.feasibility.remedies import Remedy
from tilesim.feasibility.verdict import BufferUse
from tilesim.late_binding import Shown
from tilesim.operators.operator import Finding
from tilesim.program.dtypes import dtype_named

CULPRIT_BUFFERS: Final = 3
"""As many buffers does the culprit name."""


@dataclass(frozen=True)
class BuffersVerdict(Shown):
    """The answer of `check_buffers`, in the words of a Verdict.

    `verdict` is "fits", "caution" (fits, but nearly not), "overflow" (a memory is too small) or "refused" (a bound, a
    cap or the grid says no).
    """

    ok: bool
    verdict: str
    name: str
    chip: str
    dtype: str
    sizes: Mapping[str, int]
    rules: tuple[Finding, ...]
    needs: tuple[Need, ...]
    """Every phase and memory, the least slack first."""
    limits: tuple[SizeLimit, ...]
    """What every size can be, the others as they are."""
    remedies: tuple[Remedy, ...]
    """What would pass; each has been checked. Empty if it passes."""
    programs: int | None
    """How many are launched; None if the file does not say."""
    file: BufferFile = field(repr=False)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The rules that do not hold."""
        return tuple(rule for rule in self.rules if not rule.ok)

    @property
    def failing(self) -> tuple[Need, ...]:
        """What does not fit, the worst first."""
        return tuple(need for need in self.needs if need.slack_bytes < 0)

    @property
    def buffers(self) -> tuple[BufferUse, ...]:
        """Every buffer, the largest first, with its share of what there is of the memory."""
        rows: dict[tuple[str, str], BufferUse] = {}
        for need in self.needs:
            for p in need.pieces:
                shape = " x ".join(str(size) for size in p.shape) or f"{p.bytes // p.slots} bytes"
                share = p.bytes / need.available_bytes if need.available_bytes > 0 else 1.0
                row = BufferUse(p.name, p.phase, p.memory, p.dtype, shape, p.slots, p.bytes, share)
                rows.setdefault((p.name, p.memory), row)
        return tuple(sorted(rows.values(), key=lambda row: -row.bytes))

    @property
    def culprit(self) -> str:
        """What decided, with both numbers and the largest buffers; "" if it passes."""
        parts = [str(rule) for rule in self.broken] + [_too_much(need) for need in self.failing]
        return "; ".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else there is to know: no value of a size is enough, bytes are kept back, nothing is launched."""
        proven = [limit for limit in self.limits if limit.proof]
        scaling = [limit for limit in self.limits if limit.scaling_bytes]
        # A size that the full memory does not depend on proves nothing where another one helps.
        found = [limit.proof for limit in (scaling or proven[:1]) if limit.proof]
        found += dict.fromkeys(_kept(need) for need in self.needs if need.kept_bytes)
        if self.programs == 0:
            found.append("empty: nothing is launched")
        return tuple(found)

    def limit(self, name: str) -> SizeLimit:
        """What one size can be. Raises KeyError."""
        return {limit.name: limit for limit in self.limits}[name]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, under the names of `check --json`."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "status": None,
            "operator": self.name,
            "chip": self.chip,
            "dims": dict(self.sizes),
            "dtype": self.dtype,
            "culprit": self.culprit,
            "notes": list(self.notes),
            "rules": [
                {"name": rule.name, "ok": rule.ok, "expected": rule.expected, "given": rule.given}
                for rule in self.rules
            ],
            "inequalities": [
                {
                    "phase": need.phase or None,
                    "memory": need.memory,
                    "text": " + ".join(f"{piece.name} {piece.bytes}" for piece in need.pieces)
                    + f" <= {need.available_bytes} bytes",
                    "left_bytes": need.needed_bytes,
                    "right_bytes": need.available_bytes,
                    "slack_bytes": need.slack_bytes,
                }
                for need in self.needs
            ],
            "buffers": [vars(row) for row in self.buffers],
            "limits": {limit.name: limit.largest for limit in self.limits},
            "sizes": [limit.to_json() for limit in self.limits],
            "programs": self.programs,
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }

    def __str__(self) -> str:
        """One line: the verdict, and what decided."""
        return f"{self.name} on {self.chip}: {self.verdict}" + (f": {self.culprit}" if self.culprit else "")


@checked
def check_buffers(
    source: str | Path | Mapping[str, Any] | BufferFile,
    chip: Chip | str | Path,
    sizes: Mapping[str, int | str] | None = None,
    *,
    dtype: str | None = None,
) -> BuffersVerdict:
    """The verdict on the buffers of a TOML file, or of a mapping of the same form, on a chip.

    `sizes` replaces defaults, `dtype` the file's.

    >>> gather = {"sizes": {"BLOCK": 48000}, "buffers": {"x": {"shape": ["BLOCK"], "slots": 2}}, "counted_from": "size"}
    >>> verdict = check_buffers(gather, "ascend910b3")
    >>> verdict.verdict, verdict.failing[0].needed_bytes, verdict.limit("BLOCK").largest
    ('overflow', 384000, 24576)

    Raises BadInput, with all problems at once, for what is no file, key, size or chip.
    """
    file = load_buffers(source)
    on = chip if isinstance(chip, Chip) else load_chip(chip)
    situation = Situation(file, on, file.dtype if dtype is None else dtype_named(dtype))
    given = asked_sizes(file, sizes or {})
    known = situation.resolved(given)
    rules = rules_of(file, known)
    # A negative size breaks its rule, as 0 does; the bytes are those of none.
    counted = situation.resolved({name: max(value, 0) for name, value in given.items()})
    needs = sorted(situation.needs(counted), key=lambda need: need.slack_bytes)
    failing = any(need.slack_bytes < 0 for need in needs)
    broken = any(not rule.ok for rule in rules)
    near = any(need.slack_bytes < file.caution_bytes for need in needs)
    verdict = "refused" if broken else "overflow" if failing else "caution" if near else "fits"
    ok = verdict in ("fits", "caution")
    limits = size_limits(situation, counted)
    return BuffersVerdict(
        ok=ok,
        verdict=verdict,
        name=file.name,
        chip=on.name,
        dtype=situation.dtype,
        sizes=known,
        rules=tuple(rules),
        needs=tuple(needs),
        limits=tuple(limits),
        remedies=() if ok else tuple(buffer_remedies(situation, counted, limits)),
        programs=programs_of(file, known),
        file=file,
    )


def _kept(need: Need) -> str:
    """What is kept back of a memory."""
    whole = need.available_bytes + need.kept_bytes
    return f"{need.kept_bytes:,} B of {whole:,} B of {need.memory} are kept back" + (
        f": {need.reason}" if need.reason else ""
    )


def _too_much(need: Need) -> str:
    """By how much buffers do not fit, in bytes, percent and bits, and the largest of them with their shares."""
    needed, available = need.needed_bytes, need.available_bytes
    over = f"{-need.slack_bytes:,} B too many"
    if available > 0:
        over += f", {-100 * need.slack_bytes / available:.1f} %"
    bits = f"in bits {8 * needed:,} of {8 * available:,}"
    parts = [f"{p.name} {p.bytes:,} B ({100 * p.bytes / needed:.0f} %)" for p in need.pieces[:CULPRIT_BUFFERS]]
    more = f" and {len(need.pieces) - CULPRIT_BUFFERS} more" if len(need.pieces) > CULPRIT_BUFFERS else ""
    where = f"phase '{need.phase}' needs" if need.phase else "needs"
    return f"{where} {needed:,} B of {need.memory}, has {available:,} B ({over}; {bits}): {', '.join(parts)}{more}"
