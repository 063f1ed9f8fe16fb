"""`tilesim chips`: which chips there are, what is known about them, and chips of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_found, import_chip, load_chip
from tilesim.cli.console import TextColumn, emit, fields, heading, line, note, raw, several, size, table
from tilesim.cli.group import EXIT_NO, EXIT_YES, Commands
from tilesim.cli.question import App, AsJson, Changes, ChipsDirectory, chip_of, directory_of
from tilesim.errors import BadChip, BadInput
from tilesim.files import write_text

ChipArgument = Annotated[str, typer.Argument(metavar="NAME", help="A chip by name, a .toml or a .ini file.")]

app = App(name="chips", cls=Commands)


@app.callback(invoke_without_command=True, epilog="Example: tilesim chips")
def chips(ctx: typer.Context, directory: ChipsDirectory = None, as_json: AsJson = False) -> int:
    """List the chips; `chips show NAME` tells all about one."""
    if ctx.invoked_subcommand is not None:
        return EXIT_YES

    place = directory_of(directory)
    found = []
    for name in chips_found(place):
        try:
            found.append(load_chip(name, directory=place))
        except BadChip as error:  # a bad file of the caller's hides no other chip
            note(f"warning: {error}")
    if as_json:
        emit([_brief(chip) for chip in found])
        return EXIT_YES
    columns = (
        TextColumn("chip"),
        TextColumn("family"),
        TextColumn("vector", number=True),
        TextColumn("cube", number=True),
        TextColumn("ub [bytes]", number=True),
        TextColumn("guesses", number=True),
    )
    rows = []
    for chip in found:
        guessed = sum(figure.status == "guess" for figure in chip.figures())
        rows.append(
            (
                chip.name,
                chip.family,
                chip.cores.vector,
                chip.cores.cube,
                chip.memory.ub.visible_bytes,
                f"{guessed} of {len(chip.keys())}",
            )
        )
    table(columns, rows)
    heading("products")
    fields(_products(found))
    return EXIT_YES


def _products(found: Sequence[Chip]) -> Iterator[tuple[str, str]]:
    """Every family with its product, or with its products and their chips."""
    for family in dict.fromkeys(chip.family for chip in found):
        chips_of: dict[str, list[str]] = {}
        for chip in found:
            if chip.family == family:
                chips_of.setdefault(chip.product, []).append(chip.name)
        several_of = [f"{product} ({', '.join(names)})" for product, names in chips_of.items()]
        yield family, ", ".join(several_of if len(chips_of) > 1 else chips_of)


def _brief(chip: Chip) -> dict[str, Any]:
    """A chip in the list."""
    return {
        "name": chip.name,
        "soc": chip.soc,
        "family": chip.family,
        "product": chip.product,
        "vector_cores": chip.cores.vector,
        "cube_cores": chip.cores.cube,
        "ub_bytes": chip.memory.ub.visible_bytes,
        "ub_status": chip.memory.ub.status,
        "guesses": list(chip.guesses()),
    }


@app.command(example="tilesim chips show ascend950pr")
def show(name: ChipArgument, changes: Changes = None, directory: ChipsDirectory = None, as_json: AsJson = False) -> int:
    """Show every figure of a chip with its source and status."""
    chip = chip_of(name, changes, directory)
    if as_json:
        emit(_brief(chip) | {"figures": [vars(figure) for figure in chip.figures()]})
        return EXIT_YES
    line(f"{chip.name}: {chip.soc}, {chip.product}", "bold")
    fields([("family", chip.family), ("architecture", chip.arch), ("visible ub", size(chip.memory.ub.visible_bytes))])
    columns = (TextColumn("key"), TextColumn("value", number=True), TextColumn("status"))
    for title, shown in chip.tables().items():
        heading(title)
        line(f"source: {shown.source}", "dim")
        if shown.note:
            line(f"note: {shown.note}", "dim")
        mine = [figure for figure in chip.figures() if figure.key.rpartition(".")[0] == title]
        table(columns, [(figure.key, _number(figure.value), figure.status) for figure in mine])
    return EXIT_YES


@app.command(example="tilesim chips diff ascend910b3 ascend950pr")
def diff(first: ChipArgument, second: ChipArgument, directory: ChipsDirectory = None, as_json: AsJson = False) -> int:
    """Show the figures in which two chips differ; the exit code is 1 if there are any."""
    one, other = (chip_of(name, None, directory) for name in (first, second))
    found = one.diff(other)
    if as_json:
        emit({"ok": not found, "differences": [{"key": k, "first": a, "second": b} for k, (a, b) in found.items()]})
        return EXIT_NO if found else EXIT_YES
    line(f"{one.name} and {other.name} differ in {several(len(found), 'figure')}", "bold")
    if found:
        columns = (TextColumn("key"), TextColumn(one.name, number=True), TextColumn(other.name, number=True))
        line()
        table(columns, [(key, _number(a), _number(b)) for key, (a, b) in found.items()])
    return EXIT_NO if found else EXIT_YES


@app.command("import", example="tilesim chips import Ascend910B3.ini --out mine.toml")
def imported(
    file: Annotated[Path, typer.Argument(metavar="FILE.ini", help="A platform_config file of CANN.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.toml", help="The chip file; else stdout.")] = None,
    like: Annotated[
        str, typer.Option("--like", "--family", metavar="NAME", help="The chip or the family to complete it from.")
    ] = "",
    directory: ChipsDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Make a chip file from a CANN platform file; what that does not say comes from the nearest chip, as a guess."""
    found = import_chip(file, like=like, directory=directory_of(directory))
    chip = found.chip
    if out is not None:
        if out.suffix.lower() != ".toml":
            raise BadInput(str(out), ["must end in .toml, since that is what a chip is loaded from"])
        chip = chip.model_copy(update={"name": out.stem})
        write_text(out, chip.to_toml())
    if as_json:
        brief = _brief(chip) | {"base": found.base, "from_file": list(found.from_file), "missing": list(found.missing)}
        brief["notes"] = list(found.notes)
        emit(brief | {"out": None if out is None else str(out)})
    elif out is None:
        raw(chip.to_toml())
    else:
        line(f"written to {out}")
    note(
        f"{several(len(found.from_file), 'figure')} from {file.name}, "
        f"{several(len(found.missing), 'figure')} from {found.base}, as guesses"
    )
    for one in found.notes:
        note(one)
    return EXIT_YES


@app.command(example="tilesim chips validate mine.toml")
def validate(
    file: ChipArgument,
    directory: ChipsDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Check a chip file: every problem at once, and which of its figures are guesses."""
    chip = chip_of(file, None, directory)
    guesses = chip.guesses()
    if as_json:
        emit({"ok": True, "name": chip.name, "figures": len(chip.keys()), "guesses": list(guesses)})
    else:
        line(f"{chip.name} is a chip with {several(len(chip.keys()), 'figure')}")
        if guesses:
            line(f"guesses: {', '.join(guesses)}")
    return EXIT_YES


def _number(value: float | None) -> str:
    """A figure as a chip file has it, for a table."""
    return "" if value is None else f"{int(value) if float(value).is_integer() else value:,}"
