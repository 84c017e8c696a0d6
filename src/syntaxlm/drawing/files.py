"""Pictures as files: SVG, PDF, PNG, HTML or LaTeX, chosen by the extension."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import replaced, write_text
from syntaxlm.drawing.layout import INDUCED_LABEL, DrawableDependencies, DrawableTree
from syntaxlm.drawing.plot import Plot, plot_bytes
from syntaxlm.drawing.svg import FONTS, Picture
from syntaxlm.reports.latex import latex_text
from syntaxlm.reports.page import Theme, picture_page

# Trees as LaTeX: constituency trees for the package forest, dependency trees for tikz-dependency.


def format_latex(tree: DrawableTree) -> str:
    """Return the tree as a forest environment; words are in a row at the bottom, induced nodes have no label."""
    opened: dict[int, list[str]] = {}
    closed = [0] * (len(tree.words) + 1)
    for label, start, end in tree.constituents:
        opened.setdefault(start, []).append("[" + ("" if label == INDUCED_LABEL else _latex_text(label)))
        closed[end] += 1
    pieces = []
    for place, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        leaf = f"[{_latex_text(word)}, tier=word]"
        pieces.append(" ".join([*opened.get(place, []), f"[{_latex_text(tag)} {leaf}]" if tag else leaf]))
        pieces[-1] += "]" * closed[place + 1]
    return "\\begin{forest}\n" + " ".join(pieces) + "\n\\end{forest}"


def format_dependency_latex(tree: DrawableDependencies) -> str:
    """Return the tree as a dependency environment: words in a row, labelled arcs."""
    ampersand = r"\&"  # separates words in the environment, also escaped
    row = rf" {ampersand} ".join(_latex_text(word).replace(ampersand, r"\symbol{38}") for word in tree.words)
    arcs = []
    for word, (head, label) in enumerate(zip(tree.heads, tree.labels, strict=True), 1):
        start = f"\\depedge{{{head}}}" if head else "\\deproot"
        arcs.append(f"{start}{{{word}}}{_latex_text(label or ('' if head else 'root'))}")
    lines = [r"\begin{dependency}", r"\begin{deptext}", rf"{row} \\", r"\end{deptext}", *arcs, r"\end{dependency}"]
    return "\n".join(lines)


def _latex_text(text: str) -> str:
    """Return text as the content of a node, in braces so that the package does not interpret commas and brackets."""
    return "{" + latex_text(text) + "}"


# Pictures as PDF, by vl-convert, and as PNG, by resvg, both from their SVG.


SCALE = 2.0  # PNG pixels per pixel of the picture
LARGEST = 30_000, 2.5e8  # pixels: longest side, and area
NAMED = 3  # most missing characters listed in the warning


def pdf(picture: Picture, theme: Theme = "light") -> bytes:
    """Return the picture as the content of a PDF file, one point per pixel, with text as text and its fonts.

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
            "PDF needs the library vl-convert-python: pip install 'syntaxlm[draw]'; or write SVG or HTML"
        ) from None
    document = picture.svg("light" if theme == "auto" else theme)
    content: bytes = vl_convert.svg_to_pdf(document)
    _warn_of_boxes(document)
    return content


# resvg only reports characters without a font on its process's output, hence the subprocess, which renders one pixel.
_REPORT_FONTS = (
    "import sys, resvg_py; "
    "resvg_py.svg_to_bytes(svg_string=sys.stdin.buffer.read().decode('utf-8'), width=1, log_information=True)"
)
_NO_FONT = re.compile(rb"No fonts with a .*?/U\+([0-9A-F]+) character")


def png(picture: Picture, theme: Theme = "light") -> bytes:
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
        raise InputError("PNG needs the library resvg-py: pip install 'syntaxlm[draw]'; or write SVG or HTML") from None
    width = picture.width
    height = picture.height
    (longest, area) = LARGEST
    scales = [s for s in (SCALE, 1.0) if s * max(width, height) <= longest and s * s * width * height <= area]
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
        named = [f"{character} {unicodedata.name(character, f'U+{ord(character):04X}')}" for character in boxes]
        shown = ", ".join(named if len(named) <= NAMED else [*named[:NAMED], "..."])
        warnings.warn(
            f"no font on this machine has {len(boxes)} of the characters, which are drawn as boxes ({shown})."
            " Install a font for them (the Noto fonts cover all scripts), or write SVG or HTML, which use the fonts of"
            " the reader's machine.",
            InputWarning,
            stacklevel=3,
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
    if path.suffix.lower() not in FORMATS:
        found = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise InputError(f"{path}: found {found}; expected one of {', '.join(FORMATS)}")
    return path.suffix.lower()


def write_picture(
    path: Path,
    picture: Callable[[], Picture | Plot],
    page: Callable[[], str],
    latex: Callable[[], str],
    theme: Theme,
) -> None:
    """Write the format given by the file's extension. Only that format is rendered. Raises InputError."""
    match check_format(path):
        case ".pdf" | ".png" as suffix:
            content = _rendered(picture(), suffix[1:], theme)
            with replaced(path) as temporary:
                temporary.write_bytes(content)
        case ".svg":
            write_text(picture().svg(theme), path)
        case ".html":
            write_text(page(), path)
        case ".tex":
            write_text(latex(), path)


def _rendered(picture: Picture | Plot, form: str, theme: Theme) -> bytes:
    """Return the content of a .pdf or .png file."""
    if isinstance(picture, Plot):
        return plot_bytes(picture, form, theme)
    return pdf(picture, theme) if form == "pdf" else png(picture, theme)


def check_picture(path: Path) -> None:
    """Raise InputError for the file of a picture without a form in LaTeX: expected .svg, .pdf, .png or .html, in a
    folder that exists.
    """
    if path.suffix.lower() not in PICTURE_FORMATS:
        raise InputError(f"{path}: found the extension {path.suffix!r}; expected one of {', '.join(PICTURE_FORMATS)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it, or choose another one")


def save_picture(picture: Picture | Plot, path: Path, theme: Theme = "auto") -> None:
    """Write a picture without a form in LaTeX. Raises InputError as `check_picture` does."""
    check_picture(path)
    write_picture(path, lambda: picture, lambda: picture_page(picture, theme), str, theme)
