"""Surprisal of displayed words, and regressions of reading times on it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import string
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.displayed_words import displayed_words, join_times
from syntaxlm.data.frequencies import Frequencies
from syntaxlm.data.input_table import InputTable
from syntaxlm.data.reading_measures import reading_measure, time_columns
from syntaxlm.drawing.files import check_picture
from syntaxlm.evaluation.item_plot import NOT_BITS
from syntaxlm.evaluation.options import RegressionSettings
from syntaxlm.evaluation.reading_times import evaluate_reading_times
from syntaxlm.evaluation.reading_times_export import exported_files
from syntaxlm.evaluation.reading_times_report import _unit
from syntaxlm.evaluation.time_regressions import binned_means, smooth_terms
from syntaxlm.reports.writers import format_rows, write_rows
from syntaxlm.scoring.options import ScoreOptions
from syntaxlm.scoring.surprisal import MEASURES, surprisals
from syntaxlm.scoring.word_table import score_words, word_table
from syntaxlm.statistics.intervals import mean_interval, t_quantile
from syntaxlm.statistics.regression import (
    assigned_folds,
    dependences,
    fit,
    held_out_log_likelihood,
    independent,
    spline_terms,
)
from syntaxlm.text.vocabulary import Vocabulary
from tests.fresh_models import STREAM, fresh
from tests.shared_data import DATA
from tests.tree_models import tree_model

CARRY = ScoreOptions(context="carry")
NATURAL_STORIES = DATA / "natural-stories"
FREQUENCIES = Frequencies({"the": 50, "cat": 10, "dog": 5, "sees": 2, "old": 1}, 100, "list.tsv")


def model_of_marks(**settings):
    """A model whose vocabulary has punctuation marks and contraction endings as words."""
    stored = fresh("lstm", **settings)
    special, marks = ["<unk>", "<s>", "</s>"], [",", ".", "--", "``", "''", "(", ")", "?", "!"]
    words = ["do", "n't", "it", "'s", "he", "said", "twice", "word", "N", "the", "well-known"]
    tokens = [*special, *marks, *words]
    return dataclasses.replace(stored, vocabulary=Vocabulary(tokens))


def frame(words, **columns):
    return pd.DataFrame({"word": words, **columns})


def scored(stored, words, options=ScoreOptions(), group=None, sentence=None, **columns):
    table = InputTable.read(frame(words, **columns))
    return score_words(stored, displayed_words(table, group=group, sentence=sentence), options)


# ---- surprisal of displayed words


def test_words_with_punctuation_and_contractions_are_aligned_with_their_tokens():
    words = ['"Don’t,"', "he", "said—twice.", "It's", "(the", "word)", "1,989", "...", "well-known!", "xyzzy"]
    stored = model_of_marks()
    scores = score_words(stored, displayed_words(InputTable.read(frame(words, s=[1] * 10)), sentence="s"))
    assert scores.tokens == (
        "`` do n't , ''", "he", "said -- twice .", "it 's", "( the", "word )", "N", "<unk>", "well-known !", "<unk>",
    )  # fmt: skip
    assert scores.known.tolist() == [True] * 7 + [False, True, False]
    rows = next(surprisals(stored, [" ".join(words)], ScoreOptions()))
    assert np.allclose(scores.surprisal, [row.surprisal for row in rows if row.word])
    assert rows[-1].word == ""  # the end of the sentence does not count


def test_a_word_that_the_model_does_not_read_has_no_surprisal():
    scores = scored(fresh("lstm", drop_punctuation=True), ["the", "—", "cat"])
    assert np.isnan(scores.surprisal).tolist() == scores.known.__invert__().tolist() == [False, True, False]


def test_sentences_end_at_marks_that_no_space_follows():
    words = ["「何？」と", "彼。", "いいえ。", "ど、。う？z", "いいえ。", "いいえ。"]
    assert displayed_words(InputTable.read(frame(words))).sentences.tolist() == [0, 0, 1, 2, 2, 3]


def test_the_surprisal_of_a_region_is_the_sum_over_its_words():
    stored = fresh("lstm")
    words = scored(stored, ["the", "old", "cat", "sees"]).surprisal
    regions = scored(stored, ["the  old", "cat sees"]).surprisal
    assert np.allclose(regions, [words[:2].sum(), words[2:].sum()])


def test_carried_state_crosses_sentences_but_not_groups():
    stored = fresh("lstm", STREAM)
    words = ["the", "cat", "sees.", "the", "old", "dog."] * 2
    story = ["a"] * 6 + ["b"] * 6
    reset, carried = (
        scored(stored, words, ScoreOptions(context=context), "story", story=story) for context in ("reset", "carry")
    )
    assert (reset.carries, carried.carries) == (False, True)
    assert not scored(stored, words).carries
    assert np.allclose(reset.surprisal[:3], carried.surprisal[:3])
    assert not np.allclose(reset.surprisal[3:6], carried.surprisal[3:6])
    assert np.allclose(carried.surprisal[:6], carried.surprisal[6:])
    assert not np.allclose(scored(stored, words, CARRY).surprisal[6:], carried.surprisal[6:])


def test_carried_state_of_a_model_of_single_sentences_warns_once():
    with pytest.warns(InputWarning, match="trained on single sentences") as warned:
        scored(fresh("lstm"), ["the", "cat"], CARRY, "story", story=["a", "b"])
    assert len(warned) == 1


def test_long_sentences_are_split_for_models_of_whole_sentences(monkeypatch):
    monkeypatch.setattr("syntaxlm.scoring.word_table.LONGEST", 6)
    words = ["the", "cat", "sees", "a,", "dog", "the", "cat", "sees", "the", "old"]
    with pytest.warns(InputWarning, match="1 sentences have more than 6 words"):
        scores = scored(fresh("simple-pcfg"), words)
    parts = ["the cat sees a,", "dog the cat sees the old"]
    rows = [row for line in surprisals(fresh("simple-pcfg"), parts, ScoreOptions()) for row in line if row.word]
    assert np.allclose(scores.surprisal, [row.surprisal for row in rows])
    assert scored(fresh("lstm"), words).long_sentences == 0


def test_a_dependency_tree_model_is_refused():
    with pytest.raises(InputError, match="reads dependency trees; expected a model of text"):
        scored(tree_model(), ["the"])


# ---- the table of words


def test_the_length_of_a_word_depends_neither_on_its_encoding_nor_on_invisible_characters():
    words = ["caf\u00e9,", "cafe\u0301,", "ca\u00adf\u00e9,", "\u202acaf\u00e9,\u202c"]
    table = word_table(fresh("lstm"), frame(words, s=[1] * 4), sentence="s")
    assert table.values["length"] == [5] * 4


def test_the_table_has_all_columns_of_the_input_and_values_of_previous_words():
    table = frame(["the", "Cat,", "xyzzy", "dog"], item=["a", "a", "a", "b"], length=[9, 9, 9, 9])
    found = word_table(fresh("ngram"), table, group="item", frequencies=FREQUENCIES, spillover=2)
    rows = list(found.rows())
    assert list(rows[0]) == [
        "word", "item", "input_length", "sentence_number", "word_in_sentence", "word_in_group", "token", "tokens",
        "context", "surprisal", "surprisal_word", "surprisal_marks", "in_vocabulary", "previous_surprisal",
        "previous_surprisal_word", "previous_surprisal_marks", "previous_in_vocabulary", "previous_surprisal_2",
        "previous_surprisal_word_2", "previous_surprisal_marks_2", "previous_in_vocabulary_2", "length",
        "log_frequency", "previous_length", "previous_log_frequency", "previous_length_2", "previous_log_frequency_2",
    ]  # fmt: skip
    assert [row["in_vocabulary"] for row in rows] == [True, True, False, True]
    assert [row["previous_in_vocabulary"] for row in rows] == [None, True, True, None]
    assert [row["previous_surprisal"] for row in rows] == [None, rows[0]["surprisal"], rows[1]["surprisal"], None]
    assert [row["length"] for row in rows] == [3, 4, 5, 3]
    assert [row["previous_length_2"] for row in rows] == [None, None, 3, None]
    assert rows[1]["log_frequency"] == round(FREQUENCIES.zipf("cat"), 6)
    assert found.summary == (
        "2 sentences, 4 words, 1 unknown (25.0%): xyzzy; context reset: each sentence is read by itself"
    )


@pytest.mark.parametrize(("format", "separator"), [("tsv", "\t"), ("csv", ",")])
def test_the_formats_of_the_table_have_the_same_content(format, separator):
    found = word_table(fresh("ngram"), frame(['"the,', "cat"]))
    text = io.StringIO("".join(format_rows(found.rows(), found.columns, format)))
    first, second = lines = list(csv.DictReader(text, delimiter=separator))
    rows = list(found.rows())
    assert [first.keys(), second.keys()] == [row.keys() for row in rows]
    assert [line["word"] for line in lines] == ['"the,', "cat"]
    assert [line["in_vocabulary"] for line in lines] == [str(row["in_vocabulary"]).lower() for row in rows]
    assert first["previous_surprisal"] == ""
    assert float(second["previous_surprisal"]) == pytest.approx(rows[0]["surprisal"], abs=1e-6)
    assert list(found.to_dataframe()["word"]) == ['"the,', "cat"]


def test_a_frequency_list_without_most_words_warns():
    with pytest.warns(InputWarning, match=r"list\.tsv: has only 33% of the displayed words"):
        word_table(fresh("ngram"), frame(["the", "N", "a"]), frequencies=FREQUENCIES)


# ---- regressions


@pytest.fixture
def generator():
    return np.random.default_rng(7)


@pytest.mark.parametrize("effect", [2, 0])
def test_a_known_effect_is_recovered_and_its_gain_on_held_out_rows(generator, effect):
    rows, noise = 4000, 30
    length, surprisal = generator.normal(5, 2, rows), generator.normal(8, 3, rows)
    times = 300 + 4 * length + effect * surprisal + generator.normal(0, noise, rows)
    both = {"length": length, "surprisal": surprisal}
    coefficient = fit(times, both).coefficient("surprisal")
    assert coefficient.standard_error == pytest.approx(noise / (3 * np.sqrt(rows)), rel=0.05)
    assert abs(coefficient.value - effect) < 3 * coefficient.standard_error
    folds, units = assigned_folds(np.arange(rows) // 20, 10, seed=0), np.arange(rows) // 20
    deltas = held_out_log_likelihood(times, both, folds) - held_out_log_likelihood(times, {"length": length}, folds)
    interval = mean_interval(deltas, units)
    # The expected gain of a predictor is half the squared effect over the noise variance.
    expected = 0.5 * np.log(1 + (effect * 3 / noise) ** 2)
    if effect:
        assert 0.5 * expected < interval.low < expected < interval.high
    else:
        assert abs(interval.value) < 1e-3
        assert interval.low < 0


def test_held_out_rows_are_not_in_their_own_regression():
    times = np.array([1.0, 2.0, 3.0, 4.0, 100.0, 6.0])
    x = {"x": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])}
    folds = np.array([0, 1, 0, 1, 2, 0])
    found = held_out_log_likelihood(times, x, folds)
    assert found[4] < found[[0, 1, 2, 3, 5]].min()
    changed = np.where(folds == 2, 5, times)
    assert held_out_log_likelihood(changed, x, folds)[4] > 0 > found[4]


@pytest.mark.parametrize("is_binary", [False, True])
def test_a_predictor_that_is_constant_in_the_other_folds_does_not_change_the_prediction_of_a_fold(generator, is_binary):
    """Such as a property of passages, of which each is a fold."""
    folds, x = np.repeat([0, 1], 40), generator.normal(0, 1, 80)
    trials = np.full(80, 4) if is_binary else None
    values = generator.binomial(4, 0.4, 80) / 4 if is_binary else generator.normal(300, 30, 80)
    found = held_out_log_likelihood(values, {"genre": 1.0 + folds, "x": x}, folds, trials)
    assert found == pytest.approx(held_out_log_likelihood(values, {"x": x}, folds, trials), rel=1e-9)


@pytest.mark.parametrize("count", [3, 4, 7])
def test_spline_terms_span_the_natural_cubic_splines_of_their_knots(count):
    """Natural cubic splines by truncated powers: Harrell 2015, section 2.4.5."""
    knots, values = np.linspace(0, 1, count) ** 1.5 * 10, np.linspace(-5, 15, 201)
    first, second = knots[-1], knots[-2]
    cubes = {knot: np.maximum(values - knot, 0) ** 3 for knot in knots.tolist()}
    powers = [
        cubes[knot] - (cubes[second] * (first - knot) - cubes[first] * (second - knot)) / (first - second)
        for knot in knots[:-2].tolist()
    ]
    terms = spline_terms(values, knots)
    linear = [np.ones_like(values), values]
    assert len(terms) == count - 2
    assert np.linalg.matrix_rank(np.column_stack(linear + terms)) == count
    assert np.linalg.matrix_rank(np.column_stack(linear + terms + powers), 1e-6) == count


def test_smooth_terms_remove_a_curved_effect_of_length_from_the_gain(experiment):
    models, words, times = experiment
    lengths = words["word"].str.len() ** 3
    curved = times.assign(curved=300 + lengths / 10 + times["null"] / 100)
    linear, smooth = (evaluate((models, words, curved), "curved", smooth=count) for count in (0, 3))
    assert not any("spline" in name for name in linear.predictors)
    assert "splines with 3 knots" in str(smooth)
    assert "splines" not in str(linear)
    before, after = linear.models[0].baseline, smooth.models[0].baseline
    assert after.log_likelihood > before.log_likelihood


def test_terms_are_left_out_where_quantiles_are_equal():
    values = {"length": np.array([3.0] * 20), "log_frequency": np.arange(20.0)}
    terms = smooth_terms(values, np.ones(20, bool), 0, 5)
    assert list(terms) == [f"log_frequency_spline_{number}" for number in (1, 2, 3)]
    assert not smooth_terms(values, np.ones(20, bool), 0, 2)


def test_the_number_of_tokens_is_in_the_baseline_and_a_note_reports_what_it_gains(experiment):
    models, words, times = experiment
    counts = 1 + words["word"].str.endswith(".")
    times = times.assign(counted=300 + 30 * counts + times["null"] / 20)
    report = evaluate((models, words, times), "counted")
    for one in report.models:
        assert one.scores.token_counts.tolist() == counts.tolist()
        assert one.split_words == (counts > 1)[report.analysed].sum()
        assert one.baseline.coefficient("tokens").value == pytest.approx(30, abs=0.5)
        assert one.token_gain.low > 10 * abs(one.delta.value)
    note = "lstm, reset; kn, reset: 14% of the words are several tokens. The number of tokens alone gains"
    assert note in str(report)
    plain = words.assign(word=words["word"].str.rstrip("."))
    report = evaluate((models, plain, times), "counted")
    assert report.models[0].baseline.coefficient("tokens") is None
    assert report.models[0].token_gain.value == 0
    assert "several tokens" not in str(report)
    assert "tokens" not in report.models[0].baseline.collinear


def test_folds_never_split_a_unit_and_have_equal_numbers_of_units():
    units = np.repeat(np.arange(25), np.arange(25) % 4 + 1)
    folds = assigned_folds(units, 10, seed=3)
    assert all(len(set(folds[units == unit])) == 1 for unit in range(25))
    sizes = [len(set(units[folds == fold])) for fold in range(10)]
    assert sorted(set(sizes)) == [2, 3]
    assert set(assigned_folds(np.array([0, 0, 1]), 10, 0)) == {0, 1}
    assert not np.array_equal(folds, assigned_folds(units, 10, seed=4))


def test_constant_and_collinear_predictors_are_left_out():
    x = np.arange(10.0)
    kept, left_out = independent({"x": x, "one": np.ones(10), "twice": 2 * x + 1, "square": x**2})
    assert (list(kept), left_out) == (["intercept", "x", "square"], ("one", "twice"))


def test_dependent_predictors_are_those_that_do_not_add_to_the_rank(generator):
    x, y, z = generator.normal(8, 3, (3, 50))
    predictors = {"x": x, "y": 1e6 * y, "sum": x - 2 * y + 3, "z": z, "one": np.ones(50), "again": z}
    kept, left_out = independent(predictors)
    scaled = np.column_stack([values / np.linalg.norm(values) for values in predictors.values()])
    assert np.linalg.matrix_rank(scaled) == len(kept) == 4  # with the intercept
    assert dependences(predictors) == {"sum": ["x", "y"], "one": [], "again": ["z"]}
    assert list(dependences(predictors)) == list(left_out)


def test_bins_have_equal_numbers_of_words_and_their_means():
    x = np.arange(100.0)[::-1]
    bins = list(binned_means(x, 3 * x, 4))
    assert [(one.x, one.mean, one.size) for one in bins] == [
        (12, 36, 25), (37, 111, 25), (62, 186, 25), (87, 261, 25),
    ]  # fmt: skip
    assert bins[0].high - bins[0].mean == pytest.approx(t_quantile(24) * (3 * np.arange(25)).std(ddof=1) / 5)


# ---- the evaluation


@pytest.fixture(scope="module")
def experiment():
    """Two models, and words whose times have a known effect of the first model's surprisal."""
    generator = np.random.default_rng(0)
    drawn = generator.choice(["the", "cat", "dog", "sees", "old", "zzz"], 1800, p=[0.3, 0.2, 0.2, 0.15, 0.13, 0.02])
    words = [str(word) + (punctuation * (place % 7 == 6)) for place, word in enumerate(drawn) for punctuation in "."]
    table = frame(words, story=np.arange(1800) // 300, zone=np.arange(1800) % 300, item_rt=[""] * 1800)
    models = {"lstm": fresh("lstm"), "kn": fresh("ngram")}
    columns = word_table(models["lstm"], table, group="story").to_dataframe()
    noise = generator.normal(0, 20, 1800)
    own = columns["surprisal"] + 0.5 * columns["previous_surprisal"].fillna(0)
    times = 300 + 6 * own + 2 * columns["length"] + noise / 10
    return models, table, table[["story", "zone"]].assign(time=times, null=300 + noise)


def evaluate(experiment, time="time", models=None, context=None, **settings):
    own, words, times = experiment
    return evaluate_reading_times(
        models or own, words, times, frequencies=FREQUENCIES, time_column=time, group="story", context=context,
        settings=RegressionSettings(**settings),
    )  # fmt: skip


@pytest.fixture(scope="module")
def report(experiment):
    return evaluate(experiment)


@pytest.fixture(scope="module")
def curved():
    """A report on words of 1 to 11 letters, some of them unknown, whose times grow with the square of their length."""
    generator = np.random.default_rng(1)
    drawn = generator.choice(["a", "the", "cat", "sees", "walked", "unknowable", "old"], 600)
    words = frame([str(word) + "." * (place % 7 == 6) for place, word in enumerate(drawn)], story=np.arange(600) // 200)
    times = words.assign(zone=np.arange(600), time=words["word"].str.len() ** 2 + generator.normal(300, 20, 600))
    words = words.assign(zone=np.arange(600))
    return evaluate(({"kn": fresh("ngram")}, words, times[["story", "zone", "time"]]), unknown="keep", folds=2)


def test_models_are_measured_on_the_same_words_and_the_true_effect_is_found(report):
    lstm, kn = report.models
    assert abs(lstm.regression.coefficient("surprisal").value - 6) < 0.5
    assert abs(lstm.regression.coefficient("previous_surprisal").value - 3) < 0.5
    assert lstm.delta.low > 0
    assert lstm.delta.value > kn.delta.value
    ((label, difference),) = report.differences.items()
    assert label == "kn, reset"
    assert difference.high < 0
    assert difference.value == pytest.approx(kn.delta.value - lstm.delta.value)
    assert len(lstm.deltas) == len(kn.deltas) == report.count
    assert lstm.delta.value == pytest.approx(lstm.deltas.mean())


def test_times_without_effect_give_about_zero(experiment):
    report = evaluate(experiment, "null")
    for one in report.models:
        assert abs(one.delta.value) < 4e-3
        assert one.delta.low < 0


def test_unknown_words_and_the_words_after_them_are_left_out_and_counted(experiment):
    report = evaluate(experiment, spillover=2)
    words = np.array([word.rstrip(".") for word in report.words.words])
    unknown = words == "zzz"
    window = unknown | np.r_[False, unknown[:-1]] | np.r_[False, False, unknown[:-2]]
    starts, ends = np.arange(1800) % 300 < 2, np.arange(1800) % 300 == 299
    assert np.array_equal(report.analysed, ~(window | starts | ends))
    assert report.models[0].unknown_words == unknown.sum()
    assert report.excluded["unknown"] == (unknown & ~starts & ~ends).sum()
    assert report.count + sum(report.excluded.values()) == 1800
    kept = evaluate(experiment, unknown="keep", keep_last=True)
    assert kept.count == 1800 - 6
    assert "indicators of unknown words" in str(kept)
    assert "at the end of a passage" not in kept.excluded
    for one in kept.models:
        assert one.baseline.coefficient("unknown") is not None
        assert one.regression.coefficient("previous_unknown") is not None


@pytest.mark.parametrize(("unit", "folds"), [("group", 6), ("sentence", 10)])
def test_folds_never_split_a_group_or_sentence(experiment, unit, folds):
    report = evaluate(experiment, fold_unit=unit)
    assert report.to_dict()["folds"] == folds
    units = (report.words.groups if unit == "group" else report.words.sentences)[report.analysed]
    assert len(set(zip(report.fold[report.analysed], units, strict=True))) == len(set(units))
    assert f"{folds} folds of whole {'texts (story)' if unit == 'group' else 'sentences'}" in str(report)


def test_both_contexts_and_grammars_appear_in_one_table(experiment):
    models = {"stream": fresh("lstm", STREAM), "pcfg": fresh("simple-pcfg")}
    _, words, times = experiment
    few = words[:600], times[:600]
    report = evaluate((models, *few), context="both")
    assert [one.label for one in report.models] == ["stream, reset", "stream, carry", "pcfg, reset"]
    panels = report.plot().axes
    assert [ax.get_title("left") for ax in panels] == ["stream, reset", "stream, carry", "pcfg, reset"]
    for ax, model in zip(panels, report.models, strict=True):
        assert ax.lines[0].get_ydata().tolist() == [one.mean for one in model.bins]
    assert len({ax.get_ylim() for ax in panels}) == 1
    assert list(report.to_dataframe()["model"]) == ["stream", "stream", "pcfg"]


def test_figures_for_json_and_details_agree_with_the_report(report):
    figures = json.loads(json.dumps(report.to_dict()))
    assert figures["schema_version"] == 1
    assert figures["words"]["analysed"] == report.count
    assert figures["models"][0]["delta_log_likelihood"]["value"] == report.models[0].delta.value
    assert len(figures["models"][0]["fold_delta_log_likelihoods"]) == figures["folds"] == 10
    assert figures["baseline_predictors"] == [
        "length", "log_frequency", "previous_length", "previous_log_frequency", "word_in_sentence", "word_in_group",
        "log_frequency_spline_1", "previous_log_frequency_spline_1",
    ]  # fmt: skip
    rows = report.word_table().to_dataframe()
    assert len(rows) == 1800
    kept = rows[rows["analysed"]]
    assert kept["fold"].min() == 1
    assert kept["surprisal_kn_reset"].mean() == pytest.approx(report.models[1].mean_surprisal, abs=1e-5)
    text = str(report)
    assert f"{1000 * report.models[0].delta.value:.2f}" in text
    assert "kn, reset minus lstm, reset:" in text


@pytest.mark.parametrize("form", ["tsv", "frame", "parquet"])
def test_the_regression_of_the_exported_columns_is_that_of_the_report(curved, form, tmp_path):
    """By least squares on the columns, which have six decimals."""
    path = tmp_path / f"rows.{form}"
    table = curved.word_table()
    if form == "frame":
        exported = table.to_dataframe()
    elif form == "parquet":
        table.to_parquet(path)
        exported = pd.DataFrame(pl.read_parquet(path).to_dict(as_series=False))
    else:
        write_rows(table.rows(), table.columns, path, "tsv")
        exported = pd.read_csv(path, sep="\t")
    rows = exported[exported["analysed"]]
    of_model = re.compile(r"((?:previous_)?(?:surprisal|tokens|in_vocabulary))")
    for one in curved.models:
        for regression in (one.baseline, one.regression):
            names = [coefficient.name for coefficient in regression.coefficients]
            assert {"length_spline_1", "previous_length_spline_1", "previous_unknown"} <= set(names)
            columns = [np.ones(len(rows))]
            for name in names[1:]:
                column = of_model.sub(rf"\1_{one.name}_{one.context}", name.replace("unknown", "in_vocabulary"))
                values = rows[column].to_numpy(float)
                columns.append(1 - values if "unknown" in name else values)
            design, times = np.column_stack(columns), rows["reading_time"].to_numpy(float)
            values, squares, *_ = np.linalg.lstsq(design, times, rcond=None)
            variance = squares[0] / (len(rows) - len(names))
            errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * variance)
            differences = values - [coefficient.value for coefficient in regression.coefficients]
            assert np.abs(differences / errors).max() < 1e-5
            assert errors == pytest.approx([each.standard_error for each in regression.coefficients], rel=1e-5)


def test_the_baseline_of_the_script_has_the_indicators_of_unknown_words_of_the_report(curved, tmp_path):
    script = curved.export(tmp_path / "rows.csv", subject="story").read_text(encoding="utf-8")
    (baseline,) = re.findall(r"baseline1 <- lmer\(time ~ (.*)", script)
    (added,) = re.findall(r"model1 <- update\(baseline1, . ~ . \+ (.*)\)", script)
    assert {"length_z", "unknown_z", "previous_unknown_z"} <= set(baseline.split(" + "))
    assert added.split(" + ") == ["surprisal_z", "previous_surprisal_z"]
    exported = pd.read_csv(tmp_path / "rows.csv", keep_default_na=False)
    assert (exported["unknown"] == exported["word"].str.startswith(("walked", "unknowable"))).all()


def test_the_script_has_columns_in_backticks_whose_names_r_does_not_read_otherwise(experiment, tmp_path):
    models, words, times = with_subjects(experiment)
    words = words.assign(**{"log freq": np.arange(1800.0) ** 0.5})
    script = evaluate((models, words, times), smooth=0, predictors=["log freq"]).export(tmp_path / "rows.csv")
    text = script.read_text(encoding="utf-8")
    assert " + word_in_group_z + `log freq_z`" in text
    assert "check.names = FALSE" in text
    assert "log freq_z" in pd.read_csv(tmp_path / "rows.csv").columns


def with_subjects(experiment, **columns):
    """The times of two readers, of the n-gram model alone."""
    models, words, times = experiment
    words, times = words.rename(columns=columns), times.rename(columns=columns)
    times = pd.concat([times.assign(subject=name) for name in ("a", "b")], ignore_index=True)
    return {"kn": models["kn"]}, words, times


def test_a_key_with_the_name_of_an_exported_column_is_exported_beside_it(experiment, tmp_path):
    _, _, times = own = with_subjects(experiment, zone="word_id")
    evaluate(own, smooth=0).export(tmp_path / "rows.csv")
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows.columns[-2:]) == ["story", "input_word_id"]
    assert (rows["word_id"] == 300 * rows["story"] + rows["input_word_id"] + 1).all()
    joined = rows.merge(times, left_on=["subject", "story", "input_word_id"], right_on=["subject", "story", "word_id"])
    assert np.allclose(joined["time_x"], joined["time_y"])


