"""What one fused kernel would save, beside a plan of several launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesim.cli.console import percent
from tilesim.errors import TilesimError

if TYPE_CHECKING:
    from tilesim.planning.plan import Plan


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
