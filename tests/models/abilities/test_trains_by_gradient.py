"""Models trained by gradient descent: the loss, its counts, and correct gradients of all weights."""

from __future__ import annotations

import dataclasses
from statistics import median

import pytest
import torch

from syntaxlm.models.abilities import NATS_PER_TOKEN, HasHiddenStates, ScoresTokens, TrainsByCounting, TrainsByGradient
from syntaxlm.models.registry import MODELS
from syntaxlm.ops.products import fast_bfloat16
from tests.models.checks import STEP, assert_gradients_agree
from tests.models.variants import (
    EVERY,
    SENTENCE_VARIANTS,
    TOKEN_VARIANTS,
    VARIANTS,
    batch_for,
    built,
    config_of,
    every,
    log_probs,
    ragged,
    read,
    sentences,
)

every_model = every(TrainsByGradient)
# Of StructFormer: the distances are compared after their margin is subtracted, and heights among themselves.
WITHOUT_EFFECT = {"parser.height_score.bias", "parser.distance_score.bias"}
DROPPING = [name for name in EVERY if name not in SENTENCE_VARIANTS]  # PCFGs have no dropout


def rates_of(name: str) -> dict[str, float]:
    """All dropout rates of a model's settings, set to 0.5."""
    numbers = (key for key, value in vars(config_of(name)).items() if isinstance(value, float))
    return {key: 0.5 for key in numbers if key.endswith("dropout")}


@every_model
def test_a_loss_is_a_sum_with_its_count(name):
    model, batch = built(name).train(), batch_for(name)
    found = model.loss(batch)
    assert found.total.shape == ()
    assert found.total.requires_grad
    ends = batch.sentence_count() if model.criterion.unit == "nats per word" else 0
    words, masked = batch.token_count() - ends, model.criterion.unit == "nats per masked word"
    assert 0 < found.count < words if masked else found.count == words
    assert found.items == batch.sentence_count()
    assert all(penalty.shape == () for penalty in found.penalties.values())


@every(TrainsByGradient, ScoresTokens)
def test_in_evaluation_the_loss_is_the_negative_log_likelihood_without_penalties(name):
    model, batch = built(name), batch_for(name)
    assert model.criterion == NATS_PER_TOKEN
    found = model.loss(batch)
    torch.testing.assert_close(found.total, -log_probs(model, batch).sum(), rtol=1e-12, atol=0)
    assert not found.penalties


@every(TrainsByGradient, ScoresTokens, text=True)
def test_the_loss_carries_the_state_that_scoring_carries(name):
    model, first, second = built(name), read(5, 3, seed=1), read(5, 3, seed=2)
    loss, scores = model.loss(first), model.token_log_probs(first)
    assert loss.state.keys() == scores.state.keys()
    torch.testing.assert_close(loss.state, scores.state, rtol=0, atol=0)
    expected = -log_probs(model, second, scores.state).sum()
    torch.testing.assert_close(model.loss(second, loss.state).total, expected, rtol=1e-12, atol=0)


@every_model
@pytest.mark.parametrize("tied", [True, False])
def test_gradients_reach_every_parameter(name, tied):
    model = built(name, tied=tied).train()
    found = model.loss(batch_for(name))
    (found.total + sum(found.penalties.values())).backward()
    gradients = {key: weight.grad for key, weight in model.named_parameters()}
    without_effect = {key: gradients.pop(key) for key in WITHOUT_EFFECT & gradients.keys()}
    assert not [key for key, gradient in gradients.items() if gradient is None or not gradient.any()]
    for gradient in without_effect.values():
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


@every(TrainsByGradient, with_similar=True)
def test_the_gradient_in_evaluation_agrees_with_finite_differences(name):
    model = built(name)
    batch = ragged(7, (7, 5, 3, 1)) if name in VARIANTS else batch_for(name)
    model.loss(batch).total.backward()
    step = 1e-7 if name == "diora" else STEP  # a smaller one crosses fewer kinks of ReLUs
    assert_gradients_agree(model, lambda: model.loss(batch).total, step)


@every(TrainsByGradient, HasHiddenStates, text=True)
def test_bfloat16_products_are_close_to_float32_in_value_and_gradient(name):
    """In the median of several batches: a norm of eight features occasionally amplifies rounding errors."""
    if name.startswith("lstm") and not fast_bfloat16(torch.device("cpu")):
        pytest.skip("torch's LSTM refuses bfloat16 on this processor")
    model = built(name, init_range=0.1).float()
    value_errors, gradient_errors = [], []
    for seed in range(5):
        batch = read(10, 4, seed)
        results = []
        for low in (False, True):
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                values = log_probs(model, batch)
                loss = model.loss(batch).total
            assert values.dtype == loss.dtype == torch.float32
            loss.backward()
            results.append((values.detach(), next(model.embedding.parameters()).grad.clone()))
        (exact, exact_grad), (rough, rough_grad) = results
        value_errors.append(float((exact - rough).abs().max()))
        gradient_errors.append(float((exact_grad - rough_grad).norm() / exact_grad.norm()))
    assert 0 < median(value_errors) < 0.1
    assert median(gradient_errors) < 0.15


@every(TrainsByGradient, among=DROPPING)
def test_dropout_works_in_training_only(name):
    rates = rates_of(name)
    assert rates
    model, batch = built(name, **rates), batch_for(name)

    def totals() -> list[float]:
        return [model.loss(batch).total.item() for _ in range(2)]

    one, other = totals()
    assert one == other
    model.train()
    one, other = totals()
    assert abs(one - other) > 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_only_models_trained_by_counting_have_no_trainable_weights(name):
    model = built(name)
    assert not (isinstance(model, TrainsByGradient) and isinstance(model, TrainsByCounting))
    assert isinstance(model, TrainsByGradient | TrainsByCounting) == MODELS[config_of(name).name].is_trained
    assert isinstance(model, TrainsByCounting) == (not list(model.parameters()))
    assert model.parameter_count > 0
    assert model.device.type == "cpu"


@every(TrainsByGradient, among=list(TOKEN_VARIANTS))
def test_padding_is_not_part_of_the_loss(name):
    model, batch = built(name), batch_for(name)
    changed = batch.targets.clone()
    changed[~batch.mask()] = 0
    tokens = batch.tokens.clone()
    tokens[~batch.mask()] = 1
    other = dataclasses.replace(batch, tokens=tokens, targets=changed)
    assert model.loss(other).total.item() == model.loss(batch).total.item()


@every(TrainsByGradient, among=list(SENTENCE_VARIANTS))
@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1), (4, 1, 1)])
def test_batches_of_one_word_sentences_are_trained_on(name, lengths):
    """Weights that no sentence needs have no gradient, and the loss none at all if no weight has a part in it."""
    model, batch = built(name).train(), sentences(lengths)
    if name == "span-parser":  # which learns from trees
        spans = [] if max(lengths) == 1 else [[3, 0, 2], [5, 0, 2], [5, 0, 4]]
        batch = dataclasses.replace(batch, spans=torch.tensor(spans, dtype=torch.int64).view(-1, 3))
    found = model.loss(batch)
    assert torch.isfinite(found.total)
    assert found.items == len(lengths)
    if found.total.requires_grad:
        found.total.backward()
    grads = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert all(torch.isfinite(grad).all() for grad in grads)
    assert max(lengths) == 1 or any(grad.any() for grad in grads)