def test_small_values_of_a_predictor_are_exported_with_six_digits(experiment, tmp_path):
    models, words, times = with_subjects(experiment)
    shares = np.random.default_rng(3).random(1800) / 10**8
    evaluate((models, words.assign(share=shares), times), smooth=0, predictors=["share"]).export(tmp_path / "rows.csv")
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert rows["share"].to_numpy() == pytest.approx(shares[rows["word_id"] - 1], rel=1e-5)


def test_a_time_without_a_subject_is_not_exported_because_mixed_models_would_leave_it_out(experiment, tmp_path):
    models, words, times = with_subjects(experiment)
    times.loc[7, "subject"] = None
    with pytest.raises(InputError, match=r"row with index 7: column subject has a missing value.*expected the subject"):
        evaluate((models, words, times), smooth=0).export(tmp_path / "rows.csv")
    times.loc[7, "time"] = np.nan  # is in no regression
    evaluate((models, words, times), smooth=0).export(tmp_path / "rows.csv")


def test_models_and_measures_whose_names_differ_only_in_punctuation_have_columns_and_files_of_their_own(
    experiment, tmp_path
):
    own, words, times = with_subjects(experiment)
    report = evaluate(({"kn-1": own["kn"], "kn_1": own["kn"]}, words, times), smooth=0)
    report.export(tmp_path / "rows.csv")
    columns = pd.read_csv(tmp_path / "rows.csv").columns
    assert {"surprisal_kn_1_reset", "surprisal_kn_1_reset_2"} <= set(columns)
    files = exported_files(tmp_path / "rows.csv", ["RT_1_2", "RT 1", "RT_1"])
    names = ["rows-RT_1_2", "rows-RT_1", "rows-RT_1_3"]
    assert [file.name for file in files] == [f"{name}{suffix}" for name in names for suffix in (".csv", ".R")]


