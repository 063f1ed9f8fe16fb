"""Files of buffers: the buffers that a kernel keeps on chip, in numbers and named sizes.

    name = "row sum"
    counted_from = "size"             # all of the memory, as a compiler counts; else the part that the platform shows

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
    programs = "ceil(N/BLOCK)"        # or axes = ["ceil(N/BLOCK)", "batch"] with most = [65535, 65535]
    max = 65535                       # the most programs of a launch
    # sync = "all"                    # every core waits for every other one, so each must have a program

A row is padded to 32 bytes and a buffer to the memory's alignment; `pitch` [elements] states the row by hand, `align`
[bytes] stands in place of both. In l0a, l0b and l0c, and in l1 where the file has a buffer in one of these, a buffer of
several axes lies in blocks of 16 x 32 bytes (l0c 16 x 16 elements): its last axes are [m, k] in l0a, [k, n] in l0b and
[m, n] in l0c. `layout` says otherwise. In gm nothing is padded. A buffer can state `bytes` in place of dtype and shape,
an `offset` [bytes] at which it lies, and a `phase`, if it does not live all the time: what different phases use may lie
in the same place. A buffer with a shape is copied from or to global memory, row by row, unless it says
`copied = false`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tilesim.chip.tables import Count, CountOrZero, Frozen
from tilesim.errors import BadInput, did_you_mean
from tilesim.files import read_text
from tilesim.operators.formula import formula
from tilesim.operators.operator import CAUTION_BYTES
from tilesim.program.dtypes import dtype_named
from tilesim.pydantic_errors import problems_of

GRID_MOST: Final = 65535
"""The most programs of a launch. Source: the programming guide of triton-ascend, limit of coreDim."""
LEAST_SLOTS: Final = 1
"""The fewest slots of a buffer."""


def _written(value: object, info: ValidationInfo) -> object:
    """Return a formula as text, from a number or a text. Raises ValueError for any other value and unknown names."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f'is {value!r}, must be a whole number or a formula such as "2*H"')  # noqa: TRY004  (pydantic's)
    try:
        names = formula(str(value)).names
        if not names:
            formula(str(value)).value({})
    except BadInput as error:
        raise ValueError("; ".join(error.problems)) from None
    sizes = (info.context or {}).get(_SIZES, names)
    unknown = [_unknown(word, sizes) for word in sorted(names - set(sizes))]
    if unknown:
        raise ValueError("; ".join([f"{value}: {unknown[0]}", *unknown[1:]]))
    return str(value)


def _at_least(least: int) -> AfterValidator:
    """Return the check that a formula without names is at least `least`; one with names depends on the sizes."""

    def check(text: str) -> str:
        if not formula(text).names and formula(text).value({}) < least:
            raise ValueError(f"is {text}, must be at least {least}")
        return text

    return AfterValidator(check)


