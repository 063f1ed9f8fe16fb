"""A chip: its parameters, each with source and status."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from tilesim.arguments import checked
from tilesim.chip.parameters import number_meant, toml_value
from tilesim.chip.tables import (
    Alias,
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
    """One parameter of a chip with its source and status."""

    key: str
    """The dotted key, such as "memory.ub.size_bytes"."""
    value: int | float
    """Its value, in the unit that ends the key."""
    source: str
    """Its source; "override" if the caller gave it."""
    status: str
    """Its Status, or "override"."""


class Chip(Frozen):
    """All parameters of a chip; the fields are the tables of a chip file."""

    name: Text
    """The name of its file, lower case."""
    soc: Text
    """The vendor's name of the part, such as "Ascend910B3"."""
    family: Family
    """The family of parts that run the same kernels."""
    product: Text
    """The products it is in, as the vendor names them."""
    arch: Text
    """The vendor's number of the core architecture, such as "2201"."""
    cores: Cores
    """Numbers of cores."""
    clock: Clock
    """Clocks of the cores."""
    vector: Vector
    """The vector unit."""
    overhead: Overhead
    """Costs of vector instructions beside their class."""
    memory: Memory
    """Memories of a core, global memory, cache."""
    copies: Copies = Field(alias="copy")
    """The copy paths of a core; the table is called `copy`."""
    cost: CostTables
    """The classes of vector instructions."""
    cube: Cube
    """The cube unit."""
    launch: Launch
    """Costs of launch and sync."""
    tiling: Tiling
    """Tiles of elementwise operators."""
    workspace: Workspace
    """The system's part of a workspace."""
    kernels: dict[str, KernelTime] = Field(default_factory=dict)
    """The vendor library's kernels that have been timed, by operator."""
    aliases: dict[str, Alias] = Field(default_factory=dict, alias="alias")
    """Other parts with these parameters, by name in lower case; the tables are called `alias.NAME`."""

    _overridden: dict[str, int | float] = PrivateAttr(default_factory=dict)
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _aliases_have_known_keys(self) -> Self:
        unknown = [
            f"{name}: {self._no_key(k)}"
            for name, alias in self.aliases.items()
            for k in alias.parameters
            if k not in self.values
        ]
        if unknown:
            raise ValueError("; ".join(unknown))
        return self

    def __hash__(self) -> int:
        """Return the hash of the fields in which most chips differ."""
        return hash((self.name, self.cores, self.clock, self.memory, self.copies, self.cost))

    @property
    def overridden(self) -> dict[str, int | float]:
        """The parameters that `override` changed, with their values in the chip file."""
        return dict(self._overridden)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the caller's name and changes imply: the part that an alias stands for."""
        return self._notes

    @functools.cached_property
    def values(self) -> Mapping[str, int | float]:
        """Every parameter of the chip by its dotted key, in the order of the file."""
        return {
            f"{name}.{field}": value
            for name, table in self.tables().items()
            for field, value in table.figures().items()
        }

    def tables(self) -> dict[str, ChipTable]:
        """Return every table by its dotted name, in the order of the file."""
        return dict(tables_in(self))

    def figures(self) -> Iterator[Figure]:
        """Yield every parameter of the chip with its source and status, in the order of the file."""
        for name, table in self.tables().items():
            for field, value in table.figures().items():
                key = f"{name}.{field}"
                if key in self._overridden:
                    yield Figure(key, value, "override", "override")
                else:
                    yield Figure(key, value, table.source, "guess" if field in table.guesses else table.status)

    def keys(self) -> tuple[str, ...]:
        """Return the dotted key of every parameter, in the order of the file."""
        return tuple(self.values)

    @checked
    def get(self, key: str) -> int | float:
        """Return the value of the parameter `key`. Raises BadChip for an unknown key.

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b3").get("memory.ub.size_bytes")
        196608
        """
        if key not in self.values:
            raise BadChip(self.name, [self._no_key(key)])
        return self.values[key]

    def guesses(self) -> tuple[str, ...]:
        """Return the unpublished parameters: names of tables that are all guesses, and single keys of other tables."""
        names: list[str] = []
        for name, table in self.tables().items():
            names += [name] if table.status == "guess" else [f"{name}.{key}" for key in table.guesses]
        return tuple(names)

    @checked
    def override(self, changes: Mapping[str, float | str]) -> Chip:
        """Return a copy with other parameters, checked like a chip file. Raises BadChip with all problems at once.

        Text of the command line is read as the kind of number of the key.

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b3").override({"memory.ub.size_bytes": "131_072"}).memory.ub.visible_bytes
        130816
        """
        values = self.values
        data = self.model_dump(by_alias=True)
        problems: list[str] = []
        for key, given in changes.items():
            if key not in values:
                problems.append(self._no_key(key))
                continue
            table = data
            *path, field = key.split(".")
            for part in path:
                table = table[part]
            table[field] = number_meant(given, whole=isinstance(values[key], int))
        try:
            changed = Chip.model_validate(data)
        except ValidationError as error:
            raise BadChip(self.name, problems + problems_of(error, Chip)) from None
        if problems:
            raise BadChip(self.name, problems)
        before = {key: self._overridden.get(key, values[key]) for key in changes}
        changed._overridden.update(self._overridden | before)  # noqa: SLF001 - a copy of this chip
        changed._notes = self._notes  # noqa: SLF001
        return changed

    def part(self, name: str) -> Chip:
        """Return the part that the alias `name` of this chip stands for. Raises BadChip.

        A part with parameters of its own is a chip of its own name; any other is this chip, with a note.
        """
        alias = self.aliases[name]
        text = "; ".join(filter(None, (alias.source, alias.note)))
        if not alias.parameters:
            chip = self.model_copy()
            chip._notes = (f"{name} is computed as {self.name}: {text}",)  # noqa: SLF001 - a copy of this chip
            return chip
        changed = self.override(alias.parameters)
        data = changed.model_dump(by_alias=True) | {"name": name, "soc": alias.soc, "alias": {}}
        for title in dict.fromkeys(key.rpartition(".")[0] for key in alias.parameters):
            table = data
            for word in title.split("."):
                table = table[word]
            table |= {"source": f"{alias.source}; other keys: {table['source']}", "note": alias.note}
        chip = Chip.model_validate(data)
        chip._notes = (f"{name} has the other parameters of {self.name}: {text}",)  # noqa: SLF001
        return chip

    @checked
    def diff(self, other: Chip) -> dict[str, tuple[int | float | None, int | float | None]]:
        """Return the parameters that differ: key to (this chip's, the other's), None for a chip without the key.

        >>> from tilesim import load_chip
        >>> load_chip("ascend910b1").diff(load_chip("ascend910b2"))["clock.cube_hz"]
        (1850000000, 1800000000)
        """
        first, second = self.values, other.values
        keys = list(dict.fromkeys([*first, *second]))
        return {key: (first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)}

    def to_toml(self) -> str:
        """Return the chip as the text of a chip file."""
        lines = [f"{key} = {toml_value(getattr(self, key))}" for key in ("name", "soc", "family", "product", "arch")]
        for name, table in self.tables().items():
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in table.figures().items()]
            lines += [
                f"{key} = {toml_value(value)}" for key in ChipTable.model_fields if (value := getattr(table, key))
            ]
        for name, alias in self.aliases.items():
            lines += ["", f"[alias.{name}]"]
            lines += [f"{key} = {toml_value(getattr(alias, key))}" for key in ("soc", "source")]
            if alias.note:
                lines.append(f"note = {toml_value(alias.note)}")
            if alias.parameters:
                pairs = ", ".join(f'"{key}" = {toml_value(value)}' for key, value in alias.parameters.items())
                lines.append(f"parameters = {{ {pairs} }}")
        return "\n".join(lines) + "\n"

    def _no_key(self, key: str) -> str:
        keys = self.keys()
        hint = did_you_mean(key, keys)
        if not hint:  # the last word alone, such as "size_byte" or "ub.size_bytes"
            ends = [full for full in keys if full.endswith(f".{key}")]
            hint = f" did you mean {ends[0]!r}?" if ends else ""
        return f"{key!r} is not a key of a chip{';' if hint else ''}{hint}"
