"""PNG, from the same pictures."""

from __future__ import annotations

import re
import struct
import sys
import warnings
from pathlib import Path

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.drawing.files import _has_fonts, check_picture, pdf, png
from syntaxlm.drawing.svg import Picture
from syntaxlm.drawing.tree import tree_picture
from syntaxlm.trees.tree import parse_brackets

PICTURE = tree_picture(parse_brackets("(S (NP the cat) sleeps)")[0], [0.1, 0.2, 0.3])


def test_the_error_without_the_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(InputError, match=r"pip install 'syntaxlm\[draw\]'"):
        png(PICTURE)


class TestWithTheLibrary:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("resvg_py", reason="the extra draw is not installed")
        if not _has_fonts():
            pytest.skip("this machine has none of the usual fonts")

    def test_a_png_is_the_picture_twice_as_large(self):
        content = png(PICTURE)
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", content[16:24])
        assert (width, height) == (pytest.approx(2 * PICTURE.width, abs=2), pytest.approx(2 * PICTURE.height, abs=2))

    def test_a_pdf_has_the_size_of_the_picture_and_the_font_of_its_text(self):
        pytest.importorskip("vl_convert", reason="the extra draw is not installed")
        content = pdf(PICTURE)
        assert content.startswith(b"%PDF")
        width, height = map(float, re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", content).groups())
        assert (width, height) == (
            pytest.approx(0.75 * PICTURE.width, abs=0.1),
            pytest.approx(0.75 * PICTURE.height, abs=0.1),
        )
        assert b"/FontFile" in content

    def test_words_are_drawn_and_themes_differ(self):
        blank = Picture(PICTURE.width, PICTURE.height, (), "blank")
        assert len(png(PICTURE)) > 3 * len(png(blank))
        assert png(PICTURE) == png(PICTURE, "auto") != png(PICTURE, "dark")

    def test_a_huge_picture_raises_an_error_and_a_large_one_is_not_doubled(self):
        with pytest.raises(InputError, match="too large for PNG; write SVG or HTML"):
            png(Picture(40_000, 100, (), "wide"))
        content = png(Picture(20_000, 10, (), "wide"))
        assert struct.unpack(">I", content[16:20]) == (20_000,)

    def test_characters_without_a_font_are_listed_in_the_warning(self):
        """Private-use characters are used, as a machine may have fonts for all scripts."""
        words = ["\U0010fffd", "ok", "\U0010fffc", "\U0010fffd\U0010fffb", "\U0010fffa", "é"]
        picture = tree_picture(parse_brackets(f"(S {' '.join(words)})")[0])
        with pytest.warns(InputWarning) as caught:
            content = png(picture)
        (warning,) = caught
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert str(warning.message).startswith(
            "no font on this machine has 4 of the characters, which are drawn as boxes"
            " (\U0010fffd U+10FFFD, \U0010fffc U+10FFFC, \U0010fffb U+10FFFB, ...). Install a font"
        )

    def test_there_is_no_warning_for_characters_with_a_font_and_invisible_marks(self):
        picture = tree_picture(parse_brackets("(S é à\u0300 «cat» co\u00adop \u200fa)")[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            png(picture)


def test_a_picture_without_an_extension_is_refused_in_plain_words():
    with pytest.raises(InputError, match=r"trees: found no extension; expected one of \.svg, \.pdf, \.png, \.html$"):
        check_picture(Path("trees"))
