"""Pictures as PNG, painted from their SVG."""

from __future__ import annotations

from functools import cache

from syntaxlm.drawing.svg import FONTS, Picture, Theme
from syntaxlm.errors import InputError

SCALE = 2.0  # pixels of the PNG for one of the picture
LARGEST = 30_000, 2.5e8  # pixels on a side, and in all


def png(picture: Picture, theme: Theme = "light") -> bytes:
    """The picture as a PNG file's content, twice as large; a huge one as large as it is.

    Letters are drawn with the system's fonts. auto is light: a PNG does not change.
    Raises InputError without the library resvg-py (the extra `draw`) or any font, or for a picture too large.
    """
    try:
        import resvg_py
    except ImportError:
        raise InputError(
            "PNG needs the library resvg-py: pip install 'syntaxlm[draw]'; SVG and HTML need nothing"
        ) from None
    scale = SCALE if _fits(picture, SCALE) else 1.0
    if not _fits(picture, scale):
        raise InputError(
            f"a picture of {picture.width:.0f} by {picture.height:.0f} pixels is too large for PNG; write SVG or HTML"
        )
    if not _has_fonts():
        raise InputError(
            "a PNG's letters are drawn with this machine's fonts, and it has none of the usual ones; write SVG or HTML"
        )
    painted: bytes = resvg_py.svg_to_bytes(svg_string=picture.svg("light" if theme == "auto" else theme), zoom=scale)
    return bytes(painted)


@cache
def _has_fonts() -> bool:
    """Whether a letter leaves a trace: without a font that it can find, the library paints none and does not say so."""
    import resvg_py

    blank = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
    letter = blank.format('<text x="2" y="18" font-size="16" font-family="' + FONTS + '">H</text>')
    return bytes(resvg_py.svg_to_bytes(svg_string=letter)) != bytes(resvg_py.svg_to_bytes(svg_string=blank.format("")))


def _fits(picture: Picture, scale: float) -> bool:
    sides, area = LARGEST
    width, height = picture.width * scale, picture.height * scale
    return max(width, height) <= sides and width * height <= area