def test_spaces_around_the_name_of_a_subject_make_no_other_subject(experiment, tmp_path):
    models, words, times = with_subjects(experiment)
    times.loc[times.index % 2 == 0, "subject"] += " "
    evaluate((models, words, times), smooth=0).export(tmp_path / "rows.csv")
    assert set(pd.read_csv(tmp_path / "rows.csv")["subject"]) == {"a", "b"}


@pytest.mark.long
def test_a_numeric_column_can_be_a_predictor_and_logarithms_are_predicted(experiment):
    models, words, times = experiment
    words = words.assign(shown=np.arange(1800.0) ** 0.5)
    words.loc[10, "shown"] = np.nan
    report = evaluate((models, words, times), predictors=("shown",), log=True)
    assert report.excluded["without predictor"] == 1
    assert report.models[0].baseline.coefficient("shown") is not None
    assert 5 < report.to_dict()["times"]["mean"] < 7
    with pytest.raises(InputError, match="no column 'missing'; found word"):
        evaluate(experiment, predictors=("missing",))
    with pytest.raises(InputError, match="the baseline has a predictor of this name"):
        evaluate(experiment, predictors=("length",))
    with pytest.raises(InputError, match="the baseline has a predictor of this name"):
        evaluate((models, words.assign(tokens=1.0), times), predictors=("tokens",))


