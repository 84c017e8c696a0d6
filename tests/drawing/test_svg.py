"""SVG documents and combined pictures."""

from __future__ import annotations

import pytest

from syntaxlm.drawing import svg
from syntaxlm.drawing.svg import Picture

from .reading import read_svg, styled_roles

NASTY = "<script>alert(\"1\")</script> & 'x' \x00 \ud800 ]]>"


def picture(width: float, height: float, title: str = "t") -> Picture:
    return Picture(width, height, (svg.rectangle(0, 0, width, height, "bar"),), title, f"of {title}")


def test_titles_descriptions_and_texts_are_escaped():
    elements = (svg.text(1, 2, NASTY, "word", title=NASTY), svg.rectangle(0, 0, 1, 1, "bar", NASTY))
    document = Picture(10, 10, elements, NASTY, NASTY).svg()
    root = read_svg(document)
    assert "<script" not in document
    assert root.get("aria-label", "").startswith("<script>alert(\"1\")</script> & 'x' ␀ \ufffd")
    assert root.get("role") == "img"


def test_every_role_has_a_rule_in_light_and_in_dark():
    light, dark, auto = (svg.style_sheet(theme) for theme in ("light", "dark", "auto"))
    assert styled_roles(light) == styled_roles(dark)
    assert light != dark
    assert auto.startswith(light)
    assert f"@media screen and (prefers-color-scheme:dark){{{dark}}}" in auto
    assert "prefers-color-scheme" not in light + dark


def test_a_picture_paints_its_own_background():
    root = read_svg(picture(30, 20).svg())
    first = next(element for element in root if element.tag.endswith("rect"))
    assert first.get("class") == "slm-paper"
    assert (first.get("width"), first.get("height")) == ("30", "20")


def test_pictures_together_do_not_overlap_and_the_largest_gives_the_size():
    pictures = [picture(30, 20, "a"), picture(50, 10, "b")]
    stacked = svg.stacked(pictures, gap=4)
    assert (stacked.width, stacked.height, stacked.title, stacked.description) == (50, 34, "a", "of a of b")
    assert "translate(0 0)" in stacked.elements[0]
    assert "translate(0 24)" in stacked.elements[1]
    assert "translate(20 0)" in svg.stacked(pictures, align_right=True).elements[0]
    beside = svg.beside(pictures, gap=4)
    assert (beside.width, beside.height) == (84, 20)
    assert "translate(34 0)" in beside.elements[1]


@pytest.mark.parametrize(("width", "rows"), [(10, 4), (70, 2), (1000, 1)])
def test_flowing_pictures_start_a_new_row_when_the_width_is_exceeded(width, rows):
    flowed = svg.flowing([picture(30, 20, str(i)) for i in range(4)], width)
    assert flowed.height == rows * 20 + (rows - 1) * 16
    assert flowed.width <= max(width, 30) + 4 * 24
    read_svg(flowed.svg())
