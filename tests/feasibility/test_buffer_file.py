import json
import textwrap
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.errors import BadChip, BadInput
from tilesim.feasibility.verdict import check_buffers
from tilesim.operators import buffer_file
from tilesim.operators.formula import formula

ROWS = {
    "name": "rows",
    "sizes": {"rows": 64, "H": {"default": 1024, "multiple_of": 16}},
    "buffers": {
        "x": {"shape": ["rows", "H"], "dtype": "float16", "slots": 2},
        "x32": {"shape": ["rows", "H"]},
    },
    "reserve": {"ub": {"bytes": 8192, "reason": "the library"}},
}


def problems_of(data):
    with pytest.raises(BadInput) as caught:
        check_buffers(data, "ascend910b3")
    return caught.value.problems


def test_the_example_of_the_documentation_is_a_file(tmp_path):
    text = "\n".join(line[4:] for line in buffer_file.__doc__.splitlines() if line.startswith("    "))
    path = tmp_path / "row_sum.toml"
    path.write_text(text, encoding="utf-8")
    verdict = check_buffers(path, "ascend910b3")
    assert verdict.ok
    assert verdict.sizes == {"N": 8192, "BLOCK": 1024, "trips": 8}
    assert verdict.tightest.left_bytes == 1024 * 2 * 2 + 1024 * 4 + 4096
    assert verdict.tightest.right_bytes == 176947
    assert any("19,661 B of 196,608 B of ub are kept back" in note for note in verdict.notes)


def test_sizes_can_be_given_in_place_of_defaults():
    small, large = (check_buffers(ROWS, "ascend910b3", {"rows": rows}) for rows in ("8", 64))
    assert small.verdict == "fits"
    assert large.verdict == "overflow"
    assert large.tightest.left_bytes == 64 * 1024 * (2 * 2 + 4)
    assert large.tightest.right_bytes == 196352 - 8192


def test_the_message_says_what_when_and_how_much():
    verdict = check_buffers(ROWS, "ascend910b3")
    assert str(verdict) == (
        "rows on ascend910b3: overflow: needs 524,288 B of ub, has 188,160 B (336,128 B too many, 178.6 %; in bits"
        " 4,194,304 of 1,505,280): x 262,144 B (50 %), x32 262,144 B (50 %)"
    )
    assert [str(remedy) for remedy in verdict.remedies] == [
        "rows = 22, the largest for H = 1024 (16 as a power of two)",
        "H = 352, the largest for rows = 64 (256 as a power of two)",
        "memory.ub.size_bytes = 532736, 336,128 B more",
    ]


def test_dtype_of_the_file_can_be_given():
    file = {"buffers": {"x": {"shape": [16]}, "y": {"shape": [16], "dtype": "int8"}}}
    assert check_buffers(file, "ascend910b3").tightest.left_bytes == 64 + 32
    assert check_buffers(file, "ascend910b3", dtype="bf16").tightest.left_bytes == 32 + 32


def test_rows_are_padded_unless_the_file_says_otherwise():
    def needs(**more):
        buffer = {"shape": [10, 3], **more}
        return check_buffers({"buffers": {"x": buffer}}, "ascend910b3").tightest.left_bytes

    assert needs() == 10 * 32
    assert needs(align=1) == 10 * 12
    assert needs(pitch=16) == 10 * 64
    assert needs(memory="l0c") == 16 * 16 * 4


def test_memories_are_told_apart():
    file = {
        "sizes": {"m": 256, "n": 256, "k": 64},
        "buffers": {
            "a": {"memory": "l0a", "dtype": "bf16", "shape": ["m", "k"], "slots": 2},
            "c": {"memory": "l0c", "shape": ["m", "n"]},
            "x": {"shape": ["m", "n"]},
        },
    }
    verdict = check_buffers(file, "ascend910b3")
    assert [(need.memory, need.slack_bytes) for need in verdict.failing] == [("l0c", -131072), ("ub", -65792)]
    assert verdict.limit("m").largest == verdict.limit("n").largest == 128
    assert "of l0c" in verdict.culprit
    assert "of ub" in verdict.culprit


