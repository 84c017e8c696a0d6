"""Line charts, scatter plots and bar charts with axes, ticks and a legend.

Not drawn with matplotlib because its SVG has fixed colours (no dark mode), no tooltips, and ids that clash when two
charts are on one page; its charts cannot be stacked with trees, and take 0.5 s or more each, where these take 1 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import (
    SERIES,
    TEXT_SIZES,
    Anchor,
    Picture,
    figure,
    flowing,
    right_to_left,
    shortened,
    text_width,
    visible,
)

WIDTH, HEIGHT = 640.0, 300.0  # pixels of the plot area
GROUP = 44.0  # pixels: least width of a group of bars
BAR = 14.0  # pixels: least width of a bar
LABEL = 28  # characters of a bar's name; longer ones are shortened in the middle
MARKED = 40  # points: longer lines have no markers
KEY = 24.0  # pixels: width of a colour sample in the legend
TURNED = 40.0  # degrees: rotation of names wider than their group
SQUARE = 420.0  # pixels: sides of the plot area of a scatter plot
RADIUS = 4.5  # pixels: half the size of a scatter plot's markers
CAP = 3.0  # pixels: half the width of the ends of an interval
MOST_LOG_TICKS = 7

Point = tuple[float, float]
Interval = tuple[float, float, float]
Sample = Literal["line", "bar", "marker"]


def line_chart(
    series: Mapping[str, Sequence[Point]],
    title: str,
    x_label: str = "",
    y_label: str = "",
    *,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
    levels: Mapping[str, float] | None = None,
    intervals: Mapping[str, Sequence[Interval]] | None = None,
    width: float = WIDTH,
) -> Picture:
    """Return one line per named series of points (x, y), in the given order; a non-finite value interrupts the line.

    log_x, log_y: logarithmic axes, for positive values.  from_zero: whether the x axis starts at 0.
    levels: horizontal lines by name, at these y.  intervals: by series, vertical lines (x, low, high).
    width: of the plot area, in pixels.
    The y axis may start above 0. Raises ValueError for more series than there are colours, and for a value that is not
    positive on a logarithmic axis.
    """
    _check_count(series)
    levels, intervals = levels or {}, intervals or {}
    points = [point for line in series.values() for point in line if all(map(math.isfinite, point))]
    ends = [end for one in intervals.values() for _, low, high in one for end in (low, high)]
    xs, heights = [x for x, _ in points], [*(y for _, y in points), *levels.values(), *ends]
    if from_zero or (len(set(xs)) == 1 and xs[0] > 0 and not log_x):
        xs.append(0.0)
    x_axis = _Axis.over(xs, log_x)
    frame = _Frame.of(
        series, title, x_label, y_label, width, _Axis.over(heights, log_y), below=20, sample="line", x_axis=x_axis
    )
    across = frame.across
    parts = frame.elements()
    for name, level in levels.items():
        y = frame.up(level)
        parts.append(svg.line(frame.left, y, frame.left + frame.width, y, "level"))
        parts.append(svg.text(frame.left + 4, y + 12 if y + 16 < frame.foot else y - 4, name, "small"))
    for place, (name, line) in enumerate(series.items()):
        marked = len(line) <= MARKED
        for x, low, high in intervals.get(name, ()):
            parts.append(svg.line(across(x), frame.up(low), across(x), frame.up(high), "axis"))
            parts += [
                svg.line(across(x) - CAP, frame.up(end), across(x) + CAP, frame.up(end), "axis") for end in (low, high)
            ]
        for run in _finite_runs(line):
            placed = [(across(x), frame.up(y)) for x, y in run]
            if len(placed) > 1:
                parts.append(svg.polyline(placed, f"line-{place}"))
            if marked or len(placed) == 1:
                tooltips = [f"{name}: {x:g}, {y:.4g}" for x, y in run]
                parts += [svg.circle(*at, 3, f"area-{place}", text) for at, text in zip(placed, tooltips, strict=True)]
    return frame.picture(parts)


def scatter_chart(
    series: Mapping[str, Sequence[Point]],
    title: str,
    x_label: str = "",
    y_label: str = "",
    lines: Sequence[tuple[Point, Point]] = (),
) -> Picture:
    """Return points (x, y) by series, in a square; each series has a marker and a colour. lines: from point to point,
    dashed.

    Both axes start at 0 or below. Raises ValueError for more series than there are colours.
    """
    _check_count(series)
    points = [point for some in series.values() for point in some]
    both = [*points, *(point for ends in lines for point in ends)]
    x_axis, y_axis = (_Axis.over([0.0, *(point[side] for point in both)]) for side in (0, 1))
    frame = _Frame.of(
        series, title, x_label, y_label, SQUARE, y_axis, below=20, sample="marker", x_axis=x_axis, height=SQUARE
    )
    parts = frame.elements()
    parts += [
        svg.line(frame.across(start[0]), frame.up(start[1]), frame.across(end[0]), frame.up(end[1]), "level")
        for start, end in lines
    ]
    for place, (name, some) in enumerate(series.items()):
        parts += [_marker(place, frame.across(x), frame.up(y), f"{name}: {x:.4g}, {y:.4g}") for x, y in some]
    return frame.picture(parts)


def _marker(place: int, x: float, y: float, tooltip: str = "") -> str:
    """Return the marker of a series: circle, square, diamond, triangle, and again."""
    role, half = f"area-{place}", RADIUS
    if place % 4 == 0:
        return svg.circle(x, y, half, role, tooltip)
    corners: list[tuple[float, float]] = {
        1: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2: [(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        3: [(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
    }[place % 4]
    steps: list[str | float] = []
    for across, down in corners:
        steps += ["L" if steps else "M", x + half * across, y + half * down]
    return svg.path([*steps, "Z"], role, tooltip)


def bar_chart(names: Sequence[str], series: Mapping[str, Sequence[float]], title: str, y_label: str = "") -> Picture:
    """Return a group of bars per name, one bar per series, from 0; a non-finite value has no bar.

    Values are written above the bars if all of them fit.
    Raises ValueError for a series whose number of values is not that of the names, and for more series than colours.
    """
    _check_count(series)
    for name, values in series.items():
        if len(values) != len(names):
            raise ValueError(f"series {name!r} has {len(values)} values for {len(names)} names")
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    y_axis = _Axis(ticks(min([0.0, *finite]), max([0.0, *finite], default=1.0)))
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
    frame = _Frame.of(series, title, "", y_label, width, y_axis, below, reach)

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
    """Return width of each bar of a group in pixels, including the gap to the next bar."""
    return min(0.8 * group / max(1, series), 44.0)


def _group(
    frame: _Frame, values: Mapping[str, float], name: str, middle: float, width: float, with_values: bool
) -> list[str]:
    """Return the bars of one name. values: by series. middle: x of the group. width: pixels for each bar."""
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
class _Axis:
    """ticks: in ascending order; the axis extends from the first to the last.  log: whether it is logarithmic."""

    ticks: tuple[float, ...]
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], log: bool = False) -> _Axis:
        """Return the axis that covers some values. Raises ValueError for one that is not positive, if log."""
        low, high = min(values, default=1.0 if log else 0.0), max(values, default=1.0)
        if log and low <= 0:
            raise ValueError(f"found {low:g} on a logarithmic axis; expected positive values")
        return cls(log_ticks(low, high) if log else ticks(low, high), log)

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the first tick, 1 at the last."""
        value, low, high = (math.log(one) if self.log else one for one in (value, self.ticks[0], self.ticks[-1]))
        return (value - low) / (high - low)


