"""Measured times as files write them: a time is a finite number above 0."""

from __future__ import annotations

import math
import re

ABSENT = ("", "n/a", "na", "null", "none", "-")
"""Empty cells of a table, lower case."""
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""Numbers with commas between thousands."""


def duration(value: object) -> tuple[float, str]:
    """Return a measured time [us] and "", or NaN and the reason: a time is a finite number above 0.

    >>> duration(2.5), duration("soon")[1], duration(-3)[1]
    ((2.5, ''), 'the duration is not a number', 'the duration is below 0')
    """
    if value is None:
        return math.nan, "no duration"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan, "the duration is not a number"
    try:
        time_us = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        time_us = math.inf
    if not math.isfinite(time_us):
        return math.nan, "the duration is not finite"
    if time_us <= 0:
        return math.nan, "the duration is below 0" if time_us < 0 else "the duration is 0"
    return time_us, ""


def number_in(cell: str) -> float | str | None:
    """Return the number in a cell of a table, its text if that is not a number, None for an empty cell.

    Commas stand between thousands only.

    >>> number_in("1,234.5"), number_in("1,5"), number_in("N/A")
    (1234.5, '1,5', None)
    """
    text = cell.strip()
    if text.lower() in ABSENT:
        return None
    bare = text.replace(",", "") if THOUSANDS.fullmatch(text) else text
    try:
        return text if "_" in bare else float(bare)
    except ValueError:
        return text