@pytest.mark.parametrize(
    "name", ["surprisal", "previous_surprisal", "previous_tokens", "unknown", "length_spline_1", "intercept"]
)
def test_a_predictor_with_the_name_of_a_later_term_is_refused_because_the_term_would_replace_it(experiment, name):
    models, words, times = experiment
    with pytest.raises(InputError, match="the baseline has a predictor of this name; rename the column"):
        evaluate((models, words.assign(**{name: np.arange(1800.0)}), times), predictors=(name,))


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"folds": 1}, "folds: found 1; expected an integer, 2 or more"),
        ({"spillover": -1}, "spillover: found -1"),
        ({"unknown": "drop"}, "unknown: found 'drop'; expected exclude or keep"),
        ({"measures": []}, "measures: found none; expected one or more"),
    ],
)
def test_wrong_settings_are_reported(settings, reported):
    with pytest.raises(InputError, match=reported):
        RegressionSettings(**settings)


def test_too_few_words_are_reported(experiment):
    models, words, times = experiment
    with pytest.raises(
        InputError, match=r"found \d+ words for the regression with 12 predictors; expected at least 65"
    ):
        evaluate((models, words[:20], times[:20]))


def test_too_few_words_outside_a_fold_are_reported_because_their_regression_has_no_degrees_of_freedom(experiment):
    models, words, times = experiment
    with pytest.raises(InputError, match=r"found 8 words outside the largest fold .* 12 predictors; expected at least"):
        evaluate((models, words[:310], times[:310]), fold_unit="group", unknown="keep")


