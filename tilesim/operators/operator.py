"""An operator: its tensors, dims, options, attributes, products and rules as its document states them, and its kernel.

An operator is one Operator in one file. A Call is an operator with everything that one check or plan needs to know:
sizes, dtypes, options, attributes. `Operator.record` runs the kernel function once and keeps what it recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from tilesim.chip.chip import Chip
from tilesim.errors import BadInput, BadOperator, TilesimError
from tilesim.operators.conditions import Condition, Kind
from tilesim.operators.facts import DTYPE, Facts, axes_of, dtype_of, null, shape_of
from tilesim.operators.patterns import Pattern, Solution
from tilesim.operators.reference import ClosedForm, Tolerance, usual
from tilesim.operators.shapes import TensorSpec
from tilesim.operators.status import TILING_ERROR, Status
from tilesim.program.author import caller, first_line, line_of
from tilesim.program.buffers import Tensor
from tilesim.program.recorder import Instr, Kernel
from tilesim.program.sizes import ONE, Size, dim

INPUT: Final = "input"
OUTPUT: Final = "output"
CAUTION_BYTES: Final = 256
"""The slack below which a memory that suffices is near enough to the edge to say so."""


@dataclass(frozen=True)
class Dimension:
    """A named size [elements] and what its document allows: `least` to `most`, a multiple of `multiple_of`."""

    name: str
    least: int = 1
    most: int | None = None
    multiple_of: int = 1
    default: int | None = None
    """Its value where none is given."""
    power_of_two: bool = False
    """Whether it must be a power of two."""

    @property
    def size(self) -> Size:
        """The size as kernels compute with it."""
        return dim(self.name, self.multiple_of)


@dataclass(frozen=True)
class Argument:
    """A tensor of the operator. `shape` is written in the operator's dims; `dtype` is "" for the operator's own."""

    name: str
    shape: str
    role: str = INPUT
    dtype: str = ""
    option: str = ""
    """The option that it belongs to: given with it, null without it."""
    alias: str = ""
    """What the vendor's interface calls it, where that is another name."""
    contiguous: bool = False
    """Whether the document takes it without gaps only."""
    fan_in: str = ""
    """Of a weight, the dim that products with it sum over: random values are divided by its root."""
    others: tuple[str, ...] = ()
    """Dtypes that it may have in place of the operator's own."""
    positive: bool = False
    """Whether values below 0 mean nothing, as of a mean square."""
    unwanted: tuple[int, ...] | None = None
    """The shape that stands for null in the vendor's interface, None where none does."""


def result(name: str, shape: str, **more: Any) -> Argument:
    """An output tensor; `more` are the other fields of an Argument."""
    return Argument(name, shape, OUTPUT, **more)


@dataclass(frozen=True)
class Option:
    """A choice that is on or off; tensors that name it are there or not. `words` may name the two, off first."""

    name: str
    default: bool = True
    words: tuple[str, ...] = ()

    def text(self, *, on: bool) -> str:
        """Return the option as words of the command line write it, `approximate=tanh`."""
        return f"{self.name}={(self.words or ('false', 'true'))[on]}"


@dataclass(frozen=True)
class Attribute:
    """A number that the vendor's interface takes beside the tensors."""

    name: str
    default: int | float | None = None
    dim: str = ""
    """The dim that it states; it has that dim's value where it is not given."""
    alias: str = ""
    """What the vendor's interface calls it, where that is another name."""
    flag: bool = False
    """Whether it is true or false, as 1 or 0."""


class Texts(NamedTuple):
    """What a rule expects and what is given; `parameter` names the tensor, where the rule is about several."""

    expected: str
    given: str
    parameter: str = ""


class Outcome(NamedTuple):
    """What a rule that is a Python function returns."""

    ok: bool
    expected: str
    given: str
    parameter: str = ""


@dataclass(frozen=True)
class OfOperator:
    """A condition that follows from the declarations of the operator that states it."""

    build: Callable[[Operator], Condition]


