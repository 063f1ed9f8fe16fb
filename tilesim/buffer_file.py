"""A file of buffers: what a kernel of your own keeps on chip, in numbers and named sizes.

    name = "row sum"
    counted_from = "size"             # the whole memory, as a compiler counts it; else what the platform shows of it

    [sizes]
    N = 8192                          # a number is a default, which `--set N=...` replaces
    BLOCK = { default = 1024, power_of_two = true, most = 65536 }
    trips = "ceil(N/BLOCK)"           # a text is computed

    [reserve]
    ub = "10%"                        # or bytes, or { bytes = 8192, reason = "the library's scratch" }

    [[buffers]]
    name = "x"
    dtype = "float16"
    shape = ["BLOCK"]
    slots = 2                         # two for a double buffer, more for copies that live at once

    [[buffers]]
    name = "x32"                      # the copy in float32 is a buffer of its own
    shape = [1, "BLOCK"]

    [fixed]
    ub = 4096                         # bytes that do not depend on any size

    [caps.tile]
    of = "BLOCK * 2"
    most = 131072

    [grid]
    programs = "ceil(N/BLOCK)"
    max = 65535                       # what a launch takes at most

A row is padded to 32 bytes and a buffer to the memory's alignment; `pitch` [elements] states the row by hand, `align`
[bytes] stands in place of both. A buffer can state `bytes` in place of dtype and shape, and a `phase`, if it does not
live all the time: what different phases use may lie in the same place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from tilesim.chip_problems import problems_of
from tilesim.chip_tables import Count, CountOrZero, Frozen
from tilesim.dtypes import dtype_named
from tilesim.errors import BadInput, did_you_mean
from tilesim.formula import formula

GRID_MOST: Final = 65535
"""What a launch takes at most. Source: the programming guide of triton-ascend, limit of coreDim."""
CAUTION_BYTES: Final = 256
"""What fits with less to spare is near enough to the edge to say so."""


def _written(value: object) -> object:
    """A formula as text, from a number or a text; raises ValueError for what is no formula."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f'is {value!r}, must be a whole number or a formula such as "2*H"')  # noqa: TRY004  (pydantic's)
    try:
        formula(str(value))
    except BadInput as error:
        raise ValueError("; ".join(error.problems)) from None
    return str(value)