def test_without_statsmodels_the_extra_is_named(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    monkeypatch.setitem(sys.modules, "statsmodels.regression.linear_model", None)
    with pytest.raises(InputError, match=r"pip install 'syntaxlm\[stats\]'"):
        evaluate(experiment)


@pytest.mark.long
def test_pictures_are_written_as_svg_or_page_but_not_as_latex(report, tmp_path):
    for suffix in (".svg", ".html"):
        path = tmp_path / f"times{suffix}"
        report.write_picture(path)
        assert "surprisal in bits" in path.read_text(encoding="utf-8")
    assert "delta log-likelihood" in (tmp_path / "times.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"expected one of \.svg, \.pdf, \.png, \.html"):
        check_picture(tmp_path / "times.tex")


@pytest.mark.skipif(not NATURAL_STORIES.exists(), reason="no Natural Stories")
def test_natural_stories_are_aligned_with_their_times():
    words = displayed_words(InputTable.read(NATURAL_STORIES / "all_stories.tok.gz"), group="item")
    assert (len(words), words.groups[-1] + 1) == (10_256, 10)
    assert 470 <= words.sentences[-1] + 1 <= 490  # the corpus counts 485
    ends = [words.words[end - 1].rstrip("'")[-1] for _, end in words.spans(words.sentences)]
    assert set(ends) <= set(".?!")
    times = join_times(words, InputTable.read(NATURAL_STORIES / "wordinfo.tsv.gz"), "meanItemRT")
    assert not np.isnan(times.values).any()
    assert times.unmatched == 0
    scores = score_words(fresh("ngram"), words)
    assert scores.is_read.all()
    known = {word.lower().strip(".,!?'") for word, one in zip(words.words, scores.known, strict=True) if one}
    assert known <= {"the", "cat", "dog", "sees", "old", *string.ascii_lowercase}


# ---- what is left out of the times, contexts and measures


def test_times_that_are_missing_repeated_or_unmatched_are_counted_and_an_outlier_has_its_place():
    words = displayed_words(InputTable.read(frame(["the", "cat"] * 30, zone=range(60))))
    zones = [*range(60), 1, 1, 99]
    times = [*[300.0 + zone for zone in range(60)], 301.0, None, 300.0]
    table = InputTable.read(pd.DataFrame({"zone": zones, "time": times}))
    found = join_times(words, table, "time")
    assert found.notes == ["missing: 1", "of no displayed word: 1", "in a row that repeats an earlier one (kept): 1"]
    assert found.outlier == ""
    table = InputTable.read(pd.DataFrame({"zone": range(60), "time": [99999.0, *[300.0] * 59]}))
    assert (
        "row with index 0: the time 99,999 in column time is more than 20 times the median"
        in join_times(words, table, "time").outlier
    )


def test_times_of_0_of_skipped_words_make_no_other_time_an_outlier():
    words = displayed_words(InputTable.read(frame(["the"] * 9, zone=range(9))))
    times = InputTable.read(pd.DataFrame({"zone": range(9), "time": [0] * 5 + [200, 210, 220, 250]}))
    assert join_times(words, times, "time").outlier == ""


def test_many_rows_of_no_word_are_refused_unless_they_are_allowed():
    words = displayed_words(InputTable.read(frame(["the", "cat"], zone=[1, 2])))
    table = InputTable.read(pd.DataFrame({"zone": [1, 2, 3, 9], "time": [1.0, 2.0, 3.0, 4.0]}))
    with pytest.raises(InputError, match=r"found values of zone that .* 2 of 4 rows \(50%\); expected at most 5%"):
        join_times(words, table, "time")
    assert join_times(words, table, "time", allow_unmatched=True).unmatched == 2


def test_words_with_groups_are_read_as_in_training_and_others_sentence_by_sentence():
    table = frame(["the", "cat.", "the", "dog."], story=[1] * 4)
    stored = fresh("lstm", STREAM)
    default, carried = (word_table(stored, table, group="story", context=context) for context in (None, "carry"))
    assert set(default.values["context"]) == {"carry"}
    assert default.values["surprisal"] == carried.values["surprisal"]
    assert "context reset" in word_table(stored, table[["word"]]).summary
    assert "context reset" in word_table(fresh("lstm"), table, group="story").summary


def test_the_coefficients_of_measures_that_pictures_draw_in_bits_are_per_bit():
    assert {name for name in MEASURES if _unit(name) == "bit"} == MEASURES.keys() - NOT_BITS - {"next_words"}


def test_several_measures_are_in_one_regression_with_what_each_adds(experiment):
    own, _, _ = experiment
    report = evaluate(experiment, models={"lstm": own["lstm"]}, measures=["surprisal", "entropy"])
    (model,) = report.models
    assert model.regression.coefficient("previous_entropy") is not None
    assert model.gains["surprisal"].low > 0.1
    assert abs(model.gains["entropy"].value) < 0.05
    assert model.scores.measures["entropy"].shape == (1800,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"measures": ["surprisal_word", "surprisal_marks", "surprisal"]},
            r"measures=\['surprisal'\]: in the analysed words, surprisal of kn is a linear combination of"
            " surprisal_word, surprisal_marks; expected values that add to the others. Omit one of them",
        ),
        (
            {"predictors": ["place", "twice"]},
            r"predictors=\['twice'\].: in the analysed words, twice is a linear combination of word_in_group, place;",
        ),
        ({"predictors": "same"}, "in the analysed words, same is 3 everywhere; expected values that differ. Omit it"),
    ],
)
def test_measures_and_columns_that_others_determine_are_refused_by_name(settings, message, experiment):
    models, words, times = experiment
    place = np.arange(1800.0) ** 0.5
    words = words.assign(place=place, twice=2 * words["zone"] - place, same=3)
    with pytest.raises(InputError, match=message):
        evaluate((models, words, times), models={"kn": models["kn"]}, **settings)


