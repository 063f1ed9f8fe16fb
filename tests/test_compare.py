"""Profiles of users against the model, in every layout of columns."""

import pytest

from tilesim.compare import compare
from tilesim.errors import BadInput
from tilesim.profiler_csv import read_profile

HEAD = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim"
SHAPED = f"{HEAD},Input Shapes,Input Data Types,Input Formats,Output Shapes,aiv_vec_time(us),aiv_mte2_time(us)"
SIGMOID = 'sig,Sigmoid,AI_VECTOR_CORE,1.0\t,40.5\t,0,48,"""2048,2048""",FLOAT,ND,"""2048,2048""",7.2,11.0'
SUMMARY = "Op Name,OP Type,Task Type,Task Duration(us),Block Dim,Input Shapes,Input Data Types,Output Shapes"


def written(tmp_path, *lines, name="p.csv"):
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_kernel_is_compared_with_its_pipes(tmp_path):
    found = compare(written(tmp_path, SHAPED, SIGMOID, SIGMOID), "ascend910b2")
    (one,) = found.kernels
    assert (one.operator, one.calls, one.measured_us, one.dtype) == ("sigmoid", 2, 40.5, "float32")
    assert one.gain_us == pytest.approx(2 * (40.5 - one.predicted_us))
    assert set(one.pipes_us) == {"v", "mte2"}
    assert one.fixed_from == "kernels.sigmoid"
    assert one.accuracy.validated


def test_the_largest_gain_comes_first_and_unknown_rows_are_counted(tmp_path):
    slow = SIGMOID.replace("sig,Sigmoid", "m,Mish").replace("40.5", "4000")
    unknown = 'c,Cast,AI_VECTOR_CORE,1,3.0,0,48,"""5""",INT64,ND,"""5""",N/A,N/A'
    found = compare(written(tmp_path, SHAPED, SIGMOID, slow, unknown, unknown), "ascend910b2")
    assert [k.operator for k in found.kernels] == ["mish", "sigmoid"]
    (left,) = found.left
    assert (left.kind, left.calls, left.time_us) == ("Cast", 2, 6.0)
    assert "unknown operator" in left.reason
    assert found.calls == 4
    assert found.to_json()["rows"] == 4


def test_other_names_of_columns(tmp_path):
    row = 'add,Add,AI_CORE,70.5,40,"""4096,4096;4096,4096""",DT_BF16;DT_BF16,"""4096,4096"""'
    (one,) = compare(written(tmp_path, SUMMARY, row), "ascend910b2").kernels
    assert (one.operator, one.dtype, one.fixed_from) == ("add", "bfloat16", "launch")


def test_a_profile_without_shapes_says_so(tmp_path):
    found = compare(written(tmp_path, HEAD, "x,Sigmoid,N/A,1,50.6,0,0"), "ascend910b2")
    assert not found.kernels
    assert "no shapes" in found.left[0].reason


def test_pipe_times_of_blocks(tmp_path):
    head = "block_id,sub_block_id,aiv_time(us),aiv_vec_time(us),aiv_mte2_time(us),aiv_mte3_time(us)"
    file = written(
        tmp_path, head, "0,vector0,10.0,3.0,7.0,NA", "1,vector0,11.0,4.0,6.0,2.0", name="PipeUtilization.csv"
    )
    (row,) = read_profile(file)
    assert row.pipes_us == {"v": 4.0, "mte2": 7.0, "mte3": 2.0}
    assert "pipe times" in compare(file, "ascend910b2").left[0].reason


def test_the_halved_axis_is_found_from_the_result(tmp_path):
    row = 's,SwiGlu,AI_VECTOR_CORE,70.5,40,"""8,4096,64""",FLOAT,"""8,2048,64"""'
    (one,) = compare(written(tmp_path, SUMMARY, row), "ascend910b2").kernels
    assert one.operator == "swi_glu"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Name,Type\nx,Add\n"])
def test_a_file_that_is_no_profile_is_refused(tmp_path, text):
    file = tmp_path / "p.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        compare(file, "ascend910b2")


@pytest.mark.parametrize("shapes", ["4096,2560;2560", "4096,2560;4096,1", "4096,2560;"])
def test_operands_that_broadcast_are_predicted_and_unvalidated(tmp_path, shapes):
    row = f'add,Add,AI_CORE,70.5,40,"""{shapes}""",FLOAT;FLOAT,"""4096,2560"""'
    (one,) = compare(written(tmp_path, SUMMARY, row), "ascend910b2").kernels
    assert one.operator == "add"
    assert str(one.accuracy) == "unvalidated: no measured broadcast kernel of ascend910b2"
