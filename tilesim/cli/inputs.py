"""The arguments and options that commands share, and what they ask for together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilesim.errors import BadInput

if TYPE_CHECKING:
    from tilesim.chip.chip import Chip
    from tilesim.operators.operator import Call, Operator

OperatorName = Annotated[
    str,
    typer.Argument(metavar="OP", help="An operator by name, or path/to/file.py:name."),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Dims (H=2560), shapes (self=2x4x6, wGate=none), options (inject=false), attributes (dim=-1).",
    ),
]
ChipName = Annotated[
    str | None,
    typer.Option(
        "--chip",
        metavar="NAME",
        help="A chip by name, a .toml file of your own or a CANN .ini file.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another figure of the chip, such as cores.vector=48; repeatable."),
]
ChipsDirectory = Annotated[
    Path | None,
    typer.Option("--chips", metavar="DIR", help="A directory of chip files; TILESIM_CHIPS names some for good."),
]
Dtype = Annotated[str | None, typer.Option("--dtype", metavar="DTYPE", help="The dtype of the tensors.")]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON with stable names.")]
Tiles = Annotated[
    list[str] | None,
    typer.Option("--tile", metavar="NAME=N", help='A tile size or "cores" by hand, such as rows=8; repeatable.'),
]

chips_of_every_command: ContextVar[Path | None] = ContextVar("chips_of_every_command", default=None)
"""The directory that was given before the command's name."""


@dataclass(frozen=True)
class Asked:
    """What a command was asked about."""

    call: Call
    chip: Chip


@dataclass
class _Problems:
    """Problems of several subjects, to be told at once."""

    subjects: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, error: BadInput) -> None:
        """Keep the problems of one more error."""
        self.subjects.append(error.subject)
        self.texts += error.problems

    def refuse(self) -> None:
        """Raise BadInput with all problems if there is one."""
        if self.texts:
            raise BadInput(" and ".join(dict.fromkeys(self.subjects)), self.texts)


def asked(
    op: str,
    words: Sequence[str] | None,
    chip: str | None,
    changes: Sequence[str] | None,
    chips: Path | None,
    dtype: str | None,
    given: Mapping[str, Any] | None = None,
) -> Asked:
    """The call and the chip that a command line names, beside what is `given` of the call already.

    Raises BadInput with the problems of both at once.
    """
    from tilesim.operators.binding import bind, parse  # noqa: PLC0415 - numpy and pydantic load when a command runs
    from tilesim.ops import load_operator  # noqa: PLC0415
    from tilesim.program.dtypes import dtype_named  # noqa: PLC0415

    problems = _Problems()
    found: Chip | None = None
    call: Call | None = None
    try:
        found = chip_of(chip, changes, chips)
    except BadInput as error:
        problems.add(error)
    operator: Operator | None = None
    try:
        operator = load_operator(op)
    except BadInput as error:
        problems.add(error)
    try:
        kind = dtype_named(dtype) if dtype is not None else None
    except BadInput as error:
        problems.add(error)
        kind = None
    if operator is not None:
        try:
            call = bind(operator, {**(given or {}), **parse(operator, words or ())}, dtype=kind)
        except BadInput as error:
            problems.add(error)
    problems.refuse()
    if found is None or call is None:
        raise AssertionError
    return Asked(call, found)


def chip_of(name: str | None, changes: Sequence[str] | None, chips: Path | None) -> Chip:
    """The chip of --chip, --set and --chips. Raises BadChip or BadInput."""
    from tilesim.chip.loading import chips_found, load_chip  # noqa: PLC0415 - see asked

    directory = directory_of(chips)
    if name is None:
        raise BadInput("chip", [f"--chip is missing; there are: {', '.join(chips_found(directory))}"])
    found = load_chip(name, directory=directory)
    pairs = pairs_of("--set", changes)
    return found.override(pairs) if pairs else found


def directory_of(chips: Path | None) -> Path | None:
    """The caller's own directory of chips: the command's, or the one that was given before its name."""
    return chips if chips is not None else chips_of_every_command.get()


def tiles_of(tiles: Sequence[str] | None) -> dict[str, int]:
    """The tile sizes of --tile. Raises BadInput."""
    problems = []
    found = {}
    for name, text in pairs_of("--tile", tiles).items():
        try:
            found[name] = int(text)
        except ValueError:
            problems.append(f"{name}={text} is not a whole number")
        else:
            if found[name] < 1:
                problems.append(f"{name}={text} must be at least 1")
    if problems:
        raise BadInput("--tile", problems)
    return found


def pairs_of(option: str, words: Sequence[str] | None) -> dict[str, str]:
    """KEY=VALUE words as a mapping. Raises BadInput with all problems."""
    problems = []
    found: dict[str, str] = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        if not equals or not key or not text:
            problems.append(f"{word!r} is not KEY=VALUE")
        elif key in found:
            problems.append(f"{key} is given twice")
        else:
            found[key] = text
    if problems:
        raise BadInput(option, problems)
    return found
