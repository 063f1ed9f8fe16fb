"""Sources of chips: shipped files, directories of chip files, paths, and the vendor's platform files."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import tomllib
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tilesim.arguments import checked
from tilesim.chip.chip import Chip
from tilesim.chip.platform_ini import PlatformFile, read_platform
from tilesim.chip.tables import FAMILY_NAMES
from tilesim.errors import BadChip, did_you_mean
from tilesim.files import read_text
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
"""Parameters by which a platform file of unknown family is compared with the shipped chips."""


@dataclass(frozen=True)
class Imported:
    """A chip made from a CANN platform file."""

    chip: Chip
    """The chip; every parameter that the file does not have is a guess."""
    base: str
    """The shipped chip that the file was completed from."""
    from_file: tuple[str, ...]
    """Keys of the parameters that the file has."""
    missing: tuple[str, ...]
    """Keys of the parameters taken from `base`."""
    notes: tuple[str, ...] = ()
    """Notes: a guessed family, sections and keys that the file has twice."""


@checked
def load_chip(source: str | Path, *, directory: str | Path | None = None) -> Chip:
    """Return the chip that `source` names: a name, the path of a `.toml`, or the path of a CANN platform_config `.ini`.

    A name is searched in `directory`, in the directories of TILESIM_CHIPS, then among the shipped chips, as the name of
    a file, an alias in a file, and a family that has one member; letter case and "ascend" in front do not matter.

    >>> load_chip("Ascend910B3").cores.vector, load_chip("910_9381").clock.cube_hz
    (40, 1800000000)

    Raises BadChip, with all problems at once.
    """
    chips = load_chips(source, directory=directory)
    if len(chips) > 1:
        names = ", ".join(chip.name for chip in chips)
        raise BadChip("chip", [f"{str(source)!r} is a family of {len(chips)} chips, one is needed: {names}"])
    return chips[0]


@checked
def load_chips(source: str | Path, *, directory: str | Path | None = None) -> tuple[Chip, ...]:
    """Return the chip that `source` names, as `load_chip` does, or every member of the family that it names.

    >>> [chip.name for chip in load_chips("310P")]
    ['ascend310p3', 'ascend310p1']

    Raises BadChip, with all problems at once.
    """
    text = str(source)
    if text.lower().endswith(".ini"):
        return (import_chip(text, directory=directory).chip,)
    if isinstance(source, Path) or text.lower().endswith(".toml") or os.sep in text:
        return (_from_toml(Path(source)),)
    files = _files(directory)
    if text.lower() in files:
        return (_from_toml(files[text.lower()]),)
    word = _designation(text)
    named = {name.rpartition("_")[2]: name for name in files} | {_designation(name): name for name in files}
    if word in named:
        return (_from_toml(files[named[word]]),)
    chips = [_from_toml(path) for path in files.values()]
    for chip in chips:
        for alias in chip.aliases:
            if word in (_designation(alias), alias.rpartition("_")[2]):
                return (chip.part(alias),)
    family = FAMILY_NAMES.get(f"ascend{word}", word)
    members = [chip for chip in chips if chip.family == family and chip.name in chips_shipped()]
    if members:
        parts = [chip.part(name) for chip in members for name in chip.aliases if _is_sibling(chip, name)]
        return (*members, *parts)
    names = [*files, *(alias for chip in chips for alias in chip.aliases), *FAMILY_NAMES]
    alike = [name for name in names if _model(name) == _model(text)]
    hint = did_you_mean(text, alike)
    raise BadChip("chip", [f"{text!r} is not a chip;{hint} there are: {', '.join(sorted(files))}"])


def _is_sibling(chip: Chip, alias: str) -> bool:
    """Return True if an alias is a part of its own, of the same number as the chip: 910_5591 is no 950."""
    return bool(chip.aliases[alias].parameters) and _designation(alias)[:3] == _designation(chip.name)[:3]


def _designation(name: str) -> str:
    """Return the name of a part or family in lower case, without the vendor's word."""
    return name.lower().removeprefix("ascend").strip(" -_")


def _model(name: str) -> tuple[str, str]:
    """Return the family whose parts have such names and the model in the name; a hint never leads from one to another.

    >>> _model("ascend910b33"), _model("ascend910c"), _model("mine")
    (('a2', '910b'), ('a3', '910c'), ('', ''))
    """
    word = _designation(name)
    number = re.search(r"\d{3}[a-z]?|\ba\d+", word)
    model = number.group() if number else ""
    known = word[number.start() :] if number else word
    return next((family for start, family in FAMILY_NAMES.items() if f"ascend{known}".startswith(start)), ""), model


