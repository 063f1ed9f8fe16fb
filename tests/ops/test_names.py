"""No module outside ops/ names a shipped operator or its kernel, and none asks for the family of a chip."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import tilesim
from tilesim.chip.tables import Family
from tilesim.ops import load_operator, operators_shipped
from tilesim.program.isa import ISA

PACKAGE = Path(tilesim.__file__).parent
MODULES = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
OF_INSTRUCTIONS = ("chip", "program", "kernels", "timing", "planning", "render")
"""Wings that name instructions and copies, some of which are called like operators."""


def plain(name: str) -> str:
    return name.replace("_", "").lower()


@functools.cache
def names_of_operators() -> set[str]:
    return {plain(name) for op in map(load_operator, operators_shipped()) for name in (op.name, *op.kernel_names)}


def constants(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that are neither docstrings nor the names in `__all__`."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            skipped |= {id(name) for name in ast.walk(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def named(source: str, wing: str) -> set[str]:
    """The operators that a module of a wing names."""
    allowed = ISA.keys() if wing in OF_INSTRUCTIONS else set()
    return {
        text for text in constants(ast.parse(source)) if plain(text) in names_of_operators() and text not in allowed
    }


def families_compared(source: str) -> set[str]:
    """The families of chips that a module compares something with."""
    compared = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare))
    return {text for node in compared for text in constants(node) if text in get_args(Family)}


def test_no_module_outside_ops_names_an_operator():
    outside = {path: source for path, source in MODULES.items() if path.parts[0] != "ops"}
    assert len(outside) > 100
    found = {str(path): named(source, path.parts[0]) for path, source in outside.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_modules_ask_for_features_of_a_chip_not_for_its_family():
    found = {str(path): families_compared(source) for path, source in MODULES.items()}
    assert {path: families for path, families in found.items() if families} == {}


def test_a_kernel_belongs_to_one_operator():
    operators = [load_operator(name) for name in operators_shipped()]
    for name in (name for op in operators for name in op.kernel_names):
        assert len([op for op in operators if op.runs_as(name)]) == 1, name


def test_names_and_families_are_found_where_they_are():
    assert named('"""softmax"""\nif kernel in ("SoftmaxV2", "exp"): pass', "measured") == {"SoftmaxV2", "exp"}
    assert named('op = "exp"', "timing") == set()
    assert named('__all__ = ["sigmoid"]\nFORM = "gelu"', "kernels") == {"gelu"}
    assert named('TABLE = {"rms_norm": 1}', "timing") == {"rms_norm"}
    assert families_compared('x = chip.family in ("a2", "a3") or k.family == "950"') == {"a2", "a3", "950"}
    assert families_compared('DTYPES = {"950": FLOATS}') == set()
