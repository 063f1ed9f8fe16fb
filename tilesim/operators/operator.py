"""An operator: its tensors, dims, options, attributes, products and rules as its document states them, and its kernel.

An operator is one Operator in one file. A Call is an operator with all that one check or plan needs: sizes, dtypes,
options, attributes. `Operator.record` runs the kernel function once and keeps the record.
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
"""The slack below which a call that fits is a caution [bytes]."""


@dataclass(frozen=True)
class Dimension:
    """A named size [elements] and its documented values: `least` to `most`, a multiple of `multiple_of`."""

    name: str
    least: int = 1
    most: int | None = None
    multiple_of: int = 1
    default: int | None = None
    """Its value if none is given."""
    power_of_two: bool = False
    """True if it must be a power of two."""

    @property
    def size(self) -> Size:
        """The Size of kernels."""
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
    """Its name in the vendor's interface, if that differs."""
    contiguous: bool = False
    """True if the document requires it without gaps."""
    fan_in: str = ""
    """The dim that products with a weight sum over: random values are divided by its root."""
    others: tuple[str, ...] = ()
    """Dtypes that it may have in place of the operator's own."""
    positive: bool = False
    """True if values below 0 have no meaning, as for a mean square."""
    unwanted: tuple[int, ...] | None = None
    """The shape that stands for null in the vendor's interface; None without one."""


def result(name: str, shape: str, **more: Any) -> Argument:
    """Return an output tensor; `more` are the other fields of an Argument."""
    return Argument(name, shape, OUTPUT, **more)


@dataclass(frozen=True)
class Option:
    """A choice that is on or off; tensors that name it are given or null. `words` may name both, off first."""

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
    """Its name in the vendor's interface, if that differs."""
    flag: bool = False
    """True if it is a flag, 1 or 0."""


class Texts(NamedTuple):
    """The expected and the given value of a rule; `parameter` names the tensor if the rule is about several."""

    expected: str
    given: str
    parameter: str = ""


