"""The one exception tree. An exception carries facts as fields; its text is made from them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `" did you mean 'x'?"` for the choice closest to `word`, or `""` if none is close.

    >>> did_you_mean("algin_bytes", ["size_bytes", "align_bytes"])
    " did you mean 'align_bytes'?"
    >>> did_you_mean("colour", ["size_bytes", "align_bytes"])
    ''
    """
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f" did you mean {by_lower[close[0]]!r}?" if close else ""


class TilesimError(Exception):
    """Base of the errors that the library raises; `exit_code` is the exit status of the command line for it."""

    exit_code: ClassVar[int] = 1
    verdict: object = None
    """The Verdict of a refusal; None for other errors."""


class BadInput(TilesimError):
    """Input that is not a valid shape, dtype, chip, key or file: every problem of `subject` at once.

    >>> print(BadInput("dtype", ["'float15' is not a dtype"]))
    dtype: 'float15' is not a dtype
    >>> print(BadInput("shape", ["H is missing", "R is -1, must be more than 0"]))
    shape: 2 problems: H is missing; R is -1, must be more than 0
    """

    exit_code = 2

    def __init__(self, subject: str, problems: Sequence[str]) -> None:
        """Keep the subject and at least one problem with it, each on a single line."""
        super().__init__(subject, problems)
        self.subject = subject
        self.problems = tuple(" ".join(p.split()) if "\n" in p else p for p in problems)

    def __str__(self) -> str:
        """Return one line: the subject, then its problems."""
        count = f"{len(self.problems)} problems: " if len(self.problems) > 1 else ""
        return f"{self.subject}: {count}{'; '.join(self.problems)}"


class BadChip(BadInput):
    """A chip file, a chip name or a chip key that cannot be used."""


class BadOperator(TilesimError):
    """An operator definition that breaks a rule of recording; `where` is the author's file:line.

    >>> print(BadOperator("mul reads 'x' after it was overwritten", "glu.py:14"))
    glu.py:14: mul reads 'x' after it was overwritten
    """

    exit_code = 2

    def __init__(self, fact: str, where: str = "") -> None:
        """Keep the fact and the place of the call that broke the rule."""
        super().__init__(fact, where)
        self.fact = fact
        self.where = where

    def __str__(self) -> str:
        """Return the place, if known, then the fact."""
        return f"{self.where}: {self.fact}" if self.where else self.fact


class Refused(TilesimError):
    """A call that breaks documented rules of its operator: every broken rule of `subject` at once.

    >>> print(Refused("glu_backward", ["self[1] is 7, must be even"]))
    glu_backward is refused: self[1] is 7, must be even
    """

    def __init__(self, subject: str, reasons: Sequence[str]) -> None:
        """Keep the operator's name and at least one broken rule."""
        super().__init__(subject, reasons)
        self.subject = subject
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        """Return one line: the subject, then its broken rules."""
        return f"{self.subject} is refused: {'; '.join(self.reasons)}"


class Unsupported(TilesimError):
    """An operator that does not exist for a chip or dtype.

    >>> print(Unsupported("glu_backward", "ascend310b1 is not one of its products"))
    glu_backward is unsupported: ascend310b1 is not one of its products
    """

    def __init__(self, subject: str, reason: str) -> None:
        """Keep the operator's name and the reason."""
        super().__init__(subject, reason)
        self.subject = subject
        self.reason = reason

    def __str__(self) -> str:
        """Return one line: the subject and the reason."""
        return f"{self.subject} is unsupported: {self.reason}"


class DoesNotFit(TilesimError):
    """A failed inequality: `needed_bytes` in `memory` against `available_bytes`.

    `terms` are (buffer, bytes), largest first; `remedies` are verified before the error is raised.

    >>> print(DoesNotFit("glu_backward on npu", "ub", 262144, 196352, terms=[("x", 262144)], remedies=["H=8"]))
    glu_backward on npu does not fit: needs 262,144 B of ub, has 196,352 B (65,792 B too many)
      x: 262,144 B
      what would fit: H=8
    """

    def __init__(
        self,
        subject: str,
        memory: str,
        needed_bytes: int,
        available_bytes: int,
        *,
        terms: Sequence[tuple[str, int]] = (),
        remedies: Sequence[str] = (),
    ) -> None:
        """Keep both sides of the inequality, the terms of the left one, and the remedies."""
        super().__init__(subject, memory, needed_bytes, available_bytes)
        self.subject = subject
        self.memory = memory
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.terms = tuple(terms)
        self.remedies = tuple(remedies)

    def __str__(self) -> str:
        """Return the fact with both numbers, the breakdown, the remedies."""
        over_bytes = self.needed_bytes - self.available_bytes
        lines = [
            f"{self.subject} does not fit: needs {self.needed_bytes:,} B of {self.memory}, "
            f"has {self.available_bytes:,} B ({over_bytes:,} B too many)",
        ]
        lines += [f"  {name}: {size_bytes:,} B" for name, size_bytes in self.terms]
        if self.remedies:
            lines.append(f"  what would fit: {'; '.join(self.remedies)}")
        return "\n".join(lines)


class Differs(TilesimError):
    """Computed values that differ from the reference by more than the tolerance."""

    def __init__(self, subject: str, error: float, tolerance: float) -> None:
        """Keep the error and the tolerance."""
        super().__init__(subject, error, tolerance)
        self.subject = subject
        self.error = error
        self.tolerance = tolerance

    def __str__(self) -> str:
        """Return one line with both numbers.

        >>> print(Differs("dx", 0.5, 0.25))
        dx differs from the reference: error 0.5, tolerance 0.25
        """
        return f"{self.subject} differs from the reference: error {self.error:.3g}, tolerance {self.tolerance:.3g}"