@dataclass(frozen=True)
class Rule:
    """One documented rule, and the status that the first call returns where it does not hold.

    A rule about what is not there (a null tensor, a size that no shape tells) holds: another rule is broken then.
    Its test is a condition over facts of a call and a chip, or a Python function, which can be applied but not printed.
    """

    name: str
    status: Status | None
    test: Condition | OfOperator | Callable[[Call, Chip], Outcome]
    parameter: str = ""
    texts: Callable[[Call, Chip], Texts] | None = None
    """What a finding says; the condition and its facts if None."""
    tiling: tuple[int, str] | None = None
    """Its place in the order of the vendor's tiling function and its name there; None if that does not look at it."""
    supported_elsewhere: Condition | OfOperator | None = None
    """Where it is broken and this holds, another product supports it: this one has nothing to call, and no status."""

    def of(self, op: Operator) -> Rule:
        """Return the rule with the conditions that follow from the declarations of an operator."""
        test = self.test.build(op) if isinstance(self.test, OfOperator) else self.test
        elsewhere = (
            self.supported_elsewhere.build(op)
            if isinstance(self.supported_elsewhere, OfOperator)
            else self.supported_elsewhere
        )
        return replace(self, test=test, supported_elsewhere=elsewhere)

    @property
    def condition(self) -> Condition:
        """The test as a condition. Raises BadOperator, with its line, for a Python function."""
        if isinstance(self.test, Condition):
            return self.test
        function = self.test.build if isinstance(self.test, OfOperator) else self.test
        fact = f"the rule '{self.name}' is a Python function, which is applied but not printed; state a condition"
        raise BadOperator(fact, first_line(function))

    @property
    def over(self) -> frozenset[str]:
        """The numbers that it limits; none where it is about other facts too."""
        facts = set(self.test.facts()) if isinstance(self.test, Condition) else set()
        return frozenset(f.name for f in facts) if all(f.kind is Kind.NUMBER for f in facts) else frozenset()

    def apply(self, call: Call, chip: Chip) -> Finding:
        """Return what the rule says about a call on a chip."""
        status = self.status
        if isinstance(self.test, OfOperator) or isinstance(self.supported_elsewhere, OfOperator):
            return self.of(call.operator).apply(call, chip)
        if isinstance(self.test, Condition):
            facts = call.facts(chip)
            ok = bool(self.test.holds(facts))
            texts = _with_line(self.texts, call.operator.where)(call, chip) if self.texts else _texts(self.test, facts)
            if not ok and self.supported_elsewhere is not None and self.supported_elsewhere.holds(facts):
                status = None
        else:
            ok, *given = _with_line(self.test, call.operator.where)(call, chip)
            texts = Texts(*given)
        parameter = texts.parameter or self.parameter
        return Finding(self.name, ok, texts.expected, texts.given, parameter, status, self.tiling)


def _texts(condition: Condition, facts: Facts) -> Texts:
    names = dict.fromkeys(fact.name for fact in condition.facts() if fact.name in facts)
    return Texts(str(condition), ", ".join(f"{name} = {facts[name]}" for name in names))


@dataclass(frozen=True)
class Finding:
    """One rule applied to one call."""

    name: str
    ok: bool
    expected: str
    given: str
    parameter: str
    status: Status | None
    tiling: tuple[int, str] | None = None

    def __str__(self) -> str:
        """The rule with both sides: `R in range: expected 1..640, given 656`."""
        return f"{self.name}: expected {self.expected}, given {self.given}"


def _no_variant(_: Call, __: Chip) -> str:
    return ""


def _no_derived_sizes(_: Mapping[str, int]) -> Mapping[str, int]:
    return {}


def _usual_tolerance(name: str, kernel: Kernel) -> Tolerance:
    return usual(kernel[name].dtype)


def _no_tiles(_: Call, __: Chip) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True)
class VendorTiling:
    """What the vendor's host code hands to its kernel: fields in the vendor's order, key, blocks of the launch."""

    data: Mapping[str, int | float | None] | None
    """None for a field that is not known, for the reason in `unknown`."""
    key: int | None
    block_dim: int
    workspace_bytes: int | None = None
    """What the first call asks for; None for the platform's own part and the tensors that phases hand on."""
    ub_available_bytes: int | None = None
    """What the tiling counts on; None for the budget of the inequalities."""
    template: tuple[int, ...] | None = None
    """Parameters of the kernel's template, where they select it and the key that packs them is not public."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a field is not known, by its name."""
    data_bytes: int = 0
    """Bytes of the fields together; 0 for 8 a field."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of an instruction passes: rows of its result, vectors, and of a copy bursts and bytes."""

    instr: Instr
    rows: int
    vectors: int
    bursts: int
    bytes: int


FUNCTIONS: Final = (
    "kernel",
    "variant",
    "derived_sizes",
    "shape_sizes",
    "tiles",
    "tiling",
    "reference",
    "magnitude",
    "tolerance",
    "vendor_counters",
    "kernel_call",
)
"""The fields of an operator that are its author's functions."""


