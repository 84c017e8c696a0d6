"""Minimal pairs: correct pairs, known words, counts, and several models."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.pairs import MinimalPair, read_pairs
from syntaxlm.evaluation.pairs import (
    PairScores,
    PairsReport,
    evaluate_pairs,
    score_pairs,
)
from syntaxlm.evaluation.significance import compare_credits, compare_details
from syntaxlm.scoring.engine import Scorer
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary
from tests.shared_data import DATA


def pair(better, worse, case="case", **groups):
    return MinimalPair(better, worse, case, groups, "file", 1)


def test_a_pair_is_correct_only_if_the_better_sentence_is_strictly_more_probable(small, spoken):
    spoken({"the cat": -1.0, "the cats": -2.0, "the sleep": -2.0})
    pairs = [pair("the cat", "the cats"), pair("the cats", "the cat"), pair("the cats", "the sleep")]
    scores = score_pairs(small, pairs)
    assert scores.correct.tolist() == [True, False, False]
    assert scores.ties.tolist() == [False, False, True]
    assert (scores.better.tolist(), scores.worse.tolist()) == ([-1, -2, -2], [-2, -1, -2])


def test_sums_that_differ_by_a_rounding_error_are_a_tie(small, spoken):
    """As under a model of single words, for the same words in another order."""
    spoken({"the cat sleep": -30.1, "cat the sleep": -30.1 - 1e-14})
    scores = score_pairs(small, [pair("the cat sleep", "cat the sleep"), pair("cat the sleep", "the cat sleep")])
    assert scores.ties.tolist() == [True, True]
    assert scores.correct.tolist() == [False, False]


def test_words_are_known_or_not_as_the_model_reads_them(small, spoken):
    asked = spoken(dict.fromkeys(["the cat <unk>", "the cats <unk>", "<unk> cat", "the <unk> <unk>"], -1.0))
    pairs = [
        pair("The cat purrs", "The cats purrs"),  # differs in known words only
        pair("zebra cat", "horse cat"),
        pair("the purrs cat.", "the cat. purrs"),  # in order only
    ]
    scores = score_pairs(small, pairs)
    assert scores.differing_known.tolist() == [True, False, True]
    assert scores.all_known.tolist() == [False, False, False]
    assert scores.read_alike.tolist() == [False, True, True]
    assert scores.ties[1:].all()
    assert sorted(asked) == ["<unk> cat", "the <unk> <unk>", "the cat <unk>", "the cats <unk>"]


def test_punctuation_and_contractions_are_split_on_request(small, spoken):
    asked = spoken({"the cat sleeps .": -1.0, "the cat sleep .": -2.0})
    scores = score_pairs(small, [pair("The cat sleeps.", "The cat sleep.")], TreebankStyle("split", "split"))
    assert scores.all_known.all()
    assert len(asked) == 2


def test_every_sentence_is_scored_once_for_all_files(small, spoken, tmp_path):
    first = {"sentences": ["the cat", "the cats", "the sleep"]}
    second = {"sentence_good": "The cats", "sentence_bad": "the  cat"}
    for name, item in (("a", first), ("b", second), ("c", second)):
        (tmp_path / name).write_text(json.dumps(item) + "\n")
    asked = spoken({"the cat": -1.0, "the cats": -2.0, "the sleep": -3.0})
    report = evaluate_pairs(small, [tmp_path])
    assert sorted(asked) == ["the cat", "the cats", "the sleep"]
    assert report.models[0].correct.tolist() == [True, True, True, False, False]
    with pytest.raises(InputError, match=r"files: found .*a twice; expected each file once"):
        evaluate_pairs(small, [tmp_path / "a", tmp_path / "b", tmp_path / "c" / ".." / "a"])


def test_pairs_that_are_not_neighbours_count_in_their_own_group_only(small, spoken, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"sentences": ["the cats", "the cat", "the sleep"]}) + "\n")
    spoken({"the cat": -3.0, "the cats": -1.0, "the sleep": -2.0})
    report = evaluate_pairs({"one": small, "two": small}, path)
    figures = report.to_dict()
    assert figures["pairs"] == figures["models"][0]["all"]["pairs"] == 2
    assert figures["models"][0]["all"]["correct"] == figures["models"][0]["by_case"]["pairs"]["all"]["correct"] == 1
    found = {name: one["all"]["correct"] for name, one in figures["models"][0]["by_group"]["comparison"].items()}
    assert found == {"1 vs 2": 1, "2 vs 3": 0, "1 vs 3": 1}
    assert "pairs 2   sentences 3" in str(report)
    report.write_details(tmp_path / "details.jsonl")
    assert compare_details([tmp_path / "details.jsonl"], [tmp_path / "details.jsonl"], 10).items == 2


def scores(name, right, known=None):
    better = np.array(right, np.float64)
    known = np.ones(len(right), np.bool_) if known is None else np.array(known)
    return PairScores(
        name, better, np.full(len(right), 0.5), np.where(known, 0, 1), known, np.zeros(len(right), np.bool_)
    )


def test_cases_and_groups_have_their_own_accuracy_and_cases_their_mean():
    pairs = [
        pair("a", "b", "x", field="one"),
        pair("c", "d", "x", field="two"),
        pair("e", "f", "x"),
        pair("g", "g", "y"),
    ]
    report = PairsReport(tuple(pairs), (scores("m", [1, 0, 0, 1], [True, True, False, False]),), ("file",))
    assert {row["accuracy"] for row in report.rows() if (row["group"], row["words"]) == ("x", "all")} == {1 / 3}
    shares = {row["group"]: row["share_unknown"] for row in report.rows()}
    assert shares == {"": 0.5, "one": 0, "two": 0, "x": 1 / 3, "y": 1}
    (figures,) = report.to_dict()["models"]
    assert figures["all"] == {"accuracy": 0.5, "correct": 2, "pairs": 4}
    assert figures["differing_words_known"] == {"accuracy": 0.5, "correct": 1, "pairs": 2}
    assert figures["mean_over_cases"] == pytest.approx((1 / 3 + 1) / 2)
    assert figures["mean_over_cases_differing_words_known"] == 0.5  # of case x alone: y has no such pair
    assert figures["by_case"]["y"]["differing_words_known"] == {"accuracy": None, "correct": 0, "pairs": 0}
    assert (figures["share_unknown"], figures["by_case"]["y"]["share_unknown"]) == (0.5, 1)
    by_field = {name: one["all"]["correct"] for name, one in figures["by_group"]["field"].items()}
    assert by_field == {"one": 1, "two": 0}
    assert report.to_dict()["identical"] == ["file, line 1"]
    assert figures["unknown_words"] == 2
    json.dumps(report.to_dict())


def test_the_table_has_all_models_and_the_style_of_the_text():
    models = scores("left", [1, 0, 1, 0]), scores("right", [1, 1, 1, 0], [True, False, True, False])
    pairs = tuple(pair(name, "z", name.upper(), field="some") for name in "abcd")
    reported = str(PairsReport(pairs, models, ("file.jsonl",), TreebankStyle("drop")))
    assert "punctuation dropped, contractions as written" in reported
    rows = {line.split("   ")[0].strip(): line.split() for line in reported.splitlines() if line}
    assert rows["all pairs"][2:] == ["50.0", "(4)", "75.0", "(4)"]
    assert rows["pairs with all differing words known"][6:] == ["50.0", "(4)", "100.0", "(2)"]
    assert rows["field: some"][2:] == ["4", "50.0", "0.0", "50.0", "75.0", "50.0", "100.0"]
    assert rows["case: B"][2:] == ["1", "0.0", "0.0", "0.0", "100.0", "100.0", "-"]
    assert "right compared with left, all pairs: accuracy difference +25.0" in reported
    assert "right compared with left, pairs with all differing words known: accuracy difference +0.0" in reported


@pytest.mark.parametrize(("count", "places"), [(3, "file, line 1)"), (4, " and 1 more)"), (6, " and 3 more)")])
def test_pairs_of_identical_sentences_are_named(count, places):
    pairs = tuple(pair("a", "a") for _ in range(count))
    warned = str(PairsReport(pairs, (scores("m", [0] * count),), ("file",)))
    assert f"{count} pairs of identical sentences" in warned
    assert places in warned


@pytest.mark.parametrize(("known", "style", "warns"), [(0, "keep", True), (1, "keep", False), (0, "drop", False)])
def test_an_unknown_style_of_text_gives_a_warning_unless_a_style_is_chosen(known, style, warns):
    pairs = tuple(pair("a", "z") for _ in range(100))
    foreign = scores("mine", [1] * 100, [True] * known + [False] * (100 - known))
    reported = str(PairsReport(pairs, (foreign,), ("file",), TreebankStyle(style)))
    assert ("hardly any pair has only words in the vocabulary of mine." in reported) == warns


def test_the_bootstrap_has_the_spread_of_items_really_drawn():
    generator = np.random.default_rng(1)
    first, second = generator.choice([0.0, 0.5, 1.0], size=(2, 80), p=[0.3, 0.2, 0.5])
    found = compare_credits(first, second)
    places = generator.integers(80, size=(4000, 80))
    drawn = (first - second)[places].mean(1)
    assert found.difference == pytest.approx((first - second).mean())
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)
    assert compare_credits(first, first).p_value == 1
    assert compare_credits(np.ones(50), np.zeros(50)).p_value < 0.001


def test_a_trained_model_scores_pairs_as_it_scores_sentences(prpn, toy, tmp_path):
    words = (toy / "test.txt").read_text().splitlines()[:6]
    items = [{"sentence_good": line, "sentence_bad": " ".join(reversed(line.split()))} for line in words]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    report = evaluate_pairs({"one": prpn}, path)
    expected = Scorer.of(prpn).sentences([prpn.normaliser.tokens(line) for line in words])
    assert report.models[0].better == pytest.approx(expected, rel=1e-5)
    report.write_details(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["better"] for row in rows] == words
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        better, worse = row["models"]["one"]["log_prob"]
        assert row["models"]["one"]["correct"] == (better > worse)


def test_what_cannot_be_scored_is_reported(small):
    dropping = ModelBundle(
        small.model, replace(small.settings, normaliser=NormaliserSettings(drop_punctuation=True)), small.vocabulary
    )
    with pytest.raises(InputError, match=r"file, line 1: the normaliser of model leaves no word of '\?!'"):
        score_pairs(dropping, [pair("the cat", "?!")])
    with pytest.raises(InputError, match="found no model"):
        evaluate_pairs({}, "file")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no minimal pairs in {DATA}")
@pytest.mark.parametrize(
    ("name", "count", "differing", "everything"),
    [("marvin-linzen", 4800, 73.1, 31.1), pytest.param("blimp", 16750, 79.5, 13.1, marks=pytest.mark.long)],
)
def test_published_pairs_with_words_of_penn_treebank_text(prpn, monkeypatch, name, count, differing, everything):
    words = set((DATA / "ptb" / "ptb.train.txt").read_text(encoding="utf-8").split()) - {"<unk>", "$", "#"}
    vocabulary = Vocabulary(["<unk>", "<s>", "</s>", *sorted(words)])
    normaliser = NormaliserSettings(lower_case=True, numbers="whole", drop_words=("$", "#"))
    stored = ModelBundle(prpn.model, replace(prpn.settings, normaliser=normaliser), vocabulary)
    monkeypatch.setattr(Scorer, "_sentence_sums", lambda scorer, model, corpus: np.zeros(len(corpus)))
    pairs = [pair for pair in read_pairs([DATA / name]) if pair.adjacent]
    found = score_pairs(stored, pairs, TreebankStyle("drop", "split"))
    assert len(found.better) == count
    assert round(100 * found.differing_known.mean(), 1) == differing
    assert round(100 * found.all_known.mean(), 1) == everything


def test_pairs_that_differ_in_unknown_words_are_counted_before_the_table(small, tmp_path):
    items = [("the zebra sleeps", "the horse sleeps"), ("the cat sleeps", "the cats zebra"), ("the cat", "the cats")]
    text = "".join(json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n" for good, bad in items)
    (tmp_path / "pairs.jsonl").write_text(text)
    report = evaluate_pairs({"small": small}, tmp_path / "pairs.jsonl")
    (line,) = report.warnings
    assert line.startswith(
        "small: 2 of 3 pairs differ in a word that the model does not know, 1 in one sentence and 1 in"
    )
    assert "such as 'the zebra sleeps' / 'the horse sleeps'" in line
    assert "line 1)" in line
    figures = report.to_dict()
    assert [figures["models"][0][name] for name in ("unknown_in_one", "unknown_in_both")] == [1, 1]
    assert figures["warnings"] == [line]
    shown = str(report)
    assert shown.index(f"warning: {line}") < shown.index("accuracy (number of pairs)")


def test_few_pairs_with_unknown_words_are_counted_without_a_warning(small, tmp_path):
    items = [("the zebra sleeps", "the horse sleeps"), *[("the cat sleeps", "the cat sleep")] * 19]
    text = "".join(json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n" for good, bad in items)
    (tmp_path / "pairs.jsonl").write_text(text)
    report = evaluate_pairs({"small": small}, tmp_path / "pairs.jsonl")
    assert not report.warnings
    assert "small: 1 of 20 pairs differ in a word that the model does not know" in "\n".join(
        report.report().explanation
    )


def test_marks_between_regions_in_pairs_are_refused(small, tmp_path):
    (tmp_path / "pairs.csv").write_text("better,worse\nthe cat | sleeps,the cat | sleep\nthe cats | sleep,the | cat\n")
    with pytest.raises(InputError, match=r"pairs\.csv: found '\|', a mark between regions, in 4 of 4 sentences"):
        evaluate_pairs(small, tmp_path / "pairs.csv")
