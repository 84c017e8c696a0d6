"""Models that predict the next token: the distribution agrees with the scores of targets."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from syntaxlm.models.abilities import PredictsNextToken
from syntaxlm.models.batches import TokenBatch
from tests.models.variants import WORDS, built, every, read_for, word_log_probs

every_model = every(PredictsNextToken)


@every_model
@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
def test_next_token_probabilities_equal_those_of_targets_at_the_last_step(name, lengths):
    model = built(name)
    batch = dataclasses.replace(read_for(name, 7, 3), lengths=None if lengths is None else torch.tensor(lengths))
    found, _ = model.next_log_probs(batch)
    assert found.shape == (3, WORDS)
    last = torch.tensor(lengths or [7] * 3) - 1
    expected = word_log_probs(model, batch)[last, torch.arange(3)]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@every_model
def test_reading_token_by_token_gives_the_same_probabilities_as_reading_at_once(name):
    model, batch = built(name), read_for(name, 9, 2)
    expected = word_log_probs(model, batch)
    state = None
    for start, end in ((0, 3), *((step, step + 1) for step in range(3, 9))):
        part = TokenBatch(batch.tokens[start:end], batch.targets[start:end], carries=start > 0)
        found, state = model.next_log_probs(part, state)
        torch.testing.assert_close(found, expected[end - 1], rtol=0, atol=1e-12)


@every_model
def test_the_state_equals_that_of_scoring(name):
    """It may also have what is computed from the rest, which changes no result."""
    model, batch, more = built(name), read_for(name, 5, 3), read_for(name, 2, 3)
    _, state = model.next_log_probs(batch)
    scored = model.token_log_probs(batch).state
    torch.testing.assert_close({key: state[key] for key in scored}, scored, rtol=0, atol=0)
    found, expected = (model.next_log_probs(more, each)[0] for each in (state, scored))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@every_model
def test_results_do_not_depend_on_targets(name):
    model, batch = built(name), read_for(name, 6, 3)
    found, _ = model.next_log_probs(batch)
    other, _ = model.next_log_probs(TokenBatch(batch.tokens, batch.tokens))
    torch.testing.assert_close(found, other, rtol=0, atol=0)
