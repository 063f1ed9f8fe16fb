"""How plots look and how they are written: palette, sizes, titles, and files that appear whole or not at all.

The palette is that of Okabe and Ito, which people with any colour vision can tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilesim.errors import BadInput, did_you_mean
from tilesim.files import write_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
INK, MUTED, FAINT = "#1b2430", "#57616e", "#d3dae2"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, BLACK, YELLOW)
"""Colours of curves, in their order."""
MARKERS = "osD^vPX*"
"""Markers of curves, so that they differ without colour too."""
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
"""What differs from matplotlib's own style."""


@contextmanager
def styled() -> Iterator[None]:
    """Figures that are made inside look alike, whatever the user's own settings are."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and few need it

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", STYLE))
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches that keeps its parts from overlapping."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - see styled

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def write_figure(figure: Figure, path: str | Path) -> Path:
    """The file that now has the figure, in the format that its name ends in: .svg, .png or .pdf.

    No date is in it, so that the same figure gives the same bytes. Raises BadInput for another ending.
    """
    ending = check_ending(path)
    data = io.BytesIO()
    nothing = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}[ending]
    with styled():
        figure.savefig(data, format=ending, dpi=DPI, metadata=nothing)
    target = Path(path)
    write_all({target: lambda file: file.write(data.getvalue())})
    return target


def check_ending(path: str | Path) -> str:
    """The format that a file's name ends in. Raises BadInput for one that there is not."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        hint = did_you_mean(ending, FORMATS)
        raise BadInput(str(path), [f"must end in one of {', '.join(f'.{f}' for f in FORMATS)};{hint}".rstrip(";")])
    return ending


def whole_numbers(axes: Axes, *, x: bool = True, y: bool = False) -> None:
    """Write the numbers of axes with a separator between thousands."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415 - see styled

    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_locator(MaxNLocator(6, integer=True))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
