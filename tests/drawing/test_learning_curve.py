"""Learning curves in characters."""

from __future__ import annotations

from syntaxlm.drawing.learning_curve import HEIGHT, draw_curves


def test_points_stand_at_their_values_between_the_lowest_and_the_highest():
    drawn = draw_curves({"validation": [(0, 4.0), (5, 3.0), (10, 2.0)], "training": [(0, 9.0), (10, 2.0)]}, "epoch", 11)
    lines = drawn.split("\n")
    rows = [line.partition("│")[2] for line in lines[:HEIGHT]]
    assert rows == ["·", "", "", "", "", "●", "     ●", "          ●"], "validation stands before training"
    assert lines[0].startswith("9.00 │")
    assert lines[HEIGHT - 1].startswith("2.00 │")
    assert lines[-2].split() == ["epoch", "0", "10"]
    assert lines[-1].split() == ["●", "validation", "·", "training"]


def test_too_few_points_and_equal_values():
    assert draw_curves({}, "epoch") == ""
    assert draw_curves({"validation": [(1, 2.0), (2, 1.0)]}, "epoch") == ""
    assert draw_curves({"validation": [(1, 2.0)] * 3}, "epoch", 5).startswith("2.00 │●\n")
