"""Pictures as PNG, painted from their SVG."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
import warnings
from functools import cache
from pathlib import Path

from syntaxlm.drawing.svg import FONTS, Picture, Theme
from syntaxlm.errors import InputError, InputWarning

SCALE = 2.0  # pixels of the PNG for one of the picture
LARGEST = 30_000, 2.5e8  # pixels on a side, and in all
NAMED = 3  # characters without a font that are told by name

# The library tells which characters it draws as boxes only to the output of its process. One pixel is painted.
_ASK = (
    "import sys, resvg_py; "
    "resvg_py.svg_to_bytes(svg_string=sys.stdin.buffer.read().decode('utf-8'), width=1, log_information=True)"
)
_NO_FONT = re.compile(rb"No fonts with a .*?/U\+([0-9A-F]+) character")


def png(picture: Picture, theme: Theme = "light") -> bytes:
    """The picture as a PNG file's content, twice as large; a huge one as large as it is.

    Letters are drawn with the system's fonts; what they lack becomes boxes, with an InputWarning that names it.
    auto is light: a PNG does not change.
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
    document = picture.svg("light" if theme == "auto" else theme)
    painted: bytes = resvg_py.svg_to_bytes(svg_string=document, zoom=scale)
    if boxes := _drawn_as_boxes(document):
        named = [f"{one} {unicodedata.name(one, f'U+{ord(one):04X}')}" for one in boxes]
        told = ", ".join(named if len(named) <= NAMED else [*named[:NAMED], "..."])
        warnings.warn(
            f"boxes are drawn for {len(boxes)} of the picture's characters, which no font found here has ({told})."
            " Install one that has them on this machine (Noto has fonts of all scripts), or write SVG or HTML, which"
            " are drawn with the fonts of whoever looks at them.",
            InputWarning,
            stacklevel=2,
        )
    return bytes(painted)


def _drawn_as_boxes(document: str) -> list[str]:
    """The characters of an SVG document that the library finds no font for, in the order it meets them.

    Empty, too, where no other process can be begun: the picture is drawn all the same.
    """
    import resvg_py

    if document.isascii():  # every font has these
        return []
    command = [sys.executable, "-c", _ASK]
    place = Path(resvg_py.__file__).parents[1]  # there the process finds the same library, and no file of the user
    try:
        asked = subprocess.run(
            command, input=document.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, check=False
        )
    except OSError:
        return []
    return list(dict.fromkeys(chr(int(code, 16)) for code in _NO_FONT.findall(asked.stdout)))


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
