"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tilesim.errors import BadInput


def write_text(path: str | Path, text: str) -> Path:
    """The path, which now holds `text` in UTF-8; what was there stays if anything goes wrong. Raises BadInput."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise BadInput(str(path), [f"cannot be written: {error.strerror}".lower()]) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # A temporary file is for its owner only; the one that stays has the mode of any new file.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise BadInput(str(path), [f"cannot be written: {error.strerror}".lower()]) from None
        raise
    return target
