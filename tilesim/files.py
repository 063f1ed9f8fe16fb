"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from tilesim.errors import BadInput


def write_text(path: str | Path, text: str) -> Path:
    """The path, which now holds `text` in UTF-8; what was there stays if anything goes wrong. Raises BadInput."""
    target = Path(path)
    write_all({target: lambda file: file.write(text.encode())})
    return target


def write_all(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write every file under another name, and rename them all once all are whole. Raises BadInput.

    A link stays, and what it leads to is written; what is no plain file, as a device, is refused.
    """
    parts: dict[Path, Path] = {}
    target = Path()
    try:
        for named, write in writers.items():
            target = named.resolve()
            if target.exists() and not target.is_file():
                what = "a directory" if target.is_dir() else "no plain file"
                raise BadInput(str(named), [f"cannot be written: it is {what}"])
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
            parts[target] = Path(name)
            with os.fdopen(handle, "wb") as file:
                write(file)
            # A temporary file is for its owner only; the one that stays has the mode of any new file.
            mask = os.umask(0)
            os.umask(mask)
            parts[target].chmod(0o666 & ~mask)
        for target, part in parts.items():
            part.replace(target)
    except OSError as error:
        raise BadInput(str(target), [f"cannot be written: {error.strerror or error}".lower()]) from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
