"""A profiler's table of kernels: columns are read by their names, and any of them may be missing.

Known layouts: kernel_details.csv (8 to 47 columns), op_summary.csv, and one operator's PipeUtilization.csv by block.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilesim.errors import BadInput
from tilesim.measured.durations import ABSENT, duration, number_in
from tilesim.measured.profiled_calls import Shape

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
"""Field -> names of its column in profiles, lower case."""
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
"""Types in the table of one operator, which are the cores that it runs on."""
SEPARATORS = (",", "\t", ";")
"""Separators of cells. Semicolons also separate the shapes in a cell, so tables with them are refused."""


@dataclass(frozen=True)
class Profiled:
    """One call of a kernel in a profile; a field that the table does not have is empty."""

    name: str
    kind: str
    core: str
    time_us: float
    """NaN if the table has no valid time."""
    blocks: int
    inputs: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    outputs: tuple[Shape, ...]
    pipes_us: Mapping[str, float] = field(default_factory=dict)
    """Pipe -> time of its work; pipes without work are left out."""
    shaped: bool = True
    """True if the table has a column of shapes."""
    untimed: str = ""
    """The reason for a missing time in a table with a column of durations."""
    of_blocks: bool = False
    """True if only the pipe times of its blocks are known."""


def read_profile(path: str | Path) -> list[Profiled]:
    """Return the kernels of a profile, in the order of the file.

    Commas or tabs separate cells. Raises BadInput for a file that cannot be read, and for a table without names or
    without measurements of kernels or blocks.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text in UTF-8"
        raise BadInput(str(path), [f"cannot be read: {reason}".lower()]) from None
    header, rows = _table(str(path), text)
    places = {key: next((header[n] for n in names if n in header), -1) for key, names in NAMES.items()}
    pipes = {pipe: next((header[n] for n in names if n in header), -1) for pipe, names in PIPES.items()}
    pipes = {pipe: place for pipe, place in pipes.items() if place >= 0}
    if "block_id" in header and pipes:
        return [_blocks(Path(path), rows, pipes)] if rows else []
    has_names = places["name"] >= 0 or places["kind"] >= 0
    measured = pipes or any(places[key] >= 0 for key in ("time_us", "inputs", "core", "blocks"))
    if not has_names or not measured:
        missing = "durations, shapes, cores, blocks or pipe times" if has_names else "kernel names or types"
        raise BadInput(str(path), [f"has no column of {missing}; is it a profiler's table of kernels?"])
    return [_kernel(row, places, pipes) for row in rows]


def _table(name: str, text: str) -> tuple[dict[str, int], list[list[str]]]:
    """Return the place of every column by its name, lower case, and the rows that are not blank.

    The separator is the one that yields most names of columns in the first line. Raises BadInput.
    """
    known = {word for words in (*NAMES.values(), *PIPES.values()) for word in words}
    first = next((line for line in text.splitlines() if any(map(str.isalnum, line))), "")
    try:
        columns = {by: {cell.lower() for cells in _cells(first, by) for cell in cells} for by in SEPARATORS}
        by = max(columns, key=lambda by: len(columns[by] & known))
        if by == ";":
            raise BadInput(
                name, ["separates cells by semicolons, which also separate shapes; save it with commas or tabs"]
            )
        lines = _cells(text, by)
    except csv.Error as error:
        raise BadInput(name, [f"cannot be read as a table: {error}"]) from None
    if not lines:
        raise BadInput(name, ["is empty"])
    return {cell.lower(): i for i, cell in enumerate(lines[0])}, lines[1:]


def _cells(text: str, by: str) -> list[list[str]]:
    """The cells of all lines that are not blank."""
    lines = csv.reader(io.StringIO(text), delimiter=by, skipinitialspace=True)
    return [cells for line in lines if any(cells := [_clean(cell) for cell in line])]


def _kernel(row: Sequence[str], places: Mapping[str, int], pipes: Mapping[str, int]) -> Profiled:
    """Return the kernel of a row."""

    def cell(key: str) -> str:
        place = places[key]
        return row[place] if 0 <= place < len(row) and row[place].lower() not in ABSENT else ""

    times = {pipe: _number(row[place]) for pipe, place in pipes.items() if place < len(row)}
    worked = {pipe: value for pipe, value in times.items() if value > 0}
    if "cube mte2" in worked:
        worked["mte2"] = max(worked.pop("cube mte2"), worked.get("mte2", 0.0))
    blocks = _number(cell("blocks"))
    time_us, untimed = duration(number_in(cell("time_us"))) if places["time_us"] >= 0 else (math.nan, "")
    return Profiled(
        name=cell("name"),
        kind=cell("kind"),
        core=cell("core"),
        time_us=time_us,
        blocks=0 if math.isnan(blocks) else int(blocks),
        inputs=_shapes(cell("inputs")),
        dtypes=tuple(part for part in cell("input_types").strip('"').split(";") if part.lower() not in ABSENT),
        outputs=_shapes(cell("outputs")),
        pipes_us=worked,
        shaped=places["inputs"] >= 0,
        untimed=untimed,
    )


def _blocks(path: Path, rows: Sequence[Sequence[str]], pipes: Mapping[str, int]) -> Profiled:
    """Return one kernel from the pipe times of its blocks: the busiest block of every pipe.

    All other fields are from the OpBasicInfo table that the tool writes into the same folder.
    """
    busiest = {
        pipe: max((v for row in rows if place < len(row) and (v := _number(row[place])) > 0), default=0.0)
        for pipe, place in pipes.items()
    }
    worked = {("mte2" if pipe == "cube mte2" else pipe): value for pipe, value in busiest.items() if value}
    beside = sorted(path.parent.glob("OpBasicInfo*.csv"))
    try:
        known = read_profile(beside[-1])[:1] if beside else []
    except BadInput:
        known = []
    for basic in known:
        kind = "" if basic.kind.lower() in CORES else basic.kind
        return replace(basic, kind=kind, blocks=basic.blocks or len(rows), pipes_us=worked)
    return Profiled(path.stem, "", "", math.nan, len(rows), (), (), (), worked, shaped=False, of_blocks=True)


def _clean(cell: str) -> str:
    """A cell without the tabs and blanks that some versions put around values."""
    return cell.strip().strip("\t").strip()


def _number(text: str) -> float:
    """The finite number in a cell, NaN for any other text."""
    number = number_in(text)
    return number if isinstance(number, float) and math.isfinite(number) else math.nan


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