@dataclass(frozen=True)
class KernelRow:
    """A measured kernel as a profile or a benchmark states it; what the source does not have is empty."""

    inputs: Sequence[tuple[int, ...]]
    dtypes: Sequence[str]
    """Dtypes of the inputs as the source writes them."""
    outputs: Sequence[tuple[int, ...]] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)
    """Tiles, cores and options of a published sample; empty for a kernel of the vendor's library."""
    chip: str = ""


@dataclass(frozen=True)
class KernelCall:
    """A measured kernel as a call that `plan` takes."""

    operator: Operator
    given: Mapping[str, Any]
    dtype: str
    tiles: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)
    """Parameters of memories of the kernel that differ from the chip file."""
    whole_buffer: bool = False
    """True for a kernel that uses all of the unified buffer in silicon."""
    note: str = ""
    """How the call differs from the kernel, and why."""
    own_class: str = ""
    """Accuracy class of the call where it differs from the operator's."""

    @property
    def accuracy_class(self) -> str:
        """Class of kernels that share one known error of estimates, "" for a kernel without one."""
        return self.own_class or self.operator.accuracy_class


@dataclass(frozen=True)
class Sample:
    """A published sample of an operator: its name in sources, and its variant from a record of measurements."""

    name: str
    variant: Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Operator:
    """Everything about an operator. `dtypes` are those of each chip family that has it, `dtype` the one to assume."""

    name: str
    api: str
    about: str
    dims: Sequence[Dimension]
    tensors: Sequence[Argument]
    kernel: Callable[[Kernel], None]
    dtypes: Mapping[str, Sequence[str]]
    dtype: str
    lead: str
    """The tensor that others are compared with."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Names for products of dims, such as D for C*H."""
    options: Sequence[Option] = ()
    attributes: Sequence[Attribute] = ()
    rules: Sequence[Rule] = ()
    tiling_only_rules: Sequence[Rule] = ()
    """What the vendor's tiling function refuses although the first call accepts it, and does not ask the function."""
    split: str = ""
    """The attribute that says which axis stands between two folded runs."""
    overflow: Status = TILING_ERROR
    """What the first call returns where the rules hold and the buffers do not fit."""
    variant: Callable[[Call, Chip], Hashable | Sequence[Hashable]] = _no_variant
    """The kernel that runs, or several as a list or tuple in order of preference: the first that fits is taken.

    A variant is frozen data, which the kernel function reads as `k.variant`.
    """
    derived_sizes: Callable[[Mapping[str, int]], Mapping[str, int]] = _no_derived_sizes
    """Sizes of the kernel that follow from the dims: tokens, groups ..."""
    shape_sizes: Callable[[Call], Mapping[str, int]] = lambda _: {}
    """Sizes of the kernel that follow from the shapes of tensors of any rank."""
    tiles: Callable[[Call, Chip], Mapping[str, int]] = _no_tiles
    """Tile sizes that the vendor's rule fixes, where it is not the largest that fits."""
    tiling: Callable[[Call, Chip, Mapping[str, int]], VendorTiling | None] | None = None
    """The vendor's tiling data, from the tiles of the plan, where its rule is public."""
    other_apis: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other calls of the vendor for the same kernel, each with the attributes of `api` that it lacks."""
    forward: str = ""
    """Of gradients, the operator that they are of: inputs of the same name are shared, and its outputs that are inputs
    here are what the backward needs saved."""
    reference: ClosedForm | None = None
    """The outputs in float64, from formulas alone, to compare results with."""
    magnitude: ClosedForm | None = None
    """What the tolerance of an element is a share of, beside the reference itself."""
    tolerance: Callable[[str, Kernel], Tolerance] = _usual_tolerance
    """What an output may differ from the reference."""
    fused: Operator | None = None
    """The same as one kernel on every product, where some compose it of other operators; for comparison only."""
    caution_bytes: int = CAUTION_BYTES
    """The slack below which a call that fits is a caution [bytes]."""
    vendor_counters: Callable[[Work], Mapping[str, int]] | None = None
    """Counters of the vendor's kernel, where that is public, and by how much one run of an instruction moves each."""

    kernel_names: Sequence[str] = ()
    """Names of its kernel in profiles and benchmarks; case and underscores are ignored."""
    accuracy_class: str = ""
    """Class of kernels that share one known error of estimates; "" where none was compared with a measurement."""
    measured_options: Mapping[str, bool] = field(default_factory=dict)
    """Options of the measured kernels that differ from the defaults."""
    kernel_call: Callable[[KernelRow], KernelCall] | None = None
    """The call of a measured kernel; None for `call_of_shapes`. Raises Unmapped."""
    sample: Sample | None = None
    """The published sample whose measured times are known."""
    where: str = field(default="", init=False)
    """file:line that makes the operator."""

    @functools.cached_property
    def sizes(self) -> dict[str, Size]:
        """The dims and derived names as kernels compute with them."""
        own = {d.name: d.size for d in self.dims}
        for name, text in self.derived.items():
            (own[name],) = (axis for axis in Pattern.parsed(text, own).axes if isinstance(axis, Size))
        return own

    @functools.cached_property
    def patterns(self) -> dict[str, Pattern]:
        """The declared shape of every tensor."""
        return {t.name: Pattern.parsed(t.shape, self.sizes) for t in self.tensors}

    @functools.cached_property
    def arguments(self) -> dict[str, Argument]:
        """The tensors by name, in the order of the interface."""
        return {t.name: t for t in self.tensors}

    @functools.cached_property
    def dimensions(self) -> dict[str, Dimension]:
        """The dims by name."""
        return {d.name: d for d in self.dims}

    @property
    def has_instructions(self) -> bool:
        """Whether the kernel computes; a file of buffers has no tensors, and a kernel without instructions."""
        return bool(self.tensors)

    @property
    def products(self) -> tuple[str, ...]:
        """The chip families that have the operator."""
        return tuple(self.dtypes)

    def __post_init__(self) -> None:
        """Check that every name is one that the operator declares and that functions are functions.

        Raises BadOperator with all that are not.
        """
        object.__setattr__(self, "where", caller())
        problems = []
        for name in FUNCTIONS:
            function = getattr(self, name)
            if callable(function):
                object.__setattr__(self, name, _with_line(function, self.where))
            elif function is not None:
                problems.append(f"{name} is {function!r}, must be a function")
        for t in self.tensors:
            for word in t.shape.split():
                names = [part for part in word.lstrip("~").split("*") if part and not part.isdigit()]
                unknown = [n for n in names if n not in self.derived and n not in {d.name for d in self.dims}]
                problems += [f"tensor '{t.name}' has the shape '{t.shape}', in which '{n}' is no dim" for n in unknown]
            if t.option and t.option not in {o.name for o in self.options}:
                problems.append(f"tensor '{t.name}' belongs to '{t.option}', which is no option")
        if self.tensors and self.lead not in {t.name for t in self.tensors}:
            problems.append(f"lead is '{self.lead}', which is no tensor")
        if self.split and self.split not in {a.name for a in self.attributes}:
            problems.append(f"split is '{self.split}', which is no attribute")
        if problems:
            raise BadOperator(f"operator '{self.name}': {'; '.join(problems)}", self.where)

    def runs_as(self, kernel: str) -> bool:
        """Return True if profiles and benchmarks call a kernel of this operator `kernel`."""
        return _plain(kernel) in map(_plain, self.kernel_names)

    def members(self, option: str) -> tuple[Argument, ...]:
        """The tensors that belong to an option."""
        return tuple(t for t in self.tensors if t.option == option)

    def reading_order(self) -> Iterator[str]:
        """The tensors in the order in which shapes are believed: the lead first, outputs last."""
        yield from (t.name for t in self.tensors if t.name == self.lead)
        yield from (t.name for t in self.tensors if t.role == INPUT and t.name != self.lead)
        yield from (t.name for t in self.tensors if t.role != INPUT and t.name != self.lead)

    def variants(self, call: Call, chip: Chip) -> tuple[Hashable, ...]:
        """The variants of the kernel, in order of preference; at least one."""
        answer = self.variant(call, chip)
        variants = tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)
        if not variants:
            raise BadOperator(f"operator '{self.name}' has no variant for the call", self.where)
        try:
            hash(variants)
        except TypeError as error:
            raise BadOperator(f"variant of operator '{self.name}': {error}", self.where) from None
        return variants

    def record(self, call: Call, chip: Chip, variant: Hashable) -> Kernel:
        """The recorded kernel for the dtype and options of a call and one of its variants; the same for every shape.

        Raises BadOperator, with the line, where the kernel function does what a kernel cannot mean.
        """
        options = tuple(sorted(call.options.items()))
        specs = {t.name: call.spec(t.name) for t in self.tensors if t.others}
        others = tuple((n, s.dtype) for n, s in specs.items() if s and s.dtype in self.arguments[n].others)
        return _recorded(self, call.dtype, others, options, chip.family, variant, chip.vector.registers)


