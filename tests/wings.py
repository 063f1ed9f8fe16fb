"""The picture of the wings, drawn from the layer contract and the first line of every wing.

`python -m tests.wings` writes docs/wings.svg.
"""

from __future__ import annotations

import ast
import html
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "wings.svg"
RESULTS = {
    "operators": "Call",
    "feasibility": "Verdict",
    "planning": "Plan",
    "simulation": "Timeline",
    "execution": "Outputs",
    "analysis": "Table",
    "render": "page, plot, trace",
}
"""The result that a wing makes from that of the wings below."""
WIDTH, ROW, GAP, NAME = 980, 46, 10, 130
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1b2733 } .wing { fill: #eef3f9; stroke: #6b8cae }
.name { font-weight: 600 } .says { fill: #4a5a6a; font-size: 12px } .result { fill: #2b6cb0; font-weight: 600 }
.arrow { stroke: #2b6cb0; stroke-width: 1.5; fill: none } .tip { fill: #2b6cb0 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .wing { fill: #1d2733; stroke: #4f6d8f }
.says { fill: #9fb0c0 } .result { fill: #7db5ee } .arrow { stroke: #7db5ee } .tip { fill: #7db5ee } }
"""


def layers() -> list[list[str]]:
    """Return the wings of the contract from the highest layer down, those of one layer together."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"] if layer != "__main__"]


def says(wing: str) -> str:
    """Return the first line of a wing's or module's docstring."""
    place = ROOT / "tilesim" / wing
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").splitlines()[0].rstrip(".")


def picture() -> str:
    """Return the picture as SVG: one row a layer, with the results that pass upwards on the right."""
    rows = layers()
    height = len(rows) * (ROW + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The wings of tilesim: each imports from those below it</title>",
        f"<style>{STYLE}</style>",
    ]
    inner = WIDTH - 2 * GAP - NAME - 30
    results = []
    for row, wings in enumerate(rows):
        top = GAP + row * (ROW + GAP)
        width = (inner - GAP * (len(wings) - 1)) / len(wings)
        for place, wing in enumerate(wings):
            left = GAP + place * (width + GAP)
            room = int((width - 20) / 6.2)
            text = says(wing)
            short = text if len(text) <= room else text[: room - 1].rsplit(" ", 1)[0] + " …"
            parts.append(f'<rect class="wing" x="{left:g}" y="{top}" width="{width:g}" height="{ROW}" rx="6"/>')
            parts.append(f'<text class="name" x="{left + 10:g}" y="{top + 19}">{wing}</text>')
            parts.append(f'<text class="says" x="{left + 10:g}" y="{top + 37}">{html.escape(short)}</text>')
        made = [RESULTS[wing] for wing in wings if wing in RESULTS]
        if made:
            results.append((top + ROW / 2, ", ".join(made)))
    right = WIDTH - GAP - NAME
    for (below, _), (above, _) in zip(results[::-1], results[-2::-1], strict=False):
        start, end = below - 10, above + 12
        parts.append(f'<path class="arrow" d="M{right + 12} {start:g}V{end:g}"/>')
        parts.append(f'<path class="tip" d="M{right + 7} {end + 8:g}h10l-5 -9z"/>')
    parts += [f'<text class="result" x="{right}" y="{y + 5:g}">{html.escape(text)}</text>' for y, text in results]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
