"""Check, plan and the first call agree on every golden case that is refused, undefined or only described."""

import pytest

from tests import golden
from tilesim.chip.loading import load_chip
from tilesim.errors import DoesNotFit, Refused, TilesimError
from tilesim.execution.aclnn import get_workspace_size
from tilesim.feasibility.verdict import check
from tilesim.operators.shapes import TensorSpec
from tilesim.planning.plan import plan

CONV, GLU, GATED = "masked_causal_conv1d_backward", "glu_backward", "text_gated_residual_grad"
PR = load_chip("ascend950pr")
SOCS = {
    "regbase": ["ascend950pr", "ascend950dt"],
    "910b": ["ascend910b1", "ascend910_9391"],
    "other": ["ascend310p3", "ascend910a"],
}


def specs(tensors):
    return {name: None if t is None else TensorSpec(t.shape, t.dtype) for name, t in tensors.items()}


def sized(case):
    return PR.override({"cores.vector": case.cores, "memory.ub.size_bytes": case.ub_size_bytes})


def refused(op, given, chip):
    """The verdict of the exception that the plan of a refused call raises."""
    with pytest.raises(TilesimError) as caught:
        plan(op, given, chip=chip)
    assert isinstance(caught.value, Refused | DoesNotFit)
    return caught.value.verdict


def convolution_outputs(tensors):
    """gradXOut and gradWeightOut as the inputs would have them."""
    return {"gradXOut": tensors["gradY"], "gradWeightOut": tensors["weight"]}


@pytest.mark.parametrize("case", golden.conv1d_refusals(), ids=lambda case: case.name)
def test_refused_convolutions(case):
    chip, given = sized(case), specs(case.tensors)
    verdict = refused(CONV, given, chip)
    assert (verdict.status.code, verdict.tiling_check, verdict.tiling_parameter) == (
        case.status,
        case.check,
        case.parameter,
    )
    mask = {"maskOptional": given.pop("mask")}
    status, size, executor = get_workspace_size(
        "aclnnMaskedCausalConv1dBackward", **given, **mask, **convolution_outputs(given), chip=chip
    )
    assert (status.code, size, executor) == (case.status, 0, None)
    assert status.message


@pytest.mark.parametrize("case", golden.conv1d_tilings(), ids=lambda case: case.name)
def test_accepted_convolutions(case):
    s, b, h = (case.dims[name] for name in "SBH")
    token, weight = TensorSpec((s, b, h), case.dtype), TensorSpec((3, h), case.dtype)
    mask = TensorSpec((b, s), "bool") if case.mask else None
    status, size, executor = get_workspace_size(
        "aclnnMaskedCausalConv1dBackward", token, token, weight, mask, token, weight, chip=sized(case)
    )
    assert (status.code, size) == (0, 16 << 20)
    assert dict(executor.plan.tiling_data) == case.tiling
    assert (executor.plan.ok, bool(status.message)) == (case.fits, not case.fits)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("batch", [1, 4, 32])
def test_a_convolution_without_tokens_is_undefined(batch, mask):
    verdict = refused(CONV, {"S": 0, "B": batch, "H": 768, "mask": mask}, PR)
    assert (verdict.status.code, verdict.verdict) == (561002, "refused")
    assert "divide by zero" in verdict.culprit


@pytest.mark.parametrize("case", golden.glu_refusals(), ids=lambda case: case.name)
def test_refused_and_undefined_gated_units(case):
    own, chip = TensorSpec(case.shape, case.dtype), sized(case)
    verdict = refused(GLU, {"self": own, "dim": case.dim}, chip)
    if case.check == "undefined":
        assert (verdict.status.code, verdict.tiling_check) == (561002, "group")
        assert "divide by zero" in verdict.culprit
    else:
        assert (verdict.verdict, verdict.tiling_check) == ("refused", case.check)
    half = list(case.shape)
    if -len(half) <= case.dim < len(half):
        half[case.dim] //= 2
    status, size, executor = get_workspace_size(
        "aclnnGluBackward", TensorSpec(half, case.dtype), own, case.dim, own, chip=chip
    )
    assert (status.code, size, executor) == (verdict.status.code, 0, None)


@pytest.mark.parametrize("case", golden.glu_statuses(), ids=lambda case: case.name)
def test_statuses_of_the_gated_unit(case):
    given = specs(case.tensors)
    for name in SOCS[case.soc]:
        verdict = check(GLU, given | {"dim": case.dim}, chip=name)
        assert (verdict.status.code, verdict.ok) == (case.status, case.status == 0)
        status, size, executor = get_workspace_size("aclnnGluBackward", **given, dim=case.dim, chip=name)
        assert status.code == case.status
        if case.status:
            assert (size, executor) == (0, None)
            assert status.message
            assert refused(GLU, given | {"dim": case.dim}, name).status.code == case.status
        else:
            assert executor.plan.route == case.route
            assert (size == 0) == (case.route != "composite")
            assert plan(GLU, given | {"dim": case.dim}, chip=name).route == case.route


@pytest.mark.parametrize("case", golden.gated_residual_limits(), ids=lambda case: f"{case.product}-{case.dims}")
def test_limits_of_the_gated_residual(case):
    dims = {"B": 1, "S": 2, **case.dims}
    for name in ["ascend950pr"] if case.product == "950" else ["ascend910b3", "ascend910_9391"]:
        verdict = check(GATED, dims, chip=name)
        assert verdict.status.code == case.status
        if case.greatest_h is not None:
            assert verdict.limits["H"] == case.greatest_h
        if case.status:
            assert refused(GATED, dims, name).status.code == case.status
        else:
            assert plan(GATED, dims, chip=name).status.code == 0


def test_plain_data_carries_the_note():
    chip = PR.override({"memory.ub.size_bytes": 8193})
    verdict = check(CONV, {"S": 50, "B": 32, "H": 768}, chip=chip, mask=True)
    assert (verdict.ok, verdict.status.code) == (False, 0)
    assert verdict.to_json()["note"] == verdict.note
    assert "its second call launches the kernel" in verdict.note
    assert check(CONV, {"S": 50, "B": 32, "H": 768}, chip=PR).to_json()["note"] is None
    empty = check(GLU, {"self": (2, 0)}, chip=PR)
    assert (empty.ok, empty.tiling_check, empty.note) == (
        True,
        "empty",
        "the vendor's tiling would fail its check 'empty', but this call does not run it",
    )
    assert "tiling" not in check(GLU, {"self": (2, 0)}, chip="ascend910b1").note
