"""Pictures: SVG elements with a size, their style sheet, and the documents built from them.

A picture's elements have roles instead of colours. The style sheet gives each role its light and dark colours and its
text size; layouts measure text with the same sizes. Every document has its own background, so it is legible anywhere.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from syntaxlm.drawing.text import directed, printable

Theme = Literal["auto", "light", "dark"]
Anchor = Literal["start", "middle", "end"]

# Listed by name, because only browsers have a default font: sans-serif fonts of common systems, then fonts
# for scripts that these lack.
FONTS = ",".join(
    f"'{name}'"
    for name in (
        "Noto Sans", "DejaVu Sans", "Segoe UI", "Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "Roboto",
        "Ubuntu", "Cantarell", "Open Sans", "FreeSans", "Nimbus Sans", "Verdana", "Noto Sans Arabic",
        "Noto Sans Hebrew", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei",
        "Noto Color Emoji",
    )
) + ",sans-serif"  # fmt: skip

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
    "relation": 11,
    "relation-root": 11,
}

# name: (light, dark). The colours of series are safe for colour-blind readers (after Okabe and Ito 2008).
_COLOURS = {
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
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2")

_RULES = {
    "paper": "fill:{paper}",
    "word": "fill:{ink}",
    "unknown": "fill:{faint};text-decoration:underline",
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
    "target": "fill:none;pointer-events:all",
    "guide": "fill:none;stroke:{guide};stroke-width:1;stroke-dasharray:2 3",
    "level": "fill:none;stroke:{faint};stroke-width:1;stroke-dasharray:6 4",
    "axis": "fill:none;stroke:{edge};stroke-width:1",
    "grid": "fill:none;stroke:{guide};stroke-width:1",
    "bar": "fill:{bar}",
    "cell": "fill:{cell};stroke:{guide}",
    "negative": "fill:{negative};stroke:{guide}",
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
class Picture:
    """SVG elements with a size, drawn in order.

    width, height: pixels. title: what the picture shows, in one line. description: the full content as text, for
    screen readers.
    """

    width: float
    height: float
    elements: tuple[str, ...]
    title: str
    description: str = ""

    def svg(self, theme: Theme = "auto") -> str:
        """The picture as an SVG document, also for embedding in HTML. theme: auto follows the reader's system."""
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


def stacked(pictures: Sequence[Picture], title: str = "", gap: float = 16, align_right: bool = False) -> Picture:
    """Pictures stacked vertically. title: by default that of the first."""
    width = max(picture.width for picture in pictures)
    elements: list[str] = []
    height = -gap
    for picture in pictures:
        left = width - picture.width if align_right else 0
        elements.append(_moved(picture, left, height + gap))
        height += gap + picture.height
    return Picture(width, height, tuple(elements), title or pictures[0].title, _descriptions(pictures))


def beside(pictures: Sequence[Picture], title: str = "", gap: float = 24) -> Picture:
    """Pictures side by side. title: by default that of the first."""
    elements: list[str] = []
    width = -gap
    for picture in pictures:
        elements.append(_moved(picture, width + gap, 0))
        width += gap + picture.width
    height = max(picture.height for picture in pictures)
    return Picture(width, height, tuple(elements), title or pictures[0].title, _descriptions(pictures))


def flowing(pictures: Sequence[Picture], width: float, title: str = "", align_right: bool = False) -> Picture:
    """Pictures in rows of at most `width` pixels; a wider picture has a row to itself."""
    rows: list[list[Picture]] = [[]]
    for picture in pictures:
        if rows[-1] and sum(one.width for one in rows[-1]) + picture.width > width:
            rows.append([])
        rows[-1].append(picture)
    return stacked([beside(row) for row in rows], title, align_right=align_right)


def _moved(picture: Picture, right: float, down: float) -> str:
    inner = "".join(picture.elements)
    return f'<g transform="translate({number(right)} {number(down)})" aria-label="{escaped(picture.title)}">{inner}</g>'


def _descriptions(pictures: Sequence[Picture]) -> str:
    return " ".join(picture.description for picture in pictures if picture.description)


def style_sheet(theme: Theme = "auto") -> str:
    """Colours and text sizes of all roles, as rules that only apply inside these pictures."""
    if theme != "auto":
        return _rules(dark=theme == "dark")
    return f"{_rules(dark=False)}@media (prefers-color-scheme:dark){{{_rules(dark=True)}}}"


@cache
def _rules(dark: bool) -> str:
    colours = {name: pair[dark] for name, pair in _COLOURS.items()}
    rules = {role: rule.format_map(colours) for role, rule in _RULES.items()}
    for role, size in TEXT_SIZES.items():
        rules[role] += f";font-size:{size}px"
    for place, pair in enumerate(SERIES):
        rules[f"area-{place}"] = f"fill:{pair[dark]}"
        rules[f"line-{place}"] = f"fill:none;stroke:{pair[dark]};stroke-width:2;stroke-dasharray:{_DASHES[place]}"
    return f".syntaxlm text{{font-family:{FONTS}}}" + "".join(
        f".syntaxlm .slm-{role}{{{rule}}}" for role, rule in rules.items()
    )


def escaped(text: str) -> str:
    """Text escaped for the content or an attribute of an element."""
    return html.escape(printable(text), quote=True)


def number(value: float) -> str:
    """A coordinate, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _titled(element: str, role: str, attributes: str, title: str) -> str:
    opened = f'<{element} class="slm-{role}" {attributes}'
    return f"{opened}><title>{escaped(title)}</title></{element}>" if title else f"{opened}/>"


def line(x1: float, y1: float, x2: float, y2: float, role: str) -> str:
    ends = zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
    return _titled("line", role, " ".join(f'{name}="{number(value)}"' for name, value in ends), "")


def polyline(points: Sequence[tuple[float, float]], role: str) -> str:
    joined = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return f'<polyline class="slm-{role}" points="{joined}"/>'


def path(steps: Sequence[str | float], role: str, title: str = "") -> str:
    """steps: the commands and coordinates of SVG path data."""
    drawn = " ".join(step if isinstance(step, str) else number(step) for step in steps)
    return _titled("path", role, f'd="{drawn}"', title)


def rectangle(
    x: float, y: float, width: float, height: float, role: str, title: str = "", opacity: float | None = None
) -> str:
    """opacity: fill opacity, 0 to 1."""
    sides = zip(("x", "y", "width", "height"), (x, y, width, height), strict=True)
    attributes = " ".join(f'{name}="{number(value)}"' for name, value in sides)
    return _titled("rect", role, attributes + _fill_opacity(opacity), title)


def circle(x: float, y: float, radius: float, role: str, title: str = "", opacity: float | None = None) -> str:
    """opacity: fill opacity, 0 to 1."""
    attributes = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    return _titled("circle", role, attributes + _fill_opacity(opacity), title)


def _fill_opacity(opacity: float | None) -> str:
    return "" if opacity is None else f' fill-opacity="{opacity:.3f}"'


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
    """One line of text. x, y: the anchor on the baseline. turned: rotation around it, degrees clockwise."""
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
    if turned:
        place += f' transform="rotate({number(turned)} {number(x)} {number(y)})"'
    tooltip = f"<title>{escaped(title)}</title>" if title else ""
    return f'<text class="slm-{role}" {place}>{tooltip}{escaped(directed(content, within_right_to_left))}</text>'
