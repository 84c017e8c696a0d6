"""Statistical plots: lines, bars, points with intervals and scatter plots, drawn by matplotlib (the extra `plot`).

The functions draw on the axes of a `Plot`, which may be those of a user's own figure. They use matplotlib's objects,
not pyplot, and give each object its colours, instead of changing matplotlib's settings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.plot import CHARACTER, EDGE, FAINT, GUIDE, INK, PAPER, PNG_DPI, Plot
from syntaxlm.drawing.svg import SERIES, shortened, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1.5)), (0, (9, 3)), (0, (1, 1)))
HATCHES = ("", "///", "\\\\", "xx", "--", "||", "++")  # of bars, which differ in grey print, too

LONGEST_MARKED = 40  # points: longer lines have no markers
LONGEST_NAME = 28  # characters of a bar's name; longer ones are shortened in the middle
VALUE = 0.3  # inches: narrower bars have no values above them

Point = tuple[float, float]


def new_plot(
    title: str,
    ax: Axes | Sequence[Axes] | None = None,
    panels: int = 1,
    rows: int = 1,
    size: tuple[float, float] = (6.4, 3.6),
    share: bool | Literal["row"] = False,
) -> Plot:
    """Return empty panels.

    Args:
        title: what the plot shows
        ax: axes to draw on, one per panel, instead of those of a new figure
        panels: number of panels
        rows: number of rows of panels
        size: width and height of the new figure, in inches
        share: whether all panels have the same axes; "row": the same x axis, and those of a row the same y axis

    Raises:
        InputError: matplotlib is not installed, or `ax` has another number of panels.
    """
    if ax is not None:
        axes: list[Axes] = np.ravel(np.array(ax, object)).tolist()
        if len(axes) != panels:
            raise InputError(f"ax: found {len(axes)} axes; expected {panels}, one per panel")
        return Plot(_figure_of(axes[0]), axes, title, is_own=False)

    require_matplotlib()
    from matplotlib.figure import Figure

    empty = Figure(size, dpi=PNG_DPI, facecolor=PAPER, layout="constrained")
    columns = -(-panels // rows)
    grid = empty.subplots(rows, columns, sharex=bool(share), sharey=share, squeeze=False)
    for unused in grid.flat[panels:]:
        unused.remove()
    axes = grid.flat[:panels].tolist()
    for panel in axes:
        _style(panel)
    return Plot(empty, axes, title)


def _figure_of(ax: Axes) -> Figure:
    from matplotlib.axes import Axes as MatplotlibAxes

    if not isinstance(ax, MatplotlibAxes):
        raise TypeError(f"ax: found {ax!r}; expected axes of matplotlib. To write a file: .plot().save('plot.pdf')")
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def has_matplotlib() -> bool:
    """Return whether matplotlib is installed, without importing it."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise InputError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"plots need matplotlib ({error.name} is not installed). Install it with: pip install 'syntaxlm[plot]'"
        ) from None


def _style(ax: Axes) -> None:
    """Give the axes the colours of all pictures, and horizontal grid lines."""
    ax.set_facecolor(PAPER)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(EDGE)
    ax.tick_params(which="both", color=EDGE, labelcolor=INK, labelsize=9)
    ax.grid(axis="y", color=GUIDE, linewidth=0.6)
    ax.set_axisbelow(True)


def label_axes(ax: Axes, x_label: str = "", y_label: str = "", title: str = "", *, bold: bool = True) -> None:
    """Write the names of both axes and the panel's title, none of which is mathematics."""
    ax.set_xlabel(x_label, color=INK, fontsize=10, parse_math=False)
    ax.set_ylabel(y_label, color=INK, fontsize=10, parse_math=False)
    if title:
        weight = "bold" if bold else "normal"
        lines = "\n".join(map(visible, title.split("\n")))
        ax.set_title(lines, color=INK, fontsize=10, fontweight=weight, loc="left", parse_math=False)


