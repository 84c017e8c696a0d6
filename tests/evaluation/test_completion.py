"""Sentence completion: choices, credits of ties, known words, interpolation."""

from __future__ import annotations

import json
import math
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.core.errors import InputError
from syntaxlm.data.completion import CompletionQuestion
from syntaxlm.evaluation.completion import (
    CompletionScores,
    differing_words,
    evaluate_completion,
    first_half,
    interpolate,
    score_questions,
    tune_weights,
)
from syntaxlm.evaluation.significance import Accuracy
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import log_probs_of_trees
from syntaxlm.storage.folder import ModelBundle
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.treebank_style import TreebankStyle
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.conllu import write_conllu
from syntaxlm.trees.tree import DependencyTree
from tests.fresh_models import OPEN, fresh
from tests.models.test_tree_rnn import SENTENCE
from tests.shared_data import DATA
from tests.tree_models import tree_model

MSR = DATA / "msr-completion"


def question(*candidates, right=0, name="1"):
    return CompletionQuestion(candidates, right, name, "questions.txt, line 1")


def scores(log_probs, rights=None, name="model", known=None):
    """Builds scores from lists of log-probabilities, one per question; `known` is of questions of equal sizes."""
    longest = max(map(len, log_probs))
    table = np.array([[*values, *[-math.inf] * (longest - len(values))] for values in log_probs], np.float64)
    flags = np.ones(table.shape, np.bool_) if known is None else np.array(known).reshape(table.shape)
    correct = np.array(rights or [0] * len(log_probs))
    return CompletionScores(name, table, np.array(list(map(len, log_probs))), correct, flags, flags)


def test_the_most_probable_candidate_is_chosen_and_equal_ones_earn_a_share():
    found = scores([[-1, -2, -3], [-2, -1, -3], [-1, -1, -3], [-1, -1, -1], [-1, -2, -1], [-3, -1]], [0, 0, 1, 2, 1, 0])
    assert found.credits == pytest.approx([1, 0, 1 / 2, 1 / 3, 0, 0])
    assert found.chosen.sum(1).tolist() == [1, 1, 2, 3, 2, 1]
    assert found.accuracy().correct == pytest.approx(1 + 1 / 2 + 1 / 3)
    assert found.accuracy("first_half").fraction == pytest.approx(0.5)
    assert found.to_dict()["ties_with_correct"] == 2


def test_candidates_that_differ_by_a_rounding_error_tie():
    assert scores([[-30.1, -30.1 - 1e-14], [-math.inf, -1]], [1, 1]).credits.tolist() == [0.5, 1]


def test_questions_of_unlike_sizes_share_no_candidates():
    found = scores([[-math.inf, -math.inf], [-1.0, -2.0, -3.0, -4.0]])
    assert found.chosen.tolist() == [[True, True, False, False], [True, False, False, False]]
    assert found.credits.tolist() == [0.5, 1]


def test_known_words_are_those_after_normalisation_and_identical_candidates_tie(small, spoken):
    asked = spoken({"the cat <unk>": -1.0, "the cats <unk>": -2.0, "the <unk> <unk>": -3.0, "the <unk>": -4.0})
    questions = [
        question("The cat purrs", "The cats purrs", "The zebra purrs"),
        question("the cat purrs", "the cats purrs"),
        question("the horse", "the zebra"),
    ]
    found = score_questions(small, questions)
    assert sorted(asked) == ["the <unk>", "the <unk> <unk>", "the cat <unk>", "the cats <unk>"]
    assert found.differing_known.tolist() == [[True, True, False], [True, True, True], [False, False, True]]
    assert found.all_known.tolist() == [[False] * 3, [False, False, True], [False, False, True]]
    assert found.credits.tolist() == [1, 1, 0.5]
    figures = found.to_dict()
    assert figures["candidates_with_unknown_words"] == 7
    assert figures["candidates_with_unknown_differing_words"] == 3
    assert figures["differing_words_known"]["questions"] == 1
    assert figures["all_words_known"] == {"accuracy": None, "interval": None, "credit": 0.0, "questions": 0}