def test_a_sum_of_rounded_measures_depends_on_them():
    generator = np.random.default_rng(0)
    first, second, other = generator.gamma(2, 3, (3, 500))
    values = {"first": first.round(6), "other": other, "second": second.astype(np.float32).astype(float)}
    assert dependences(values | {"sum": (first + second).round(6)}) == {"sum": ["first", "second"]}
    assert dependences(values | {"sum": first + second + 1e-3 * generator.normal(size=500)}) == {}


def test_a_predictor_that_is_chosen_twice_is_refused():
    for name in ("measures", "predictors"):
        with pytest.raises(InputError, match=f"{name}: found 'surprisal' twice; expected each predictor once"):
            RegressionSettings(**{name: ["surprisal", "surprisal"]})


def test_the_training_text_of_en_gives_frequencies():
    found = Frequencies.read("en")
    assert found.source == "the training text of en"
    assert found.zipf("the") > found.zipf("window") > found.zipf("tulip") > found.zipf("zyzzyva")


# ---- several reading measures


@pytest.fixture(scope="module")
def measures(experiment):
    """The experiment with the times of three reading measures, of which go-past has no time for every third word."""
    models, words, times = experiment
    go_past = (1.5 * times["time"]).where(np.arange(1800) % 3 > 0)
    columns = {"FPRT": times["time"], "firstrun.gopast": go_past, "null": times["null"], "IA_SKIP": times["zone"] % 2}
    return models, words, times[["story", "zone"]].assign(**columns)


