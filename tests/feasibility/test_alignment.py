"""Rows, slots, places and blocks of the buffers of a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.chip.loading import load_chip
from tilesim.chip.tables import LACKING
from tilesim.errors import BadInput
from tilesim.feasibility.verdict import check, check_buffers
from tilesim.program.dtypes import itemsize

B3 = "ascend910b3"
ITEMS = {"int8": 1, "float16": 2, "float32": 4, "int64": 8}


def verdict_on(chip=B3, sizes=None, **buffers):
    return check_buffers({"sizes": sizes or {}, "buffers": buffers}, chip)


@given(st.integers(1, 80), st.integers(1, 300), st.integers(1, 3), st.sampled_from(sorted(ITEMS)), st.booleans())
def test_a_copied_row_that_is_no_multiple_of_32_bytes_is_a_caution(rows, width, slots, dtype, copied):
    verdict = verdict_on(x={"shape": [rows, width], "dtype": dtype, "slots": slots, "copied": copied})
    row = width * ITEMS[dtype]
    notes = [note for note in verdict.notes if f"rows of {row:,} B" in note]
    unaligned = copied and row % 32 != 0
    assert verdict.verdict == ("overflow" if not verdict.ok else "caution" if unaligned else "fits")
    assert verdict.padding == {"x": slots * rows * (-row % 32)}
    assert len(notes) == unaligned
    assert all(f"{verdict.padding['x']:,} B of padding" in note and "silicon" in note for note in notes)
    assert verdict.to_json()["padding"] == verdict.padding


@pytest.mark.parametrize(
    ("buffers", "part"),
    [
        ({"x": {"shape": [100]}}, "rows of 400 B"),
        ({"x": {"shape": [8], "offset": 16}}, "an offset of 16 B"),
        ({"x": {"shape": [8], "offset": 16, "copied": False}}, ""),
        ({"x": {"shape": [3, 9], "align": 4}}, "slots of 108 B"),
        ({"x": {"shape": [9, 8], "align": 4}}, ""),
        ({"x": {"shape": [9], "align": 4, "copied": False}, "y": {"shape": [8]}}, "a start of 36 B"),
        ({"x": {"shape": [9], "align": 4, "copied": False}, "y": {"shape": [8], "copied": False}}, ""),
        ({"x": {"bytes": 100}}, ""),
        ({"x": {"shape": [7, 5], "memory": "l1"}}, "rows of 20 B"),
        ({"x": {"shape": [7, 5], "memory": "l1"}, "y": {"shape": [16, 16], "memory": "l0c"}}, ""),
        ({"x": {"shape": [7, 5], "memory": "l0a"}}, ""),
        ({"x": {"shape": [7, 5], "memory": "l0a", "layout": "rows"}}, "rows of 20 B"),
        ({"x": {"shape": [7, 5], "memory": "gm"}}, ""),
    ],
)
def test_what_counts_as_a_copy_that_is_not_aligned(buffers, part):
    verdict = verdict_on(**buffers)
    assert verdict.verdict == ("caution" if part else "fits")
    assert any(part in note for note in verdict.notes) or not part


@pytest.mark.parametrize("dtype", sorted(ITEMS))
@pytest.mark.parametrize("pitch", [1, 6, 15, 16, 31, 32, 126, 128])
def test_a_pitch_that_is_no_multiple_of_32_bytes_is_refused(pitch, dtype):
    for buffer in ({"dtype": dtype}, {}):
        verdict = check_buffers(
            {"sizes": {"p": pitch}, "buffers": {"x": {"shape": [4, 1], "pitch": "p", "copied": False, **buffer}}},
            B3,
            dtype=dtype,
        )
        row = pitch * ITEMS[dtype]
        assert verdict.verdict == ("refused" if row % 32 else "fits")
        if row % 32:
            assert f"x pitch: expected a multiple of 32 B, given {pitch} elements, {row:,} B" in verdict.culprit
        else:
            assert verdict.tightest.left_bytes == 4 * row


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=2, max_size=4))
def test_places_by_hand_must_not_overlap(places):
    buffers = {f"b{i}": {"shape": [8 * blocks], "offset": 32 * start} for i, (start, blocks) in enumerate(places)}
    taken = [set(range(start, start + blocks)) for start, blocks in places]
    overlap = len(set().union(*taken)) < sum(map(len, taken))
    verdict = verdict_on(**buffers)
    assert verdict.verdict == ("refused" if overlap else "fits")
    phases = {name: {**buffer, "phase": name} for name, buffer in buffers.items()}
    assert verdict_on(**phases).ok


@pytest.mark.parametrize(("offset", "ok"), [(196352 - 64, True), (196352 - 32, False), (196352, False), (10**9, False)])
def test_a_buffer_by_hand_ends_within_the_memory(offset, ok):
    verdict = verdict_on(x={"shape": [16], "offset": offset}, y={"shape": [8]})
    assert verdict.ok is ok
    if not ok:
        assert verdict.verdict == "overflow"
        assert f"needs {offset + 64:,} B of ub, has 196,352 B" in verdict.culprit


@given(st.integers(1, 100), st.integers(1, 100), st.sampled_from(sorted(ITEMS)), st.sampled_from(["l0a", "l0b", "l1"]))
def test_operands_lie_in_blocks_of_16_by_32_bytes(first, second, dtype, memory):
    block = 32 // ITEMS[dtype]

    def up(value, step):
        return -(-value // step) * step

    file = {"x": {"shape": [first, second], "dtype": dtype, "memory": memory}}
    if memory == "l1":
        file["y"] = {"bytes": 512, "memory": "l0a"}
    rows, columns = (up(first, block), up(second, 16)) if memory == "l0b" else (up(first, 16), up(second, block))
    need = next(b for b in verdict_on(**file).inequalities if b.memory == memory)
    assert need.left_bytes == rows * columns * ITEMS[dtype]


@pytest.mark.parametrize(
    ("buffer", "size_bytes"),
    [
        ({"memory": "l0c", "shape": [8, 4096]}, 262_144),
        ({"memory": "l0c", "shape": [17, 1]}, 2 * 1024),
        ({"memory": "l0c", "shape": [3, 17, 1]}, 3 * 2 * 1024),
        ({"memory": "l0c", "shape": [40]}, 3 * 1024),
        ({"memory": "l0c", "shape": [8, 16], "layout": "rows"}, 512),
        ({"memory": "l0a", "shape": [8, 64], "dtype": "float16", "slots": 2}, 4096),
        ({"memory": "l0b", "shape": [40, 8], "dtype": "int8"}, 64 * 16),
        ({"memory": "l1", "shape": [8, 16]}, 512),
        ({"memory": "l1", "shape": [8, 16], "layout": "nz"}, 1024),
    ],
)
def test_blocks_by_hand(buffer, size_bytes):
    verdict = verdict_on(x={**buffer, "copied": False})
    assert verdict.buffers[0].bytes == size_bytes


def test_the_blocks_are_those_of_the_product():
    verdict = check("matmul", {"M": 16, "K": 64, "N": 16}, chip=B3, dtype="float16")
    tiles = {b.name: b for b in verdict.buffers if b.memory in ("l0a", "l0b", "l0c")}
    shapes = {"aL0": ("l0a", [16, 64]), "bL0": ("l0b", [64, 16]), "c": ("l0c", [16, 16])}
    for name, (memory, shape) in shapes.items():
        dtype = tiles[name].dtype
        listed = verdict_on(x={"memory": memory, "shape": shape, "dtype": dtype, "slots": tiles[name].slots})
        assert listed.buffers[0].bytes == tiles[name].bytes, name
        assert itemsize(dtype) == (4 if name == "c" else 2)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend310b1", B3, "ascend910_9391", "ascend950pr"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_a_dtype_that_the_chip_lacks_is_unsupported(chip, dtype):
    lacks = dtype in LACKING[load_chip(chip).family]
    assert lacks is (
        (dtype == "bfloat16" and chip in {"ascend910a", "ascend310p3", "ascend310b1"})
        or (dtype.startswith("float8") and chip != "ascend950pr")
    )
    stated = verdict_on(chip, x={"shape": [64], "dtype": dtype}, y={"shape": [64]})
    of_file = check_buffers({"buffers": {"x": {"shape": [64]}}}, chip, dtype=dtype)
    for verdict in (stated, of_file):
        assert verdict.verdict == ("unsupported" if lacks else "fits")
        assert verdict.ok is not lacks
        assert not lacks or dtype in verdict.culprit
    for remedy in stated.remedies:
        assert dtype not in LACKING[load_chip(remedy.chip).family]


def test_what_means_nothing_in_a_memory_is_told():
    for buffer in ({"memory": "gm", "offset": 0}, {"memory": "gm", "layout": "nz"}):
        with pytest.raises(BadInput, match="in gm"):
            verdict_on(x={"shape": [8], **buffer})
