"""Plots of tables: curves of a sweep, and the tornado of the parameters that the time depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tilesim.analysis.sweep import TIME_COLUMNS, VERDICT_COLUMNS
from tilesim.analysis.table import Column, Table
from tilesim.errors import BadInput, did_you_mean
from tilesim.render.plot.style import BLUE, CYCLE, INK, MARKERS, MUTED, ORANGE, VERMILLION, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANSWERS = {c.name for c in (*VERDICT_COLUMNS, *TIME_COLUMNS)} | {"reason", "change"}
"""Columns that a sweep computed; it varied the others."""
MOST_CURVES = len(CYCLE)
MOST_BARS = 16
"""Parameters in a tornado; the others change the time less."""
LEAST_CHANGE = 0.05
"""Percent of the time below which a parameter has no bar."""
WIDE_RANGE = 32
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


def sweep_curves(table: Table, y: str = "", x: str = "") -> Figure:
    """Plot a sweep: `y` (the time, or the slack in a sweep without times) over `x`, a curve for each other value.

    `x` is by default the numeric dim or parameter with most values. Points that do not fit are crosses at the bottom.
    Raises BadInput for names that are not columns, without numeric columns, and for more than MOST_CURVES curves.
    """
    columns = {c.name: c for c in table.columns}
    problems = [
        f"{n!r} is not a column;{did_you_mean(n, columns)}".rstrip(";") for n in (x, y) if n and n not in columns
    ]
    varied = [n for n in columns if n not in ANSWERS]
    numeric = [n for n in varied if all(_is_number(v) for v in table[n])]
    y = y or ("time_us" if "time_us" in columns else "slack")
    if not problems and not (x or numeric):
        problems.append("no dim and no parameter has numbers for the x axis")
    if problems:
        raise BadInput("plot", problems)
    x = x or max(numeric, key=lambda n: (len(set(table[n])), varied.index(n)))
    others = [n for n in varied if n != x]
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in table:
        curves.setdefault(", ".join(f"{n} = {_text(row[n])}" for n in others), []).append(dict(row))
    if len(curves) > MOST_CURVES:
        raise BadInput("plot", [f"{len(curves)} curves, at most {MOST_CURVES} can be distinguished: vary fewer sizes"])
    with styled():
        figure = new_figure(7.2, 4.4)
        axes: Axes = figure.add_subplot()
        incomplete = _draw_curves(axes, curves, x, y)
        values = [_number(v) for v in table[x] if _is_number(v)]
        if min(values) > 0 and max(values) / min(values) >= WIDE_RANGE:
            axes.set_xscale("log", base=2)
        figure.suptitle(table.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        axes.set_title("\n".join(_wrapped(table.notes)), fontsize=8, fontweight="normal", color=MUTED)
        axes.set(xlabel=_label(columns[x]), ylabel=_label(columns[y]))
        axes.xaxis.set_major_formatter(_thousands())
        axes.yaxis.set_major_formatter(_thousands())
        axes.grid(visible=True)
        if y == "slack":
            axes.axhline(0, color=VERMILLION, linewidth=1, label="the limit")
        else:
            axes.set_ylim(0, 1.08 * (axes.get_ylim()[1] or 1.0))  # a flat curve does not lie on the frame
        if len(curves) > 1 or incomplete or y == "slack":
            figure.legend(loc="outside lower left", ncols=2)
    return figure


def _draw_curves(axes: Axes, curves: dict[str, list[dict[str, Any]]], x: str, y: str) -> bool:
    """Draw every curve; return True if points have no value."""
    incomplete = False
    for number, (label, rows) in enumerate(curves.items()):
        colour = CYCLE[number % len(CYCLE)]
        known = sorted((row[x], row[y]) for row in rows if _is_number(row[y]))
        marker = MARKERS[number % len(MARKERS)] if len(known) <= 64 else ""
        if known:
            xs, ys = zip(*known, strict=True)
            axes.plot(xs, ys, color=colour, marker=marker, markersize=4, linewidth=1.5, label=label or y)
        failed = sorted(row[x] for row in rows if not _is_number(row[y]))
        if failed:
            incomplete = True
            axes.plot(
                failed, [0.02 + 0.035 * number] * len(failed), "x", color=colour, transform=axes.get_xaxis_transform(),
                markersize=5, label=f"does not pass: {label}".removesuffix(": "), linestyle="none",
            )  # fmt: skip
    return incomplete


def tornado(sensitivity: Table) -> Figure:
    """Plot the parameters of a chip that the time depends on most, a bar for 10 % less and one for 10 % more of each.

    `sensitivity` is the table of the function of that name. Raises BadInput if no parameter changes the time.
    """
    rows = [r for r in sensitivity if _change(r) >= LEAST_CHANGE]
    if not rows:
        raise BadInput("plot", ["no parameter of the chip changes the time"])
    rows = sorted(rows, key=lambda r: -_change(r))[:MOST_BARS]
    with styled():
        figure = new_figure(7.6, 1.6 + 0.3 * len(rows))
        axes: Axes = figure.add_subplot()
        places = range(len(rows))
        for column, colour, label in (("change_less", BLUE, "10 % less"), ("change_more", ORANGE, "10 % more")):
            widths = [_number(r[column]) for r in rows]
            axes.barh(places, widths, height=0.66, color=colour, label=label, edgecolor="white", linewidth=0.5)
        axes.axvline(0, color=INK, linewidth=0.8)
        names = [f"{r['figure']}{' *' if r['status'] in ('guess', 'fitted') else ''}" for r in rows]
        axes.set(
            yticks=places,
            yticklabels=names,
            xlabel="change of the time [%]",
        )
        figure.suptitle(sensitivity.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        trust = [line for note in sensitivity.notes if note.startswith("accuracy") for line in wrap(note, 100)]
        axes.set_title("\n".join(trust), fontsize=8, fontweight="normal", color=MUTED, x=0, ha="left")
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(visible=True, axis="x")
        figure.legend(loc="outside lower left", ncols=2, title="* fitted or guessed", alignment="left")
        axes.spines["left"].set_color(MUTED)
    return figure


def _wrapped(notes: Sequence[str]) -> list[str]:
    """Return the notes of a table in lines of the width of a figure."""
    facts = ", ".join(note for note in notes if not note.startswith("accuracy"))
    trust = [note for note in notes if note.startswith("accuracy")]
    return [line for note in (facts, *trust) for line in wrap(note, 100)]


def _number(value: Any) -> float:
    """Return a cell as a number, 0 for a cell without one."""
    return float(value) if _is_number(value) else 0.0


def _change(row: Mapping[str, Any]) -> float:
    """Return the larger change of the time in either direction [%]."""
    return max(abs(_number(row["change_less"])), abs(_number(row["change_more"])))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return f"{value:,}" if _is_number(value) else str(value)


def _label(column: Column) -> str:
    name = "time" if column.name == "time_us" else column.name
    unit = "µs" if column.unit == "us" else column.unit
    return f"{name} [{unit}]" if unit else name


def _thousands() -> Any:
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415 - slow to import, and few need it

    return FuncFormatter(lambda value, _: f"{value:,.10g}")
