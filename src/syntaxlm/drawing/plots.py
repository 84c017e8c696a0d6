"""Line charts, scatter plots, bar charts, binned means and heat maps, with axes, ticks and legends.

Not drawn with matplotlib because its SVG has fixed colours (no dark mode), no tooltips, and ids that clash when two
charts are on one page; its charts cannot be stacked with trees, and take 0.5 s or more each, where these take 1 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import (
    SERIES,
    TEXT_SIZES,
    UNKNOWN,
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
GROUP = 44.0  # pixels: least width of a group of bars, greatest width of a bar
BAR = 14.0  # pixels: least width of a bar
LABEL = 28  # characters of a bar's name, a row or a column; longer ones are shortened in the middle
MARKED = 40  # points: longer lines have no markers
KEY = 24.0  # pixels: width of a colour sample in the legend
TURNED = 40.0  # degrees: rotation of names wider than their group
SQUARE = 420.0  # pixels: sides of the plot area of a scatter plot
RADIUS = 4.5  # pixels: half the size of a scatter plot's markers
CAP = 3.0  # pixels: half the width of the ends of an interval
MOST_LOG_TICKS = 7

# The corners of the markers of a scatter plot after the first, a circle: across and down, in radii.
_MARKERS = (
    [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    [(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    [(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
)

Point = tuple[float, float]
Interval = tuple[float, float, float]


def line_chart(
    series: Mapping[str, Sequence[Point]],
    title: str,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
    levels: Mapping[str, float] | None = None,
    intervals: Mapping[str, Sequence[Interval]] | None = None,
    width: float = WIDTH,
) -> Picture:
    """Return one line per named series of points (x, y), in the given order; a non-finite value interrupts the line.

    Lines of few points have markers. The y axis may start above 0.
    log_x, log_y: logarithmic axes, for positive values.  from_zero: whether the x axis starts at 0.
    levels: horizontal lines by name, at these y.  intervals: by series, vertical lines (x, low, high).
    width: of the plot area, in pixels.
    Raises ValueError for more series than there are colours, and for a value that is not positive on a logarithmic
    axis.
    """
    levels, intervals = levels or {}, intervals or {}
    points = [point for line in series.values() for point in line if all(map(math.isfinite, point))]
    ends = chain.from_iterable(interval[1:] for of_series in intervals.values() for interval in of_series)
    xs, ys = [x for x, _ in points], [*(y for _, y in points), *levels.values(), *ends]
    if from_zero or (len(set(xs)) == 1 and xs[0] > 0 and not log_x):
        xs.append(0.0)
    frame = _Frame(title, list(series), x_label, y_label, _Axis(xs, log_x), _Axis(ys, log_y), width)
    parts = frame.parts
    for name, level in levels.items():
        y = frame.up(level)
        parts.append(svg.line(frame.left, y, frame.left + width, y, "level"))
        parts.append(svg.text(frame.left + 4, y + 12 if y + 16 < frame.foot else y - 4, name, "small"))
    for place, (name, line) in enumerate(series.items()):
        for x, *ends_of in intervals.get(name, ()):
            frame.add_interval(frame.across(x), *ends_of)
        for is_finite, group in groupby(line, lambda point: all(map(math.isfinite, point))):
            run = list(group) if is_finite else []
            placed = [(frame.across(x), frame.up(y)) for x, y in run]
            if len(run) > 1:
                parts.append(svg.polyline(placed, f"line-{place}"))
            if len(run) == 1 or len(line) <= MARKED:
                for point, (x, y) in zip(placed, run, strict=True):
                    parts.append(svg.circle(*point, 3, f"area-{place}", f"{name}: {x:g}, {y:.4g}"))
    return frame.picture()


class BinnedMean(NamedTuple):
    """A bin. x: mean of its x values.  mean, low, high: of its y values, with the interval.  size: number of values."""

    x: float
    mean: float
    low: float
    high: float
    size: int


ROW = 1120.0  # pixels: three charts of binned means
NAME = 40  # characters of a chart's name


def binned_means_picture(series: Mapping[str, Sequence[BinnedMean]], x_label: str, y_label: str) -> Picture:
    """Return means of one quantity by bins of another: a chart per named series, in rows of three, with equal axes."""
    points = [point for bins in series.values() for point in bins]
    x_axis = _Axis([0.0, max((point.x for point in points), default=1.0)])
    y_axis = _Axis([min((point.low for point in points), default=0.0), *(point.high for point in points)])
    pictures = []
    for name, bins in series.items():
        frame = _Frame(shortened(visible(name), NAME), (), x_label, y_label, x_axis, y_axis, 300.0, 200.0)
        frame.parts.append(svg.polyline([(frame.across(point.x), frame.up(point.mean)) for point in bins], "line-0"))
        for point in bins:
            frame.add_interval(frame.across(point.x), point.low, point.high)
            interval = f"{point.low:.4g} to {point.high:.4g}"
            tooltip = f"{point.x:.2f}: {point.mean:.4g} ({interval}), {point.size:,} words"
            frame.parts.append(svg.circle(frame.across(point.x), frame.up(point.mean), 3, "area-0", tooltip))
        means = "; ".join(f"{point.x:.2f}: {point.mean:.4g}" for point in bins)
        pictures.append(replace(frame.picture(), title=name, description=f"{name}: {means}."))
    return flowing(pictures, ROW, f"{y_label} by {x_label}")


def scatter_chart(
    series: Mapping[str, Sequence[Point]],
    title: str,
    x_label: str = "",
    y_label: str = "",
    lines: Sequence[tuple[Point, Point]] = (),
) -> Picture:
    """Return points (x, y) by series, in a square; each series has a marker and a colour.

    lines: from point to point, dashed.  Both axes start at 0 or below.
    Raises ValueError for more series than there are colours.
    """
    points = [*chain.from_iterable(series.values()), *chain.from_iterable(lines)]
    x_axis, y_axis = (_Axis([0.0, *(point[side] for point in points)]) for side in (0, 1))
    frame = _Frame(title, list(series), x_label, y_label, x_axis, y_axis, SQUARE, SQUARE, key=_marker)
    for start, end in lines:
        ends = frame.across(start[0]), frame.up(start[1]), frame.across(end[0]), frame.up(end[1])
        frame.parts.append(svg.line(*ends, "level"))
    for place, (name, some) in enumerate(series.items()):
        frame.parts += [_marker(place, frame.across(x), frame.up(y), f"{name}: {x:.4g}, {y:.4g}") for x, y in some]
    return frame.picture()


def _marker(place: int, x: float, y: float, tooltip: str = "") -> str:
    """Return the marker of a series: circle, square, diamond, triangle, and again."""
    role, shape = f"area-{place}", place % (len(_MARKERS) + 1)
    if shape == 0:
        return svg.circle(x, y, RADIUS, role, tooltip)
    steps: list[str | float] = []
    for across, down in _MARKERS[shape - 1]:
        steps += ["L" if steps else "M", x + RADIUS * across, y + RADIUS * down]
    return svg.path([*steps, "Z"], role, tooltip)


def bar_chart(
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    title: str,
    y_label: str = "",
    intervals: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    unknown: Collection[int] = (),
) -> Picture:
    """Return a group of bars per name, one bar per series, from 0; a non-finite value has no bar.

    Values are written above the bars if all of them fit and there are no intervals.
    intervals: of each bar, (low, high), by series; a non-finite one is not drawn.
    unknown: indices of names that are words unknown to a model: marked, with paler bars.
    Raises ValueError for a series whose number of values is not that of the names, and for more series than colours.
    """
    for name, values in series.items():
        if len(values) != len(names):
            raise ValueError(f"series {name!r} has {len(values)} values for {len(names)} names")
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    ends = [end for pairs in (intervals or {}).values() for pair in pairs for end in pair if math.isfinite(end)]
    shown = [shortened(visible(name), LABEL) for name in names]
    group = max(GROUP, BAR * len(series) * 1.4)
    width = max(min(WIDTH, len(names) * 140.0), len(names) * group)
    group = width / max(1, len(names))
    widest = _widest(shown)
    is_turned, angle = widest > group - 6, math.radians(TURNED)
    # Turned names need room below, and extend to the left of the first group.
    below, reach = (widest * math.sin(angle) + 20, widest * math.cos(angle) - group / 2) if is_turned else (22.0, 0.0)
    y_axis = _Axis([0.0, *finite, *ends] if finite else [0.0, 1.0])

    def key(place: int, x: float, y: float) -> str:
        return svg.rectangle(x + KEY / 2 - 12, y - 6, 12, 12, f"area-{place}")

    frame = _Frame(title, list(series), "", y_label, None, y_axis, width, below=below, reach=reach, key=key)
    parts = frame.parts
    bar = min(0.8 * group / max(1, len(series)), GROUP)  # with the gap to the next one
    scale = min(finite, default=0.0), max(finite, default=0.0)
    widths = (text_width(figure(value, scale), TEXT_SIZES["small"]) for value in finite)
    with_values = not intervals and max(widths, default=0.0) <= bar
    for place, name in enumerate(shown):
        middle = frame.left + (place + 0.5) * group
        role, opacity = ("unknown", 0.35) if place in unknown else ("label", None)
        if is_turned:
            parts.append(svg.text(middle + 4, frame.foot + 15, name, role, "end", -TURNED))
        else:
            parts.append(svg.text(middle, frame.foot + 16, name, role, "middle"))
        for number, (series_name, values) in enumerate(series.items()):
            if math.isfinite(values[place]):
                value, x = values[place], middle + (number - len(series) / 2) * bar
                low, high = sorted((frame.up(0), frame.up(value)))
                tooltip = f"{names[place]}, {series_name}: {value:.4g}" + (f", {UNKNOWN}" if place in unknown else "")
                size = bar - 2, max(high - low, 1)
                parts.append(svg.rectangle(x + 1, low, *size, f"area-{number}", tooltip, opacity))
                if intervals and all(map(math.isfinite, intervals[series_name][place])):
                    frame.add_interval(x + bar / 2, *intervals[series_name][place])
                if with_values:
                    y = high + 10 if value < 0 else low - 3
                    parts.append(svg.text(x + bar / 2, y, figure(value, scale), "small", "middle"))
    return frame.picture()


class _Axis:
    """An axis that covers some values, from its first tick to its last. Raises ValueError if log and one is not > 0."""

    def __init__(self, values: Sequence[float], log: bool = False) -> None:
        low, high = min(values, default=1.0 if log else 0.0), max(values, default=1.0)
        if log and low <= 0:
            raise ValueError(f"found {low:g} on a logarithmic axis; expected positive values")
        self.ticks = log_ticks(low, high) if log else ticks(low, high)
        self.log = log

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the first tick, 1 at the last."""
        ends = value, self.ticks[0], self.ticks[-1]
        value, low, high = map(math.log, ends) if self.log else ends
        return (value - low) / (high - low)


