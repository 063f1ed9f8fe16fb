"""Reports: an operator at one shape on one or several chips, as one HTML, Markdown or JSON file.

A report computes nothing: it lays out verdicts, plans and timelines. It has no date and loads nothing, and the same
question gives the same bytes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilesim.analysis.answer import Answer, answer_of
from tilesim.chip.chip import Chip
from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import Verdict, verdict_of
from tilesim.files import write_text
from tilesim.operators.binding import Given, bind
from tilesim.operators.operator import Call, Operator
from tilesim.operators.shapes import TensorSpec, shape_text
from tilesim.ops import load_operator
from tilesim.planning.stage_graph import graph
from tilesim.render.excerpts import WORDS
from tilesim.render.formats import format_of
from tilesim.render.graph_svg import svg
from tilesim.render.memory_map import KINDS
from tilesim.render.report import drawings as report_drawings
from tilesim.render.report.facts import Facts, facts
from tilesim.text import si, size

if TYPE_CHECKING:
    from jinja2 import Environment

FORMATS = ("html", "md", "json")
"""Endings of report files."""


@dataclass(frozen=True)
class Report:
    """Report before it is written: `answers` to one call, chips in the given order."""

    answers: tuple[Answer, ...]
    command: str = ""
    """Command line that writes it; "" to leave it out."""
    _facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def call(self) -> Call:
        """Call that it is about."""
        return self.answers[0].verdict.call

    @property
    def ok(self) -> bool:
        """True if the call fits on every chip."""
        return all(answer.verdict.ok for answer in self.answers)

    def to_json(self) -> Facts:
        """Return the report as plain data."""
        if not self._facts:
            op = self.call.operator
            self._facts.update(
                {
                    "operator": op.name,
                    "api": op.api,
                    "about": op.about,
                    "command": self.command,
                    "ok": self.ok,
                    "dims": self.call.dims,
                    "dtype": self.call.dtype,
                    "options": dict(self.call.options),
                    "attributes": dict(self.call.attributes),
                    "chips": [facts(answer) for answer in self.answers],
                }
            )
        return self._facts

    def html(self) -> str:
        """Return the report as a self-contained page."""
        return self._rendered("report.html.jinja", stages=[_stages(answer) for answer in self.answers])

    def markdown(self) -> str:
        """Return the report as Markdown."""
        return self._rendered("report.md.jinja")

    def text(self, ending: str) -> str:
        """Return the report in one of FORMATS. Raises BadInput for another."""
        ending = format_of(f"report.{ending}", FORMATS)
        if ending == "json":
            return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"
        return self.html() if ending == "html" else self.markdown()

    def write(self, path: str | Path) -> Path:
        """Write the report in the format that the file's name ends in; return the path. Raises BadInput."""
        return write_text(path, self.text(format_of(path, FORMATS)))

    def _rendered(self, template: str, **more: Any) -> str:
        return environment().get_template(template).render(report=self.to_json(), **more)


def report(
    op: Operator | str | Path,
    given: Given,
    *,
    chips: Sequence[Chip | str | Path],
    dtype: str | None = None,
    tiles: Mapping[str, int] | None = None,
    command: str | None = None,
    **options: Any,
) -> Report:
    """Return the report of a call, as `plan` takes it, on one chip or several.

    A call that is refused or does not fit has a report, too; its `ok` is False. `command` replaces the command line at
    the head. Raises BadInput as `check` does, and if no chip is given.
    """
    if not chips:
        raise BadInput("report", ["no chip is given"])
    operator = load_operator(op)
    call = bind(operator, given, dtype=dtype, **options)
    loaded = [chip if isinstance(chip, Chip) else load_chip(chip) for chip in chips]
    name = op.name if isinstance(op, Operator) else str(op)
    words = command_line(name, {**given, **options}, loaded, dtype) if command is None else command
    return report_of([verdict_of(call, chip) for chip in loaded], tiles, words)


def report_of(verdicts: Sequence[Verdict], tiles: Mapping[str, int] | None = None, command: str = "") -> Report:
    """Return the report of the verdicts on a call, for one chip or several."""
    return Report(tuple(answer_of(verdict, tiles) for verdict in verdicts), command)


def command_line(op: str, given: Mapping[str, Any], chips: Sequence[Chip], dtype: str | None = None) -> str:
    """Return the command line that writes a report.

    >>> command_line("glu_backward", {"self": (2, 4), "dim": -1}, [load_chip("ascend950pr")])
    'tilesim report glu_backward self=2x4 dim=-1 --chip ascend950pr'
    """
    words = ["tilesim report", op, *(f"{key}={_word(value)}" for key, value in given.items())]
    words += [f"--chip {chip.name}" for chip in chips] + ([f"--dtype {dtype}"] if dtype else [])
    return " ".join(words)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, TensorSpec):
        return f"{_word(value.shape)}:{value.dtype}"
    shape = getattr(value, "shape", value)
    return shape_text(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else str(value)


def _stages(answer: Answer) -> str:
    """Return the drawing of a plan's stages as a data: address, apart from the page's styles; "" without a plan."""
    if answer.plan is None:
        return ""
    return "data:image/svg+xml," + quote(svg(graph(answer.plan)), safe=" /:=;,()'")


@functools.cache
def environment() -> Environment:
    """Return the templates, with their filters and drawings."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only reports need it

    templates = Environment(
        loader=PackageLoader("tilesim.render.report"),
        autoescape=lambda name: name is not None and ".html" in name,  # noqa: S701 - `cell` escapes Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "number": lambda value: f"{value:,}",
        "size": size,
        "percent": lambda share: f"{share:.0%}" if share >= 0.1 or not share else f"{share:.1%}",
        "si": si,
        "us": lambda value: f"{value:,.1f}" if value >= 10 else f"{value:,.2f}",
        "cell": cell,
    }
    templates.globals |= {"kinds": KINDS, "pipes": WORDS, "draw": report_drawings}
    return templates


def cell(text: object) -> str:
    """Return any text escaped for a cell of a Markdown table."""
    out = str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")
    return out.replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