def test_buffers_of_different_phases_share_their_place():
    buffers = {name: {"bytes": 100_000, "phase": name} for name in ("first", "second")}
    assert check_buffers({"buffers": buffers}, "ascend910b3").ok
    buffers["always"] = {"bytes": 100_000}
    verdict = check_buffers({"buffers": buffers}, "ascend910b3")
    assert verdict.verdict == "overflow"
    assert {need.phase for need in verdict.failing} == {"first", "second"}
    assert len(verdict.buffers) == 3


def test_near_the_edge_is_a_caution():
    def verdict(size):
        return check_buffers({"buffers": {"x": {"bytes": size}}}, "ascend910b3").verdict

    visible = 196352
    assert [verdict(visible - slack) for slack in (256, 224, 0, -32)] == ["fits", "caution", "caution", "overflow"]


def test_a_compiler_counts_the_whole_memory():
    chip = load_chip("ascend910b3").override({"memory.ub.reserved_bytes": 0})
    file = {"buffers": {"x": {"bytes": 196608}}}
    assert not check_buffers(file, "ascend910b3").ok
    assert check_buffers(file, chip).ok
    assert check_buffers({**file, "counted_from": "size"}, "ascend910b3").ok


def test_the_part_that_scales_and_the_part_that_does_not():
    file = {"sizes": {"rows": 8}, "buffers": {"x": {"bytes": "max(64 * rows, 128) + 1000"}}, "fixed": {"ub": 320}}
    limit = check_buffers(file, "ascend910b3").limit("rows")
    assert limit.fixed_bytes == 1152 + 320  # 128 + 1000, in whole blocks
    assert limit.fixed_bytes + limit.scaling_bytes == 1536 + 320


def test_json_has_the_words_of_check():
    data = check_buffers(ROWS, "ascend910b3").to_json()
    assert json.loads(json.dumps(data)) == data
    assert data["verdict"] == "overflow"
    assert data["inequalities"] == [
        {
            "phase": None,
            "memory": "ub",
            "text": "2·H·rows <= 47040 words",
            "left_bytes": 524288,
            "right_bytes": 188160,
            "slack_bytes": -336128,
        }
    ]
    assert data["limits"] == {"rows": 22, "H": 352}
    assert data["buffers"][0]["shape"] == "[rows, H]"
    assert data["remedies"][0] == {
        "text": "rows = 22, the largest for H = 1024 (16 as a power of two)",
        "given": {"rows": 22},
        "chip": None,
        "override": {},
    }