@dataclass(frozen=True, eq=False)
class Call:
    """An operator with its sizes, dtypes, options and attributes."""

    operator: Operator
    dtype: str
    specs: Mapping[str, TensorSpec | None]
    """Every tensor, None for a null one; a tensor is missing where its shape is not known."""
    options: Mapping[str, bool]
    attributes: Mapping[str, int | float]
    solution: Solution
    """What attributes and tensors say about the dims."""

    @property
    def dims(self) -> dict[str, int]:
        """The dims that are known [elements], in the operator's order."""
        return {d.name: self.solution.sizes[d.name] for d in self.operator.dims if d.name in self.solution.sizes}

    @property
    def complete(self) -> bool:
        """Whether every dim is known and not below its least."""
        dims = self.dims
        return all(d.name in dims and dims[d.name] >= d.least for d in self.operator.dims)

    @property
    def env(self) -> dict[str, Any]:
        """The values of all names that sizes and scalars of the kernel can have."""
        return {
            **self.attributes,
            **self.dims,
            **self.operator.derived_sizes(self.dims),
            **self.operator.shape_sizes(self),
        }

    def facts(self, chip: Chip) -> Facts:
        """Return the facts that conditions speak of, on a chip."""
        if not self._latest or self._latest[0].chip is not chip:
            self._latest[:] = [Facts(self._told(), chip)]
        return self._latest[0]

    @functools.cached_property
    def _latest(self) -> list[Facts]:
        """The facts on the chip that was asked for last."""
        return []

    def _told(self) -> dict[str, Any]:
        facts: dict[str, Any] = {DTYPE: self.dtype, **self.attributes, **self.dims, **self.options}
        for name in self.operator.arguments:
            facts[null(name).name] = self.is_null(name)
            if (spec := self.spec(name)) is not None:
                facts |= {shape_of(name).name: spec.shape, dtype_of(name): spec.dtype}
        return facts | {axes_of(name).name: axes for name, axes in self.solution.folds.items()}

    def spec(self, name: str) -> TensorSpec | None:
        """The tensor called `name`, None if it is null or not known."""
        return self.specs.get(name)

    def is_null(self, name: str) -> bool:
        """Whether null was given for a tensor."""
        return name in self.specs and self.specs[name] is None

    def expected(self, name: str) -> tuple[int, ...] | None:
        """The shape that the declared one of `name` takes at the dims of the call, None if they are not known."""
        return self.operator.patterns[name].filled(self.solution)


