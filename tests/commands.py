"""Commands run in an empty directory, and what their output must look like."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tilesim.cli import app


def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> Callable[..., Result]:
    """A function that runs `tilesim` with some words in an empty directory, on a terminal of so many columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("TILESIM_CHIPS", raising=False)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="tilesim")


def answered(result: Result, code: int = 0) -> str:
    """The stdout of a command that ended with `code` and said nothing else."""
    assert (result.exit_code, result.stderr) == (code, "")
    return result.stdout


def refused(result: Result) -> str:
    """The one line of a command that could not make sense of its input."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
