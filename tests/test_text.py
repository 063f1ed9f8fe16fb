"""Layout: no line wider than it may be, no word or number broken or lost, whatever the text and the table."""

from hypothesis import given
from hypothesis import strategies as st

from tilesim.text import GAP, TIED, TextColumn, blocks, wrapped

WORDS = st.lists(st.text("ab1,-.·⌈", min_size=1, max_size=12), min_size=1, max_size=12)
TABLES = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.builds(TextColumn, st.sampled_from(["x", "to spare", "bytes"]), st.booleans(), st.booleans()),
                 min_size=n, max_size=n),
        st.lists(st.lists(WORDS.map(" ".join), min_size=n, max_size=n), max_size=4),
    )
)  # fmt: skip


@given(WORDS, st.integers(1, 40), st.integers(0, 4))
def test_text_is_broken_at_spaces_only(words, width, hang):
    lines = wrapped(" ".join(words), width, hang)
    assert " ".join(lines).split() == words
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_what_is_tied_stays_together():
    assert wrapped(f"13H <={TIED}62448 -{TIED}16", 10, 0) == ["13H", "<= 62448", "- 16"]
    assert wrapped("", 10) == [""]
    assert wrapped("a b", None) == ["a b"]


@given(TABLES, st.integers(1, 100))
def test_a_table_keeps_every_word_in_its_columns(made, width):
    columns, rows = made
    found = blocks(columns, rows, width)
    assert [place for block in found for place in block.places if place] == list(range(1, len(columns)))
    assert all(block.places[0] == 0 for block in found)
    for block in found:
        whole = sum(block.widths) + GAP * (len(block.widths) - 1)
        assert whole <= width or len(block.places) <= 2
        for cells in block.rows:
            assert all(len(line) <= size for size, lines in zip(block.widths, cells, strict=True) for line in lines)
        for row, cells in zip(rows, block.rows[1:], strict=True):
            for place, lines in zip(block.places, cells, strict=True):
                assert " ".join(lines) == row[place]
                assert columns[place].prose or len(lines) == 1
