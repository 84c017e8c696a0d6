"""PRPN against the program its authors released, and against the equations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from syntaxlm.models.abilities import HasMaps, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import Rows
from syntaxlm.models.prpn import PredictNetwork, PRPNConfig, ReadingLayer, _Windows
from syntaxlm.models.registry import build_model
from syntaxlm.ops.backend import using
from tests.golden import PRPN_FILES, released_prpn
from tests.models.checks import check_against_reference, check_dropout, losses
from tests.models.variants import word_log_probs


@pytest.mark.parametrize("backend", ["compiled", "torch", "reference"])
@pytest.mark.parametrize("path", PRPN_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_with_carried_state(path, backend):
    model, golden = released_prpn(path)
    with using(backend):
        check_outputs(model, golden)


def check_outputs(model, golden):
    state = None
    for suffix in ("", "_next"):
        tokens = torch.from_numpy(golden["x" + suffix])
        expected = torch.from_numpy(golden["logits" + suffix])
        batch = TokenBatch(tokens, tokens)
        reading = model.read(batch, state)
        torch.testing.assert_close(model.decoder(reading.hidden).view(expected.shape), expected, rtol=0, atol=1e-9)
        every = word_log_probs(model, batch, state)
        torch.testing.assert_close(every, torch.log_softmax(expected, -1), rtol=0, atol=1e-9)
        state = model.token_log_probs(batch, state).state
        distances = reading.distances[0]
        torch.testing.assert_close(distances, torch.from_numpy(golden["gates" + suffix].T), rtol=0, atol=1e-9)
        if not suffix:
            maps = np.stack([part.numpy() for part in model.maps(batch).earlier_tokens.values()], axis=2)
            np.testing.assert_allclose(maps, golden["attentions"], rtol=0, atol=1e-9)
            parsed = model.structure(batch).values[0]
            torch.testing.assert_close(parsed, distances, rtol=0, atol=1e-9)


SMALL = PRPNConfig(embedding_size=6, hidden_size=8, memory_slots=4, look_back=2, tied=False)
TOKENS = torch.randint(11, (9, 3), generator=torch.Generator().manual_seed(1))
BATCH = TokenBatch(TOKENS[:-1], TOKENS[1:], lengths=torch.tensor([8, 5, 2]))


DROPOUTS = {"dropout": 0.3, "layer_dropout": 0.4, "recurrent_dropout": 0.5}


@pytest.mark.parametrize(
    "parts",
    [
        *({"form": form, "residual_blocks": blocks} for form in ("released", "paper") for blocks in (0, 2)),
        {"parsing": False},
        {"reading_attention": False},
        {"predict_attention": False},
    ],
    ids=str,
)
def test_fast_model_equals_reference_in_every_gradient_under_dropout(parts):
    torch.manual_seed(0)
    model = build_model(dataclasses.replace(SMALL, **DROPOUTS, **parts), 11).double().train()
    with torch.no_grad():
        if "form" in parts:  # spread the distances, so that gates are open, closed and between
            model.embedding.weight.normal_()
            model.backbone.parser.head.weight.normal_()
        else:
            for weight in model.parameters():
                weight.normal_()
    check_against_reference(model, BATCH)


@pytest.mark.parametrize("rate", DROPOUTS)
def test_every_rate_has_an_effect_in_training_only(rate):
    none = dataclasses.replace(SMALL, **dict.fromkeys(DROPOUTS, 0.0))
    torch.manual_seed(0)
    first, second = losses(build_model(none, 11).double().train(), BATCH)
    assert first == second
    torch.manual_seed(0)
    check_dropout(build_model(dataclasses.replace(none, **{rate: 0.5}), 11).double(), BATCH)


def test_parsing_runs_neither_the_reader_nor_the_predict_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("parsing must not come here")

    monkeypatch.setattr(ReadingLayer, "forward", refuse)
    monkeypatch.setattr(PredictNetwork, "forward", refuse)
    model = build_model(SMALL, 11).eval()
    assert model.structure(BATCH).values.shape == (1, 8, 3)


@pytest.mark.parametrize("form", ["released", "paper"])
def test_distances_for_parsing_equal_those_of_reading(form):
    torch.manual_seed(0)
    model = build_model(dataclasses.replace(SMALL, form=form), 11).double().eval()
    with torch.no_grad():
        model.backbone.parser.norm.running_mean.normal_()
        model.backbone.parser.norm.running_var.uniform_(0.5, 2)
        model.backbone.parser.norm.weight.normal_()
        model.backbone.parser.norm.bias.normal_()
    batch = TokenBatch(TOKENS, TOKENS)
    torch.testing.assert_close(model.structure(batch).values, model.read(batch).distances, rtol=0, atol=1e-12)


def test_the_papers_form_compares_softly_in_training_and_by_sign_in_evaluation():
    backbone = build_model(dataclasses.replace(SMALL, form="paper"), 11).backbone
    query, distance = torch.tensor([0.52, 0.5, 0.48]), torch.tensor(0.5)
    torch.testing.assert_close(backbone.train().comparison(query, distance), torch.tensor([0.6, 0.5, 0.4]))
    torch.testing.assert_close(backbone.eval().comparison(query, distance), torch.tensor([1.0, 0.5, 0.0]))


def test_the_paper_form_omits_the_comparison_of_a_distance_with_itself():
    torch.manual_seed(0)
    paper = build_model(dataclasses.replace(SMALL, form="paper"), 11).eval()
    maps = paper.maps(TokenBatch(TOKENS, TOKENS))
    assert (maps.earlier_tokens["memory gate"][..., 0] == 1).all()


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"hidden_size": 7}, "even"),
        ({"form": "paper", "comparison": "soft"}, "soft"),
        ({"reading_attention": False, "predict_attention": False}, "expected false"),
    ],
)
def test_contradictory_settings_raise_an_error(settings, fault):
    with pytest.raises(ValueError, match=fault):
        dataclasses.replace(SMALL, **settings)


def lstm_step(layer, inputs, hidden, cell):
    """The layer-normalised LSTM of the reading network, by its equations: (B, F), (B, H), (B, H)."""

    def norm(rows, part):
        return part.gain * (rows - rows.mean(-1, keepdim=True)) / (rows.std(-1, keepdim=True) + 1e-6) + part.bias

    gates = norm(layer.input(inputs), layer.input_norm) + norm(layer.recurrent(hidden), layer.recurrent_norm)
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * norm(cell, layer.cell_norm).tanh(), cell


@pytest.mark.parametrize("parsing", [False, True])
def test_without_reading_attention_the_reader_is_a_layer_normalised_lstm(parsing):
    config = dataclasses.replace(SMALL, parsing=parsing, reading_attention=False, predict_attention=parsing)
    torch.manual_seed(0)
    model = build_model(config, 11).double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    read = []
    model.backbone.predictor.register_forward_pre_hook(lambda module, arguments: read.append(arguments[0]))
    model.read(TokenBatch(TOKENS, TOKENS))
    expected = list(model.embedding(TOKENS))
    for layer in model.backbone.reader:
        hidden = cell = torch.zeros(3, 8, dtype=torch.float64)
        for step, inputs in enumerate(expected):
            hidden, cell = lstm_step(layer, inputs, hidden, cell)
            expected[step] = hidden
    torch.testing.assert_close(read[0][:, :8], torch.cat(expected), rtol=0, atol=1e-7)


def test_without_parsing_attention_reaches_all_steps_in_memory_equally():
    """Also those before a chunk; the zero state before the first step is one of them, as in the full model."""
    torch.manual_seed(0)
    model = build_model(dataclasses.replace(SMALL, parsing=False), 11).double().eval()
    with torch.no_grad():  # no key: equal scores
        for part in (*model.backbone.reader, model.backbone.predictor):
            part.key.weight.zero_()
            part.key.bias.zero_()
    first = model.read(TokenBatch(TOKENS[:3], TOKENS[:3]))
    second = model.read(TokenBatch(TOKENS[3:], TOKENS[3:], carries=True), first.state)
    maps = first.maps.earlier_tokens
    assert maps.keys() == {"attention of layer 1", "attention of layer 2", "predict attention"}
    for name, attention in maps.items():
        there = torch.cat([attention, second.maps.earlier_tokens[name]])
        for step in range(len(TOKENS)):
            count = min(step + 1, SMALL.memory_slots)
            expected = torch.tensor([1 / count] * count + [0] * (SMALL.memory_slots - count), dtype=torch.float64)
            torch.testing.assert_close(there[step], expected.expand(3, -1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("form", ["released", "paper"])
def test_without_predict_attention_only_the_state_is_decoded_and_no_next_distance_computed(form):
    config = dataclasses.replace(SMALL, form=form, predict_attention=False, residual_blocks=1)
    model = build_model(config, 11)
    full = build_model(dataclasses.replace(config, predict_attention=True), 11)
    assert model.backbone.parser.head.out_channels == 1
    assert full.backbone.parser.head.out_channels == 2
    features = {"released": config.hidden_size // 2, "paper": config.hidden_size}[form]
    assert model.backbone.parser.convolution.out_channels == features
    assert model.backbone.predictor.projection.in_features == config.hidden_size
    states = torch.randn(5, config.hidden_size)
    with torch.no_grad():
        model.backbone.eval()
        alone = model.backbone.predictor(states[2:3])
        torch.testing.assert_close(model.backbone.predictor(states)[2:3], alone)


def test_without_predict_attention_distances_are_those_of_the_full_model():
    """Each distance reads its own half of the features, so removing the other half has no effect."""
    torch.manual_seed(0)
    full = build_model(SMALL, 11).double().eval()
    model = build_model(dataclasses.replace(SMALL, predict_attention=False), 11).double().eval()
    half = SMALL.hidden_size // 2
    weights = {name: full.state_dict()[name] for name in model.backbone.parser.state_dict(prefix="backbone.parser.")}
    cut = {"convolution": half, "norm": half, "head": 1}
    weights = {name: weight[: cut[name.split(".")[2]]] if weight.dim() else weight for name, weight in weights.items()}
    model.load_state_dict(weights | {"embedding.weight": full.embedding.weight}, strict=False)
    batch = TokenBatch(TOKENS, TOKENS)
    expected = full.read(batch).distances
    torch.testing.assert_close(model.read(batch).distances, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.structure(batch).values, expected, rtol=0, atol=1e-12)


def test_a_plain_lstm_has_no_structure_and_carries_one_step():
    plain = {"parsing": False, "reading_attention": False, "predict_attention": False}
    model = build_model(dataclasses.replace(SMALL, **plain), 11)
    assert not isinstance(model, (ParsesSentences, HasMaps))
    read = model.read(BATCH)
    assert read.distances is None
    assert not read.maps
    assert {name: tuple(part.shape) for name, part in read.state.items()} == {
        f"{tape}.{layer}": (1, 3, 8) for tape in ("hidden", "cell") for layer in (0, 1)
    }


@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 3, 1])])
def test_the_features_of_distances_are_a_convolution_with_its_gradients(lengths):
    rows = Rows(4, 3, lengths, torch.device("cpu"))
    words = torch.randn(6, 3, 5, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(7, 5, 3, dtype=torch.float64, requires_grad=True)
    features = _Windows.apply(words, 3, rows, torch.float64) @ kernel.transpose(1, 2).flatten(1).T
    expected = rows.of(torch.conv1d(words.permute(1, 2, 0), kernel).permute(2, 0, 1))
    torch.testing.assert_close(features, expected)
    found, right = (torch.autograd.grad(part.sin().sum(), (words, kernel)) for part in (features, expected))
    torch.testing.assert_close(found, right)