@given(st.integers(1, 4096), st.integers(1, 64), st.integers(1, 4), st.sampled_from(["int8", "float16", "float32"]))
def test_bytes_are_those_of_an_aligned_allocation(width, rows, slots, dtype):
    item = {"int8": 1, "float16": 2, "float32": 4}[dtype]
    file = {"buffers": {"x": {"shape": [rows, width], "dtype": dtype, "slots": slots}}}
    need = check_buffers(file, "ascend950pr").tightest
    assert need.left_bytes == slots * rows * -(-width * item // 32) * 32
    assert (need.slack_bytes >= 0) is check_buffers(file, "ascend950pr").ok


def test_all_problems_of_a_file_at_once():
    assert problems_of({"nam": "x", "buffers": [{"name": "a", "shpe": [1], "shape": [1]}, {"shape": [1]}]}) == (
        "buffers: number 2 has no name",
        "buffers.a.shpe is not a key of buffers.a; did you mean 'shape'?",
        "nam is not a key; did you mean 'name'?",
    )
    file = {
        "sizes": {"rows": 1.5, "q": "rws + 1"},
        "buffers": {"a": {"shape": ["rwos", "2^H"], "dtype": "float15"}, "b": {"shap": [1]}},
        "reserve": {"ub": "ten"},
        "grid": {"max": 1},
        "caps": {"c": {"of": "rows"}},
    }
    found = problems_of(file)
    assert len(found) == 9
    for part in (
        "sizes.q.formula: rws + 1: 'rws' is not a size; did you mean 'rows'?",
        "buffers.a.shape.0: rwos: 'rwos' is not a size; did you mean 'rows'?",
        "sizes.rows: is 1.5, must be a whole number, a formula or a table",
        "buffers.a.dtype: 'float15' is not a dtype; did you mean 'float16'?",
        "buffers.a.shape.1: '2 ^ H' is not supported; there are + - * / // %, ceil, floor, max, min, align, pow2,"
        " pow2_floor",
        "buffers.b.shap is not a key of buffers.b; did you mean 'shape'?",
        "grid.programs is missing",
        "caps.c: has no bound: give most, least or multiple_of",
    ):
        assert part in found


def test_names_in_formulas_are_sizes():
    assert problems_of({"sizes": {"rows": 1}, "buffers": {"a": {"shape": ["rwos"]}, "b": {"bytes": "row + n"}}}) == (
        "buffers.a.shape.0: rwos: 'rwos' is not a size; did you mean 'rows'?",
        "buffers.b.bytes: row + n: 'n' is not a size; 'row' is not a size; did you mean 'rows'?",
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("slots", 0, "is 0, must be at least 1"),
        ("slots", "1 - 1", "is 1 - 1, must be at least 1"),
        ("slots", "2 / 0", "divides by 0"),
        ("slots", 1.5, 'is 1.5, must be a whole number or a formula such as "2*H"'),
        ("slots", "n", "n: 'n' is not a size; did you mean 'N'?"),
        ("pitch", -1, "is -1, must be at least 0"),
        ("pitch", "3/2", "is 1.5, not a whole number; round with ceil() or floor()"),
    ],
)
def test_a_value_that_is_none_is_told_with_all_else(key, value, problem):
    data = {
        "nme": "x",
        "sizes": {"N": 8},
        "buffers": [{"name": "x", "shape": ["N"], key: value}, {"name": "y", "bytes": -1, "slot": 2}, {"shape": [1]}],
        "caps": [{"name": "c", "of": "N", "most": "1/0"}],
        "grid": {"programs": "M"},
    }
    assert set(problems_of(data)) == {
        "buffers: number 3 has no name",
        f"buffers.x.{key}: {problem}",
        "buffers.y.bytes: is -1, must be at least 0",
        "buffers.y.slot is not a key of buffers.y; did you mean 'slots'?",
        "caps.c.most: divides by 0",
        "grid.programs: M: 'M' is not a size",
        "nme is not a key; did you mean 'name'?",
    }


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"rwos": 1}, "'rwos' is not a key; did you mean 'rows'?"),
        ({"rows": "many"}, "rows=many is not a whole number"),
        ({"H": 10}, "x.shape[1] = H/4 is 2.5, not a whole number; round with ceil() or floor()"),
    ],
)
def test_sizes_that_are_none(sizes, problem):
    file = {"sizes": {"rows": 1, "H": 8}, "buffers": {"x": {"shape": ["rows", "H/4"]}}}
    with pytest.raises(BadInput) as caught:
        check_buffers(file, "ascend910b3", sizes)
    assert problem in str(caught.value).replace("H/4 = H/4:", "H/4").replace("= H/4: is", "= H/4 is")


def test_a_size_without_a_default_must_be_given():
    file = {"sizes": {"rows": {"multiple_of": 16}}, "buffers": {"x": {"shape": ["rows"]}}}
    assert problems_of(file) == ("rows is missing: give rows=...",)
    assert check_buffers(file, "ascend910b3", {"rows": 32}).ok
    refused = check_buffers(file, "ascend910b3", {"rows": 33})
    assert refused.verdict == "refused"
    assert refused.culprit == "rows multiple: expected a multiple of 16, given 33"


