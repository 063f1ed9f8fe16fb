"""Plots of feasibility: the region of shapes that pass, and the memories of a core to scale."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput, did_you_mean
from tilesim.feasibility.evaluate import kernel_of, limits_of, passes
from tilesim.feasibility.inequalities import Inequality
from tilesim.feasibility.limits import UNLIMITED, largest
from tilesim.operators.calls import nonempty_call, resized
from tilesim.operators.operator import Call, Dimension
from tilesim.planning.plan import Plan
from tilesim.program.recorder import Kernel
from tilesim.render.memory_map import KINDS, MemoryMap, memory_maps_of
from tilesim.render.plot.style import (
    BLACK,
    CYCLE,
    FAINT,
    GREEN,
    INK,
    KIND_COLOURS,
    KIND_HATCHES,
    MUTED,
    VERMILLION,
    new_figure,
    styled,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 400
"""Values along each axis of a region."""
LEAST_SPAN = 16
"""Smallest range of an axis."""
KERNELS = 50
"""Values along each axis at which the kernel is determined."""
ROOM = 1.25
"""Range of an axis in units of the largest value that passes, or of the shape's."""
LEAST_SHARE = 0.016
"""Share of a memory's width that a digit in a block needs."""


def feasible_region(call: Call, chip: Chip, x: str = "", y: str = "") -> Figure:
    """Plot the values of two dims that fit, the other dims as in the call: inequalities, ranges and the shape.

    Without `x` and `y`, the first two dims that inequalities depend on. Raises BadInput for a name that is not a dim,
    and if no inequality depends on a dim.
    """
    call = nonempty_call(call)
    first, second = _axes(call, chip, x, y)
    spans = {d.name: _span(call, chip, d) for d in (first, second)}
    grid = np.meshgrid(*(np.linspace(0, spans[d.name], POINTS) for d in (first, second)))
    sides = list(_inequalities(call, chip, (first, second), grid))
    reach = _reach(call, first, second)
    env = _values(call, (first, second), grid, sides)
    with styled():
        figure = new_figure(7.2, 4.6)
        axes: Axes = figure.add_subplot()
        fits = np.ones(grid[0].shape, dtype=bool)
        for d, values in zip((first, second), grid, strict=True):
            fits &= values <= (d.most or UNLIMITED)
        lines: dict[str, tuple[str, Any]] = {}
        for inequality, applies in sides:
            slack = np.where(applies, np.asarray(inequality.slack_bytes(env), dtype=float), np.nan)
            fits &= ~(slack < 0)
            if (inequality.left.names() | inequality.right.names()) & reach:
                lines.setdefault(inequality.text, (inequality.phase, slack))
        axes.contourf(*grid, fits, levels=[0.5, 1.5], colors=[GREEN], alpha=0.16)
        handles = _draw_lines(axes, grid, lines) + _draw_ranges(axes, (first, second), spans)
        ok = passes(call, chip)
        (shape,) = axes.plot(
            call.dims[first.name],
            call.dims[second.name],
            "o" if ok else "X",
            color=BLACK if ok else VERMILLION,
            markersize=8,
            label=f"{first.name} = {call.dims[first.name]:,}, {second.name} = {call.dims[second.name]:,}:"
            f" {'fits' if ok else 'does not pass'}",
            linestyle="none",
            zorder=5,
        )
        axes.set(
            xlim=(0, spans[first.name]),
            ylim=(0, spans[second.name]),
            xlabel=f"{first.name} [elements]",
            ylabel=f"{second.name} [elements]",
            title=f"{call.operator.name} on {chip.soc}: what fits",
        )
        whole_numbers(axes, x=True, y=True)
        others = [f"{n} = {v:,}" for n, v in call.dims.items() if n not in (first.name, second.name)]
        legend = [shape, *handles]
        figure.legend(
            handles=legend,
            loc="outside lower left",
            ncols=1,
            title=", ".join([*others, call.dtype]),
            alignment="left",
        )
    return figure


def _axes(call: Call, chip: Chip, x: str, y: str) -> tuple[Dimension, Dimension]:
    """Return the two dims to vary."""
    known = call.operator.dimensions
    problems = [f"{n!r} is not a dim;{did_you_mean(n, known)}".rstrip(";") for n in (x, y) if n and n not in known]
    if problems or (x and x == y):
        raise BadInput("plot", problems or [f"{x} cannot be both axes"])
    sides = limits_of(call, chip)
    limited = [d for d in known.values() if any(d.name in i.left.names() | i.right.names() for i in sides)]
    limited.sort(key=lambda d: -sum(d.name in i.left.names() for i in sides if i.memory == "ub"))
    free = [d for d in limited if d.name not in (x, y)] + [d for d in known.values() if d not in limited]
    if not limited or len(known) < 2:
        raise BadInput(call.operator.name, [f"no inequality on {chip.name} depends on two dims"])
    first = known[x] if x else free.pop(0)
    return first, known[y] if y else next(d for d in free if d is not first)


