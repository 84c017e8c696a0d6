"""Pictures: SVG elements with a size, their style sheet, and the documents built from them.

A picture's elements have roles instead of colours. The style sheet gives each role its light and dark colours and its
text size; layouts measure text with the same sizes. Every document has its own background, so it is legible anywhere.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from typing import Literal

from syntaxlm.core.errors import printable
from syntaxlm.drawing.files import Saved, pdf, png
from syntaxlm.drawing.fonts import FONTS
from syntaxlm.reports.page import Theme

# Width and direction of text, and visible forms of invisible characters.
#
# No font is read, because readers have fonts of their own. Widths are estimates for common sans-serif fonts, rather too
# wide than too narrow, from Unicode's East Asian width (annex 11), category and script.


ELLIPSIS = "…"
UNKNOWN = "not in the model's vocabulary"
RIGHT_TO_LEFT_MARK = "\u200f"
_JOINER = "\u200d"
_ZERO_WIDTH_SPACE = "\u200b"
_DOTTED_CIRCLE = "◌"
_NARROW = frozenset("iljftrI.,:;'`|!()[]{}/\\ -‘’·\"“”")
_BROAD = frozenset("mwMW@%&—…")
_DIRECTIONS = {"R": 1, "AL": 1, "L": -1}  # of letters, by the category of Unicode
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)


def text_width(text: str, size: float) -> float:
    """Return the width of one line of text in pixels.

    Args:
        size: font size in pixels.
    """
    total = 0.0
    follows_joiner = False
    for character in text:
        # An emoji after a joiner is part of the one before it.
        if not (follows_joiner and unicodedata.category(character) == "So"):
            total += _ems(character)
        follows_joiner = character == _JOINER and total > 0
    return total * size


@lru_cache(maxsize=2**16)
def _ems(character: str) -> float:
    """Return a character's width as a multiple of the font size."""
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf") or ord(character) in _SKIN_TONES:
        return 0.0
    if ord(character) in _FLAG_LETTERS:
        return 0.7
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3 if category == "So" else 1.02  # emoji are broader than ideographs
    if character in _NARROW:
        return 0.42
    if character in _BROAD:
        return 1.0
    if ord(character) < 0x250 and category == "Lu":
        return 0.72
    if category in ("So", "Sm", "Co"):
        return 0.9
    return 0.64 if ord(character) < 0x700 else 0.8


def right_to_left(texts: Iterable[str]) -> bool:
    """Return whether most letters of the texts are in a right-to-left script."""
    balance = 0
    for text in texts:
        for character in text:
            balance += _DIRECTIONS.get(unicodedata.bidirectional(character), 0)
    return balance > 0


def directed(text: str, within_right_to_left: bool = False) -> str:
    """Return text with its direction: if it starts in a right-to-left script, it is put between right-to-left marks.

    Marks are used because renderers other than browsers ignore `direction`.

    Args:
        within_right_to_left: the direction of text without letters, whose brackets are then mirrored.
    """
    runs_left = within_right_to_left
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            runs_left = kind != "L"
            break
    return f"{RIGHT_TO_LEFT_MARK}{text}{RIGHT_TO_LEFT_MARK}" if runs_left else text


def visible(word: str) -> str:
    """Return a word as it is drawn: white space, lone combining marks and invisible characters become visible."""
    if any(_ems(character) and not character.isspace() for character in word) or not word:
        return printable(word)
    if any(character.isspace() or character == _ZERO_WIDTH_SPACE for character in word):
        return "␣"
    if any(unicodedata.category(character).startswith("M") for character in word):
        return _DOTTED_CIRCLE + word
    return "+".join(f"U+{ord(character):04X}" for character in word)


def shortened(text: str, most: int) -> str:
    """Return text of at most `most` characters; a longer one keeps its start and end around an ellipsis."""
    if len(text) <= most:
        return text
    head = (most - 1) * 2 // 3
    tail = len(text) - (most - 1 - head)

    def continues_previous(place: int) -> bool:
        return _ems(text[place]) == 0.0 or text[place - 1] == _JOINER

    while head > 1 and continues_previous(head):
        head -= 1
    while tail < len(text) and continues_previous(tail):
        tail += 1
    return text[:head] + ELLIPSIS + text[tail:]


def figure(value: float, scale: tuple[float, float]) -> str:
    """Return a number with as few digits as distinguish values on a scale.

    Args:
        scale: its least and greatest value.
    """
    if value == 0:
        return "0"
    least, greatest = scale
    size = max(abs(least), abs(greatest))
    if not 1e-3 <= size < 1e5:
        return f"{value:.1e}"
    if size >= 10:  # the decimals that the largest of four digits has
        return f"{round(value, 4 - math.ceil(math.log10(size))):g}"
    decimals = 1 - math.floor(math.log10((greatest - least) * 1.0001)) if greatest > least else 2
    return f"{value:.{min(max(2, decimals), 6)}f}"


Anchor = Literal["start", "middle", "end"]

