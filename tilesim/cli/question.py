"""Questions to commands: operator, words, chip, parameters, dtype and tiles, each declared once.

A command takes one of the question types as a parameter; `App` turns its fields into arguments and options. A question
returns the objects that it names: a chip, a call, tile sizes. All problems of a question are raised at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from tilesim.cli.console import note
from tilesim.errors import BadInput

if TYPE_CHECKING:
    from tilesim.chip.chip import Chip
    from tilesim.operators.operator import Call

T = TypeVar("T")

OperatorName = Annotated[
    str,
    typer.Argument(
        metavar="OP",
        help="An operator by name, path/to/file.py:name, or a file of buffers, path/to/file.toml.",
        show_default=False,
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Dims (H=2560), shapes (self=2x4x6, wGate=none), options (inject=false), attributes (dim=-1).",
        show_default=False,
    ),
]
ChipName = Annotated[
    str | None,
    typer.Option("--chip", metavar="NAME", help="A chip by name, a .toml chip file or a CANN .ini file."),
]
ChipNames = Annotated[
    list[str] | None,
    typer.Option("--chip", metavar="NAME", help="A chip, as for the other commands; repeatable."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Another value of a chip parameter, such as cores.vector=48; repeatable."
    ),
]
ChipsDirectory = Annotated[
    Path | None,
    typer.Option("--chips", metavar="DIR", help="A directory of chip files; TILESIM_CHIPS is its default."),
]
Dtype = Annotated[str | None, typer.Option("--dtype", metavar="DTYPE", help="The dtype of the tensors.")]
Tiles = Annotated[
    list[str] | None,
    typer.Option("--tile", metavar="NAME=N", help='A tile size or "cores" by hand, such as rows=8; repeatable.'),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON with stable names.")]

chips_of_every_command: ContextVar[Path | None] = ContextVar("chips_of_every_command", default=None)
"""Directory that was given before the command's name."""


class Command(TyperCommand):
    """Command whose options of one value are given once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line. Raises BadInput for an option that is given twice."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        once = [p for p in order if p.param_type_name == "option" and not (p.multiple or getattr(p, "is_flag", False))]
        twice = dict.fromkeys(p.opts[0] for p in once if once.count(p) > 1)
        if twice:
            raise BadInput(ctx.command_path, [f"{name} is given more than once" for name in twice])
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """Command or group of commands whose functions may take questions."""

    def __init__(self, **settings: Any) -> None:
        """Leave completion to the program."""
        super().__init__(add_completion=False, **settings)

    def command(self, name: str | None = None, *, example: str, **settings: Any) -> Callable[[T], T]:  # type: ignore[override]
        """Register a function, with the fields of a question in place of the question."""
        register = super().command(name, cls=Command, epilog=f"Example: {example}", **settings)

        def registered(function: T) -> T:
            register(expanded(function))
            return function

        return registered


def expanded(function: Any) -> Any:
    """Return the function with one keyword parameter for each field of the question that it takes."""
    hints = get_type_hints(function, include_extras=True)
    name = next((name for name, hint in hints.items() if is_dataclass(hint)), None)
    if name is None:
        return function
    question: Any = hints[name]
    kinds = get_type_hints(question, include_extras=True)
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == name:
            parameters += [_parameter(f.name, kinds[f.name], f.default) for f in fields(question)]
        else:
            parameters.append(_parameter(parameter.name, hints[parameter.name], parameter.default))

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        answerable = question(**{f.name: values.pop(f.name) for f in fields(question)})
        return function(**{name: answerable}, **values)

    del command.__wrapped__  # inspect would follow it to the parameters of the function
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a keyword parameter; a field without a default is a parameter without one."""
    empty = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=hint)


@dataclass
class Problems:
    """Problems of several subjects, raised at once."""

    subjects: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def result_of(self, make: Callable[[], T]) -> T | None:
        """Return what `make` returns; None where it raises BadInput, whose problems are kept."""
        try:
            return make()
        except BadInput as error:
            self.subjects.append(error.subject)
            self.texts += error.problems
            return None

    def refuse(self) -> None:
        """Raise BadInput with all problems; return if there are none."""
        if self.texts:
            raise BadInput(" and ".join(dict.fromkeys(self.subjects)), self.texts)


@dataclass(frozen=True, kw_only=True)
class ChipQuestion:
    """Question about a chip."""

    chip: ChipName = None
    changes: Changes = None
    chips: ChipsDirectory = None

    def load_chip(self) -> Chip:
        """Return the chip of --chip, --set and --chips. Raises BadInput."""
        return noted(chip_of(self.chip, self.changes, self.chips))


