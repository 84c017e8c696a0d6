"""The plot of mean surprisals by region and condition. Lines that are not parallel show an interaction of factors."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.plots import GUIDE, Plot, draw_intervals, label_axes, line_style, name_ticks, new_plot
from syntaxlm.drawing.svg import SERIES, visible
from syntaxlm.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FILLS = ("full", "none", "left", "right", "top", "bottom")  # of the markers, by level of the last factor
SPREAD = 0.44  # between the first and the last level of the last factor, where 1 is between two regions
SHIFT = 0.07  # between two lines, so that intervals do not hide each other
LABEL_WIDTH = 16  # characters: longer names of regions have several lines
REGION = 1.25  # inches: width of a region

Levels = tuple[str, ...]
Means = Mapping[str, Mapping[str, Interval]]
"""The mean of each region and condition."""


def check_plotted_conditions(conditions: Mapping[str, Levels]) -> None:
    """Raise InputError for more conditions than a plot can tell apart.

    Args:
        conditions: the levels of each, by name.
    """
    lines, steps = _lines_and_steps(conditions)
    if len(lines) > len(SERIES) or len(steps) > len(FILLS):
        raise InputError(
            f"found {len(conditions):,} conditions; expected at most {len(SERIES)} in a picture, or with several"
            f" columns of conditions at most {len(FILLS)} levels of the last one and {len(SERIES)} of the others"
        )


def plot_items(
    means: Mapping[str, Means],
    texts: Mapping[str, str],
    conditions: Mapping[str, Levels],
    ax: Axes | Sequence[Axes] | None = None,
) -> Plot:
    """Return points of mean surprisals with 95% intervals by region and condition, a panel for each model.

    With one factor, a line goes through all regions of a condition. With several, a line goes from level to level of
    the last factor within a region, for each combination of the other factors.

    Args:
        means: by model, region and condition
        texts: the words of each region if they are the same in all sentences, or "", by name
        conditions: the levels of each condition, by name
        ax: axes to draw on, one per model, instead of those of a new figure

    Raises:
        InputError: there are too many conditions, or matplotlib is not installed.
    """
    check_plotted_conditions(conditions)
    names = ["\n".join([visible(name), *textwrap.wrap(visible(text), LABEL_WIDTH)]) for name, text in texts.items()]
    size = max(5.0, 0.8 + REGION * len(texts)), 0.5 + 3.2 * len(means)
    plot = new_plot("Mean surprisal by region and condition", ax, len(means), len(means), size, share=True)
    handles: dict[str, Artist] = {}
    for model, panel in zip(means, plot.axes, strict=True):
        handles |= _draw_means(panel, means[model], conditions)
        name_ticks(panel, names)
        panel.set_xlim(-0.5, len(names) - 0.5)
        for place in range(1, len(names)):
            panel.axvline(place - 0.5, color=GUIDE, linewidth=0.6, zorder=0)
        label_axes(panel, "", "surprisal in bits", model if len(means) > 1 else "")
    if len(conditions) > 1:
        plot.add_legend(handles)
    return plot


def _line_and_step(levels: Levels) -> tuple[Levels, str]:
    """Return what the line and what the fill of a condition stand for. A single factor has a line per level."""
    return (levels[:-1], levels[-1]) if len(levels) > 1 else (levels, "")


def _lines_and_steps(conditions: Mapping[str, Levels]) -> tuple[list[Levels], list[str]]:
    """Return all lines and all fills, in the order of the conditions."""
    lines, steps = zip(*map(_line_and_step, conditions.values()), strict=True)
    return list(dict.fromkeys(lines)), list(dict.fromkeys(steps))


def _draw_means(ax: Axes, means: Means, conditions: Mapping[str, Levels]) -> dict[str, Artist]:
    """Draw the means of a model. Returns the points by condition, for the legend."""
    lines, steps = _lines_and_steps(conditions)
    handles: dict[str, Artist] = {}
    points: dict[tuple[int, int], list[tuple[float, float]]] = {}  # of each line and region
    for condition, levels in conditions.items():
        line, step = _line_and_step(levels)
        number, fill = lines.index(line), steps.index(step)
        shift = SHIFT * (number - (len(lines) - 1) / 2) + SPREAD * (fill / max(1, len(steps) - 1) - 0.5)

        regions = [(region, by_condition.get(condition)) for region, by_condition in enumerate(means.values())]
        drawn = [(region, mean) for region, mean in regions if mean is not None]
        places = [(region + shift, mean.value) for region, mean in drawn]
        intervals = [(mean.low, mean.high) for _, mean in drawn]
        joins_regions = steps == [""]
        handles[condition] = draw_intervals(ax, places, intervals, number, FILLS[fill], joins_regions)
        for (region, _), place in zip(drawn, places, strict=True):
            points.setdefault((number, region), []).append(place)

    if not joins_regions:
        for (number, _), line_points in points.items():
            style = line_style(number) | {"marker": ""}
            ax.plot(*zip(*line_points, strict=True), **style, linewidth=1.4, zorder=2)
    return handles