def test_the_differing_words_of_a_candidate_are_those_that_not_all_have_as_often():
    candidates = [["a", "b", "c"], ["a", "d", "c"], ["a", "a", "c"]]
    assert differing_words(candidates) == [{"b"}, {"d"}, {"a"}]
    assert differing_words([["no", "cat"], ["cat", "no"]]) == [set(), set()]


def test_punctuation_and_contractions_are_split_on_request(small, spoken):
    spoken({"the cat sleeps .": -1.0, "the cat sleep .": -2.0})
    found = score_questions(small, [question("The cat sleeps.", "The cat sleep.")], TreebankStyle("split", "split"))
    assert found.all_known.all()


def test_a_longer_candidate_is_chosen_by_its_mean_on_request(small, spoken):
    spoken({"the cat": -6.0, "the cat sleeps .": -7.0})
    asked = [question("the cat", "the cat sleeps .")]
    assert score_questions(small, asked).chosen.tolist() == [[True, False]]
    means = score_questions(small, asked, per_token=True)
    assert means.chosen.tolist() == [[False, True]]
    assert means.log_probs.tolist() == [[-2.0, -1.4]]


def test_a_trained_model_scores_candidates_as_it_scores_sentences(prpn, toy, tmp_path):
    words = [line.split() for line in (toy / "test.txt").read_text().splitlines()[:12]]
    lines = [[" ".join(one) for one in (word, word[::-1], word[1:] + word[:1])] for word in words]
    questions, answers, rows = (tmp_path / name for name in ("questions.txt", "answers.txt", "rows.jsonl"))
    questions.write_text("\n\n".join("\n".join(one) for one in lines))
    answers.write_text("".join(one[0] + "\n" for one in lines))
    report = evaluate_completion(prpn, questions, answers)
    expected = Scorer.of(prpn).sentences([prpn.normaliser.tokens(line) for one in lines for line in one])
    assert report.models[0].log_probs.ravel() == pytest.approx(expected, rel=1e-5)
    best = expected.reshape(12, 3).argmax(1)
    assert report.models[0].accuracy().correct == (best == 0).sum()
    report.write_details(rows)
    written = [json.loads(row) for row in rows.read_text().splitlines()]
    assert [row["candidates"] for row in written] == lines
    for row in written:
        values = row["models"]["prpn"]["log_probs"]
        assert row["models"]["prpn"]["chosen"] == [values.index(max(values))]
        assert row["models"]["prpn"]["credit"] == (row["correct"] == values.index(max(values)))


def test_interpolation_adds_up_log_probabilities_by_their_weights():
    first, second = scores([[-1, -4]], known=[True, False]), scores([[-8, -4]])
    mixed = interpolate([first, second], np.array([0.75, 0.25]))
    assert mixed.log_probs.tolist() == [[-2.75, -4.0]]
    assert mixed.all_known.tolist() == [[True, False]]
    impossible = scores([[-math.inf, -1]])
    assert interpolate([first, impossible], np.array([1.0, 0.0])).log_probs.tolist() == [[-1.0, -4.0]]


def noisy(generator, noise, count=400):
    """A model whose correct candidate, the first of 3, is better by 1 plus noise."""
    return scores((np.array([1.0, 0.0, 0.0]) + noise * generator.standard_normal((count, 3))).tolist())


