"""Word boundaries from distances: gaps, thresholds from separate text, exact baselines."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation import boundaries
from syntaxlm.evaluation.boundaries import best_threshold, evaluate_boundaries, gaps_of, score_boundaries
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.models.registry import MODELS, build_model
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.storage.folder import ModelBundle, ModelSettings
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.normaliser_settings import NormaliserSettings
from syntaxlm.text.vocabulary import Vocabulary
from tests.normalisers import normaliser_with

LINES = [" the cat sees a dog ", "a dog sees", "", "it"] * 20


def stored_model(name="prpn", lines=LINES, **normaliser) -> ModelBundle:
    """A character-level model with random weights, large enough for distinct distances."""
    reads = NormaliserSettings(**{"units": "characters"} | normaliser)
    vocabulary = Vocabulary.build(Counter(token for line in lines for token in Normaliser.of(reads).tokens(line)))
    config = MODELS[name].config(embedding_size=8, hidden_size=8)
    torch.manual_seed(0)
    model = build_model(config, len(vocabulary))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
    return ModelBundle(model.eval(), ModelSettings(config, reads), vocabulary)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def as_lists(gaps):
    return {name: gaps[name].tolist() for name in gaps.dtype.names}


def test_gaps_lie_between_neighbouring_characters_and_know_both_their_distances():
    gaps, sentences = gaps_of([" ab  c", "", "d e"], normaliser_with(units="characters"))
    assert ["".join(sentence) for sentence in sentences] == ["ab_c", "d_e"]
    assert as_lists(gaps) == {
        "boundary": [False, True, True],  # a|b, b|c, d|e
        "character": [1, 3, 6],
        "space": [1, 2, 5],
        "place": [1, 2, 1],
    }


def test_without_white_space_in_the_tokens_the_boundaries_are_still_those_of_the_text():
    gaps, sentences = gaps_of([" ab  c", "d\u200be"], normaliser_with(units="characters", space=None))
    assert ["".join(sentence) for sentence in sentences] == ["abc", "de"]
    assert gaps["boundary"].tolist() == [False, True, True]
    assert gaps["character"].tolist() == gaps["space"].tolist() == [1, 2, 4]


def test_separate_accents_are_no_neighbours_and_dropped_characters_are_no_boundaries():
    gaps, sentences = gaps_of(["aé b"], normaliser_with(units="characters", unicode_form="NFD"))
    assert sentences == [["a", "e", "\u0301", "_", "b"]]
    assert (gaps["boundary"].tolist(), gaps["character"].tolist()) == ([False, True], [1, 4])
    gaps, _ = gaps_of(["a $ b$c _"], normaliser_with(units="characters", drop_words=("$",)))
    assert gaps["boundary"].tolist() == [True, False, True]


@given(st.lists(st.text(st.sampled_from("ab é_\t\u200b$"), max_size=12), max_size=4), st.sampled_from(["_", None]))
def test_every_character_but_the_first_of_a_line_has_one_gap_and_white_space_none(lines, space):
    normaliser = normaliser_with(units="characters", space=space)
    gaps, sentences = gaps_of(lines, normaliser)
    words = [line.replace("\u200b", " ").split() for line in lines]
    characters = [len("".join(line)) for line in words]
    assert len(gaps) == sum(max(0, count - 1) for count in characters)
    assert gaps["boundary"].sum() == sum(max(0, len(line) - 1) for line in words)
    tokens = [token for sentence in sentences for token in sentence]
    assert all(tokens[place] != "_" for place in gaps["character"]) or space is None
    if space is not None:
        at_boundaries = gaps["space"][gaps["boundary"]]
        assert [tokens[place] for place in at_boundaries] == ["_"] * len(at_boundaries)
        assert (at_boundaries == gaps["character"][gaps["boundary"]] - 1).all()
    assert (gaps["space"] == gaps["character"])[~gaps["boundary"]].all()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_the_threshold_is_the_best_of_all_there_are(pairs):
    distances = np.array([pair[0] for pair in pairs], np.float32) / 7
    gold = np.array([pair[1] for pair in pairs])
    gold[0] |= not gold.any()
    of_all = {value: score_boundaries("", distances >= value, gold).f1 for value in distances.tolist()}
    assert of_all[best_threshold(distances, gold)] == max(of_all.values())


def test_precision_recall_f1_and_random_f1():
    predicted, gold = np.zeros(12, np.bool_), np.zeros(12, np.bool_)
    predicted[:5], gold[3:9] = True, True
    score = score_boundaries("", predicted, gold)
    assert (score.precision, score.recall, score.f1) == (2 / 5, 2 / 6, 4 / 11)
    random = np.random.default_rng(0)
    simulated = [score_boundaries("", random.permutation(predicted), gold).f1 for _ in range(5000)]
    assert score.random_f1 == pytest.approx(np.mean(simulated), abs=0.005)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [([0], [1], (0, 0, 0)), ([1], [0], (0, 0, 0)), ([1], [1], (1, 1, 1)), ([1, 0], [1, 1], (1, 1 / 2, 2 / 3))],
)
def test_scores_of_one_or_two_gaps(predicted, gold, expected):
    score = score_boundaries("", np.array(predicted, np.bool_), np.array(gold, np.bool_))
    assert (score.precision, score.recall, score.f1) == pytest.approx(expected)


def spoken(stored, monkeypatch, values):
    """Replaces the model's distances, of one layer, by a function of the tokens of a sentence: tokens -> floats."""

    def distances(stored, corpus):
        sentences = (stored.vocabulary.decode(corpus.sentence(index)) for index in range(len(corpus)))
        return np.array([[value for tokens in sentences for value in values(tokens)]], np.float32)

    monkeypatch.setattr(boundaries, "distances_of", distances)
    return stored


