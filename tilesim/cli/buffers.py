"""`tilesim check buffers.toml`: does a list of buffers fit?"""

from __future__ import annotations

from dataclasses import replace

from tilesim.analysis.table import shown
from tilesim.cli.console import TextColumn, emit, fields, heading, line, percent, table
from tilesim.cli.group import EXIT_NO, EXIT_YES
from tilesim.cli.question import CallQuestion, Problems, pairs_of
from tilesim.cli.verdict import NO_STYLE, STYLES
from tilesim.feasibility.buffer_file import load_buffers
from tilesim.feasibility.buffer_verdict import BuffersVerdict, check_buffers

ENDING = ".toml"
"""What the name of a file of buffers ends in."""


def answer_buffers(question: CallQuestion, *, as_json: bool) -> int:
    """Print the verdict on a file of buffers; returns the exit code for it.

    Sizes are given as words or by --set; a key of --set with a dot is a parameter of the chip.
    """
    problems = Problems()
    pairs = question.changes or ()
    plain = [pair for pair in pairs if "." not in pair.partition("=")[0]]
    dotted = [pair for pair in pairs if "." in pair.partition("=")[0]]
    chip = problems.result_of(replace(question, changes=dotted).load_chip)
    sizes = problems.result_of(lambda: pairs_of("sizes", [*(question.words or ()), *plain]))
    problems.result_of(lambda: load_buffers(question.op))
    problems.refuse()
    if chip is None or sizes is None:
        raise AssertionError
    verdict = check_buffers(question.op, chip, sizes, dtype=question.dtype)
    if as_json:
        emit(verdict.to_json())
    else:
        show(verdict)
    return EXIT_YES if verdict.ok else EXIT_NO


def show(verdict: BuffersVerdict) -> None:
    """Print a verdict for people: what was decided and why, then what it rests on."""
    sizes = " ".join(f"{name}={value}" for name, value in verdict.sizes.items())
    line(f"{verdict.verdict}: {verdict.name} on {verdict.chip}: {sizes}", STYLES.get(verdict.verdict, NO_STYLE))
    if verdict.culprit:
        line(verdict.culprit)
    notes = [("note", note) for note in verdict.notes]
    grid = [("programs", f"{verdict.programs:,}")] if verdict.programs is not None else []
    source = [("source", verdict.file.source)] if verdict.file.source else []
    fields([*notes, *grid, *source])
    if verdict.needs:
        heading("memories [bytes]")
        columns = (
            TextColumn("memory"),
            TextColumn("phase", prose=True),
            TextColumn("needs", number=True),
            TextColumn("has", number=True),
            TextColumn("to spare", number=True),
            TextColumn("used", number=True),
        )
        rows = [
            (
                need.memory,
                need.phase,
                need.needed_bytes,
                need.available_bytes,
                need.slack_bytes,
                percent(need.needed_bytes / need.available_bytes) if need.available_bytes > 0 else "",
            )
            for need in verdict.needs
        ]
        table(columns, rows)
        heading("buffers, largest first [bytes]")
        kinds = (
            TextColumn("buffer"),
            TextColumn("memory"),
            TextColumn("holds", prose=True),
            TextColumn("bytes", number=True),
        )
        holds = [
            (
                b.name,
                b.memory,
                f"{f'{b.slots} slots of ' if b.slots > 1 else ''}{b.shape} {b.dtype}".rstrip(),
                b.bytes,
                percent(b.share),
            )
            for b in verdict.buffers
        ]
        table((*kinds, TextColumn("share", number=True)), holds)
    _limits(verdict)
    if verdict.remedies:
        heading("what would pass (checked)")
        for remedy in verdict.remedies:
            line(f"  {remedy}")


def _limits(verdict: BuffersVerdict) -> None:
    """Print what every size can be."""
    if not verdict.limits:
        return
    heading("sizes, each with the others as they are")
    columns = (
        TextColumn("size"),
        TextColumn("given", number=True),
        TextColumn("least", number=True),
        TextColumn("largest", number=True),
        TextColumn("power of two", number=True),
        TextColumn("fixed bytes", number=True),
        TextColumn("scaling bytes", number=True),
    )
    rows = [
        (
            limit.name,
            limit.given,
            limit.least,
            "no limit" if not limit.limited else shown(limit.largest) or "none",
            shown(limit.power_of_two),
            limit.fixed_bytes,
            limit.scaling_bytes,
        )
        for limit in verdict.limits
    ]
    table(columns, rows)