# Text size of each role, in pixels.
TEXT_SIZES = {
    "word": 15,
    "tag": 10,
    "label": 12,
    "heading": 13,
    "title": 15,
    "small": 10,
    "note": 12,
    "figure": 10,
    "inverse": 10,
    "unknown": 15,
    "earlier": 15,
    "relation": 11,
    "relation-root": 11,
}

# name: (light, dark). The colours of series are safe for colour-blind readers (after Okabe and Ito 2008).
COLOURS = {
    "paper": ("#ffffff", "#16191d"),
    "ink": ("#1d2125", "#e8eaed"),
    "faint": ("#68717a", "#9aa3ad"),
    "edge": ("#7b848d", "#8b949e"),
    "guide": ("#d5dade", "#3a4149"),
    "bar": ("#8fb8dc", "#3f6f9c"),
    "shared": ("#00714f", "#3ecf9c"),
    "cell": ("#0b5cad", "#6cb2f5"),
    "negative": ("#b5480a", "#f2935c"),
}
SERIES = (
    ("#0b5cad", "#6cb2f5"),
    ("#c2570a", "#f2935c"),
    ("#00714f", "#3ecf9c"),
    ("#a5447f", "#e59ac6"),
    ("#7a6400", "#e3cb4d"),
    ("#3d8fb8", "#9bd8f5"),
    ("#5a5f66", "#b4bac2"),
)

_RULES = {
    "paper": "fill:{paper}",
    "word": "fill:{ink}",
    "unknown": "fill:{faint};text-decoration:underline",
    "earlier": "fill:{faint}",
    "tag": "fill:{faint}",
    "label": "fill:{ink}",
    "heading": "fill:{faint}",
    "title": "fill:{ink};font-weight:bold",
    "small": "fill:{faint}",
    "note": "fill:{faint}",
    "figure": "fill:{ink}",
    "inverse": "fill:{paper}",
    "edge": "fill:none;stroke:{edge};stroke-width:1.5",
    "edge-shared": "fill:none;stroke:{shared};stroke-width:3",
    "node-shared": "fill:{shared};stroke:{shared};stroke-width:1.5",
    "node-other": "fill:{paper};stroke:{edge};stroke-width:1.5",
    "node-score": "fill:{cell};stroke:{edge};stroke-width:1.5",
    "node-differs": "fill:none;stroke:{negative};stroke-width:2;stroke-dasharray:4 2",
    "target": "fill:none;pointer-events:all",
    "guide": "fill:none;stroke:{guide};stroke-width:1;stroke-dasharray:2 3",
    "level": "fill:none;stroke:{faint};stroke-width:1;stroke-dasharray:6 4",
    "axis": "fill:none;stroke:{edge};stroke-width:1",
    "bar": "fill:{bar}",
    "cell": "fill:{cell};stroke:{guide}",
    "negative": "fill:{negative};stroke:{guide}",
    "rose": "fill:{shared};stroke:{shared};stroke-width:1.5",
    "fell": "fill:{negative};stroke:{negative};stroke-width:1.5;stroke-dasharray:3 2",
    "frame": "fill:none;stroke:{guide}",
    "arc": "fill:none;stroke:{edge};stroke-width:1.5",
    "arc-crossing": "fill:none;stroke:{negative};stroke-width:1.5",
    "arc-root": "fill:none;stroke:{shared};stroke-width:2",
    "arrow": "fill:{edge}",
    "arrow-crossing": "fill:{negative}",
    "arrow-root": "fill:{shared}",
    # An outline in the background's colour keeps letters legible on top of a line.
    "relation": "fill:{ink};stroke:{paper};stroke-width:2;paint-order:stroke",
    "relation-root": "fill:{shared};stroke:{paper};stroke-width:2;paint-order:stroke;font-weight:bold",
}


@dataclass(frozen=True)
class Picture(Saved):
    """SVG elements with a size, drawn in order.

    Attributes:
        width: in pixels.
        height: in pixels.
        title: what the picture shows, in one line.
        description: the full content as text, for screen readers.
    """

    width: float
    height: float
    elements: tuple[str, ...]
    title: str
    description: str = ""

    def svg(self, theme: Theme = "auto") -> str:
        """Return an SVG document, also for embedding in HTML.

        Args:
            theme: auto follows the reader's system.
        """
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="syntaxlm" {size}'
            f' viewBox="0 0 {number(self.width)} {number(self.height)}" role="img" aria-label="{escaped(self.title)}">'
            f"<title>{escaped(self.title)}</title>"
            + (f"<desc>{escaped(self.description)}</desc>" if self.description else "")
            + f"<style>{style_sheet(theme)}</style>"
            + rectangle(0, 0, self.width, self.height, "paper")
            + "".join(self.elements)
            + "</svg>\n"
        )

    def to_bytes(self, form: Literal["pdf", "png"], theme: Theme = "light") -> bytes:
        """Return the content of a .pdf or .png file."""
        return pdf(self, theme) if form == "pdf" else png(self, theme)

    def __repr__(self) -> str:
        """Return the title and the size, not the elements."""
        return f"Picture({self.title!r}, {self.width:.0f} by {self.height:.0f} pixels)"

    def _repr_svg_(self) -> str:
        return self.svg()


