"""Calls from the input of a person: dims or tensors, options, attributes, in Python or as KEY=VALUE words.

Missing input follows from the rest: tensors have the shapes that the dims give, options and attributes their defaults.
Input is taken literally, so that every mistake reaches the rule that names it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tilesim.errors import BadInput, did_you_mean
from tilesim.operators.calls import call_with, learned, size_of, split_of
from tilesim.operators.operator import INPUT, Argument, Call, Operator
from tilesim.operators.patterns import Solution
from tilesim.operators.shapes import TensorSpec, shape_of, shape_text, whole_number, whole_numbers
from tilesim.program.dtypes import dtype_named
from tilesim.program.sizes import Size

Given = Mapping[str, Any]
"""Input by name: whole numbers of dims, TensorSpec, shape, array or None of tensors, bools of options, numbers."""

_NULL = ("none", "null", "nullptr")
_BOOLS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


def bind(op: Operator, given: Given, *, dtype: str | None = None, **options: Any) -> Call:
    """Return the call of an operator that `given` and `options` describe; they may overlap in kind but not in keys.

    Raises BadInput, with all problems at once, for unknown names, for values that are not a dim, tensor, option,
    attribute, shape or dtype, and for a size that the given shapes contradict if the call has no other shape to show
    it. Sizes that the operator refuses and unknown sizes are left to the rules.
    """
    problems: list[str] = []
    reader = _Reader(op, problems)
    for key, value in [*given.items(), *options.items()]:
        reader.read(key, value)
    main = _main_dtype(reader, dtype)
    call = None if problems else reader.call(main, main if dtype is None else dtype_named(dtype))
    if call is None or problems:
        raise BadInput(op.name, problems)
    return call


def parse(op: Operator, words: Iterable[str]) -> dict[str, Any]:
    """Return the input of command-line words KEY=VALUE, as `bind` takes it.

    A tensor is `x=2x3x128:bfloat16`, `self=2x4x6` or `wGate=none`, a dim `B=1`, an option `inject=false`, an attribute
    `eps=1e-6`. Raises BadInput with all problems at once.
    """
    problems: list[str] = []
    out: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name = _name(op, key)
        if not equals:
            problems.append(f"{word!r} is not KEY=VALUE")
        elif name is None:
            problems.append(_unknown(op, key))
        elif name in out:
            problems.append(f"{name} is given twice")
        else:
            try:
                out[name] = _value(op, name, text)
            except BadInput as error:
                problems += error.problems
    if problems:
        raise BadInput(op.name, problems)
    return out


def tensor_named(op: Operator, key: str) -> str | None:
    """Return the tensor of `key`: its name, the vendor's longer name, or its name in snake case; None for any other."""
    if key in op.arguments:
        return key
    flat = key.replace("_", "").lower()
    return next((t.name for t in op.tensors if key == t.alias or ("_" in key and flat == t.name.lower())), None)


def attribute_named(op: Operator, key: str) -> str | None:
    """Return the attribute that the vendor's interface calls `key`; None if none."""
    return next((a.name for a in op.attributes if key == a.alias), None)


