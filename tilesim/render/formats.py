"""Format of a file, by the ending of its name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tilesim.errors import BadInput, did_you_mean


def format_of(path: str | Path, formats: Collection[str]) -> str:
    """Return the one of `formats` that a file's name ends in, in any case. Raises BadInput for another ending."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in formats:
        hint = did_you_mean(ending, formats)
        raise BadInput(str(path), [f"must end in one of {', '.join(f'.{f}' for f in formats)};{hint}".rstrip(";")])
    return ending
