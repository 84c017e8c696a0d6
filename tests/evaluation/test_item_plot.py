"""Plots of factorial designs."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from scipy.stats import t

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.items import evaluate_items
from tests.fresh_models import fresh

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

CELLS = [
    (verb, comma, f"{start},{end}")
    for verb, start in (("x", "the"), ("y", "a"))
    for comma, end in (("yes", "cat"), ("no", "dog sleeps"))
]
OTHER = {"the": "a old", "a": "the old"}
TABLE = "item,verb,comma,start,end\n" + "".join(
    f"{item},{verb},{comma},{words if item == 1 else ' '.join(OTHER.get(w, w) for w in words.split(' '))}\n"
    for item in (1, 2)
    for verb, comma, words in CELLS
)


@pytest.fixture
def crossed(tmp_path):
    (tmp_path / "stimuli.csv").write_text(TABLE)
    models = {"one": fresh("lstm"), "two": fresh("ngram")}
    condition = ["verb", "comma"]
    return evaluate_items(
        models, tmp_path / "stimuli.csv", condition=condition, regions=["start", "end"], critical="end"
    )


def lines_of(panel):
    return [list(line.get_ydata()) for line in panel.lines]


def segments(panel):
    return [segment[:, 1].tolist() for drawn in panel.collections for segment in drawn.get_segments()]


def texts(plot):
    return [text.get_text() for text in plot.figure.texts]


def test_each_region_and_model_has_a_panel_with_a_line_per_level_of_the_first_factor(crossed):
    panels = crossed.plot().axes
    places = [(model, region) for model in ("one", "two") for region in ("start", "end")]
    for panel, (model, region) in zip(panels, places, strict=True):
        cells = {cell.levels: cell for cell in crossed.design.cells if (cell.model, cell.region) == (model, region)}
        assert lines_of(panel) == [[cells[verb, comma].mean.value for comma in ("yes", "no")] for verb in "xy"]
        assert segments(panel) == [list(cells[verb, comma].within[1:]) for verb in "xy" for comma in ("yes", "no")]
        assert [label.get_text() for label in panel.get_xticklabels()] == ["yes", "no"]
    assert [panel.get_title(loc="left") for panel in panels[:2]] == ["start", "end"]

    # Scales of the same length show effects of the same size at the same height.
    lengths = [high - low for low, high in (panel.get_ylim() for panel in panels)]
    assert lengths == pytest.approx([lengths[0]] * 4)


def test_the_legend_names_the_factor_and_the_caption_models_items_and_intervals(crossed):
    plot = crossed.plot(regions="end")
    assert len(plot.axes) == 2
    (legend,) = plot.figure.legends
    assert legend.get_title().get_text() == "verb"
    assert [text.get_text() for text in legend.get_texts()] == ["x", "y"]
    assert plot.axes[0].get_xlabel() == "comma"
    caption = plot.figure.get_supxlabel()
    assert caption.startswith("Models: one, two. Points are means of 2 items, bars 95% within-item intervals")


def test_bars_are_over_items_if_each_item_has_one_level_of_a_factor(tmp_path):
    rows = "".join(
        f"{item},{'x' if item < 4 else 'y'},{comma},{words},{end}\n"
        for item, words in enumerate(["the", "a old", "the old", "a", "the a", "a the"], 1)
        for comma, end in (("yes", "cat"), ("no", "dog sleeps"))
    )
    (tmp_path / "between.csv").write_text(f"item,verb,comma,start,end\n{rows}")
    report = evaluate_items(
        fresh("lstm"), tmp_path / "between.csv", condition=["verb", "comma"], regions=["start", "end"]
    )
    plot = report.plot(regions="end")
    cells = {cell.levels: cell for cell in report.design.cells if cell.region == "end"}
    expected = [t.interval(0.95, 2, *moments(report, verb, comma)) for verb in "xy" for comma in ("yes", "no")]
    assert segments(plot.axes[0]) == [pytest.approx(list(ends)) for ends in expected]
    assert list(cells) == [(verb, comma) for verb in "xy" for comma in ("yes", "no")]
    assert plot.figure.get_supxlabel() == (
        "Model: lstm. Points are means of 3 items, bars 95% intervals over items (t). Each item has one level of verb,"
        " so there are no intervals within items."
    )
    assert "no intervals within items (within_low and within_high are empty)" in str(report)
    assert report.to_dataframe("means")[["within_low", "within_high"]].isna().all(axis=None)


def moments(report, verb, comma):
    """The mean of the surprisals of the region end, and its standard error."""
    rows = report.to_dataframe()
    values = rows[(rows["region_name"] == "end") & (rows["verb"] == verb) & (rows["comma"] == comma)]["surprisal"]
    return values.mean(), values.sem()


def test_the_caption_names_the_items_with_all_conditions_or_says_why_there_are_no_bars(tmp_path):
    rows = TABLE.splitlines(keepends=True)
    third = [row.replace("1,", "3,", 1) for row in rows[1:4]]  # without its fourth condition

    def caption(*lines):
        (tmp_path / "uneven.csv").write_text("".join(lines))
        conditions, regions = ["verb", "comma"], ["start", "end"]
        report = evaluate_items(fresh("lstm"), tmp_path / "uneven.csv", condition=conditions, regions=regions)
        return report.plot().figure.get_supxlabel()

    bars = "bars 95% within-item intervals (Cousineau-Morey, t) from the 2 items with all conditions."
    assert f"means of 2 to 3 items, {bars}" in caption(*rows, *third)
    assert "means of 1 to 2 items, without bars, because fewer than 2 items have all conditions." in caption(*rows[:8])


@pytest.mark.long
def test_a_width_at_which_texts_overlap_is_refused_with_the_smallest_one(crossed, tmp_path):
    plot = crossed.plot()
    own = plot.width
    message = r"width=60: texts of the picture overlap .* expected at least (\d+), or fewer regions: regions=\.\.\.$"
    with pytest.raises(InputError, match=message) as refused:
        plot.save(tmp_path / "narrow.svg", width=60)
    assert plot.width == pytest.approx(own)
    assert not (tmp_path / "narrow.svg").exists()
    least = int(re.search(message, str(refused.value))[1])
    with pytest.raises(InputError, match=f"expected at least {least}"):
        plot.save(tmp_path / "narrow.svg", width=least - 3)
    plot.save(tmp_path / "least.svg", width=least)
    assert plot.width == pytest.approx(least / 25.4 * 96)
    panels = plot.axes[:2]
    names = [label.get_window_extent() for panel in panels for label in panel.get_xticklabels()]
    assert all(before.x1 < after.x0 for before, after in pairwise(names))


def test_contrasts_have_a_row_each_and_models_and_their_differences_a_colour(crossed):
    plot = crossed.plot(kind="contrasts", regions=["end"])
    (panel,) = plot.axes
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["verb\ny - x", "comma\nno - yes", "verb × comma\n(y - x) × (no - yes)"]
    drawn = [list(line.get_xdata()) for line in panel.lines[1:]]  # the first is that of 0
    expected = [
        [
            one.test.estimate
            for one in crossed.design.contrasts
            if (one.model, one.minus, one.region) == (model, minus, "end")
        ]
        for model, minus in (("one", ""), ("two", ""), ("two", "one"))
    ]
    assert drawn == expected
    assert [text.get_text() for text in plot.figure.legends[0].get_texts()] == ["one", "two", "two minus one"]


def test_a_single_factor_is_a_line_through_the_regions_or_the_axis_of_one_region(tmp_path):
    rows = TABLE.splitlines(keepends=True)
    (tmp_path / "stimuli.csv").write_text("".join(row for row in rows if ",y," not in row))
    report = evaluate_items(fresh("lstm"), tmp_path / "stimuli.csv", condition="comma", regions=["start", "end"])
    (means,) = report.means.values()
    (panel,) = report.plot().axes
    assert lines_of(panel) == [[means[region][comma].value for region in ("start", "end")] for comma in ("yes", "no")]
    (panel,) = report.plot(regions="end").axes
    assert lines_of(panel) == [[means["end"][comma].value for comma in ("yes", "no")]]


def test_what_cannot_be_drawn_is_refused(crossed, tmp_path):
    with pytest.raises(InputError, match="found the region 'ends'; expected one of start, end"):
        crossed.plot(regions="ends")
    with pytest.raises(InputError, match="kind: found 'bars'; expected one of points, contrasts"):
        crossed.plot(kind="bars")
    rows = "".join(f"1,{number},a,the cat\n" for number in range(8))
    (tmp_path / "many.csv").write_text(f"item,verb,comma,sentence\n{rows}")
    many = evaluate_items(fresh("lstm"), tmp_path / "many.csv", condition=["verb", "comma"])
    with pytest.raises(InputError, match="found 8 conditions; expected at most 7 levels of the first factor"):
        many.plot()
