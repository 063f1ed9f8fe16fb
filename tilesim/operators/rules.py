"""The kinds of rules that operators state: what must be given, dtypes, shapes, ranges, multiples, combinations.

Each function returns rules to put into an operator's list, in the order in which the vendor checks them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from tilesim.chip.chip import Chip
from tilesim.operators.operator import Call, Dimension, Operator, Outcome, Rule
from tilesim.operators.shapes import INT64_MAX, apart
from tilesim.operators.status import PARAM_INVALID, PARAM_NULLPTR, Status

Place = tuple[int, str]
"""Of a rule in the vendor's tiling function: its place in the order, and the check's name."""
UNKNOWN = "unknown"
"""What a rule shows where the shapes that were given do not say."""


def product(op: Operator) -> Rule:
    """The rule that the chip is a product of the operator; it has no status, since there is no operator to call."""

    def test(_: Call, chip: Chip) -> Outcome:
        return Outcome(chip.family in op.products, " or ".join(op.products), chip.family)

    return Rule("product", None, test, "platform")


@functools.lru_cache(maxsize=256)
def rules_of(op: Operator) -> tuple[Rule, ...]:
    """The rule that the chip is a product of the operator, then its own rules.

    An operator that states none has those that its tensors and dims declare. A kernel is recorded on the promise that
    sizes are counts, that a dim is not below its least and that it is a multiple, and only for the dtypes of the
    operator, so those are rules whether they are stated or not; where a rule is stated about the range of every dim,
    those are about sizes too.
    """
    own = tuple(op.rules) or tuple(_declared(op))
    stated = {rule.name for rule in own}
    limited = {name for rule in own for name in rule.over}
    promised = [in_range(d, op.lead) for d in op.dims if d.least > 0 and d.name not in limited]
    promised += [multiple(d, op.lead) for d in op.dims if d.multiple_of > 1]
    if not op.rules or any(d.name not in limited for d in op.dims):
        promised.insert(0, sizes_exist(op.lead))
    if not op.arguments[op.lead].dtype:
        promised.insert(0, dtype_supported(op.lead))
    return (product(op), *own, *(rule for rule in promised if rule.name not in stated))


def _declared(op: Operator) -> Iterator[Rule]:
    """Null, dtypes, ranges, shapes, as the tensors and dims of an operator declare them."""
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
    """One rule a tensor: it is given."""

    def rule(name: str) -> Rule:
        def test(call: Call, _: Chip) -> Outcome:
            return Outcome(not call.is_null(name), "a tensor", "null" if call.is_null(name) else "a tensor")

        return Rule(f"{name} given", status, test, name)

    return [rule(name) for name in names]


def whole_group(option: str, names: Sequence[str], status: Status = PARAM_NULLPTR) -> Rule:
    """The rule that the tensors of an option are all given or all null; a tensor without elements is given."""

    def test(call: Call, _: Chip) -> Outcome:
        null = [name for name in names if call.is_null(name)]
        whole = len(null) in (0, len(names))
        given = "all null" if len(null) == len(names) else f"{', '.join(null)} null" if null else "all given"
        return Outcome(whole, "all given or all null", given, "" if whole else null[0])

    return Rule(f"{option} group ({', '.join(names)})", status, test, names[0])


def dtype_supported(
    name: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None, everywhere: bool = False
) -> Rule:
    """The rule that a tensor has a dtype that the operator takes on the chip.

    With one that it takes on other products only it is unsupported, as on a product that does not have it, unless the
    document states the status `everywhere`.
    """

    def test(call: Call, chip: Chip) -> Outcome:
        op, spec = call.operator, call.spec(name)
        ever = list(dict.fromkeys(d for some in op.dtypes.values() for d in some))
        supported_elsewhere = not everywhere and spec is not None and spec.dtype in ever
        return _dtype(call, name, op.dtypes.get(chip.family) or ever)._replace(supported_elsewhere=supported_elsewhere)

    return Rule(f"{name} dtype", status, test, name, tiling=tiling)


def dtype_same(name: str, as_: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that a tensor has the dtype of another one."""

    def test(call: Call, _: Chip) -> Outcome:
        other = call.spec(as_)
        return _dtype(call, name, [other.dtype] if other else [])

    return Rule(f"{name} dtype as {as_}", status, test, name, tiling=tiling)


