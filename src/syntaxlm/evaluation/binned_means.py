"""Plots of mean reading time by surprisal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from syntaxlm.drawing.plots import Plot, draw_intervals, label_axes, new_plot
from syntaxlm.evaluation.time_regressions import BINS, BinnedMean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 4  # in a row of the plot


def plot_binned_means(
    bins: Mapping[str, Sequence[BinnedMean]], unit: str, ax: Axes | Sequence[Axes] | None = None
) -> Plot:
    """Return means by surprisal with their intervals, a panel per model.

    Args:
        bins: by the label of the model.
    """
    rows = -(-len(bins) // MOST_PANELS)
    columns = -(-len(bins) // rows)
    plot = new_plot(f"{unit} by surprisal", ax, len(bins), rows, (1.0 + 2.6 * columns, 0.4 + 2.6 * rows), share=True)
    for number, (panel, (label, means)) in enumerate(zip(plot.axes, bins.items(), strict=True)):
        _draw(panel, means)
        x_label = "surprisal in bits" if number + columns >= len(bins) else ""
        y_label = unit if number % columns == 0 else ""
        label_axes(panel, x_label, y_label, label)
    words = sum(of_bin.size for of_bin in next(iter(bins.values())))
    plot.add_note(f"{words:,} words in {BINS} bins by surprisal. Points are means, bars 95% intervals over words (t).")
    return plot


def plot_measures(
    bins: Mapping[str, Mapping[str, Sequence[BinnedMean]]], ax: Axes | Sequence[Axes] | None = None
) -> Plot:
    """Return means by surprisal with their intervals: a row of panels per reading measure, with a panel per model.

    Args:
        bins: by the reading measure, with its unit, and the label of the model.
    """
    models = len(next(iter(bins.values())))
    size = (1.0 + 2.6 * models, 0.4 + 2.3 * len(bins))
    plot = new_plot("Reading measures by surprisal", ax, models * len(bins), len(bins), size, share="row")
    for row, (unit, of_models) in enumerate(bins.items()):
        panels = plot.axes[row * models : (row + 1) * models]
        for number, (panel, (label, means)) in enumerate(zip(panels, of_models.items(), strict=True)):
            _draw(panel, means)
            x_label = "surprisal in bits" if row == len(bins) - 1 else ""
            label_axes(panel, x_label, "" if number else unit, "" if row else label)
    plot.add_note(f"{BINS} bins by surprisal. Points are means, bars 95% intervals over words (t).")
    return plot


def _draw(panel: Axes, means: Sequence[BinnedMean]) -> None:
    """Draw the means of bins with their intervals."""
    draw_intervals(panel, [(of_bin.x, of_bin.mean) for of_bin in means], [of_bin[2:4] for of_bin in means])
