"""The one late-bound door: functions of higher wings that a result calls by their dotted names.

A result stands low in the house, so that much can be made from it. A notebook draws it, and its JSON ends with what
measurements say of it; both are the work of higher wings, which load when a result is first shown.
"""

from __future__ import annotations

import pkgutil
from typing import Any, Final

HTML: Final = "tilesim.render.report.notebook:html"
ESTIMATES: Final = "tilesim.analysis.estimates:estimates_of"


class Shown:
    """A result that a notebook shows as HTML rather than as text."""

    def _repr_html_(self) -> str:
        """Return the result as HTML, for IPython and Jupyter."""
        drawing: str = pkgutil.resolve_name(HTML)(self)
        return drawing


def estimates(result: object) -> dict[str, Any]:
    """Return the keys that higher wings add to the JSON of a plan or a timeline."""
    keys: dict[str, Any] = pkgutil.resolve_name(ESTIMATES)(result)
    return keys
