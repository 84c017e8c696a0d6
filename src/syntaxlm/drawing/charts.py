"""Line charts and bar charts with axes, ticks and a legend.

Not drawn with matplotlib because its SVG has fixed colours (no dark mode), no tooltips, and ids that clash when two
charts are on one page; its charts cannot be stacked with trees, and take 0.5 s or more each, where these take 1 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import SERIES, TEXT_SIZES, Picture, Theme
from syntaxlm.drawing.text import shortened, text_width, visible

WIDTH, HEIGHT = 640.0, 300.0  # pixels of the plot area
GROUP = 44.0  # pixels: least width of a group of bars
BAR = 14.0  # pixels: least width of a bar
LABEL = 28  # characters of a bar's name; longer ones are shortened in the middle
MARKED = 40  # points: longer lines have no markers
KEY = 24.0  # pixels: width of a colour sample in the legend
TURNED = 40.0  # degrees: rotation of names wider than their group

Point = tuple[float, float]


def line_chart_svg(
    series: Mapping[str, Sequence[Point]], title: str, x_label: str = "", y_label: str = "", theme: Theme = "auto"
) -> str:
    """Lines as an SVG document; see `line_chart`."""
    return line_chart(series, title, x_label, y_label).svg(theme)


def bar_chart_svg(
    names: Sequence[str], series: Mapping[str, Sequence[float]], title: str, y_label: str = "", theme: Theme = "auto"
) -> str:
    """Bars as an SVG document; see `bar_chart`."""
    return bar_chart(names, series, title, y_label).svg(theme)


def line_chart(series: Mapping[str, Sequence[Point]], title: str, x_label: str = "", y_label: str = "") -> Picture:
    """One line per named series of points (x, y), in the given order; a non-finite value interrupts the line.

    The y axis may start above 0. Raises ValueError for more series than there are colours.
    """
    _check_count(series)
    points = [point for line in series.values() for point in line if all(map(math.isfinite, point))]
    first, last = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=1.0)
    x_ticks = ticks(0.0 if first == last > 0 else first, last)  # from 0 if all points have the same x
    y_ticks = ticks(min((y for _, y in points), default=0), max((y for _, y in points), default=1))
    frame = _Frame.of(series, title, x_label, y_label, WIDTH, y_ticks, below=20, of_lines=True)
    left, right = x_ticks[0], x_ticks[-1]

    def across(x: float) -> float:
        return frame.left + (x - left) / (right - left) * frame.width

    parts = frame.elements()
    for x in x_ticks:
        parts.append(svg.line(across(x), frame.foot, across(x), frame.foot + 4, "axis"))
        parts.append(svg.text(across(x), frame.foot + 16, tick_text(x, x_ticks), "small", "middle"))
    for place, (name, line) in enumerate(series.items()):
        marked = len(line) <= MARKED
        for run in _finite_runs(line):
            placed = [(across(x), frame.up(y)) for x, y in run]
            if len(placed) > 1:
                parts.append(svg.polyline(placed, f"line-{place}"))
            if marked or len(placed) == 1:
                tooltips = [f"{name}: {x:g}, {y:.4g}" for x, y in run]
                parts += [svg.circle(*at, 3, f"area-{place}", text) for at, text in zip(placed, tooltips, strict=True)]
    return frame.picture(parts)


def bar_chart(names: Sequence[str], series: Mapping[str, Sequence[float]], title: str, y_label: str = "") -> Picture:
    """A group of bars per name, one bar per series, from 0; a non-finite value has no bar.

    Values are written above the bars if all of them fit.
    Raises ValueError for a series whose number of values is not that of the names, and for more series than colours.
    """
    _check_count(series)
    for name, values in series.items():
        if len(values) != len(names):
            raise ValueError(f"series {name!r} has {len(values)} values for {len(names)} names")
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    y_ticks = ticks(min([0.0, *finite]), max([0.0, *finite], default=1.0))
    shown = [shortened(visible(name), LABEL) for name in names]
    group = max(GROUP, BAR * len(series) * 1.4)
    width = max(min(WIDTH, len(names) * 140.0), len(names) * group)
    group = width / max(1, len(names))
    widest = max((text_width(name, TEXT_SIZES["label"]) for name in shown), default=0.0)
    turned = widest > group - 6
    angle = math.radians(TURNED)
    below = widest * math.sin(angle) + 20 if turned else 22.0
    # Rotated names extend to the left of the first group.
    reach = widest * math.cos(angle) - group / 2 if turned else 0.0
    frame = _Frame.of(series, title, "", y_label, width, y_ticks, below, reach)

    parts = frame.elements()
    bar = _bar_width(group, len(series))
    with_values = all(text_width(f"{value:.4g}", TEXT_SIZES["small"]) <= bar for value in finite)
    for place, name in enumerate(shown):
        middle = frame.left + (place + 0.5) * group
        parts.append(
            svg.text(middle + 4, frame.foot + 15, name, "label", "end", -TURNED)
            if turned
            else svg.text(middle, frame.foot + 16, name, "label", "middle")
        )
        of_name = {key: values[place] for key, values in series.items()}
        parts += _group(frame, of_name, names[place], middle, bar, with_values)
    return frame.picture(parts)


def _bar_width(group: float, series: int) -> float:
    """Width of each bar of a group in pixels, including the gap to the next bar."""
    return min(0.8 * group / max(1, series), 44.0)


def _group(
    frame: _Frame, values: Mapping[str, float], name: str, middle: float, width: float, with_values: bool
) -> list[str]:
    """The bars of one name. values: by series. middle: x of the group. width: pixels for each bar."""
    parts = []
    for place, (key, value) in enumerate(values.items()):
        if not math.isfinite(value):
            continue
        x = middle + (place - len(values) / 2) * width
        low, high = sorted((frame.up(0), frame.up(value)))
        tooltip = f"{name}, {key}: {value:.4g}"
        parts.append(svg.rectangle(x + 1, low, width - 2, max(high - low, 1), f"area-{place}", tooltip))
        if with_values:
            y = high + 10 if value < 0 else low - 3
            parts.append(svg.text(x + width / 2, y, f"{value:.4g}", "small", "middle"))
    return parts


@dataclass(frozen=True)
class _Frame:
    """Axes, title and legend, in pixels. left, head, foot: edges of the plot area. below: height of the x labels."""

    title: str
    names: tuple[str, ...]
    x_label: str
    y_label: str
    left: float
    width: float
    head: float
    below: float
    y_ticks: tuple[float, ...]
    of_lines: bool

    @classmethod
    def of(
        cls,
        series: Mapping[str, object],
        title: str,
        x_label: str,
        y_label: str,
        width: float,
        y_ticks: tuple[float, ...],
        below: float,
        reach: float = 0.0,
        of_lines: bool = False,
    ) -> _Frame:
        figures = max(text_width(tick_text(y, y_ticks), TEXT_SIZES["small"]) for y in y_ticks)
        left = max(MARGIN + figures + 10 + (18 if y_label else 0), reach + MARGIN)
        names = tuple(series) if len(series) > 1 else ()
        rows = len(_legend_rows(names, width))
        head = MARGIN + (24 if title else 4) + 20 * rows + 6
        return cls(title, names, x_label, y_label, left, width, head, below, y_ticks, of_lines)

    @property
    def foot(self) -> float:
        return self.head + HEIGHT

    def up(self, y: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.foot - (y - low) / (high - low) * HEIGHT

    def elements(self) -> list[str]:
        """Title, legend, y axis with its grid, x axis, labels."""
        parts = [svg.text(MARGIN, MARGIN + TEXT_SIZES["title"], self.title, "title")] if self.title else []
        y = MARGIN + (24 if self.title else 4)
        for row in _legend_rows(self.names, self.width):
            x = self.left
            for place, name in row:
                parts.append(
                    svg.polyline([(x, y + 9), (x + KEY, y + 9)], f"line-{place}")
                    if self.of_lines
                    else svg.rectangle(x + KEY - 12, y + 3, 12, 12, f"area-{place}")
                )
                parts.append(svg.text(x + KEY + 6, y + 13, name, "note"))
                x += _legend_width(name)
            y += 20
        for tick in self.y_ticks:
            at = self.up(tick)
            parts.append(svg.line(self.left, at, self.left + self.width, at, "axis" if tick == 0 else "grid"))
            parts.append(svg.text(self.left - 6, at + 3.5, tick_text(tick, self.y_ticks), "small", "end"))
        parts.append(svg.line(self.left, self.foot, self.left + self.width, self.foot, "axis"))
        if self.y_label:
            middle = self.head + HEIGHT / 2
            parts.append(svg.text(MARGIN + 8, middle, self.y_label, "note", "middle", -90))
        if self.x_label:
            x = self.left + self.width / 2
            parts.append(svg.text(x, self.foot + self.below + 12, self.x_label, "note", "middle"))
        return parts

    def picture(self, parts: Sequence[str]) -> Picture:
        height = self.foot + self.below + (18 if self.x_label else 0) + MARGIN
        width = max(self.left + self.width + 24, text_width(self.title, TEXT_SIZES["title"]) * 1.1 + 2 * MARGIN)
        return Picture(width, height, tuple(parts), self.title or self.y_label or "chart", ", ".join(self.names))


def _legend_width(name: str) -> float:
    return KEY + 6 + text_width(name, TEXT_SIZES["note"]) + 20


def _legend_rows(names: Sequence[str], width: float) -> list[list[tuple[int, str]]]:
    """Index and name of each series, in rows with as many series as fit."""
    rows: list[list[tuple[int, str]]] = []
    room = 0.0
    for place, name in enumerate(names):
        room -= _legend_width(name)
        if not rows or room < 0:
            rows.append([])
            room = width - _legend_width(name)
        rows[-1].append((place, name))
    return rows


def _check_count(series: Mapping[str, object]) -> None:
    if len(series) > len(SERIES):
        raise ValueError(f"found {len(series)} series; expected at most {len(SERIES)}, the number of colours")


def _finite_runs(line: Sequence[Point]) -> list[list[Point]]:
    runs: list[list[Point]] = [[]]
    for point in line:
        if all(map(math.isfinite, point)):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Evenly spaced round numbers that cover `low` to `high`: at least two, roughly `about`."""
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(place * step for place in range(first, last + 1))


def tick_text(value: float, among: Sequence[float]) -> str:
    """The text of a tick, with as many decimals as the tick spacing needs."""
    step = min((after - before for before, after in pairwise(among)), default=1.0)
    if max(map(abs, among)) >= 1e6 or step < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:  # steps of 2.5
        decimals += 1
    return f"{value or 0.0:,.{decimals}f}"  # not -0
