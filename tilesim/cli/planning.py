"""The plan that a command works on; where there is none, the refusal is the command's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilesim.cli.commands import EXIT_NO, EXIT_YES
from tilesim.cli.console import note
from tilesim.cli.inputs import asked, tiles_of
from tilesim.cli.verdict import refusals_answered

if TYPE_CHECKING:
    from tilesim.planning.plan import Plan


@dataclass(frozen=True)
class Planned:
    """A plan, and the exit code of a command that needs no more than it."""

    plan: Plan
    code: int


def planned(
    op: str,
    words: Sequence[str] | None,
    chip: str | None,
    changes: Sequence[str] | None,
    chips: Path | None,
    dtype: str | None,
    tiles: Sequence[str] | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    as_json: bool,
) -> Planned:
    """The plan that a command line asks for; `given` is what else is known of the call, such as shapes in a file.

    A verdict that is no ends the command as `check` does. Where the vendor's first call takes what does not fit, the
    plan is the vendor's; the exit code is that of the verdict.
    """
    from tilesim.planning.plan import planned as planned_call  # noqa: PLC0415 - numpy and pydantic load when a command runs

    wanted = asked(op, words, chip, changes, chips, dtype, given)
    sizes = tiles_of(tiles)
    with refusals_answered(as_json=as_json):
        made = planned_call(wanted.call, wanted.chip, sizes)
    if made.note:
        note(f"note: {made.verdict}; {made.note}")
    return Planned(made, EXIT_YES if made.ok else EXIT_NO)