def dtype_is(name: str, dtype: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that a tensor has one dtype."""

    def test(call: Call, _: Chip) -> Outcome:
        return _dtype(call, name, [dtype])

    return Rule(f"{name} dtype", status, test, name, tiling=tiling)


def rank(
    name: str, least: int, most: int | None = None, *, status: Status = PARAM_INVALID, tiling: Place | None = None
) -> Rule:
    """The rule that a tensor has `least` axes, or from `least` to `most`."""
    top = least if most is None else most

    def test(call: Call, _: Chip) -> Outcome:
        spec = call.spec(name)
        ok = spec is None or least <= len(spec.shape) <= top
        return Outcome(ok, f"{least}" if top == least else f"{least}..{top}", _shown(call, name, len))

    title = f"{name} rank" if least else f"{name} rank limit"
    return Rule(title, status, test, name, tiling=tiling)


def shape(name: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that a tensor has its declared shape at the dims of the call."""

    def test(call: Call, _: Chip) -> Outcome:
        spec, expected = call.spec(name), call.expected(name)
        pattern = call.operator.patterns[name]
        ok = spec is None or (pattern.ranks(spec.shape) if expected is None else spec.shape == expected)
        values = "" if expected is None else f" = {_list(expected)}"
        return Outcome(ok, f"[{', '.join(pattern.text.split())}]{values}", _shown(call, name, _list))

    return Rule(f"{name} shape", status, test, name, tiling=tiling)


def broadcasts(name: str, with_: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that the shapes of two tensors broadcast to each other."""

    def test(call: Call, _: Chip) -> Outcome:
        spec, other = call.spec(name), call.spec(with_)
        if spec is None or other is None:
            return Outcome(ok=True, expected=f"broadcasts with {with_}", given=_shown(call, name, _list))
        wrong = apart(other.shape, spec.shape)
        wanted = " and ".join(f"{a} or 1 on axis {i}" for i, a, _ in wrong)
        given = " and ".join(str(b) for *_, b in wrong)
        expected = f"{wanted}, as {with_} {_list(other.shape)}" if wrong else f"broadcasts with {_list(other.shape)}"
        return Outcome(not wrong, expected, f"{given} of {_list(spec.shape)}" if wrong else _list(spec.shape))

    return Rule(f"{name} shape", status, test, name, tiling=tiling)


def axis(name: str, index: int, dim: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that axis `index` of a tensor has the size of a dim."""

    def test(call: Call, _: Chip) -> Outcome:
        spec, size = call.spec(name), call.dims.get(dim)
        known = spec is not None and len(spec.shape) > index and size is not None
        ok = not known or (spec is not None and spec.shape[index] == size)
        given = _shown(call, name, lambda s: s[index] if len(s) > index else UNKNOWN)
        return Outcome(ok, f"{dim} = {UNKNOWN if size is None else size}", given)

    return Rule(f"{name} axis {index}", status, test, name, tiling=tiling)


def sizes_exist(name: str, *, status: Status = PARAM_INVALID) -> Rule:
    """The rule that no tensor has a negative size, nor one or a number of elements beyond 64 bits.

    `name` is the leading tensor, which is looked at first and shown where nothing is wrong.
    """

    def test(call: Call, _: Chip) -> Outcome:
        specs = {n: call.spec(n) for n in dict.fromkeys((name, *call.specs))}
        shapes = {n: spec.shape for n, spec in specs.items() if spec is not None}
        expected = f"each 0..{INT64_MAX}"
        for one, sizes in shapes.items():
            if any(not 0 <= size <= INT64_MAX for size in sizes):
                return Outcome(ok=False, expected=expected, given=f"{one} {list(sizes)}", parameter=one)
            if math.prod(sizes) > INT64_MAX:
                given = f"{one} of {math.prod(sizes)} elements"
                return Outcome(ok=False, expected=f"at most {INT64_MAX} elements", given=given, parameter=one)
        return Outcome(ok=True, expected=expected, given=_shown(call, name, _list))

    return Rule(f"{name} sizes", status, test, name)


def in_range(dim: Dimension, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that a dim is from its least to its most."""
    least, most = dim.least, dim.most
    expected = f"at least {least}" if most is None else f"{least}" if least == most else f"{least}..{most}"

    def holds(value: int) -> bool:
        return least <= value and (most is None or value <= most)

    return about((dim.name,), f"{dim.name} range", expected, lambda v: (holds(v), v), parameter, status, tiling)


def multiple(dim: Dimension, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None) -> Rule:
    """The rule that a dim is a multiple of what it must be a multiple of."""
    n, name = dim.multiple_of, f"{dim.name} multiple"
    return about((dim.name,), name, f"a multiple of {n}", lambda v: (v % n == 0, v), parameter, status, tiling)


def divides(attribute: str, name: str, *, status: Status = PARAM_INVALID) -> Rule:
    """The rule that an attribute, such as a number of channels, divides the last axis of a tensor."""

    def test(call: Call, _: Chip) -> Outcome:
        spec, value = call.spec(name), call.attributes.get(attribute)
        if spec is None or value is None or len(spec.shape) != len(call.operator.patterns[name].axes):
            return Outcome(ok=True, expected=f"a divisor of the last axis of {name}", given=UNKNOWN)
        size = spec.shape[-1]
        return Outcome(value > 0 and size % value == 0, f"a divisor of {size}, the last axis of {name}", str(value))

    return Rule(f"{attribute} divide {name}", status, test, attribute)


def product_at_most(
    dims: tuple[str, str], most: int, parameter: str, *, status: Status = PARAM_INVALID, tiling: Place | None = None
) -> Rule:
    """The rule that the product of two dims does not exceed `most`."""
    name = "*".join(dims)
    return about(dims, name, f"at most {most}", lambda a, b: (a * b <= most, a * b), parameter, status, tiling)


def countable(dims: tuple[str, str], parameter: str, *, status: Status = PARAM_INVALID) -> list[Rule]:
    """Rules for two dims that may be zero: neither is negative, and they and their product fit 64 bits."""
    first, second = dims
    whole = [
        about((one,), f"{one} range", f"0..{INT64_MAX}", lambda v: (0 <= v <= INT64_MAX, v), parameter, status)
        for one in dims
    ]
    return [*whole, product_at_most((first, second), INT64_MAX, parameter, status=status)]


def about(
    dims: tuple[str, ...],
    name: str,
    expected: str,
    holds: Callable[..., tuple[bool, int]],
    parameter: str,
    status: Status,
    tiling: Place | None = None,
) -> Rule:
    """A rule about the values of dims: `holds` returns whether they are right, and what to show for them."""

    def test(call: Call, _: Chip) -> Outcome:
        values = [call.dims.get(d) for d in dims]
        known = [v for v in values if v is not None]
        ok, given = holds(*known) if len(known) == len(values) else (True, UNKNOWN)
        return Outcome(ok, expected, str(given))

    return Rule(name, status, test, parameter, over=dims, tiling=tiling)


def _dtype(call: Call, name: str, allowed: Sequence[str]) -> Outcome:
    spec = call.spec(name)
    given = _shown(call, name, lambda _: spec.dtype if spec else "")
    return Outcome(spec is None or not allowed or spec.dtype in allowed, " or ".join(allowed) or UNKNOWN, given)


def _shown(call: Call, name: str, show: Callable[[tuple[int, ...]], object]) -> str:
    """What `show` makes of a shape, or that there is none."""
    spec = call.spec(name)
    return "null" if call.is_null(name) else UNKNOWN if spec is None else str(show(spec.shape))


def _list(shape: Iterable[int]) -> str:
    return str(list(shape))
