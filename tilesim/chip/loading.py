"""Where chips come from: shipped files, directories of chip files, paths, and the vendor's platform files."""

from __future__ import annotations

import functools
import json
import math
import os
import tomllib
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.platform_ini import PlatformFile, read_platform
from tilesim.errors import BadChip, did_you_mean
from tilesim.pydantic_errors import problems_of

CHIPS_VARIABLE: Final = "TILESIM_CHIPS"
"""The environment variable that names directories of chip files, searched before the shipped ones."""


ALIKE: Final = (
    "memory.ub.size_bytes",
    "memory.l1.size_bytes",
    "memory.l0c.size_bytes",
    "cores.vector",
    "cores.cube",
    "clock.vector_hz",
)
"""Figures by which a platform file is compared with the shipped chips where it does not tell its family."""


@dataclass(frozen=True)
class Imported:
    """A chip made from a CANN platform file."""

    chip: Chip
    """The chip; every figure that the file does not have is a guess."""
    base: str
    """The shipped chip that the file was completed from."""
    from_file: tuple[str, ...]
    """Keys of the figures that the file has."""
    missing: tuple[str, ...]
    """Keys of the figures that were taken from `base`."""
    notes: tuple[str, ...] = ()
    """What else there is to know: a family that was guessed, sections and keys that the file has twice."""


@checked
def load_chip(source: str | Path, *, directory: str | Path | None = None) -> Chip:
    """The chip that `source` names: a name, the path of a `.toml`, or the path of a CANN platform_config `.ini`.

    A name is looked for in `directory`, in the directories of TILESIM_CHIPS, then among the shipped chips; its letter
    case does not matter.

    >>> load_chip("Ascend910B3").cores.vector
    40

    Raises BadChip, with all problems at once.
    """
    text = str(source)
    if text.lower().endswith(".ini"):
        return import_chip(text, directory=directory).chip
    if isinstance(source, Path) or text.lower().endswith(".toml") or os.sep in text:
        return _from_toml(Path(source))
    known = _files(directory)
    if text.lower() not in known:
        names = ", ".join(sorted(known))
        raise BadChip("chip", [f"{text!r} is not a chip;{did_you_mean(text, known)} there are: {names}"])
    return _from_toml(known[text.lower()])


def import_chip(path: str | Path, *, like: str = "", directory: str | Path | None = None) -> Imported:
    """The chip that a CANN platform_config `.ini` describes, and which of its figures came from the file.

    What the file does not say comes from the shipped chip that is nearest to it: of the family that the file or its
    name tells, or, if neither does, the one with the most similar sizes and counts; `like` names another one, or the
    family that it is of. Rates in the file are nominal, so they
    count only where the nearest chip has no measurement of that path.
    Raises BadChip if the file cannot be read, or says that it is a part of no known family, without `like`.
    """
    given = read_platform(_read(Path(path)), Path(path).name)
    base = _nearest(given, str(path), like, directory)
    notes = list(given.notes)
    if given.family is None:
        notes.append(f"the family is {base.family}, {'as asked' if like else 'a guess from the figures'}")
    tables = {name: table for name, table in base.tables().items() if not name.startswith("kernels.")}
    figures = dict(given.figures)
    for key, rate in given.nominal.items():
        name = key.rpartition(".")[0]
        if tables[name].status in ("platform", "guess"):
            figures |= {key: rate, f"{name}.bytes_per_cycle": rate}
    data = base.model_dump(by_alias=True, exclude={"kernels"}) | {"name": given.soc.lower(), "soc": given.soc}
    for name, table in tables.items():
        mine = {key: figures[f"{name}.{key}"] for key in table.figures() if f"{name}.{key}" in figures}
        rest = tuple(key for key in table.figures() if key not in mine)
        target = data
        for part in name.split("."):
            target = target[part]
        target |= mine | {"note": "", "guesses": rest if mine else (), "status": "platform" if mine else "guess"}
        target["source"] = "; ".join([given.file] * bool(mine) + [f"{base.name}: {table.source}"] * bool(rest))
    chip = _checked(data, str(path), list(given.problems))
    keys = [figure.key for figure in chip.figures()]
    return Imported(
        chip=chip,
        base=base.name,
        from_file=tuple(key for key in keys if key in figures),
        missing=tuple(key for key in keys if key not in figures),
        notes=tuple(notes),
    )


