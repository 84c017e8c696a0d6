"""Perplexity: every token counts once, however the text is batched."""

from __future__ import annotations

import math

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.perplexity import LanguageModelScore, evaluate_text, perplexity_text
from syntaxlm.scoring import engine
from syntaxlm.scoring.options import PerplexityOptions
from syntaxlm.scoring.surprisal import surprisals
from tests.fresh_models import SENTENCES, STREAM, reading
from tests.scoring.by_hand import read_by_hand

MODES = pytest.mark.parametrize("mode", [SENTENCES, STREAM], ids=["sentences", "stream"])


@MODES
def test_the_score_is_that_of_reading_token_by_token(stored, toy, tmp_path, mode):
    lines = (toy / "valid.txt").read_text().splitlines()[:6]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    score = evaluate_text(stored, tmp_path / "text.txt", reading(mode))
    read = [log_prob for line in read_by_hand(stored, lines, mode) for *_, log_prob in line]
    assert score.nats == pytest.approx(-sum(read), rel=1e-9)
    assert score.tokens == sum(len(line.split()) + 1 for line in lines)
    assert score.sentences == 6
    assert score.characters == sum(len(line) + 1 for line in lines)
    assert score.perplexity == pytest.approx(math.exp(score.nats / score.tokens))
    assert score.bits_per_character == pytest.approx(score.nats / math.log(2) / score.characters)


@MODES
@pytest.mark.parametrize("size", [1, 37, 200, 100_000])
def test_the_size_of_a_batch_changes_no_score(stored, toy, monkeypatch, size, mode):
    expected = evaluate_text(stored, toy / "test.txt", reading(mode)).nats
    monkeypatch.setattr(engine, "SUM_STEPS" if mode.carry_state else "TOKEN_BUDGET", size)
    assert evaluate_text(stored, toy / "test.txt", reading(mode)).nats == pytest.approx(expected, rel=1e-9)


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(stored, toy):
    with torch.no_grad():
        stored.model.decoder.weight.zero_()
        stored.model.decoder.bias.zero_()
    for mode in (SENTENCES, STREAM):
        score = evaluate_text(stored, toy / "test.txt", reading(mode))
        assert score.perplexity == pytest.approx(len(stored.vocabulary))


def test_the_default_mode_is_that_of_training(prpn, toy):
    assert evaluate_text(prpn, toy / "test.txt").mode == prpn.settings.mode == SENTENCES
    assert "state reset at each sentence" in str(evaluate_text(prpn, toy / "test.txt"))
    assert "state carried through the text" in str(evaluate_text(prpn, toy / "test.txt", reading(STREAM)))


def test_ordinary_text_has_the_perplexity_of_its_surprisals_and_of_the_tokenised_text(prpn, toy, tmp_path):
    tokenised = (toy / "valid.txt").read_text().splitlines()[:30]
    ordinary = "\n".join(f"“{line.capitalize()}!”" for line in tokenised).replace(" 's", "'s").replace(" and", ", and")
    lines = ordinary.splitlines()
    (tmp_path / "text.txt").write_text(ordinary)
    auto = PerplexityOptions(punctuation="auto", contractions="auto")
    score, expected = evaluate_text(prpn, tmp_path / "text.txt", auto), evaluate_text(prpn, tokenised)
    assert score.nats == pytest.approx(expected.nats, rel=1e-6)
    assert (score.tokens, score.unknown) == (expected.tokens, expected.unknown)
    assert score.characters == expected.characters - sum(line.count(" 's") for line in tokenised)
    rows = [row.surprisal for line in surprisals(prpn, lines) for row in line if row.surprisal is not None]
    assert score.nats == pytest.approx(math.log(2) * sum(rows), rel=1e-6)
    assert evaluate_text(prpn, lines, auto).nats == pytest.approx(score.nats, rel=1e-6)
    assert evaluate_text(prpn, lines).unknown > score.unknown


def test_unknown_words_are_counted(prpn, tmp_path):
    (tmp_path / "text.txt").write_text("xyzzy plugh\n\nxyzzy\n")
    score = evaluate_text(prpn, tmp_path / "text.txt")
    assert (score.unknown, score.tokens, score.sentences) == (3, 5, 2)
    assert "3 unknown (60.0%)" in str(score)


def test_scoring_leaves_the_model_in_evaluation_mode_and_computes_no_gradients(prpn, toy):
    prpn.model.train()
    before = {name: tensor.clone() for name, tensor in prpn.model.state_dict().items()}
    evaluate_text(prpn, toy / "test.txt")
    assert not prpn.model.training
    assert all(weight.grad is None for weight in prpn.model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in prpn.model.state_dict().items())


def test_a_text_without_sentences_raises_an_error(prpn, tmp_path):
    (tmp_path / "text.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"text\.txt: found no sentence"):
        evaluate_text(prpn, tmp_path / "text.txt")


@pytest.mark.parametrize(("perplexity", "text"), [(27.346, "27.35"), (123456.7, "123456.70"), (1e304, "1e+304")])
def test_a_huge_perplexity_is_printed_with_few_digits(perplexity, text):
    assert perplexity_text(perplexity) == text


def test_a_text_of_probability_0_has_an_infinite_perplexity():
    score = LanguageModelScore(math.inf, tokens=3, sentences=1, unknown=0, characters=9, mode=SENTENCES)
    assert score.perplexity == math.inf
    assert str(score).startswith("perplexity inf   bits per token inf")