def import_chip(path: str | Path, *, like: str = "", directory: str | Path | None = None) -> Imported:
    """Return the chip that a CANN platform_config `.ini` describes, with the keys of the parameters from the file.

    The other parameters are those of the nearest shipped chip: of the family that the file or its name states, or, if
    neither does, the one with the most similar sizes and counts; `like` names another chip, or its family. Rates in the
    file are nominal, so they count only if the nearest chip has no measurement of that path.
    Raises BadChip if the file cannot be read, or if it states an unknown family, without `like`.
    """
    given = read_platform(read_text(path, BadChip), Path(path).name)
    base = _nearest(given, str(path), like, directory)
    notes = list(given.notes)
    if given.family is None:
        notes.append(f"the family is {base.family}, {'as requested' if like else 'a guess from the parameters'}")
    tables = {name: table for name, table in base.tables().items() if not name.startswith("kernels.")}
    figures = dict(given.figures)
    for key, rate in given.nominal.items():
        name = key.rpartition(".")[0]
        if tables[name].status in ("platform", "guess"):
            figures |= {key: rate, f"{name}.bytes_per_cycle": rate}
    data = base.model_dump(by_alias=True, exclude={"kernels", "aliases"}) | {
        "name": given.soc.lower(),
        "soc": given.soc,
    }
    for name, table in tables.items():
        in_file = {key: figures[f"{name}.{key}"] for key in table.figures() if f"{name}.{key}" in figures}
        missing = tuple(key for key in table.figures() if key not in in_file)
        target = data
        for part in name.split("."):
            target = target[part]
        target |= in_file | {"note": "", "guesses": missing if in_file else ()}
        target["status"] = "platform" if in_file else "guess"
        target["source"] = "; ".join([given.file] * bool(in_file) + [f"{base.name}: {table.source}"] * bool(missing))
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
    """Return the directories of chip files in the order of search: `directory`, those of TILESIM_CHIPS, the shipped."""
    named = [part for part in os.environ.get(CHIPS_VARIABLE, "").split(os.pathsep) if part]
    first = [] if directory is None else [Path(directory)]
    return (*first, *(Path(part) for part in named), _shipped())


def chips_shipped() -> tuple[str, ...]:
    """Return the names of the chips that come with the package."""
    return tuple(sorted(path.stem for path in _shipped().glob("*.toml")))


@functools.cache
def load_shipped(name: str) -> Chip | None:
    """Return the chip of that name that comes with the package, regardless of other directories; None if unknown."""
    return _from_toml(_shipped() / f"{name.lower()}.toml") if name.lower() in chips_shipped() else None


@checked
def chips_found(directory: str | Path | None = None) -> tuple[str, ...]:
    """Return the names that `load_chip` knows: chips of the caller's directories and the shipped ones."""
    return tuple(sorted(_files(directory)))


def schema_text() -> str:
    """Return the JSON schema of a chip file, as `chips/_schema.json` holds it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Chip.model_json_schema(by_alias=True)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _shipped() -> Path:
    """Return the directory of the shipped chips: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "chips"
    return inside if inside.is_dir() else package.parent / "chips"


def _files(directory: str | Path | None) -> dict[str, Path]:
    """Return the chip files by name; the first directory that has a name wins."""
    files: dict[str, Path] = {}
    for folder in chip_directories(directory):
        if not folder.is_dir():
            raise BadChip(str(folder), ["is not a directory of chip files"])
        for path in sorted(folder.glob("*.toml")):
            files.setdefault(path.stem.lower(), path)
    return files


def _from_toml(path: Path) -> Chip:
    try:
        data = tomllib.loads(read_text(path, BadChip))
    except tomllib.TOMLDecodeError as error:
        raise BadChip(_name_in_errors(path), [f"is not TOML: {error}"]) from None
    name = data.get("name", path.stem)
    problems = [] if name == path.stem else [f"name is {name!r}, must be the name of the file, {path.stem!r}"]
    return _checked(data, _name_in_errors(path), problems)


def _name_in_errors(path: Path) -> str:
    """Return the path; of a shipped file from `chips` on, since the directories above depend on the machine."""
    return f"chips/{path.name}" if path.parent == _shipped() else str(path)


def _checked(data: dict[str, Any], subject: str, problems: list[str]) -> Chip:
    """Return the chip that `data` describes. Raises BadChip with `problems` and all others."""
    try:
        chip = Chip.model_validate(data)
    except ValidationError as error:
        raise BadChip(subject, problems + problems_of(error, Chip)) from None
    if problems:
        raise BadChip(subject, problems)
    return chip


def _nearest(given: PlatformFile, subject: str, like: str, directory: str | Path | None) -> Chip:
    """Return the chip that completes a platform file, see `import_chip`."""
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
            reason = (
                f"neither [version] nor the file's name states a family, and the file has none of {', '.join(ALIKE)}"
            )
        else:
            return min(shipped, key=lambda chip: sum(abs(math.log(v / (chip.get(k) or 1))) for k, v in figures.items()))
        raise BadChip(subject, [f"{reason}; import it like a chip, or like one of {', '.join(sorted(families))}"])

    def likeness(chip: Chip) -> tuple[int, bool]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(chip.name, given.soc.lower(), strict=False))
        return len(list(same)), chip.cores.vector == given.figures.get("cores.vector")

    return max((chip for chip in shipped if chip.family == family), key=likeness)
