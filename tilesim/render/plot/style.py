"""Style of plots and their files: palette, sizes, titles, formats. A file is written completely or not at all.

The palette is that of Okabe and Ito, which is safe for any colour vision.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilesim.files import write_all
from tilesim.render.formats import format_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
INK, MUTED, FAINT = "#1b2430", "#57616e", "#d3dae2"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, BLACK, YELLOW)
"""Colours of curves, in their order."""
MARKERS = "osD^vPX*"
"""Markers of curves, so that they differ without colour, too."""
PIPE_COLOURS = {"mte2": BLUE, "v": ORANGE, "mte3": GREEN, "mte1": PURPLE, "m": ORANGE, "fixp": GREEN}
KIND_COLOURS = {
    "in": BLUE,
    "work": ORANGE,
    "out": GREEN,
    "both": PURPLE,
    "static": SKY,
    "unused": MUTED,
    "kept": MUTED,
    "hidden": MUTED,
    "free": "none",
}
"""Kind of a block of memory -> its colour."""
KIND_HATCHES = {"kept": "////", "hidden": "xxxx", "unused": "...."}
"""Kind of a block of memory -> its hatch."""
FORMATS = ("svg", "png", "pdf")
DPI = 200
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "text.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "tilesim",
    "pdf.fonttype": 42,
}
"""Differences from matplotlib's default style."""


@contextmanager
def styled() -> Iterator[None]:
    """Context in which figures have this style, independent of the user's settings."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and few need it

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", STYLE))
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size [inch] whose parts do not overlap."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - see styled

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure in the format that the file's name ends in, .svg, .png or .pdf; return the path.

    The file has no date, so that the same figure gives the same bytes. Raises BadInput for another ending.
    """
    ending = format_of(path, FORMATS)
    data = io.BytesIO()
    undated = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}[ending]
    with styled():
        figure.savefig(data, format=ending, dpi=DPI, metadata=undated)
    target = Path(path)
    write_all({target: lambda file: file.write(data.getvalue())})
    return target


def whole_numbers(axes: Axes, *, x: bool = True, y: bool = False) -> None:
    """Write the numbers of axes with a separator between thousands."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415 - see styled

    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_locator(MaxNLocator(6, integer=True))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