@dataclass(frozen=True, kw_only=True)
class CallQuestion(ChipQuestion):
    """Question about a call of an operator on a chip."""

    op: OperatorName
    words: Words = None
    dtype: Dtype = None

    def call_and_chip(self, given: Mapping[str, Any] | None = None) -> tuple[Call, Chip]:
        """Return the call, with `given` and the words, and the chip. Raises BadInput with all problems."""
        problems = Problems()
        words, changes = self._words_and_changes()
        chip = problems.result_of(lambda: chip_of(self.chip, changes, self.chips))
        call = _call_of(self.op, words, self.dtype, given or {}, problems)
        problems.refuse()
        if chip is None or call is None:
            raise AssertionError
        return call, chip

    def _words_and_changes(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the words and the changes of the chip; names without a dot in --set are sizes of a file of buffers."""
        words, changes = self.words or (), self.changes or ()
        if not self.op.lower().endswith(".toml"):
            return words, changes
        sizes = [pair for pair in changes if "." not in pair.partition("=")[0]]
        return [*words, *sizes], [pair for pair in changes if pair not in sizes]


@dataclass(frozen=True, kw_only=True)
class PlanQuestion(CallQuestion):
    """Question about the plan of a call, with tiles by hand."""

    tiles: Tiles = None

    def tile_sizes(self) -> dict[str, int]:
        """Return the tile sizes of --tile. Raises BadInput."""
        return tiles_of(self.tiles)


@dataclass(frozen=True, kw_only=True)
class ChipsQuestion:
    """Question about the plans of a call on several chips."""

    op: OperatorName
    words: Words = None
    chip: ChipNames = None
    changes: Changes = None
    chips: ChipsDirectory = None
    dtype: Dtype = None
    tiles: Tiles = None

    def on_one_chip(self) -> PlanQuestion:
        """Return the question about the first chip."""
        first = self.chip[0] if self.chip else None
        return PlanQuestion(**{**vars(self), "chip": first})

    def call_and_chips(self) -> tuple[Call, list[Chip]]:
        """Return the call and the chips. Raises BadInput with all problems."""
        problems = Problems()
        chips = chips_of(self.chip, self.changes, self.chips, problems)
        call = _call_of(self.op, self.words, self.dtype, {}, problems)
        problems.refuse()
        if call is None:
            raise AssertionError
        return call, chips


def _call_of(
    op: str, words: Sequence[str] | None, dtype: str | None, given: Mapping[str, Any], problems: Problems
) -> Call | None:
    """Return the call that words name; None after a problem."""
    from tilesim.operators.binding import bind, parse  # noqa: PLC0415 - numpy and pydantic load when a command runs
    from tilesim.ops import load_operator  # noqa: PLC0415
    from tilesim.program.dtypes import dtype_named  # noqa: PLC0415

    operator = problems.result_of(lambda: load_operator(op))
    kind = None if dtype is None else problems.result_of(lambda: dtype_named(dtype))
    if operator is None:
        return None
    return problems.result_of(lambda: bind(operator, {**given, **parse(operator, words or ())}, dtype=kind))


def chip_of(name: str | None, changes: Sequence[str] | None, chips: Path | None) -> Chip:
    """Return the chip of that name with other values of some parameters. Raises BadChip or BadInput."""
    from tilesim.chip.loading import chips_found, load_chip  # noqa: PLC0415 - pydantic loads when a command runs

    directory = directory_of(chips)
    if name is None:
        raise BadInput("chip", [f"--chip is missing; there are: {', '.join(chips_found(directory))}"])
    chip = load_chip(name, directory=directory)
    pairs = pairs_of("--set", changes)
    return chip.override(pairs) if pairs else chip


def noted(chip: Chip) -> Chip:
    """Return the chip after its notes, such as the part that an alias stands for, on stderr."""
    for text in chip.notes:
        note(f"note: {text}")
    return chip


def chips_of(
    names: Sequence[str] | None, changes: Sequence[str] | None, chips: Path | None, problems: Problems
) -> list[Chip]:
    """Return the chips of several names, without those that have problems."""
    given: Sequence[str | None] = names or [None]
    loaded = [problems.result_of(functools.partial(chip_of, name, changes, chips)) for name in given]
    return [noted(chip) for chip in loaded if chip is not None]


def directory_of(chips: Path | None) -> Path | None:
    """Return the directory of --chips: the command's, or the one that was given before its name."""
    return chips if chips is not None else chips_of_every_command.get()


def tiles_of(tiles: Sequence[str] | None) -> dict[str, int]:
    """Return the tile sizes that words name. Raises BadInput."""
    problems = []
    sizes = {}
    for name, text in pairs_of("--tile", tiles).items():
        try:
            sizes[name] = int(text)
        except ValueError:
            problems.append(f"{name}={text} is not a whole number")
        else:
            if sizes[name] < 1:
                problems.append(f"{name}={text} must be at least 1")
    if problems:
        raise BadInput("--tile", problems)
    return sizes


def pairs_of(option: str, words: Sequence[str] | None) -> dict[str, str]:
    """Return KEY=VALUE words as a mapping. Raises BadInput with all problems."""
    problems = []
    pairs: dict[str, str] = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        if not equals or not key or not text:
            problems.append(f"{word!r} is not KEY=VALUE")
        elif key in pairs:
            problems.append(f"{key} is given twice")
        else:
            pairs[key] = text
    if problems:
        raise BadInput(option, problems)
    return pairs
