"""Seeded faults: the first test that finds each mistake in the arithmetic, in this tree or in another one.

`python -m bench.faults COLUMN [TREE]` seeds every fault of FAULTS into a copy of TREE (by default this checkout) and
runs its tests: first those nearest to the fault, then, for a fault that they miss, all others; the first failure
counts if that test passes without the fault. Results go to COLUMN of bench/faults.csv and to the table in
bench/faults.md. With numbers after TREE only those faults are seeded.

A place is a function and a text in it, without a path: the function is searched in all modules, so that one list
serves trees with other names of modules. Where a function or its text differs between trees, a fault lists both.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "faults.csv"
TABLE = ROOT / "bench" / "faults.md"
PARTS = ("tilesim", "tests", "chips", "docs", "reports", "bench", "README.md", "pyproject.toml")
"""Parts of a checkout that tests read."""
NEAR_SECONDS, ALL_SECONDS = 1200, 3600
MISSED, SURVIVES = "missed by the nearest tests", "survives"
"""In place of a test: for a fault that goes to all other tests yet, and for one that they miss, too."""


class Place(NamedTuple):
    """A function, with its class, a text in it, and the faulty replacement of the text."""

    function: str
    text: str
    replacement: str


@dataclass(frozen=True)
class Fault:
    """A mistake in the code, at the first of `places` that a tree has."""

    area: str
    about: str
    places: tuple[Place, ...]


def _fault(area: str, about: str, *places: tuple[str, str, str]) -> Fault:
    return Fault(area, about, tuple(Place(*place) for place in places))


FAULTS = (
    _fault(
        "program",
        "an alignment is dropped",
        ("align", "ceil_div(x, n) * n", "x"),
    ),
    _fault(
        "program",
        "the bytes of a buffer are those of one slot",
        ("Buffer.bytes", "self.slot_bytes * self.slots", "self.slot_bytes"),
        ("Buffer.bytes", "self.slot_bytes * self.slot_count", "self.slot_bytes"),
    ),
    _fault(
        "program",
        "a slice has its end for its size",
        ("View.__getitem__", "starts[axis] + low, high - low", "starts[axis] + low, high"),
    ),
    _fault(
        "program",
        "a tile with its halo starts where the tile does",
        ("Range.with_halo", "Range(self.start - self.before,", "Range(self.start,"),
    ),
    _fault(
        "program",
        "a value that was overwritten can be read",
        ("Phase._source", "value.write != len(writes)", "value.write > len(writes)"),
    ),
    _fault(
        "program",
        "operands of one rank count as of one shape",
        (
            "check_operands",
            "(expected or (ONE,)) != (dst.shape or (ONE,))",
            "len(expected or (ONE,)) != len(dst.shape or (ONE,))",
        ),
        (
            "Signature.yields",
            "not _matches(self.result, out or (ONE,), sizes)",
            "len(out or (ONE,)) != len(_filled(self.result, sizes))",
        ),
    ),
    _fault(
        "program",
        "a first write of a part takes no new slot",
        ("Phase._record", "(dst.whole or first_here)", "dst.whole"),
        ("Phase._write", "(dst.whole or first_here)", "dst.whole"),
    ),
    _fault(
        "program",
        "a workspace can be read in the phase that writes it",
        (
            "Kernel.check_read",
            "self._written_in.get(tensor.name, phase.name) == phase.name",
            "tensor.name not in self._written_in",
        ),
    ),
    _fault(
        "loop nest",
        "one more core gets the larger share",
        ("share", "(part < more)", "(part <= more)"),
    ),
    _fault(
        "loop nest",
        "equal tiles are one too few",
        ("segments", "trips = -(-count // tile)", "trips = max(count // tile, 1)"),
    ),
    _fault(
        "loop nest",
        "a halo goes beyond the axis",
        ("_with_halo", "min(loop.halo, extent - start - s.size)", "loop.halo"),
    ),
    _fault(
        "loop nest",
        "the tail of dealt tiles falls to the next core",
        ("runs", "missing = each - 1 - part", "missing = each - part"),
        ("_dealt", "missing = each - 1 - part", "missing = each - part"),
    ),
    _fault(
        "loop nest",
        "a grid of cores is taken by columns",
        ("Cut.part", "(core // self.below) % self.parts", "core % self.parts"),
    ),
    _fault(
        "schedule",
        "a fresh write waits for the newest slot",
        ("step", "state[target.done[-1]]", "state[target.done[0]]"),
    ),
    _fault(
        "schedule",
        "slots are freed in any order",
        (
            "step",
            "state[newer] if newer != done[0] else later(state[newer], state[older])",
            "state[newer]",
        ),
    ),
    _fault(
        "schedule",
        "a buffer has a slot less",
        ("Scheduler.__init__", "self.length += 1 + buffer.slots", "self.length += 1 + max(buffer.slots - 1, 1)"),
    ),
    _fault(
        "schedule",
        "matrices of nested loops are multiplied in the wrong order",
        (
            "Scheduler._rows",
            "product(self._power_of_two(item.body, bit), matrix)",
            "product(matrix, self._power_of_two(item.body, bit))",
        ),
    ),
    _fault(
        "schedule",
        "other pipes may take longer than all instructions one after another",
        ("PhasePlan.shares", "min(sum(busy.values()), shared)", "shared"),
    ),
    _fault(
        "cost",
        "a part of a row is not padded to a block",
        ("vector_bytes", "-(-row // BLOCK_BYTES) * BLOCK_BYTES", "row"),
    ),
    _fault(
        "cost",
        "a copy of one burst pays for its burst",
        ("Costs._copy", "runs.count if runs.count > 1 else 0", "runs.count"),
        ("CopyPrice.cycles", "runs.count if runs.count > 1 else 0", "runs.count"),
    ),
    _fault(
        "cost",
        "bursts are contiguous on one side only",
        ("bursts", "min(_contiguous(v, step.sizes) for v in views)", "max(_contiguous(v, step.sizes) for v in views)"),
    ),
    _fault(
        "cost",
        "bank groups collide on one side only",
        ("collide", "apart < blocks or ub.bank_groups - apart < blocks", "apart < blocks"),
        ("collide", "apart < blocks or bank_groups - apart < blocks", "apart < blocks"),
    ),
    _fault(
        "bandwidth",
        "what the cache holds already is no hit",
        ("Traffic.hits", "self.moved - self.distinct + self.cached", "self.moved - self.distinct"),
        ("Stream.hit_bytes", "- self.distinct_bytes + self.cached_bytes", "- self.distinct_bytes"),
    ),
    _fault(
        "bandwidth",
        "a part that is read again is counted once too few",
        ("crossings", "times *= 1 + again *", "times *= again *"),
        ("dram_fetches", "times *= 1 + repeats *", "times *= repeats *"),
    ),
    _fault(
        "feasibility",
        "what the operator keeps back is forgotten",
        ("budget", "whole - kept", "whole"),
        ("budget", "counted - sum(r.bytes_of(counted) for r in reserves_of(kernel, memory))", "counted"),
    ),
    _fault(
        "feasibility",
        "a kernel that counts from the stated size counts from the visible one",
        (
            "budget",
            'table.size_bytes if kernel.counted_from == "size" else table.visible_bytes',
            "table.visible_bytes",
        ),
        (
            "counted_bytes",
            "table.size_bytes if memory in kernel.whole_memories else table.visible_bytes",
            "table.visible_bytes",
        ),
    ),
    _fault(
        "feasibility",
        "a full memory does not fit",
        ("Inequality.holds", ">= 0", "> 0"),
    ),
    _fault(
        "feasibility",
        "the largest tile is looked for below a cap that is rounded down",
        ("Inequality.largest", "-(-cap // multiple_of)", "cap // multiple_of"),
    ),
    _fault(
        "feasibility",
        "of two limits of a tile the larger counts",
        ("tile_limits", "min(before, value)", "max(before, value)"),
        ("tile_limits", "top >= known.largest", "top <= known.largest"),
    ),
    _fault(
        "feasibility",
        "the unified buffer of a remedy is the last that is too small",
        ("_unified_buffer", "last + UB_STEP_BYTES", "last"),
        ("_larger_memory", "last + BLOCK_BYTES", "last"),
    ),
    _fault(
        "planning",
        "a tile is capped below a multiple",
        ("vector_plan", "-(-cap // tile.multiple_of) * tile.multiple_of", "cap // tile.multiple_of * tile.multiple_of"),
    ),
    _fault(
        "planning",
        "a core's share is rounded down",
        ("_longest_share", "-(-_units(loop, sizes) // available)", "(_units(loop, sizes) // available)"),
        ("_longest_share", "-(-_units(loop, sizes) // parts)", "(_units(loop, sizes) // parts)"),
    ),
    _fault(
        "planning",
        "cores without work take part",
        ("_parts", "return -(-units // each) if units else 1", "return available"),
    ),
    _fault(
        "planning",
        "the search of tiles stops at the first",
        ("cube_plan", "_bound(other) >= best.cycles", "_bound(other) >= _bound(best)"),
        (
            "cube_plan",
            "other.longest_pipe_cycles >= best.cycles",
            "other.longest_pipe_cycles >= best.longest_pipe_cycles",
        ),
    ),
    _fault(
        "planning",
        "slots of a buffer lie on those of the next",
        ("_put", "offset + size * buffer.slots", "offset + size"),
    ),
    _fault(
        "interpreter",
        "slots do not rotate",
        ("Slots.next", "self.turn + 1", "self.turn"),
    ),
    _fault(
        "interpreter",
        "on-chip memory starts as zeros",
        ("Worker.run", "arena.fill(0xFF)", "arena.fill(0)"),
    ),
    _fault(
        "interpreter",
        "operands of a product are not padded",
        ("_index", "-(-size // FRACTAL) * FRACTAL if rounded_up else size", "size"),
    ),
    _fault(
        "interpreter",
        "the constant of a position is dropped",
        ("_affine", "env[name] * factor + constant", "env[name] * factor"),
    ),
    _fault(
        "interpreter",
        "an access may end behind its axis",
        ("inside", "0 <= start <= size - count if", "0 <= start < size if"),
    ),
)

NEAR: Mapping[str, Sequence[str]] = {
    "program": (
        "test_dtypes", "test_access", "test_bounds", "test_sizes", "test_isa", "test_author", "test_memory",
        "test_stage_graph", "test_graph", "test_copies", "test_timeline", "test_docs", "test_check", "test_users_cases",
        "test_broadcast", "test_operands", "test_vendor_tiling", "test_operator", "test_invariants",
    ),
    "loop nest": (
        "test_schedule", "test_access", "test_bounds", "test_counts", "test_timeline", "test_copies", "test_broadcast",
        "test_operands", "test_vendor_tiling", "test_invariants",
    ),
    "schedule": ("test_schedule", "test_cost", "test_timeline", "test_trace", "test_validate", "test_invariants"),
    "cost": ("test_cost", "test_copies", "test_bypass", "test_timeline", "test_schedule", "test_validate"),
    "bandwidth": (
        "test_cache_reuse", "test_reuse", "test_bypass", "test_copies", "test_cost", "test_timeline", "test_validate",
    ),
    "feasibility": (
        "test_limits", "test_check", "test_users_cases", "test_buffer_file", "test_buffers", "test_golden_status",
        "test_manual_tiles", "test_hand_tiles", "test_vendor_tiling", "test_sizes_refused", "test_invariants",
    ),
    "planning": (
        "test_vendor_tiling", "test_manual_tiles", "test_hand_tiles", "test_cube_tiling", "test_search",
        "test_timeline", "test_invariants",
    ),
    "interpreter": (
        "test_memory", "test_access", "test_bounds", "test_broadcast", "test_operands", "test_golden_gradients",
        "test_run", "test_invariants",
    ),
}  # fmt: skip
"""Area of a fault -> files of its nearest tests in any tree, the fastest first."""


class Checkout:
    """Two copies of a tree: faults are seeded into one, the other stays sound."""

    def __init__(self, tree: Path, python: Path, place: Path) -> None:
        self.python = python
        self.sound, self.faulty = place / "sound", place / "faulty"
        for copy in (self.sound, self.faulty):
            copy.mkdir()
            for part in PARTS:
                source = tree / part
                if source.is_dir():
                    shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
                elif source.exists():
                    shutil.copy(source, copy / part)
        self._passes: dict[str, bool] = {}

    def near(self, fault: Fault) -> list[str]:
        """Return the nearest tests of a fault: the examples of its module, then the test files of its area."""
        paths = {path.stem: str(path.relative_to(self.sound)) for path in (self.sound / "tests").rglob("test_*.py")}
        return [str(seeded(fault, self.sound)[0]), *(paths[name] for name in NEAR[fault.area] if name in paths)]

    def others(self, fault: Fault) -> list[str]:
        """Return all other test files, and the other files with examples."""
        near = self.near(fault)
        paths = sorted(str(path.relative_to(self.sound)) for path in (self.sound / "tests").rglob("test_*.py"))
        return [*(path for path in paths if path not in near), "README.md", "tilesim"]

    def failing(self, fault: Fault, paths: Sequence[str], seconds: int) -> str:
        """Return the first of some tests that fails because of a fault, "" for none."""
        module, text = seeded(fault, self.sound)
        (self.faulty / module).write_text(text, encoding="utf-8")
        try:
            return self._first(paths, seconds)
        finally:
            shutil.copy(self.sound / module, self.faulty / module)

    def _first(self, paths: Sequence[str], seconds: int) -> str:
        """Return the first test that fails with the fault and passes without it, "" for none."""
        deselected: list[str] = []
        while failed := self._run(self.faulty, [*paths, *(f"--deselect={test}" for test in deselected)], seconds):
            if failed not in self._passes:
                self._passes[failed] = self._run(self.sound, [failed], seconds) == ""
            if self._passes[failed]:
                return failed
            deselected.append(failed)
        return ""

    def _run(self, checkout: Path, arguments: Sequence[str], seconds: int) -> str:
        """Return the first of some tests that fails in a checkout, "" if all pass."""
        command = [str(self.python), "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
        try:
            process = subprocess.run(
                command,
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return f"more than {seconds} s"
        lines = [line.split(" - ")[0] for line in process.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if process.returncode not in (0, 5) and not lines:
            raise RuntimeError(f"pytest ended with {process.returncode}: {process.stdout}{process.stderr}")
        return lines[0].partition(" ")[2] if lines else ""


def seeded(fault: Fault, tree: Path) -> tuple[Path, str]:
    """Return the module of a fault, by its path in a tree, and its text with the fault. Raises LookupError."""
    for function, text, replacement in fault.places:
        for path in sorted((tree / "tilesim").rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            for segment in _functions(source, function) if text in source else ():
                if segment.count(text) == 1 and source.count(segment) == 1:
                    return path.relative_to(tree), source.replace(segment, segment.replace(text, replacement))
    raise LookupError(f"no place for the fault '{fault.about}'")


def _functions(source: str, name: str) -> Iterator[str]:
    """Yield the texts of the functions of a qualified name in a module."""

    def visit(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef) and f"{prefix}{node.name}" == name:
                yield ast.get_source_segment(source, node) or ""

    return visit(ast.parse(source).body, "")


def read_results() -> dict[str, dict[str, str]]:
    """Return fault -> column -> the test that finds it."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {row.pop("fault"): row for row in csv.DictReader(file)}


