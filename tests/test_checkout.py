"""What is tracked is the same wherever it is checked out."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = "120000"
"""The mode of a symbolic link."""


@pytest.mark.skipif(not (shutil.which("git") and (ROOT / ".git").exists()), reason="no checkout, or no git to ask")
def test_no_symbolic_link_is_tracked():
    """A link has a path in it, often one of the machine that it was made on, and some systems cannot make it."""
    tracked = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert tracked
    assert not [entry for entry in tracked.splitlines() if entry.startswith(LINK)]