@dataclass(frozen=True)
class _Frame:
    """Axes, title and legend, in pixels.

    left, head: edges of the plot area; width, height: its size. below: height of the x labels. sample: what the legend
    shows of a series. x_axis: None for bars.
    """

    title: str
    names: tuple[str, ...]
    x_label: str
    y_label: str
    left: float
    width: float
    head: float
    height: float
    below: float
    y_axis: _Axis
    sample: Sample
    x_axis: _Axis | None

    @classmethod
    def of(
        cls,
        series: Mapping[str, object],
        title: str,
        x_label: str,
        y_label: str,
        width: float,
        y_axis: _Axis,
        below: float,
        reach: float = 0.0,
        sample: Sample = "bar",
        x_axis: _Axis | None = None,
        height: float = HEIGHT,
    ) -> _Frame:
        figures = max(text_width(tick_text(y, y_axis.ticks), TEXT_SIZES["small"]) for y in y_axis.ticks)
        left = max(MARGIN + figures + 10 + (18 if y_label else 0), reach + MARGIN)
        names = tuple(series) if len(series) > 1 else ()
        rows = len(_legend_rows(names, width))
        head = MARGIN + (24 if title else 4) + 20 * rows + 6
        return cls(title, names, x_label, y_label, left, width, head, height, below, y_axis, sample, x_axis)

    @property
    def foot(self) -> float:
        return self.head + self.height

    def across(self, x: float) -> float:
        assert self.x_axis is not None
        return self.left + self.x_axis.share(x) * self.width

    def up(self, y: float) -> float:
        return self.foot - self.y_axis.share(y) * self.height

    def elements(self) -> list[str]:
        """Return title, legend, y axis with its grid, x axis with its ticks, labels."""
        parts = [svg.text(MARGIN, MARGIN + TEXT_SIZES["title"], self.title, "title")] if self.title else []
        y = MARGIN + (24 if self.title else 4)
        for row in _legend_rows(self.names, self.width):
            x = self.left
            for place, name in row:
                parts.append(self._key(place, x, y))
                parts.append(svg.text(x + KEY + 6, y + 13, name, "note"))
                x += _legend_width(name)
            y += 20
        for tick in self.y_axis.ticks:
            at = self.up(tick)
            parts.append(svg.line(self.left, at, self.left + self.width, at, "axis" if tick == 0 else "grid"))
            parts.append(svg.text(self.left - 6, at + 3.5, tick_text(tick, self.y_axis.ticks), "small", "end"))
        parts.append(svg.line(self.left, self.foot, self.left + self.width, self.foot, "axis"))
        x_ticks = () if self.x_axis is None else self.x_axis.ticks
        for tick in x_ticks:
            at = self.across(tick)
            parts.append(svg.line(at, self.foot, at, self.foot + 4, "axis"))
            parts.append(svg.text(at, self.foot + 16, tick_text(tick, x_ticks), "small", "middle"))
        if self.y_label:
            middle = self.head + self.height / 2
            parts.append(svg.text(MARGIN + 8, middle, self.y_label, "note", "middle", -90))
        if self.x_label:
            x = self.left + self.width / 2
            parts.append(svg.text(x, self.foot + self.below + 12, self.x_label, "note", "middle"))
        return parts

    def _key(self, place: int, x: float, y: float) -> str:
        """Return what the legend shows before the name of a series, KEY wide."""
        if self.sample == "line":
            return svg.polyline([(x, y + 9), (x + KEY, y + 9)], f"line-{place}")
        if self.sample == "marker":
            return _marker(place, x + KEY / 2, y + 9)
        return svg.rectangle(x + KEY - 12, y + 3, 12, 12, f"area-{place}")

    def picture(self, parts: Sequence[str]) -> Picture:
        height = self.foot + self.below + (18 if self.x_label else 0) + MARGIN
        width = max(self.left + self.width + 24, text_width(self.title, TEXT_SIZES["title"]) * 1.1 + 2 * MARGIN)
        return Picture(width, height, tuple(parts), self.title or self.y_label or "chart", ", ".join(self.names))


