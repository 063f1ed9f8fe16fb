"""DESIGN.md shows the wings as the layer contract has them."""

from tests.wings import PICTURE, ROOT, layers, picture, says


def test_the_picture_is_that_of_the_contract():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "`make picture` draws it again"
    assert f"({PICTURE.relative_to(ROOT).as_posix()})" in (ROOT / "DESIGN.md").read_text(encoding="utf-8")


def test_every_wing_says_what_it_is():
    assert [wing for layer in layers() for wing in layer if len(says(wing)) < 10] == []
