"""Heat maps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from syntaxlm.drawing.heat_map import heat_map

from .reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles

ROWS, COLUMNS = ["the", "cat"], ["<s>", "the", "cat"]
MATRIX = [[0.5, np.nan, 0.0], [0.25, 1.0, np.nan]]


def cells(document: str, role: str = "cell") -> dict[str, float]:
    """The opacity of each cell, by tooltip."""
    found = [cell for cell in of_role(read_svg(document), role) if tooltip(cell)]
    return {tooltip(cell): float(cell.get("fill-opacity", "")) for cell in found}


def test_every_number_is_a_cell_and_the_largest_has_the_full_colour():
    assert cells(heat_map(MATRIX, ROWS, COLUMNS, "gate").svg()) == {
        "the → <s>: 0.5": 0.5, "the → cat: 0": 0.0, "cat → <s>: 0.25": 0.25, "cat → the: 1": 1.0,
    }  # fmt: skip


def test_colours_are_proportional_to_the_largest_absolute_value():
    document = heat_map([[-4.0, 2.0]], ["a"], ["b", "c"], "map").svg()
    assert cells(document, "negative") == {"a → b: -4": 1.0}
    assert cells(document) == {"a → c: 2": 0.5}
    assert "-4.00" in document


def test_cells_are_in_the_order_of_rows_and_columns():
    root = read_svg(heat_map(np.arange(6.0).reshape(2, 3), ROWS, COLUMNS, "map").svg())
    places = [(cell.get("y"), float(cell.get("x", ""))) for cell in of_role(root, "cell") if tooltip(cell)]
    assert len({y for y, _ in places}) == 2
    assert [x for _, x in places[:3]] == sorted(x for _, x in places[:3])
    labels = [drawn(label) for label in of_role(root, "label")]
    assert labels == [*ROWS, *COLUMNS]


def test_a_right_to_left_map_starts_on_the_right():
    words = ["ذهب", "الولد"]
    matrix = [[1.0, 2.0], [3.0, 4.0]]
    root = read_svg(heat_map(matrix, words, words, "map").svg())
    places = [float(cell.get("x", "")) for cell in of_role(root, "cell") if tooltip(cell)]
    assert places[0] > places[1]
    plain = read_svg(heat_map(matrix, words, words, "map", mirrored=False).svg())
    places = [float(cell.get("x", "")) for cell in of_role(plain, "cell") if tooltip(cell)]
    assert places[0] < places[1]


@pytest.mark.parametrize("matrix", [np.zeros((2, 3)), np.full((2, 3), np.nan), np.full((2, 3), -np.inf)])
def test_empty_maps_are_drawn(matrix):
    document = heat_map(matrix, ROWS, COLUMNS, "map").svg()
    assert set(cells(document).values()) <= {0.0}
    assert used_roles(document) <= styled_roles(document)
    read_svg(heat_map(np.zeros((0, 0)), [], [], "map").svg())


def test_labels_of_the_wrong_number_raise_an_error():
    with pytest.raises(ValueError, match=r"shape \(2, 3\) has 3 row labels and 2"):
        heat_map(MATRIX, COLUMNS, ROWS, "map").svg()


def test_labels_of_a_map_of_forty_words_do_not_overlap():
    words = [f"word{number}" for number in range(40)]
    root = read_svg(heat_map(np.ones((40, 40)), words, words, "map").svg())
    rows = [float(label.get("y", "")) for label in of_role(root, "label")[:40]]
    assert min(after - before for before, after in pairwise(rows)) > 12


def test_equal_neighbours_of_a_compact_map_are_one_rectangle_and_zero_has_none():
    matrix = [[1.0, 0.0], [1.0, 0.5], [0.5, np.nan]]
    root = read_svg(heat_map(matrix, ["a", "b", "c"], ["x", "y"], "map", compact=True).svg())
    (frame,) = of_role(root, "frame")
    sides = {name: float(frame.get(name, "")) for name in ("x", "y", "width", "height")}
    cell = sides["width"] / 2
    inside = [one for one in of_role(root, "cell") if float(one.get("width", "")) == cell]
    found = [(float(one.get("height", "")) / cell, float(one.get("fill-opacity", ""))) for one in inside]
    assert found == [(2, 1.0), (1, 0.5), (1, 0.5)]
    assert not any(tooltip(one) for one in inside)
    assert sides["height"] == 3 * cell


def test_the_colour_scale_is_that_of_the_cells():
    """Minus infinity has no cell, so the scale does not show negative values for it."""
    root = read_svg(heat_map([[-np.inf, 0.5], [0.2, 0.1]], ROWS[:2], COLUMNS[:2], "map").svg())
    assert [drawn(note) for note in of_role(root, "note")][:2] == ["0", "0.50"]
    assert not of_role(root, "negative")
