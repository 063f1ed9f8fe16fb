"""What a reference reads of a plan and of its call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Call(Protocol):
    """The part of a call that an operator's `expected` reads."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The numbers of the operator."""

    @property
    def options(self) -> Mapping[str, bool]:
        """The options, on or off."""

    @property
    def dtype(self) -> str:
        """The main dtype."""

    @property
    def dims(self) -> Mapping[str, int]:
        """The sizes by name."""


class Plan(Protocol):
    """The part of a plan that an operator's `compare` reads."""

    @property
    def call(self) -> Call:
        """The call that is planned."""

    @property
    def phases(self) -> Sequence[Any]:
        """What runs, with the cores and tiles of each."""

    @property
    def route(self) -> str:
        """The kernels that run: "kernel", "composite" or "empty"."""


@dataclass(frozen=True)
class Stated:
    """A call that a test states."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, bool] = field(default_factory=dict)
    dtype: str = "float32"
    dims: Mapping[str, int] = field(default_factory=dict)
