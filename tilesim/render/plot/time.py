"""Plots of time: the pipes in a few tiles of every phase, and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesim.errors import BadInput, did_you_mean
from tilesim.measured.error_bands import known_accuracy
from tilesim.planning.plan import Plan
from tilesim.render.excerpts import WORDS, Excerpt, lanes
from tilesim.render.plot.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    ORANGE,
    PIPE_COLOURS,
    PURPLE,
    SKY,
    new_figure,
    styled,
    whole_numbers,
)
from tilesim.simulation.roofline import roofline as roofline_of
from tilesim.simulation.timeline import Timeline, timeline_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_EVENTS = 70
"""Instructions of an excerpt in a plot."""
BUSY_HEIGHT = 0.62
"""Height of a bar, as a share of its lane's."""
DECADES_OF_ROOM = 0.6
"""Space between the outermost points and the ends of the horizontal axis."""


def gantt(what: Plan | Timeline, phase: str = "") -> Figure:
    """Plot the pipes of the slowest core in the first tiles, the steady state and the last tiles, a lane for each pipe.

    The plot has every phase, or one. Tiles between the excerpts are left out, and each excerpt has its own scale.
    Raises BadInput for a phase that the plan does not have, and if nothing is launched.
    """
    timeline = what if isinstance(what, Timeline) else timeline_of(what)
    names = [p.name for p in timeline.phases]
    if phase and phase not in names:
        hint = did_you_mean(phase, names) or f" there are: {', '.join(names)}"
        raise BadInput("plot", [f"{phase!r} is not a phase;{hint}"])
    chosen = [
        lanes(timeline, p.name, most_events=MOST_EVENTS) for p in timeline.phases if phase in ("", p.name) and p.cycles
    ]
    if not chosen:
        raise BadInput(timeline.plan.kernel.name, ["nothing is launched, so no pipe is busy"])
    rows = sum(len(phase_lanes.pipes) for phase_lanes in chosen)
    with styled():
        figure = new_figure(9.6, 0.9 + 0.27 * rows + 0.75 * len(chosen))
        parts = figure.subfigures(
            max(len(chosen), 1), 1, squeeze=False, height_ratios=[len(c.pipes) + 2.6 for c in chosen] or [1]
        )
        for part, phase_lanes in zip(parts[:, 0], chosen, strict=False):
            spent = timeline.phase(phase_lanes.phase)
            bound = WORDS.get(spent.bound, spent.bound)
            part.suptitle(
                f"{phase_lanes.phase}: {phase_lanes.cycles:,} cycles, {spent.time_us:,.1f} µs, bound by {bound}",
                x=0.01, ha="left", fontsize=8.5, fontweight="bold",
            )  # fmt: skip
            panels = part.subplots(1, max(len(phase_lanes.excerpts), 1), squeeze=False, sharey=True)[0]
            for axes, excerpt in zip(panels, phase_lanes.excerpts, strict=False):
                _draw_excerpt(axes, excerpt, phase_lanes.pipes)
        figure.suptitle(
            f"{timeline.plan.kernel.name} on {timeline.plan.chip.soc}: pipes of the slowest core",
            x=0.01, ha="left", fontsize=11, fontweight="bold",
        )  # fmt: skip
        trust = f"accuracy {known_accuracy(timeline.plan.call, timeline.plan.chip, timeline.plan.by_hand)}"
        figure.supxlabel(trust, x=0.01, ha="left", fontsize=8, color=MUTED)
    return figure


def _draw_excerpt(axes: Axes, excerpt: Excerpt, pipes: tuple[str, ...]) -> None:
    for row, pipe in enumerate(pipes):
        events = excerpt.lane(pipe)
        spans = [(e.start_cycles, e.cycles) for e in events]
        faces = [f"{PIPE_COLOURS[pipe]}{'99' if e.tile and e.tile[0][1] % 2 else 'ff'}" for e in events]
        axes.broken_barh(
            spans, (row - BUSY_HEIGHT / 2, BUSY_HEIGHT), facecolors=faces, edgecolor="white", linewidth=0.3
        )
    axes.set(
        xlim=(excerpt.start_cycles, max(excerpt.end_cycles, excerpt.start_cycles + 1)),
        ylim=(len(pipes) - 0.4, -0.6),
        xlabel="cycles from the start of the phase",
        yticks=range(len(pipes)),
        yticklabels=[f"{WORDS[pipe]} ({pipe})" for pipe in pipes],
    )
    axes.set_title(
        f"{excerpt.title}{f', {excerpt.tiles}' if excerpt.tiles else ''}", fontsize=8, fontweight="normal", color=MUTED
    )
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=True, axis="x")
    axes.xaxis.label.set_fontsize(7.5)
    whole_numbers(axes)
    axes.xaxis.get_major_locator().set_params(nbins=3)  # type: ignore[call-arg]


