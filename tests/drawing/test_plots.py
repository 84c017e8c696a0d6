"""Line charts, bar charts, binned means, ticks."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.drawing.plots import (
    BinnedMean,
    bar_chart,
    binned_means_picture,
    heat_map,
    line_chart,
    log_ticks,
    scatter_chart,
    tick_text,
    ticks,
)

from .reading import drawn, of_role, read_svg, styled_roles, tooltip, used_roles


def points_of(element) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for pair in element.get("points").split()]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_round_evenly_spaced_and_cover_the_values(low, width):
    high = low + width
    if high <= low or (high - low) < 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high)
    steps = [after - before for before, after in pairwise(found)]
    assert 2 <= len(found) <= 8
    slack = 1e-6 * steps[0] + 1e-9 * abs(low)
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0, 5, ["0", "1", "2", "3", "4", "5"]),
        (0, 12, ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]),
        (-0.3, 0.95, ["-0.50", "-0.25", "0.00", "0.25", "0.50", "0.75", "1.00"]),
        (0, 4321, ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
        (0, 0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (5, 5, ["4.0", "4.5", "5.0", "5.5", "6.0"]),
        (-3, -3, ["-4.0", "-3.5", "-3.0", "-2.5", "-2.0"]),
    ],
)  # fmt: skip
def test_ticks_are_written_with_the_decimals_they_need(low, high, texts):
    found = ticks(low, high)
    assert [tick_text(value, found) for value in found] == texts


def test_a_line_goes_through_its_points_in_proportion():
    root = read_svg(line_chart({"loss": [(0, 0), (1, 5), (2, 10)]}, "title", "epoch", "loss").svg())
    (line,) = of_role(root, "line-0")
    (x0, y0), (x1, y1), (x2, y2) = points_of(line)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2
    assert [drawn(note) for note in of_role(root, "note")] == ["loss", "epoch"]


def test_a_non_finite_value_interrupts_the_line():
    points = [(0, 1), (1, 2), (2, math.nan), (3, 1), (4, math.inf), (5, 2)]
    root = read_svg(line_chart({"a": points}, "title").svg())
    assert [len(points_of(line)) for line in of_role(root, "line-0")] == [2]
    marks = [tooltip(mark) for mark in of_role(root, "area-0") if tooltip(mark)]
    assert marks == ["a: 0, 1", "a: 1, 2", "a: 3, 1", "a: 5, 2"]


def test_every_series_is_named_and_has_a_colour_of_its_own():
    series = {f"series {number}": [(0.0, number), (1.0, number)] for number in range(7)}
    document = line_chart(series, "title").svg()
    root = read_svg(document)
    assert [drawn(note) for note in of_role(root, "note")] == list(series)
    assert used_roles(document) <= styled_roles(document)
    assert {f"line-{number}" for number in range(7)} <= used_roles(document)
    with pytest.raises(ValueError, match="8 series"):
        line_chart(series | {"one more": []}, "title")


@pytest.mark.parametrize(
    "picture",
    [
        line_chart({"a": [(0, 1), (1, 2)], "b": [(0, 2)]}, "title"),
        scatter_chart({"a": [(0, 1)], "b": [(0, 2)]}, "title"),
        bar_chart(["x"], {"a": [1], "b": [2]}, "title"),
    ],
    ids=["lines", "scatter", "bars"],
)
def test_the_legend_has_a_sample_just_before_each_name(picture):
    elements = list(read_svg(picture.svg()))
    notes = [element for element in elements if element.get("class") == "slm-note"]
    assert [drawn(note) for note in notes] == ["a", "b"]
    for place, note in enumerate(notes):
        sample, right = elements[elements.index(note) - 1], float(note.get("x", ""))
        left_ends = [sample.get("x"), sample.get("cx"), sample.get("points", "").partition(",")[0]]
        left_ends += sample.get("d", "").split()[1:2]
        assert sample.get("class", "")[-2:] == f"-{place}"
        assert any(right - 31 <= float(x) < right - 5 for x in left_ends if x)


def test_bars_are_as_high_as_their_values_from_0():
    root = read_svg(bar_chart(["a", "b"], {"one": [10, 40], "two": [-20, math.nan]}, "title").svg())
    heights = [float(bar.get("height", "")) for bar in of_role(root, "area-0") if tooltip(bar)]
    assert heights[1] == pytest.approx(4 * heights[0], abs=0.5)
    (negative,) = [bar for bar in of_role(root, "area-1") if tooltip(bar)]
    assert tooltip(negative) == "a, two: -20"
    assert float(negative.get("height", "")) == pytest.approx(2 * heights[0], abs=0.5)
    above = next(bar for bar in of_role(root, "area-0") if tooltip(bar))
    foot = float(above.get("y", "")) + float(above.get("height", ""))
    assert float(negative.get("y", "")) == pytest.approx(foot, abs=0.2)


def test_values_above_bars_have_the_decimals_of_their_scale():
    root = read_svg(bar_chart(["a", "b", "c"], {"one": [17.9512, 9.602, 0.0054806]}, "title").svg())
    written = [element.text for element in root.iter() if element.get("class") == "slm-small"]
    assert written[-3:] == ["17.95", "9.6", "0.01"]
    empty = bar_chart(["a"], {"one": [0.0]}, "title").svg()
    assert "one: 0" in empty


def test_bars_of_a_group_do_not_overlap():
    root = read_svg(bar_chart(["a", "b", "c"], {str(k): [1, 2, 3] for k in range(5)}, "title").svg())
    bars = sorted(
        (float(bar.get("x", "")), float(bar.get("width", "")))
        for place in range(5) for bar in of_role(root, f"area-{place}") if tooltip(bar)
    )  # fmt: skip
    assert len(bars) == 15
    assert all(x + width <= following for (x, width), (following, _) in pairwise(bars))


def test_names_too_wide_for_their_bars_are_rotated_within_the_picture():
    names = ["a name much longer than its bar", *"bcdefghijk"]
    picture = bar_chart(names, {"one": list(range(11))}, "title")
    labels = of_role(read_svg(picture.svg()), "label")
    assert all("rotate" in label.get("transform", "") for label in labels)
    short = of_role(read_svg(bar_chart(list("abc"), {"one": [1, 2, 3]}, "title").svg()), "label")
    assert not any(label.get("transform") for label in short)
    assert float(labels[0].get("x", "")) > 100


def test_a_series_with_more_or_fewer_values_than_names_raises_an_error():
    with pytest.raises(ValueError, match="series 'one' has 1 values for 2 names"):
        bar_chart(["a", "b"], {"one": [1]}, "title")


@pytest.mark.parametrize(
    ("picture", "texts", "marks"),
    [
        (line_chart({}, "t"), {"0.0", "1.0"}, 0),
        (line_chart({"a": []}, "t"), {"0.0", "1.0"}, 0),
        (bar_chart([], {}, ""), {"0.0", "1.0"}, 0),
        (bar_chart(["a"], {"x": [0]}, ""), {"0.0", "1.0", "0"}, 1),
    ],
)
def test_empty_charts_have_axes_from_0_to_1(picture, texts, marks):
    root = read_svg(picture.svg())
    assert texts <= {drawn(text) for text in of_role(root, "small")}
    assert of_role(root, "axis")
    assert len([mark for mark in of_role(root, "area-0") if tooltip(mark)]) == marks


def test_a_line_with_one_point_starts_at_0():
    root = read_svg(line_chart({"loss": [(1.0, 5.0)]}, "title").svg())
    assert [drawn(label) for label in of_role(root, "small")][-6:] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e6))
def test_logarithmic_ticks_cover_the_values(low, factor):
    found = log_ticks(low, low * factor)
    assert found[0] <= low * (1 + 1e-6)
    assert found[-1] >= low * factor * (1 - 1e-6)
    assert list(found) == sorted(set(found))


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis():
    chart = line_chart({"a": [(1, 100), (10, 200), (100, 400)]}, "title", log_x=True, log_y=True)
    (x0, y0), (x1, y1), (x2, y2) = points_of(of_role(read_svg(chart.svg()), "line-0")[-1])
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    with pytest.raises(ValueError, match="found 0 on a logarithmic axis"):
        line_chart({"a": [(0, 1), (1, 1)]}, "title", log_x=True)


def test_levels_and_intervals_are_within_the_axes():
    chart = line_chart({"a": [(1, 5)]}, "title", levels={"chance": 1.0}, intervals={"a": [(1, 4, 9)]})
    root = read_svg(chart.svg())
    (level,) = of_role(root, "level")
    upright = [line for line in of_role(root, "axis") if line.get("x1") == line.get("x2")]
    heights = {abs(float(line.get("y1", "")) - float(line.get("y2", ""))) for line in upright}
    assert "chance" in {drawn(text) for text in of_role(root, "small")}
    assert max(heights) > 50
    assert float(level.get("y1", "")) == float(level.get("y2", "")) <= chart.height


def test_the_points_of_a_scatter_plot_are_in_a_square_and_every_series_has_its_marker():
    chart = scatter_chart(
        {"a": [(0, 0), (100, 50)], "b": [(50, 100)]}, "title", "left", "right", [((0, 100), (100, 0))]
    )
    root = read_svg(chart.svg())
    first, last = (mark for mark in of_role(root, "area-0") if tooltip(mark))
    across = float(last.get("cx", "")) - float(first.get("cx", ""))
    up = float(first.get("cy", "")) - float(last.get("cy", ""))
    assert across == pytest.approx(2 * up, abs=0.2)
    assert [tooltip(mark) for mark in of_role(root, "area-1") if tooltip(mark)] == ["b: 50, 100"]


def test_the_markers_of_a_scatter_plot_are_a_circle_a_square_a_diamond_and_an_upright_triangle():
    root = read_svg(scatter_chart({name: [(1, 1)] for name in "abcde"}, "title").svg())
    circle, square, diamond, triangle, fifth = (
        next(mark for mark in of_role(root, f"area-{place}") if tooltip(mark)) for place in range(5)
    )
    x, y = float(circle.get("cx", "")), float(circle.get("cy", ""))

    def corners(mark) -> list[tuple[int, int]]:
        numbers = [float(step) for step in mark.get("d", "").split() if step not in "MLZ"]
        ends = zip(numbers[::2], numbers[1::2], strict=True)
        return sorted((round(down - y), round(across - x)) for across, down in ends)

    assert corners(square) == [(-4, -4), (-4, 4), (4, -4), (4, 4)]
    assert corners(diamond) == [(-6, 0), (0, -6), (0, 6), (6, 0)]
    assert corners(triangle) == [(-5, 0), (4, -5), (4, 5)]
    assert fifth.tag == circle.tag


LINES = {"a": [(0.0, 1.0), (5.0, 20.0)], "b": [(1.0, 2.0)]}


@pytest.mark.parametrize(
    "picture",
    [
        line_chart(LINES, "a title", "x", "y", levels={"low": 1.0}, intervals={"a": [(5, 18, 22)]}),
        scatter_chart(LINES, "a title", "x", "y"),
        bar_chart(["one", "two"], {"a": [1, -2], "b": [3, 4]}, "a title", "y"),
        heat_map([[1.0, -2.0], [0.5, 0.0]], ["row", "other"], ["left", "right"], "a title", "rows", "columns"),
    ],
    ids=["lines", "scatter", "bars", "map"],
)
def test_texts_are_within_the_picture_and_ticks_beside_the_axis(picture):
    root = read_svg(picture.svg())
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    assert drawn(texts[0]) == "a title"
    for text in texts:
        assert 0 < float(text.get("x", "")) < picture.width
        assert 8 < float(text.get("y", "")) < picture.height
    lines = [float(line.get("x1", "")) for line in of_role(root, "grid")]
    ticks_beside = [float(text.get("x", "")) for text in of_role(root, "small") if text.get("text-anchor") == "end"]
    assert not lines or max(ticks_beside) < min(lines)


BINS = [BinnedMean(2.0, 310.0, 305.0, 315.0, 40), BinnedMean(7.3, 330.0, 320.0, 340.0, 41)]


def test_every_bin_has_a_point_with_its_values_and_an_interval():
    document = binned_means_picture({"lstm": BINS}, "surprisal, bits", "RT").svg()
    root = read_svg(document)
    points = of_role(root, "area-0")
    assert [tooltip(one) for one in points] == [
        "2.00: 310 (305 to 315), 40 words",
        "7.30: 330 (320 to 340), 41 words",
    ]
    assert float(points[0].get("cx")) < float(points[1].get("cx"))
    assert float(points[0].get("cy")) > float(points[1].get("cy"))
    vertical = [one for one in of_role(root, "axis") if one.get("x1") == one.get("x2") == points[1].get("cx")]
    assert len(vertical) == 1
    middle = (float(vertical[0].get("y1")) + float(vertical[0].get("y2"))) / 2
    assert middle == pytest.approx(float(points[1].get("cy")), abs=0.1)
    assert used_roles(document) <= styled_roles(document)


def test_charts_of_several_models_have_the_same_axes():
    lower = [one._replace(mean=one.mean - 100, low=one.low - 100, high=one.high - 100) for one in BINS]
    root = read_svg(binned_means_picture({"a": BINS, "b": lower, "c": BINS, "d": BINS}, "x", "y").svg())
    assert [drawn(one) for one in of_role(root, "title")] == ["a", "b", "c", "d"]
    labels = [drawn(one) for one in of_role(root, "small")]
    assert labels[: len(labels) // 4] * 4 == labels
    first, other = of_role(root, "area-0")[0], of_role(root, "area-0")[2]
    assert float(other.get("cy")) > float(first.get("cy"))


def test_bars_have_intervals_instead_of_values_and_unknown_words_are_marked():
    bars = {"a": [2.0, 4.0]}
    plain, marked = (
        read_svg(picture.svg())
        for picture in (
            bar_chart(["x", "y"], bars, ""),
            bar_chart(["x", "y"], bars, "", intervals={"a": [(1.0, 3.0), (math.nan, math.nan)]}, unknown=[1]),
        )
    )
    texts = [[element.text for element in svg.iter() if element.text] for svg in (plain, marked)]
    assert {"2", "4"} <= set(texts[0])
    lines = [len(list(svg.iter("{http://www.w3.org/2000/svg}line"))) for svg in (plain, marked)]
    assert lines[1] == lines[0] + 3  # one interval with two ends
    (bar,) = [part for part in of_role(marked, "area-0") if part.get("fill-opacity")]
    assert "not in the model's vocabulary" in tooltip(bar)
    assert [element.text for element in of_role(marked, "unknown")] == ["y"]


def test_a_picture_is_saved_in_the_format_of_its_file(tmp_path):
    picture = bar_chart(["x"], {"a": [1.0]}, "title")
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg()
    picture.save(tmp_path / "a.html")
    assert picture.svg() in (tmp_path / "a.html").read_text()
    for name in ("a.tex", "a.jpg", "a"):
        with pytest.raises(InputError, match="expected one of"):
            picture.save(tmp_path / name)
