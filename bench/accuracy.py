"""How far predicted times are from measured ones, on the points of the package and on a larger file if there is one.

`python -m bench.accuracy [FILE ...]` prints, for each chip with measured rows, its classes of kernels. Without FILE, a
`measured.json` beside the checkout is taken too where it exists.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tilesim.chip import chips_found
from tilesim.measured import Measurement, load_measured
from tilesim.validate import Summary, Validation, validate

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "measured" / "measured.json"


def validations(rows: list[Measurement], *, everything: bool) -> Iterable[tuple[Validation, float]]:
    """The validation of every chip that rows are of, with the seconds it took."""
    for chip in sorted({row.chip for row in rows} & set(chips_found())):
        start = time.perf_counter()
        made = validate(rows, chip, all=everything)
        if made.compared or made.skipped:
            yield made, time.perf_counter() - start


def line(name: str, kind: str, summary: Summary, more: str = "") -> str:
    """One line of the table; errors in percent of the measured time."""
    rank = "" if summary.rank_correlation is None else f"{summary.rank_correlation:.3f}"
    return (
        f"{name:14} {kind:12} {summary.rows:5} {summary.mape:7.1f} {summary.median_ape:7.1f} {summary.worst:+8.1f} "
        f"{summary.bias:+7.1f} {rank:>6}  {more}"
    ).rstrip()


def show(title: str, rows: list[Measurement], *, everything: bool = False) -> None:
    """Print the tables of one file."""
    print(f"\n{title}")
    print(f"{'chip':14} {'class':12} {'rows':>5} {'MAPE':>7} {'median':>7} {'worst':>8} {'bias':>7} {'rank':>6}")
    for made, seconds in validations(rows, everything=everything):
        left = f"{len(made.skipped)} rows left out, {seconds:.1f} s"
        if not made.compared:
            print(f"{made.chip:14} nothing compared; {left}")
            continue
        print(line(made.chip, "all", made.overall, left))
        for kind, summary in made.families.items():
            print(line("", kind, summary))


def main() -> None:
    """Validate and print."""
    show("the points of the package", load_measured())
    files = [Path(name) for name in sys.argv[1:]] or ([BESIDE] if BESIDE.exists() else [])
    for file in files:
        rows = load_measured(file)
        show(f"{file.name}, rows measured under control", rows)
        show(f"{file.name}, all rows", rows, everything=True)


if __name__ == "__main__":
    main()
