"""Matrices as heat maps: gates, attention, span scores. Tooltips show the row, column and value of a cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Numbers
from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import (
    TEXT_SIZES,
    Anchor,
    Picture,
    figure,
    right_to_left,
    shortened,
    text_width,
    visible,
)

LABEL = 28  # characters of the label of a row or a column; longer ones are shortened in the middle
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

    Args:
        matrix: (rows, columns); NaN and infinity have no cell. The largest absolute value has the full colour.
        row_axis: what rows are, for the caption below the map.
        column_axis: what columns are, for the caption below the map.
        mirrored: whether the first column is on the right; None: if most labels are in a right-to-left script.
        compact: no values and tooltips, and fewer shades, so that equal neighbours are one rectangle: for small files.

    Raises:
        ValueError: if labels and matrix have different sizes.
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
    start = MARGIN + _widest(rows) + 8
    top = MARGIN + TEXT_SIZES["title"] + 10 + above
    axes = " ".join(f"{what}: {name}." for what, name in (("rows", row_axis), ("columns", column_axis)) if name)
    foot = top + len(rows) * cell
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    legend, legend_width = _colour_scale(bool((finite < 0).any()), largest, axes, foot + 16)
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
    values: Numbers,
    largest: float,
    rows: Sequence[str],
    columns: Sequence[str],
    lefts: Sequence[float],
    tops: Sequence[float],
    cell: float,
    with_values: bool,
) -> list[str]:
    """Return a square per finite value, with a tooltip, and with the value inside if wanted and if it fits.

    Args:
        lefts: x of the left sides of the columns.
        tops: y of the upper sides of the rows.
        cell: the side of a square.
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


def _runs(values: Numbers, largest: float, lefts: Sequence[float], tops: Sequence[float], cell: float) -> Iterator[str]:
    """Yield the cells of a compact map: a rectangle per column and run of rows with one shade."""
    scale = STRENGTHS / largest if largest else 0.0
    shades = np.round(np.nan_to_num(values * scale, posinf=0.0, neginf=0.0)).astype(int)
    for column, left in enumerate(lefts):
        bounds = [0, *(np.flatnonzero(np.diff(shades[:, column])) + 1).tolist(), len(tops)]
        for begin, end in pairwise(bounds):
            if end > begin and (shade := int(shades[begin, column])):
                role = "negative" if shade < 0 else "cell"
                opacity = abs(shade) / STRENGTHS
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
