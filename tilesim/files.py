"""Text files that are read, and files that are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from tilesim.errors import BadInput


def read_text(path: str | Path, error: type[BadInput] = BadInput) -> str:
    """Return the text of a file in UTF-8. Raises `error` with the reason for a file that cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "is not text in UTF-8"
        raise error(str(path), [f"cannot be read: {reason}".lower()]) from None


def write_text(path: str | Path, text: str) -> Path:
    """Write `text` in UTF-8 and return the path; after an error the old file stays. Raises BadInput."""
    target = Path(path)
    write_all({target: lambda file: file.write(text.encode())})
    return target


def write_all(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write every file under a temporary name, and rename all of them when all are complete. Raises BadInput.

    A link stays, and its target is written; anything but a regular file, such as a device, is refused.
    """
    parts: dict[Path, Path] = {}
    target = Path()
    try:
        for named, write in writers.items():
            target = named.resolve()
            if target.exists() and not target.is_file():
                kind = "is a directory" if target.is_dir() else "is not a regular file"
                raise BadInput(str(named), [f"cannot be written: it {kind}"])
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