def _line_key(place: int, x: float, y: float) -> str:
    return svg.polyline([(x - KEY / 2, y), (x + KEY / 2, y)], f"line-{place}")


class _Frame:
    """A chart: its axes, title and legend, in pixels. Its content is appended to `parts`.

    series: their names; more than one are in the legend.  x_axis: None for bars.  width, height: of the plot area.
    below: height of the x labels.  reach: of the x labels to the left of the area.  key: draws what the legend shows of
    a series, KEY wide: its number, x and y of the middle.
    Raises ValueError for more series than there are colours.
    """

    def __init__(
        self,
        title: str,
        series: Sequence[str],
        x_label: str,
        y_label: str,
        x_axis: _Axis | None,
        y_axis: _Axis,
        width: float,
        height: float = HEIGHT,
        below: float = 20.0,
        reach: float = 0.0,
        key: Callable[[int, float, float], str] = _line_key,
    ) -> None:
        if len(series) > len(SERIES):
            raise ValueError(f"found {len(series)} series; expected at most {len(SERIES)}, the number of colours")
        self.x_axis, self.y_axis, self.width, self.height = x_axis, y_axis, width, height
        y_texts = [tick_text(tick, y_axis.ticks) for tick in y_axis.ticks]
        figures = max(text_width(text, TEXT_SIZES["small"]) for text in y_texts)
        self.left = max(MARGIN + figures + 10 + (18 if y_label else 0), reach + MARGIN)  # x of the y axis
        self.parts = parts = [svg.text(MARGIN, MARGIN + TEXT_SIZES["title"], title, "title")] if title else []
        # The legend, in rows with as many series as fit.
        names = list(series) if len(series) > 1 else []
        x, y = self.left, MARGIN + (24 if title else 4)
        for place, name in enumerate(names):
            needed = KEY + 6 + text_width(name, TEXT_SIZES["note"]) + 20
            if x > self.left and x + needed > self.left + width:
                x, y = self.left, y + 20
            parts += [key(place, x + KEY / 2, y + 9), svg.text(x + KEY + 6, y + 13, name, "note")]
            x += needed
        head = y + (20 if names else 0) + 6  # y of the top of the plot area
        self.foot = head + height  # y of the x axis
        for tick, text in zip(y_axis.ticks, y_texts, strict=True):
            at = self.up(tick)
            parts.append(svg.line(self.left, at, self.left + width, at, "axis" if tick == 0 else "grid"))
            parts.append(svg.text(self.left - 6, at + 3.5, text, "small", "end"))
        parts.append(svg.line(self.left, self.foot, self.left + width, self.foot, "axis"))
        x_ticks = x_axis.ticks if x_axis else ()
        for tick in x_ticks:
            at = self.across(tick)
            parts.append(svg.line(at, self.foot, at, self.foot + 4, "axis"))
            parts.append(svg.text(at, self.foot + 16, tick_text(tick, x_ticks), "small", "middle"))
        if y_label:
            parts.append(svg.text(MARGIN + 8, head + height / 2, y_label, "note", "middle", -90))
        if x_label:
            parts.append(svg.text(self.left + width / 2, self.foot + below + 12, x_label, "note", "middle"))
        self.title, self.description = title or y_label or "chart", ", ".join(names)
        widest = text_width(title, TEXT_SIZES["title"]) * 1.1 + 2 * MARGIN
        self.size = max(self.left + width + 24, widest), self.foot + below + (18 if x_label else 0) + MARGIN

    def across(self, x: float) -> float:
        assert self.x_axis is not None
        return self.left + self.x_axis.share(x) * self.width

    def up(self, y: float) -> float:
        return self.foot - self.y_axis.share(y) * self.height

    def add_interval(self, x: float, low: float, high: float) -> None:
        """Draw a vertical line with short horizontal ends.  x: in pixels."""
        ends = self.up(low), self.up(high)
        self.parts.append(svg.line(x, ends[0], x, ends[1], "axis"))
        self.parts += [svg.line(x - CAP, y, x + CAP, y, "axis") for y in ends]

    def picture(self) -> Picture:
        return Picture(*self.size, tuple(self.parts), self.title, self.description)


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
    """Return round numbers that cover `low` to `high`, both positive.

    The most of 10, of 10, 20 and 50, and so on, up to MOST_LOG_TICKS, or else powers of ten.
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        first = max(place for place, value in enumerate(values) if value <= low * (1 + 1e-9))
        last = next(place for place, value in enumerate(values) if value >= high * (1 - 1e-9))
        covering = tuple(values[first : max(last, first + 1) + 1])
        if len(covering) <= MOST_LOG_TICKS:
            break
    return covering


def tick_text(value: float, among: Sequence[float]) -> str:
    """Return the text of a tick, with as many decimals as the tick spacing needs."""
    step = min((after - before for before, after in pairwise(among)), default=1.0)
    if max(map(abs, among)) >= 1e8 or step < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step * 10**decimals, 6) % 1:  # steps of 2.5
        decimals += 1
    return f"{value or 0.0:,.{decimals}f}"  # not -0


# Matrices as heat maps: gates, attention, span scores. Tooltips show the row, column and value of a cell.


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
    rows, columns = ([shortened(visible(label), LABEL) for label in labels] for labels in (row_labels, column_labels))
    if mirrored is None:
        mirrored = right_to_left(chain(rows, columns))
    with_values = not compact and max(values.shape) <= MOST_WITH_VALUES
    cell = ROOMY_CELL if with_values else CELL if max(values.shape) <= LARGE else SMALL_CELL
    widest, angle = _widest(columns), math.radians(HEAT_TURNED)
    is_turned = widest > cell - 4 and any(len(label) > 1 for label in columns)
    above, overhang = (widest * math.sin(angle) + 14, widest * math.cos(angle) + 8) if is_turned else (20.0, 0.0)
    start, top = MARGIN + _widest(rows) + 8, MARGIN + TEXT_SIZES["title"] + 10 + above
    axes = " ".join(f"{what}: {name}." for what, name in (("rows", row_axis), ("columns", column_axis)) if name)
    foot = top + len(rows) * cell
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    legend, legend_width = _colour_scale(bool((values < 0).any()), largest, axes, foot + 16)
    grid_width = start + len(columns) * cell + overhang + MARGIN
    width = max(grid_width, text_width(title, TEXT_SIZES["title"]) * 1.1 + 2 * MARGIN, legend_width)

    def across(x: float) -> float:
        return width - x if mirrored else x

    first: Anchor = "end" if mirrored else "start"
    last: Anchor = "start" if mirrored else "end"
    turn = 0.0 if not is_turned else HEAT_TURNED if mirrored else -HEAT_TURNED
    parts = [svg.text(across(MARGIN), MARGIN + TEXT_SIZES["title"], title, "title", first)]
    for row, label in enumerate(rows):
        y = top + (row + 0.5) * cell + 4
        parts.append(svg.text(across(start - 6), y, label, "label", last, within_right_to_left=mirrored))
    for column, label in enumerate(columns):
        x = across(start + (column + 0.5) * cell + (3 if is_turned else 0))
        anchor: Anchor = first if is_turned else "middle"
        parts.append(svg.text(x, top - 6, label, "label", anchor, turn, within_right_to_left=mirrored))
    lefts = [across(start + column * cell) - (cell if mirrored else 0) for column in range(len(columns))]
    tops = [top + row * cell for row in range(len(rows))]
    if compact:
        left = min(lefts, default=across(start))
        parts.append(svg.rectangle(left, top, len(columns) * cell, foot - top, "frame"))
        parts += _runs(values, largest, lefts, tops, cell)
    else:
        parts += _cells(values, largest, rows, columns, lefts, tops, cell, with_values)
    return Picture(width, foot + 44, (*parts, *legend), title, axes)


def _cells(
    values: npt.NDArray[np.float64],
    largest: float,
    rows: Sequence[str],
    columns: Sequence[str],
    lefts: Sequence[float],
    tops: Sequence[float],
    cell: float,
    with_values: bool,
) -> list[str]:
    """Return a square per finite value, with a tooltip, and with the value inside if wanted and if it fits.

    lefts, tops: x of the left sides of the columns, y of the upper sides of the rows.  cell: the side of a square.
    """
    parts = []
    for row, column in np.argwhere(np.isfinite(values)).tolist():
        value = float(values[row, column])
        share = abs(value) / largest if largest else 0.0
        x, y = lefts[column], tops[row]
        tooltip = f"{rows[row]} → {columns[column]}: {value:.4g}"
        parts.append(svg.rectangle(x, y, cell, cell, "negative" if value < 0 else "cell", tooltip, share))
        shown = figure(value, (0.0, largest))
        if with_values and text_width(shown, TEXT_SIZES["small"]) <= cell - 2:
            role = "inverse" if share > DARK else "figure"
            parts.append(svg.text(x + cell / 2, y + cell / 2 + 3.5, shown, role, "middle"))
    return parts


def _runs(
    values: npt.NDArray[np.float64], largest: float, lefts: Sequence[float], tops: Sequence[float], cell: float
) -> Iterator[str]:
    """Yield the cells of a compact map: a rectangle per column and run of rows with one shade."""
    scale = STRENGTHS / largest if largest else 0.0
    shades = np.round(np.nan_to_num(values * scale, posinf=0.0, neginf=0.0)).astype(int)
    for column, left in enumerate(lefts):
        bounds = [0, *(np.flatnonzero(np.diff(shades[:, column])) + 1).tolist(), len(tops)]
        for begin, end in pairwise(bounds):
            if end > begin and (shade := int(shades[begin, column])):
                role, opacity = "negative" if shade < 0 else "cell", abs(shade) / STRENGTHS
                yield svg.rectangle(left, tops[begin], cell, (end - begin) * cell, role, opacity=opacity)


def _colour_scale(has_negative: bool, largest: float, axes: str, y: float) -> tuple[list[str], float]:
    """Return the colour scale from least to greatest with the axis names behind it, and the width that it needs."""
    least = figure(-largest, (0.0, largest)) if has_negative else "0"
    greatest = figure(largest, (0.0, largest))
    x = MARGIN
    parts = [svg.text(x, y + 10, least, "note")]
    x += text_width(least, TEXT_SIZES["note"]) + 6
    for step in range(8):
        share = -1 + step / 3.5 if least != "0" else step / 7
        parts.append(svg.rectangle(x, y, 9, 12, "negative" if share < 0 else "cell", opacity=abs(share)))
        x += 9
    parts.append(svg.text(x + 6, y + 10, greatest, "note"))
    x += text_width(greatest, TEXT_SIZES["note"]) + 24
    parts.append(svg.text(x, y + 10, axes, "note"))
    width = sum(text_width(text, TEXT_SIZES["note"]) for text in (least, greatest, axes)) + 110 + 2 * MARGIN
    return parts, width


def _widest(labels: Sequence[str]) -> float:
    """Return the width of the widest label, in pixels."""
    return max((text_width(label, TEXT_SIZES["label"]) for label in labels), default=0.0)