def test_weights_of_two_models_are_the_best_of_all_hundredths_on_their_part_alone():
    generator = np.random.default_rng(3)
    models = [noisy(generator, 1.0), noisy(generator, 2.0)]
    among = first_half(400)
    weights = tune_weights(models, among)
    tried = {
        share: interpolate(models, np.array([1 - share, share])).credits[among].sum()
        for share in (number / 100 for number in range(101))
    }
    best = max(tried.values())
    nearest = min((share for share, credit in tried.items() if credit == best), key=lambda share: abs(share - 0.5))
    assert weights.sum() == pytest.approx(1)
    assert abs(weights[1] - 0.5) == pytest.approx(abs(nearest - 0.5))
    assert tried[round(float(weights[1]), 2)] == best
    # The part that is not used for tuning may have any values.
    shuffled = [
        replace(model, log_probs=np.where(among[:, None], model.log_probs, -model.log_probs)) for model in models
    ]
    assert tune_weights(shuffled, among).tolist() == weights.tolist()


def test_equally_good_weights_are_those_nearest_to_equal_ones():
    first, second = scores([[-1, -2], [-2, -1]]), scores([[-1, -3], [-2, -1]])
    assert tune_weights([first, second], np.array([True, True])).tolist() == [0.5, 0.5]
    assert tune_weights([first] * 3, np.array([True, True])) == pytest.approx([1 / 3] * 3)
    right, wrong = scores([[-1, -2]]), scores([[-3, -1]])
    weights = tune_weights([right, wrong], np.array([True]))
    assert weights == pytest.approx([0.67, 0.33])  # (1, 2): a tie at 2/3, correct above


def test_interpolation_is_no_worse_than_the_best_model_where_weights_are_tuned():
    generator = np.random.default_rng(5)
    models = [noisy(generator, noise) for noise in (1.0, 1.5, 2.0, 9.0)]
    among = first_half(400)
    weights = tune_weights(models, among)
    mixed = interpolate(models, weights)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert mixed.credits[among].sum() >= max(model.credits[among].sum() for model in models)
    assert mixed.credits[~among].mean() > models[1].credits[~among].mean()
    assert weights[3] < 0.1, "a model of noise has hardly a share"


@pytest.mark.parametrize(("count", "halves"), [(1040, (520, 520)), (5, (2, 3)), (2, (1, 1))])
def test_weights_are_chosen_on_the_first_half(count, halves):
    first = first_half(count)
    assert (int(first.sum()), int((~first).sum())) == halves
    assert first[: halves[0]].all()


def test_the_interval_of_an_accuracy_is_that_of_a_binomial():
    assert Accuracy(50.0, 100).interval == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert Accuracy(0.0, 10).interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert Accuracy(10.0, 10).interval == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert Accuracy(0.0, 0).interval is None
    generator = np.random.default_rng(0)
    drawn = generator.choice([0.0, 1 / 3, 1.0], size=(4000, 200), p=[0.5, 0.2, 0.3])
    truth = 0.2 / 3 + 0.3
    covered = [low <= truth <= high for low, high in (Accuracy.of(one).interval for one in drawn)]
    assert np.mean(covered) > 0.95, "wide enough where ties earn shares"


@pytest.fixture
def files(tmp_path):
    """Three questions with two candidates, and their answers."""
    questions, answers = tmp_path / "questions.txt", tmp_path / "answers.txt"
    questions.write_text("the cat\nthe cats\nthe sleep\nthe sleeps\ncat .\ncats .\n")
    answers.write_text("the cat\nthe sleeps\ncats .\n")
    return questions, answers


@pytest.fixture
def two(small, monkeypatch):
    """Two models: the first is correct on the first question, the second on the others."""
    sentences = ["the cat", "the cats", "the sleep", "the sleeps", "cat .", "cats ."]
    log_probs = {"one": [-1, -9, -1, -2, -1, -2], "two": [-4, -3, -9, -1, -9, -1]}
    tables = {name: dict(zip(sentences, values, strict=True)) for name, values in log_probs.items()}
    models = {name: replace(small, vocabulary=copy(small.vocabulary)) for name in tables}

    def scored(scorer, model, corpus):
        (name,) = (name for name, model in models.items() if model.vocabulary is scorer.vocabulary)
        sentences = map(scorer.vocabulary.decode, map(corpus.sentence, range(len(corpus))))
        return np.array([tables[name][" ".join(sentence)] for sentence in sentences], np.float64)

    monkeypatch.setattr(Scorer, "_sentence_sums", scored)
    return models


