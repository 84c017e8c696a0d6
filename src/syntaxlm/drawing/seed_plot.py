"""Plots of several seeds: a row for each model, with a dot per seed and their mean, perhaps with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from syntaxlm.drawing.plots import FAINT, INK, Plot, label_axes, line_style, new_plot
from syntaxlm.drawing.svg import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEAN = 0.32  # of a row: half the length of the line at a mean


@dataclass(frozen=True)
class Seeds:
    """The values of the seeds of a model.

    Attributes:
        name: of the model.
        values: at least one.
        interval: low and high end of the interval of the mean; None: not drawn.
        place: number of the colour and the marker.
    """

    name: str
    values: Sequence[float]
    interval: tuple[float, float] | None = None
    place: int = 0


def plot_seeds(
    title: str, rows: Sequence[Seeds], levels: Mapping[str, float], label: str, ax: Axes | None = None
) -> Plot:
    """Return a row for each model: a dot per seed, and their mean as a line.

    Args:
        title: what the plot shows.
        rows: from top to bottom.
        levels: dashed lines across all rows, by the names above them.
        label: of the axis.
        ax: axes to draw on, instead of those of a new figure.

    Raises:
        InputError: matplotlib is not installed.
    """
    plot = new_plot(title, ax, size=(8.0, 1.1 + 0.32 * len(rows)))
    panel = plot.axes[0]
    for number, row in enumerate(rows):
        if row.interval is not None:
            panel.hlines(number, *row.interval, color=INK, linewidth=1.4)
        style = line_style(row.place) | {"linestyle": "", "markeredgewidth": 0, "alpha": 0.7}
        panel.plot(row.values, [number] * len(row.values), **style)
        panel.vlines(fmean(row.values), number - MEAN, number + MEAN, color=INK, linewidth=1.4)
    panel.set_yticks(range(len(rows)), [visible(row.name) for row in rows], color=INK, parse_math=False)
    panel.set_ylim(len(rows) - 0.5, -0.5)  # the first row is at the top
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False)

    # The names of the levels are ticks of a second axis, above the panel.
    if levels:
        above = panel.secondary_xaxis("top")
        above.set_xticks(list(levels.values()), list(levels), color=FAINT, fontsize=9)
        above.tick_params(length=0)
        above.spines["top"].set_visible(False)
    for level in levels.values():
        panel.axvline(level, color=FAINT, linestyle=(0, (5, 3)), linewidth=1, zorder=0)
    label_axes(panel, label)
    return plot
