"""`tilesim graph`: the stages of a plan and the data between them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import networkx as nx
import typer

from tilesim.cli.console import TextColumn, heading, line, raw, table
from tilesim.cli.planning import plan_answer
from tilesim.cli.question import App, AsJson, PlanQuestion
from tilesim.cli.verdict import subject_text
from tilesim.planning.stage_graph import graph as stage_graph
from tilesim.render.graph_files import node_link, write_graph

app = App()


@app.command(example="tilesim graph glu_backward self=2x4096x8192 --chip ascend950pr --out glu.svg")
def graph(
    question: PlanQuestion,
    first: Annotated[
        int | None,
        typer.Option("--tiles", "--first", min=1, metavar="N", help="Show the first N tiles of every loop separately."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the graph: .graphml, .dot, .json or .svg.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show copies and computations as a graph, or write it to a file."""
    answer = plan_answer(question, as_json=as_json)
    stages = stage_graph(answer.plan, first)
    if out is not None:
        write_graph(stages, out)
    if as_json:
        raw(json.dumps(json.loads(node_link(stages)), indent=2, ensure_ascii=False))
    else:
        line(f"graph: {subject_text(answer.plan.verdict)}", "bold")
        _summary(stages)
        if out is not None:
            line(f"written to {out}")
    return answer.code


def _summary(stages: nx.DiGraph) -> None:
    """Print stages by phase and kind, and the edges."""
    phases: dict[str, Counter[str]] = {}
    for _, node in stages.nodes(data=True):
        phases.setdefault(node["phase"] or "(tensors)", Counter())[node["kind"]] += 1
    kinds = list(dict.fromkeys(kind for counter in phases.values() for kind in counter))
    edges = Counter(edge["kind"] for _, _, edge in stages.edges(data=True))
    line(
        f"{stages.number_of_nodes()} nodes, {stages.number_of_edges()} edges: "
        + ", ".join(f"{count} {kind}" for kind, count in edges.items())
    )
    heading("nodes")
    columns = [TextColumn("phase", prose=True), *(TextColumn(kind, number=True) for kind in kinds)]
    table(columns, [(phase, *(f"{c[kind] or ''}" for kind in kinds)) for phase, c in phases.items()])