def test_weights_chosen_on_the_first_half_are_reported_on_the_second(two, files):
    report = evaluate_completion(two, *files)
    assert report.interpolation is not None
    assert report.interpolation.weights == {"one": 0.5, "two": 0.5}
    figures = report.to_dict()
    assert [one["first_half"]["credit"] for one in figures["models"]] == [1, 0]
    assert [one["second_half"]["credit"] for one in figures["models"]] == [0, 2]
    assert figures["interpolated"]["second_half"]["accuracy"] == 1
    assert figures["interpolated"]["tuned_on"] == "first_half"
    assert set(figures["interpolated_against"]) == {"second_half"}
    assert figures["interpolated_against"]["second_half"]["one"]["difference"] == 1
    json.dumps(figures, allow_nan=False)
    assert "interpolated: 0.50 one + 0.50 two; weights tuned on the first half" in str(report)


def test_given_weights_are_of_all_models_but_the_first(two, files):
    report = evaluate_completion(two, *files, shares=[0.1])
    assert report.interpolation is not None
    assert report.interpolation.weights == pytest.approx({"one": 0.9, "two": 0.1})
    assert report.interpolation.scores.credits.tolist() == [1, 0, 0]  # 0.9 of -1, 0.1 of -9: -1.8, against -1.9
    assert set(report.to_dict()["interpolated_against"]) == {"all"}
    assert "0.90 one + 0.10 two; weights as given" in str(report)


def test_the_table_has_chance_and_every_model_on_all_and_on_both_halves(two, files):
    reported = str(evaluate_completion(two, *files)).splitlines()
    assert reported[0].endswith("questions 3   candidates 6   chance 50.0")
    rows = {line[:44].strip(): line[44:].split() for line in reported}
    assert rows["accuracy, 95% interval (number of questions)"] == ["one", "two", "interpolated"]
    assert rows["all questions"][0] == "33.3"
    assert [cell for cell in rows["second half"] if "(" in cell] == ["(2)"] * 3
    assert rows["questions with a tie for the highest"] == ["0", "0", "0"]


def test_one_model_interpolates_nothing_and_text_of_another_style_gives_a_warning(small, spoken, files):
    spoken(dict.fromkeys([*files[0].read_text().splitlines(), "<unk> <unk>"], -1.0))
    report = evaluate_completion(small, *files)
    assert report.interpolation is None
    assert report.to_dict()["interpolated"] is None
    assert report.models[0].accuracy().fraction == report.chance == 0.5
    assert "interpolated" not in str(report)
    warning = "hardly any question has only words in the vocabulary of prpn"
    assert warning not in str(report)
    files[0].write_text("a b\na c\nb c\nb d\n")
    files[1].write_text("a b\nb d\n")
    assert warning in str(evaluate_completion(small, *files))


def test_what_cannot_be_scored_or_weighted_is_reported(small, two, files, spoken):
    wrong = {(): "0 weights", (0.2, 0.3): "2 weights", (1.5,): "weights 1.5", (-0.1,): "weights -0.1"}
    for shares, message in {**wrong, (math.nan,): "weights nan"}.items():
        with pytest.raises(InputError, match=message):
            evaluate_completion(two, *files, shares=shares)
    with pytest.raises(InputError, match="found a model with the name interpolated"):
        evaluate_completion({"one": small, "interpolated": small}, *files)
    with pytest.raises(InputError, match="found no model"):
        evaluate_completion({}, *files)
    dropping = ModelBundle(
        small.model, replace(small.settings, normaliser=NormaliserSettings(drop_punctuation=True)), small.vocabulary
    )
    with pytest.raises(
        InputError, match=r"questions.txt, line 1, question 4: the normaliser of model leaves no word of '\?!'"
    ):
        score_questions(dropping, [question("the cat", "?!", name="4")])
    spoken({"the cat": math.nan, "the cats": -1.0})
    with pytest.raises(InputError, match="prpn: the model returned NaN; its weights are unusable"):
        score_questions(small, [question("the cat", "the cats")])
    files[0].write_text("the cat\nthe cats\n")
    files[1].write_text("the cat\n")
    with pytest.raises(InputError, match="found one question; expected two or more"):
        evaluate_completion(two, *files)
    spoken({"the cat": -1.0, "the cats": -2.0})
    assert evaluate_completion(small, *files).models[0].accuracy().correct == 1


