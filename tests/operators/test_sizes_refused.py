"""Sizes that are no counts, and calls without elements: every operator refuses the first and takes the second."""

from dataclasses import replace

import pytest

from tilesim.analysis.search import search
from tilesim.chip.loading import load_chip
from tilesim.feasibility.verdict import check, check_buffers, verdict_of
from tilesim.operators.binding import bind
from tilesim.operators.status import PARAM_INVALID
from tilesim.ops import load_operator, operators_shipped
from tilesim.planning.plan import plan
from tilesim.simulation.timeline import simulate

PR = load_chip("ascend950pr")
DIMS = {
    "text_gated_residual_grad": {"B": 2, "S": 3, "C": 4, "H": 32, "R": 16},
    "text_gated_residual": {"B": 2, "S": 3, "C": 4, "H": 32, "R": 16},
    "masked_causal_conv1d_backward": {"S": 8, "B": 2, "H": 384},
    "masked_causal_conv1d": {"S": 8, "B": 2, "H": 384},
    "matmul": {"M": 4, "K": 4, "N": 4},
}


def shape_with(op, size):
    """A call with one size replaced: a dim, or the first axis of the leading tensor."""
    if op.name in DIMS:
        return DIMS[op.name] | {next(iter(DIMS[op.name])): size}
    return {op.lead: (size, 4)}


@pytest.mark.parametrize("size", [-1, -3, 2**63, 10**26])
@pytest.mark.parametrize("name", operators_shipped())
def test_a_size_that_is_no_count_is_refused(name, size):
    verdict = check(name, shape_with(load_operator(name), size), chip=PR)
    assert verdict.verdict == "refused"
    assert verdict.status.code in (161002, 561002)


def test_an_operator_without_rules_of_its_own_refuses_them_too():
    own = replace(load_operator("exp"), name="mine", rules=())
    for shape in ((-1, 3), (10**26, 4), (-1, -1), (2**40, 2**40)):
        verdict = verdict_of(bind(own, {"x": shape}), PR)
        assert (verdict.verdict, verdict.status, verdict.parameter) == ("refused", PARAM_INVALID, "x")
        assert any(rule.name == "x sizes" for rule in verdict.broken)


def test_the_elements_of_a_tensor_are_counted_in_64_bits():
    assert "of 18446744073709551616 elements" in check("exp", {"x": (2**32, 2**32)}, chip=PR).culprit
    assert check("exp", {"x": (2**32, 0, 2**32)}, chip=PR).ok


def test_a_matrix_product_sums_over_at_least_one_element():
    verdict = check("matmul", {"M": 4, "K": 0, "N": 4}, chip=PR)
    assert (verdict.status, verdict.culprit) == (PARAM_INVALID, "K range: expected at least 1, given 0")


@pytest.mark.parametrize(
    ("op", "given"),
    [("matmul", {"M": 0, "K": 4, "N": 4}), ("matmul", {"M": 4, "K": 4, "N": 0}), ("rms_norm", {"x": (0, 4)})],
)
def test_nothing_is_launched_for_no_elements(op, given):
    made = plan(op, given, chip=PR)
    assert (made.route, made.block_dim, simulate(made).time_us) == ("empty", 0, 0)
    assert search(op, given, PR) == []


def test_candidates_that_differ_in_the_grid_of_cores_say_so():
    found = search("matmul", {"M": 1024, "K": 1024, "N": 1024}, PR)
    told = [(tuple(c.tiles.items()), c.slots, c.cores, c.grid, c.reason) for c in found]
    assert len(set(told)) == len(told)
    assert {c.grid for c in found if c.tiles == {"m": 128, "n": 128, "k1": 512}} == {"4 x 8", "8 x 4"}


def test_what_launches_nothing_has_no_tilings():
    assert search("exp", {"x": (0, 4)}, PR) == []


def test_a_phase_without_work_has_no_other_tilings():
    (only,) = search("softmax", {"x": (0, 4)}, PR)
    assert (only.chosen, only.cycles) == (True, 0)


def test_a_dtype_of_other_products_only_is_unsupported_unless_a_document_has_a_status_for_it():
    verdict = check("exp", {"x": (4, 4)}, chip="ascend310p3", dtype="bfloat16")
    assert (verdict.verdict, verdict.status, verdict.ok) == ("unsupported", None, False)
    assert verdict.culprit.endswith("x dtype: expected float32 or float16, given bfloat16")
    assert check("exp", {"x": (4, 4)}, chip="ascend310p3", dtype="int32").status == PARAM_INVALID
    for name in ("glu", "glu_backward"):
        assert check(name, {"self": (4, 4)}, chip="ascend310p3", dtype="bfloat16").status == PARAM_INVALID


@pytest.mark.parametrize("rows", [0, -3])
def test_sizes_of_a_buffer_file_that_are_no_counts_are_refused_by_their_rule(rows):
    source = {"name": "b", "sizes": {"rows": 8}, "buffers": [{"name": "x", "shape": ["rows", 64]}]}
    verdict = check_buffers(source, PR, {"rows": rows})
    assert (verdict.verdict, verdict.ok, verdict.sizes["rows"]) == ("refused", False, rows)
    assert f"given {rows}" in verdict.culprit
