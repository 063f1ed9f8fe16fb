"""Plots for publication: each function returns a matplotlib Figure, `write_figure` writes it."""

from __future__ import annotations

from tilesim.render.plot.budget import buffer_map, feasible_region
from tilesim.render.plot.style import FORMATS, write_figure
from tilesim.render.plot.tables import sweep_curves, tornado
from tilesim.render.plot.time import gantt, roofline

__all__ = [
    "FORMATS",
    "KINDS",
    "buffer_map",
    "feasible_region",
    "gantt",
    "roofline",
    "sweep_curves",
    "tornado",
    "write_figure",
]

KINDS = {
    "region": "values of two dims that fit, with the line of every inequality",
    "buffers": "the memories of a core to scale",
    "gantt": "the pipes of a core in a few tiles of every phase",
    "roofline": "the phases under the roofs of the chip",
    "sweep": "curves over a dim or a parameter of the chip",
    "tornado": "the parameters of the chip that the time depends on",
}
"""Word of the command line -> content of the plot."""
