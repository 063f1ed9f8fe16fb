"""`tilesim chips`: list, show, compare, import and validate chips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilesim.chip.chip import Chip
from tilesim.chip.loading import chips_found, import_chip, load_chip
from tilesim.cli.console import TextColumn, emit, fields, heading, line, note, raw, several, size, table
from tilesim.cli.group import EXIT_NO, EXIT_YES, Commands
from tilesim.cli.question import App, AsJson, Changes, ChipsDirectory, chip_of, directory_of, noted
from tilesim.errors import BadChip, BadInput
from tilesim.files import write_text

ChipArgument = Annotated[str, typer.Argument(metavar="NAME", help="A chip by name, a .toml or a .ini file.")]

app = App(name="chips", cls=Commands)


@app.callback(invoke_without_command=True, epilog="Example: tilesim chips")
def chips(ctx: typer.Context, directory: ChipsDirectory = None, as_json: AsJson = False) -> int:
    """List the chips; `chips show NAME` shows one in full."""
    if ctx.invoked_subcommand is not None:
        return EXIT_YES

    folder = directory_of(directory)
    listed = []
    for name in chips_found(folder):
        try:
            listed.append(load_chip(name, directory=folder))
        except BadChip as error:  # one bad file leaves the other chips listed
            note(f"warning: {error}")
    if as_json:
        emit([_brief(chip) for chip in listed])
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
    for chip in listed:
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
    fields(_products(listed))
    return EXIT_YES


def _products(chips: Sequence[Chip]) -> Iterator[tuple[str, str]]:
    """Yield every family with its product, or with its products and their chips."""
    for family in dict.fromkeys(chip.family for chip in chips):
        chips_of: dict[str, list[str]] = {}
        for chip in chips:
            if chip.family == family:
                chips_of.setdefault(chip.product, []).append(chip.name)
        several_of = [f"{product} ({', '.join(names)})" for product, names in chips_of.items()]
        yield family, ", ".join(several_of if len(chips_of) > 1 else chips_of)


def _brief(chip: Chip) -> dict[str, Any]:
    """Return the data of a chip in the list."""
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
    """Show every parameter of a chip with its source and status."""
    chip = noted(chip_of(name, changes, directory))
    if as_json:
        emit(_brief(chip) | {"figures": [vars(figure) for figure in chip.figures()]})
        return EXIT_YES
    line(f"{chip.name}: {chip.soc}, {chip.product}", "bold")
    fields([("family", chip.family), ("architecture", chip.arch), ("visible ub", size(chip.memory.ub.visible_bytes))])
    columns = (TextColumn("key"), TextColumn("value", number=True), TextColumn("status"))
    for title, section in chip.tables().items():
        heading(title)
        line(f"source: {section.source}", "dim")
        if section.note:
            line(f"note: {section.note}", "dim")
        figures = [figure for figure in chip.figures() if figure.key.rpartition(".")[0] == title]
        table(columns, [(figure.key, _number(figure.value), figure.status) for figure in figures])
    return EXIT_YES


@app.command(example="tilesim chips diff ascend910b3 ascend950pr")
def diff(first: ChipArgument, second: ChipArgument, directory: ChipsDirectory = None, as_json: AsJson = False) -> int:
    """Show the parameters in which two chips differ; the exit code is 1 if there are any."""
    left, right = (chip_of(name, None, directory) for name in (first, second))
    differences = left.diff(right)
    if as_json:
        rows = [{"key": key, "first": a, "second": b} for key, (a, b) in differences.items()]
        emit({"ok": not differences, "differences": rows})
        return EXIT_NO if differences else EXIT_YES
    line(f"{left.name} and {right.name} differ in {several(len(differences), 'parameter')}", "bold")
    if differences:
        columns = (TextColumn("key"), TextColumn(left.name, number=True), TextColumn(right.name, number=True))
        line()
        table(columns, [(key, _number(a), _number(b)) for key, (a, b) in differences.items()])
    return EXIT_NO if differences else EXIT_YES


@app.command("import", example="tilesim chips import Ascend910B3.ini --out mine.toml")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.ini", help="A platform_config file of CANN.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.toml", help="The chip file; default: stdout.")
    ] = None,
    like: Annotated[
        str, typer.Option("--like", "--family", metavar="NAME", help="The chip or family that completes it.")
    ] = "",
    directory: ChipsDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Make a chip file from a CANN platform file; its missing parameters are those of the nearest chip, as guesses."""
    imported = import_chip(file, like=like, directory=directory_of(directory))
    chip = imported.chip
    if out is not None:
        if out.suffix.lower() != ".toml":
            raise BadInput(str(out), ["must end in .toml, the format of chip files"])
        chip = chip.model_copy(update={"name": out.stem})
        write_text(out, chip.to_toml())
    if as_json:
        brief = _brief(chip) | {"base": imported.base, "from_file": list(imported.from_file)}
        brief |= {"missing": list(imported.missing), "notes": list(imported.notes)}
        emit(brief | {"out": None if out is None else str(out)})
    elif out is None:
        raw(chip.to_toml())
    else:
        line(f"written to {out}")
    note(
        f"{several(len(imported.from_file), 'parameter')} from {file.name}, "
        f"{several(len(imported.missing), 'parameter')} from {imported.base}, as guesses"
    )
    for text in imported.notes:
        note(text)
    return EXIT_YES


@app.command(example="tilesim chips validate mine.toml")
def validate(
    file: ChipArgument,
    directory: ChipsDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Check a chip file: all problems at once, and the parameters that are guesses."""
    chip = chip_of(file, None, directory)
    guesses = chip.guesses()
    if as_json:
        emit({"ok": True, "name": chip.name, "figures": len(chip.keys()), "guesses": list(guesses)})
    else:
        line(f"{chip.name} is a chip with {several(len(chip.keys()), 'parameter')}")
        if guesses:
            line(f"guesses: {', '.join(guesses)}")
    return EXIT_YES


def _number(value: float | None) -> str:
    """Return the value of a parameter as text of a table."""
    return "" if value is None else f"{int(value) if float(value).is_integer() else value:,}"
