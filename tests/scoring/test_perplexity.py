"""Perplexity: every token counts once, however the text is batched."""

from __future__ import annotations

import math

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.batches import TextMode, TokenBatch
from syntaxlm.scoring import engine
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.perplexity import evaluate_text, perplexity_text
from tests.fresh_models import SENTENCES, STREAM, reading

MODES = pytest.mark.parametrize("mode", [SENTENCES, STREAM], ids=["sentences", "stream"])


def by_hand(stored, lines: list[str], mode: TextMode) -> float:
    """Nats of a text read token by token in one column, by the equations."""
    model, vocabulary = stored.model, stored.vocabulary
    sentences = [[*vocabulary.encode(line.split()), vocabulary.end_id] for line in lines]
    if mode.carry_state:
        sentences = [[token for sentence in sentences for token in sentence]]
    total = 0.0
    for sentence in sentences:
        state, before = None, vocabulary.begin_id
        for token in sentence:
            batch = TokenBatch(torch.tensor([[before]]), torch.tensor([[token]]))
            with torch.no_grad():
                scores = model.token_log_probs(batch, state)
            total -= scores.log_probs.item()
            state, before = scores.state, token
    return total


@MODES
def test_the_score_is_that_of_reading_token_by_token(stored, toy, tmp_path, mode):
    lines = (toy / "valid.txt").read_text().splitlines()[:6]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    score = evaluate_text(stored, tmp_path / "text.txt", reading(mode))
    assert score.nats == pytest.approx(by_hand(stored, lines, mode), rel=1e-9)
    assert score.tokens == sum(len(line.split()) + 1 for line in lines)
    assert score.sentences == 6
    assert score.characters == sum(len(line) + 1 for line in lines)
    assert score.perplexity == pytest.approx(math.exp(score.nats / score.tokens))
    assert score.bits_per_character == pytest.approx(score.nats / math.log(2) / score.characters)


@pytest.mark.parametrize("budget", [1, 37, 200, 100_000])
def test_the_budget_of_a_batch_changes_no_sentence_score(stored, toy, monkeypatch, budget):
    expected = evaluate_text(stored, toy / "test.txt", reading(SENTENCES)).nats
    monkeypatch.setattr(engine, "TOKEN_BUDGET", budget)
    assert evaluate_text(stored, toy / "test.txt", reading(SENTENCES)).nats == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("steps", [7, 63, 100_000])
def test_the_steps_of_a_batch_change_no_stream_score(stored, toy, monkeypatch, steps):
    expected = evaluate_text(stored, toy / "test.txt", reading(STREAM)).nats
    monkeypatch.setattr(engine, "STEPS", steps)
    assert evaluate_text(stored, toy / "test.txt", reading(STREAM)).nats == pytest.approx(expected, rel=1e-9)


@MODES
@pytest.mark.parametrize("budget", [6, 50, 8192])
def test_every_token_of_a_text_is_a_target_exactly_once(prpn, toy, monkeypatch, mode, budget):
    """For independent sentences, every token of each distinct sentence."""
    for name in ("TOKEN_BUDGET", "STEPS"):
        monkeypatch.setattr(engine, name, budget)
    text = toy / ("train.txt" if budget == 8192 else "test.txt")
    corpus = EncodedCorpus.encode(text, prpn.normaliser, prpn.vocabulary)
    found: list[int] = []
    scoring = prpn.model.token_log_probs

    def record(batch, state=None):
        found.extend(batch.targets[batch.mask()].tolist())
        return scoring(batch, state)

    monkeypatch.setattr(prpn.model, "token_log_probs", record)
    Scorer.of(prpn, mode).total(corpus)
    sentences = [tuple(corpus.sentence(index)) for index in range(len(corpus))]
    read = sentences if mode.carry_state else dict.fromkeys(sentences)
    expected = [token for sentence in read for token in (*sentence, prpn.vocabulary.end_id)]
    assert sorted(found) == sorted(expected)


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
