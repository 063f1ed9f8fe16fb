"""What higher layers do for a result: they draw it for notebooks, and know more of it than its own layer does.

They are loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Shown:
    """A result that a notebook shows as HTML rather than as text."""

    drawn_by: ClassVar[Callable[[object], str]]
    """Draws any of them; the package puts it here."""
    known_of: ClassVar[Callable[[object], dict[str, Any]]]
    """What higher layers know of any of them, as plain data; the package puts it here."""

    def _repr_html_(self) -> str:
        """The result as HTML, for IPython and Jupyter."""
        return Shown.drawn_by(self)

    def known(self) -> dict[str, Any]:
        """What higher layers know of the result, as plain data."""
        return Shown.known_of(self)
