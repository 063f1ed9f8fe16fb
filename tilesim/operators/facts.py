"""The facts of a call on a chip that conditions compare, and their names.

A dim or an attribute is a number under its own name and an option a flag; "x.shape", "x.dtype" and "x.null" belong to
a tensor, "X.axes" is the run of axes behind a folded name. The name of a parameter of the chip is its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilesim.chip.chip import Chip
from tilesim.errors import BadChip
from tilesim.operators.conditions import Condition, Fact, Flag, Kind, unless_known
from tilesim.program.sizes import Shape, dim

FAMILY: Final = "chip.family"
"""The word for the family of the chip."""
DTYPE: Final = "dtype"
"""The word for the dtype of the call."""
VISIBLE_UB_BYTES: Final = dim("memory.ub.size_bytes") - dim("memory.ub.reserved_bytes")
"""Bytes of the unified buffer that the platform shows."""


def shape_of(tensor: str) -> Shape:
    """Return the shape of a tensor; unknown for a null tensor."""
    return Shape(f"{tensor}.shape")


def dtype_of(tensor: str) -> str:
    """Return the word for the dtype of a tensor; unknown for a null tensor."""
    return f"{tensor}.dtype"


def axes_of(folded: str) -> Shape:
    """Return the axes behind the name of a folded run."""
    return Shape(f"{folded}.axes")


def null(tensor: str) -> Flag:
    """Return the condition that null is given for a tensor."""
    return Flag(f"{tensor}.null")


def absent(*tensors: str) -> Condition:
    """Return the condition that a tensor is null or of unknown shape."""
    return unless_known(*(Fact(shape_of(tensor).name, Kind.SHAPE) for tensor in tensors))


def unknown(*numbers: str) -> Condition:
    """Return the condition that a dim or an attribute is unknown."""
    return unless_known(*(Fact(number, Kind.NUMBER) for number in numbers))


class Facts(dict[str, Any]):
    """The facts of a call and of its chip by name; parameters of the chip are looked up on first use."""

    def __init__(self, facts: Mapping[str, Any], chip: Chip) -> None:
        super().__init__(facts)
        self[FAMILY] = chip.family
        self.chip = chip

    def __missing__(self, key: str) -> int | float:
        """Return a parameter of the chip, and keep it."""
        try:
            value = self.chip.get(key)
        except BadChip:
            raise KeyError(key) from None
        self[key] = value
        return value
