"""The command line: questions in words, answers on stdout, messages on stderr, an exit code.

`commands/` has one file for each command. The modules beside it are shared by commands: questions, the loading of
commands, errors and exit codes, and the screens of verdicts and tables. Nothing here computes an answer, and no other
wing imports from here.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tilesim.cli.group import EXIT_CLOSED, EXIT_FAULT, EXIT_INTERRUPTED, EXIT_YES, AllCommands
from tilesim.cli.question import ChipsDirectory, chips_of_every_command

app = typer.Typer(
    name="tilesim",
    cls=AllCommands,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes, 1 no, 2 invalid input (shape, dtype, chip, key or file), "
    f"{EXIT_FAULT} a fault of tilesim itself, {EXIT_INTERRUPTED} Ctrl-C, {EXIT_CLOSED} output closed by its reader.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - only --version needs it

        typer.echo(f"tilesim {version('tilesim')}")
        raise typer.Exit


@app.callback()
def tilesim(
    ctx: typer.Context,
    directory: ChipsDirectory = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> int:
    """Tiling, resource planning and simulation of NPU operators, without the NPU."""
    chips_of_every_command.set(directory)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
    return EXIT_YES


def main() -> None:
    """Run the command that the process's arguments name, and exit."""
    app(prog_name="tilesim")
