"""Plot of predicted against measured times, on logarithmic axes with the band of 10 %."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesim.errors import BadInput
from tilesim.measured.validate import Validation, grouped
from tilesim.render.plot.style import CYCLE, FAINT, MARKERS, MUTED, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND = 0.1
"""Relative error of the band that is drawn."""


def scatter(validation: Validation) -> Figure:
    """Plot a point for each measured row, a colour and marker for each operator; on the diagonal both times are equal.

    Raises BadInput if no row was compared.
    """
    if not validation.compared:
        raise BadInput("plot", [f"no measured row of {validation.chip} was compared"])
    by_operator: dict[str, list[tuple[float, float]]] = {}
    for (operator, _), rows in grouped(validation.compared).items():
        by_operator.setdefault(operator, []).extend((row.row.time_us, row.predicted_us) for row in rows)
    times = [t for points in by_operator.values() for pair in points for t in pair]
    ends = [min(times) / 1.5, max(times) * 1.5]
    overall = validation.overall
    with styled():
        figure = new_figure(6.4, 5.2)
        axes: Axes = figure.add_subplot()
        axes.fill_between(
            ends, [e * (1 - BAND) for e in ends], [e * (1 + BAND) for e in ends], color=FAINT, label=f"±{BAND:.0%}"
        )
        axes.plot(ends, ends, color=MUTED, linewidth=0.8)
        for i, (operator, points) in enumerate(by_operator.items()):
            measured, predicted = zip(*points, strict=True)
            axes.plot(
                measured,
                predicted,
                linestyle="none",
                marker=MARKERS[(i + i // len(CYCLE)) % len(MARKERS)],
                color=CYCLE[i % len(CYCLE)],
                markersize=4.5,
                alpha=0.8,
                label=f"{operator} ({len(points)})",
            )
        axes.set(
            xscale="log",
            yscale="log",
            xlim=ends,
            ylim=ends,
            xlabel="measured [us]",
            ylabel="predicted [us]",
            title=f"{validation.chip}: {overall.rows} kernels, mean error {overall.mape:.1f} %, "
            f"median {overall.median_ape:.1f} %",
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return figure