def _values(
    call: Call, dims: Sequence[Dimension], grid: Sequence[Any], sides: Sequence[tuple[Inequality, Any]]
) -> dict[str, Any]:
    """Return the values of all names on the grid, rounded; sizes that depend on dims are derived at every point."""
    env: dict[str, Any] = dict(call.env)
    integers = [np.maximum(np.rint(values).astype(np.int64), 1) for values in grid]
    env |= {d.name: values for d, values in zip(dims, integers, strict=True)}
    wanted = {n for i, _ in sides for n in i.left.names() | i.right.names()}
    computed = (_reach(call, *dims) - {d.name for d in dims}) & wanted
    if computed:
        names = [d.name for d in dims]
        points = [
            call.operator.derived_sizes({**call.dims, **dict(zip(names, at, strict=True))})
            for at in zip(*(values.ravel().tolist() for values in integers), strict=True)
        ]
        env |= {name: np.array([p[name] for p in points]).reshape(grid[0].shape) for name in computed}
    return env


def _inequalities(
    call: Call, chip: Chip, dims: Sequence[Dimension], grid: Sequence[Any]
) -> Iterator[tuple[Inequality, Any]]:
    """Yield every inequality with the points of the grid at which its kernel runs; the kernel depends on the sizes."""
    calls: dict[Kernel, Call] = {}
    values = [v.tolist() for v in grid]

    def kernel_at(row: int, column: int) -> Kernel:
        at = {d.name: max(round(v[row][column]), d.least, 1) for d, v in zip(dims, values, strict=True)}
        changed = resized(call, at)
        kernel = kernel_of(changed, chip)
        calls.setdefault(kernel, changed)
        return kernel

    steps = np.linspace(0, POINTS - 1, KERNELS).round().astype(int).tolist()
    corners = [[kernel_at(row, column) for column in steps] for row in steps]
    kernels = np.full((POINTS, POINTS), corners[0][0], dtype=object)
    for i, j in itertools.product(range(KERNELS - 1), repeat=2) if len(calls) > 1 else ():
        rows, columns = range(steps[i], steps[i + 1] + 1), range(steps[j], steps[j + 1] + 1)
        around = {corners[i + di][j + dj] for di in (0, 1) for dj in (0, 1)}
        for row, column in itertools.product(rows, columns) if len(around) > 1 else ():
            kernels[row, column] = kernel_at(row, column)
        if len(around) == 1:
            kernels[rows.start : rows.stop, columns.start : columns.stop] = around.pop()
    for kernel, changed in calls.items():
        yield from ((inequality, kernels == kernel) for inequality in limits_of(changed, chip))


def _reach(call: Call, *dims: Dimension) -> set[str]:
    """Return the names whose values change with the dims: the dims and the sizes computed from them."""
    names = {d.name for d in dims}
    changed = resized(call, {d.name: call.dims[d.name] + d.multiple_of for d in dims}).env
    return names | {name for name, value in call.env.items() if changed.get(name) != value}


def _span(call: Call, chip: Chip, dim: Dimension) -> int:
    """Return the end of an axis."""
    most = largest(call, chip, dim)
    known = [call.dims[dim.name], *([most] if most and most < UNLIMITED else []), *([dim.most] if dim.most else [])]
    return max(int(max(known) * ROOM), LEAST_SPAN)


def _draw_lines(axes: Axes, grid: Sequence[Any], lines: dict[str, tuple[str, Any]]) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - slow to import, and few need it

    handles = []
    for number, (text, (phase, slack)) in enumerate(lines.items()):
        colour = CYCLE[number % len(CYCLE)]
        dashes: Any = ("-", "--", "-.", ":")[number % 4]
        inside = bool((slack < 0).any()) and bool((slack >= 0).any())
        if inside:
            axes.contour(*grid, slack, levels=[0], colors=[colour], linestyles=[dashes], linewidths=1.6)
        always = "holds wherever its kernel runs" if np.isnan(slack).any() else "holds in the whole plot"
        where = "" if inside else always if not (slack < 0).any() else "holds nowhere in the plot"
        label = f"{f'{phase}: ' if phase else ''}{text}{f' ({where})' if where else ''}"
        handles.append(Line2D([], [], color=colour, linestyle=dashes, label="\n".join(textwrap.wrap(label, 88))))
    return handles


