"""The kinds of rules that operators state: required tensors, dtypes, shapes, ranges, multiples, combinations.

Each function returns rules to put into an operator's list, in the order in which the vendor checks them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from tilesim.chip.chip import Chip
from tilesim.operators.conditions import (
    Broadcastable,
    Condition,
    OneOf,
    SameShape,
    SameWord,
    all_of,
    any_of,
    at_most,
    equal,
    facts_of,
    less,
    unless_known,
    within,
)
from tilesim.operators.facts import (
    FAMILY,
    VISIBLE_UB_BYTES,
    absent,
    axes_of,
    dtype_of,
    null,
    shape_of,
    unknown,
)
from tilesim.operators.operator import Call, Dimension, OfOperator, Operator, Rule, Texts
from tilesim.operators.shapes import INT64_MAX, apart
from tilesim.operators.status import PARAM_INVALID, PARAM_NULLPTR, TILING_ERROR, Status
from tilesim.program import sizes
from tilesim.program.sizes import Shape, Size

Place = tuple[int, str]
"""A rule in the vendor's tiling function: its place in the order, and the check's name."""
UNKNOWN = "unknown"
"""The text of a rule for a value that the given shapes do not determine."""


def product(op: Operator) -> Rule:
    """Return the rule that the chip is a product of the operator; without a status, as no operator can be called."""

    def texts(_: Call, chip: Chip) -> Texts:
        return Texts(" or ".join(op.products), chip.family)

    return Rule("product", None, OneOf(FAMILY, op.products), "platform", texts)


@functools.lru_cache(maxsize=256)
def rules_of(op: Operator) -> tuple[Rule, ...]:
    """Return the rule that the chip is a product of the operator, then the operator's rules.

    An operator that states none has the rules that its tensors and dims declare. A kernel is recorded on the promise
    that sizes are counts, that a dim is at least its least and a multiple, and only for the dtypes of the operator, so
    these are rules even if they are not stated; stated rules about the range of every dim cover the sizes too. An
    operator without tensors states all its rules.
    """
    if not op.tensors:
        return tuple(rule.of(op) for rule in op.rules)
    rules = [rule.of(op) for rule in tuple(op.rules) or tuple(_declared(op))]
    stated = {rule.name for rule in rules}
    limited = {name for rule in rules for name in rule.over}
    promised = [in_range(d, op.lead) for d in op.dims if d.least > 0 and d.name not in limited]
    promised += [multiple(d, op.lead) for d in op.dims if d.multiple_of > 1]
    if not op.rules or any(d.name not in limited for d in op.dims):
        promised.insert(0, sizes_exist(op.lead))
    if not op.arguments[op.lead].dtype:
        promised.insert(0, dtype_supported(op.lead))
    return (product(op), *rules, *(rule.of(op) for rule in promised if rule.name not in stated))


def _declared(op: Operator) -> Iterator[Rule]:
    """Yield null, dtypes, ranges, shapes, as the tensors and dims of an operator declare them."""
    yield from not_null(*(t.name for t in op.tensors if not t.option))
    for option in op.options:
        members = [t.name for t in op.members(option.name)]
        if members:
            yield whole_group(option.name, members)
    if not op.arguments[op.lead].dtype:
        yield dtype_supported(op.lead)
    for t in op.tensors:
        if t.dtype:
            yield dtype_is(t.name, t.dtype)
        elif t.name != op.lead:
            yield dtype_same(t.name, op.lead)
    yield from (in_range(d, op.lead) for d in op.dims)
    yield from (shape(t.name) for t in op.tensors)


def not_null(*names: str, status: Status = PARAM_NULLPTR) -> list[Rule]:
    """Return one rule a tensor: it is given."""

    def rule(name: str) -> Rule:
        def texts(call: Call, _: Chip) -> Texts:
            return Texts("a tensor", "null" if call.is_null(name) else "a tensor")

        return Rule(f"{name} given", status, ~null(name), name, texts)

    return [rule(name) for name in names]


def whole_group(option: str, names: Sequence[str], status: Status = PARAM_NULLPTR) -> Rule:
    """Return the rule that the tensors of an option are all given or all null; a tensor without elements is given."""

    def texts(call: Call, _: Chip) -> Texts:
        nulls = [name for name in names if call.is_null(name)]
        uniform = len(nulls) in (0, len(names))
        given = "all null" if len(nulls) == len(names) else f"{', '.join(nulls)} null" if nulls else "all given"
        return Texts("all given or all null", given, "" if uniform else nulls[0])

    uniform = all_of(*map(null, names)) | all_of(*(~null(name) for name in names))
    return Rule(f"{option} group ({', '.join(names)})", status, uniform, names[0], texts)


def dtype_supported(
    name: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None, everywhere: bool = False
) -> Rule:
    """Return the rule that a tensor has a dtype that the operator takes on the chip.

    A call with a dtype of other products only is unsupported, as on a product without the operator, unless the document
    states the status `everywhere`.
    """

    def of_all_products(op: Operator) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d for dtypes in op.dtypes.values() for d in dtypes))

    def build(op: Operator) -> Condition:
        by_dtypes: dict[tuple[str, ...], list[str]] = {}
        for family, dtypes in op.dtypes.items():
            by_dtypes.setdefault(tuple(dtypes) or of_all_products(op), []).append(family)
        here = [OneOf(FAMILY, tuple(families)) & OneOf(dtype_of(name), ds) for ds, families in by_dtypes.items()]
        other = ~OneOf(FAMILY, op.products) & OneOf(dtype_of(name), of_all_products(op))
        return any_of(absent(name), *here, other)

    def texts(call: Call, chip: Chip) -> Texts:
        return _dtypes(call, name, call.operator.dtypes.get(chip.family) or of_all_products(call.operator))

    elsewhere = None if everywhere else OfOperator(lambda op: OneOf(dtype_of(name), of_all_products(op)))
    return Rule(f"{name} dtype", status, OfOperator(build), name, texts, tiling, elsewhere)


def dtype_same(name: str, as_: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that a tensor has the dtype of another one."""

    def texts(call: Call, _: Chip) -> Texts:
        other = call.spec(as_)
        return _dtypes(call, name, [other.dtype] if other else [])

    same = absent(name, as_) | SameWord(dtype_of(name), dtype_of(as_))
    return Rule(f"{name} dtype as {as_}", status, same, name, texts, tiling)


