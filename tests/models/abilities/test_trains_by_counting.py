"""Models trained by counting or EM: rounds never lower the training likelihood, and counts are cleared."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import ScoresSentences, TrainsByCounting
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.registry import build_model
from tests.models.mixture import MixtureOfUnigrams
from tests.models.variants import SENTENCE_VARIANTS, WORDS, batch_for, built, config_of, names_with, ragged, sentences

ROUNDS = 8


def fresh(name: str) -> Any:
    """A model without counts."""
    return MixtureOfUnigrams(3, WORDS) if name == "mixture" else build_model(config_of(name), WORDS).eval()


every_model = pytest.mark.parametrize("name", ["mixture", *names_with(TrainsByCounting)])
every_model_of_sentences = pytest.mark.parametrize("name", ["mixture", *names_with(TrainsByCounting, ScoresSentences)])


def texts(count: int = 5) -> list[TokenBatch]:
    """Sentences of unequal lengths, some words far more frequent than others, in two topics."""
    found = []
    for seed in range(count):
        batch = ragged(14, (14, 11, 9, 6, 2), seed)
        targets = batch.targets // (1 + torch.arange(5) % 2 * 3)
        found.append(TokenBatch(batch.tokens, targets, batch.lengths))
    return found


def one_round(model: Any, batches: Iterable[TokenBatch]) -> dict[str, Any]:
    for batch in batches:
        model.accumulate(batch)
    figures: dict[str, Any] = model.maximise()
    return figures


def likelihood(model: Any, batches: Iterable[TokenBatch]) -> float:
    return sum(float(model.sentence_log_probs(batch).sum()) for batch in batches)


@every_model_of_sentences
def test_no_round_lowers_the_likelihood_of_what_was_counted(name):
    model, batches = fresh(name), texts()
    values = [likelihood(model, batches)]
    for _ in range(model.rounds or ROUNDS):
        one_round(model, batches)
        values.append(likelihood(model, batches))
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(values))
    assert values[-1] > values[0] + 100, "a text of these words is more probable once it was counted"


@every_model_of_sentences
def test_the_objective_is_the_criterion_before_the_update_and_never_increases(name):
    model, batches = fresh(name), texts()
    tokens = sum(batch.token_count() for batch in batches)
    objectives = []
    for _ in range(model.rounds or ROUNDS):
        before = -likelihood(model, batches) / tokens
        figures = one_round(model, batches)
        if "objective" in figures:
            assert figures["objective"] == pytest.approx(before, rel=1e-12)
            objectives.append(figures["objective"])
    assert objectives == sorted(objectives, reverse=True)
    assert objectives or name != "mixture"


@every_model
def test_the_order_of_batches_makes_no_difference(name):
    one, other = fresh(name), fresh(name)
    one_round(one, texts())
    one_round(other, texts()[::-1])
    tolerance = 0 if one.rounds == 1 else 1e-12  # integer counts add up exactly, expected ones do not
    for key, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor, other.state_dict()[key], rtol=tolerance, atol=tolerance)


@every_model
def test_counts_use_the_current_parameters_and_accumulating_does_not_change_them(name):
    model, batches = fresh(name), texts()
    before = copy.deepcopy(model.state_dict())
    for batch in batches:
        model.accumulate(batch)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())


@every_model
def test_maximising_clears_the_counts(name):
    """Counts of a round affect the next round only through the parameters."""
    model, batches = fresh(name), texts()
    one_round(model, batches[:3])
    alone = fresh(name)
    alone.resize_buffers(model.state_dict())
    alone.load_state_dict(model.state_dict())
    one_round(model, batches[3:])
    one_round(alone, batches[3:])
    assert all(torch.equal(tensor, alone.state_dict()[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", names_with(TrainsByCounting))
def test_maximising_without_counts_is_an_error(name):
    with pytest.raises(
        InputError, match=r"model: found no (sentence|text) to (count|estimate from); expected one (or more|batch)"
    ):
        fresh(name).maximise()


ONE_ROUND = [name for name in names_with(TrainsByCounting) if built(name).rounds == 1]


@pytest.mark.parametrize("name", ONE_ROUND)
def test_a_model_of_one_round_forgets_the_text_before(name):
    model, again = fresh(name), fresh(name)
    one_round(model, texts()[:3])
    one_round(model, texts()[3:])
    one_round(again, texts()[3:])
    assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", names_with(TrainsByCounting))
def test_counts_are_not_in_the_state_dict_and_need_no_gradient(name):
    model = built(name)
    keys = set(model.state_dict())
    model.accumulate(batch_for(name))
    assert set(model.state_dict()) == keys
    assert not any(tensor.requires_grad for tensor in model.state_dict().values())


@pytest.mark.parametrize("name", names_with(TrainsByCounting, among=list(SENTENCE_VARIANTS)))
def test_a_round_on_sentences_of_one_word_leaves_a_model_of_finite_probabilities(name):
    model = fresh(name)
    for batches in ([sentences((1, 1, 1))], [sentences((1,)), sentences((4, 1, 1))]):
        figures = one_round(model, batches)
        assert all(math.isfinite(value) for value in figures.values())
        if isinstance(model, ScoresSentences):
            assert math.isfinite(likelihood(model, batches))
