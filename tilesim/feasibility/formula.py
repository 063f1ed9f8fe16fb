"""Formulas for sizes in a file, such as "2*H" or "ceil(N/BLOCK)": exact, over whole numbers, and nothing else."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tilesim.errors import BadInput, did_you_mean

Number = int | Fraction

MOST_CHARACTERS: Final = 500
"""No formula is longer."""


def _aligned(x: Number, n: Number) -> Number:
    return math.ceil(Fraction(x) / n) * n


def _pow2(x: Number) -> Number:
    return 1 << max(math.ceil(x) - 1, 0).bit_length()


def _pow2_floor(x: Number) -> Number:
    whole = math.floor(x)
    return 1 << (whole.bit_length() - 1) if whole > 0 else 0


FUNCTIONS: Final[Mapping[str, tuple[int | None, Callable[..., Number]]]] = {
    "ceil": (1, math.ceil),
    "floor": (1, math.floor),
    "max": (None, lambda *numbers: max(numbers)),
    "min": (None, lambda *numbers: min(numbers)),
    "align": (2, _aligned),
    "pow2": (1, _pow2),
    "pow2_floor": (1, _pow2_floor),
}
"""What a formula may call: how many arguments it takes (None: at least one), and what it does.

`pow2` is the next power of two, `pow2_floor` the one before, `align(x, n)` the next multiple of n.
"""

OPERATORS: Final[Mapping[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: Fraction(a) / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
"""What stands between two numbers; a quotient that is left over must be whole in the end."""


@dataclass(frozen=True)
class Formula:
    """A whole number made from named sizes.

    >>> formula("ceil(N/BLOCK) * B").value({"N": 1000, "BLOCK": 64, "B": 2})
    32
    """

    text: str
    names: frozenset[str]

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value with the sizes; raises BadInput if that is no whole number."""
        try:
            found = _evaluated(_tree(self.text), sizes)
        except ZeroDivisionError:
            raise BadInput(self.text, ["divides by 0"]) from None
        if found != int(found):
            raise BadInput(self.text, [f"is {float(found):g}, not a whole number; round with ceil() or floor()"])
        return int(found)


@functools.lru_cache(maxsize=1024)
def formula(text: str) -> Formula:
    """The formula that `text` writes. Raises BadInput for what is none."""
    names: set[str] = set()
    _check(_tree(text), names)
    return Formula(text, frozenset(names))


@functools.lru_cache(maxsize=1024)
def _tree(text: str) -> ast.expr:
    if len(text) > MOST_CHARACTERS:
        raise BadInput("formula", [f"has {len(text)} characters, at most {MOST_CHARACTERS}"])
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput("formula", [f"{text!r} is not a formula"]) from None


def _check(node: ast.expr, names: set[str]) -> None:
    """Collect the names of a formula; raise BadInput for what does not belong in one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return
    if isinstance(node, ast.Name):
        names.add(node.id)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _check(node.left, names)
        _check(node.right, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, names)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node.func.id, len(node.args))
        for argument in node.args:
            _check(argument, names)
    else:
        shown = ast.unparse(node)
        raise BadInput("formula", [f"{shown!r} is not possible; there are + - * / // %, {', '.join(FUNCTIONS)}"])


def _check_call(name: str, count: int) -> None:
    if name not in FUNCTIONS:
        hint = did_you_mean(name, FUNCTIONS) or f" there are: {', '.join(FUNCTIONS)}"
        raise BadInput("formula", [f"{name!r} is not a function;{hint}"])
    takes, _ = FUNCTIONS[name]
    if count != takes and (takes is not None or not count):
        raise BadInput("formula", [f"{name} has {count} arguments, takes {takes or 'at least 1'}"])


def _evaluated(node: ast.expr, sizes: Mapping[str, int]) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_evaluated(node.left, sizes), _evaluated(node.right, sizes))
    if isinstance(node, ast.UnaryOp):
        return -_evaluated(node.operand, sizes)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return FUNCTIONS[node.func.id][1](*(_evaluated(argument, sizes) for argument in node.args))
    raise AssertionError(ast.dump(node))
