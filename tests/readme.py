"""README.md and the guides as programs: their files are written, their commands run in order, their output compared.

A block of ```python or ```toml that begins with `# name.py` or `# name.toml` is that file. In a block of ```console a
line after `$ ` is a command, with the next one if it ends in a backslash, and what follows is its output. The map of
modules follows the layers. `python -m tests.readme` writes output and map again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.test_layers import LAYERS, PACKAGE

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
GUIDES = sorted((ROOT / "docs").glob("*.md"))
COLUMNS = 100
BLOCK = re.compile(r"^```(console|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)

MAP = re.compile(r"(?<=<!-- map: begin -->\n).*?(?=<!-- map: end -->)", re.DOTALL)
TITLES = (
    "errors",
    "numbers, dtypes, shapes",
    "chips, instructions",
    "tile programs, what operators are made of",
    "operators, what fits, what runs, what it costs",
    "schedules, verdicts",
    "plans",
    "times, and what is asked of plans",
    "views",
    "command line",
)
"""What the modules of each layer are about."""


def layers() -> str:
    """The table of modules, a row a layer."""
    rows = ["| layer | modules |", "|---|---|"]
    for number, (title, names) in enumerate(zip(TITLES, LAYERS, strict=True), 1):
        there = [n for n in names.split() if (PACKAGE / f"{n}.py").exists() or (PACKAGE / n).is_dir()]
        rows.append(f"| {number} {title} | {' '.join(f'`{n}`' for n in there if not n.startswith('__'))} |")
    return "\n".join(rows) + "\n"


def run(command: str, place: Path) -> str:
    """What a terminal would show for a command, run in `place` with the checkout's `tilesim`."""
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

    return MAP.sub(layers(), BLOCK.sub(block, text))


if __name__ == "__main__":
    for file in (README, *GUIDES):
        with tempfile.TemporaryDirectory() as directory:
            file.write_text(renewed(file.read_text(encoding="utf-8"), Path(directory)), encoding="utf-8")