def chip_directories(directory: str | Path | None = None) -> tuple[Path, ...]:
    """Where a chip's name is looked for, first to last: `directory`, those of TILESIM_CHIPS, the shipped one."""
    named = [part for part in os.environ.get(CHIPS_VARIABLE, "").split(os.pathsep) if part]
    own = [] if directory is None else [Path(directory)]
    return (*own, *(Path(part) for part in named), _shipped())


def chips_shipped() -> tuple[str, ...]:
    """The names of the chips that come with the package."""
    return tuple(sorted(path.stem for path in _shipped().glob("*.toml")))


@functools.cache
def load_shipped(name: str) -> Chip | None:
    """The chip of that name that comes with the package, whatever other directories there are; None without one."""
    return _from_toml(_shipped() / f"{name.lower()}.toml") if name.lower() in chips_shipped() else None


@checked
def chips_found(directory: str | Path | None = None) -> tuple[str, ...]:
    """The names that `load_chip` knows: the caller's own chips and the shipped ones."""
    return tuple(sorted(_files(directory)))


def schema_text() -> str:
    """The JSON schema of a chip file, as `chips/_schema.json` holds it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Chip.model_json_schema(by_alias=True)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _shipped() -> Path:
    """The directory of the shipped chips: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "chips"
    return inside if inside.is_dir() else package.parent / "chips"


def _files(directory: str | Path | None) -> dict[str, Path]:
    """The chip files by name; the first directory that has a name wins."""
    found: dict[str, Path] = {}
    for place in chip_directories(directory):
        if not place.is_dir():
            raise BadChip(str(place), ["is not a directory of chip files"])
        for path in sorted(place.glob("*.toml")):
            found.setdefault(path.stem.lower(), path)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text in UTF-8"
        raise BadChip(str(path), [f"cannot be read: {reason}".lower()]) from None


def _from_toml(path: Path) -> Chip:
    try:
        data = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise BadChip(_shown(path), [f"is not TOML: {error}"]) from None
    wrong = data.get("name", path.stem) != path.stem
    problems = [f"name is {data['name']!r}, must be the name of the file, {path.stem!r}"] if wrong else []
    return _checked(data, _shown(path), problems)


def _shown(path: Path) -> str:
    """A shipped file without the directories above `chips`, since those say nothing about it."""
    return f"chips/{path.name}" if path.parent == _shipped() else str(path)


def _checked(data: dict[str, Any], subject: str, problems: list[str]) -> Chip:
    """The chip that `data` describes; raises BadChip with `problems` and all others."""
    try:
        chip = Chip.model_validate(data)
    except ValidationError as error:
        raise BadChip(subject, problems + problems_of(error, Chip)) from None
    if problems:
        raise BadChip(subject, problems)
    return chip


def _nearest(given: PlatformFile, subject: str, like: str, directory: str | Path | None) -> Chip:
    """The chip that a platform file is completed from, see `import_chip`."""
    shipped = [load_chip(name, directory=directory) for name in chips_shipped()]
    families = {chip.family for chip in shipped}
    if like and like.lower() not in families:
        return load_chip(like, directory=directory)
    family = like.lower() or given.family
    if family is None:
        figures = {key: value for key, value in given.figures.items() if key in ALIKE and value > 0}
        if given.named:
            reason = f"version.Short_SoC_version is {given.short_soc!r}, which is of no known family"
        elif not figures:
            reason = f"neither [version] nor the file's name tells a family, and there is none of {', '.join(ALIKE)}"
        else:
            return min(shipped, key=lambda chip: sum(abs(math.log(v / (chip.get(k) or 1))) for k, v in figures.items()))
        raise BadChip(subject, [f"{reason}; import it like a chip, or like one of {', '.join(sorted(families))}"])

    def likeness(chip: Chip) -> tuple[int, bool]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(chip.name, given.soc.lower(), strict=False))
        return len(list(same)), chip.cores.vector == given.figures.get("cores.vector")

    return max((chip for chip in shipped if chip.family == family), key=likeness)
