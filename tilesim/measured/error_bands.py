"""Known errors of estimates by chip and class of operator, from the table of a validation."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_shipped
from tilesim.kernels.broadcast import is_broadcast
from tilesim.measured.profiled_calls import class_beside
from tilesim.operators.operator import Call, Operator
from tilesim.ops import load_operator

TABLE = Path(__file__).parent / "data" / "accuracy.csv"
COLUMNS = ("chip", "class", "rows", "mape", "median_ape", "worst", "held_out_mape", "held_out_worst", "source")
"""Errors in percent of measured times; held-out errors are of rows that the fit did not see."""

NAMED = 3
"""Most parameters that a reason names for a chip that differs from the shipped one."""


@dataclass(frozen=True)
class Accuracy:
    """The known error of estimates for one chip and class of operator; `rows` is 0 without measurements."""

    chip: str
    kind: str
    """The class: elementwise, broadcast, glu, norm, softmax, quant or matmul; "" if the operator has none."""
    rows: int = 0
    mape: float = math.nan
    """Mean absolute error [%]."""
    median_ape: float = math.nan
    worst: float = math.nan
    """The largest error, with its sign [%]."""
    held_out_mape: float = math.nan
    """Mean absolute error of rows that the fit did not see [%]; NaN without such rows."""
    held_out_worst: float = math.nan
    """The largest error of those rows, with its sign [%]."""
    source: str = ""
    why: str = ""
    """The reason why no error is known."""

    @property
    def validated(self) -> bool:
        """True if estimates were compared with measurements."""
        return self.rows > 0

    @property
    def band(self) -> float:
        """Mean absolute error [%]: of held-out rows if there are any, else of all."""
        return self.mape if math.isnan(self.held_out_mape) else self.held_out_mape

    def __str__(self) -> str:
        """`±8 % (15 matmul kernels of ascend910b2, worst -46 %)`, or `unvalidated` with the reason."""
        if not self.validated:
            return f"unvalidated: {self.why}"
        worst = self.worst if math.isnan(self.held_out_worst) else self.held_out_worst
        return f"±{self.band:.0f} % ({self.rows} {self.kind} kernels of {self.chip}, worst {worst:+.0f} %)"


def known_accuracy(call: Call, chip: Chip, by_hand: Mapping[str, int] | None = None) -> Accuracy:
    """Return the known error of the times of a call on a chip, with the tiles and cores set `by_hand`."""
    op = call.operator
    own_class = class_beside(call.dtype, broadcasts=is_broadcast(call)) if op.accuracy_class else ""
    kind = own_class or op.accuracy_class
    usual = {option.name: option.default for option in op.options} | dict(op.measured_options)
    changed = {o.name: o.text(on=call.options[o.name]) for o in op.options if call.options[o.name] != usual[o.name]}
    unpredicted = [text for name, text in changed.items() if name in op.measured_options]
    if kind and unpredicted:
        return Accuracy(chip.name, kind, why=f"no measured row is predicted with {', '.join(unpredicted)}")
    known = accuracy(chip, op, own_class)
    others = [f"{key}={value}" for key, value in (by_hand or {}).items()] + list(changed.values())
    if known.validated and others:
        return Accuracy(known.chip, known.kind, why=f"no measured kernel has {', '.join(others)}")
    return known


def accuracy(chip: Chip | str, operator: Operator | str, own_class: str = "") -> Accuracy:
    """Return the known error of estimates of an operator on a chip; `own_class` replaces its accuracy class.

    >>> accuracy("ascend910b4", "softmax").validated
    False
    """
    op = load_operator(operator)
    name, kind = chip if isinstance(chip, str) else chip.name, own_class or op.accuracy_class
    if not kind:
        return Accuracy(name, kind, why=f"no kernel like {op.name} was compared with a measurement")
    if not isinstance(chip, str):
        changed = tuple(chip.overridden)
        if changed:
            return Accuracy(name, kind, why=f"{', '.join(changed)} set by hand")
        differing = _differing(chip)
        if differing:
            return Accuracy(name, kind, why=differing)
    known = _table().get((name.lower(), kind))
    return known or Accuracy(name, kind, why=f"no measured {kind} kernel of {name}")


def _differing(chip: Chip) -> str:
    """The parameters that move times and differ from the shipped chip of this name, as a reason; "" for none."""
    shipped = _shipped(chip.name.lower())
    if shipped is None:
        return ""
    values = _moving(chip)
    keys = [key for key in values | shipped if values.get(key) != shipped.get(key)]
    if not keys:
        return ""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"this {chip.name} is not the shipped one: {', '.join(keys[:NAMED])}{more} differ{'s' * (len(keys) == 1)}"


def _moving(chip: Chip) -> dict[str, object]:
    """The parameters of a chip that times may depend on: all but the system's part of a workspace."""
    return {f.key: f.value for f in chip.figures() if not f.key.startswith("workspace.")}


@functools.lru_cache(maxsize=32)
def _shipped(name: str) -> dict[str, object] | None:
    """The parameters of the shipped chip of a name that times depend on, None for an unknown name."""
    chip = load_shipped(name)
    return None if chip is None else _moving(chip)


@functools.lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], Accuracy]:
    """(chip, class) -> its known errors."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (r["chip"], r["class"]): Accuracy(
            r["chip"],
            r["class"],
            int(r["rows"]),
            float(r["mape"]),
            float(r["median_ape"]),
            float(r["worst"]),
            float(r["held_out_mape"] or "nan"),
            float(r["held_out_worst"] or "nan"),
            r["source"],
        )
        for r in rows
    }
