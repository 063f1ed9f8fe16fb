"""The graph of a plan as a file: GraphML, JSON, Graphviz or a drawing, by the ending of its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilesim.errors import BadInput, did_you_mean
from tilesim.files import write_text
from tilesim.render.graph_svg import svg

if TYPE_CHECKING:
    import networkx as nx


def write_graph(made: nx.DiGraph, path: str | Path) -> Path:
    """The file that now has the graph, in the format that its name ends in: .graphml, .json, .dot or .svg.

    Raises BadInput for another ending. The file is written whole or not at all.
    """
    target = Path(path)
    ending = target.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        hint = did_you_mean(ending, FORMATS)
        raise BadInput(str(path), [f"must end in one of {', '.join(f'.{f}' for f in FORMATS)};{hint}".rstrip(";")])
    return write_text(target, FORMATS[ending](made))


def graphml(made: nx.DiGraph) -> str:
    """The graph as GraphML."""
    import networkx  # noqa: PLC0415, ICN001 - see graph

    return "\n".join(networkx.generate_graphml(made, named_key_ids=True)) + "\n"


def node_link(made: nx.DiGraph) -> str:
    """The graph as JSON: {"directed", "graph", "nodes": [{"id", ...}], "edges": [{"source", "target", ...}]}."""
    data = {
        "directed": True,
        "multigraph": False,
        "graph": dict(made.graph),
        "nodes": [{"id": node, **fields} for node, fields in made.nodes(data=True)],
        "edges": [{"source": a, "target": b, **fields} for a, b, fields in made.edges(data=True)],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def dot(made: nx.DiGraph) -> str:
    """The graph for Graphviz, a cluster for every phase."""
    return "\n".join(_dot_lines(made)) + "\n"


def _dot_lines(made: nx.DiGraph) -> Iterator[str]:
    yield f"digraph {_quoted(made.graph.get('operator', 'plan'))} {{"
    yield '  rankdir=TB; node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, fillcolor=white];'
    yield '  edge [fontname="Helvetica", fontsize=8];'
    phases: dict[str, list[str]] = {}
    for node, fields in made.nodes(data=True):
        phases.setdefault(fields["phase"], []).append(node)
    for i, (phase, nodes) in enumerate(phases.items()):
        indent = "    " if phase else "  "
        if phase:
            yield f"  subgraph cluster_{i} {{ label={_quoted(phase)};"
        for node in nodes:
            fields = made.nodes[node]
            second = f"{fields['cycles']:,} cycles" if phase else f"{fields['shape']} {fields['dtype']}"
            label = f"{fields['op']} {fields['name']}".strip()
            shape = "" if phase else ", shape=ellipse"
            yield f"{indent}{_quoted(node)} [label={_quoted(label + chr(10) + second)}{shape}];"
        if phase:
            yield "  }"
    for a, b, fields in made.edges(data=True):
        style = {"slot": ", style=dashed", "workspace": ", style=bold"}.get(fields["kind"], "")
        yield f"  {_quoted(a)} -> {_quoted(b)} [label={_quoted(fields['name'])}{style}];"
    yield "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


FORMATS: dict[str, Callable[[Any], str]] = {"graphml": graphml, "json": node_link, "dot": dot, "svg": svg}
"""Ending -> the text of a graph in that format."""
