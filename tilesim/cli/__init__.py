"""The command line: one file a command or group of commands, each with `add_to`."""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli import (
    check,
    chips,
    compare,
    explain,
    graph,
    ops,
    plan,
    plot,
    report,
    run,
    simulate,
    sweep,
    trace,
    validate,
    whatif,
)
from tilesim.cli.commands import Commands
from tilesim.cli.inputs import ChipsDirectory, chips_of_every_command

COMMANDS = (
    *(check, plan, explain, graph, simulate, run, trace, report, plot),
    *(sweep, whatif, validate, compare, chips, ops),
)
"""The modules of the commands, in the order of the help."""

app = typer.Typer(
    name="tilesim",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes, 1 no, 2 what is not a shape, dtype, chip, key or readable file.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - nothing else needs it

        typer.echo(f"tilesim {version('tilesim')}")
        raise typer.Exit


@app.callback()
def tilesim(
    directory: ChipsDirectory = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tiling, resource planning and simulation of NPU operators, without the NPU."""
    chips_of_every_command.set(directory)


for module in COMMANDS:
    module.add_to(app)


def main() -> None:
    """Run the command that the process's arguments name, and exit."""
    app(prog_name="tilesim")
