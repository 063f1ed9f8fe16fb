"""Groups of commands: loaded on need, ended by an exit code, errors as one line."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tilesim.cli import commands
from tilesim.errors import BadInput, TilesimError, did_you_mean

EXIT_YES: Final = 0
EXIT_NO: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 128 + 2
"""Code of a shell for a process that Ctrl-C ended."""
EXIT_CLOSED: Final = 128 + 13
"""Code of a shell for a process whose output is closed by its reader."""
EXIT_FAULT: Final = 70
"""Code of an internal error."""
TRACEBACK_VARIABLE: Final = "TILESIM_TRACEBACK"
"""Environment variable with which errors show their traceback."""


class Commands(TyperGroup):
    """Group of commands. A command returns its exit code; an error becomes one line on stderr, never a traceback."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command that `args` name, and exit."""
        extra["standalone_mode"] = False
        _replace_unencodable()
        try:
            code = super().main(args, prog_name, **extra)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            if TRACEBACK_VARIABLE in os.environ:
                raise
            code = _ended(error)
        sys.exit(code if isinstance(code, int) else EXIT_YES)

    def invoke(self, ctx: Any) -> Any:
        """Return the result of the command; typer has other exit codes for Ctrl-C and a closed pipe."""
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise typer.Exit(_ended(error)) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names. Raises BadInput."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            hint = did_you_mean(args[0], names) or f" there are: {', '.join(names)}"
            raise BadInput(ctx.command_path, [f"{args[0]!r} is not a command;{hint}"])
        return super().resolve_command(ctx, args)


class AllCommands(Commands):
    """Group of the files of `tilesim.cli.commands`; a file is imported when its command runs."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature of the base class
        """Return the names of the files."""
        return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, from its file."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return typer.main.get_command(importlib.import_module(f"{commands.__name__}.{cmd_name}").app)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with a summary of every command; the files are read, not imported."""
        summaries = {name: _summary(f"{commands.__name__}.{name}") for name in self.list_commands(ctx)}
        page = TyperGroup(
            name=self.name,
            commands=[TyperCommand(name, help=text) for name, text in summaries.items()],
            params=self.params,
            help=self.help,
            epilog=self.epilog,
            rich_markup_mode=self.rich_markup_mode,
        )
        page.format_help(ctx, formatter)


def _summary(module: str) -> str:
    """Return the docstring of the first function that a module registers, without importing the module."""
    spec = find_spec(module)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else "")
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    return next((ast.get_docstring(node) or "" for node in functions), "")


def _ended(error: BaseException) -> int:
    """Return the exit code for an error that ended a command, after writing its line to stderr."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The interpreter flushes stdout at exit; without another target, that flush fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return EXIT_CLOSED
    text, code = _about(error)
    one_line = "; ".join(part.strip() for part in text.splitlines())
    sys.stderr.write(f"error: {one_line}\n")
    return code


def _about(error: BaseException) -> tuple[str, int]:
    """Return the line about an error and its exit code."""
    if isinstance(error, TilesimError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}", EXIT_BAD_INPUT
    if isinstance(error, MemoryError):
        return f"not enough memory: {_one_line(str(error)) or 'the host has no more'}", EXIT_BAD_INPUT
    option = getattr(error, "option_name", "")
    if option and getattr(error, "ctx", None) is not None and hasattr(error, "possibilities"):
        return _no_such_option(option, error.ctx), EXIT_BAD_INPUT  # type: ignore[attr-defined]
    if hasattr(error, "format_message"):  # typer's; their base class has moved from one version to the next
        return _one_line(error.format_message()), EXIT_BAD_INPUT
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text}; this is a fault of tilesim, {TRACEBACK_VARIABLE}=1 shows where", EXIT_FAULT


def _no_such_option(option: str, ctx: Any) -> str:
    """Return the line about an option that a command does not have."""
    options = [name for param in ctx.command.get_params(ctx) for name in param.opts if name.startswith("-")]
    hint = did_you_mean(option, options) or f" there are: {', '.join(options)}"
    return f"{ctx.command_path}: {option!r} is not an option;{hint}"


def _one_line(message: str) -> str:
    """Return a message of typer as one line in the form of this program: lower case, no full stop."""
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _replace_unencodable() -> None:
    """Let output streams replace characters that their encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if not encoding.startswith("utf") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
