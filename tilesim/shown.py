"""What notebooks show as HTML. The drawing is done in a higher layer, which is loaded when something is first shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar


class Shown:
    """A result that a notebook shows as HTML rather than as text."""

    drawn_by: ClassVar[Callable[[object], str] | None] = None
    """Draws any of them; the package puts it here."""

    def _repr_html_(self) -> str | None:
        """The result as HTML, for IPython and Jupyter; None if nobody draws it."""
        draw = Shown.drawn_by
        return draw(self) if draw is not None else None