@pytest.fixture(scope="module")
def of_measures(measures):
    return evaluate(measures, ["FPRT", "go_past", "null"])


def test_each_reading_measure_has_the_rows_of_its_own_evaluation_and_its_own_counts(measures, of_measures):
    frame = of_measures.to_dataframe()
    assert list(frame["measure"]) == ["first_pass"] * 2 + ["go_past"] * 2 + ["null"] * 2
    for name, column in {"first_pass": "FPRT", "go_past": "firstrun.gopast", "null": "null"}.items():
        alone = evaluate(measures, column)
        rows = frame[frame["measure"] == name]
        assert set(rows["time_column"]) == {column}
        for own, row in zip(alone.to_dataframe().to_dict("records"), rows.to_dict("records"), strict=True):
            assert {key: row[key] for key in own} == own
            counts = {key.removeprefix("excluded_"): row[key] for key in row if key.startswith("excluded_")}
            assert counts == {reason.replace(" ", "_"): count for reason, count in alone.excluded.items()}
            assert row["words"] + sum(counts.values()) == 1800
            assert row["times"] + row["times_missing"] == 1800
    assert list(frame["excluded_without_time"]) == [0, 0, 600, 600, 0, 0]
    # The true effects of the first model's surprisal.
    assert list(frame["surprisal_coefficient"][:4:2]) == pytest.approx([6, 9], abs=0.75)


