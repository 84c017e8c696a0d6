"""The page on grammar induction shows what the program draws today, and quotes the stored results."""

from __future__ import annotations

import re
from statistics import fmean

import pytest
from laboratory.pages.induction import IMAGES, PICTURES, recall, same_f1, scores, substitution
from laboratory.pages.stored_results import parsed, trees
from laboratory.results.store import stored_report

from tests.docs.examples import ROOT
from tests.docs.test_stimuli import is_same
from tests.drawing.reading import assert_same_plot, drawn, read_svg

TEXT = " ".join((ROOT / "docs/explanation/grammar-induction.md").read_text(encoding="utf-8").split())


def stored(name: str) -> str:
    return (IMAGES / name).read_text(encoding="utf-8")


def words_of(svg: str) -> str:
    return " ".join(drawn(one) for one in read_svg(svg).iter() if one.tag.endswith("text"))


@pytest.mark.parametrize("name", ["induction-readings.svg", "induction-chart.svg"])
def test_trees_show_what_the_models_compute(name):
    assert is_same(words_of(PICTURES[name]().svg()), words_of(stored(name)))


@pytest.mark.long
def test_noun_phrases_and_one_other_group_are_replaced_at_little_cost():
    plot = substitution()
    assert is_same(words_of(plot.svg()), words_of(stored("induction-substitution.svg")))
    names = [label.get_text() for label in plot.axes[0].get_yticklabels()]
    costs = [bar.get_width() for bar in plot.axes[0].patches]
    assert names[:3] == ["the children → them", "children a → one", "The old woman → she"]
    assert costs[0] < 0
    assert costs[2] < 1
    assert costs[3] > 2


def test_numbers_in_the_text_are_in_the_pictures_or_compared_with_stored_results():
    """The remaining numbers are compared below; 0.9 to 1.0 is an interval."""
    compared = {"59.9", "44.7", "74.4", "68.7", "52.6", "66.5", "51.8", "0.9", "1.0"}
    shown = " ".join(words_of(path.read_text(encoding="utf-8")) for path in IMAGES.glob("induction-*.svg"))
    assert set(re.findall(r"(?<![-\w.])\d+\.\d+(?!\d|\.\d)", TEXT)) <= {*re.findall(r"\d+\.\d+", shown), *compared}


@pytest.mark.parametrize(("name", "draw"), [("induction-scores.svg", scores), ("induction-recall.svg", recall)])
def test_plots_of_stored_results_are_those_of_today(name, draw):
    assert_same_plot(IMAGES / name, draw().svg())


def test_scores_in_the_text_are_stored():
    on_lstm, grammars = (parsed(name, "wsj") for name in ("on-lstm-ptb-words-small", "simple-pcfg-ptb"))
    values = [100 * value for value in grammars.f1.values]
    gain = 100 * (on_lstm.f1_by("biased").mean - on_lstm.f1_by("unbiased").mean)
    assert f"from {min(values):.1f} to {max(values):.1f}" in TEXT
    assert f"changes the mean by about {gain:.0f} points" in TEXT
    with_bias, without = (
        100 * fmean(parsed("pcfg-types", "wsj-first-half", name).f1.values)
        for name in ("simple-pcfg", "simple-pcfg-without-bias")
    )
    assert (
        f"F1 was {with_bias:.1f} with the end bias and {without:.1f} without it. There, about {with_bias - without:.0f}"
        in TEXT
    )
    short = stored_report("shipped", what="trees", run="en", data="wsj", protocol="wsj-test", max_words=10)
    bundled = trees("shipped", "WSJ sample", "mbr", "en")
    reliability = stored_report("shipped", what="trees", run="en", data="wsj", protocol="wsj-test", max_words=None)
    (surest,) = [row for row in reliability["reliability"]["constituents"] if row["high"] == 1]
    assert f"a probability of 0.9 to 1.0, {100 * surest['correct']:.1f}% are" in TEXT
    assert (
        f"{100 * bundled.f1.mean:.1f} on all sentences and {100 * short['f1']:.1f} on sentences with up to 10" in TEXT
    )


def test_baselines_in_the_text_are_those_of_the_plot():
    names = [label.get_text() for label in scores().axes[0].get_yticklabels()]
    quoted = {
        "random trees": "Random trees have an F1 of ",
        "right branching": "fits English better than random trees and gives ",
    }
    quoted["ON-LSTM before training"] = "whose parameters are random, has "
    quoted["best possible binary trees"] = "the best possible binary trees, "
    for name, before in quoted.items():
        (value,) = [one.rpartition(" ")[2] for one in names if one.startswith(name)]
        assert f"{before}{value}" in TEXT


def test_recall_in_the_text_is_that_of_the_picture():
    first, second = same_f1().values()
    assert f"{first[0]}% against {second[0]}%" in TEXT
    assert f"{second[-1]}% against {first[-1]}%" in TEXT
    assert f"almost the same, {' and '.join(name[-4:] for name in same_f1())}" in TEXT
