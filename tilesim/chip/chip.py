"""A chip: its figures, each with source and status, and where chips are loaded from."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from pydantic import Field, PrivateAttr, ValidationError

from tilesim.arguments import checked
from tilesim.chip.parameters import number_meant, toml_value
from tilesim.chip.platform_ini import PlatformFile, read_platform
from tilesim.chip.tables import (
    Clock,
    Copies,
    Cores,
    Costs,
    Cube,
    Family,
    Frozen,
    Kernel,
    Launch,
    Memory,
    Overhead,
    Table,
    Text,
    Tiling,
    Vector,
    Workspace,
    tables_in,
)
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
class Figure:
    """One number of a chip and what it rests on."""

    key: str
    """The dotted key, such as "memory.ub.size_bytes"."""
    value: int | float
    """In the unit that ends the key."""
    source: str
    """Where it was read; "override" if the caller gave it."""
    status: str
    """A Status, or "override"."""


class Chip(Frozen):
    """Everything that is known about a chip; the fields are the tables of a chip file."""

    name: Text
    """The name of its file, lower case."""
    soc: Text
    """The vendor's name of the part, such as "Ascend910B3"."""
    family: Family
    """What parts that run the same kernels have in common."""
    product: Text
    """The products it is in, as the vendor names them."""
    arch: Text
    """The vendor's number of the core architecture, such as "2201"."""
    cores: Cores
    """How many cores."""
    clock: Clock
    """How fast they run."""
    vector: Vector
    """The vector unit."""
    overhead: Overhead
    """What vector instructions cost beside their class."""
    memory: Memory
    """Memories of a core, global memory, cache."""
    copies: Copies = Field(alias="copy")
    """The copy paths of a core; the table is called `copy`."""
    cost: Costs
    """The classes of vector instructions."""
    cube: Cube
    """The cube unit."""
    launch: Launch
    """Launch and sync."""
    tiling: Tiling
    """How elementwise operators are cut."""
    workspace: Workspace
    """The system's part of a workspace."""
    kernels: dict[str, Kernel] = Field(default_factory=dict)
    """The vendor library's kernels that have been timed, by operator."""

    _overridden: dict[str, int | float] = PrivateAttr(default_factory=dict)

    def __hash__(self) -> int:
        """Of what chips differ in first."""
        return hash((self.name, self.cores, self.clock, self.memory, self.copies, self.cost))

    @property
    def overridden(self) -> dict[str, int | float]:
        """The figures that `override` changed, with the value that the chip file has."""
        return dict(self._overridden)

    def tables(self) -> dict[str, Table]:
        """Every table by its dotted name, in the order of the file."""
        return dict(tables_in(self))

    def figures(self) -> Iterator[Figure]:
        """Every number of the chip with its source and status, in the order of the file."""
        for name, table in self.tables().items():
            for field, value in table.figures().items():
                key = f"{name}.{field}"
                if key in self._overridden:
                    yield Figure(key, value, "override", "override")
                else:
                    yield Figure(key, value, table.source, "guess" if field in table.guesses else table.status)

    def keys(self) -> tuple[str, ...]:
        """The dotted key of every number, in the order of the file."""
        return tuple(figure.key for figure in self.figures())

    @checked
    def get(self, key: str) -> int | float:
        """The number that `key` names; raises BadChip if there is no such key.

        >>> load_chip("ascend910b3").get("memory.ub.size_bytes")
        196608
        """
        name, _, field = key.rpartition(".")
        table = self.tables().get(name)
        figures = table.figures() if table else {}
        if field not in figures:
            raise BadChip(self.name, [self._no_key(key)])
        return figures[field]

    def guesses(self) -> tuple[str, ...]:
        """What nobody has published: names of tables that are guesses as a whole, and single keys of other tables."""
        found: list[str] = []
        for name, table in self.tables().items():
            found += [name] if table.status == "guess" else [f"{name}.{key}" for key in table.guesses]
        return tuple(found)

    @checked
    def override(self, changes: Mapping[str, float | str]) -> Chip:
        """A copy with other figures, checked like a chip file; all problems at once.

        Text, as the command line has it, is read as the kind of number that the key holds.

        >>> load_chip("ascend910b3").override({"memory.ub.size_bytes": "131_072"}).memory.ub.visible_bytes
        130816
        """
        now = {figure.key: figure.value for figure in self.figures()}
        data = self.model_dump(by_alias=True)
        problems: list[str] = []
        for key, given in changes.items():
            if key not in now:
                problems.append(self._no_key(key))
                continue
            table = data
            *path, field = key.split(".")
            for part in path:
                table = table[part]
            table[field] = number_meant(given, whole=isinstance(now[key], int))
        try:
            changed = Chip.model_validate(data)
        except ValidationError as error:
            raise BadChip(self.name, problems + problems_of(error, Chip)) from None
        if problems:
            raise BadChip(self.name, problems)
        before = {key: self._overridden.get(key, now[key]) for key in changes}
        changed._overridden.update(self._overridden | before)  # noqa: SLF001  (its own kind)
        return changed

    @checked
    def diff(self, other: Chip) -> dict[str, tuple[int | float | None, int | float | None]]:
        """The figures that differ: key to (this chip's, the other's), None where a chip does not have the key.

        >>> load_chip("ascend910b1").diff(load_chip("ascend910b2"))["clock.cube_hz"]
        (1850000000, 1800000000)
        """
        mine = {figure.key: figure.value for figure in self.figures()}
        theirs = {figure.key: figure.value for figure in other.figures()}
        keys = list(dict.fromkeys([*mine, *theirs]))
        return {key: (mine.get(key), theirs.get(key)) for key in keys if mine.get(key) != theirs.get(key)}

    def to_toml(self) -> str:
        """The chip as the text of a chip file."""
        lines = [f"{key} = {toml_value(getattr(self, key))}" for key in ("name", "soc", "family", "product", "arch")]
        for name, table in self.tables().items():
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in table.figures().items()]
            lines += [f"{key} = {toml_value(value)}" for key in Table.model_fields if (value := getattr(table, key))]
        return "\n".join(lines) + "\n"

    def _no_key(self, key: str) -> str:
        keys = self.keys()
        hint = did_you_mean(key, keys)
        if not hint:  # the last word alone, such as "size_byte" or "ub.size_bytes"
            ends = [full for full in keys if full.endswith(f".{key}")]
            hint = f" did you mean {ends[0]!r}?" if ends else ""
        return f"{key!r} is not a key of a chip{';' if hint else ''}{hint}"


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


def load_shipped(name: str) -> Chip | None:
    """The chip of that name that comes with the package, whatever other directories there are; None without one."""
    return _from_toml(_shipped() / f"{name.lower()}.toml") if name.lower() in chips_shipped() else None


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
