"""How many random cases a test takes: a few, or the full number where TILESIM_TRIALS is set (`make trials`)."""

import os

FULL = 10_000


def trials(few: int) -> int:
    """Return the number of random cases."""
    return FULL if os.environ.get("TILESIM_TRIALS") else few
