"""Sweeps: verdict, tiles and time at every point of a grid of dims, chips, dtypes and parameters of chips."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilesim.analysis.answer import Answer, fitting_answer_of
from tilesim.analysis.ranges import MOST_VALUES, axes_of, settings_of
from tilesim.analysis.table import Cell, Column, Table, table_of
from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.chip.parameters import unit_of
from tilesim.errors import BadChip, BadInput
from tilesim.feasibility.evaluate import undecided
from tilesim.feasibility.verdict import verdict_of
from tilesim.measured.error_bands import known_accuracy
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Call, Operator
from tilesim.operators.shapes import shape_text
from tilesim.ops import load_operator
from tilesim.planning.plan import Plan
from tilesim.simulation.timeline import Timeline
from tilesim.text import several

VERDICT_COLUMNS: Final = (
    Column("verdict", "", "fits, caution, overflow, refused or unsupported"),
    Column("tightest", "", "the phase and the memory with the least slack"),
    Column("slack", "bytes", "free bytes of that inequality at the smallest tiles; negative if it does not fit"),
)
TIME_COLUMNS: Final = (
    Column("tiles", "", "the tile sizes of the plan [elements]"),
    Column("cores", "cores", "of the phase that uses most"),
    Column("cycles", "cycles", "of all phases, without launch and sync"),
    Column("time_us", "us", "launch, phases and sync"),
    Column("bound", "", "phase and pipe that take most of the time"),
    Column("accuracy", "%", "error of such times against measurements; unvalidated without measurements"),
)
REASON: Final = Column("reason", "", "rule or inequality that decided, if the call does not pass")


@dataclass(frozen=True)
class SweepPoint:
    """Point of a grid: the varied values by name, the call and the chip."""

    at: Mapping[str, Cell]
    call: Call
    chip: Chip


@checked
def sweep(
    op: Operator | str | Path,
    given: Given,
    *,
    chips: Sequence[Chip | str | Path] | Chip | str | Path,
    dtype: str | Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the word of the command line)
    times: bool = True,
    **options: Any,
) -> Table:
    """Return the table of every point of a grid: verdict, tightest inequality, slack, tiles, cores, time and bound.

    Any value of `given` may be several: a list, a range or a text such as "16:4800:16" (stop included) or "4,8"; of a
    tensor a list of shapes. `set` varies parameters of the chips in the same way. Without `times`, and for a file
    of buffers, calls are checked only, about a thousand points a second. The last axis varies fastest; a key with one
    value has no column.

    >>> table = sweep("glu_backward", {"self": [(64, 512), (64, 511)]}, chips="ascend950pr", times=False)
    >>> table["verdict"]
    ('fits', 'refused')

    Raises BadInput, with all problems of all points, before anything is computed.
    """
    operator = load_operator(op)
    times = times and operator.has_instructions
    listed = list(chips) if isinstance(chips, Sequence) and not isinstance(chips, str) else [chips]
    axes = axes_of(operator, {**given, **options})
    dtypes = list(dtype) if isinstance(dtype, Sequence) and not isinstance(dtype, str) else [dtype]
    lengths = [len(values) for values in (*axes.values(), *settings_of(set or {}).values(), dtypes, listed)]
    count = math.prod(lengths)
    if not count:
        empty = [name for name, values in (("chip", listed), ("dtype", dtypes)) if not values]
        raise BadInput("sweep", [f"no {name} is given" for name in empty])
    if count > MOST_VALUES:
        raise BadInput("sweep", [f"the grid has {count:,} points, at most {MOST_VALUES:,}"])
    calls = list(_calls(operator, axes, dtypes))
    variants = list(chip_variants(listed, set or {}))
    varied = ["chip"] * (len(listed) > 1) + list(set or {})
    columns = [
        *(Column(name, "elements" if name in operator.sizes else "") for name in calls[0][0]),
        *(Column(name, unit_of(name)) for name in varied),
        *VERDICT_COLUMNS,
        *(TIME_COLUMNS if times else ()),
        REASON,
    ]
    points = [
        SweepPoint({**at, **{name: settings[name] for name in varied}}, call, chip)
        for at, call in calls
        for settings, chip in variants
    ]
    problems = dict.fromkeys(problem for point in points for problem in undecided(point.call, point.chip))
    if problems:
        raise BadInput(operator.name, list(problems))
    rows = []
    for point in points:
        verdict = verdict_of(point.call, point.chip)
        answer = fitting_answer_of(verdict) if times else Answer(verdict)
        rows.append([*point.at.values(), *cells_of(answer, times=times)])
    notes = _notes(calls, variants)
    if times:
        first = calls[0][1]
        notes += accuracy_notes((first, chip) for _, chip in variants)
    return table_of(f"{operator.name} at {several(count, 'point')}", columns, rows, notes)


def chip_variants(
    chips: Sequence[Chip | str | Path], settings: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Cell], Chip]]:
    """Yield (values set, chip) for every chip under every combination of settings.

    Raises BadInput with all problems at once.
    """
    loaded = [chip if isinstance(chip, Chip) else load_chip(chip) for chip in chips]
    axes = settings_of(settings)
    problems: dict[str, None] = {}
    subject = loaded[0].name if len(loaded) == 1 else "set"
    variants: list[tuple[dict[str, Cell], Chip]] = []
    for chip in loaded:
        for values in itertools.product(*axes.values()):
            changes = dict(zip(axes, values, strict=True))
            try:
                changed = chip.override(changes) if changes else chip
            except BadChip as error:
                problems |= dict.fromkeys(error.problems)
                continue
            names: dict[str, Cell] = {"chip": chip.name}
            variants.append((names | {key: changed.get(key) for key in changes}, changed))
    if problems:
        raise BadChip(subject, list(problems))
    yield from variants


def cells_of(answer: Answer, *, times: bool = True) -> list[Cell]:
    """Return the cells of VERDICT_COLUMNS, of TIME_COLUMNS with `times`, and of REASON for one answer."""
    verdict = answer.verdict
    tightest = verdict.tightest
    cells: list[Cell] = [
        verdict.verdict,
        f"{tightest.phase}: {tightest.memory}".removeprefix(": ") if tightest else None,
        tightest.slack_bytes if tightest else None,
    ]
    if times:
        cells += [None] * len(TIME_COLUMNS) if answer.timeline is None else _time_cells(answer.timeline)
    return [*cells, verdict.culprit]


def _time_cells(timeline: Timeline) -> list[Cell]:
    """Return the cells of TIME_COLUMNS."""
    plan = timeline.plan
    cores = max((phase.cores for phase in plan.phases), default=0)
    known = known_accuracy(plan.call, plan.chip)
    band = f"±{known.band:.0f}" if known.validated else "unvalidated"
    return [tiles_text(plan), cores, timeline.cycles, timeline.time_us, timeline.bottleneck, band]


def accuracy_notes(pairs: Iterable[tuple[Call, Chip]]) -> list[str]:
    """Return the accuracy of times, a line for the chips with the same accuracy."""
    chips: dict[str, dict[str, None]] = {}
    for call, chip in pairs:
        chips.setdefault(str(known_accuracy(call, chip)), {})[chip.name] = None
    return [f"accuracy{' on ' + ', '.join(names) if len(chips) > 1 else ''}: {text}" for text, names in chips.items()]


def tiles_text(plan: Plan) -> str:
    """Return the tile sizes in words: `rows=147`; of several phases `gate backward rows=2; dAct = dUp wUp m=256`."""
    tiled = [phase for phase in plan.phases if phase.tiles]
    parts = [
        (f"{phase.phase.name} " if len(tiled) > 1 else "")
        + " ".join(f"{name}={size}" for name, size in phase.tiles.items())
        for phase in tiled
    ]
    return "; ".join(parts)


def _calls(
    op: Operator, axes: Mapping[str, Sequence[Any]], dtypes: Sequence[str | None]
) -> Iterator[tuple[dict[str, Cell], Call]]:
    """Yield (varied values, call) for every call of the grid. Raises BadInput with the problems of all of them."""
    varied = [name for name, values in axes.items() if len(values) > 1]
    problems: dict[str, None] = {}
    calls = []
    for values in itertools.product(*axes.values(), dtypes):
        point = dict(zip([*axes, "dtype"], values, strict=True))
        dtype = point.pop("dtype")
        try:
            call = bind(op, point, dtype=dtype)
        except BadInput as error:
            problems |= dict.fromkeys(error.problems)
            continue
        at: dict[str, Cell] = {name: _cell(point[name]) for name in varied}
        if len(dtypes) > 1:
            at["dtype"] = dtype
        calls.append((at, call))
    if problems:
        raise BadInput(op.name, list(problems))
    yield from calls


def _cell(value: Any) -> Cell:
    """Return a value as a cell; a shape as the command line writes it."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    shape = getattr(value, "shape", value)
    dtype = getattr(value, "dtype", "")
    return shape_text(shape) + (f":{dtype}" if dtype else "")


def _notes(
    calls: Sequence[tuple[Mapping[str, Cell], Call]], variants: Iterable[tuple[Mapping[str, Cell], Chip]]
) -> list[str]:
    """Return the values that all rows have in common."""
    fixed = {n: v for n, v in _common([call.dims for _, call in calls]).items() if not any(n in at for at, _ in calls)}
    names = sorted({chip.name for _, chip in variants})
    text = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    dtypes = {call.dtype for _, call in calls}
    parts = (text, *(dtypes if len(dtypes) == 1 else ()), f"on {names[0]}" if len(names) == 1 else "")
    return [part for part in parts if part]


def _common(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {n: v for n, v in rows[0].items() if all(row.get(n) == v for row in rows)} if rows else {}
