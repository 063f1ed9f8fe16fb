"""Parameters of a chip that a price rests on.

A price reads its parameters once, when it is made, and computes from those values alone. So it
declares exactly the keys that it reads, and only a change of one of them can change it.
"""

from __future__ import annotations

from tilesim.chip.chip import Chip


class Parameters:
    """Numbers of a chip by dotted key, with a record of the keys that were read."""

    def __init__(self, chip: Chip) -> None:
        self._values = chip.values
        self._read: dict[str, None] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that were read, in that order."""
        return tuple(self._read)

    def __getitem__(self, key: str) -> float:
        self._read[key] = None
        return self._values[key]

    def whole(self, key: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self[key])

    def __contains__(self, key: str) -> bool:
        return key in self._values