@pytest.mark.parametrize(
    ("reading", "values", "threshold"),
    [
        ("character", lambda tokens: [float(before == "_") for before in ["_", *tokens[:-1]]], 1.0),
        ("space", lambda tokens: [0.1 + 0.5 * (token == "_") for token in tokens], np.float32(0.6)),
    ],
)
def test_distances_that_are_large_at_one_token_of_every_boundary_find_it(text, monkeypatch, reading, values, threshold):
    report = evaluate_boundaries(spoken(stored_model(), monkeypatch, values), text)
    by_reading = {score.reading: score for score in report.scores}
    assert (by_reading[reading].f1, by_reading[reading].threshold) == (1.0, threshold)
    assert min(score.f1 for score in report.scores) < 0.5


def test_a_model_that_reads_no_spaces_is_held_against_those_of_the_text(text, monkeypatch):
    """Every d and s is predicted as the first character of a word, as in `dog` and `sees`, with one error."""
    stored = spoken(stored_model(space=None), monkeypatch, lambda tokens: [float(token in "ds") for token in tokens])
    (score,) = evaluate_boundaries(stored, text).scores
    assert score.reading == "character"
    assert (score.correct, score.predicted) != (0, 0)
    assert score.precision == pytest.approx(2 / 3, abs=0.02)  # sees: its last s is not a first character


def test_the_threshold_comes_from_the_part_that_is_not_measured(text, tmp_path, monkeypatch):
    stored = stored_model()
    report = evaluate_boundaries(stored, text)
    total = len(gaps_of(LINES, stored.normaliser)[0])
    assert report.tuning_gaps == total // 10
    assert report.gaps == total - total // 10
    with pytest.raises(InputError, match="is the text that is evaluated; expected another one for the thresholds"):
        evaluate_boundaries(stored, text, text)
    other = tmp_path / "other.txt"
    other.write_text("the dog\n")
    tuned = evaluate_boundaries(stored, text, other)
    assert (tuned.gaps, tuned.tuning_gaps, tuned.tuned_on) == (total, 5, str(other))
    gaps, _ = gaps_of(LINES, stored.normaliser)
    for score in tuned.scores:
        own, _ = gaps_of(["the dog"], stored.normaliser)
        values = np.array(next(iter(parse_lines(stored, ["the dog"]))).distances, np.float32)
        assert score.threshold == best_threshold(values[own[score.reading]], own["boundary"])
        assert score.gold == gaps["boundary"].sum()


