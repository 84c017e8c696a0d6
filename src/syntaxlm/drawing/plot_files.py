"""Plots as SVG, PNG and PDF.

matplotlib takes some choices for a file only from its settings: text as text in SVG, whole fonts in PDF. They are set
while a file is written, by one thread at a time, and restored afterwards.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from syntaxlm.core.errors import InputWarning
from syntaxlm.drawing.svg import COLOURS, FONT_NAMES, SERIES, Theme, escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from syntaxlm.drawing.plots import Plot

PNG_DPI = 200
LAYOUTS = 3  # times that the layout is computed, each starting from the last, until panels of a fixed shape fit
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text, which can be searched and copied, in a font that the reader has
    "pdf.fonttype": 42,  # embedded TrueType fonts
}
_NAME = re.compile(r'(?:(?<= id=")|(?<=href="#)|(?<=url\(#))[^")]+(?=[^<]*>)')  # of an element, or in a reference to it
_WRITING = threading.Lock()
_DARK = dict([*COLOURS.values(), *SERIES])
_COLOUR_PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markerfacecoloralt", "markeredgecolor")


def plot_svg(plot: Plot, theme: Theme = "auto") -> str:
    """Return a plot as an SVG document, which may be part of an HTML page. theme: auto follows the reader's system."""
    content = _written(plot.figure, "svg", "dark" if theme == "dark" else "light", metadata={"Date": None})
    _, opening, body = re.split(r"(<svg[^>]*>)", content.decode().replace("xlink:href", "href"), maxsplit=1)
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"\s*\n\s*", "\n", body).replace(">\n<", "><").replace("\n", " ")
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), body)  # coordinates

    # Only names that are used stay. Those of two plots on a page differ, and a plot always has the same.
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    body = re.sub(r' id="([^"]*)"(?=[^<]*>)', lambda match: match[0] if match[1] in used else "", body)
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(_NAME.findall(body)))}
    body = _NAME.sub(lambda match: numbers[match[0]], body)
    mark = hashlib.sha256(body.encode()).hexdigest()[:8]
    body = _NAME.sub(lambda match: f"plot-{mark}-{match[0]}", body)

    sides = re.search(r'viewBox="([^"]*)"', opening)
    assert sides is not None
    height = plot.width * plot.figure.get_figheight() / plot.figure.get_figwidth()
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="syntaxlm-plot"'
        f' width="{plot.width:.0f}" height="{height:.0f}" viewBox="{sides[1]}"'
        f' role="img" aria-label="{escaped(plot.title)}">'
        f"<title>{escaped(plot.title)}</title><style>{_style_sheet(theme)}</style>{body.strip()}\n"
    )


def _style_sheet(theme: Theme) -> str:
    """Return how lines meet, and, if the colours follow the reader's system, the dark colour of each light one."""
    rules = ".syntaxlm-plot *{stroke-linejoin:round;stroke-linecap:butt}"
    if theme == "auto":
        dark = "".join(
            f'.syntaxlm-plot [style*="{side}: {light}"]{{{side}:{dark}!important}}'
            for light, dark in _DARK.items()
            for side in ("fill", "stroke")
        )
        rules += f"@media (prefers-color-scheme:dark){{{dark}}}"
    return rules


def plot_bytes(plot: Plot, form: str, theme: Theme = "light") -> bytes:
    """Return a plot as the content of a .png or .pdf file.

    Characters that no font of this machine has become boxes, with an InputWarning.

    Args:
        plot: the plot
        form: png or pdf
        theme: light or dark; auto means light, as these files cannot follow the reader's system
    """
    metadata = {"Software": None} if form == "png" else {"CreationDate": None}
    return _written(plot.figure, form, theme, dpi=PNG_DPI, metadata=metadata)


def _written(figure: Figure, form: str, theme: Theme, **options: Any) -> bytes:
    """Return a file of the figure, whose colours are those of the theme only while it is written."""
    import matplotlib

    buffer = BytesIO()
    with _WRITING, matplotlib.rc_context(_SETTINGS), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _add_fonts(figure)
        for _ in range(LAYOUTS - 1):
            figure.draw_without_rendering()
        with _recoloured(figure, theme):
            figure.savefig(buffer, format=form, facecolor=figure.get_facecolor(), **options)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        is_missing_glyph = message.startswith("Glyph")
        if not is_missing_glyph or form != "svg":  # whose reader has fonts of their own
            advice = ". Install a font for it, or write SVG or HTML" if is_missing_glyph else ""
            warnings.warn(message + advice, InputWarning, stacklevel=3)
    return buffer.getvalue()


def _add_fonts(figure: Figure) -> None:
    """Let texts that are not ASCII use all fonts of this machine that have further scripts."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    texts = [text for text in figure.findobj(Text) if not text.get_text().isascii()]
    if texts:
        installed = {font.name for font in fontManager.ttflist}
        families = ["sans-serif", *(name for name in FONT_NAMES if name in installed)]
        for text in texts:
            text.set_fontfamily(families)


@contextmanager
def _recoloured(figure: Figure, theme: Theme) -> Iterator[None]:
    """Give the figure the dark colours for a while, if the theme is dark."""
    if theme != "dark":
        yield
        return
    _replace_colours(figure, _DARK)
    try:
        yield
    finally:
        _replace_colours(figure, {dark: light for light, dark in _DARK.items()})


def _replace_colours(figure: Figure, colours: dict[str, str]) -> None:
    """Replace colours of all objects of a figure."""
    import numpy as np
    from matplotlib.colors import to_hex

    for artist in figure.findobj():
        for name in _COLOUR_PROPERTIES:
            if not hasattr(artist, f"set_{name}") or not hasattr(artist, f"get_{name}"):
                continue
            value = getattr(artist, f"get_{name}")()
            several = isinstance(value, np.ndarray) and value.ndim == 2
            given = value if several else [value]
            if any(isinstance(one, str) and one in ("none", "auto") for one in given):
                continue
            replaced = [colours.get(to_hex(one), one) for one in given]
            getattr(artist, f"set_{name}")(replaced if several else replaced[0])