def _canonical(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return dtype_named(value)
    except BadInput as error:
        raise ValueError("; ".join(error.problems)) from None


def _sized(value: object) -> object:
    """A size as a table, from a number or a text; raises ValueError for anything else."""
    if isinstance(value, int | float | bool) and type(value) is not int:
        raise ValueError(f"is {value!r}, must be a whole number, a formula or a table")
    return {"default": value} if isinstance(value, int) else {"formula": value} if isinstance(value, str) else value


Written = Annotated[str, BeforeValidator(_written)]
"""A whole number or a formula."""
Dtype = Annotated[str, BeforeValidator(_canonical)]
"""A dtype by any of its names."""
Space = Literal["ub", "l1", "l0a", "l0b", "l0c"]
"""A memory of one core."""


class NamedSize(Frozen):
    """A named size [elements]: given with a default, or computed by a formula."""

    default: int | None = None
    """Its value where none is given."""
    formula: Annotated[str, BeforeValidator(_written)] | None = None
    """How it follows from other sizes."""
    least: CountOrZero = 1
    """It is at least this."""
    most: Count | None = None
    """It is at most this."""
    multiple_of: Count = 1
    """It is a multiple of this."""
    power_of_two: bool = False
    """It is a power of two."""
    about: str = ""
    """What it is."""

    @model_validator(mode="after")
    def _given_or_computed(self) -> Self:
        if self.formula is not None and (self.default is not None or self.power_of_two):
            raise ValueError("has a formula, so that it takes no default and no power_of_two")
        return self


class OneBuffer(Frozen):
    """One buffer."""

    memory: Space = "ub"
    """Where it lies."""
    dtype: Dtype | None = None
    """Of its elements; the file's where it is not stated."""
    shape: list[Written] | None = None
    """[elements]"""
    bytes: Written | None = None
    """In place of dtype and shape [bytes]."""
    slots: Written = "1"
    """How many of it there are."""
    pitch: Written | None = None
    """The last axis as it is allocated [elements]."""
    align: Count | None = None
    """What rows and the buffer are rounded up to [bytes]."""
    phase: str = ""
    """When it lives; "" for all the time."""
    note: str = ""
    """What it is for."""

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        if (self.shape is None) == (self.bytes is None):
            raise ValueError("must have either a shape or bytes")
        if self.shape is not None and not self.shape:
            raise ValueError("has an empty shape")
        if self.bytes is not None and (self.pitch is not None or self.dtype is not None):
            raise ValueError("has bytes, so that dtype and pitch mean nothing")
        return self

    def formulas(self) -> dict[str, str]:
        """Every formula of it by where it stands."""
        found = {f"shape[{i}]": text for i, text in enumerate(self.shape or ())}
        rest = {"bytes": self.bytes, "slots": self.slots, "pitch": self.pitch}
        return found | {key: text for key, text in rest.items() if text is not None}


class Kept(Frozen):
    """What is kept back of a memory, in bytes or as a share of it."""

    bytes: CountOrZero = 0
    """[bytes]"""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of the memory, from 0 to 1."""
    reason: str = ""
    """What for."""

    @model_validator(mode="before")
    @classmethod
    def _from_words(cls, value: object) -> object:
        if isinstance(value, str):
            try:
                return {"share": float(value.strip().removesuffix("%")) / 100} if value.strip().endswith("%") else value
            except ValueError:
                raise ValueError(f'is {value!r}, must be bytes, a share such as "10%" or a table') from None
        return {"bytes": value} if type(value) is int else value


class Cap(Frozen):
    """A bound on a formula."""

    of: Written
    """What is bounded."""
    most: Written | None = None
    """It is at most this."""
    least: Written | None = None
    """It is at least this."""
    multiple_of: Count = 1
    """It is a multiple of this."""
    reason: str = ""
    """Why."""

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.most is None and self.least is None and self.multiple_of == 1:
            raise ValueError("bounds nothing: give it most, least or multiple_of")
        return self


class Grid(Frozen):
    """How many programs are launched."""

    programs: Written
    """Their number, the product of all axes."""
    max: Count = GRID_MOST
    """As many does a launch take."""


class BufferFile(Frozen):
    """Everything that a file of buffers says."""

    name: str = "buffers"
    """What the buffers belong to."""
    about: str = ""
    """What that is."""
    source: str = ""
    """Where the buffers were read."""
    dtype: Dtype = "float32"
    """Of the buffers that do not state their own."""
    counted_from: Literal["visible", "size"] = "visible"
    """Whether a memory counts as far as the platform shows it, or whole."""
    caution_bytes: CountOrZero = CAUTION_BYTES
    """What fits with less to spare is a caution [bytes]."""
    sizes: dict[str, Annotated[NamedSize, BeforeValidator(_sized)]] = Field(default_factory=dict)
    """The named sizes."""
    buffers: dict[str, OneBuffer] = Field(default_factory=dict)
    """The buffers by name."""
    reserve: dict[Space, Kept] = Field(default_factory=dict)
    """What is kept back, by memory."""
    fixed: dict[Space, CountOrZero] = Field(default_factory=dict)
    """Bytes that are in use whatever the sizes, by memory."""
    caps: dict[str, Cap] = Field(default_factory=dict)
    """Bounds that have nothing to do with memory, by name."""
    grid: Grid | None = None
    """The launch."""

    @model_validator(mode="before")
    @classmethod
    def _in_full(cls, data: object) -> object:
        """A plain reserve is of the unified buffer; without a table of sizes, every name in a formula is one."""
        if not isinstance(data, Mapping):
            return data
        whole = dict(data)
        if isinstance(whole.get("reserve"), int | str):
            whole["reserve"] = {"ub": whole["reserve"]}
        if "sizes" not in whole:
            parts = [whole.get(key) for key in ("buffers", "caps", "grid")]
            whole["sizes"] = {name: {} for name in sorted(_names_in(parts))}
        return whole

    @field_validator("buffers", "caps", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        """A list of tables with names, by name."""
        if not isinstance(value, list):
            return value
        found: dict[str, object] = {}
        problems = []
        for number, one in enumerate(value, 1):
            name = one.get("name") if isinstance(one, Mapping) else None
            if not isinstance(name, str) or not name:
                problems.append(f"number {number} has no name")
            elif name in found:
                problems.append(f"{name!r} is there twice")
            else:
                found[name] = {key: inner for key, inner in one.items() if key != "name"}
        if problems:
            raise ValueError("; ".join(problems))
        return found

    @field_validator("sizes")
    @classmethod
    def _sizes_known(cls, sizes: dict[str, NamedSize]) -> dict[str, NamedSize]:
        problems = []
        known: set[str] = {name for name, size in sizes.items() if size.formula is None}
        for name, size in sizes.items():
            if not name.isidentifier():
                problems.append(f"{name!r} is not a name")
            if size.formula is not None:
                unknown = formula(size.formula).names - known
                problems += [f"{name} = {size.formula}: {_unknown(word, known)} (above it)" for word in sorted(unknown)]
                known.add(name)
        if problems:
            raise ValueError("; ".join(problems))
        return sizes

    @field_validator("buffers", "caps", "grid")
    @classmethod
    def _names_known(cls, value: Any, info: ValidationInfo) -> Any:
        """All names in formulas are sizes."""
        sizes = info.data.get("sizes")
        if sizes is None or value is None:
            return value
        problems = []
        for where, text in _formulas(value).items():
            unknown = sorted(formula(text).names - set(sizes))
            problems += [f"{where} = {text}: {_unknown(word, sizes)}" for word in unknown]
        if problems:
            raise ValueError("; ".join(problems))
        return value


def load_buffers(source: str | Path | Mapping[str, Any] | BufferFile) -> BufferFile:
    """The buffers that a TOML file or a mapping of the same form describes. Raises BadInput with all problems."""
    if isinstance(source, BufferFile):
        return source
    subject, data = _read(source)
    try:
        made = BufferFile.model_validate({"name": subject.removesuffix(".toml"), **data})
    except ValidationError as error:
        raise BadInput(subject, problems_of(error, BufferFile)) from None
    if not made.buffers and not made.fixed and not made.caps and made.grid is None:
        raise BadInput(subject, ["has no buffers"])
    return made


def _read(source: str | Path | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What to call a source, and its data."""
    if isinstance(source, Mapping):
        return str(source.get("name", "buffers")), source
    path = Path(source)
    try:
        return path.name, tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(source), [f"is not TOML: {error}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text in UTF-8"
        raise BadInput(str(source), [f"cannot be read: {reason}".lower()]) from None


_WRITTEN_KEYS = ("shape", "bytes", "slots", "pitch", "of", "most", "least", "programs")
"""The keys whose texts are formulas."""


def _names_in(value: object, *, written: bool = False) -> set[str]:
    """The names in the formulas of data that is not checked yet."""
    if isinstance(value, Mapping):
        return {n for key, one in value.items() for n in _names_in(one, written=written or key in _WRITTEN_KEYS)}
    if isinstance(value, list):
        return {n for one in value for n in _names_in(one, written=written)}
    if not written or not isinstance(value, str):
        return set()
    try:
        return set(formula(value).names)
    except BadInput:  # told where the field is checked
        return set()


def _formulas(value: Any) -> dict[str, str]:
    """Every formula of buffers, caps or a grid by where it stands."""
    if isinstance(value, Grid):
        return {"programs": value.programs}
    found: dict[str, str] = {}
    for name, one in value.items():
        if isinstance(one, OneBuffer):
            found |= {f"{name}.{key}": text for key, text in one.formulas().items()}
        else:
            rest = {"of": one.of, "most": one.most, "least": one.least}
            found |= {f"{name}.{key}": text for key, text in rest.items() if text is not None}
    return found


def _unknown(word: str, known: Any) -> str:
    return f"{word!r} is not a size;{did_you_mean(word, known)}".rstrip(";")
