"""A chip: its figures, each with source and status, and where chips are loaded from."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field, PrivateAttr, ValidationError

from tilesim.arguments import checked
from tilesim.chip.parameters import number_meant, toml_value
from tilesim.chip.tables import (
    ChipTable,
    Clock,
    Copies,
    Cores,
    CostTables,
    Cube,
    Family,
    Frozen,
    KernelTime,
    Launch,
    Memory,
    Overhead,
    Text,
    Tiling,
    Vector,
    Workspace,
    tables_in,
)
from tilesim.errors import BadChip, did_you_mean
from tilesim.pydantic_errors import problems_of


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
    cost: CostTables
    """The classes of vector instructions."""
    cube: Cube
    """The cube unit."""
    launch: Launch
    """Launch and sync."""
    tiling: Tiling
    """How elementwise operators are cut."""
    workspace: Workspace
    """The system's part of a workspace."""
    kernels: dict[str, KernelTime] = Field(default_factory=dict)
    """The vendor library's kernels that have been timed, by operator."""

    _overridden: dict[str, int | float] = PrivateAttr(default_factory=dict)

    def __hash__(self) -> int:
        """Of what chips differ in first."""
        return hash((self.name, self.cores, self.clock, self.memory, self.copies, self.cost))

    @property
    def overridden(self) -> dict[str, int | float]:
        """The figures that `override` changed, with the value that the chip file has."""
        return dict(self._overridden)

    @functools.cached_property
    def values(self) -> Mapping[str, int | float]:
        """Every number of the chip by its dotted key, in the order of the file."""
        return {
            f"{name}.{field}": value
            for name, table in self.tables().items()
            for field, value in table.figures().items()
        }

    def tables(self) -> dict[str, ChipTable]:
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
        return tuple(self.values)

    @checked
    def get(self, key: str) -> int | float:
        """The number that `key` names; raises BadChip if there is no such key.

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b3").get("memory.ub.size_bytes")
        196608
        """
        if key not in self.values:
            raise BadChip(self.name, [self._no_key(key)])
        return self.values[key]

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

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b3").override({"memory.ub.size_bytes": "131_072"}).memory.ub.visible_bytes
        130816
        """
        now = self.values
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

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b1").diff(load_chip("ascend910b2"))["clock.cube_hz"]
        (1850000000, 1800000000)
        """
        mine, theirs = self.values, other.values
        keys = list(dict.fromkeys([*mine, *theirs]))
        return {key: (mine.get(key), theirs.get(key)) for key in keys if mine.get(key) != theirs.get(key)}

    def to_toml(self) -> str:
        """The chip as the text of a chip file."""
        lines = [f"{key} = {toml_value(getattr(self, key))}" for key in ("name", "soc", "family", "product", "arch")]
        for name, table in self.tables().items():
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in table.figures().items()]
            lines += [
                f"{key} = {toml_value(value)}" for key in ChipTable.model_fields if (value := getattr(table, key))
            ]
        return "\n".join(lines) + "\n"

    def _no_key(self, key: str) -> str:
        keys = self.keys()
        hint = did_you_mean(key, keys)
        if not hint:  # the last word alone, such as "size_byte" or "ub.size_bytes"
            ends = [full for full in keys if full.endswith(f".{key}")]
            hint = f" did you mean {ends[0]!r}?" if ends else ""
        return f"{key!r} is not a key of a chip{';' if hint else ''}{hint}"
