"""A measured time of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilesim.measured.profiled_calls import Shape
from tilesim.measured.sample_kernels import EmptyKernel
from tilesim.operators.operator import KernelCall
from tilesim.operators.shapes import shape_text


@dataclass(frozen=True)
class Measurement:
    """One measured time. `problem` is the reason why it cannot be predicted, "" if it can."""

    chip: str
    operator: str
    """The source's name of it."""
    shapes: tuple[Shape, ...]
    dtype: str
    time_us: float
    """NaN if the source has no valid time, with the reason in `problem`."""
    tier: str
    """A: one kernel, controlled; B: from a run of a model, or without control."""
    source: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)
    """Tiles, cores and options of a published sample; empty for a kernel of the library."""
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    call: KernelCall | EmptyKernel | None = None
    problem: str = ""

    @property
    def library(self) -> bool:
        """True for a kernel of the vendor's library, which has a fixed time of its own; False for a sample."""
        return not self.variant

    @property
    def text(self) -> str:
        """Operator, dtype and shapes in one line."""
        return " ".join([self.operator, self.dtype, *map(shape_text, self.shapes)]).strip()