def _legend_width(name: str) -> float:
    return KEY + 6 + text_width(name, TEXT_SIZES["note"]) + 20


def _legend_rows(names: Sequence[str], width: float) -> list[list[tuple[int, str]]]:
    """Return index and name of each series, in rows with as many series as fit."""
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
    """Return evenly spaced round numbers that cover `low` to `high`: at least two, roughly `about`."""
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(place * step for place in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round numbers that cover `low` to `high`, both positive: the most of 10, of 10, 20 and 50, and so on, up
    to MOST_LOG_TICKS, or else powers of ten.
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        first = max(place for place, value in enumerate(values) if value <= low * (1 + 1e-9))
        last = next(place for place, value in enumerate(values) if value >= high * (1 - 1e-9))
        found = tuple(values[first : max(last, first + 1) + 1])
        if len(found) <= MOST_LOG_TICKS:
            break
    return found


def tick_text(value: float, among: Sequence[float]) -> str:
    """Return the text of a tick, with as many decimals as the tick spacing needs."""
    step = min((after - before for before, after in pairwise(among)), default=1.0)
    if max(map(abs, among)) >= 1e8 or step < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:  # steps of 2.5
        decimals += 1
    return f"{value or 0.0:,.{decimals}f}"  # not -0


# Means of one quantity by bins of another, with intervals: one chart per model, with the same axes.


MEANS_WIDTH, MEANS_HEIGHT = 300.0, 200.0  # pixels of the plot area of one chart
ROW = 1120.0  # pixels: three charts
MEANS_CAP = 3.0  # pixels: half the width of the ends of an interval
NAME = 40  # characters of a chart's name


class BinnedMean(NamedTuple):
    """A bin. x: mean of its x values.  mean, low, high: of its y values, with the interval.  size: number of values."""

    x: float
    mean: float
    low: float
    high: float
    size: int


def binned_means_picture(series: Mapping[str, Sequence[BinnedMean]], x_label: str, y_label: str) -> Picture:
    """Return a chart per named series, in rows of three; all have the same axes."""
    points = [one for bins in series.values() for one in bins]
    x_ticks = ticks(0.0, max((one.x for one in points), default=1.0))
    y_ticks = ticks(min((one.low for one in points), default=0.0), max((one.high for one in points), default=1.0))
    charts = [_chart(name, bins, x_label, y_label, x_ticks, y_ticks) for name, bins in series.items()]
    return flowing(charts, ROW, f"{y_label} by {x_label}")


def _chart(
    name: str,
    bins: Sequence[BinnedMean],
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
) -> Picture:
    figures = max(text_width(tick_text(y, y_ticks), TEXT_SIZES["small"]) for y in y_ticks)
    left, head = MARGIN + figures + 28, MARGIN + 28.0
    foot = head + MEANS_HEIGHT

    def across(x: float) -> float:
        return left + (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * MEANS_WIDTH

    def up(y: float) -> float:
        return foot - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * MEANS_HEIGHT

    parts = [svg.text(left, MARGIN + TEXT_SIZES["heading"], shortened(visible(name), NAME), "heading", title=name)]
    for y in y_ticks:
        parts.append(svg.line(left, up(y), left + MEANS_WIDTH, up(y), "grid"))
        parts.append(svg.text(left - 6, up(y) + 3.5, tick_text(y, y_ticks), "small", "end"))
    parts.append(svg.line(left, foot, left + MEANS_WIDTH, foot, "axis"))
    for x in x_ticks:
        parts.append(svg.line(across(x), foot, across(x), foot + 4, "axis"))
        parts.append(svg.text(across(x), foot + 16, tick_text(x, x_ticks), "small", "middle"))
    parts.append(svg.text(MARGIN + 8, head + MEANS_HEIGHT / 2, y_label, "note", "middle", -90))
    parts.append(svg.text(left + MEANS_WIDTH / 2, foot + 34, x_label, "note", "middle"))
    parts.append(svg.polyline([(across(one.x), up(one.mean)) for one in bins], "line-0"))
    for one in bins:
        x = across(one.x)
        parts.append(svg.line(x, up(one.low), x, up(one.high), "axis"))
        parts += [svg.line(x - MEANS_CAP, up(end), x + MEANS_CAP, up(end), "axis") for end in (one.low, one.high)]
        tooltip = f"{one.x:.2f}: {one.mean:.4g} ({one.low:.4g} to {one.high:.4g}), {one.size:,} words"
        parts.append(svg.circle(x, up(one.mean), 3, "area-0", tooltip))
    described = "; ".join(f"{one.x:.2f}: {one.mean:.4g}" for one in bins)
    return Picture(left + MEANS_WIDTH + 24, foot + 40 + MARGIN, tuple(parts), name, f"{name}: {described}.")


# Matrices as heat maps: gates, attention, span scores.
#
# Not drawn with matplotlib for the reasons given in `charts`; tooltips show the row, column and value of a cell.


HEAT_LABEL = 28  # characters of a label; longer ones are shortened in the middle
CELL, ROOMY_CELL, SMALL_CELL = 20.0, 32.0, 15.0  # pixels: default, with its value inside, in large maps
MOST_WITH_VALUES, LARGE = 12, 24  # rows or columns: up to 12, cells show values; above 24, cells are small
HEAT_TURNED = 65.0  # degrees: rotation of column labels wider than their cells
STRENGTHS = 12  # of the colour in compact maps
DARK = 0.72  # cells with at least this share of the full colour have their value in the background's colour

Matrix = npt.NDArray[np.floating] | Sequence[Sequence[float]]


def heat_map(
    matrix: Matrix,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    title: str,
    row_axis: str = "",
    column_axis: str = "",
    mirrored: bool | None = None,
    compact: bool = False,
) -> Picture:
    """Return one cell per value: the larger the value, the stronger the colour; negative values have another colour.

    matrix: (rows, columns); NaN and infinity have no cell. The largest absolute value has the full colour.
    row_axis, column_axis: what rows and columns are, for the caption below the map.
    mirrored: whether the first column is on the right; None: if most labels are in a right-to-left script.
    compact: no values and tooltips, and fewer shades, so that equal neighbours are one rectangle: for small files.
    Raises ValueError if labels and matrix have different sizes.
    """
    values = np.asarray(matrix, np.float64)
    if values.shape != (len(row_labels), len(column_labels)):
        raise ValueError(
            f"a map of shape {values.shape} has {len(row_labels)} row labels and {len(column_labels)} column labels"
        )
    rows = [shortened(visible(label), HEAT_LABEL) for label in row_labels]
    columns = [shortened(visible(label), HEAT_LABEL) for label in column_labels]
    if mirrored is None:
        mirrored = right_to_left(chain(rows, columns))
    return _Map(values, rows, columns, title, row_axis, column_axis, mirrored, compact).picture()


class _Map:
    """The layout of one heat map, and its elements."""

    def __init__(
        self,
        values: npt.NDArray[np.float64],
        rows: Sequence[str],
        columns: Sequence[str],
        title: str,
        row_axis: str,
        column_axis: str,
        mirrored: bool,
        compact: bool,
    ) -> None:
        self.compact = compact
        self.values, self.rows, self.columns = values, rows, columns
        self.title, self.row_axis, self.column_axis = title, row_axis, column_axis
        most = max(values.shape)
        self.with_values = most <= MOST_WITH_VALUES and not compact
        self.cell = ROOMY_CELL if self.with_values else CELL if most <= LARGE else SMALL_CELL
        self.mirrored = mirrored
        finite = np.abs(values[np.isfinite(values)])
        self.largest = float(finite.max()) if finite.size else 0.0

        self.row_room = max((self._width(label) for label in rows), default=0.0) + 8
        widest = max((self._width(label) for label in columns), default=0.0)
        self.turned = widest > self.cell - 4 and any(len(label) > 1 for label in columns)
        angle = math.radians(HEAT_TURNED)
        self.column_room = widest * math.sin(angle) + 14 if self.turned else 20.0
        self.top = MARGIN + TEXT_SIZES["title"] + 10 + self.column_room
        self.start = MARGIN + self.row_room
        overhang = widest * math.cos(angle) + 8 if self.turned else 0.0
        end = self.start + len(columns) * self.cell + overhang + MARGIN
        self.legend = self._legend_texts()
        legend_width = sum(text_width(text, TEXT_SIZES["note"]) for text in self.legend) + 110 + 2 * MARGIN
        self.width = max(end, text_width(title, TEXT_SIZES["title"]) * 1.1 + 2 * MARGIN, legend_width)
        self.bottom = self.top + len(rows) * self.cell

    @staticmethod
    def _width(label: str) -> float:
        return text_width(label, TEXT_SIZES["label"])

    def _legend_texts(self) -> tuple[str, str, str]:
        """Return the texts before and after the colour scale, and the axis names."""
        scale = (0.0, self.largest)
        least = "0" if not (self.values < 0).any() else figure(-self.largest, scale)
        axes = " ".join(
            text
            for text in (
                self.row_axis and f"rows: {self.row_axis}.",
                self.column_axis and f"columns: {self.column_axis}.",
            )
            if text
        )
        return least, figure(self.largest, scale), axes

    def across(self, x: float) -> float:
        return self.width - x if self.mirrored else x

    def picture(self) -> Picture:
        anchor: Anchor = "end" if self.mirrored else "start"
        heading = svg.text(self.across(MARGIN), MARGIN + TEXT_SIZES["title"], self.title, "title", anchor)
        cells = self._runs() if self.compact else self._cells()
        parts = [heading, *self._labels(), *cells, *self._legend()]
        return Picture(self.width, self.bottom + 44, tuple(parts), self.title, self.legend[2])

    def _labels(self) -> list[str]:
        row_anchor: Anchor = "start" if self.mirrored else "end"
        parts = [
            svg.text(
                self.across(self.start - 6), self.top + (i + 0.5) * self.cell + 4, label, "label", row_anchor,
                within_right_to_left=self.mirrored,
            )
            for i, label in enumerate(self.rows)
        ]  # fmt: skip
        column_anchor: Anchor = "middle"
        turn = 0.0
        if self.turned:
            column_anchor, turn = ("end", HEAT_TURNED) if self.mirrored else ("start", -HEAT_TURNED)
        for i, label in enumerate(self.columns):
            x = self.across(self.start + (i + 0.5) * self.cell + (3 if self.turned else 0))
            parts.append(svg.text(x, self.top - 6, label, "label", column_anchor, turn, "", self.mirrored))
        return parts

    def _cells(self) -> list[str]:
        parts = []
        scale = (0.0, self.largest)
        for i, j in np.argwhere(np.isfinite(self.values)).tolist():
            value = float(self.values[i, j])
            share = abs(value) / self.largest if self.largest else 0.0
            x, y = (
                self.across(self.start + j * self.cell) - (self.cell if self.mirrored else 0),
                self.top + i * self.cell,
            )
            tooltip = f"{self.rows[i]} → {self.columns[j]}: {value:.4g}"
            role = "negative" if value < 0 else "cell"
            parts.append(svg.rectangle(x, y, self.cell, self.cell, role, tooltip, share))
            shown = figure(value, scale)
            if self.with_values and text_width(shown, TEXT_SIZES["small"]) <= self.cell - 2:
                role = "inverse" if share > DARK else "figure"
                parts.append(svg.text(x + self.cell / 2, y + self.cell / 2 + 3.5, shown, role, "middle"))
        return parts

    def _runs(self) -> list[str]:
        """Return the cells of a compact map: a rectangle per column and run of rows with one shade, in a frame."""
        scale = STRENGTHS / self.largest if self.largest else 0.0
        shades = np.round(np.nan_to_num(self.values * scale, posinf=0.0, neginf=0.0)).astype(int)
        columns, rows = len(self.columns), len(self.rows)
        left = self.across(self.start) - (columns * self.cell if self.mirrored else 0)
        parts = [svg.rectangle(left, self.top, columns * self.cell, rows * self.cell, "frame")]
        for j, column in enumerate(shades.T):
            x = self.across(self.start + j * self.cell) - (self.cell if self.mirrored else 0)
            bounds = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), rows]
            for begin, end in pairwise(bounds):
                if end > begin and (shade := int(column[begin])):
                    role = "negative" if shade < 0 else "cell"
                    y, height = self.top + begin * self.cell, (end - begin) * self.cell
                    parts.append(svg.rectangle(x, y, self.cell, height, role, opacity=abs(shade) / STRENGTHS))
        return parts

    def _legend(self) -> list[str]:
        """Return the colour scale from least to greatest, and the axis names."""
        least, greatest, axes = self.legend
        y = self.bottom + 16
        x = MARGIN
        parts = [svg.text(x, y + 10, least, "note")]
        x += text_width(least, TEXT_SIZES["note"]) + 6
        for step in range(8):
            share = -1 + step / 3.5 if least != "0" else step / 7
            parts.append(svg.rectangle(x, y, 9, 12, "negative" if share < 0 else "cell", opacity=abs(share)))
            x += 9
        parts.append(svg.text(x + 6, y + 10, greatest, "note"))
        x += text_width(greatest, TEXT_SIZES["note"]) + 24
        return [*parts, svg.text(x, y + 10, axes, "note")]
