"""Matrices as heat maps: gates, attention, span scores.

Not drawn with matplotlib for the reasons given in `charts`; tooltips show the row, column and value of a cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from syntaxlm.drawing import svg
from syntaxlm.drawing.layout import MARGIN
from syntaxlm.drawing.svg import TEXT_SIZES, Anchor, Picture, Theme
from syntaxlm.drawing.text import figure, right_to_left, shortened, text_width, visible

LABEL = 28  # characters of a label; longer ones are shortened in the middle
CELL, ROOMY_CELL, SMALL_CELL = 20.0, 32.0, 15.0  # pixels: default, with its value inside, in large maps
MOST_WITH_VALUES, LARGE = 12, 24  # rows or columns: up to 12, cells show values; above 24, cells are small
TURNED = 65.0  # degrees: rotation of column labels wider than their cells
STRENGTHS = 12  # of the colour in compact maps
DARK = 0.72  # cells with at least this share of the full colour have their value in the background's colour

Matrix = npt.NDArray[np.floating] | Sequence[Sequence[float]]


def heat_map_svg(
    matrix: Matrix,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    title: str,
    row_axis: str = "",
    column_axis: str = "",
    theme: Theme = "auto",
) -> str:
    """A matrix as an SVG document; see `heat_map`."""
    return heat_map(matrix, row_labels, column_labels, title, row_axis, column_axis).svg(theme)


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
    """One cell per value: the larger the value, the stronger the colour; negative values have another colour.

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
    rows = [shortened(visible(label), LABEL) for label in row_labels]
    columns = [shortened(visible(label), LABEL) for label in column_labels]
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
        angle = math.radians(TURNED)
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
        """The texts before and after the colour scale, and the axis names."""
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
            column_anchor, turn = ("end", TURNED) if self.mirrored else ("start", -TURNED)
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
        """The cells of a compact map: a rectangle per column and run of rows with one shade, in a frame."""
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
        """The colour scale from least to greatest, and the axis names."""
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