def write_results(results: Mapping[str, Mapping[str, str]]) -> None:
    """Write bench/faults.csv and the table in bench/faults.md."""
    columns = list(dict.fromkeys(column for row in results.values() for column in row))
    rows = [(fault, results.get(fault.about, {})) for fault in FAULTS]
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["fault", *columns])
        writer.writerows([fault.about, *(row.get(column, "") for column in columns)] for fault, row in rows)
    lines = [
        "# Seeded faults",
        "",
        "The first test that fails for each of these mistakes, by `python -m bench.faults`.",
        "",
    ]
    for column in columns:
        tests = [row.get(column, "") for _, row in rows]
        found = sum(test not in ("", MISSED, SURVIVES) for test in tests)
        open_faults = tests.count(MISSED)
        rest = f"; {open_faults} that the nearest tests miss were not run against all others" if open_faults else ""
        lines.append(f"- {column}: {found} of {len(rows)} are found{rest}")
    lines += ["", f"| | area | fault | {' | '.join(columns)} |", f"|{'---|' * (3 + len(columns))}"]
    for number, (fault, row) in enumerate(rows, 1):
        cells = [f"`{row[c]}`" if "::" in row.get(c, "") else row.get(c, "") for c in columns]
        lines.append(f"| {number} | {fault.area} | {fault.about} | {' | '.join(cells)} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(fault: Fault, column: str, test: str) -> None:
    """Add the test that finds a fault to the results."""
    results = read_results()
    results.setdefault(fault.about, {})[column] = test
    write_results(results)
    print(f"{fault.about}: {test}", flush=True)


def main() -> None:
    """Seed the faults that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("column", help="column of the results, such as 'before' or 'after'")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="the checkout; by default this one")
    parser.add_argument("numbers", nargs="*", type=int, help="the faults, from 1; by default all")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="Python with the tree's dependencies")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        checkout = Checkout(arguments.tree.resolve(), arguments.python.absolute(), Path(directory))
        missed = []
        for number in arguments.numbers or range(1, len(FAULTS) + 1):
            fault = FAULTS[number - 1]
            test = checkout.failing(fault, checkout.near(fault), NEAR_SECONDS)
            if not test:
                missed.append(fault)
            record(fault, arguments.column, test or MISSED)
        for fault in missed:
            record(fault, arguments.column, checkout.failing(fault, checkout.others(fault), ALL_SECONDS) or SURVIVES)


if __name__ == "__main__":
    main()