def _canonical(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return dtype_named(value)
    except BadInput as error:
        raise ValueError("; ".join(error.problems)) from None


def _sized(value: object) -> object:
    """Return a size as a table, from a number or a text. Raises ValueError for a number that is not whole."""
    if isinstance(value, int | float | bool) and type(value) is not int:
        raise ValueError(f"is {value!r}, must be a whole number, a formula or a table")
    return {"default": value} if isinstance(value, int) else {"formula": value} if isinstance(value, str) else value


Written = Annotated[str, BeforeValidator(_written)]
"""A whole number or a formula."""
Extent = Annotated[Written, _at_least(0)]
"""A formula that is at least 0."""
Dtype = Annotated[str, BeforeValidator(_canonical)]
"""A dtype by any of its names."""
_SIZES: Final = "sizes"
"""Key of the names of all sizes in the context of a validation."""
Space = Literal["ub", "l1", "l0a", "l0b", "l0c", "gm"]
"""A memory of one core, or global memory."""
L0: Final = ("l0a", "l0b", "l0c")
"""The memories that the cube unit works on, in blocks."""


class NamedSize(Frozen):
    """A named size [elements]: given with a default, or computed by a formula."""

    default: int | None = None
    """Its value if none is given."""
    formula: Written | None = None
    """The formula by which it follows from other sizes."""
    least: CountOrZero = 1
    """Its least value."""
    most: Count | None = None
    """Its largest value."""
    multiple_of: Count = 1
    """A divisor of its values."""
    power_of_two: bool = False
    """True if its values are powers of two."""
    about: str = ""
    """Its purpose."""

    @model_validator(mode="after")
    def _given_or_computed(self) -> Self:
        if self.formula is not None and (self.default is not None or self.power_of_two):
            raise ValueError("has a formula; default and power_of_two do not apply")
        return self


class OneBuffer(Frozen):
    """One buffer."""

    memory: Space = "ub"
    """The memory that it lies in."""
    dtype: Dtype | None = None
    """Dtype of its elements; the file's if it is not stated."""
    shape: list[Extent] | None = None
    """Its shape [elements]."""
    bytes: Extent | None = None
    """Its size in place of dtype and shape [bytes]."""
    slots: Annotated[Written, _at_least(LEAST_SLOTS)] = "1"
    """The number of its slots."""
    pitch: Extent | None = None
    """Allocated size of the last axis [elements]."""
    layout: Literal["rows", "nz"] | None = None
    """In rows or in the blocks of the cube unit; that of its memory where it is not stated."""
    copied: bool = True
    """Whether it is copied from or to global memory, row by row."""
    offset: Extent | None = None
    """The place where it starts, by hand [bytes]."""
    align: Count | None = None
    """The step that rows and the buffer are rounded up to [bytes]."""
    phase: str = ""
    """The phase in which it lives; "" for all of them."""
    note: str = ""
    """Its purpose."""

    @model_validator(mode="after")
    def _has_one_size(self) -> Self:
        if (self.shape is None) == (self.bytes is None):
            raise ValueError("must have either a shape or bytes")
        if self.shape is not None and not self.shape:
            raise ValueError("has an empty shape")
        if self.memory == "gm" and (self.offset is not None or self.layout == "nz"):
            raise ValueError("is in gm, where offset and layout mean nothing")
        if self.bytes is not None and self.layout == "nz":
            raise ValueError("has bytes, so that layout means nothing")
        if self.bytes is not None and (self.pitch is not None or self.dtype is not None):
            raise ValueError("has bytes; dtype and pitch do not apply")
        return self

    def formulas(self) -> dict[str, str]:
        """Return its formulas by their places."""
        axes = {f"shape[{i}]": text for i, text in enumerate(self.shape or ())}
        others = {"bytes": self.bytes, "slots": self.slots, "pitch": self.pitch, "offset": self.offset}
        return axes | {key: text for key, text in others.items() if text is not None}


class Kept(Frozen):
    """A part of a memory that is kept back, in bytes or as a share."""

    bytes: CountOrZero = 0
    """Its bytes [bytes]."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Its share of the memory, from 0 to 1."""
    reason: str = ""
    """The reason."""

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
    """The bounded formula."""
    most: Written | None = None
    """Its largest value."""
    least: Written | None = None
    """Its least value."""
    multiple_of: Count = 1
    """A divisor of its values."""
    reason: str = ""
    """The reason."""

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.most is None and self.least is None and self.multiple_of == 1:
            raise ValueError("has no bound: give most, least or multiple_of")
        return self

    def formulas(self) -> dict[str, str]:
        """Return its formulas by their places."""
        return {key: text for key, text in (("of", self.of), ("most", self.most), ("least", self.least)) if text}


class Grid(Frozen):
    """The number of programs of a launch."""

    programs: Written
    """Their number; the product of `axes` where these are stated in its place."""
    axes: list[Written] = Field(default_factory=list)
    """The length of every axis."""
    max: Count | None = None
    """The most that a launch takes; of a grid without limits of its axes, GRID_MOST if it is not stated."""
    most: list[Count] | None = None
    """The most along each axis."""
    sync: Literal["", "all"] = ""
    """"all" if all cores wait for each other, so that each must have one program."""
    cores: Literal["vector", "cube"] | None = None
    """The kind of the cores that run programs; where it is not stated, cube if a buffer is in a memory of these."""

    @model_validator(mode="before")
    @classmethod
    def _product_of_axes(cls, value: object) -> object:
        axes = value.get("axes") if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping) or not isinstance(axes, list) or not axes:
            return value
        if "programs" in value:
            raise ValueError("has axes, whose product is the number of programs, so that it takes no programs")
        return {**value, "programs": " * ".join(f"({axis})" for axis in axes)}

    @model_validator(mode="after")
    def _limits_every_axis(self) -> Self:
        if self.most is not None and len(self.most) != len(self.axes):
            raise ValueError(f"has {len(self.most)} limits in most for {len(self.axes)} axes")
        return self

    @property
    def most_programs(self) -> int | None:
        """The most programs of a launch, None if only its axes are limited."""
        return self.max if self.max is not None or self.most is not None else GRID_MOST


