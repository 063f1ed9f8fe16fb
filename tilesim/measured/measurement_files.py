"""Measurement files: measured times of kernels, each with its call.

A file is JSON, one record a measurement, or CSV with the columns of `tilesim/measured/data/measured.csv`.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilesim.errors import BadInput
from tilesim.measured.durations import duration, number_in
from tilesim.measured.measurement import Measurement
from tilesim.measured.profiled_calls import Shape
from tilesim.measured.sample_builds import variant_of, with_call
from tilesim.operators.shapes import shape_of, shape_text
from tilesim.ops import operator_of_kernel
from tilesim.program.dtypes import dtype_named

SHIPPED = Path(__file__).parent / "data" / "measured.csv"
"""The measured points that come with the package."""
COLUMNS = ("chip", "operator", "shape", "dtype", "time_us", "tier", "attributes", "variant", "pipes_us", "source")
"""Columns of CSV files: shapes are 2x3;3 or 2x3;scalar, attributes and variants key=value;..., pipes v=1.5;mte2=3."""
PIPES = {
    "aiv_vec_time": "v",
    "aiv_mte2_time": "mte2",
    "aiv_mte3_time": "mte3",
    "aic_mac_time": "m",
    "aic_mte1_time": "mte1",
    "aic_mte2_time": "mte2",
    "aic_fixpipe_time": "fixp",
}
"""Name of a pipe time in records -> pipe."""


def load_measured(path: str | Path | None = None) -> list[Measurement]:
    """Return the rows of a measurement file, by default of the shipped one. Raises BadInput if it cannot be read."""
    file = SHIPPED if path is None else Path(path)
    name = str(path or file.name)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(name, [f"cannot be read: {getattr(error, 'strerror', None) or 'not text'}".lower()]) from None
    if file.suffix.lower() == ".json":
        try:
            records = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(name, [f"is not JSON: {error}"]) from None
        if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
            raise BadInput(name, ["is not a list of measurements"])
        if records and not any({"chip", "op"} <= r.keys() for r in records):
            raise BadInput(name, ["is not a list of measurements: no record has a chip and an op"])
        return [_from_record(r) for r in records]
    return _from_csv(text, name)


def measured_csv(rows: Iterable[Measurement]) -> str:
    """Return the rows as the text of a CSV file."""
    lines = [",".join(COLUMNS)]
    for r in rows:
        values = [
            r.chip,
            r.operator,
            ";".join(map(shape_text, r.shapes)),
            r.dtype,
            f"{r.time_us:g}" if r.time_us < 1e5 else f"{r.time_us:.0f}",
            r.tier,
            ";".join(f"{k}={v}" for k, v in r.attributes.items()),
            ";".join(f"{k}={v}" for k, v in r.variant.items()),
            ";".join(f"{k}={v:g}" for k, v in r.pipes_us.items()),
            r.source,
        ]
        lines.append(",".join(f'"{v}"' if "," in v else v for v in values))
    return "\n".join(lines) + "\n"


def chip_named(text: str) -> str:
    """Return the chip that a source calls `text`, "" for an unknown one."""
    name = re.match(r"Ascend ?(910B\d|910_93\d\d|950PR|950DT|310P\d|310B\d|910A)", text, re.IGNORECASE)
    return f"ascend{name.group(1).lower()}" if name else ""


def _from_csv(text: str, name: str) -> list[Measurement]:
    reader = csv.DictReader(text.splitlines())
    try:
        lines = list(reader)
    except csv.Error as error:
        raise BadInput(name, [f"is not CSV: {error}"]) from None
    missing = [c for c in ("chip", "operator", "shape", "dtype", "time_us") if c not in (reader.fieldnames or ())]
    if missing:
        raise BadInput(name, [f"column {c!r} is missing" for c in missing])
    rows, problems = [], []
    for number, line in enumerate(lines, 2):
        cells = {k: (v or "").strip() for k, v in line.items() if isinstance(k, str)}
        try:
            shapes = tuple(shape_of(part) for part in cells["shape"].split(";") if part)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        time_us, problem = duration(number_in(cells["time_us"]))
        pipes, pipe_problem = _pipes({k: number_in(v) for k, v in _pairs(cells.get("pipes_us", "")).items()})
        row = Measurement(
            chip_named(cells["chip"]) or cells["chip"].lower(),
            cells["operator"],
            shapes,
            cells["dtype"],
            time_us,
            cells.get("tier") or "A",
            cells.get("source") or name,
            _pairs(cells.get("attributes", "")),
            {k: int(v) if v.isdigit() else v for k, v in _pairs(cells.get("variant", "")).items()},
            pipes,
            problem=problem or pipe_problem,
        )
        rows.append(row if row.problem else with_call(row, [row.dtype] * max(len(shapes), 1)))
    if problems:
        raise BadInput(name, problems)
    return rows


def _pairs(text: str) -> dict[str, str]:
    return {k: v for k, _, v in (part.partition("=") for part in text.split(";") if part)}


def _pipes(given: Mapping[str, object]) -> tuple[dict[str, float], str]:
    """The times [us] of the pipes with work, and the problems of the others; 0 and None are no work."""
    times = {pipe: duration(value) for pipe, value in given.items() if value is not None and value != 0}
    problems = [f"pipe {pipe}: {problem}" for pipe, (_, problem) in times.items() if problem]
    return {pipe: time_us for pipe, (time_us, problem) in times.items() if not problem}, ", ".join(problems)


def _from_record(r: Mapping[str, Any]) -> Measurement:
    """The measurement of one record of a JSON file."""
    raw = r.get("shapes") or {}
    shapes = raw.get("inputs", []) if isinstance(raw, dict) else raw
    outputs = raw.get("outputs", []) if isinstance(raw, dict) else []
    types = r.get("dtype") or {}
    dtypes = types.get("inputs", []) if isinstance(types, dict) else [types]
    notes = str(r.get("notes") or "")
    pipe_times = r.get("pipe_times_us") or {}
    pipes, pipe_problem = _pipes(
        {PIPES[k]: v for k, v in pipe_times.items() if k in PIPES} if isinstance(pipe_times, dict) else {}
    )
    time_us, problem = duration(r.get("duration_us"))
    row = Measurement(
        chip_named(str(r.get("chip", ""))),
        str(r.get("op", "")),
        tuple(_flat(shapes)),
        _canonical(str(dtypes[0])) if dtypes else "",
        time_us,
        str(r.get("tier", "A")),
        str(r.get("source", "")),
        _attributes(r),
        variant_of(r),
        pipes,
    )
    problem = problem or pipe_problem or _problem(r, notes)
    if problem:
        return replace(row, problem=problem)
    return with_call(row, dtypes, [tuple(s) for s in outputs if isinstance(s, list)])


def _attributes(r: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a record that the operator of its kernel declares, as attributes or as options."""
    op = operator_of_kernel(str(r.get("op", "")))
    if op is None:
        return {}
    declared = {a.name for a in op.attributes} | {o.name for o in op.options}
    return {name: value for name, value in (r.get("attrs") or {}).items() if name in declared}


def _canonical(dtype: str) -> str:
    """The canonical name of a dtype, the name itself for an unknown one."""
    try:
        return dtype_named(dtype)
    except BadInput:
        return dtype


def _flat(shapes: Sequence[Any]) -> list[Shape]:
    """Shapes of tensors; a list of tensors becomes one tensor of all their elements, as one kernel works on them."""
    flat: list[Shape] = []
    for shape in shapes:
        if not isinstance(shape, list):
            continue  # an optional tensor that was not given
        if shape and isinstance(shape[0], list):
            total = sum(math.prod(part) for part in shape)
            flat.append(tuple(shape[0]) if len(shape) == 1 else (total,))
        else:
            flat.append(tuple(shape))
    return flat


def _problem(r: Mapping[str, Any], notes: str) -> str:
    """The reason in a record why it cannot be predicted, "" for none."""
    if r.get("kind") not in (None, "kernel", "microbench"):
        return f"not the time of a kernel but of a {r['kind']}"
    if r.get("single_kernel") is False or re.search(r"\+|fused|chain| then ", str(r.get("op", ""))):
        return "several kernels or operators in one time"
    if "scalar GetValue" in notes or "标量" in notes:
        return "scalar code, not a vector kernel"
    return ""
