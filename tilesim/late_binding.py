"""Late binding: functions of higher wings that results call by their dotted names.

Results belong to low wings, so that every wing above can use them. Their HTML in a notebook and the measured keys of
their JSON come from higher wings, which load when a result is first displayed.
"""

from __future__ import annotations

import pkgutil
from typing import Any, Final

HTML: Final = "tilesim.render.report.notebook:html"
ESTIMATES: Final = "tilesim.analysis.estimates:estimates_of"


class Shown:
    """Base of the results that a notebook displays as HTML."""

    def _repr_html_(self) -> str:
        """Return the result as HTML, for IPython and Jupyter."""
        drawing: str = pkgutil.resolve_name(HTML)(self)
        return drawing


def estimates(result: object) -> dict[str, Any]:
    """Return the keys that higher wings add to the JSON of a plan or a timeline."""
    keys: dict[str, Any] = pkgutil.resolve_name(ESTIMATES)(result)
    return keys
