"""Profiles of users against the model, in every layout of columns."""

import json

import pytest

from tilesim.errors import BadInput
from tilesim.measured.compare import compare
from tilesim.measured.profile import read_profile
from tilesim.measured.profiled_calls import call_of_kernel
from tilesim.operators.measured_kernels import Unmapped
from tilesim.operators.operator import KernelRow

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


NO_TIMES = (
    "N/A",
    "",
    "-",
    "abc",
    "-3",
    "-0.5",
    "0",
    "0.0",
    "inf",
    "-inf",
    "1e400",
    "nan",
    "1_0",
    "1,5",
    "True",
    "3 us",
)


@pytest.mark.parametrize("text", NO_TIMES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_row_without_a_time_is_counted_and_has_no_time(tmp_path, text, place):
    rows = [SIGMOID.replace("40.5", time) for time in ("10.5", "12.5")]
    rows.insert(place, SIGMOID.replace("40.5", f'"{text}"'))
    found = compare(written(tmp_path, SHAPED, *rows), "ascend910b2")
    (one,) = found.kernels
    assert (one.calls, one.measured_us) == (2, 11.5)
    (left,) = found.left
    assert (left.kind, left.calls, left.time_us) == ("Sigmoid", 1, 0.0)
    assert "duration" in left.reason
    assert (found.calls, found.untimed, found.timed, found.time_us, found.compared_us) == (3, 1, True, 23.0, 23.0)
    assert str(found).endswith("2 of 3 calls compared, 23.0 of 23.0 us (100.0%); 1 call without a time")


def test_the_sums_are_those_of_the_file(tmp_path):
    times = ("10.5", "N/A", "12.5", "-3", "1,234.5", "1e400")
    unknown = [SIGMOID.replace("Sigmoid", "Cast").replace("40.5", f'"{time}"') for time in times]
    rows = [SIGMOID.replace("40.5", f'"{time}"') for time in times]
    found = compare(written(tmp_path, SHAPED, *rows, *unknown), "ascend910b2")
    assert found.calls == 12
    assert found.compared_us == pytest.approx(1257.5)
    assert found.time_us == pytest.approx(2 * 1257.5)
    assert found.untimed == 6
    assert sum(left.calls for left in found.left) == 9


def test_figures_that_are_not_finite_are_no_figures(tmp_path):
    row = SIGMOID.replace(",48,", ",1e400,").replace("7.2,11.0", "inf,nan")
    (one,) = compare(written(tmp_path, SHAPED, row), "ascend910b2").kernels
    assert one.pipes_us == {}


OPERANDS = [
    ("Add", 2),
    ("Mul", 2),
    ("Maximum", 2),
    ("RmsNorm", 2),
    ("MatMulV2", 2),
    ("Addcdiv", 3),
    ("ApplyAdamWV2", 4),
]


@pytest.mark.parametrize(("kernel", "count"), OPERANDS)
def test_operands_of_different_dtypes_are_left_out(kernel, count):
    shapes = [(64, 64), (64,) if kernel == "RmsNorm" else (64, 64), (64, 64), (64, 64)][:count]
    same = call_of_kernel(kernel, KernelRow(shapes, ["DT_BF16"] * count))
    assert same.dtype == "bfloat16"
    more = KernelRow(shapes, ["DT_BF16"] * count + ["INT64"] * (count > 2))
    assert call_of_kernel(kernel, more).given == same.given
    for place in range(count):
        mixed = ["DT_BF16"] * count
        mixed[place] = "FLOAT"
        with pytest.raises(Unmapped, match=r"operands of different dtypes: (bfloat16, float32|float32, bfloat16)"):
            call_of_kernel(kernel, KernelRow(shapes, mixed))
        mixed[place] = "DT_WHAT"
        with pytest.raises(Unmapped, match="unknown dtype DT_WHAT"):
            call_of_kernel(kernel, KernelRow(shapes, mixed))


def test_a_scalar_of_another_dtype_is_an_operand_too(tmp_path):
    row = 'add,Add,AI_CORE,70.5,40,"""4096;""",FLOAT16;FLOAT,"""4096"""'
    found = compare(written(tmp_path, SUMMARY, row), "ascend910b2")
    assert (found.kernels, found.left[0].reason) == ((), "operands of different dtypes: float16, float32")


def test_a_profile_without_durations_is_predicted(tmp_path):
    def cut(line):
        return line.replace("40.5\t,", "").replace("40.5,", "").replace("Duration(us),", "")

    timed = compare(written(tmp_path, SHAPED, SIGMOID, SIGMOID), "ascend910b2")
    slow = SIGMOID.replace("2048,2048", "4096,4096")
    unknown = SIGMOID.replace("Sigmoid", "Cast")
    found = compare(written(tmp_path, *map(cut, (SHAPED, SIGMOID, SIGMOID, slow, unknown))), "ascend910b2")
    first, second = found.kernels
    assert (second.predicted_us, second.calls) == (timed.kernels[0].predicted_us, 2)
    assert first.predicted_us > 2 * second.predicted_us
    assert set(second.pipes_us) == {"v", "mte2"}
    assert (first.measured_us, first.ratio, first.gain_us) == (None, None, None)
    assert ">nan<" not in found._repr_html_()
    assert (found.calls, found.timed, found.untimed, found.compared_us, found.time_us) == (4, False, 0, 0.0, 0.0)
    assert str(found).count("no durations") == 1
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (data["time_us"], data["kernels"][0]["measured_us"], data["kernels"][0]["gain_us"]) == (None, None, None)


@pytest.mark.parametrize("quote", ['"""', '"', ""])
def test_cells_parted_by_tabs(tmp_path, quote):
    head, row = SUMMARY.replace(",", "\t"), ["s", "Sigmoid", "AI_CORE", "40.5", "48", "2048,2048", "FLOAT", "2048,2048"]
    commas = compare(written(tmp_path, SHAPED, SIGMOID), "ascend910b2")
    cells = [f"{quote}{cell}{quote}" if "," in cell else cell for cell in row]
    found = compare(written(tmp_path, head, "\t".join(cells)), "ascend910b2")
    assert [(k.shapes, k.predicted_us, k.measured_us) for k in found.kernels] == [
        (k.shapes, k.predicted_us, k.measured_us) for k in commas.kernels
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((SUMMARY.replace(",", ";"), "s;Sigmoid;AI_CORE;40.5;48;2048,2048;FLOAT;2048,2048"), "semicolons"),
        (("a,b", "1,2"), "no column of kernel names or types"),
        (("Duration(us),Input Shapes", "1,2"), "no column of kernel names or types"),
        (("Name,Age", "x,2"), "no column of durations, shapes"),
        (("", " , "), "is empty"),
        ((SHAPED, f'x,"{"9" * 140_000}"'), "cannot be read as a table"),
    ],
)
def test_what_is_no_profile_is_refused_with_the_cause(tmp_path, lines, said):
    with pytest.raises(BadInput, match=said):
        compare(written(tmp_path, *lines), "ascend910b2")
