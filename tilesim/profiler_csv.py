"""A profiler's table of kernels, whatever columns it has: read by their names, a missing one is no error.

Layouts seen: kernel_details.csv (8 to 47 columns), op_summary.csv, and one operator's PipeUtilization.csv by block.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilesim.cases import Shape
from tilesim.errors import BadInput

NAMES: Mapping[str, tuple[str, ...]] = {
    "name": ("op name", "name", "kernel name"),
    "kind": ("op type", "type", "optype"),
    "core": ("task type", "accelerator core"),
    "time_us": ("task duration(us)", "duration(us)", "duration"),
    "blocks": ("block dim", "block num"),
    "inputs": ("input shapes", "input shape"),
    "input_types": ("input data types", "input data type"),
    "outputs": ("output shapes", "output shape"),
}
"""What we call a column -> what profilers do, lower case."""
PIPES: Mapping[str, tuple[str, ...]] = {
    "v": ("aiv_vec_time(us)", "vec_time(us)"),
    "mte2": ("aiv_mte2_time(us)", "mte2_time(us)"),
    "mte3": ("aiv_mte3_time(us)", "mte3_time(us)"),
    "m": ("aic_mac_time(us)", "aic_cube_time(us)", "mac_time(us)"),
    "mte1": ("aic_mte1_time(us)", "mte1_time(us)"),
    "cube mte2": ("aic_mte2_time(us)",),
    "fixp": ("aic_fixpipe_time(us)", "fixpipe_time(us)"),
}
CORES = ("vector", "cube", "mix", "aiv", "aic", "aicore")
"""What the table of one operator calls its type: the cores that it runs on."""
ABSENT = ("", "n/a", "na", "null", "none", "-")


@dataclass(frozen=True)
class Profiled:
    """One call of a kernel in a profile; what the table does not have is empty."""

    name: str
    kind: str
    core: str
    time_us: float
    """NaN if the table does not say."""
    blocks: int
    inputs: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    outputs: tuple[Shape, ...]
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    """Pipe -> time of its work, of the pipes that have any."""
    shaped: bool = True
    """Whether the table has shapes at all."""


def read_profile(path: str | Path) -> list[Profiled]:
    """The kernels of a profile, in the order of the file.

    Raises BadInput for a file that cannot be read or that has neither kernels with times nor pipe times of blocks.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text in UTF-8"
        raise BadInput(str(path), [f"cannot be read: {reason}".lower()]) from None
    lines = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    if not lines:
        raise BadInput(str(path), ["is empty"])
    header = {_clean(cell).lower(): i for i, cell in enumerate(lines[0])}
    places = {key: next((header[n] for n in names if n in header), -1) for key, names in NAMES.items()}
    pipes = {pipe: next((header[n] for n in names if n in header), -1) for pipe, names in PIPES.items()}
    pipes = {pipe: place for pipe, place in pipes.items() if place >= 0}
    rows = [[_clean(cell) for cell in line] for line in lines[1:] if any(map(_clean, line))]
    if "block_id" in header and pipes:
        return [_blocks(Path(path), rows, pipes)] if rows else []
    if places["time_us"] < 0 or (places["name"] < 0 and places["kind"] < 0):
        raise BadInput(
            str(path), ["has no columns of kernel names and durations; is it a profiler's table of kernels?"]
        )
    return [_profiled(row, places, pipes) for row in rows]


def _profiled(row: Sequence[str], places: Mapping[str, int], pipes: Mapping[str, int]) -> Profiled:
    def cell(key: str) -> str:
        place = places[key]
        return row[place] if 0 <= place < len(row) and row[place].lower() not in ABSENT else ""

    found = {pipe: _number(row[place]) for pipe, place in pipes.items() if place < len(row)}
    worked = {pipe: value for pipe, value in found.items() if value > 0}
    if "cube mte2" in worked:
        worked["mte2"] = max(worked.pop("cube mte2"), worked.get("mte2", 0.0))
    blocks = _number(cell("blocks"))
    return Profiled(
        name=cell("name"),
        kind=cell("kind"),
        core=cell("core"),
        time_us=_number(cell("time_us")),
        blocks=0 if math.isnan(blocks) else int(blocks),
        inputs=_shapes(cell("inputs")),
        dtypes=tuple(part for part in re.split("[;]", cell("input_types").strip('"')) if part.lower() not in ABSENT),
        outputs=_shapes(cell("outputs")),
        pipes_us=worked,
        shaped=places["inputs"] >= 0,
    )


def _blocks(path: Path, rows: Sequence[Sequence[str]], pipes: Mapping[str, int]) -> Profiled:
    """One kernel from the pipe times of its blocks: of every pipe the busiest block.

    Name, duration and whatever else it has are from the OpBasicInfo table that the tool writes into the same folder.
    """
    most = {
        pipe: max((v for row in rows if place < len(row) and (v := _number(row[place])) > 0), default=0.0)
        for pipe, place in pipes.items()
    }
    worked = {("mte2" if pipe == "cube mte2" else pipe): value for pipe, value in most.items() if value}
    beside = sorted(path.parent.glob("OpBasicInfo*.csv"))
    try:
        known = read_profile(beside[-1])[:1] if beside else []
    except BadInput:
        known = []
    for basic in known:
        kind = "" if basic.kind.lower() in CORES else basic.kind
        return replace(basic, kind=kind, blocks=basic.blocks or len(rows), pipes_us=worked)
    return Profiled(path.stem, "", "", math.nan, len(rows), (), (), (), worked, shaped=False)


def _clean(cell: str) -> str:
    """A cell without the tabs and blanks that some versions put around values."""
    return cell.strip().strip("\t").strip()


def _number(text: str) -> float:
    """The number that a cell holds; NaN for none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def _shapes(text: str) -> tuple[Shape, ...]:
    """The shapes that a cell writes as "32,9216;4096,9216;", a scalar as nothing; () if it is empty or unclear."""
    bare = text.replace('"', "").strip()
    if not bare:
        return ()
    parts = bare.removesuffix(";").split(";") if bare != ";" else [""]
    try:
        return tuple(tuple(int(n) for n in part.split(",") if n.strip()) for part in parts)
    except ValueError:
        return ()
