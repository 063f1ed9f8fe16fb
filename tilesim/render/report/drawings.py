"""Coordinates of a report's drawings; templates draw them, in colours that follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LEAST_LABEL = 2.4
"""Width of a letter on a phone [percent of a drawing's]."""
WIDE = 1000
"""Width of an excerpt [units], for any number of cycles."""
ROW, BAR = 22, 16
"""Height of a pipe's lane and of its bars [units]."""
PLOT = {"left": 46, "right": 382, "top": 12, "bottom": 214, "width": 400, "height": 252}
"""Frame of a roofline [pixels]."""
SIDES = ((9, 0), (-9, 0), (0, -10), (0, 10), (9, -9), (-9, -9), (9, 9), (-9, 9), (18, 0), (-18, 0), (0, 20), (0, -20))
"""Places for the number of a dot, from its middle [pixels], the best first."""
ARC = {"left": 178, "right": 352, "row": 30, "top": 18}
"""Frame of the arcs between phases [pixels]."""


def letter(number: int) -> str:
    """Return the short name of the n-th buffer of a memory: a to z, then a2 and so on.

    >>> letter(0), letter(25), letter(27)
    ('a', 'z', 'b2')
    """
    again, place = divmod(number, len(LETTERS))
    return LETTERS[place] + (str(again + 1) if again else "")


def blocks(memory: Facts, number: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a memory map with `x` and `width` in percent, `letter` for buffers and lines between slots.

    The letters continue after the `number` buffers of the maps before it.
    """
    extent = max(memory["extent_bytes"], 1)
    for block in memory["blocks"]:
        x, width = 100 * block["offset_bytes"] / extent, 100 * block["bytes"] / extent
        name = ""
        if block["kind"] not in ("free", "kept", "hidden"):
            name, number = letter(number), number + 1
        slots = [round(x + width * i / block["slots"], 3) for i in range(1, block["slots"])]
        yield {
            **block,
            "letter": name,
            "labelled": bool(name) and width / block["slots"] >= LEAST_LABEL * len(name),
            "x": round(x, 3),
            "width": round(width, 3),
            "middle": round(x + width / 2 / block["slots"], 3),
            "dividers": slots,
        }


def budget_at(memory: Facts) -> float:
    """Return the end of the budget of a memory map [percent of its width]."""
    return round(100 * float(memory["budget_bytes"]) / max(float(memory["extent_bytes"]), 1.0), 3)


def bars(excerpt: Facts, pipes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the bars of an excerpt: x and width of WIDE, the row of the pipe, and a title."""
    start, end = excerpt["start_cycles"], excerpt["end_cycles"]
    scale = WIDE / max(end - start, 1)
    for pipe, begins, ends, op, buffer, tile in excerpt["events"]:
        if pipe in pipes:
            yield {
                "pipe": pipe,
                "x": round((begins - start) * scale, 1),
                "width": max(round((ends - begins) * scale, 1), 0.8),
                "y": pipes.index(pipe) * ROW,
                "odd": tile % 2,
                "title": f"{op} {buffer}: {begins:,} to {ends:,}",
            }


def roofs(facts: Facts) -> dict[str, Any]:
    """Return the roofline in pixels of PLOT: axes with ticks, roofs as lines, phases as numbered dots."""
    points = facts["points"]
    tops = [r["per_s"] for r in facts["roofs"] if r["core_kind"]]
    low_x = 10 ** math.floor(math.log10(min(p["intensity"] for p in points)) - 0.3)
    high_x = 10 ** math.ceil(math.log10(max(p["intensity"] for p in points)) + 0.7)
    high_y = 10 ** math.ceil(math.log10(max(tops)) + 0.05)
    low_y = 10 ** math.floor(math.log10(min(p["per_s"] for p in points)) - 0.1)

    def x_of(value: float) -> float:
        share = math.log10(value / low_x) / math.log10(high_x / low_x)
        return round(PLOT["left"] + share * (PLOT["right"] - PLOT["left"]), 1)

    def y_of(value: float) -> float:
        share = math.log10(value / low_y) / math.log10(high_y / low_y)
        return round(PLOT["bottom"] - share * (PLOT["bottom"] - PLOT["top"]), 1)

    lines = []
    for roof in facts["roofs"]:
        if roof["core_kind"]:
            other = min(r["per_s"] for r in facts["roofs"] if not r["core_kind"])
            ends = (max(low_x, roof["per_s"] / other), high_x)
            ys = (roof["per_s"], roof["per_s"])
        else:
            begin = max(low_x, low_y / roof["per_s"])
            end = min(high_x, max(tops) / roof["per_s"])
            ends, ys = (begin, end), (begin * roof["per_s"], end * roof["per_s"])
        if ends[1] > ends[0]:
            lines.append(
                {
                    "name": roof["name"],
                    "kind": roof["core_kind"] or "memory",
                    "x1": x_of(ends[0]),
                    "y1": y_of(ys[0]),
                    "x2": x_of(ends[1]),
                    "y2": y_of(ys[1]),
                }
            )
    return {
        "frame": PLOT,
        "lines": lines,
        "dots": _labelled(
            [{**p, "number": i, "x": x_of(p["intensity"]), "y": y_of(p["per_s"])} for i, p in enumerate(points, 1)]
        ),
        "x_ticks": [{"at": x_of(v), "text": f"{v:g}"} for v in _decades(low_x, high_x)],
        "y_ticks": [{"at": y_of(v), "text": _short(v)} for v in _decades(low_y, high_y)],
    }


def arcs(flow: Facts) -> dict[str, Any]:
    """Return the phases from top to bottom, and an arc from each to every later one that reads its tensors."""
    rows = {phase["name"]: i for i, phase in enumerate(flow["phases"])}
    tensors: dict[tuple[int, int], list[str]] = {}
    for edge in flow["edges"]:
        tensors.setdefault((rows[edge["from"]], rows[edge["to"]]), []).append(edge["tensor"])
    furthest = max((b - a for a, b in tensors), default=1)

    def y_of(row: int) -> float:
        return ARC["top"] + row * ARC["row"]

    return {
        "width": ARC["right"],
        "height": ARC["top"] * 2 + (len(rows) - 1) * ARC["row"],
        "nodes": [
            {"number": i + 1, "y": y_of(i), **{k: p[k] for k in ("name", "core_kind")}}
            for i, p in enumerate(flow["phases"])
        ],
        "arcs": [
            {
                "path": _arc(y_of(a) + 4, y_of(b) - 4, (b - a) / furthest),
                "title": f"{flow['phases'][a]['name']} to {flow['phases'][b]['name']}: {', '.join(names)}",
            }
            for (a, b), names in tensors.items()
        ],
        "left": ARC["left"],
    }


def _labelled(dots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the dots with a place for the number of each, away from other dots and numbers."""
    taken = [(d["x"], d["y"]) for d in dots]
    for dot in dots:
        places = [(dot["x"] + dx, dot["y"] + dy) for dx, dy in SIDES]
        others = [t for t in taken if t != (dot["x"], dot["y"])]
        room = {at: min((_apart(at, t) for t in others), default=0.0) for at in places}
        x, y = max(places, key=room.__getitem__)
        taken.append((x, y))
        dot |= {"label_x": round(x - 3 * len(str(dot["number"])), 1), "label_y": round(y + 3.5, 1)}
    return dots


def _apart(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance of two places, at most 14 pixels."""
    return min(max(abs(a[0] - b[0]), abs(a[1] - b[1])), 14.0)


def _arc(top: float, bottom: float, share: float) -> str:
    out = ARC["left"] + 24 + share * (ARC["right"] - ARC["left"] - 30) * 1.25
    return f"M{ARC['left']} {top:g} C{out:.0f} {top:g} {out:.0f} {bottom:g} {ARC['left']} {bottom:g}"


def _decades(low: float, high: float) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    step = max(1, (last - first) // 5)
    return [10.0**e for e in range(first, last + 1, step)]


def _short(value: float) -> str:
    for step, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= step:
            return f"{value / step:g} {prefix}"
    return f"{value:g}"


def by_phase(maps: Sequence[Facts]) -> list[list[Facts]]:
    """Return the memory maps of each phase, phases in their order."""
    out: dict[str, list[Facts]] = {}
    for memory in maps:
        out.setdefault(memory["phase"], []).append(memory)
    return list(out.values())