class Outcome(NamedTuple):
    """The result of a rule that is a Python function."""

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

    A rule about a null tensor or an unknown size holds: another rule is broken then.
    Its test is a condition over facts of a call and a chip, or a Python function, which can be applied but not printed.
    """

    name: str
    status: Status | None
    test: Condition | OfOperator | Callable[[Call, Chip], Outcome]
    parameter: str = ""
    texts: Callable[[Call, Chip], Texts] | None = None
    """The texts of a finding; the condition and its facts if None."""
    tiling: tuple[int, str] | None = None
    """Its place in the order of the vendor's tiling function and its name there; None if that does not check it."""
    supported_elsewhere: Condition | OfOperator | None = None
    """The condition under which another product supports a call that breaks the rule; this one then has no status."""

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
        """The numbers that it limits; none if it is about other facts too."""
        facts = set(self.test.facts()) if isinstance(self.test, Condition) else set()
        return frozenset(f.name for f in facts) if all(f.kind is Kind.NUMBER for f in facts) else frozenset()

    def apply(self, call: Call, chip: Chip) -> Finding:
        """Return the rule applied to a call on a chip."""
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
        """Return the rule with both sides: `R in range: expected 1..640, given 656`."""
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
    """The data that the vendor's host code passes to its kernel: fields in its order, key, blocks of the launch."""

    data: Mapping[str, int | float | None] | None
    """Fields by name in the vendor's order; None for an unknown field, with the reason in `unknown`."""
    key: int | None
    block_dim: int
    workspace_bytes: int | None = None
    """Bytes that the first call requests; None for the platform's part and the tensors between phases."""
    ub_available_bytes: int | None = None
    """Bytes that the tiling assumes; None for the budget of the inequalities."""
    template: tuple[int, ...] | None = None
    """Parameters of the kernel's template, where they select it and the key that packs them is not public."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Reasons for unknown fields, by their names."""
    data_bytes: int = 0
    """Bytes of the fields together; 0 for 8 a field."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one run of an instruction: rows of its result, vectors, and bursts and bytes of a copy."""

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
    """A measured kernel as a profile or a benchmark states it; fields that the source does not have are empty."""

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
    """The difference of the call from the kernel, with the reason."""
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
    """All facts of an operator. `dtypes` are those of each chip family that has it, `dtype` is the default."""

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
    """Rules of the vendor's tiling function for calls that the first call accepts without that function."""
    split: str = ""
    """The attribute with the index of the axis between two folded runs."""
    overflow: Status = TILING_ERROR
    """The status of the first call if the rules hold and the buffers do not fit."""
    variant: Callable[[Call, Chip], Hashable | Sequence[Hashable]] = _no_variant
    """The kernel that runs, or several as a list or tuple in order of preference: the first that fits is taken.

    A variant is frozen data, which the kernel function reads as `k.variant`.
    """
    derived_sizes: Callable[[Mapping[str, int]], Mapping[str, int]] = _no_derived_sizes
    """Sizes of the kernel that follow from the dims: tokens, groups ..."""
    shape_sizes: Callable[[Call], Mapping[str, int]] = lambda _: {}
    """Sizes of the kernel that follow from the shapes of tensors of any rank."""
    tiles: Callable[[Call, Chip], Mapping[str, int]] = _no_tiles
    """Tile sizes that the vendor's rule fixes, where they are not the largest that fit."""
    tiling: Callable[[Call, Chip, Mapping[str, int]], VendorTiling | None] | None = None
    """The vendor's tiling data, from the tiles of the plan, where its rule is public."""
    other_apis: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other calls of the vendor for the same kernel, each with the attributes of `api` that it lacks."""
    forward: str = ""
    """The forward operator of a gradient: inputs of the same name are shared, and its outputs that are inputs here are
    saved for the backward."""
    reference: ClosedForm | None = None
    """The outputs in float64, from formulas alone, to compare results with."""
    magnitude: ClosedForm | None = None
    """The magnitude of each element that `share` of a tolerance refers to; the reference itself if None."""
    tolerance: Callable[[str, Kernel], Tolerance] = _usual_tolerance
    """The tolerance of an output, by its name."""
    fused: Operator | None = None
    """The operator as one kernel on every product, if some products compose it of others; for comparison only."""
    caution_bytes: int = CAUTION_BYTES
    """The slack below which a call that fits is a caution [bytes]."""
    vendor_counters: Callable[[Work], Mapping[str, int]] | None = None
    """Counts that one run of an instruction adds to the counters of the vendor's kernel, if that is public."""

    kernel_names: Sequence[str] = ()
    """Names of its kernel in profiles and benchmarks; case and underscores are ignored."""
    accuracy_class: str = ""
    """Class of kernels that share one known error of estimates; "" without a comparison with a measurement."""
    measured_options: Mapping[str, bool] = field(default_factory=dict)
    """Options of the measured kernels that differ from the defaults."""
    kernel_call: Callable[[KernelRow], KernelCall] | None = None
    """The call of a measured kernel; None for `call_of_shapes`. Raises Unmapped."""
    sample: Sample | None = None
    """The published sample whose measured times are known."""
    where: str = field(default="", init=False)
    """Line (file:line) that defines the operator."""

    @functools.cached_property
    def sizes(self) -> dict[str, Size]:
        """The dims and derived names as Sizes of kernels."""
        sizes = {d.name: d.size for d in self.dims}
        for name, text in self.derived.items():
            (sizes[name],) = (axis for axis in Pattern.parsed(text, sizes).axes if isinstance(axis, Size))
        return sizes

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
        """True if the kernel computes; a file of buffers has no tensors, and a kernel without instructions."""
        return bool(self.tensors)

    @property
    def products(self) -> tuple[str, ...]:
        """The chip families that have the operator."""
        return tuple(self.dtypes)

    def __post_init__(self) -> None:
        """Check that the operator declares every name and that functions are functions.

        Raises BadOperator with all problems.
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
                problems += [f"tensor '{t.name}' has the shape '{t.shape}'; '{n}' is not a dim" for n in unknown]
            if t.option and t.option not in {o.name for o in self.options}:
                problems.append(f"tensor '{t.name}' belongs to '{t.option}', which is not an option")
        if self.tensors and self.lead not in {t.name for t in self.tensors}:
            problems.append(f"lead is '{self.lead}', which is not a tensor")
        if self.split and self.split not in {a.name for a in self.attributes}:
            problems.append(f"split is '{self.split}', which is not an attribute")
        if problems:
            raise BadOperator(f"operator '{self.name}': {'; '.join(problems)}", self.where)

    def runs_as(self, kernel: str) -> bool:
        """Return True if profiles and benchmarks call a kernel of this operator `kernel`."""
        return _plain(kernel) in map(_plain, self.kernel_names)

    def members(self, option: str) -> tuple[Argument, ...]:
        """Return the tensors that belong to an option."""
        return tuple(t for t in self.tensors if t.option == option)

    def reading_order(self) -> Iterator[str]:
        """Yield the tensors in the order in which shapes decide sizes: the lead first, outputs last."""
        yield from (t.name for t in self.tensors if t.name == self.lead)
        yield from (t.name for t in self.tensors if t.role == INPUT and t.name != self.lead)
        yield from (t.name for t in self.tensors if t.role != INPUT and t.name != self.lead)

    def variants(self, call: Call, chip: Chip) -> tuple[Hashable, ...]:
        """Return the variants of the kernel in order of preference. Raises BadOperator if there is none."""
        stated = self.variant(call, chip)
        variants = tuple(stated) if isinstance(stated, (list, tuple)) else (stated,)
        if not variants:
            raise BadOperator(f"operator '{self.name}' has no variant for the call", self.where)
        try:
            hash(variants)
        except TypeError as error:
            raise BadOperator(f"variant of operator '{self.name}': {error}", self.where) from None
        return variants

    def record(self, call: Call, chip: Chip, variant: Hashable) -> Kernel:
        """Return the recorded kernel for the dtype, options and one variant of a call; the same for every shape.

        Raises BadOperator, with the line, for a kernel function that records an ambiguous program.
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
    """Every tensor, None for a null one; a tensor of unknown shape is missing."""
    options: Mapping[str, bool]
    attributes: Mapping[str, int | float]
    solution: Solution
    """The sizes that attributes and tensors give."""

    @property
    def dims(self) -> dict[str, int]:
        """The known dims [elements], in the operator's order."""
        return {d.name: self.solution.sizes[d.name] for d in self.operator.dims if d.name in self.solution.sizes}

    @property
    def complete(self) -> bool:
        """True if every dim is known and not below its least."""
        dims = self.dims
        return all(d.name in dims and dims[d.name] >= d.least for d in self.operator.dims)

    @property
    def env(self) -> dict[str, Any]:
        """The values of all names in sizes and scalars of the kernel."""
        return {
            **self.attributes,
            **self.dims,
            **self.operator.derived_sizes(self.dims),
            **self.operator.shape_sizes(self),
        }

    def facts(self, chip: Chip) -> Facts:
        """Return the facts for conditions, on a chip."""
        if not self._latest or self._latest[0].chip is not chip:
            self._latest[:] = [Facts(self._own_facts(), chip)]
        return self._latest[0]

    @functools.cached_property
    def _latest(self) -> list[Facts]:
        """The facts on the last chip, or none: the one entry of a cache."""
        return []

    def _own_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {DTYPE: self.dtype, **self.attributes, **self.dims, **self.options}
        for name in self.operator.arguments:
            facts[null(name).name] = self.is_null(name)
            if (spec := self.spec(name)) is not None:
                facts |= {shape_of(name).name: spec.shape, dtype_of(name): spec.dtype}
        return facts | {axes_of(name).name: axes for name, axes in self.solution.folds.items()}

    def spec(self, name: str) -> TensorSpec | None:
        """Return the tensor called `name`; None for a null or an unknown one."""
        return self.specs.get(name)

    def is_null(self, name: str) -> bool:
        """Return True if null was given for a tensor."""
        return name in self.specs and self.specs[name] is None

    def expected(self, name: str) -> tuple[int, ...] | None:
        """Return the declared shape of `name` at the dims of the call; None if they are unknown."""
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
    """Return the author's function; where it fails it raises BadOperator with its line, or the operator's.

    Errors of tilesim are answers and pass unchanged, except BadInput.
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
    """Return the name of a kernel without case and underscores."""
    return kernel.replace("_", "").lower()
