"""Screen of a verdict, also as the answer of a command that a refusal ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import typer

from tilesim.cli.console import TextColumn, emit, fields, heading, line, percent, several, size, table
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.errors import TilesimError
from tilesim.feasibility.inequalities import EvaluatedInequality
from tilesim.feasibility.limits import SizeLimit
from tilesim.feasibility.verdict import BuffersVerdict, BufferUse, Verdict
from tilesim.operators.binding import in_words
from tilesim.program.isa import GLOBAL
from tilesim.text import TIED

STYLES: Final = {"fits": "bold green", "caution": "bold yellow"}
"""Colours of verdicts that are a yes; the others have NO_STYLE."""
NO_STYLE: Final = "bold red"
ON_CHIP: Final = ("ub", "l1", "l0a", "l0b", "l0c")
"""Memories; the other spaces of inequalities are pools that the operator keeps back."""
MISSING: Final = {"operator": "the operator", "dtype": "the operator in this dtype"}
"""Missing part -> its words in the line of the first call."""
SHOWN_BUFFERS: Final = 10
"""Buffers on a screen, at most; --all shows the others."""


def answer(verdict: Verdict, *, rules: bool = False, everything: bool = False, as_json: bool = False) -> int:
    """Print a verdict and return its exit code."""
    if as_json:
        emit(verdict.to_json())
    else:
        show(verdict, rules=rules, everything=everything)
    return EXIT_YES if verdict.ok else EXIT_NO


@contextmanager
def refusals_answered(*, as_json: bool) -> Iterator[None]:
    """Context in which an error with a verdict ends the command with this verdict as its answer."""
    try:
        yield
    except TilesimError as error:
        if not isinstance(error.verdict, Verdict):
            raise
        raise typer.Exit(answer(error.verdict, as_json=as_json)) from None


def show(verdict: Verdict, *, rules: bool = False, everything: bool = False) -> None:
    """Print a verdict as text: the decision and its reason, then the inequalities, buffers and sizes."""
    title(verdict)
    fields(_facts(verdict))
    if verdict.broken or rules:
        _rules(verdict, everything=rules)
    if verdict.inequalities:
        _inequalities(verdict, everything=everything)
        _buffers(verdict.buffers, everything=everything)
    _sizes([limit for limit in verdict.size_limits if everything or _is_relevant(limit)])
    if verdict.remedies:
        heading("what would pass (checked)")
        for remedy in verdict.remedies:
            line(f"  {remedy}")


def _is_relevant(limit: SizeLimit) -> bool:
    """Return True if a size has a limit from above or from below, or needs bytes."""
    return limit.limited or limit.scaling_bytes > 0 or limit.least > limit.multiple_of


def _sizes(limits: Sequence[SizeLimit]) -> None:
    """Print the possible values of sizes and tiles, and the bytes that depend on them."""
    if not limits:
        return
    heading("sizes and tiles, each with the others as given; bytes at the given value")
    numbers = ("given", "least", "largest", "power of two", "fixed bytes", "scaling bytes")
    columns = (
        TextColumn("size", prose=True),
        *(TextColumn(name, number=True) for name in numbers),
        TextColumn("memory"),
    )
    rows = [
        (
            limit.name,
            limit.given,
            limit.least,
            "no limit" if not limit.limited else "none" if limit.largest is None else limit.largest,
            "" if limit.power_of_two is None else limit.power_of_two,
            limit.fixed_bytes,
            limit.scaling_bytes,
            limit.memory,
        )
        for limit in limits
    ]
    table(columns, rows)


def title(verdict: Verdict) -> None:
    """Print the headline: the verdict, its subject and the culprit."""
    line(f"{verdict.verdict}: {subject_text(verdict)}", STYLES.get(verdict.verdict, NO_STYLE))
    for text in (verdict.culprit, verdict.note):
        if text:
            line(text)


def subject_text(verdict: Verdict) -> str:
    """Return operator, chip, dtype and words of a verdict in one line."""
    return f"{verdict.operator} on {verdict.chip}, {verdict.dtype}: {in_words(verdict.call)}"


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    limit = _limiting(verdict)
    if verdict.ok and limit is not None:
        spare = f"{size(limit.slack_bytes)} to spare of {size(limit.right_bytes)}"
        yield "limited by", f"{limit.place}: {spare}"
    status = verdict.status
    if verdict.call.operator.api:
        if status is not None:
            yield "first call", f"{status.name} ({status.code})"
        else:
            yield "first call", f"none: the chip does not have {MISSING[verdict.missing]}"
    if verdict.tiling_check:
        yield "tiling says", f"{verdict.tiling_check} ({verdict.tiling_parameter})"
    if verdict.limits:
        yield "largest", _limits(verdict.limits)
    yield from (("note", note) for note in verdict.notes if note != verdict.note)
    if isinstance(verdict, BuffersVerdict):
        if verdict.programs is not None:
            yield "programs", f"{verdict.programs:,}"
        if verdict.file.source:
            yield "source", verdict.file.source
    if verdict.on.overridden:
        yield "set by hand", overridden_text(verdict)
    guesses = guessed_sizes(verdict)
    if guesses:
        yield "guesses", f"{', '.join(guesses)}: no published value"


def _limits(limits: Mapping[str, int | None]) -> str:
    """Return the largest value of every dim and tile, the others as given, and the names without a value that fits."""
    largest = ", ".join(f"{name} {value:,}" for name, value in limits.items() if value is not None)
    none = ", ".join(name for name, value in limits.items() if value is None)
    return "; ".join(filter(None, (largest, none and f"no value of {none} fits")))


def overridden_text(verdict: Verdict) -> str:
    """Return the parameters of the chip that were set, with the values of its file."""
    chip = verdict.on
    return ", ".join(f"{key} = {chip.get(key)} (file: {was})" for key, was in chip.overridden.items())


def guessed_sizes(verdict: Verdict) -> list[str]:
    """Return the keys of the memory sizes of the verdict that are guesses."""
    used = {
        f"memory.{b.memory}.{key}"
        for b in verdict.inequalities
        if b.memory != GLOBAL or b.slack_bytes < 0
        for key in (("size_bytes",) if b.memory == GLOBAL else ("size_bytes", "reserved_bytes", "align_bytes"))
    }
    return [f.key for f in verdict.on.figures() if f.key in used and f.status == "guess"]


def _rules(verdict: Verdict, *, everything: bool) -> None:
    """Print the rules that do not hold; or all of them, with the codes of statuses and their names once below."""
    rules = verdict.rules if everything else verdict.broken
    title = "rules" if everything else f"rules that do not hold, of {len(verdict.rules)}"
    heading(title)
    statuses = dict.fromkeys(rule.status for rule in rules if rule.status)
    rows = [
        (
            "yes" if rule.ok else "NO",
            rule.name,
            rule.expected,
            rule.given,
            "" if rule.status is None else f"{rule.status.code}" if everything else rule.status.name,
        )
        for rule in rules
    ]
    prose = [TextColumn(name, prose=True) for name in ("rule", "expected", "given", "status")]
    table([TextColumn("ok"), *prose], rows, ["" if rule.ok or not everything else "red" for rule in rules])
    if everything and statuses:
        line(f"status of a call that breaks one: {', '.join(f'{s.code}{TIED}{s.name}' for s in statuses)}")


def _depends(b: EvaluatedInequality) -> bool:
    """Return True if a dim enters the left side; a fixed tile needs the same bytes at every shape."""
    return bool(b.inequality.left.names() - set(b.inequality.minimum))


def _limiting(verdict: Verdict) -> EvaluatedInequality | None:
    """Return the inequality that a larger shape breaks first: of those that depend on it, the least relative slack."""
    candidates = [b for b in verdict.inequalities if _depends(b) and b.right_bytes > 0 and b.memory in ON_CHIP]
    return min(candidates, key=lambda b: b.slack_bytes / b.right_bytes, default=verdict.tightest)


def _inequalities(verdict: Verdict, *, everything: bool) -> None:
    """Print the inequalities that depend on the shape or decide the verdict."""
    limit = _limiting(verdict)

    def matters(b: EvaluatedInequality) -> bool:
        return _depends(b) or b.slack_bytes < 0 or b is limit

    listed = [b for b in verdict.inequalities if everything or matters(b)]
    others = [b for b in verdict.inequalities if not (everything or matters(b))]
    tiles = "tiles by hand" if verdict.tiles else "the smallest tiles"
    heading(f"buffers against memory, at {tiles} [bytes]")
    columns = (
        TextColumn("phase", prose=True),
        TextColumn("memory"),
        TextColumn("inequality", prose=True, last=True),
        TextColumn("needs", number=True),
        TextColumn("has", number=True),
        TextColumn("to spare", number=True),
    )
    rows = [(b.phase, b.memory, _formula(b.text), b.left_bytes, b.right_bytes, b.slack_bytes) for b in listed]
    table(columns, rows, ["red" if b.slack_bytes < 0 else "" for b in listed])
    if others:
        memories = ", ".join(dict.fromkeys(b.memory for b in others))
        spare = min(b.slack_bytes / max(b.right_bytes, 1) for b in others)
        line(
            f"and {several(len(others), 'inequality', 'inequalities')} without dims, of {memories}, each with "
            f"{percent(spare)} or more to spare: --all"
        )


def _formula(text: str) -> str:
    """Return an inequality in which a line may end before an operator only."""
    for operator in ("<=", "+", "-"):
        text = text.replace(f"{operator} ", f"{operator}{TIED}")
    return text.replace(" words", f"{TIED}words").replace(" bytes", f"{TIED}bytes")


def _buffers(buffers: Sequence[BufferUse], *, everything: bool) -> None:
    heading("buffers, largest first [bytes]")
    listed = buffers if everything else buffers[:SHOWN_BUFFERS]
    columns = (
        TextColumn("buffer"),
        TextColumn("phase", prose=True),
        TextColumn("memory"),
        TextColumn("holds", prose=True),
        TextColumn("bytes", number=True),
        TextColumn("share", number=True),
    )
    table(columns, [(b.name, b.phase, b.memory, _holds(b), b.bytes, percent(b.share)) for b in listed])
    if len(buffers) > len(listed):
        line(f"and {several(len(buffers) - len(listed), 'smaller buffer')}: --all")


def _holds(buffer: BufferUse) -> str:
    return f"{f'{buffer.slots} x ' if buffer.slots > 1 else ''}{buffer.shape} {buffer.dtype}"
