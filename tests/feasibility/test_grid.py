"""The programs of a file of buffers against the cores of a chip and the limits of a launch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import check_buffers

B3, A3 = load_chip("ascend910b3"), load_chip("ascend910_9391")


def grid_of(chip=B3, sizes=None, buffers=None, **grid):
    return check_buffers({"sizes": sizes or {}, "buffers": buffers or {}, "grid": grid}, chip)


@given(st.integers(0, 65535))
def test_more_programs_than_cores_run_in_waves(programs):
    verdict = grid_of(programs=programs)
    waves = -(-programs // B3.cores.vector)
    notes = [note for note in verdict.notes if "waves" in note]
    assert verdict.verdict == "fits"
    assert len(notes) == (waves > 1)
    assert all(f"{programs:,} programs on 40 vector cores: {waves:,} waves" in note for note in notes)
    assert all("loop inside the kernel" in note for note in notes)


def test_the_idle_share_is_that_of_all_waves():
    (note,) = grid_of(programs=41).notes
    assert "2 waves, 48.8 %" in note  # 39 of 80 places


@pytest.mark.parametrize("chip", [B3, A3])
@pytest.mark.parametrize(("buffers", "kind"), [({}, "vector"), ({"c": {"memory": "l0c", "shape": [16, 16]}}, "cube")])
def test_a_sync_of_all_cores_needs_a_program_on_each(chip, buffers, kind):
    cores = chip.cores.of(kind)
    for n in (1, cores // 2, cores - 1, cores, cores + 1, 3 * cores):
        verdict = grid_of(chip, {"n": n}, buffers, programs="2*n", sync="all")
        assert verdict.ok is (2 * n == cores)
        if not verdict.ok:
            assert verdict.verdict == "refused"
            assert f"expected {cores} programs" in verdict.culprit
            assert f"{2 * n:,}" in verdict.culprit
            assert {r.given.get("n") for r in verdict.remedies if r.given} == {cores // 2}
            assert verdict.limit("n").largest == verdict.limit("n").least == cores // 2


@pytest.mark.parametrize(("least", "given"), [(48, 24), (48, 47), (7, 1)])
def test_a_least_value_by_a_cap_is_the_answer(least, given):
    file = {"sizes": {"n": given}, "grid": {"programs": "n"}, "caps": {"full": {"of": "n", "least": least}}}
    verdict = check_buffers(file, B3)
    assert verdict.verdict == "refused"
    assert [dict(remedy.given) for remedy in verdict.remedies] == [{"n": least}]
    assert not any("is allowed" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("caps", "largest"),
    [
        ({"c": {"of": "n", "multiple_of": 16}}, 49_088),
        ({"c": {"of": "n", "multiple_of": 16}, "d": {"of": "n", "multiple_of": 24}}, 49_056),
        ({"c": {"of": "n", "multiple_of": 1024, "least": 1024, "most": 8192}}, 8192),
        ({"c": {"of": "n - 3", "least": 0, "most": 0}}, 3),
    ],
)
def test_limits_lie_within_caps(caps, largest):
    for n in (6144, 100_000):
        verdict = check_buffers({"sizes": {"n": n}, "caps": caps, "buffers": {"x": {"shape": ["n"]}}}, B3)
        assert verdict.limit("n").largest == largest


@given(st.lists(st.integers(0, 70_000), min_size=1, max_size=3), st.booleans())
def test_axes_stand_for_their_product(axes, limited):
    limits = {"most": [65535] * len(axes)} if limited else {}
    product = 1
    for axis in axes:
        product *= axis
    verdict = grid_of(axes=axes, **limits)
    assert verdict.programs == product
    assert verdict.ok is (max(axes) <= 65535 if limited else product <= 65535)


@pytest.mark.parametrize(
    ("grid", "problem"),
    [
        ({}, "grid.programs is missing"),
        ({"programs": 1, "axes": [1]}, "takes no programs"),
        ({"axes": [1, 2], "most": [1]}, "has 1 limits in most for 2 axes"),
        ({"programs": 1, "most": [1]}, "has 1 limits in most for 0 axes"),
        ({"programs": 1, "sync": "some"}, "sync"),
    ],
)
def test_a_grid_that_is_none(grid, problem):
    with pytest.raises(BadInput, match=problem):
        check_buffers({"grid": {**grid}, "buffers": {"x": {"shape": [8]}}}, B3)
