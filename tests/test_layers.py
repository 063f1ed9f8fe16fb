"""The package is layered: an import goes to a lower layer, or to its left in the same one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilesim

PACKAGE = Path(tilesim.__file__).parent
LAYERS = (
    "errors",
    "files arguments plural shown layout status sizes dtypes tolerance closed_form axes shapes chip_tables chip_text",
    "chip_problems platform_ini chip isa kernel_names",
    "views tree verify program functions nest matmul elementwise operator rules calls pointwise rowwise operands",
    "ops fits unknown_sizes judge flow bounds execute banks traffic reuse fusion queues cost",
    "schedule remedies checker",
    "phase_plan core_split vector_tiling cube_tiling hand_tiles events graph plan counts launch",
    "timeline composite run tensor_files arrays agreement accuracy table grid samples cases error_bands"
    " sweep whatif solving search"
    " durations measured prediction surrogate fitting validate"
    " profiler_csv compare aclnn formula buffer_file buffer_needs buffer_limits buffers",
    "graph_svg graph_files listed_phase listing memory_map lanes roofline report_facts report_drawings report"
    " html_tables html plot_style plot_budget plot_time plot_tables plot validation_plot trace",
    "cli __init__ __main__",
)
"""Module names from the lowest layer up. A new module takes a place here, or the first test says that it has none."""

ORDER = {name: (layer, place) for layer, names in enumerate(LAYERS, 1) for place, name in enumerate(names.split())}
HEAVY = {"matplotlib", "networkx", "scipy", "jinja2", "safetensors", "rich", "typer"}
"""Libraries that take long to import, so that a module may import them where it needs them."""
LATE_FROM = 8
"""From this layer on a function may import anything it needs."""
MOST_LINES = 400

MODULES = sorted(PACKAGE.rglob("*.py"))
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


def name_of(path: Path) -> str:
    """The place in LAYERS that the module at `path` has; what is in a folder has the place of the folder."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.AST, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """The modules that are imported, dotted, and whether that is inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # `from tilesim import plan` imports the module plan if there is one, else a name of the package.
            yield from (
                (f"tilesim.{alias.name}" if module == "tilesim" and alias.name in ORDER else module, inside)
                for alias in node.names
            )
        yield from imports(node, inside=inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@every_module
def test_every_module_has_a_layer(path):
    assert name_of(path) in ORDER, f"{path.name} has no place in LAYERS"


@every_module
def test_imports_go_down(path):
    layer = ORDER[name_of(path)]
    for module, _ in imports(ast.parse(path.read_text(encoding="utf-8"))):
        first, _, rest = module.partition(".")
        if first != "tilesim":
            continue
        target = rest.partition(".")[0] or "__init__"
        beside = target == name_of(path) and (PACKAGE / target).is_dir()
        assert beside or ORDER[target] < layer, f"{path.name} imports {module}, which is not below it"


@every_module
def test_functions_import_only_what_is_slow_to_import(path):
    if ORDER[name_of(path)][0] >= LATE_FROM:
        return
    late = {module for module, inside in imports(ast.parse(path.read_text(encoding="utf-8"))) if inside}
    assert {module.partition(".")[0] for module in late} <= HEAVY, f"{path.name} imports {late} inside a function"


@every_module
def test_no_module_is_too_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@every_module
def test_no_module_is_a_drawer(path):
    assert not {"utils", "helpers", "common", "manager"} & set(path.stem.split("_"))


@every_module
def test_the_library_never_prints_or_exits(path):
    if ORDER[name_of(path)][0] == len(LAYERS):
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    assert not names & {"print", "exit", "quit"}, f"{path.name} prints or exits"
