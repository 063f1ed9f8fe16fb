"""Graph of a plan as a drawing: a box for every phase, a lane for every pipe, loops as brackets on the left.

Stages go down in program order, each as far up as its inputs allow. Tensors in global memory stand beside the copies
that move them: inputs and workspace of other phases on the left, outputs and workspace for other phases on the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from tilesim.program.isa import PIPES
from tilesim.render.excerpts import WORDS

if TYPE_CHECKING:
    import networkx as nx

LANE, BOX, ROW, HEIGHT = 236, 184, 44, 34
"""Pixels: width of a lane and of a stage, height of a row and of a stage."""
BRACKET, PILL, MARGIN, HEAD = 20, 128, 24, 58
"""Pixels: width of a loop's bracket and of a tensor, the outer margin, the head of a phase."""
LETTER = 6.1
"""Mean width of a letter at 11 px [pixels]."""
COLOURS = {
    "copy-in": ("#e3effb", "#2b6cb0"),
    "copy": ("#e0f4f1", "#2c7a7b"),
    "compute": ("#fdf3dc", "#b7791f"),
    "cube": ("#f7e4ef", "#a3386c"),
    "copy-out": ("#e4f3e4", "#2f7d32"),
}
"""Kind of a stage -> (fill, border)."""
STYLE = """
text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, Arial, "DejaVu Sans", sans-serif; fill: #1f2933; }
.title { font-size: 17px; font-weight: 600; } .phase { font-size: 14px; font-weight: 600; }
.note { fill: #616e7c; font-size: 10px; } .pipe { fill: #616e7c; text-anchor: middle; }
.stage text { text-anchor: middle; } .name { font-weight: 600; } .pill text { text-anchor: middle; font-size: 10px; }
.edge { fill: none; stroke: #7b8794; stroke-width: 1.2; } .slot { stroke-dasharray: 4 3; stroke: #c1727a; }
.frame { fill: #fbfcfd; stroke: #cbd2d9; } .lane { stroke: #e4e7eb; stroke-dasharray: 2 4; }
.bracket { fill: none; stroke: #9aa5b1; }
"""


@dataclass
class _Phase:
    """A phase as it is laid out: a row for every stage, and the rows that every loop spans."""

    name: str
    core_kind: str
    lanes: list[str]
    rows: dict[str, int] = field(default_factory=dict)
    loops: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    height: int = 0

    @property
    def depth(self) -> int:
        """Depth of its loops."""
        return max((len(path) for path in self.loops), default=0)


def svg(stages: nx.DiGraph) -> str:
    """Return the drawing as self-contained SVG."""
    phases = [_laid_out(stages, name, nodes) for name, nodes in _by_phase(stages).items() if name]
    depth = max((p.depth for p in phases), default=0)
    left = MARGIN + PILL + 22 + BRACKET * depth
    lanes = max((len(p.lanes) for p in phases), default=1)
    width = left + LANE * lanes + PILL + 22 + MARGIN
    lines: list[str] = []
    top = MARGIN + 64
    for phase in phases:
        lines += _drawn(stages, phase, left, top, width)
        top += HEAD + phase.height * ROW + 26
    title = f"{stages.graph.get('operator', '')} on {stages.graph.get('chip', '')}"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.6 L8 4 L0 7.4 z" fill="#7b8794"/></marker></defs>',
        f'<rect width="{width}" height="{top}" fill="white"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{escape(title)}</text>',
        *_legend(MARGIN, MARGIN + 30, slots=any(e["kind"] == "slot" for *_, e in stages.edges(data=True))),
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def _by_phase(stages: nx.DiGraph) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for node, fields in stages.nodes(data=True):
        out.setdefault(fields["phase"], []).append(node)
    return out


def _laid_out(stages: nx.DiGraph, name: str, nodes: list[str]) -> _Phase:
    used = {stages.nodes[n]["pipe"] for n in nodes}
    core_kind = stages.nodes[nodes[0]]["core_kind"]
    out = _Phase(name, core_kind, [pipe for pipe in PIPES[core_kind] if pipe in used])
    free = dict.fromkeys(out.lanes, 0)
    around: tuple[str, ...] = ()
    for node in nodes:
        fields = stages.nodes[node]
        path = _loops(fields)
        if path != around:  # a loop has rows of its own, so that its bracket spans no other stage
            free = dict.fromkeys(free, max(free.values()))
            around = path
        before = [out.rows[p] + 1 for p in stages.predecessors(node) if p in out.rows]
        row = max([free[fields["pipe"]], *before])
        out.rows[node] = row
        free[fields["pipe"]] = row + 1
        for i in range(1, len(path) + 1):
            span = out.loops.setdefault(path[:i], [row, row])
            span[:] = min(span[0], row), max(span[1], row)
    out.height = max(free.values(), default=0)
    return out


