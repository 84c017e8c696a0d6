"""PRPN against the program its authors released, and against the equations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from syntaxlm.models.contract import TokenBatch
from syntaxlm.models.prpn import PredictNetwork, PRPNConfig, ReadingLayer, build
from tests.golden import PRPN_FILES, released_prpn


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("path", PRPN_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_with_carried_state(path, reference):
    model, golden = released_prpn(path)
    if reference:
        model.core.ops = model.core.ops.reference
    state = None
    for suffix in ("", "_next"):
        tokens = torch.from_numpy(golden["x" + suffix])
        expected = torch.from_numpy(golden["logits" + suffix])
        reading = model.core(model.embedding(tokens), TokenBatch(tokens, tokens), state)
        torch.testing.assert_close(model.decoder(reading.hidden).view(expected.shape), expected, rtol=0, atol=1e-9)
        output = model(TokenBatch(tokens, tokens), state)
        every = [output.log_probs(torch.full_like(tokens, word)) for word in range(model.vocabulary_size)]
        torch.testing.assert_close(torch.stack(every, -1), torch.log_softmax(expected, -1), rtol=0, atol=1e-9)
        state = output.state
        distances = output.syntax.distances[0]
        torch.testing.assert_close(distances, torch.from_numpy(golden["gates" + suffix].T), rtol=0, atol=1e-9)
        if not suffix:
            maps = np.stack([part.detach().numpy() for part in output.syntax.maps.values()], axis=2)
            np.testing.assert_allclose(maps, golden["attentions"], rtol=0, atol=1e-9)
            parsed = model.syntax(TokenBatch(tokens, tokens)).distances[0]
            torch.testing.assert_close(parsed, distances, rtol=0, atol=1e-9)


SMALL = PRPNConfig(embedding_size=6, hidden_size=8, memory_slots=4, look_back=2, tied=False)
TOKENS = torch.randint(11, (9, 3), generator=torch.Generator().manual_seed(1))
BATCH = TokenBatch(TOKENS[:-1], TOKENS[1:], lengths=torch.tensor([8, 5, 2]))


def training_loss(model, seed):
    torch.manual_seed(seed)
    return -model(BATCH).log_probs(BATCH.targets).sum()


@pytest.mark.parametrize("form", ["released", "paper"])
@pytest.mark.parametrize("blocks", [0, 2])
def test_fast_model_equals_reference_in_every_gradient_under_dropout(form, blocks):
    config = dataclasses.replace(
        SMALL, form=form, residual_blocks=blocks, dropout=0.3, layer_dropout=0.4, recurrent_dropout=0.5
    )
    torch.manual_seed(0)
    model = build(config, 11).double().train()
    with torch.no_grad():  # spread the distances, so that gates are open, closed and between
        model.embedding.weight.normal_()
        model.core.parser.head.weight.normal_()
    fast = training_loss(model, seed=5)
    gradients = torch.autograd.grad(fast, list(model.parameters()), allow_unused=True)
    model.core.ops = model.core.ops.reference
    slow = training_loss(model, seed=5)
    assert fast.item() == pytest.approx(slow.item(), abs=1e-10)
    for (name, _), ours, expected in zip(
        model.named_parameters(),
        gradients,
        torch.autograd.grad(slow, list(model.parameters()), allow_unused=True),
        strict=True,
    ):
        assert expected is not None, name
        torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("rate", ["dropout", "layer_dropout", "recurrent_dropout"])
def test_every_dropout_rate_acts_in_training_and_in_training_alone(rate):
    none = dataclasses.replace(SMALL, dropout=0.0, layer_dropout=0.0, recurrent_dropout=0.0)
    torch.manual_seed(0)
    model = build(none, 11).double().train()
    assert training_loss(model, 1).item() == training_loss(model, 2).item()
    torch.manual_seed(0)
    model = build(dataclasses.replace(none, **{rate: 0.5}), 11).double().train()
    assert training_loss(model, 1).item() != training_loss(model, 2).item()
    model.eval()
    assert training_loss(model, 1).item() == training_loss(model, 2).item()


def test_parsing_runs_neither_the_reader_nor_the_predict_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("parsing must not come here")

    monkeypatch.setattr(ReadingLayer, "forward", refuse)
    monkeypatch.setattr(PredictNetwork, "forward", refuse)
    model = build(SMALL, 11).eval()
    assert model.syntax(BATCH).distances.shape == (1, 8, 3)


@pytest.mark.parametrize("form", ["released", "paper"])
def test_distances_for_parsing_equal_those_of_reading(form):
    torch.manual_seed(0)
    model = build(dataclasses.replace(SMALL, form=form), 11).double().eval()
    with torch.no_grad():
        model.core.parser.norm.running_mean.normal_()
        model.core.parser.norm.running_var.uniform_(0.5, 2)
        model.core.parser.norm.weight.normal_()
        model.core.parser.norm.bias.normal_()
    read = model(TokenBatch(TOKENS, TOKENS)).syntax.distances
    torch.testing.assert_close(model.syntax(TokenBatch(TOKENS, TOKENS)).distances, read, rtol=0, atol=1e-12)


def test_the_papers_form_compares_softly_in_training_and_by_sign_in_evaluation():
    core = build(dataclasses.replace(SMALL, form="paper"), 11).core
    query, distance = torch.tensor([0.52, 0.5, 0.48]), torch.tensor(0.5)
    torch.testing.assert_close(core.train().comparison(query, distance), torch.tensor([0.6, 0.5, 0.4]))
    torch.testing.assert_close(core.eval().comparison(query, distance), torch.tensor([1.0, 0.5, 0.0]))


def test_the_papers_reader_leaves_out_the_comparison_of_a_distance_with_itself():
    torch.manual_seed(0)
    paper = build(dataclasses.replace(SMALL, form="paper"), 11).eval()
    maps = paper(TokenBatch(TOKENS, TOKENS)).syntax.maps
    assert (maps["memory gate"][..., 0] == 1).all()


@pytest.mark.parametrize(
    ("settings", "fault"), [({"hidden_size": 7}, "even"), ({"form": "paper", "comparison": "soft"}, "soft")]
)
def test_settings_that_cannot_be_are_told(settings, fault):
    with pytest.raises(ValueError, match=fault):
        dataclasses.replace(SMALL, **settings)
