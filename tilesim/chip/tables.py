"""The tables of a chip file: one model a table, one field a key, the same names in TOML, `override` and `--set`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tilesim.errors import BadInput, did_you_mean

Count = Annotated[int, Field(gt=0)]
"""A whole number above 0."""
CountOrZero = Annotated[int, Field(ge=0)]
"""A whole number, 0 for a chip without the thing counted."""
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number above 0."""
AmountOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number, 0 for a chip without this cost."""


@dataclass(frozen=True)
class Fixed:
    """Mark of a parameter that is not an amount, so that small changes of it have no meaning."""

    reason: str


Alignment = Annotated[Count, Fixed("an alignment is a rule, not an amount")]
"""A number that addresses or sizes are multiples of."""
Banks = Annotated[Count, Fixed("banks are an address rule, not an amount")]
"""A number of the banks of a memory."""
MOST_ON_CHIP_BYTES: Final = 2**30
"""The largest memory of a core: about a thousand times today's, and small enough for a host to execute with."""
Text = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""

Status = Literal["datasheet", "measured", "fitted", "guess", "platform"]
"""The basis of a table's parameters: a document, a measurement, a fit to measurements, a guess, or a platform file."""

Family = Literal["950", "a3", "a2", "inference-200i", "inference", "training"]
"""Families of parts that run the same kernels."""

FAMILY_NAMES: Final[dict[str, Family]] = {
    "ascend950": "950",
    "ascend910_95": "950",
    "ascend910_55": "950",
    "ascenda5": "950",
    "ascend910_93": "a3",
    "ascend910c": "a3",
    "ascenda3": "a3",
    "ascend910b": "a2",
    "ascenda2": "a2",
    "ascend310b": "inference-200i",
    "ascend310p": "inference",
    "ascend910": "training",
}
"""Name of a family, with which the names of its parts begin, to the family; the first that matches counts."""

FLOAT8: Final[tuple[str, ...]] = ("float8_e4m3fn", "float8_e5m2")
"""The floats of 8 bits."""
LACKING: Final[Mapping[Family, tuple[str, ...]]] = {
    "950": (),
    "a3": FLOAT8,
    "a2": FLOAT8,
    "inference-200i": ("bfloat16", *FLOAT8),
    "inference": ("bfloat16", *FLOAT8),
    "training": ("bfloat16", *FLOAT8),
}
"""The dtypes that no memory of a family's cores holds: bfloat16 came with arch 2201, float8 with arch 3510."""

COST_CLASSES: Final[tuple[str, ...]] = (
    "move",
    "unary",
    "binary",
    "cast",
    "transcendental",
    "divide",
    "reduce",
    "broadcast",
    "select",
)
"""The closed list of vector cost classes."""
COPY_PATHS: Final[tuple[str, ...]] = ("gm_ub", "ub_gm", "gm_l1", "l1_l0a", "l1_l0b", "l0c_gm")
"""The copies that have a cost, named from_to."""
ON_CHIP: Final[tuple[str, ...]] = ("ub", "l1", "l0a", "l0b", "l0c")
"""The memories of one core."""


_Kind = TypeVar("_Kind", bound="ChipTable")


class Frozen(BaseModel):
    """Base of the models: frozen after loading, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True, use_attribute_docstrings=True)


class ChipTable(Frozen):
    """A table of parameters with their source."""

    source: Text
    """Source of the parameters."""
    status: Status
    """Basis of the parameters."""
    note: str = ""
    """Further facts: values that were not used, the conditions of the measurement."""
    n: CountOrZero = 0
    """Measured rows behind fitted parameters; 0 if not counted."""
    error: AmountOrZero = 0.0
    """Mean absolute error of those rows after the fit [%]."""
    guesses: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Keys of the parameters that are guesses in a table that is not."""

    @model_validator(mode="after")
    def _guesses_are_parameters(self) -> Self:
        figures = self.figures()
        for key in self.guesses:
            if key not in figures:
                message = f"guesses names {key!r}, which is not a parameter of this table;{did_you_mean(key, figures)}"
                raise ValueError(message.rstrip(";"))
        return self

    def figures(self) -> dict[str, int | float]:
        """Return the parameters of this table by key, in the order of the file."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in ChipTable.model_fields}

    @classmethod
    def fixed(cls) -> dict[str, str]:
        """Return the parameters of this table that are not amounts, each with the reason."""
        marks = ((key, mark) for key, field in cls.model_fields.items() for mark in field.metadata)
        return {key: mark.reason for key, mark in marks if isinstance(mark, Fixed)}


class Alias(Frozen):
    """Another part that is computed with the parameters of a chip file, but for those it states."""

    soc: Text
    """The vendor's name of the part."""
    source: Text
    """Source of its parameters, or the reason why it has none."""
    note: str = ""
    """Further facts."""
    parameters: dict[str, int | float] = Field(default_factory=dict)
    """Parameters in which it differs, by dotted key; without any, it is computed as the chip of the file."""


