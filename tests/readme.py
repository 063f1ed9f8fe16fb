"""README.md and the guides as programs: their files are written, their commands run in order, their output compared.

A block of ```python or ```toml that begins with `# name.py` or `# name.toml` is that file. In a block of ```console a
line after `$ ` is a command, with the next one if it ends in a backslash, and what follows is its output.
`python -m tests.readme` writes the output again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from tilesim.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
GUIDES = sorted((ROOT / "docs").glob("*.md"))
COLUMNS = 100
BLOCK = re.compile(r"^```(console|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
NOT_PLAIN = set("|&;<>()$`\\\"'*?[]#~%{}\n")
"""Letters that mean something to a shell."""
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def run(command: str, place: Path) -> str:
    """Return what a terminal would show for a command, run in `place` with the checkout's `tilesim`.

    A line that calls nothing but `tilesim` runs in this process.
    """
    if command.startswith("tilesim ") and not set(command) & NOT_PLAIN:
        return in_process(command.split()[1:], place)
    launcher = place / "bin" / "tilesim"
    if not launcher.exists():
        launcher.parent.mkdir()
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilesim "$@"\n')
        launcher.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "TILESIM_CHIPS"} | {
        "COLUMNS": str(COLUMNS),
        "PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


def in_process(words: list[str], place: Path) -> str:
    """Return what a terminal would show for a call of `tilesim` with those words."""
    with chdir(place), patch.dict(os.environ, COLUMNS=str(COLUMNS)):
        os.environ.pop("TILESIM_CHIPS", None)
        return CliRunner().invoke(app, words, prog_name="tilesim").output


def renewed(text: str, place: Path, output: Callable[[str, Path], str] = run) -> str:
    """The text with the output of every command as it is now."""

    def block(found: re.Match[str]) -> str:
        kind, body = found.groups()
        if kind != "console":
            name = FILE.match(body)
            if name:
                (place / name[1]).write_text(body, encoding="utf-8")
            return found[0]
        shown = COMMAND.sub(lambda command: f"$ {command[1]}\n{output(command[1], place)}", body)
        return f"```{kind}\n{shown}```"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for file in (README, *GUIDES):
        with tempfile.TemporaryDirectory() as directory:
            file.write_text(renewed(file.read_text(encoding="utf-8"), Path(directory)), encoding="utf-8")