def by_own_names(op: Operator, given: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return `given` with every tensor under its operator's name, whichever of its names was used; other keys stay."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        name = tensor_named(op, str(key)) or str(key)
        if name in out:
            problems.append(f"{name} is given twice")
        out[name] = value
    return out


def in_words(call: Call) -> str:
    """Return the words of a call: its dims, or the shape that gives them all, and options other than the defaults.

    >>> from tilesim.ops import load_operator
    >>> in_words(bind(load_operator("glu_backward"), {"self": (8, 64, 128)}))
    'self=8x64x128 dim=-1'
    """
    op = call.operator
    words = [f"{name}={value}" for name, value in call.dims.items()]
    lead = call.spec(op.lead)
    if lead is not None and op.patterns[op.lead].folded:  # of any rank: the shape has more facts than the folded dims
        others = [(n, spec) for n, spec in call.specs.items() if op.patterns[n].spread and spec is not None]
        tensors = [(op.lead, lead), *((n, spec) for n, spec in others if spec.shape != lead.shape)]
        words = [f"{n}={shape_text(spec.shape)}" for n, spec in tensors]
        words += [_beside(spec, call.dtype, t) for t in op.tensors if t.others and (spec := call.spec(t.name))]
        words += [f"{op.split}={call.attributes[op.split]}"] if op.split in call.attributes else []
    default = {option.name: option.default for option in op.options}
    partly = {o for o, on in call.options.items() if not on and not all(call.is_null(t.name) for t in op.members(o))}
    words += [f"{o}={str(on).lower()}" for o, on in call.options.items() if on != default[o] and o not in partly]
    words += [f"{t.name}=none" for t in op.tensors if call.is_null(t.name) and (not t.option or t.option in partly)]
    return " ".join(word for word in words if word)


def _beside(spec: TensorSpec, dtype: str, argument: Argument) -> str:
    """The word for a tensor that may have another dtype than the call, "" where its shape and dtype follow anyway."""
    kind = f":{spec.dtype}" if spec.dtype != dtype else ""
    return f"{argument.name}={shape_text(spec.shape)}{kind}" if kind or len(spec.shape) > 1 else ""


class _Reader:
    """The input of a call, sorted by kind and completed."""

    def __init__(self, op: Operator, problems: list[str]) -> None:
        self.op = op
        self.problems = problems
        self.named: set[str] = set()
        self.dims: dict[str, int] = {}
        self.tensors: dict[str, tuple[tuple[int, ...], str] | None] = {}
        self.options: dict[str, bool] = {}
        self.attributes: dict[str, int | float] = {}

    def read(self, key: str, value: Any) -> None:
        """Keep one pair, or add to the problems."""
        op, key = self.op, str(key)
        name = _name(op, key)
        if name is None:
            self.problems.append(_unknown(op, key))
            return
        if name in self.named:
            self.problems.append(f"{name} is given twice")
        self.named.add(name)
        option = name in {o.name for o in op.options}
        if option and isinstance(value := _choice(op, name, value), bool | np.bool_):
            self.options[name] = bool(value)
        elif option and (name not in op.arguments or isinstance(value, str | int | float)):
            others = ", or the shape of that tensor" if name in op.arguments else ""
            self.problems.append(f"{name} is {value!r}, must be {' or '.join(_words(op, name))}{others}")
        elif name in op.arguments:
            self._tensor(name, value)
        elif name in op.sizes:
            self._number(name, value, self.dims, whole=True)
        else:
            (a,) = (a for a in op.attributes if a.name == name)
            value = int(value) if a.flag and isinstance(value, bool | np.bool_) else value
            whole = bool(a.dim) or name == op.split or isinstance(a.default, int)
            self._number(name, value, self.attributes, whole=whole)

    def _number(self, name: str, value: Any, into: dict[str, Any], *, whole: bool) -> None:
        number: int | float | None = whole_number(value)
        if number is None and not whole and isinstance(value, float) and math.isfinite(value):
            number = value
        if number is None:
            self.problems.append(f"{name} is {value!r}, must be a {'whole ' if whole else ''}number")
        else:
            into[name] = number

    def _tensor(self, name: str, value: Any) -> None:
        if value is None:
            self.tensors[name] = None
            return
        unwanted = self.op.arguments[name].unwanted
        shape, dtype = getattr(value, "shape", value), getattr(value, "dtype", "")
        if isinstance(shape, str | bytes) or not hasattr(shape, "__iter__"):
            option = self.op.arguments[name].option
            hint = f"; {option} is the option that may be true or false" if option else ""
            self.problems.append(f"{name} is {value!r}, must be a shape such as (2, 4), a TensorSpec or None{hint}")
            return
        problems: list[str] = []
        sizes = whole_numbers(shape, problems)
        try:
            kind = dtype_named(dtype) if dtype else ""
        except BadInput as error:
            problems += error.problems
            kind = ""
        self.problems += [f"{name}: {problem}" for problem in problems]
        self.tensors[name] = None if sizes == unwanted else (sizes, kind)

    def call(self, main: str, fill: str) -> Call:
        """Return the call, completed as far as sizes are known, tensors without a dtype in `fill`.

        A size such as D that stands for a product is taken literally like all others: where C and H contradict it, the
        tensors that have it take D. A contradicted size that no tensor shows is added to the problems.
        """
        op = self.op
        attributes = {a.name: a.default for a in op.attributes if a.default is not None} | self.attributes
        known = {
            name: None if value is None else TensorSpec(value[0], value[1] or op.arguments[name].dtype or fill)
            for name, value in self.tensors.items()
        }
        solution = self._solution(attributes, known)
        literal = {op.sizes[name]: self.dims[name] for name in op.derived if name in self.dims}
        for a in op.attributes:
            if a.dim in solution.sizes:
                attributes.setdefault(a.name, solution.sizes[a.dim])
        specs: dict[str, TensorSpec | None] = {}
        for argument in (*(t for t in op.tensors if t.role == INPUT), *(t for t in op.tensors if t.role != INPUT)):
            name = argument.name
            if name in known:
                specs[name] = known[name]
            elif argument.option and not self._chosen(argument):
                specs[name] = None
            elif (shape := op.patterns[name].filled(solution, literal)) is not None:
                specs[name] = TensorSpec(shape, argument.dtype or fill)
        call = call_with(op, main, specs, self.options, attributes)
        call.solution.complete(solution)
        self._add_unseen([name for name, spec in specs.items() if spec is not None and name not in known], call)
        return call

    def _solution(self, attributes: dict[str, int | float], known: Mapping[str, TensorSpec | None]) -> Solution:
        """Return the sizes that dims, attributes and tensors give, dims first."""
        op = self.op
        folds = [n for n in op.dimensions if any(n in p.folded for p in op.patterns.values())]
        given = Solution(split=split_of(op, attributes), stated=set(self.dims))
        of_tensors = learned(op, known, Solution(split=given.split))
        for name, value in self.dims.items():
            if name in op.dimensions:
                given.bind(name, value)
            if name in folds and of_tensors.sizes.get(name) != value:
                given.folds[name] = (value,)
        for a in op.attributes:
            if a.dim and a.name in attributes:
                given.bind(a.dim, int(attributes[a.name]))
        if not any(known.values()):
            for name in folds:
                given.bind(name, math.prod(given.folds.setdefault(name, ())))
            if op.split and op.split not in self.attributes and folds:
                attributes[op.split] = -1 - len(given.folds[folds[-1]])
        learned(op, known, given)
        for name in op.derived:
            if name in self.dims:
                given.solve(Size.of(op.sizes[name]), self.dims[name])
        for d in op.dims:
            if d.default is not None:
                given.bind(d.name, d.default)
        return given

    def _add_unseen(self, filled: Iterable[str], call: Call) -> None:
        """Add to the problems every size that the call contradicts, unless one of the `filled` tensors shows it.

        A filled tensor that shows it breaks the rule about its shape; without one, no rule would notice.
        """
        patterns = [self.op.patterns[name] for name in filled]
        for name, value in self.dims.items():
            size, actual = self.op.sizes[name], size_of(call, name)
            visible = any(size in p.axes or (name in self.op.dimensions and name in p.names()) for p in patterns)
            if actual is not None and actual != value and not visible:
                self.problems.append(f"{name} is {value}, but the given shapes make it {actual}")

    def _chosen(self, argument: Argument) -> bool:
        """Return True if a tensor without input is given: an output as its group's inputs, an input as the option."""
        default = next(o.default for o in self.op.options if o.name == argument.option)
        chosen = self.options.get(argument.option, default)
        inputs = [t.name for t in self.op.members(argument.option) if t.role == INPUT]
        if argument.role == INPUT or argument.option in self.options or not self.tensors.keys() & inputs:
            return chosen
        return any(self.tensors[name] is not None if name in self.tensors else chosen for name in inputs)


def _main_dtype(reader: _Reader, dtype: str | None) -> str:
    """Return the dtype of the call: the lead's; without dims another tensor's; else `dtype` or the default."""
    op, tensors = reader.op, reader.tensors
    default = op.dtype
    try:
        default = op.dtype if dtype is None else dtype_named(dtype)
    except BadInput as error:
        reader.problems += error.problems
    names = [op.lead] if reader.dims else op.reading_order()
    stated = (value[1] for name in names if (value := tensors.get(name)) and not op.arguments[name].dtype)
    return next((kind for kind in stated if kind), default)


def _name(op: Operator, key: str) -> str | None:
    """Return the operator's name for `key`: itself, or that of another name of it; None for an unknown key."""
    names = {*op.arguments, *op.sizes, *(o.name for o in op.options), *(a.name for a in op.attributes)}
    return key if key in names else tensor_named(op, key) or attribute_named(op, key)


def _unknown(op: Operator, key: str) -> str:
    others = (*(o.name for o in op.options), *(a.name for a in op.attributes))
    keys = list(dict.fromkeys([*op.sizes, *others, *op.arguments]))
    return f"{key!r} is not a key;{did_you_mean(key, keys) or ' there are: ' + ', '.join(keys)}"


def _value(op: Operator, name: str, text: str) -> Any:
    """Return the value of the text after the equals sign. Raises BadInput."""
    word = text.strip()
    lower = word.lower()
    option = name in {o.name for o in op.options}
    if option and isinstance(choice := _choice(op, name, lower), bool):
        return choice
    if lower in _BOOLS and (option or name in {a.name for a in op.attributes if a.flag}):
        return _BOOLS[lower]
    if name in op.arguments:
        return None if lower in _NULL else _spec(name, word, "true, false, " if option else "")
    if option:
        raise BadInput(name, [f"{name}={text} is not {' or '.join(_words(op, name))}"])
    try:
        return int(word)
    except ValueError:
        pass
    try:
        if name not in op.sizes:
            return float(word)
    except ValueError:
        pass
    raise BadInput(name, [f"{name}={text} is not a {'whole ' if name in op.sizes else ''}number"])


def _words(op: Operator, option: str) -> tuple[str, ...]:
    """Return the two words of an option."""
    return next(o.words for o in op.options if o.name == option) or ("true", "false")


def _choice(op: Operator, name: str, value: Any) -> Any:
    """Return True or False for a word of the option or its number, any other value unchanged."""
    words = next((o.words for o in op.options if o.name == name), ())
    word = str(value) if isinstance(value, str | int) else ""
    return words.index(word) == 1 if word in words else value


def _spec(name: str, word: str, others: str) -> Any:
    """Return the shape that a word writes, with its dtype if it has one. Raises BadInput."""
    sizes, _, dtype = word.partition(":")
    try:
        shape = shape_of(sizes)
    except ValueError:
        problem = f"{name}={word} is not {others}none or a shape such as 2x4x6 or 2x4x6:bfloat16"
        raise BadInput(name, [problem]) from None
    return TensorSpec(shape, dtype) if dtype else shape