CAT = SENTENCE.words
ASKED = [
    [SENTENCE.words, (*CAT[:2], "dogs", *CAT[3:])],
    [("the", "dogs", "sleeps", "."), ("the", "zebra", "sleeps", ".")],
]
HEADS = [SENTENCE.heads, (2, 3, 0, 3)]


@pytest.fixture
def parsed(tmp_path):
    """Two parsed questions with two candidates: files of questions, of their words, and of answers."""
    trees = [
        DependencyTree(words, ("",) * len(words), heads, ("det",) * len(words), f"q-{number}-{place}")
        for number, (candidates, heads) in enumerate(zip(ASKED, HEADS, strict=True), 1)
        for place, words in enumerate(candidates, 1)
    ]
    write_conllu(trees, tmp_path / "q.conllu")
    write_conllu(trees[::2], tmp_path / "a.conllu")
    (tmp_path / "q.txt").write_text("".join(" ".join(words) + "\n" for one in ASKED for words in one))
    return trees, tmp_path / "q.conllu", tmp_path / "q.txt", tmp_path / "a.conllu"


@pytest.mark.parametrize("variant", ["tanh", "labelled"])
def test_a_model_of_trees_chooses_by_the_probability_of_words_given_each_tree(parsed, variant):
    trees, questions, plain, answers = parsed
    stored = tree_model(variant)
    report = evaluate_completion(stored, questions, answers)
    expected = log_probs_of_trees(stored, trees).reshape(2, 2)
    assert report.models[0].log_probs == pytest.approx(expected)
    assert report.models[0].chosen.argmax(1).tolist() == expected.argmax(1).tolist()
    assert report.models[0].all_known.tolist() == [[True, True], [True, False]]
    figures = report.to_dict()["models"][0]
    assert (figures["given_trees"], figures["eos_predicted"]) == (True, False)
    reported = str(report)
    assert "total log-probability of its words given its tree, P(S | T); a tie of k" in reported
    assert f"trees and words of dependency-tree models: {questions}" in reported
    beside = evaluate_completion(stored, plain, answers, parses=questions)
    assert beside.models[0].log_probs.tolist() == report.models[0].log_probs.tolist()
    means = evaluate_completion(stored, questions, answers, per_token=True).models[0].log_probs
    assert means == pytest.approx(expected / np.array([[9], [4]])), "no tree predicts its end"


def test_a_dependency_tree_model_of_tags_reads_the_tags_of_candidates():
    words = tree_model()
    normaliser = replace(words.settings.normaliser, units="tags")
    tags = replace(words, settings=replace(words.settings, normaliser=normaliser))
    tagged = replace(SENTENCE, tags=tuple(word.replace("chair", "zebra") for word in SENTENCE.words))
    unlike = replace(tagged, tags=tagged.words)
    asked = CompletionQuestion((" ".join(tagged.words),) * 2, 0, "1", "line 1", (tagged, unlike))
    found = score_questions(tags, [asked])
    assert found.log_probs.tolist() == [log_probs_of_trees(tags, [tagged, unlike]).tolist()]
    assert found.all_known.tolist() == [[False, True]]
    assert found.differing_known.tolist() == [[False, True]]