def _draw_ranges(axes: Axes, dims: Sequence[Dimension], spans: dict[str, int]) -> list[Any]:
    handles = []
    for line, d in zip((axes.axvline, axes.axhline), dims, strict=True):
        if d.most is not None and d.most <= spans[d.name]:
            step = f", a multiple of {d.multiple_of}" if d.multiple_of > 1 else ""
            label = f"documented range of {d.name}: {d.least:,} to {d.most:,}{step}"
            handles.append(line(d.most, color=MUTED, linewidth=1.2, linestyle=(0, (1, 1.5)), label=label))
    return handles


def buffer_map(plan: Plan, phase: str = "") -> Figure:
    """Plot the memories of a core in every phase of a plan, or in one, to scale: buffers with slots, kept back, free.

    Phases that share a memory share its scale. Raises BadInput for a phase that the plan does not have.
    """
    names = [p.phase.name for p in plan.phases]
    if phase and phase not in names:
        hint = did_you_mean(phase, names) or f" there are: {', '.join(names)}"
        raise BadInput("plot", [f"{phase!r} is not a phase;{hint}"])
    maps = [memory for memory in memory_maps_of(plan) if phase in ("", memory.phase)]
    if not maps:
        raise BadInput(plan.kernel.name, ["nothing is launched, so no memory is used"])
    with styled():
        figure = new_figure(8.6, 1.35 + 0.98 * len(maps))
        panels = figure.subplots(len(maps), 1, squeeze=False)[:, 0]
        numbers = {memory.phase: itertools.count(1) for memory in maps}
        for axes, memory in zip(panels, maps, strict=True):
            _draw_map(axes, memory, numbers[memory.phase])
        panels[-1].set_xlabel("offset [KiB]")
        figure.suptitle(
            f"{plan.kernel.name} on {plan.chip.soc}: memory of a core",
            x=0.01,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        _kind_legend(figure, maps)
    return figure


def _draw_map(axes: Axes, memory: MemoryMap, numbers: Iterator[int]) -> None:
    """Draw a memory, its buffers marked with the next of the phase's `numbers`, so that a number means one buffer."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - see _draw_lines

    extent = memory.extent_bytes / 1024
    names = []
    for block in memory.blocks:
        x, width = block.offset_bytes / 1024, block.bytes / 1024
        axes.add_patch(Rectangle((x, 0), width, 1, label=block.name, **_kind_style(block.kind)))
        for slot in range(1, block.slots):
            axes.plot([x + width * slot / block.slots] * 2, [0, 1], color=INK, linewidth=0.5, linestyle=(0, (2, 2)))
        if block.kind in ("free", "kept", "hidden"):
            continue
        number = next(numbers)
        names.append(f"{number} {block.name} {block.bytes:,}{f' ({block.slots} slots)' if block.slots > 1 else ''}")
        if width / block.slots > LEAST_SHARE * len(str(number)) * extent:
            axes.text(x + width / block.slots / 2, 0.5, str(number), ha="center", va="center", fontsize=7.5)
    excess = memory.used_bytes - memory.budget_bytes
    if excess > 0:
        axes.axvline(memory.budget_bytes / 1024, color=VERMILLION, linewidth=2)
    axes.set(xlim=(0, extent), ylim=(0, 1), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", length=2)
    over = f", {excess:,} B too many" if excess > 0 else ""
    title = f"{memory.phase}, {memory.memory}: {memory.used_bytes:,} of {memory.budget_bytes:,} B{over}"
    listed = textwrap.wrap("   ".join(n.replace(" ", "\u00a0") for n in names), 150, break_long_words=False)
    axes.set_title(title, fontsize=8.5, fontweight="bold", pad=4 + 9.5 * len(listed))
    for row, text in enumerate(reversed(listed)):
        axes.annotate(
            text,
            (0, 1),
            xytext=(0, 3 + 9.5 * row),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=6.5,
            color=MUTED,
        )


def _kind_style(kind: str) -> dict[str, Any]:
    """Return the patch properties of a kind of block."""
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - see _draw_lines

    colour = KIND_COLOURS[kind]
    return {
        "facecolor": "none" if colour == "none" else (*to_rgb(colour), 0.3),
        "edgecolor": FAINT if kind == "free" else INK,
        "hatch": KIND_HATCHES.get(kind),
        "linewidth": 0.6,
    }


def _kind_legend(figure: Figure, maps: Sequence[MemoryMap]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - see _draw_lines

    used = {block.kind for memory in maps for block in memory.blocks}
    handles = [Patch(label=words, **_kind_style(kind)) for kind, words in KINDS.items() if kind in used]
    figure.legend(handles=handles, loc="outside lower left", ncols=min(len(handles), 7), columnspacing=1.2)
