"""Models that score sentences: independence of the batch, and sums of token log-probabilities."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.models.abilities import ScoresSentences, ScoresTokens
from syntaxlm.models.batches import TreeBatch
from tests.models.tree_variants import TREES, batch_of
from tests.models.variants import SENTENCE_VARIANTS, batch_for, built, every, log_probs, sentences


@every(ScoresSentences)
def test_each_sentence_has_a_log_probability(name):
    batch = batch_for(name)
    values = built(name).float().sentence_log_probs(batch)
    assert values.dtype == torch.float64
    assert values.shape == (batch.sentence_count(),)
    assert (values < 0).all()
    assert torch.isfinite(values).all()


@every(ScoresTokens)
def test_the_log_probabilities_of_tokens_add_up_to_the_sentences(name):
    model, batch = built(name), batch_for(name)
    values, sums = log_probs(model, batch), model.sentence_log_probs(batch)
    for number in range(batch.sentence_count()):
        own = values[batch.trees == number] if isinstance(batch, TreeBatch) else values[: batch.lengths[number], number]
        assert sums[number].item() == pytest.approx(own.sum().item(), abs=1e-12)


@every(ScoresSentences)
def test_the_log_probability_of_a_sentence_does_not_depend_on_the_batch(name):
    model, batch = built(name), batch_for(name)
    together = model.sentence_log_probs(batch)
    for number in range(batch.sentence_count()):
        if isinstance(batch, TreeBatch):
            alone = batch_of(TREES[batch.indices[number]])
        else:
            part = slice(int(batch.lengths[number])), slice(number, number + 1)
            alone = dataclasses.replace(batch, tokens=batch.tokens[part], targets=batch.targets[part], lengths=None)
        torch.testing.assert_close(model.sentence_log_probs(alone), together[number : number + 1], rtol=0, atol=1e-11)


@every(ScoresSentences, among=list(SENTENCE_VARIANTS))
def test_sentences_of_one_word_have_the_same_log_probability_in_batches_of_their_own(name):
    model, batch = built(name), sentences((1, 1, 1))
    together = model.sentence_log_probs(batch)
    assert torch.isfinite(together).all()
    longer = sentences((4, 1, 1, 1))
    longer.tokens[:2, 1:], longer.targets[:2, 1:] = batch.tokens, batch.targets
    torch.testing.assert_close(model.sentence_log_probs(longer)[1:], together, rtol=0, atol=1e-11)
    if isinstance(model, ScoresTokens):
        sums = log_probs(model, batch).sum(0)
        torch.testing.assert_close(sums, together, rtol=0, atol=1e-11)