def test_a_parse_of_each_candidate_counts_not_its_words_alone(parsed):
    trees, questions, _, answers = parsed
    other = [
        replace(tree, heads=(2, 3, 4, 0, *tree.heads[4:])) if place == 1 else tree for place, tree in enumerate(trees)
    ]
    before = evaluate_completion(tree_model(), questions, answers).models[0].log_probs
    write_conllu(other, questions)
    after = evaluate_completion(tree_model(), questions, answers).models[0].log_probs
    assert (before == after).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("beside", ["lstm", "ngram"])
def test_tree_and_text_models_are_in_one_table_and_interpolated(parsed, beside):
    _, questions, plain, answers = parsed
    models = {"tree": tree_model(), "ltree": tree_model("labelled"), "text": fresh(beside)}
    report = evaluate_completion(models, questions, answers, shares=[0.25, 0.25])
    tree, ltree, text = (model.log_probs for model in report.models)
    words = evaluate_completion(models["text"], plain, answers).models[0].log_probs
    assert text == pytest.approx(words, rel=1e-6)
    assert report.interpolation is not None
    assert report.interpolation.scores.log_probs == pytest.approx(0.5 * tree + 0.25 * ltree + 0.25 * text)
    reported = str(report)
    assert (
        "(tree, ltree: of its words given its tree, P(S | T); text: end of sentence included, state reset" in reported
    )
    assert [model["given_trees"] for model in report.to_dict()["models"]] == [True, True, False]
    assert evaluate_completion(models, questions, answers).interpolation.is_tuned
    split = evaluate_completion(models, questions, answers, punctuation="drop", shares=[0.25, 0.25])
    assert split.models[0].log_probs.tolist() == tree.tolist(), "words of trees are left as they are"
    assert (split.models[2].log_probs != text).all()


def test_a_model_that_predicts_no_ends_divides_by_words_alone(parsed):
    _, questions, _, answers = parsed
    stored = fresh("lstm", OPEN)
    total, mean = (evaluate_completion(stored, questions, answers, per_token=one).models[0] for one in (False, True))
    assert mean.log_probs * np.array([[9], [4]]) == pytest.approx(total.log_probs)
    assert not mean.ends


def test_candidates_without_trees_are_reported(parsed, small):
    _, questions, plain, answers = parsed
    with pytest.raises(
        InputError, match=r"q\.txt, line 1, question 1: found plain text, but tree-rnn reads dependency trees"
    ):
        evaluate_completion(tree_model(), plain, answers)
    with pytest.raises(
        InputError, match=r"q\.conllu: found no model that reads parses; expected a dependency-tree model"
    ):
        evaluate_completion(small, plain, answers, parses=questions)
    text = questions.read_text()
    questions.write_text(text.replace("3\tsleeps\t_\t_\t_\t_\t0", "3\tsleeps\t_\t_\t_\t_\t2", 1))
    with pytest.raises(
        InputError, match=r"q\.conllu, line \d+, sentence q-2-1: words 1, 2, 3, 4 have no path to a root"
    ):
        evaluate_completion(tree_model(), questions, answers)


@pytest.mark.skipif(not MSR.is_dir(), reason=f"no completion questions in {MSR}")
def test_a_model_without_known_words_has_chance_accuracy_on_the_published_questions(small, monkeypatch):
    small = replace(small, vocabulary=Vocabulary(["<unk>", "<s>", "</s>"]))
    monkeypatch.setattr(Scorer, "_sentence_sums", lambda scorer, model, corpus: -1.0 * np.arange(len(corpus)))
    report = evaluate_completion(small, MSR / "Holmes.lm_format.questions.txt", MSR / "Holmes.lm_format.answers.txt")
    figures = report.models[0].to_dict()
    assert (report.to_dict()["candidates"], report.chance) == (5200, pytest.approx(0.2))
    assert figures["all"]["accuracy"] == pytest.approx(0.2)
    assert (figures["first_half"]["questions"], figures["second_half"]["questions"]) == (520, 520)
    assert figures["candidates_with_unknown_differing_words"] == 5200