class Cores(ChipTable):
    """Numbers of cores that a kernel can use."""

    vector: Count
    """Cores with a vector unit [cores]; where vector and cube unit share a core, the number of such cores."""
    cube: Count
    """Cores with a cube unit [cores]."""

    def of(self, core_kind: str) -> int:
        """The number of cores of a kind, "vector" or "cube"."""
        return self.cube if core_kind == "cube" else self.vector


class Clock(ChipTable):
    """Clocks of the cores."""

    vector_hz: Count
    """Clock of a vector core [Hz]."""
    cube_hz: Count
    """Clock of a cube core [Hz]."""

    def hz(self, core_kind: str) -> int:
        """Return the clock of a kind of cores, "vector" or "cube" [Hz]."""
        return self.cube_hz if core_kind == "cube" else self.vector_hz


class Vector(ChipTable):
    """The vector unit."""

    width_bytes: Annotated[Count, Fixed("a vector is a power of two")]
    """Bytes of one repeat of a vector instruction [bytes]."""
    registers: Annotated[CountOrZero, Fixed("registers decide which kernel runs")]
    """Vector registers of a core; 0 where vector instructions work on the unified buffer [registers]."""


class Overhead(ChipTable):
    """Costs of a vector instruction beside the head and slope of its class."""

    conflict_cycles_per_vector: AmountOrZero
    """Cost of every vector whose two sources are read from the same bank group [cycles]."""
    count_mode_cycles: AmountOrZero
    """Cost of an instruction of more than one vector whose bytes are not a whole number of vectors [cycles]."""
    call_cycles: AmountOrZero
    """Cost of a vector function, a run of consecutive vector instructions; 0 on a chip without them [cycles]."""
    operand_cycles_per_vector: AmountOrZero
    """Cost of every vector that enters or leaves a vector function [cycles]."""
    cycles_per_64bit_element: AmountOrZero
    """Cost of every 8-byte element without vector instructions for them; 0 where one counts as two of 4 [cycles]."""


class MemoryTable(ChipTable):
    """A memory of which a part is reserved."""

    size_bytes: Count
    """Capacity [bytes]."""
    reserved_bytes: CountOrZero
    """Bytes that no call can use [bytes]."""

    @model_validator(mode="after")
    def _leaves_something_visible(self) -> Self:
        _refuse_without_room(self.size_bytes, self.reserved_bytes)
        return self

    @property
    def visible_bytes(self) -> int:
        """Bytes that a kernel can use: size less reserved bytes [bytes]."""
        return self.size_bytes - self.reserved_bytes


class OnChip(MemoryTable):
    """One memory of one core."""

    size_bytes: Annotated[Count, Field(le=MOST_ON_CHIP_BYTES)]
    """Size stated by the platform file [bytes]."""
    reserved_bytes: CountOrZero
    """Bytes that the platform hides from every kernel [bytes]."""
    align_bytes: Alignment
    """Alignment of the start of a buffer [bytes]."""


class UnifiedBuffer(OnChip):
    """The unified buffer of a vector core and its banks."""

    bank_groups: Banks
    """Groups of banks; two reads of one group in one cycle collide [groups]."""
    banks_per_group: Banks
    """Banks in a group [banks]."""
    bank_bytes: Banks
    """Size of a bank [bytes]."""

    @property
    def silicon_bytes(self) -> int:
        """All bytes of the banks, the library's and the platform's included [bytes]."""
        return self.bank_groups * self.banks_per_group * self.bank_bytes


class GlobalMemory(MemoryTable):
    """The memory that all cores share; rates are what kernels reach, not the nominal ones."""

    size_bytes: Count
    """Capacity [bytes]."""
    reserved_bytes: CountOrZero = 0
    """What weights, other tensors and the system take of it [bytes]."""
    read_bytes_per_s: Amount
    """Read rate of the vector cores together while they write at least a quarter of that [bytes/s]."""
    write_bytes_per_s: Amount
    """Write rate of all cores together [bytes/s]."""
    read_alone_bytes_per_s: Amount
    """Read rate of the vector cores together without writes [bytes/s]."""
    cube_read_bytes_per_s: Amount
    """Read rate of the cube cores together [bytes/s]."""
    miss_cycles: AmountOrZero
    """Additional wait of a copy for data that the cache does not hold [core cycles]."""