@functools.lru_cache(maxsize=256)
def _recorded(
    op: Operator,
    dtype: str,
    others: tuple[tuple[str, str], ...],
    options: tuple[tuple[str, bool], ...],
    family: str,
    variant: Hashable,
    registers: int,
) -> Kernel:
    on, own = dict(options), dict(others)
    there = [t for t in op.tensors if not t.option or on.get(t.option)]
    tensors: dict[str, Tensor | None] = dict.fromkeys(op.arguments)
    tensors |= {t.name: _tensor(op, t, own.get(t.name, dtype)) for t in there}
    kernel = Kernel(op.name, dtype, on, tensors, family, variant, registers, where=op.where)
    op.kernel(kernel)
    return kernel


def _with_line(function: Callable[..., Any], operator: str) -> Callable[..., Any]:
    """The author's function, which raises BadOperator with its line, or that of the operator, where it fails.

    An answer stays what it is: any error of tilesim but a word that it does not take.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            if isinstance(error, (TilesimError, MemoryError)) and not isinstance(error, BadInput):
                raise
            where = line_of(error, operator)
            raise BadOperator(f"{type(error).__name__}: {error}", where) from error

    return call


def _tensor(op: Operator, argument: Argument, dtype: str) -> Tensor:
    shape = tuple(op.sizes[axis] if isinstance(axis, str) else axis for axis in op.patterns[argument.name].axes)
    return Tensor(argument.name, shape or (ONE,), argument.dtype or dtype, argument.role)


def _plain(kernel: str) -> str:
    """The name of a kernel without case and underscores."""
    return kernel.replace("_", "").lower()
