"""Models that score tokens: distributions that depend on preceding tokens only, however a text is batched."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.models.abilities import HasHiddenStates, ScoresTokens, TrainsByGradient
from syntaxlm.models.batches import TokenBatch
from tests.models.variants import (
    SENTENCE_VARIANTS,
    SIMILAR,
    VARIANTS,
    WORDS,
    batch_for,
    built,
    config_of,
    every,
    log_probs,
    marked,
    names_with,
    ragged,
    read,
    read_for,
    sentences,
    word_log_probs,
)

every_text_model = every(ScoresTokens, text=True)


@every(ScoresTokens)
def test_each_target_has_a_log_probability(name):
    model, batch = built(name), batch_for(name)
    values = log_probs(model, batch)
    assert values.shape == batch.targets.shape
    assert values.dtype == torch.float64
    assert (values <= 0).all()


@every_text_model
@pytest.mark.parametrize(("steps", "columns"), [(1, 1), (20, 2)])
def test_batches_of_any_shape_are_read(name, steps, columns):
    assert log_probs(built(name), read(steps, columns)).shape == (steps, columns)


TIED = [
    marked(name, SIMILAR, tied)
    for name in names_with(ScoresTokens)
    for tied in (True, False)
    if tied or "tied" in vars(config_of(name))
]


@pytest.mark.parametrize(("name", "tied"), TIED)
def test_probabilities_sum_to_one_over_the_vocabulary(name, tied):
    model, batch = built(name, tied=tied), batch_for(name)
    if isinstance(batch, TokenBatch):
        batch = dataclasses.replace(batch, lengths=None)
    total = word_log_probs(model, batch).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(batch.targets, dtype=torch.float64))


every_sequence_model = every(ScoresTokens, among=[*VARIANTS, *SENTENCE_VARIANTS])


@every_sequence_model
def test_padding_and_other_sentences_never_change_a_real_token(name):
    model = built(name)
    batch = sentences() if name in SENTENCE_VARIANTS else ragged(9, (9, 7, 5, 1))
    together = log_probs(model, batch)
    for column, length in enumerate(batch.lengths.tolist()):
        part = slice(length), slice(column, column + 1)
        alone = TokenBatch(batch.tokens[part], batch.targets[part])
        torch.testing.assert_close(together[part], log_probs(model, alone), rtol=0, atol=1e-12)
        assert not together[length:, column].any(), "padding has a log-probability other than 0"


@every(ScoresTokens, among=[*VARIANTS, *SENTENCE_VARIANTS], with_similar=True)
def test_later_tokens_never_change_an_earlier_one(name):
    model, batch = built(name), read_for(name, 10, 2)
    tokens = batch.tokens.clone()
    tokens[6:] = 3 + (tokens[6:] + 1) % (WORDS - 3)  # neither BOS nor EOS
    one, other = log_probs(model, batch), log_probs(model, TokenBatch(tokens, batch.targets))
    torch.testing.assert_close(one[:6], other[:6], rtol=0, atol=1e-12)
    assert (one[6:] - other[6:]).abs().max() > 1e-6


@every_sequence_model
@pytest.mark.parametrize("cuts", [(1,), (5,), (3, 4, 9), tuple(range(1, 12))])
def test_a_text_in_batches_equals_the_whole_read_at_once(name, cuts):
    model, batch = built(name), sentences((11, 11)) if name in SENTENCE_VARIANTS else read(12, 2)
    whole = log_probs(model, batch)
    state, parts = None, []
    for start, end in zip((0, *cuts), (*cuts, 12), strict=True):
        part = TokenBatch(batch.tokens[start:end], batch.targets[start:end], carries=start > 0)
        scores = model.token_log_probs(part, state)
        state = scores.state
        parts.append(scores.log_probs)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


@every_text_model
def test_the_carried_state_matters(name):
    model = built(name)
    first, second = read(6, 2, seed=1), read(6, 2, seed=2)
    carried = log_probs(model, second, model.token_log_probs(first).state)
    assert (carried - log_probs(model, second)).abs().max() > 1e-6


@every_text_model
def test_the_state_is_a_flat_dict_of_detached_tensors_that_further_reading_never_changes(name):
    model, batch = built(name).train(), read(6, 2)
    states = [model.token_log_probs(batch).state]
    if isinstance(model, TrainsByGradient):
        states.append(model.loss(batch).state)
    for state in states:
        assert state
        assert all(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in state.items())
        assert not any(value.requires_grad for value in state.values())
        before = {key: value.clone() for key, value in state.items()}
        values = log_probs(model, batch, state)
        if isinstance(model, TrainsByGradient):
            values.sum().backward()
            model.loss(batch, state).total.backward()
        assert all(torch.equal(value, before[key]) for key, value in state.items())


@every(HasHiddenStates, text=True)
def test_hidden_states_are_what_the_decoder_reads_at_each_real_step(name):
    model = built(name)
    for batch in (read(6, 3), ragged(6, (6, 4, 1))):
        scores = model.token_log_probs(batch)
        every_word = torch.log_softmax(getattr(model, "scorer", model).decoder(scores.hidden), dim=-1)
        expected = every_word.gather(1, batch.targets[batch.mask()][:, None])[:, 0]
        torch.testing.assert_close(scores.log_probs[batch.mask()], expected)


@every(HasHiddenStates)
def test_there_is_a_hidden_state_for_each_prediction(name):
    batch = batch_for(name)
    assert len(built(name).token_log_probs(batch).hidden) == batch.token_count()
