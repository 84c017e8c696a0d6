"""Log-probabilities of whole sentences: the same however they are batched, from whatever gives them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.model_io import ModelBundle
from syntaxlm.models.batches import LanguageModel, Output, TokenBatch
from syntaxlm.scoring import engine as sentence_scores
from syntaxlm.scoring.engine import sentence_log_probs
from syntaxlm.scoring.perplexity import evaluate_text
from syntaxlm.text.vocabulary import Vocabulary

SENTENCES = [["the", "cat", "sees"], [], ["nonsense"], ["a", "dog"] * 20, ["the", "cat", "sees"], ["it"]]


def alone(stored, sentence):
    """The sum over its tokens, of one sentence in a batch by itself."""
    vocabulary = stored.vocabulary
    ids = vocabulary.encode(sentence)
    tokens, targets = (torch.tensor(one)[:, None] for one in ([vocabulary.begin_id, *ids], [*ids, vocabulary.end_id]))
    with torch.no_grad():
        return float(stored.model.eval()(TokenBatch(tokens, targets)).log_probs(targets).double().sum())


@pytest.mark.parametrize("name", ["prpn", "lstm"])
@pytest.mark.parametrize("together", [2, 100])
def test_a_sentence_among_others_has_the_log_probability_it_has_alone(request, monkeypatch, name, together):
    stored = request.getfixturevalue(name)
    monkeypatch.setattr(sentence_scores, "SENTENCES_TOGETHER", together)
    monkeypatch.setattr(sentence_scores, "TOKEN_BUDGET", 16)
    expected = [alone(stored, sentence) for sentence in SENTENCES]
    assert sentence_log_probs(stored, SENTENCES) == pytest.approx(expected, rel=1e-5)
    assert sentence_log_probs(stored, iter(SENTENCES)) == pytest.approx(expected, rel=1e-5)
    assert sentence_log_probs(stored, []).shape == (0,)


def test_all_sentences_together_have_the_loss_of_the_text(prpn, toy):
    lines = (toy / "test.txt").read_text().splitlines()
    found = sentence_log_probs(prpn, [prpn.normaliser.tokens(line) for line in lines])
    assert -found.sum() == pytest.approx(evaluate_text(prpn, toy / "test.txt", "sentences").nats, rel=1e-6)


class Counts(LanguageModel):
    """A model of counts alone: no weights, no state, and anything on padding."""

    def __init__(self, log_probs: list[float]) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor(log_probs, dtype=torch.float64))

    def forward(self, batch: TokenBatch, state: object = None) -> Output:
        first = batch.tokens[0]
        assert (first == 1).all(), "begin is the context of the first word"
        return Output(lambda targets: self.table[targets])


def test_a_model_of_counts_without_weights_serves_with_one_token_for_begin_and_end(prpn):
    vocabulary = Vocabulary(["<unk>", "<eos>", "a", "b"], begin="<eos>", end="<eos>")
    stored = ModelBundle(Counts([-4.0, -1.0, -2.0, -3.0]), prpn.settings, vocabulary)
    found = sentence_log_probs(stored, [["a"], ["b", "a", "zebra"], []])
    assert np.array_equal(found, [-3.0, -10.0, -1.0])