class BufferFile(Frozen):
    """The contents of a file of buffers."""

    name: str = "buffers"
    """The kernel that the buffers belong to."""
    about: str = ""
    """The purpose of that kernel."""
    source: str = ""
    """The source of the buffers."""
    dtype: Dtype = "float32"
    """Dtype of the buffers that state none."""
    counted_from: Literal["visible", "size"] = "visible"
    """The part of a memory that counts: what the platform shows, or all of it."""
    caution_bytes: CountOrZero = CAUTION_BYTES
    """The slack below which a fit is a caution [bytes]."""
    sizes: dict[str, Annotated[NamedSize, BeforeValidator(_sized)]] = Field(default_factory=dict)
    """The named sizes."""
    buffers: dict[str, OneBuffer] = Field(default_factory=dict)
    """The buffers by name."""
    reserve: dict[Space, Kept] = Field(default_factory=dict)
    """The parts that are kept back, by memory."""
    fixed: dict[Space, CountOrZero] = Field(default_factory=dict)
    """Bytes in use at any sizes, by memory."""
    caps: dict[str, Cap] = Field(default_factory=dict)
    """Bounds on formulas of sizes, by name."""
    grid: Grid | None = None
    """The launch."""

    @property
    def core_kind(self) -> str:
        """The kind of the cores that run programs, "vector" or "cube"."""
        stated = self.grid.cores if self.grid is not None else None
        return stated or ("cube" if any(b.memory in ("l1", *L0) for b in self.buffers.values()) else "vector")

    def layout_of(self, buffer: OneBuffer) -> str:
        """The layout of one of its buffers, "rows" or "nz": what it states, or else that of its memory."""
        in_blocks = buffer.memory in L0 or (
            buffer.memory == "l1" and len(buffer.shape or ()) > 1 and any(b.memory in L0 for b in self.buffers.values())
        )
        return "rows" if buffer.shape is None else buffer.layout or ("nz" if in_blocks else "rows")

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


def load_buffers(source: str | Path | Mapping[str, Any] | BufferFile) -> BufferFile:
    """Return the file that a TOML file or a mapping of the same form describes. Raises BadInput with all problems."""
    if isinstance(source, BufferFile):
        return source
    subject, data = _read(source)
    problems: list[str] = []
    contents = _completed({"name": subject.removesuffix(".toml"), **data}, problems)
    named = contents["sizes"]
    context = {_SIZES: tuple(n for n in named if isinstance(n, str))} if isinstance(named, Mapping) else {}
    file = BufferFile()
    try:
        file = BufferFile.model_validate(contents, context=context)
    except ValidationError as error:
        problems += problems_of(error, BufferFile)
    if problems:
        raise BadInput(subject, problems)
    if not file.buffers and not file.fixed and not file.caps and file.grid is None:
        raise BadInput(subject, ["has no buffers"])
    return file


def _read(source: str | Path | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a source in errors, and its data."""
    if isinstance(source, Mapping):
        return str(source.get("name", "buffers")), source
    try:
        return Path(source).name, tomllib.loads(read_text(source))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(source), [f"is not TOML: {error}"]) from None


def _completed(data: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return data in full: a plain reserve is of the unified buffer; without sizes, every name is a size."""
    contents = dict(data)
    for key in ("buffers", "caps"):
        if isinstance(contents.get(key), list):
            contents[key] = _by_name(key, contents[key], problems)
    if isinstance(contents.get("reserve"), int | str):
        contents["reserve"] = {"ub": contents["reserve"]}
    if "sizes" not in contents:
        parts = [contents.get(key) for key in ("buffers", "caps", "grid")]
        contents["sizes"] = {name: {} for name in sorted(_names_in(parts))}
    return contents


def _by_name(key: str, tables: list[Any], problems: list[str]) -> dict[str, object]:
    """Return tables by name; a table without a name, or with a name in use, has its number and is a problem."""
    by_name: dict[str, object] = {}
    for number, entry in enumerate(tables, 1):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            problems.append(f"{key}: number {number} has no name")
            name = f"number {number}"
        elif name in by_name:
            problems.append(f"{key}: {name!r} is given twice")
            name = f"number {number}, {name}"
        by_name[name] = {k: inner for k, inner in entry.items() if k != "name"} if isinstance(entry, Mapping) else entry
    return by_name


_WRITTEN_KEYS = ("shape", "bytes", "slots", "pitch", "of", "most", "least", "programs", "axes", "offset")
"""The keys whose texts are formulas."""


def _names_in(value: object, *, written: bool = False) -> set[str]:
    """Return the names in the formulas of unchecked data."""
    if isinstance(value, Mapping):
        return {n for key, part in value.items() for n in _names_in(part, written=written or key in _WRITTEN_KEYS)}
    if isinstance(value, list):
        return {n for part in value for n in _names_in(part, written=written)}
    if not written or not isinstance(value, str):
        return set()
    try:
        return set(formula(value).names)
    except BadInput:  # refused where the field is checked
        return set()


def _unknown(word: str, known: Any) -> str:
    return f"{word!r} is not a size;{did_you_mean(word, known)}".rstrip(";")