def roofline(what: Plan | Timeline) -> Figure:
    """Plot the phases of a plan under the roofs of its chip, operations per byte against operations per second.

    An operation is an element of a vector instruction, or a multiply or add of the cube. Raises BadInput if no phase
    has both operations and global memory traffic.
    """
    timeline = what if isinstance(what, Timeline) else timeline_of(what)
    facts = roofline_of(timeline)
    if not facts.points:
        raise BadInput(timeline.plan.kernel.name, ["no phase has both operations and global memory traffic"])
    low = min(p.intensity for p in facts.points) / 10**DECADES_OF_ROOM
    high = max(p.intensity for p in facts.points) * 10 ** (DECADES_OF_ROOM + 0.8)
    colours = {"vector": ORANGE, "cube": PURPLE}
    note = "ceiling: global memory without the cache, or the cores"
    with styled():
        figure = new_figure(8.2, 5.2)
        axes: Axes = figure.add_subplot()
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="operations per byte of global memory traffic [1/B]",
            ylabel="operations per second [1/s]",
            title=f"{timeline.plan.kernel.name} on {timeline.plan.chip.soc}: roofline",
        )
        top = max(r.per_s for r in facts.roofs if r.core_kind)
        slowest = min(r.per_s for r in facts.roofs if not r.core_kind)
        for roof in facts.roofs:
            if roof.core_kind:
                xs = (min(roof.per_s / slowest / 4, high / 2), high)
                label = f"{roof.name}: {roof.per_s / 1e12:.3g} T/s"
                axes.plot(xs, (roof.per_s, roof.per_s), color=colours[roof.core_kind], linewidth=1.8, label=label)
            else:
                cache = roof.name == "L2 cache"
                xs = (low, min(top / roof.per_s, high))
                axes.plot(
                    xs, [x * roof.per_s for x in xs], color=SKY if cache else BLUE, linewidth=1.8,
                    linestyle="--" if cache else "-", label=f"{roof.name}: {roof.per_s / 1e12:.3g} TB/s",
                )  # fmt: skip
        for number, point in enumerate(facts.points, 1):
            share = point.per_s / facts.ceiling(point)
            label = f"{number} {point.phase}: {share:.0%} of its ceiling"
            axes.plot(
                point.intensity, point.per_s, "o" if point.core_kind == "vector" else "s", markersize=8,
                color=colours[point.core_kind], markeredgecolor="white", label=label, linestyle="none",
            )  # fmt: skip
        axes.set_xlim(low, high)
        _number_points(axes, [(p.intensity, p.per_s) for p in facts.points])
        axes.grid(visible=True, which="major", color=FAINT)
        figure.legend(loc="outside lower left", ncols=2, title=note, alignment="left")
    return figure


def _number_points(axes: Axes, points: list[tuple[float, float]]) -> None:
    """Write the number of every point beside it, at the first free place."""
    places = axes.transData.transform(points)
    taken = [tuple(p) for p in places]
    for number, (x, y) in enumerate(places, 1):
        sides = [
            (dx * r, dy * r)
            for r in (13, 24)
            for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))
        ]
        others = [t for t in taken if t != (x, y)]

        def free(
            side: tuple[float, float], others: list[tuple[float, ...]] = others, x: float = x, y: float = y
        ) -> float:
            return min((max(abs(x + side[0] - a), abs(y + side[1] - b)) for a, b in others), default=99.0)

        best = next((s for s in sides if free(s) > 11), max(sides, key=free))
        taken.append((x + best[0], y + best[1]))
        axes.annotate(
            str(number), points[number - 1], xytext=(best[0] * 0.72, best[1] * 0.72), textcoords="offset points",
            ha="center", va="center", fontsize=7.5, fontweight="bold",
        )  # fmt: skip