def stacked(pictures: Sequence[Picture], title: str = "", gap: float = 16, align_right: bool = False) -> Picture:
    """Return pictures stacked vertically.

    Args:
        title: by default that of the first.
    """
    width = max(picture.width for picture in pictures)
    lefts = [width - picture.width if align_right else 0.0 for picture in pictures]
    return _arranged(pictures, lefts, accumulate((picture.height + gap for picture in pictures), initial=0.0), title)


def beside(pictures: Sequence[Picture], title: str = "", gap: float = 24) -> Picture:
    """Return pictures side by side.

    Args:
        title: by default that of the first.
    """
    lefts = accumulate((picture.width + gap for picture in pictures), initial=0.0)
    return _arranged(pictures, lefts, [0.0] * len(pictures), title)


def _arranged(pictures: Sequence[Picture], lefts: Iterable[float], tops: Iterable[float], title: str) -> Picture:
    elements = []
    width = height = 0.0
    for picture, left, top in zip(pictures, lefts, tops, strict=False):
        opened = f'<g transform="translate({number(left)} {number(top)})" aria-label="{escaped(picture.title)}">'
        elements.append(f"{opened}{''.join(picture.elements)}</g>")
        width = max(width, left + picture.width)
        height = max(height, top + picture.height)
    descriptions = " ".join(picture.description for picture in pictures if picture.description)
    return Picture(width, height, tuple(elements), title or pictures[0].title, descriptions)


def flowing(pictures: Sequence[Picture], width: float, title: str = "", align_right: bool = False) -> Picture:
    """Return pictures in rows of at most `width` pixels; a wider picture has a row to itself."""
    rows: list[list[Picture]] = [[]]
    for picture in pictures:
        if rows[-1] and sum(placed.width for placed in rows[-1]) + picture.width > width:
            rows.append([])
        rows[-1].append(picture)
    return stacked([beside(row) for row in rows], title, align_right=align_right)


def style_sheet(theme: Theme = "auto") -> str:
    """Return colours and text sizes of all roles, as rules that only apply inside these pictures."""
    if theme != "auto":
        return _rules(dark=theme == "dark")
    return f"{_rules(dark=False)}@media screen and (prefers-color-scheme:dark){{{_rules(dark=True)}}}"


@cache
def _rules(dark: bool) -> str:
    colours = {name: pair[dark] for name, pair in COLOURS.items()}
    rules = {role: rule.format_map(colours) for role, rule in _RULES.items()}
    for role, size in TEXT_SIZES.items():
        rules[role] += f";font-size:{size}px"
    for place, pair in enumerate(SERIES):
        rules[f"area-{place}"] = f"fill:{pair[dark]}"
    return f".syntaxlm text{{font-family:{FONTS}}}" + "".join(
        f".syntaxlm .slm-{role}{{{rule}}}" for role, rule in rules.items()
    )


def escaped(text: str) -> str:
    """Return text escaped for the content or an attribute of an element."""
    return html.escape(printable(text), quote=True)


def number(value: float) -> str:
    """Return a coordinate, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _element(name: str, role: str, attributes: str, title: str = "", opacity: float | None = None) -> str:
    """Return an element.

    Args:
        title: its tooltip.
        opacity: fill opacity, 0 to 1.
    """
    opened = f'<{name} class="slm-{role}" {attributes}'
    if opacity is not None:
        opened += f' fill-opacity="{opacity:.3f}"'
    return f"{opened}><title>{escaped(title)}</title></{name}>" if title else f"{opened}/>"


def line(x1: float, y1: float, x2: float, y2: float, role: str) -> str:
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return _element("line", role, ends)


def path(steps: Sequence[str | float], role: str, title: str = "", opacity: float | None = None) -> str:
    """Return a path.

    Args:
        steps: the commands and coordinates of SVG path data.
    """
    drawn = " ".join(step if isinstance(step, str) else number(step) for step in steps)
    return _element("path", role, f'd="{drawn}"', title, opacity)


def rectangle(
    x: float, y: float, width: float, height: float, role: str, title: str = "", opacity: float | None = None
) -> str:
    sides = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return _element("rect", role, sides, title, opacity)


def circle(x: float, y: float, radius: float, role: str, title: str = "", opacity: float | None = None) -> str:
    return _element("circle", role, f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"', title, opacity)


def text(
    x: float,
    y: float,
    content: str,
    role: str,
    anchor: Anchor = "start",
    turned: float = 0,
    title: str = "",
    within_right_to_left: bool = False,
) -> str:
    """Return one line of text.

    Args:
        x: x of the anchor on the baseline.
        y: y of the anchor on the baseline.
        turned: rotation around it, degrees clockwise.
    """
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
    if turned:
        place += f' transform="rotate({number(turned)} {number(x)} {number(y)})"'
    tooltip = f"<title>{escaped(title)}</title>" if title else ""
    return f'<text class="slm-{role}" {place}>{tooltip}{escaped(directed(content, within_right_to_left))}</text>'
