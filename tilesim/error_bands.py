"""How far estimates are known to be off, by chip and class of operator, from a table that a validation made."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilesim.cases import FAMILY
from tilesim.chip import Chip, load_shipped
from tilesim.validate import Validation

TABLE = Path(__file__).parent / "data" / "accuracy.csv"
COLUMNS = ("chip", "class", "rows", "mape", "median_ape", "worst", "held_out_mape", "source")
"""Errors in percent of measured times; held_out_mape is of rows that the figures were not fitted to."""

NAMED = 3
"""As many figures are named where a chip is not the shipped one."""


@dataclass(frozen=True)
class Accuracy:
    """The known error of estimates for one chip and class of operator; `rows` is 0 where nobody has measured."""

    chip: str
    kind: str
    """The class: elementwise, glu, norm, softmax, quant or matmul; "" if the operator has none."""
    rows: int = 0
    mape: float = math.nan
    """Mean absolute error [%]."""
    median_ape: float = math.nan
    worst: float = math.nan
    """The largest error, with its sign [%]."""
    held_out_mape: float = math.nan
    """Mean absolute error of rows that figures were not fitted to [%]; NaN if none were held out."""
    source: str = ""
    why: str = ""
    """Why nothing is known."""

    @property
    def validated(self) -> bool:
        """Whether anything was measured to compare with."""
        return self.rows > 0

    @property
    def band(self) -> float:
        """Percent to show after a plus-minus sign: of held-out rows where there are some."""
        return self.mape if math.isnan(self.held_out_mape) else self.held_out_mape

    def __str__(self) -> str:
        """`±8 % (15 matmul kernels of ascend910b2, worst -46 %)`, or `unvalidated` with the reason."""
        if not self.validated:
            return f"unvalidated: {self.why}"
        return f"±{self.band:.0f} % ({self.rows} {self.kind} kernels of {self.chip}, worst {self.worst:+.0f} %)"


def accuracy(chip: Chip | str, operator: str) -> Accuracy:
    """The error band that is known for estimates of an operator on a chip.

    >>> accuracy("ascend910b4", "softmax").validated
    False
    """
    name = chip if isinstance(chip, str) else chip.name
    kind = FAMILY.get(operator, "")
    if not kind:
        return Accuracy(name, kind, why=f"no kernel like {operator} was compared with a measurement")
    if not isinstance(chip, str):
        changed = tuple(chip.overridden)
        if changed:
            return Accuracy(name, kind, why=f"{', '.join(changed)} set by hand")
        differing = _differing(chip)
        if differing:
            return Accuracy(name, kind, why=differing)
    found = _table().get((name.lower(), kind))
    return found or Accuracy(name, kind, why=f"no measured {kind} kernel of {name}")


def _differing(chip: Chip) -> str:
    """Why a chip is not the one that was measured: its figures that move times and are not those shipped."""
    shipped = _shipped(chip.name.lower())
    if shipped is None:
        return ""
    mine = _moving(chip)
    keys = [key for key in mine | shipped if mine.get(key) != shipped.get(key)]
    if not keys:
        return ""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"this {chip.name} is not the shipped one: {', '.join(keys[:NAMED])}{more} differ{'s' * (len(keys) == 1)}"


def _moving(chip: Chip) -> dict[str, object]:
    """The figures of a chip; what the system keeps of a workspace moves no time."""
    return {f.key: f.value for f in chip.figures() if not f.key.startswith("workspace.")}


@functools.lru_cache(maxsize=32)
def _shipped(name: str) -> dict[str, object] | None:
    found = load_shipped(name)
    return None if found is None else _moving(found)


def table_text(validations: Iterable[Validation], source: str) -> str:
    """The table as CSV, from validations with a fit, whose held-out rows it shows."""
    lines = [",".join(COLUMNS)]
    for v in validations:
        for kind, s in v.families.items():
            held = [h for h in v.fit.held if FAMILY.get(_operator(v, h.operator), "") == kind] if v.fit else []
            rows = sum(h.rows for h in held)
            out = f"{sum(h.mape * h.rows for h in held) / rows:.1f}" if rows else ""
            lines.append(f"{v.chip},{kind},{s.rows},{s.mape:.1f},{s.median_ape:.1f},{s.worst:.1f},{out},{source}")
    return "\n".join(lines) + "\n"


def _operator(v: Validation, name: str) -> str:
    """Our operator for what a measurement calls it."""
    return next((c.row.case.name for c in v.compared if c.row.operator == name and c.row.case), name)


@functools.lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], Accuracy]:
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
            r["source"],
        )
        for r in rows
    }
