"""Graph of a plan as a file: GraphML, JSON, Graphviz or a drawing, by the ending of its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilesim.files import write_text
from tilesim.render.formats import format_of
from tilesim.render.graph_svg import svg

if TYPE_CHECKING:
    import networkx as nx


def write_graph(stages: nx.DiGraph, path: str | Path) -> Path:
    """Write the graph in the format that the file's name ends in, .graphml, .json, .dot or .svg; return the path.

    Raises BadInput for another ending. The file is written completely or not at all.
    """
    return write_text(path, FORMATS[format_of(path, FORMATS)](stages))


def graphml(stages: nx.DiGraph) -> str:
    """Return the graph as GraphML."""
    import networkx  # noqa: PLC0415, ICN001 - see graph

    return "\n".join(networkx.generate_graphml(stages, named_key_ids=True)) + "\n"


def node_link(stages: nx.DiGraph) -> str:
    """Return the graph as JSON: {"directed", "graph", "nodes": [{"id", ...}], "edges": [{"source", "target", ...}]}."""
    data = {
        "directed": True,
        "multigraph": False,
        "graph": dict(stages.graph),
        "nodes": [{"id": node, **fields} for node, fields in stages.nodes(data=True)],
        "edges": [{"source": a, "target": b, **fields} for a, b, fields in stages.edges(data=True)],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def dot(stages: nx.DiGraph) -> str:
    """Return the graph for Graphviz, a cluster for every phase."""
    return "\n".join(_dot_lines(stages)) + "\n"


def _dot_lines(stages: nx.DiGraph) -> Iterator[str]:
    yield f"digraph {_quoted(stages.graph.get('operator', 'plan'))} {{"
    yield '  rankdir=TB; node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, fillcolor=white];'
    yield '  edge [fontname="Helvetica", fontsize=8];'
    phases: dict[str, list[str]] = {}
    for node, fields in stages.nodes(data=True):
        phases.setdefault(fields["phase"], []).append(node)
    for i, (phase, nodes) in enumerate(phases.items()):
        indent = "    " if phase else "  "
        if phase:
            yield f"  subgraph cluster_{i} {{ label={_quoted(phase)};"
        for node in nodes:
            fields = stages.nodes[node]
            second = f"{fields['cycles']:,} cycles" if phase else f"{fields['shape']} {fields['dtype']}"
            label = f"{fields['op']} {fields['name']}".strip()
            shape = "" if phase else ", shape=ellipse"
            yield f"{indent}{_quoted(node)} [label={_quoted(label + chr(10) + second)}{shape}];"
        if phase:
            yield "  }"
    for a, b, fields in stages.edges(data=True):
        style = {"slot": ", style=dashed", "workspace": ", style=bold"}.get(fields["kind"], "")
        yield f"  {_quoted(a)} -> {_quoted(b)} [label={_quoted(fields['name'])}{style}];"
    yield "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


FORMATS: dict[str, Callable[[Any], str]] = {"graphml": graphml, "json": node_link, "dot": dot, "svg": svg}
"""Ending -> function that returns the text of a graph in that format."""