@pytest.mark.long
def test_several_reading_measures_have_one_table_in_every_format(of_measures, tmp_path):
    figures = json.loads(json.dumps(of_measures.to_dict()))
    assert [one["measure"] for one in figures["measures"]] == ["first_pass", "go_past", "null"]
    assert [one["words"]["excluded_without_time"] for one in figures["measures"]] == [0, 600, 0]
    report = of_measures.report()
    names = [line.split()[:2] for line in str(of_measures).splitlines() if re.match(r"\S+ +(lstm|kn) ", line)]
    assert names == [[name, model] for name in ("first_pass", "go_past", "null") for model in ("lstm", "kn")]
    assert "go_past: times: 1,200 for 1,200 words; missing: 600" in report.explanation
    assert sum("delta log-likelihood: of held-out words" in line for line in report.explanation) == 1
    assert r"go\_past & lstm & reset" in report.latex()
    assert report.html().count(">go_past<") == 2
    of_measures.write_picture(tmp_path / "measures.html")
    assert "go_past" in (tmp_path / "measures.html").read_text(encoding="utf-8")
    panels = of_measures.plot().axes
    assert [ax.get_ylabel() for ax in panels] == ["FPRT", "", "firstrun.gopast", "", "null", ""]
    assert panels[2].get_ylim() == panels[3].get_ylim() != panels[0].get_ylim()


def test_the_words_of_several_measures_have_a_column_per_measure_where_they_differ(measures, of_measures):
    rows = of_measures.word_table().to_dataframe()
    alone = evaluate(measures, "firstrun.gopast").word_table().to_dataframe()
    assert rows["reading_time_go_past"].equals(alone["reading_time"])
    assert rows["analysed_go_past"].equals(alone["analysed"])
    assert rows["surprisal_lstm_reset"].equals(alone["surprisal_lstm_reset"])
    assert "surprisal_lstm_reset_go_past" not in rows


def test_the_words_of_several_measures_keep_all_digits_of_integers_with_missing_ones(measures):
    models, words, times = measures
    codes = pd.array([2**53 + 1, None] * 900, dtype="Int64")
    both = evaluate(({"kn": models["kn"]}, words.assign(code=codes), times), ["FPRT", "go_past"], smooth=0)
    for table in (both.by_measure["go_past"].word_table(), both.word_table()):
        assert table.to_dataframe()["code"].equals(pd.Series(codes))


def test_several_measures_are_exported_to_a_file_each(measures, tmp_path):
    models, words, times = measures
    both = evaluate(({"kn": models["kn"]}, words, times.assign(subject="s")), ["FPRT", "go_past"])
    scripts = both.export(tmp_path / "rows.csv")
    assert [path.name for path in scripts] == ["rows-first_pass.R", "rows-go_past.R"]
    rows = pd.read_csv(tmp_path / "rows-go_past.csv")
    assert len(rows) == both.by_measure["go_past"].count
    assert '"rows-go_past.csv"' in scripts[1].read_text()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["FPRT", "gaze_duration"], r"found the column FPRT twice"),
        ([], r"found no column; expected one or more"),
        ("total", r"no column 'total'.*reading measures: FPRT \(first_pass\), firstrun\.gopast \(go_past\)"),
    ],
)
def test_columns_that_are_no_times_are_refused(columns, message, measures):
    with pytest.raises(InputError, match=message):
        evaluate(measures, columns)


def test_an_error_of_one_reading_measure_names_it(measures):
    models, words, times = measures
    few = times.assign(few=times["FPRT"].where(np.arange(1800) < 30))
    with pytest.raises(InputError, match=r"reading measure few: found .* words for the regression"):
        evaluate((models, words, few), ["FPRT", "few"])


@pytest.mark.parametrize(
    ("names", "column"),
    [
        ("IA_FIRST_RUN_DWELL_TIME IA_REGRESSION_PATH_DURATION IA_DWELL_TIME", "IA_REGRESSION_PATH_DURATION"),  # Provo
        ("WORD_GAZE_DURATION WORD_GO_PAST_TIME WORD_TOTAL_READING_TIME", "WORD_GO_PAST_TIME"),  # GECO
        ("firstrun.dur firstrun.gopast dur skip", "firstrun.gopast"),  # MECO
        ("RTfirstfix RTfirstpass RTrightbound RTgopast", "RTgopast"),  # UCL
        ("fdurSPsummed fdurFP fdurGP", "fdurGP"),  # Dundee
    ],
)
def test_reading_measures_are_found_by_the_column_names_of_corpora(names, column):
    table = InputTable.read(pd.DataFrame({name: [1.0] for name in names.split()}))
    assert time_columns(table, ["go-past"]) == [column]
    assert reading_measure(column) == "go_past"
    with pytest.raises(InputError, match="expected one"):
        time_columns(InputTable.read(pd.DataFrame({"GPT": [1.0], "RPD": [1.0]})), ["go_past"])


def test_a_setting_that_is_given_as_a_parameter_is_refused_with_its_place(experiment):
    models, words, times = experiment
    hint = r"unexpected parameter 'predictors'\. Write settings=syntaxlm\.RegressionSettings\(predictors=\.\.\.\)"
    with pytest.raises(TypeError, match=hint):
        evaluate_reading_times(models, words, times, frequencies=FREQUENCIES, predictors=["zone"])
    with pytest.raises(TypeError, match="unexpected parameter 'groups2'"):
        evaluate_reading_times(models, words, times, frequencies=FREQUENCIES, groups2="story")
