"""Plots of a factorial design: means by region and condition, where lines that are not parallel show an interaction,
and contrasts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from syntaxlm.core.errors import InputError, amount, listed
from syntaxlm.core.option_names import option_name
from syntaxlm.drawing.plots import FAINT, GUIDE, INK, Plot, draw_intervals, label_axes, name_ticks, new_plot
from syntaxlm.drawing.svg import SERIES, visible
from syntaxlm.evaluation.item_design import ItemCell, ItemContrast, ItemDesign, Levels
from syntaxlm.statistics.contrasts import TIMES
from syntaxlm.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PictureKind = Literal["points", "contrasts"]

FILLS = ("full", "none", "left", "right", "top", "bottom")  # of the markers
MOST_PANELS = 6  # regions with a panel each; more regions share a panel
DODGE = 0.1  # between two lines, where 1 is between two levels, so that intervals do not hide each other
MODEL_DODGE = 0.22  # the same between models, where 1 is between two contrasts
LABEL_WIDTH = 18  # characters: longer names of regions have several lines
CONTRAST_WIDTH = 32  # the same of contrasts
NOT_BITS = frozenset(  # measures
    [
        "rank", "constituents_ended", "depth", "distance", "expected_ended", "expected_open", "expected_depth",
        "low_attachment",
    ]
)  # fmt: skip
BETWEEN = " / "  # the levels of several factors

SINGLE, PANEL, REGION = 2.1, 1.55, 1.0  # inches: widths of the only panel, of one of several, of a region in a panel
AXIS, LEGEND = 0.6, 1.1  # inches: left and right of the panels
LINE = 0.16  # inches: height of a line of text
NAMES = 1.8  # inches: of contrasts, left of the panels
PADDING = 0.07  # inches: around panels
HEADROOM = 1.15  # of the scale, to the longest range of values


@dataclass(frozen=True, eq=False)
class PlottedDesign:
    """What is drawn of a design.

    Attributes:
        design: the means and contrasts
        texts: the words of each region if all sentences have the same, or ""
        regions: names of the regions that are drawn
        critical: the region that the question is about, or None
        measure: what was measured
    """

    design: ItemDesign
    texts: Mapping[str, str]
    regions: Sequence[str]
    critical: str | None = None
    measure: str = "surprisal"

    @property
    def models(self) -> list[str]:
        return list(self.design.values)

    @property
    def factors(self) -> list[str]:
        return list(self.design.factors)

    @property
    def unit(self) -> str:
        """The name of the axis."""
        return self.measure_name + " in bits" * (self.measure not in NOT_BITS)

    @property
    def measure_name(self) -> str:
        return self.measure.replace("_", " ")

    def heading(self, region: str) -> str:
        """Return the name of a region, and its words."""
        name = f"region {region}" if region.isdigit() else region
        together = [f"{name}: {self.texts[region]}"]
        is_short = self.texts[region] and len(together[0]) <= LABEL_WIDTH
        lines = together if is_short else [name, *textwrap.wrap(self.texts[region], LABEL_WIDTH)]
        return "\n".join(map(visible, lines))

    def cells(self, model: str, region: str) -> dict[Levels, ItemCell]:
        """Return the cells of a region by their levels."""
        return {
            cell.levels: cell
            for cell in self.design.cells
            if (cell.model, cell.measure, cell.region, cell.words) == (model, self.measure, region, "all")
        }

    @property
    def contrasts(self) -> list[ItemContrast]:
        return [
            contrast
            for contrast in self.design.contrasts
            if contrast.measure == self.measure and contrast.region in self.regions and contrast.words == "all"
        ]

    def caption(self, meaning: str) -> str:
        """Return whose values are drawn, and what they are."""
        names = "Model" if len(self.models) == 1 else "Models"
        return f"{names}: {', '.join(self.models)}. {meaning}"

    def interval(self, cell: ItemCell) -> Interval:
        """Return the mean of a cell with the interval that is drawn: within items, or over items if there is none."""
        return cell.within if self.design.has_within else cell.mean

    def means_caption(self, further: str = "") -> str:
        """Return what points of means and their bars are.

        Args:
            further: sentences after it.
        """
        panels = [(model, region) for model in self.models for region in self.regions]
        cells = [cell for panel in panels for cell in self.cells(*panel).values()]
        counts = [cell.n_items for cell in cells]
        complete = [self.design.complete_items(model, self.measure, region) for model, region in panels]
        if not any(math.isfinite(self.interval(cell).low) for cell in cells):
            needed = "have all conditions" if self.design.has_within else "are in a condition"
            bars = f"without bars, because fewer than 2 items {needed}"
        elif self.design.has_within:
            bars = "bars 95% within-item intervals (Cousineau-Morey, t)"
            if min(complete) < max(counts):
                bars += f" from the {_items(complete)} with all conditions"
        else:
            bars = "bars 95% intervals over items (t)"
        meaning = f"Points are means of {_items(counts)}, {bars}."
        if self.design.several and self.design.between:
            names = " and ".join(self.design.between)
            meaning += f" Each item has one level of {names}, so there are no intervals within items."
        return self.caption(meaning + further)


def _items(counts: Iterable[int]) -> str:
    """Return numbers of items, such as "7 to 8 items"."""
    different = sorted(set(counts)) or [0]
    fewest, most = different[0], different[-1]
    return amount(most, "item") if fewest == most else f"{fewest:,} to {most:,} items"


def check_plotted_conditions(conditions: Sequence[Levels], regions: int) -> None:
    """Raise InputError for more conditions than a plot of points of some regions can tell apart."""
    if not _share_panel(conditions, regions):
        _styles(conditions)
    elif len(conditions) > len(SERIES):
        raise InputError(
            f"found {len(conditions):,} conditions; expected at most {len(SERIES)} in a picture of these regions."
            " Choose one region, which may have more conditions"
        )


def _share_panel(conditions: Sequence[Levels], regions: int) -> bool:
    """Return whether all regions are in one panel, with a line through them for each condition."""
    return regions > MOST_PANELS or (regions > 1 and len(conditions[0]) == 1)


def check_plotted_regions(regions: Sequence[str], names: Sequence[str]) -> None:
    """Raise InputError for a region that is not among the names."""
    for region in regions:
        if region not in names:
            raise InputError(f"picture: found the region {region!r}; expected one of {listed(names)}")


def plot_means(drawn: PlottedDesign, ax: Axes | Sequence[Axes] | None = None) -> Plot:
    """Return points of means with 95% intervals, by region and condition.

    Intervals are within items, or over items if each item has one level of a factor.

    Each region has a panel: the last factor is its x axis, the first one the colour, and others the fill of the points.
    The vertical scales of all panels have the same length. If the design has one factor and several regions, or more
    than `MOST_PANELS` regions, regions are the x axis of one panel per model instead.

    Args:
        drawn: the design.
        ax: axes to draw on instead of those of a new figure, one per panel: the regions of each model.

    Raises:
        InputError: there are too many conditions, or matplotlib is not installed.
    """
    conditions = list(drawn.design.conditions.values())
    is_single = len(drawn.regions) == 1
    check_plotted_conditions(conditions, len(drawn.regions))
    if _share_panel(conditions, len(drawn.regions)):
        return _plot_regions(drawn, conditions, ax)

    # One row of panels for each model; a single region has a column for each model instead.
    styles = _styles(conditions)
    panels = [(model, region) for model in drawn.models for region in drawn.regions]
    rows = 1 if is_single else len(drawn.models)
    columns = len(panels) // rows
    margins = AXIS + LEGEND * (len(styles) > 1)
    size = margins + (SINGLE if columns == 1 else PANEL * columns), 0.6 + 2.5 * rows
    plot = new_plot("Means by region and condition", ax, len(panels), rows, size)
    used = {condition[-1] for condition in conditions}
    steps = [level for level in drawn.design.factors[drawn.factors[-1]] if level in used]
    handles: dict[str, Artist] = {}
    ranges = []
    for place, ((model, region), panel) in enumerate(zip(panels, plot.axes, strict=True)):
        cells = drawn.cells(model, region)
        ranges.append([end for cell in cells.values() for end in drawn.interval(cell)])
        handles |= _draw_lines(panel, drawn, cells, steps, styles)
        name_ticks(panel, list(map(visible, steps)))
        panel.set_xlim(-0.45, len(steps) - 0.55)

        heading, unit = drawn.heading(region), drawn.unit
        if is_single and len(panels) > 1:
            heading, unit = visible(model), f"{drawn.unit}, {visible(region)}"
        elif rows > 1:
            unit = f"{visible(model)}\n{drawn.unit}"
        x_label = drawn.factors[-1] if place >= len(panels) - columns else ""
        is_critical = not is_single and region == drawn.critical
        label_axes(panel, visible(x_label), unit if place % columns == 0 else "", heading, bold=is_critical)

    _equal_scales(plot.axes, ranges)
    further = ""
    if len(panels) > 1:
        further += " The same difference has the same height in all panels; the scales do not start at 0."
        further += " The critical region is in bold." * (drawn.critical in drawn.regions)
    return _finish(plot, drawn, handles, drawn.factors[:-1], drawn.means_caption(further))


def plot_contrasts(drawn: PlottedDesign, ax: Axes | Sequence[Axes] | None = None) -> Plot:
    """Return a row for each contrast with its 95% interval, a panel for each region, and a colour for each model.

    With several models, the differences of the others to the first one have colours of their own.

    Args:
        drawn: the design.
        ax: axes to draw on instead of those of a new figure, one per region.

    Raises:
        InputError: there are no contrasts, too many models, or matplotlib is not installed.
    """
    contrasts = drawn.contrasts
    if not contrasts:
        raise InputError("picture: found no contrasts, which need a factor with two levels; draw points")
    names = list(dict.fromkeys((contrast.contrast, contrast.levels) for contrast in contrasts))
    models = list(dict.fromkeys((contrast.model, contrast.minus) for contrast in contrasts))
    columns = len(drawn.regions)
    width = NAMES + (SINGLE + 0.5 if columns == 1 else PANEL * columns) + 1.3 * LEGEND * (len(models) > 1)
    labels = list(map(_contrast_name, names))
    height = max(0.3 + 0.12 * len(models), LINE * max(1 + label.count("\n") for label in labels) + 0.05)
    size = width, 1.0 + height * len(names)
    plot = new_plot("Contrasts by region", ax, columns, 1, size, share=True)
    handles: dict[str, Artist] = {}
    for region, panel in zip(drawn.regions, plot.axes, strict=True):
        panel.axvline(0, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        panel.grid(visible=False, axis="y")
        panel.grid(axis="x", color=GUIDE, linewidth=0.6)
        for place, (model, minus) in enumerate(models):
            shift = MODEL_DODGE * (place - (len(models) - 1) / 2)
            points, ends = [], []
            for contrast in contrasts:
                if (contrast.region, contrast.model, contrast.minus) == (region, model, minus):
                    row = names.index((contrast.contrast, contrast.levels))
                    points.append((contrast.test.estimate, row + shift))
                    ends.append((contrast.test.low, contrast.test.high))
            name = f"{model} minus {minus}" if minus else model
            handles[name] = draw_intervals(panel, points, ends, place, FILLS[place % 2], line=False, across=True)
        panel.set_yticks(range(len(names)), labels, color=INK, parse_math=False)
        panel.tick_params(axis="y", length=0)
        heading = drawn.heading(region)
        unit = drawn.measure_name if drawn.measure in NOT_BITS else "bits"
        label_axes(panel, unit, "", heading, bold=columns > 1 and region == drawn.critical)

    plot.axes[0].set_ylim(len(names) - 0.5, -0.5)  # the first contrast is at the top
    items = _items(contrast.test.n for contrast in contrasts)
    meaning = f"Points are mean contrasts of {drawn.measure_name}, {items}; bars are 95% intervals over items (t)."
    return _finish(plot, drawn, handles, ["model"], drawn.caption(meaning))


def _contrast_name(name: tuple[str, str]) -> str:
    """Return the factors of a contrast, and below them the compared levels."""
    contrast, levels = name
    between = ") ×\t(" if len(levels) > CONTRAST_WIDTH else ") × ("
    lines = [contrast.replace(TIMES, " × "), *levels.replace(f"){TIMES}(", between).split("\t")]
    return "\n".join(map(visible, lines))


def _styles(conditions: Sequence[Levels]) -> dict[Levels, tuple[int, str]]:
    """Return the number of the colour and marker, and the fill, of each line, by its levels.

    There is a line for each combination of all factors but the last. With two factors, fills differ in addition to
    colours, for grey prints. Raises InputError for too many.
    """
    lines = list(dict.fromkeys(condition[:-1] for condition in conditions))
    firsts = list(dict.fromkeys(line[:1] for line in lines))
    others = list(dict.fromkeys(line[1:] for line in lines))
    if len(firsts) > len(SERIES) or len(others) > len(FILLS):
        raise InputError(
            f"found {len(conditions):,} conditions; expected at most {len(SERIES)} levels of the first factor in a"
            f" picture, and at most {len(FILLS)} combinations of those between the first and the last"
        )
    return {
        line: (colour := firsts.index(line[:1]), FILLS[others.index(line[1:]) if len(others) > 1 else colour % 2])
        for line in lines
    }


def _draw_lines(
    ax: Axes,
    drawn: PlottedDesign,
    cells: Mapping[Levels, ItemCell],
    steps: Sequence[str],
    styles: Mapping[Levels, tuple[int, str]],
) -> dict[str, Artist]:
    """Draw a line from level to level of the last factor for each combination of the others. Returns the legend."""
    handles: dict[str, Artist] = {}
    for number, (line, (colour, fill)) in enumerate(styles.items()):
        shift = DODGE * (number - (len(styles) - 1) / 2)
        placed = [(place + shift, cells[(*line, step)]) for place, step in enumerate(steps) if (*line, step) in cells]
        handles[BETWEEN.join(line)] = _draw_cells(ax, drawn, placed, colour, fill)
    return handles


def _draw_cells(
    ax: Axes, drawn: PlottedDesign, cells: Sequence[tuple[float, ItemCell]], colour: int, fill: str
) -> Artist:
    """Draw the means of cells at their places, with their intervals."""
    points = [(place, cell.mean.value) for place, cell in cells]
    return draw_intervals(ax, points, [drawn.interval(cell)[1:] for _, cell in cells], colour, fill)


def _plot_regions(drawn: PlottedDesign, conditions: Sequence[Levels], ax: Axes | Sequence[Axes] | None) -> Plot:
    """Return a panel for each model, with a line through all regions for each condition."""
    size = max(5.0, AXIS + LEGEND + REGION * len(drawn.regions)), 0.7 + 2.7 * len(drawn.models)
    plot = new_plot("Means by region and condition", ax, len(drawn.models), len(drawn.models), size)
    handles: dict[str, Artist] = {}
    for model, panel in zip(drawn.models, plot.axes, strict=True):
        cells = [drawn.cells(model, region) for region in drawn.regions]
        for number, condition in enumerate(conditions):
            shift = DODGE * (number - (len(conditions) - 1) / 2)
            placed = [
                (place + shift, region_cells[condition])
                for place, region_cells in enumerate(cells)
                if condition in region_cells
            ]
            handles[BETWEEN.join(condition)] = _draw_cells(panel, drawn, placed, number, FILLS[number % 2])
        name_ticks(panel, list(map(drawn.heading, drawn.regions)))
        panel.set_xlim(-0.5, len(drawn.regions) - 0.5)
        label_axes(panel, "", drawn.unit, model if len(drawn.models) > 1 else "")
    return _finish(plot, drawn, handles, drawn.factors, drawn.means_caption())


def _equal_scales(panels: Sequence[Axes], ranges: Sequence[Sequence[float]]) -> None:
    """Give the y axes of panels the same length, around the values of each."""
    finite = [[value for value in values if math.isfinite(value)] for values in ranges]
    length = HEADROOM * max((max(values) - min(values) for values in finite if values), default=0.0) or 1.0
    for panel, values in zip(panels, finite, strict=True):
        if values:
            middle = (max(values) + min(values)) / 2
            panel.set_ylim(middle - length / 2, middle + length / 2)


def _finish(
    plot: Plot, drawn: PlottedDesign, handles: Mapping[str, Artist], factors: Sequence[str], caption: str
) -> Plot:
    """Return the plot with margins, a caption, and a legend of several lines: its title is what distinguishes them."""
    if len(handles) > 1:
        plot.add_legend(handles, BETWEEN.join(factors))
    plot.add_note(caption)
    if plot.is_own:
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        plot.figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=PADDING, h_pad=PADDING))
    return replace(plot, narrower=f"fewer regions: {option_name('--picture-region')}" if len(drawn.regions) > 1 else "")
