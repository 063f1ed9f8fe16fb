"""The plan that a command works on; where there is none, the refusal is the command's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilesim.cli.commands import EXIT_NO, EXIT_YES
from tilesim.cli.console import note, percent
from tilesim.cli.inputs import asked, tiles_of
from tilesim.cli.verdict import refusals_answered
from tilesim.errors import TilesimError

if TYPE_CHECKING:
    from tilesim.planning.plan import Plan


@dataclass(frozen=True)
class PlanAnswer:
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
) -> PlanAnswer:
    """The plan that a command line asks for; `given` is what else is known of the call, such as shapes in a file.

    A verdict that is no ends the command as `check` does. Where the vendor's first call takes what does not fit, the
    plan is the vendor's; the exit code is that of the verdict.
    """
    from tilesim.planning.plan import plan_of  # noqa: PLC0415 - numpy and pydantic load when a command runs

    wanted = asked(op, words, chip, changes, chips, dtype, given)
    sizes = tiles_of(tiles)
    with refusals_answered(as_json=as_json):
        made = plan_of(wanted.call, wanted.chip, sizes)
    if made.note:
        note(f"note: {made.verdict}; {made.note}")
    return PlanAnswer(made, EXIT_YES if made.ok else EXIT_NO)


def fusing_text(plan: Plan) -> str:
    """What fusing would save, or why there is nothing to fuse into; "" for a plan that is no composite."""
    from tilesim.simulation.fusion_saving import COMPOSITE, fusion_saving  # noqa: PLC0415 - numpy loads when a command runs

    if plan.route != COMPOSITE:
        return ""
    try:
        saving = fusion_saving(plan)
    except TilesimError as error:
        return f"no fused kernel to compare with: {'; '.join(getattr(error, 'problems', ())) or error}"
    saved, whole = saving.saved, saving.composite
    share = percent(saved.time_us / whole.time_us) if whole.time_us else percent(0)
    return (
        f"one fused kernel would save {saved.time_us:,.1f} of {whole.time_us:,.1f} us ({share}), "
        f"{saved.launches} of {whole.launches} launches, {saved.bytes:,} of {whole.bytes:,} B of global memory traffic"
    )