class SharedCache(ChipTable):
    """The second-level cache between the cores and global memory."""

    size_bytes: Count
    """Capacity [bytes]."""
    read_bytes_per_s: Amount
    """Rate of hits by the vector cores together [bytes/s]."""
    l1_read_bytes_per_s: Amount
    """Rate of hits by the cube cores together [bytes/s]."""
    core_l1_read_bytes_per_s: Amount
    """Largest rate of hits by one cube core while others read too [bytes/s]."""
    write_bytes_per_s: Amount
    """Rate of writes that the cache absorbs, of all cores together [bytes/s]."""
    absorbed_write_bytes: CountOrZero
    """Bytes that a kernel with equal reads and writes can write before it pays for global memory [bytes]."""
    same_address_ub_stretch: Amount
    """Factor of the time of vector cores that read the same addresses at the same time."""
    same_address_l1_stretch: Amount
    """Factor of the time of cube cores that read the same addresses at the same time."""


class Memory(Frozen):
    """All memories of the chip."""

    ub: UnifiedBuffer
    """Unified buffer of a vector core."""
    l1: OnChip
    """First-level buffer of a cube core."""
    l0a: OnChip
    """Left operand of the cube unit."""
    l0b: OnChip
    """Right operand of the cube unit."""
    l0c: OnChip
    """Accumulators of the cube unit."""
    gm: GlobalMemory
    """Global memory."""
    l2: SharedCache
    """Second-level cache."""

    def capacity(self, space: str) -> OnChip | GlobalMemory:
        """The memory that `space` names, one of ON_CHIP or "gm"."""
        return self.gm if space == "gm" else self.on_chip(space)

    def on_chip(self, space: str) -> OnChip:
        """Return the memory of one core that `space` names, one of ON_CHIP. Raises BadInput."""
        return _member(self, "memory", space, ON_CHIP, OnChip)


class Copy(ChipTable):
    """One copy path of one core: `max(latency + bytes / bytes_per_cycle, bytes / peak_bytes_per_cycle)` cycles or more.

    At least `issue_cycles` for a copy, and at least `burst_cycles` for each of several bursts.
    """

    latency_cycles: AmountOrZero
    """Time until the first byte arrives [cycles]."""
    bytes_per_cycle: Amount
    """Rate of the further bytes of one copy [bytes/cycle]."""
    peak_bytes_per_cycle: Amount
    """Largest rate of the path [bytes/cycle]."""
    issue_cycles: AmountOrZero
    """Least time of a copy instruction [cycles]."""
    burst_cycles: AmountOrZero
    """Least time of each of several bursts [cycles]."""
    burst_setup_cycles: AmountOrZero
    """Time that each of several bursts adds to its bytes at the peak rate [cycles]."""
    partial_burst_cycles: AmountOrZero
    """Least time of each of several bursts whose bytes are not a multiple of 32 [cycles]."""
    burst_align_bytes: Alignment
    """Unit to which the cost of a burst is rounded up [bytes]."""
    burst_gap_bytes: AmountOrZero
    """Bytes that each of several bursts costs the memory beside its own [bytes]."""


class MemoryCopy(Copy):
    """A path between global memory and a memory that vector instructions or L0 read.

    Of small copies that follow each other directly only the first waits for the latency.
    """

    request_bytes: Alignment
    """Size of a request to the memory; a burst is aligned if it starts at a multiple of it [bytes]."""
    unaligned_stretch: Amount
    """Factor of the time of the memory for bursts that are not aligned."""
    in_flight_bytes: Count
    """Most bytes of consecutive copies that wait for the memory together [bytes]."""


class Copies(Frozen):
    """All copy paths."""

    gm_ub: MemoryCopy
    """Global memory to unified buffer, pipe mte2 of a vector core."""
    ub_gm: MemoryCopy
    """Unified buffer to global memory, pipe mte3."""
    gm_l1: MemoryCopy
    """Global memory to L1, pipe mte2 of a cube core."""
    l1_l0a: Copy
    """L1 to L0A, pipe mte1."""
    l1_l0b: Copy
    """L1 to L0B, pipe mte1."""
    l0c_gm: Copy
    """L0C to global memory, pipe fixp."""

    def path(self, path: str) -> Copy:
        """Return the copy that `path` names, one of COPY_PATHS. Raises BadInput."""
        return _member(self, "copy", path, COPY_PATHS, Copy)