def test_boundaries_are_found_where_distances_reach_the_threshold(text):
    stored = stored_model()
    distances = np.concatenate(
        [np.array(parse.distances, np.float32) for parse in parse_lines(stored, LINES) if parse is not None]
    )
    gaps, _ = gaps_of(LINES, stored.normaliser)
    measured = gaps[len(gaps) // 10 :]
    report = evaluate_boundaries(stored, text)
    assert [score.layer for score in report.scores] == [1, 1]
    for score in report.scores:
        predicted = distances[measured[score.reading]] >= np.float32(score.threshold)
        assert (score.predicted, score.correct) == (predicted.sum(), (predicted & measured["boundary"]).sum())
    assert any(0 < score.predicted < score.gaps for score in report.scores)


def test_baselines_are_every_gap_and_every_so_many_characters_of_a_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abc def ghi jkl\n" * 20 + "ab cdef ghi\n" * 4)
    every_gap, every_three = evaluate_boundaries(stored_model(), path).baselines
    assert (every_gap.recall, every_gap.predicted) == (1.0, every_gap.gaps)
    assert every_three.name == "every 3 characters"
    measured = every_three.gaps - 4 * 8
    assert every_three.gold == round(measured * 3 / 11) + 4 * 2
    assert every_three.predicted - every_three.correct == 4  # ab|cdef|ghi: after 3 not, after 6
    assert every_three.gold - every_three.correct == 4


def test_models_and_texts_without_boundaries_are_reported(text, tmp_path):
    with pytest.raises(InputError, match="reads words"):
        evaluate_boundaries(stored_model(units="words"), text)
    with pytest.raises(InputError, match="this lstm model with these settings does not parse"):
        evaluate_boundaries(stored_model("lstm"), text)
    path = tmp_path / "none.txt"
    path.write_text("我喜欢猫\n" * 30)
    with pytest.raises(InputError, match=r"none\.txt: found no word boundary"):
        evaluate_boundaries(stored_model(), path)
    with pytest.raises(InputError, match=r"none\.txt: found no word boundary"):
        evaluate_boundaries(stored_model(), text, path)
    path.write_text("a bc\n")
    with pytest.raises(InputError, match="too short"):
        evaluate_boundaries(stored_model(), path)


def test_the_report_has_its_protocol_and_is_json(text):
    report = evaluate_boundaries(stored_model(), text)
    assert "sees the boundaries" in str(report)
    assert "thresholds chosen on the first part of the text" in str(report)
    assert "read without spaces" in str(evaluate_boundaries(stored_model(space=None), text))
    figures = json.loads(json.dumps(report.to_dict()))
    assert figures["scores"][0]["f1"] == report.scores[0].f1
    assert figures["baselines"][0]["name"] == "every gap"
    assert figures["unknown"] == 0


@pytest.mark.parametrize("space", ["_", None])
def test_bits_per_character_of_a_character_model_are_bits_per_predicted_token(text, space):
    """Spaces and ends of sentences are predicted and counted, but not white space at the ends of lines."""
    score = evaluate_text(stored_model(space=space), text)
    length = sum(len(" ".join(line.split())) + 1 for line in LINES if line)
    spaces = sum(len(line.split()) - 1 for line in LINES if line)
    assert score.characters == score.tokens == (length if space else length - spaces)
    assert score.bits_per_character == pytest.approx(score.bits_per_token, rel=1e-12)
