"""Pictures as files: SVG, PDF, PNG, HTML or LaTeX, chosen by the extension.

Pictures of SVG elements (`svg.Picture`) and plots (`plot.Plot`) are written in the same way; this module knows neither.
"""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.files import replaced, write_text
from syntaxlm.drawing.fonts import FONTS
from syntaxlm.reports.page import SvgPicture, Theme, picture_page

# Pictures as PDF, by vl-convert, and as PNG, by resvg, both from their SVG.


POINTS = 0.75  # per pixel, in PDF
_SIDES = re.compile(r'width="[\d.]+" height="[\d.]+"')  # of an SVG document
SCALE = 2.0  # PNG pixels per pixel of the picture
LONGEST_SIDE = 30_000  # pixels of a PNG
LARGEST_AREA = 2.5e8  # pixels
CHARACTERS_NAMED = 3  # missing characters that are listed in the warning


class SizedPicture(SvgPicture, Protocol):
    """A picture whose height is known, too."""

    @property
    def height(self) -> float: ...


def pdf(picture: SizedPicture, theme: Theme = "light") -> bytes:
    """Return the picture as the content of a PDF file, in the size of its SVG, with text as text and its fonts.

    Warns as `png` does.

    Args:
        theme: "auto" means light.

    Raises:
        InputError: without vl-convert (the extra `draw`).
    """
    try:
        import vl_convert
    except ImportError:
        raise InputError(
            "PDF needs the library vl-convert-python, which is not installed. Install it with: pip install"
            " 'syntaxlm[draw]'; or write SVG or HTML"
        ) from None
    document = picture.svg("light" if theme == "auto" else theme)
    sides = f'width="{POINTS * picture.width:.2f}" height="{POINTS * picture.height:.2f}"'
    content: bytes = vl_convert.svg_to_pdf(_SIDES.sub(sides, document, count=1))
    _warn_of_boxes(document)
    return content


# resvg only reports characters without a font on its process's output, hence the subprocess, which renders one pixel.
_REPORT_FONTS = (
    "import sys, resvg_py; "
    "resvg_py.svg_to_bytes(svg_string=sys.stdin.buffer.read().decode('utf-8'), width=1, log_information=True)"
)
_NO_FONT = re.compile(rb"No fonts with a .*?/U\+([0-9A-F]+) character")


def png(picture: SizedPicture, theme: Theme = "light") -> bytes:
    """Return the picture as the content of a PNG file, at twice its size, or at its own size if it is huge.

    Text is drawn with the system's fonts. Characters that no font has become boxes, with an InputWarning that lists
    them.

    Args:
        theme: "auto" means light, as a PNG cannot follow the reader's system.

    Raises:
        InputError: without resvg-py (the extra `draw`), without fonts, and for a picture that is too large.
    """
    try:
        import resvg_py
    except ImportError:
        raise InputError(
            "PNG needs the library resvg-py, which is not installed. Install it with: pip install 'syntaxlm[draw]'; or"
            " write SVG or HTML"
        ) from None
    width = picture.width
    height = picture.height
    scales = [
        scale
        for scale in (SCALE, 1.0)
        if scale * max(width, height) <= LONGEST_SIDE and scale * scale * width * height <= LARGEST_AREA
    ]
    if not scales:
        raise InputError(f"a picture of {width:.0f} by {height:.0f} pixels is too large for PNG; write SVG or HTML")
    if not _has_fonts():
        raise InputError(
            "PNG needs system fonts, and none of the usual ones was found on this machine; write SVG or HTML"
        )
    document = picture.svg("light" if theme == "auto" else theme)
    painted: bytes = resvg_py.svg_to_bytes(svg_string=document, zoom=scales[0])
    _warn_of_boxes(document)
    return bytes(painted)


