"""A plot: a figure of matplotlib, which is written as SVG, PNG or PDF.

matplotlib takes some choices for a file only from its settings: text as text in SVG, whole fonts in PDF. They are set
while a file is written, by one thread at a time, and restored afterwards.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from syntaxlm.core.errors import InputError, warn_caller
from syntaxlm.core.option_names import option_name
from syntaxlm.core.settings import check_number
from syntaxlm.drawing.files import Saved
from syntaxlm.drawing.fonts import FONT_NAMES
from syntaxlm.drawing.svg import COLOURS, SERIES, Theme, escaped, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

INK, FAINT, EDGE, GUIDE, PAPER = (COLOURS[name][0] for name in ("ink", "faint", "edge", "guide", "paper"))
CHARACTER = 0.085  # inches: width of a character of a name
LEGEND_SAMPLE = 0.7  # inches: the line, marker or bar before a name of the legend, with the gaps around it
PIXELS = 96  # per inch
MILLIMETRES = 25.4  # per inch
PNG_DPI = 300  # as journals ask for
MOST_DPI = 2400
LEAST_WIDTH, MOST_WIDTH = 20, 2000  # millimetres
WIDTH_STEP = 2  # millimetres: precision of the smallest width of a picture
LEAST_PANEL = 0.3  # inches: width of a panel
GAP = 0.03  # inches: between two texts in a line
OVERLAP = 0.02  # inches: by which the boxes of two lines of text may overlap, whose edges are empty
LAYOUTS = 3  # times that the layout is computed, each starting from the last, until panels of a fixed shape fit
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text, which can be searched and copied, in a font that the reader has
    "pdf.fonttype": 42,  # embedded TrueType fonts
}
PRINT_FONTS = ("Arial", "Liberation Sans")  # of PDF and PNG, if one is installed; TrueType, which PDF can embed
_NAME = re.compile(r'(?:(?<= id=")|(?<=href="#)|(?<=url\(#))[^")]+(?=[^<]*>)')  # of an element, or in a reference to it
_WRITING = threading.Lock()
_DARK = dict([*COLOURS.values(), *SERIES])
_COLOUR_PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markerfacecoloralt", "markeredgecolor")


@dataclass(frozen=True, eq=False)
class Plot(Saved):
    """A figure of matplotlib with its panels.

    `plot.figure` and `plot.axes` can be changed by all means of matplotlib before `plot.save` writes them.

    Attributes:
        figure: the figure of the panels
        axes: of each panel
        title: what the plot shows, in one line, also for screen readers
        is_own: whether the figure was made here, not by the user
        narrower: what needs less width, for messages
    """

    figure: Figure
    axes: list[Axes]
    title: str
    is_own: bool = True
    narrower: str = ""

    @property
    def width(self) -> float:
        """The width in pixels."""
        return float(self.figure.get_figwidth()) * PIXELS

    def save(self, path: str | Path, theme: Theme = "auto", width: int | None = None, dpi: int = PNG_DPI) -> None:
        """Write an .svg, .pdf, .png or .html file, atomically.

        Args:
            path: the file.
            theme: auto follows the reader's system on a screen, and is light on paper and in a PDF or PNG
            width: of the figure in millimetres, whose texts keep their size; None for that of the figure
            dpi: dots per inch of a PNG

        Raises:
            InputError: as `check_picture`, for a width or dpi out of range, and for a width at which texts overlap that
                do not overlap at the width of the figure.
        """
        check_number("dpi", dpi, 1, MOST_DPI)
        self.figure.set_dpi(dpi)
        if width is not None:
            check_number("width", width, LEAST_WIDTH, MOST_WIDTH)
            self._narrow(width)
        super().save(path, theme)

    def svg(self, theme: Theme = "auto") -> str:
        """Return an SVG document, also for embedding in HTML.

        Args:
            theme: auto follows the reader's system.
        """
        return _plot_svg(self, theme)

    def to_bytes(self, form: Literal["pdf", "png"], theme: Theme = "light") -> bytes:
        """Return the content of a .pdf or .png file."""
        return plot_bytes(self, form, theme)

    def add_legend(self, handles: Mapping[str, Any], title: str = "") -> None:
        """Add the legend of an own figure outside the panels: above them if it fits in two lines, or else on the right.

        The legend of a user's figure is inside its last panel.

        Args:
            handles: what is drawn, by name
            title: what the names are; a legend with a title is on the right
        """
        names = [visible(name) for name in handles]
        place: dict[str, Any] = {}
        if self.is_own:
            widths = [CHARACTER * len(name) + LEGEND_SAMPLE for name in names]
            columns = len(names)
            while columns > 1 and columns * max(widths) > self.figure.get_figwidth() < sum(widths):
                columns -= 1
            above = not title and len(names) <= 2 * columns
            place = {"loc": "outside upper left", "ncols": columns} if above else {"loc": "outside right upper"}
        parent = self.figure if self.is_own else self.axes[-1]
        place |= {"frameon": False, "labelcolor": INK, "fontsize": 9}
        if title:
            place["handlelength"] = 2.9  # samples of lines are long enough to show their dashes
        legend = parent.legend(list(handles.values()), names, **place)
        if title:
            legend.set_title(visible(title))
            legend.get_title().set_fontsize(9)
            legend.set_alignment("left")
            legend.get_title().set_color(INK)
        for text in (*legend.get_texts(), legend.get_title()):
            text.set_parse_math(False)

    def _narrow(self, width: int) -> None:
        """Set the width of an own figure in millimetres. Raises InputError for one at which more texts overlap."""
        own = self.figure.get_figwidth() * MILLIMETRES
        self._set_width(width)
        if not self.is_own or width >= own or not (overlaps := _overlaps(self.figure)):
            return
        self._set_width(own)
        most = _overlaps(self.figure)
        if overlaps <= most:
            self._set_width(width)
            return

        # The smallest width without further overlaps is above `low`, and at most `high`.
        low, high = width, math.ceil(own)
        while high - low > WIDTH_STEP:
            middle = (low + high) // 2
            self._set_width(middle)
            low, high = (low, middle) if _overlaps(self.figure) <= most else (middle, high)
        self._set_width(own)
        others = f", or {self.narrower}" if self.narrower else ""
        raise InputError(
            f"{option_name('--picture-width', width)}: texts of the picture overlap at this width, in millimetres;"
            f" expected at least {high}{others}"
        )

    def _set_width(self, width: float) -> None:
        """Set the width of the figure in millimetres; its height, too, if a panel has a fixed shape."""
        ratio = width / MILLIMETRES / self.figure.get_figwidth()
        has_fixed_shape = any(panel.get_box_aspect() is not None for panel in self.axes)
        self.figure.set_figwidth(width / MILLIMETRES)
        self.figure.set_figheight(self.figure.get_figheight() * (ratio if has_fixed_shape else 1))
        self._place_legend_again()

    def _place_legend_again(self) -> None:
        """Place the legend of an own figure whose width has changed."""
        for legend in list(self.figure.legends) if self.is_own else []:
            names = [text.get_text() for text in legend.get_texts()]
            handles = dict(zip(names, legend.legend_handles, strict=True))
            legend.remove()
            self.add_legend(handles, legend.get_title().get_text())

    def add_note(self, *lines: str) -> None:
        """Write lines below the panels of an own figure; they are broken at its width."""
        if not lines or not self.is_own:
            return
        text = self.figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8, color=INK, wrap=True)
        text.set_parse_math(False)

    def __repr__(self) -> str:
        """Return the title and the number of panels."""
        return f"Plot({self.title!r}, panels: {len(self.axes)})"

    def _repr_svg_(self) -> str:
        return self.svg()


def _plot_svg(plot: Plot, theme: Theme = "auto") -> str:
    """Return a plot as an SVG document, which may be part of an HTML page.

    Args:
        theme: auto follows the reader's system.
    """
    content = _written(plot.figure, "svg", "dark" if theme == "dark" else "light", metadata={"Date": None})
    _, opening, body = re.split(r"(<svg[^>]*>)", content.decode().replace("xlink:href", "href"), maxsplit=1)
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"\s*\n\s*", "\n", body).replace(">\n<", "><").replace("\n", " ")
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), body)  # coordinates

    # Markers have the colour of their uses, which style sheets reach.
    body = re.sub(r'(<defs><path [^>]*style="[^"]*?)stroke: #\w+;? ?', r"\1", body)

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
            f'.syntaxlm-plot :is([style*="{side}: {light}"],[{side}="{light}"]){{{side}:{dark}!important}}'
            for light, dark in _DARK.items()
            for side in ("fill", "stroke")
        )
        rules += f"@media screen and (prefers-color-scheme:dark){{{dark}}}"
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
    return _written(plot.figure, form, theme, metadata=metadata)


def _overlaps(figure: Figure) -> int:
    """Return how many pairs of texts overlap or have no gap between them, and how many panels have hardly any width."""
    import numpy as np

    with _WRITING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of matplotlib, of panels without any width
        _add_fonts(figure)
        for _ in range(LAYOUTS):
            figure.draw_without_rendering()
        texts = [text for panel in figure.axes for text in _texts(panel)]
        boxes = [artist.get_window_extent() for artist in (*texts, *figure.legends)]
    narrow = sum(panel.bbox.width < LEAST_PANEL * figure.dpi for panel in figure.axes)
    left, low, right, high = np.array([box.extents for box in boxes]).reshape(-1, 4).T
    across = np.minimum.outer(right, right) - np.maximum.outer(left, left) > -GAP * figure.dpi
    along = np.minimum.outer(high, high) - np.maximum.outer(low, low) > OVERLAP * figure.dpi
    return int(np.triu(across & along, 1).sum()) + narrow


def _texts(panel: Axes) -> list[Text]:
    """Return the texts in and around a panel, without turned names of bars, whose boxes overlap."""
    from matplotlib.text import Text

    children = [child for child in panel.get_children() if isinstance(child, Text)]
    texts = [panel.xaxis.label, panel.yaxis.label, *children]
    for axis in (panel.xaxis, panel.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
        texts += [label for place, label in ticks if low <= place <= high]
    return [text for text in texts if text.get_text() and text.get_visible() and not text.get_rotation() % 90]


def _written(figure: Figure, form: str, theme: Theme, **options: Any) -> bytes:
    """Return a file of the figure, whose colours are those of the theme only while it is written."""
    import matplotlib

    buffer = BytesIO()
    fonts = {"font.sans-serif": [*_installed(PRINT_FONTS), *matplotlib.rcParams["font.sans-serif"]]}
    settings = _SETTINGS if form == "svg" else _SETTINGS | fonts
    with _WRITING, matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _add_fonts(figure)
        for _ in range(LAYOUTS - 1):
            figure.draw_without_rendering()
        with _recoloured(figure, theme):
            figure.savefig(buffer, format=form, dpi=figure.dpi, facecolor=figure.get_facecolor(), **options)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        is_missing_glyph = message.startswith("Glyph")
        if not is_missing_glyph or form != "svg":  # whose reader has fonts of their own
            advice = ". Install a font for it, or write SVG or HTML" if is_missing_glyph else ""
            warn_caller(message + advice)
    return buffer.getvalue()


def _add_fonts(figure: Figure) -> None:
    """Let texts that are not ASCII use all fonts of this machine that have further scripts."""
    from matplotlib.text import Text

    texts = [text for text in figure.findobj(Text) if not text.get_text().isascii()]
    if texts:
        families = ["sans-serif", *_installed(FONT_NAMES)]
        for text in texts:
            text.set_fontfamily(families)


def _installed(names: Sequence[str]) -> list[str]:
    """Return the fonts that this machine has."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in names if name in installed]


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
            if any(isinstance(colour, str) and colour in ("none", "auto") for colour in given):
                continue
            replaced = [colours.get(to_hex(colour), colour) for colour in given]
            getattr(artist, f"set_{name}")(replaced if several else replaced[0])