def scale_by_factors(ax: Axes, side: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with numbers such as 100 and 200 at its ticks. Its values are already drawn."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (ax.set_xscale if side == "x" else ax.set_yscale)("log")
    axis = ax.xaxis if side == "x" else ax.yaxis
    low, high = axis.get_data_interval()
    is_wide = side == "x" and high >= 1e6  # there is no room for more numbers of seven digits
    axis.set_major_locator(LogLocator(subs=(1,) if is_wide else first_digits(low, high)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1e6 else f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def first_digits(low: float, high: float) -> Sequence[float]:
    """Return the first digits of the numbers at the ticks of a logarithmic axis."""
    if high < 5 * low:
        return (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    return (1, 2, 5) if high < 300 * low else (1,)


def draw_levels(ax: Axes, levels: Mapping[str, float]) -> None:
    """Draw dashed horizontal lines, with their names right of the panel."""
    for name, level in levels.items():
        ax.axhline(level, color=FAINT, linestyle=(0, (5, 3)), linewidth=1, zorder=1)
        place: dict[str, Any] = {"xy": (1, level), "xycoords": ("axes fraction", "data"), "xytext": (4, 0)}
        ax.annotate(name, **place, textcoords="offset points", va="center", fontsize=8, color=FAINT, parse_math=False)


def name_ticks(ax: Axes, names: Sequence[str], unknown: Collection[int] = ()) -> None:
    """Write names below the places 0, 1, ... of the x axis; those of `unknown` are grey and in italics."""
    ax.set_xticks(range(len(names)), names, color=INK, parse_math=False)
    ax.tick_params(axis="x", length=0)
    for place in unknown:
        ax.get_xticklabels()[place].set(color=FAINT, style="italic")


def line_style(place: int) -> dict[str, Any]:
    """Return colour, marker and dashes of a series, which also differ in grey. Raises InputError for too many."""
    if place >= len(SERIES):
        raise InputError(f"found more than {len(SERIES)} series; expected at most {len(SERIES)}, the number of colours")
    return {"color": SERIES[place][0], "marker": MARKERS[place], "linestyle": DASHES[place], "markersize": 5.5}


def draw_lines(ax: Axes, series: Mapping[str, Sequence[Point]]) -> dict[str, Artist]:
    """Draw a line per series of points (x, y); a value that is not finite interrupts the line.

    Returns:
        The lines by name, for the legend.
    """
    lines: dict[str, Artist] = {}
    for place, (name, points) in enumerate(series.items()):
        style = line_style(place)
        if len(points) > LONGEST_MARKED:
            style["marker"] = None
        xs, ys = zip(*points, strict=True) if points else ((), ())
        (lines[name],) = ax.plot(xs, ys, linewidth=1.6, **style)
    return lines


def draw_intervals(
    ax: Axes,
    points: Sequence[Point],
    intervals: Sequence[Point],
    place: int = 0,
    fill: str = "full",
    line: bool = True,
    across: bool = False,
) -> Artist:
    """Draw the points of a series with their intervals.

    Args:
        ax: the panel
        points: (x, y)
        intervals: (low, high) of each point
        place: number of the series, which gives its colour, marker and dashes
        fill: fill style of the markers: full, none, or a half of them
        line: whether a line joins the points
        across: whether intervals are those of x, not of y

    Returns:
        The points, for the legend.
    """
    style = line_style(place)
    colour = style["color"]
    lows, highs = zip(*intervals, strict=True) if intervals else ((), ())
    xs, ys = zip(*points, strict=True) if points else ((), ())
    if across:
        ax.hlines(ys, lows, highs, color=colour, linewidth=1.2, zorder=2)
    else:
        ax.vlines(xs, lows, highs, color=colour, linewidth=1.2, zorder=2)
    # An empty marker is filled with the background's colour, so that its interval is not seen through it.
    fills: dict[str, Any] = {"fillstyle": "full", "markerfacecolor": PAPER} if fill == "none" else {"fillstyle": fill}
    (drawn,) = ax.plot(xs, ys, **style, **fills, markerfacecoloralt=PAPER, linewidth=1.4, zorder=3)
    if not line:
        drawn.set_linestyle("")
    return drawn


def draw_points(ax: Axes, series: Mapping[str, Sequence[Point]]) -> dict[str, Artist]:
    """Draw points (x, y) by series, each with a marker and a colour, with equal scales of both axes, which include 0.

    Returns:
        The points by name, for the legend.
    """
    handles: dict[str, Artist] = {}
    for place, (name, points) in enumerate(series.items()):
        style = line_style(place) | {"linestyle": ""}
        xs, ys = zip(*points, strict=True) if points else ((), ())
        (handles[name],) = ax.plot(xs, ys, **style, alpha=0.85, markeredgewidth=0)
    ax.update_datalim([(0, 0)])
    ax.autoscale_view()
    limits = list(zip(ax.get_xlim(), ax.get_ylim(), strict=True))
    low, high = min(limits[0]), max(limits[1])
    ax.set(xlim=(low, high), ylim=(low, high), box_aspect=1)
    ax.grid(axis="x", color=GUIDE, linewidth=0.6)
    return handles


def draw_bars(
    ax: Axes,
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    unknown: Collection[int] = (),
    group_width: float | None = None,
    texts: Sequence[str] = (),
) -> dict[str, BarContainer]:
    """Draw a group of bars per name, one bar per series, from 0; a value that is not finite has no bar.

    The values or `texts` are written above the bars if they are few.

    Args:
        ax: the panel
        names: of the groups
        series: the values of each group, by series
        unknown: indices of names that are words unknown to a model: marked, with paler bars
        group_width: inches for each group; by default, all groups fill the figure
        texts: what is written above the bars of a single series; by default its values, the largest with three digits

    Returns:
        The bars by series, for the legend.
    """
    handles: dict[str, BarContainer] = {}
    width = 0.8 / max(1, len(series))
    if group_width is None:
        group_width = 0.85 * _figure_of(ax).get_figwidth() / max(1, len(names))
    for place, (name, values) in enumerate(series.items()):
        colour = line_style(place)["color"]
        face, hatch = (colour, "") if place == 0 else (PAPER, HATCHES[place])
        middles = [group - 0.4 + (place + 0.5) * width for group in range(len(names))]
        bars = ax.bar(middles, values, 0.92 * width, facecolor=face, edgecolor=colour, hatch=hatch, linewidth=0.9)
        handles[name] = bars
        for group in unknown:
            bars[group].set_alpha(0.35)
        if width * group_width > VALUE:
            digits = _decimals([value for value in values if math.isfinite(value)])
            numbers = [f"{value:.{digits}f}" if math.isfinite(value) else "" for value in values]
            ax.bar_label(bars, texts or numbers, padding=1.5, fontsize=8, color=FAINT, linespacing=1.0)
    ax.margins(y=0.08)  # for the values

    # Names wider than their group are turned.
    short = [shortened(visible(name), LONGEST_NAME) for name in names]
    name_ticks(ax, short, unknown)
    if max(map(len, short), default=0) * CHARACTER > group_width:
        ax.tick_params(axis="x", labelrotation=40)
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    ax.set_xlim(-0.6, max(1, len(names)) - 0.4)
    return handles


def hatch_tops(ax: Axes, bars: BarContainer, parts: Sequence[float]) -> Artist | None:
    """Hatch a part at the top of bars, for what is not of their name.

    Args:
        ax: the panel
        bars: as drawn by `draw_bars`
        parts: the height of the part of each bar, 0 for none

    Returns:
        A part, for the legend; None without one.
    """
    drawn: Artist | None = None
    for bar, part in zip(bars, parts, strict=True):
        if part > 0:
            bar.set_height(bar.get_height() - part)
            middle, width = bar.get_x() + bar.get_width() / 2, bar.get_width()
            colour, hatch = bar.get_edgecolor(), HATCHES[1]
            (drawn,) = ax.bar(
                middle, part, width, bar.get_height(), facecolor=PAPER, edgecolor=colour, hatch=hatch, linewidth=0.9
            )
            drawn.set_alpha(bar.get_alpha())
    return drawn


def _decimals(values: Collection[float]) -> int:
    """Return how many decimals all numbers above bars have: three digits of the largest value, none for integers."""
    if all(float(value).is_integer() for value in values):
        return 0
    largest = max(map(abs, values))
    return max(0, min(6, 2 - math.floor(math.log10(largest))))


def bars_size(names: Sequence[object], series: int = 1) -> tuple[float, float]:
    """Return the size in inches of a figure with a group of bars per name."""
    return max(4.0, 0.8 + len(names) * max(0.55, 0.4 * series)), 3.2