def _warn_of_boxes(document: str) -> None:
    """Give an InputWarning that lists the characters of an SVG document for which there is no font."""
    if boxes := _drawn_as_boxes(document):
        names = [f"{character} {unicodedata.name(character, f'U+{ord(character):04X}')}" for character in boxes]
        listed = ", ".join(names if len(names) <= CHARACTERS_NAMED else [*names[:CHARACTERS_NAMED], "..."])
        warn_caller(
            f"no font on this machine has {len(boxes)} of the characters, which are drawn as boxes ({listed})."
            " Install a font for them (the Noto fonts cover all scripts), or write SVG or HTML, which use the fonts of"
            " the reader's machine."
        )


def _drawn_as_boxes(document: str) -> list[str]:
    """Return the characters of an SVG document for which there is no font, in order.

    Also empty without resvg-py, and if the subprocess cannot be started; the picture is drawn anyway.
    """
    if document.isascii():  # all fonts have these characters
        return []
    try:
        import resvg_py
    except ImportError:
        return []

    command = [sys.executable, "-c", _REPORT_FONTS]
    place = Path(resvg_py.__file__).parents[1]  # the subprocess imports the same library from here, and no user file
    try:
        process = subprocess.run(
            command, input=document.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place, check=False
        )
    except OSError:
        return []
    return list(dict.fromkeys(chr(int(code, 16)) for code in _NO_FONT.findall(process.stdout)))


@cache
def _has_fonts() -> bool:
    """Return whether a letter is visible: without fonts, resvg draws no text and reports no error."""
    import resvg_py

    blank = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
    letter = blank.format('<text x="2" y="18" font-size="16" font-family="' + FONTS + '">H</text>')
    return bytes(resvg_py.svg_to_bytes(svg_string=letter)) != bytes(resvg_py.svg_to_bytes(svg_string=blank.format("")))


PICTURE_FORMATS = (".svg", ".pdf", ".png", ".html")
FORMATS = (*PICTURE_FORMATS, ".tex")


def check_format(path: Path) -> str:
    """Return the extension of a picture's file, in lower case. Raises InputError for an unsupported one."""
    return _check_extension(path, FORMATS)


def _check_extension(path: Path, formats: Sequence[str]) -> str:
    if path.suffix.lower() not in formats:
        extension = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"{path}: found {extension}; expected one of {', '.join(formats)}")
    return path.suffix.lower()


class WritablePicture(SvgPicture, Protocol):
    """A picture with forms of its own for files."""

    def to_bytes(self, form: Literal["pdf", "png"], theme: Theme = "light") -> bytes: ...


class Saved:
    """Base class of pictures: writes them to files."""

    def save(self: WritablePicture, path: str | Path, theme: Theme = "auto") -> None:
        """Write an .svg, .pdf, .png or .html file, atomically. Raises InputError as `check_picture` does."""
        check_picture(Path(path))
        write_picture(Path(path), lambda: self, lambda: picture_page(self, theme), str, theme)


def write_picture(
    path: Path,
    picture: Callable[[], WritablePicture],
    page: Callable[[], str],
    latex: Callable[[], str],
    theme: Theme,
) -> None:
    """Write the format given by the file's extension. Only that format is rendered. Raises InputError."""
    match check_format(path):
        case ".pdf":
            _write_bytes(picture().to_bytes("pdf", theme), path)
        case ".png":
            _write_bytes(picture().to_bytes("png", theme), path)
        case ".svg":
            write_text(picture().svg(theme), path)
        case ".html":
            write_text(page(), path)
        case ".tex":
            write_text(latex(), path)


def _write_bytes(content: bytes, path: Path) -> None:
    with replaced(path) as temporary:
        temporary.write_bytes(content)


def check_picture(path: Path) -> None:
    """Check the file of a picture without a form in LaTeX.

    Raises:
        InputError: for another extension than .svg, .pdf, .png and .html, and for a folder that does not exist.
    """
    _check_extension(path, PICTURE_FORMATS)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it, or choose another one")