class Cost(ChipTable):
    """One class of vector instruction: `head_cycles + slope * ceil(bytes / width)` cycles, without bank conflicts."""

    head_cycles: AmountOrZero
    """Cost of every instruction [cycles]."""
    cycles_per_vector: Amount
    """Cost of every vector of 4-byte elements [cycles]."""
    cycles_per_vector_16bit: Amount
    """Cost of every vector of 2-byte elements [cycles]."""
    cycles_per_vector_8bit: Amount
    """Cost of every vector of 1-byte elements [cycles]."""


class CostTables(Frozen):
    """All classes of vector instructions."""

    move: Cost
    """Copies within the unified buffer, fills with a value."""
    unary: Cost
    """One operand, or one operand and a scalar: abs, relu, adds, muls."""
    binary: Cost
    """Two operands: add, sub, mul, max."""
    cast: Cost
    """Change of dtype."""
    transcendental: Cost
    """exp, ln, sqrt."""
    divide: Cost
    """Division of two operands."""
    reduce: Cost
    """Sum or maximum along a row."""
    broadcast: Cost
    """Repeats of an element or a block."""
    select: Cost
    """Comparison and selection."""

    def of(self, cost_class: str) -> Cost:
        """Return the cost that `cost_class` names, one of COST_CLASSES. Raises BadInput."""
        return _member(self, "cost", cost_class, COST_CLASSES, Cost)


class Cube(ChipTable):
    """The cube unit of one core."""

    macs_per_cycle_16bit: Amount
    """Rate of multiply-adds of 2-byte operands [1/cycle]."""
    macs_per_cycle_8bit: Amount
    """Rate of multiply-adds of 1-byte operands [1/cycle]."""
    macs_per_cycle_32bit: Amount
    """Rate of multiply-adds of 4-byte operands [1/cycle]."""
    head_cycles: AmountOrZero
    """Cost of every matrix instruction [cycles]."""


class Launch(ChipTable):
    """Costs of a kernel before and between its work."""

    base_us: AmountOrZero
    """Time of an empty kernel of one block [us]."""
    block_us: AmountOrZero
    """Time of every further block [us]."""
    sync_us: AmountOrZero
    """Time of one sync of all cores [us]."""


class Tiling(ChipTable):
    """Tiles of the library's operators."""

    copy_bytes: Count
    """Size of a copy beyond which a larger one gains nothing; the largest tile of a tensor [bytes]."""
    axis_columns: Count
    """Columns beyond which a larger tile along another axis than the last gains nothing [elements]."""


class Workspace(ChipTable):
    """The platform's part of every workspace."""

    system_bytes: Annotated[CountOrZero, Fixed("the system's part of a workspace takes no time")]
    """Bytes that the platform adds to a workspace [bytes]."""


class KernelTime(ChipTable):
    """Cost of the vendor library's kernel of one operator beside its work."""

    fixed_us: AmountOrZero
    """Time of the kernel without elements, launch included; it replaces the launch table [us]."""


def _refuse_without_room(size_bytes: int, reserved_bytes: int) -> None:
    """Raise ValueError for a memory that is reserved as a whole."""
    if reserved_bytes >= size_bytes:
        raise ValueError(f"reserved_bytes is {reserved_bytes:,}, must be less than size_bytes, {size_bytes:,}")


def _member(owner: Frozen, table: str, name: str, names: tuple[str, ...], kind: type[_Kind]) -> _Kind:
    """Return the table that `name` names in `owner`. Raises BadInput if it is not one of `names`."""
    member = getattr(owner, name) if name in names else None
    if not isinstance(member, kind):
        raise BadInput(table, [f"{name!r} is not one of {', '.join(names)}"])
    return member


def tables_in(model: Frozen, prefix: str = "") -> Iterator[tuple[str, ChipTable]]:
    """Yield every table in `model` with its dotted name, in the order of the fields."""
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), f"{prefix}{field.alias or name}"
        if isinstance(value, ChipTable):
            yield key, value
        elif isinstance(value, Frozen):
            yield from tables_in(value, f"{key}.")
        elif isinstance(value, dict):
            yield from ((f"{key}.{inner}", table) for inner, table in value.items() if isinstance(table, ChipTable))