def _loops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the loops around a stage, with the number of the tile where tiles are separate."""
    text = fields["tile"].replace(", ", " > ") if fields["tile"] else fields["loop"]
    return tuple(text.split(" > ")) if text else ()


def _drawn(stages: nx.DiGraph, phase: _Phase, left: int, top: int, width: int) -> Iterator[str]:
    height = HEAD + phase.height * ROW + 8
    frame = left - BRACKET * phase.depth - 10
    right = left + LANE * len(phase.lanes)
    yield f'<rect class="frame" x="{frame}" y="{top}" width="{right - frame + 10}" height="{height}" rx="8"/>'
    yield f'<text class="phase" x="{frame + 12}" y="{top + 22}">{escape(phase.name)}</text>'
    note = f"{phase.core_kind} cores"
    yield f'<text class="note" x="{right - 4}" y="{top + 22}" text-anchor="end">{note}</text>'
    for i, pipe in enumerate(phase.lanes):
        x = left + LANE * i + LANE // 2
        yield f'<text class="pipe" x="{x}" y="{top + 42}">{WORDS[pipe]} ({pipe})</text>'
        if i:
            edge = left + LANE * i
            yield f'<line class="lane" x1="{edge}" x2="{edge}" y1="{top + 34}" y2="{top + height - 6}"/>'
    first = top + HEAD
    yield from _brackets(stages, phase, left, first)
    place = {
        node: (left + LANE * phase.lanes.index(stages.nodes[node]["pipe"]) + LANE // 2, first + row * ROW + ROW // 2)
        for node, row in phase.rows.items()
    }
    for a, b, fields in stages.edges(data=True):
        if a in place and b in place:
            yield _arrow(place[a], place[b], fields)
    for node, (x, y) in place.items():
        yield from _stage(stages.nodes[node], x, y)
        yield from _tensors(stages, node, (x, y), (frame, right, width))


def _brackets(stages: nx.DiGraph, phase: _Phase, left: int, first: int) -> Iterator[str]:
    for path, (low, high) in phase.loops.items():
        inside = [stages.nodes[n] for n in phase.rows if _loops(stages.nodes[n])[: len(path)] == path]
        times = max(f["times"] for f in inside if len(_loops(f)) == min(len(_loops(g)) for g in inside))
        x = left - BRACKET * (phase.depth - len(path) + 1) + 8
        y, end = first + low * ROW + 6, first + (high + 1) * ROW - 6
        label = path[-1] if inside[0]["tile"] else f"for {path[-1]}, {times:,} times on a core"
        yield f'<path class="bracket" d="M{x + 7} {y} H{x} V{end} H{x + 7}"/>'
        yield (
            f'<text class="note" transform="translate({x - 3} {(y + end) // 2}) rotate(-90)" text-anchor="middle">'
            f"{escape(_cut(label, end - y))}<title>{escape(label)}</title></text>"
        )


def _stage(fields: Mapping[str, Any], x: int, y: int) -> Iterator[str]:
    fill, border = COLOURS[fields["kind"]]
    name = _cut(f"{fields['op']} {fields['name']}", BOX - 10)
    second = _cut(f"{fields['shape']} {fields['dtype']}, {fields['cycles']:,} cyc", BOX - 2)
    details = (
        f"{fields['op']} -> {fields['name']} in {fields['memory']}\n{fields['cycles']:,} cycles, "
        f"{fields['bytes']:,} B, {fields['times']:,} times on a core\n{fields['where']}"
    )
    yield f'<g class="stage"><title>{escape(details)}</title>'
    yield (
        f'<rect x="{x - BOX // 2}" y="{y - HEIGHT // 2}" width="{BOX}" height="{HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="{border}"/>'
    )
    yield f'<text class="name" x="{x}" y="{y - 3}">{escape(name)}</text>'
    yield f'<text class="note" x="{x}" y="{y + 11}">{escape(second)}</text></g>'


def _tensors(stages: nx.DiGraph, node: str, at: tuple[int, int], sides: tuple[int, int, int]) -> Iterator[str]:
    """Yield the tensors that a copy reads from or writes to global memory, beside the phase."""
    (x, y), (frame, right, _) = at, sides
    fields = stages.nodes[node]
    if fields["kind"] == "copy-in":
        edges = [(a, e) for a, _, e in stages.in_edges(node, data=True) if e["memory"] == "gm"]
        names = sorted({e["name"] for _, e in edges})
        others = sorted({stages.nodes[a]["phase"] for a, e in edges if e["kind"] == "workspace"})
        if names:
            note = f"from {', '.join(others)}" if others else "input"
            yield from _pill(frame - 12 - PILL, y, names[0], note, edges[0][1]["kind"])
            yield f'<path class="edge" marker-end="url(#tip)" d="M{frame - 12} {y} H{x - BOX // 2}"/>'
    elif fields["kind"] == "copy-out":
        edges = [(b, e) for _, b, e in stages.out_edges(node, data=True) if e["memory"] == "gm"]
        others = list(dict.fromkeys(stages.nodes[b]["phase"] for b, e in edges if e["kind"] == "workspace"))
        output = any(stages.nodes[b]["kind"] == "output" for b, _ in edges)
        note = f"to {', '.join(others)}" if others else "output" if output else "workspace"
        yield from _pill(right + 22, y, fields["name"], note, "data" if output else "workspace")
        yield f'<path class="edge" marker-end="url(#tip)" d="M{x + BOX // 2} {y} H{right + 22}"/>'


def _pill(x: int, y: int, name: str, note: str, kind: str) -> Iterator[str]:
    dashes = ' stroke-dasharray="4 3"' if kind == "workspace" else ""
    yield f'<g class="pill"><title>{escape(f"{name}: {note}")}</title>'
    yield (
        f'<rect x="{x}" y="{y - 15}" width="{PILL}" height="30" rx="15" fill="white" stroke="#7b8794"{dashes}/>'
        f'<text x="{x + PILL // 2}" y="{y - 2}">{escape(_cut(name, PILL - 16))}</text>'
        f'<text class="note" x="{x + PILL // 2}" y="{y + 10}">{escape(_cut(note, PILL - 14))}</text></g>'
    )


def _arrow(a: tuple[int, int], b: tuple[int, int], fields: Mapping[str, Any]) -> str:
    """Return an edge: straight down within a lane, around the stages between, or across from side to side."""
    (ax, ay), (bx, by) = a, b
    half = BOX // 2
    if ax == bx and by - ay == ROW:
        path = f"M{ax} {ay + HEIGHT // 2} V{by - HEIGHT // 2}"
    elif ax == bx:
        out = ax + half + min(12 + (by - ay) // ROW * 3, 40)
        path = f"M{ax + half} {ay} C{out} {ay} {out} {by} {bx + half} {by}"
    else:
        side = 1 if bx > ax else -1
        start, end = ax + side * half, bx - side * half
        middle = (start + end) // 2
        path = f"M{start} {ay} C{middle} {ay} {middle} {by} {end} {by}"
    kind = " slot" if fields["kind"] == "slot" else ""
    title = f"{fields['name']}: {fields['bytes']:,} B" if fields["bytes"] else f"slot of {fields['name']}"
    return f'<path class="edge{kind}" marker-end="url(#tip)" d={quoteattr(path)}><title>{escape(title)}</title></path>'


def _legend(x: int, y: int, *, slots: bool) -> Iterator[str]:
    for kind, (fill, border) in COLOURS.items():
        yield f'<rect x="{x}" y="{y}" width="14" height="14" rx="3" fill="{fill}" stroke="{border}"/>'
        yield f'<text x="{x + 20}" y="{y + 11}">{kind}</text>'
        x += 40 + int(len(kind) * LETTER) + 8
    yield f'<rect x="{x}" y="{y}" width="24" height="14" rx="7" fill="white" stroke="#7b8794"/>'
    yield f'<text x="{x + 30}" y="{y + 11}">tensor in global memory, dashed between phases</text>'
    if slots:
        x += 330
        yield f'<path class="edge slot" d="M{x} {y + 7} H{x + 24}"/>'
        yield f'<text x="{x + 30}" y="{y + 11}">waits for a slot</text>'


def _cut(text: str, pixels: float) -> str:
    """Return as much of a text as fits into a width."""
    most = max(int(pixels / LETTER), 3)
    return text if len(text) <= most else f"{text[: most - 1]}…"
