"""Means of one quantity by bins of another, with intervals: one chart per model, with the same axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from syntaxlm.drawing import svg
from syntaxlm.drawing.charts import tick_text, ticks
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import TEXT_SIZES, Picture, flowing
from syntaxlm.drawing.text import shortened, text_width, visible

WIDTH, HEIGHT = 300.0, 200.0  # pixels of the plot area of one chart
ROW = 1120.0  # pixels: three charts
CAP = 3.0  # pixels: half the width of the ends of an interval
NAME = 40  # characters of a chart's name


class BinnedMean(NamedTuple):
    """A bin. x: mean of its x values.  mean, low, high: of its y values, with the interval.  size: number of values."""

    x: float
    mean: float
    low: float
    high: float
    size: int


def binned_means_picture(series: Mapping[str, Sequence[BinnedMean]], x_label: str, y_label: str) -> Picture:
    """A chart per named series, in rows of three; all have the same axes."""
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
    foot = head + HEIGHT

    def across(x: float) -> float:
        return left + (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * WIDTH

    def up(y: float) -> float:
        return foot - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * HEIGHT

    parts = [svg.text(left, MARGIN + TEXT_SIZES["heading"], shortened(visible(name), NAME), "heading", title=name)]
    for y in y_ticks:
        parts.append(svg.line(left, up(y), left + WIDTH, up(y), "grid"))
        parts.append(svg.text(left - 6, up(y) + 3.5, tick_text(y, y_ticks), "small", "end"))
    parts.append(svg.line(left, foot, left + WIDTH, foot, "axis"))
    for x in x_ticks:
        parts.append(svg.line(across(x), foot, across(x), foot + 4, "axis"))
        parts.append(svg.text(across(x), foot + 16, tick_text(x, x_ticks), "small", "middle"))
    parts.append(svg.text(MARGIN + 8, head + HEIGHT / 2, y_label, "note", "middle", -90))
    parts.append(svg.text(left + WIDTH / 2, foot + 34, x_label, "note", "middle"))
    parts.append(svg.polyline([(across(one.x), up(one.mean)) for one in bins], "line-0"))
    for one in bins:
        x = across(one.x)
        parts.append(svg.line(x, up(one.low), x, up(one.high), "axis"))
        parts += [svg.line(x - CAP, up(end), x + CAP, up(end), "axis") for end in (one.low, one.high)]
        tooltip = f"{one.x:.2f}: {one.mean:.4g} ({one.low:.4g} to {one.high:.4g}), {one.size:,} words"
        parts.append(svg.circle(x, up(one.mean), 3, "area-0", tooltip))
    described = "; ".join(f"{one.x:.2f}: {one.mean:.4g}" for one in bins)
    return Picture(left + WIDTH + 24, foot + 40 + MARGIN, tuple(parts), name, f"{name}: {described}.")