@pytest.mark.parametrize("text", ["", "x =", "[buffers]\n"])
def test_files_that_are_none(tmp_path, text):
    path = tmp_path / "b.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        check_buffers(path, "ascend910b3")
    with pytest.raises(BadInput, match="cannot be read"):
        check_buffers(tmp_path / "none.toml", "ascend910b3")
    with pytest.raises(BadChip, match="did you mean"):
        check_buffers(ROWS, "ascend910b33")


def test_a_list_of_tables_is_the_same_as_tables_by_name():
    text = textwrap.dedent("""
        [sizes]
        n = 8
        [[buffers]]
        name = "x"
        shape = ["n"]
        [[caps]]
        name = "few"
        of = "n"
        most = 16
    """)
    by_list = check_buffers(tomllib.loads(text), "ascend910b3")
    by_name = check_buffers(
        {"sizes": {"n": 8}, "buffers": {"x": {"shape": ["n"]}}, "caps": {"few": {"of": "n", "most": 16}}}, "ascend910b3"
    )
    assert by_list.to_json() == by_name.to_json()
    assert by_list.limit("n").largest == 16


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*H + 1", 17),
        ("ceil(H/3)", 3),
        ("H//3 - -1", 3),
        ("pow2(9)", 16),
        ("pow2(16)", 16),
        ("pow2_floor(31)", 16),
        ("pow2_floor(0)", 0),
        ("align(33, 32)", 64),
        ("max(1, H, 3)", 8),
        ("min(H)", 8),
        ("H % 3", 2),
    ],
)
def test_formulas(text, value):
    assert formula(text).value({"H": 8}) == value


@pytest.mark.parametrize(
    "text",
    ["", "H.x", "__import__('os')", "H ** 9", "2.5", "True", "f(H)", "ceil(1, 2)", "max()", "(", "1" * 600, "[1]"],
)
def test_what_is_no_formula(text):
    with pytest.raises(BadInput):
        formula(text)


def test_a_division_by_nothing_is_bad_input():
    with pytest.raises(BadInput, match="divides by 0"):
        formula("1 // H").value({"H": 0})


def test_names_need_no_table_and_a_plain_reserve_is_of_the_unified_buffer():
    data = {"reserve": 8192, "buffers": [{"name": "x", "dtype": "bfloat16", "shape": ["rows", 4096], "slots": 2}]}
    table = data | {"sizes": {"rows": {}}, "reserve": {"ub": 8192}}
    plain, full = (check_buffers(one, "ascend910b3", {"rows": 11}) for one in (data, table))
    assert plain.to_json() == full.to_json()
    assert plain.ok  # 11 * 4096 * 2 * 2 = 180,224 of 196,352 - 8,192
    assert not check_buffers(data, "ascend910b3", {"rows": 12}).ok
    with pytest.raises(BadInput, match="rows is missing"):
        check_buffers(data, "ascend910b3")


def test_a_table_of_sizes_catches_a_misspelt_name():
    data = {"sizes": {"rows": {}}, "buffers": {"x": {"shape": ["row", 16]}}}
    with pytest.raises(BadInput, match="did you mean 'rows'"):
        check_buffers(data, "ascend910b3", {"rows": 1})


def test_a_broken_formula_is_told_where_it_stands():
    with pytest.raises(BadInput, match=r"shape"):
        check_buffers({"buffers": {"x": {"shape": ["2 *", 16]}}}, "ascend910b3")


@pytest.mark.parametrize("table", ["sizes", "buffers", "reserve", "fixed", "caps", "grid"])
@pytest.mark.parametrize("key", [3, None, ("a",)])
def test_a_key_that_is_no_text_is_told(table, key):
    data = {"buffers": {"x": {"shape": ["N"]}}, "sizes": {"M": 4}}
    data[table] = {**data.get(table, {}), key: 4}
    with pytest.raises(BadInput) as caught:
        check_buffers(data, "ascend910b3")
    assert str(key) in str(caught.value)
    assert "\n" not in str(caught.value)