def dtype_is(name: str, dtype: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that a tensor has the dtype `dtype`."""

    def texts(call: Call, _: Chip) -> Texts:
        return _dtypes(call, name, [dtype])

    return Rule(f"{name} dtype", status, absent(name) | OneOf(dtype_of(name), (dtype,)), name, texts, tiling)


def rank(
    name: str, least: int, most: int | None = None, *, status: Status = PARAM_INVALID, tiling: Place | None = None
) -> Rule:
    """Return the rule that a tensor has `least` axes, or from `least` to `most`."""
    top = least if most is None else most

    def texts(call: Call, _: Chip) -> Texts:
        return Texts(f"{least}" if top == least else f"{least}..{top}", _shown(call, name, len))

    title = f"{name} rank" if least else f"{name} rank limit"
    limited = absent(name) | within(least, sizes.rank(shape_of(name)), top)
    return Rule(title, status, limited, name, texts, tiling)


def shape(name: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that a tensor has its declared shape at the dims of the call."""

    def build(op: Operator) -> Condition:
        pattern, axes = op.patterns[name], sizes.rank(shape_of(name))
        fixed = len(pattern.axes) - len(pattern.folded)
        ranked = at_most(fixed, axes) if pattern.folded else equal(axes, fixed)
        if not pattern.axes:
            return absent(name) | ranked
        parts = tuple(axes_of(axis) if isinstance(axis, str) else axis for axis in pattern.axes)
        facts = dict.fromkeys(fact for part in parts for fact in facts_of(part))
        return absent(name) | ranked & (unless_known(*facts) | SameShape(shape_of(name), parts))

    def texts(call: Call, _: Chip) -> Texts:
        expected = call.expected(name)
        values = "" if expected is None else f" = {_list(expected)}"
        pattern = call.operator.patterns[name]
        return Texts(f"[{', '.join(pattern.text.split())}]{values}", _shown(call, name, _list))

    return Rule(f"{name} shape", status, OfOperator(build), name, texts, tiling)


def broadcasts(name: str, with_: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that the shapes of two tensors broadcast to each other."""

    def texts(call: Call, _: Chip) -> Texts:
        spec, other = call.spec(name), call.spec(with_)
        if spec is None or other is None:
            return Texts(f"broadcasts with {with_}", _shown(call, name, _list))
        axes = apart(other.shape, spec.shape)
        if not axes:
            return Texts(f"broadcasts with {_list(other.shape)}", _list(spec.shape))
        sizes = " and ".join(f"{a} or 1 on axis {i}" for i, a, _ in axes)
        given = " and ".join(str(b) for *_, b in axes)
        return Texts(f"{sizes}, as {with_} {_list(other.shape)}", f"{given} of {_list(spec.shape)}")

    spread = absent(name, with_) | Broadcastable(shape_of(with_), shape_of(name))
    return Rule(f"{name} shape", status, spread, name, texts, tiling)


def axis(name: str, index: int, of: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that axis `index` of a tensor has the size of the dim `of`."""

    def texts(call: Call, _: Chip) -> Texts:
        size = call.dims.get(of)
        given = _shown(call, name, lambda s: s[index] if len(s) > index else UNKNOWN)
        return Texts(f"{of} = {UNKNOWN if size is None else size}", given)

    given = shape_of(name)
    same = equal(sizes.axis(given, index), sizes.dim(of))
    return Rule(
        f"{name} axis {index}",
        status,
        any_of(absent(name), unknown(of), at_most(sizes.rank(given), index), same),
        name,
        texts,
        tiling,
    )


def sizes_exist(name: str, *, status: Status = PARAM_INVALID) -> Rule:
    """Return the rule that no tensor has a negative size, and no size or number of elements beyond 64 bits.

    `name` is the leading tensor, which is checked first and shown if the rule holds.
    """

    def build(op: Operator) -> Condition:
        def countable_sizes(shape: Shape) -> Condition:
            legal = at_most(0, sizes.least_axis(shape)) & at_most(sizes.greatest_axis(shape), INT64_MAX)
            return legal & at_most(sizes.elements(shape), INT64_MAX)

        return all_of(*(absent(tensor) | countable_sizes(shape_of(tensor)) for tensor in op.arguments))

    def texts(call: Call, _: Chip) -> Texts:
        specs = {n: call.spec(n) for n in dict.fromkeys((name, *call.specs))}
        shapes = {n: spec.shape for n, spec in specs.items() if spec is not None}
        expected = f"each 0..{INT64_MAX}"
        for tensor, axes in shapes.items():
            if any(not 0 <= size <= INT64_MAX for size in axes):
                return Texts(expected, f"{tensor} {list(axes)}", tensor)
            if math.prod(axes) > INT64_MAX:
                return Texts(f"at most {INT64_MAX} elements", f"{tensor} of {math.prod(axes)} elements", tensor)
        return Texts(expected, _shown(call, name, _list))

    return Rule(f"{name} sizes", status, OfOperator(build), name, texts)


def in_range(d: Dimension, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that a dim is from its least to its most."""
    least, most, size = d.least, d.most, sizes.dim(d.name)
    expected = f"at least {least}" if most is None else f"{least}" if least == most else f"{least}..{most}"
    limited = at_most(least, size) if most is None else within(least, size, most)
    return about(size, f"{d.name} range", expected, limited, parameter, status, tiling)


def multiple(d: Dimension, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that a dim is a multiple of its `multiple_of`."""
    n, size = d.multiple_of, sizes.dim(d.name)
    return about(size, f"{d.name} multiple", f"a multiple of {n}", equal(size % n, 0), parameter, status, tiling)


def divides(attribute: str, name: str, *, status: Status = PARAM_INVALID) -> Rule:
    """Return the rule that an attribute, such as a number of channels, divides the last axis of a tensor."""
    given, value = shape_of(name), sizes.dim(attribute)

    def build(op: Operator) -> Condition:
        axes = len(op.patterns[name].axes)
        divided = at_most(1, value) & equal(sizes.axis(given, -1) % value, 0)
        return any_of(absent(name), unknown(attribute), ~equal(sizes.rank(given), axes), divided)

    def texts(call: Call, _: Chip) -> Texts:
        spec, number = call.spec(name), call.attributes.get(attribute)
        if spec is None or number is None or len(spec.shape) != len(call.operator.patterns[name].axes):
            return Texts(f"a divisor of the last axis of {name}", UNKNOWN)
        return Texts(f"a divisor of {spec.shape[-1]}, the last axis of {name}", str(number))

    return Rule(f"{attribute} divide {name}", status, OfOperator(build), attribute, texts)


def axis_exists(attribute: str, name: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """Return the rule that an attribute is the index of an axis of a tensor."""
    axes, index = sizes.rank(shape_of(name)), sizes.dim(attribute)

    def texts(call: Call, _: Chip) -> Texts:
        spec, given = call.spec(name), str(call.attributes[attribute])
        if spec is None:
            return Texts(f"an axis of {name}", given)
        return Texts(f"{-len(spec.shape)}..{len(spec.shape) - 1}", given)

    exists = absent(name) | within(-axes, index, axes - 1)
    return Rule(f"{attribute} range", status, exists, attribute, texts, tiling)


def axis_even(
    attribute: str, name: str, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None
) -> Rule:
    """Return the rule that the axis of a tensor at the index of an attribute has an even size."""
    given, index = shape_of(name), sizes.dim(attribute)

    def texts(call: Call, _: Chip) -> Texts:
        spec, number = call.spec(name), int(call.attributes[attribute])
        exists = spec is not None and -len(spec.shape) <= number < len(spec.shape)
        return Texts("an even number", str(spec.shape[number]) if spec is not None and exists else UNKNOWN)

    exists = within(-sizes.rank(given), index, sizes.rank(given) - 1)
    even = any_of(absent(name), ~exists, equal(sizes.axis(given, index) % 2, 0))
    return Rule("split axis even", status, even, parameter, texts, tiling)


def product_at_most(
    dims: tuple[str, str], most: int, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None
) -> Rule:
    """Return the rule that the product of two dims does not exceed `most`."""
    size = sizes.dim(dims[0]) * sizes.dim(dims[1])
    return about(size, "*".join(dims), f"at most {most}", at_most(size, most), parameter, status, tiling)


def countable(dims: tuple[str, str], parameter: str, *, status: Status = PARAM_INVALID) -> list[Rule]:
    """Return rules for two dims that may be zero: neither is negative, and they and their product fit 64 bits."""
    ranges = [in_range(Dimension(name, 0, INT64_MAX), parameter, status=status) for name in dims]
    return [*ranges, product_at_most(dims, INT64_MAX, parameter, status=status)]


def about(
    size: Size,
    name: str,
    expected: str,
    condition: Condition,
    parameter: str,
    status: Status,
    tiling: Place | None = None,
) -> Rule:
    """Return the rule that a condition about a size of dims holds, where they are known; it shows the size."""

    def texts(call: Call, _: Chip) -> Texts:
        dims = call.dims
        return Texts(expected, str(size.bind(dims)) if size.names() <= dims.keys() else UNKNOWN)

    return Rule(name, status, unknown(*sorted(size.names())) | condition, parameter, texts, tiling)


def ub_beyond(
    kept_bytes: int,
    tiling: Place,
    *,
    name: str = "ub",
    status: Status | None = TILING_ERROR,
    unless: Condition | None = None,
) -> Rule:
    """Return the rule that the unified buffer is larger than the bytes a tiling keeps back, unless `unless` holds."""

    def texts(_: Call, chip: Chip) -> Texts:
        return Texts(f"more than {kept_bytes} B of ub", f"{chip.memory.ub.visible_bytes} B")

    larger = less(kept_bytes, VISIBLE_UB_BYTES)
    return Rule(name, status, unless | larger if unless else larger, "platform", texts, tiling)


def _dtypes(call: Call, name: str, allowed: Sequence[str]) -> Texts:
    spec = call.spec(name)
    given = _shown(call, name, lambda _: spec.dtype if spec else "")
    return Texts(" or ".join(allowed) or UNKNOWN, given)


def _shown(call: Call, name: str, show: Callable[[tuple[int, ...]], object]) -> str:
    """Return `show` of a shape as text, or the text of a null or unknown one."""
    spec = call.spec(name)
    return "null" if call.is_null(name) else UNKNOWN if spec is None else str(show(spec.shape))


def _list(shape: Iterable[int]) -> str:
    return str(list(shape))
