"""Values of chip parameters as text: read from a command line, written to a chip file, and their units."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final

from tilesim.chip.tables import ON_CHIP
from tilesim.program.units import BLOCK_BYTES

_LARGE: Final = 10_000_000
"""The least whole number written in groups of three digits, and the least other number with an exponent."""


def number_meant(given: float | str, *, whole: bool) -> object:
    """Return the number that `given` means; any other value unchanged, for the check of the chip to refuse.

    >>> number_meant("196_608", whole=True), number_meant("1.65e9", whole=True), number_meant("8.5", whole=False)
    (196608, 1650000000, 8.5)
    >>> number_meant("many", whole=True), number_meant(8.5, whole=True)
    ('many', 8.5)
    """
    number: object = given
    if isinstance(given, str):
        for read in (int, float):
            try:
                number = read(given)
                break
            except ValueError:
                continue
    return int(number) if whole and isinstance(number, float) and number.is_integer() else number


def toml_value(value: str | float | tuple[str, ...]) -> str:
    """Return a value in TOML, large numbers in a form that people read easily.

    >>> toml_value(196608), toml_value(1_800_000_000), toml_value(1.31e12), toml_value(8.3), toml_value(("a", "b"))
    ('196608', '1_800_000_000', '1.31e12', '8.3', '["a", "b"]')
    """
    if isinstance(value, int):
        return f"{value:_}" if value >= _LARGE else str(value)
    if isinstance(value, float):
        return repr(value) if value < _LARGE else str(Decimal(repr(value)).normalize()).replace("E+", "e")
    return json.dumps(value, ensure_ascii=False)  # JSON's texts and lists are TOML's too


def unit_of(key: str) -> str:
    """Return the unit of a parameter of a chip, from the end of its key.

    >>> unit_of("memory.ub.size_bytes"), unit_of("memory.gm.read_bytes_per_s"), unit_of("cores.vector")
    ('bytes', 'bytes/s', 'cores')
    """
    word = key.rpartition(".")[2]
    ends = {
        "_bytes_per_s": "bytes/s",
        "bytes_per_cycle": "bytes/cycle",
        "_bytes": "bytes",
        "_cycles": "cycles",
        "_us": "us",
        "_hz": "Hz",
    }
    if key.startswith("cores."):
        return "cores"
    return next((unit for end, unit in ends.items() if word.endswith(end)), "")


def step_of(key: str) -> int:
    """Return the smallest change of a parameter that is a whole number: a block for on-chip memories, else 1."""
    return BLOCK_BYTES if key.startswith(tuple(f"memory.{space}." for space in ON_CHIP)) else 1
