"""Seeded faults: each has its place in this tree, and the table of bench/faults.md has a test for each."""

import pytest

from bench.faults import FAULTS, MISSED, ROOT, SURVIVES, read_results, seeded


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.about)
def test_a_fault_has_its_place(fault):
    module, text = seeded(fault, ROOT)
    compile(text, module, "exec")
    assert text != (ROOT / module).read_text(encoding="utf-8")


def test_no_fault_survives():
    results = read_results()
    assert {results[fault.about]["after"] for fault in FAULTS}.isdisjoint({"", MISSED, SURVIVES})
