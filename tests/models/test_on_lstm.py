"""ON-LSTM and its other cells: agreement with the released program, dropouts, penalties, sizes, and the softmax."""

from __future__ import annotations

import dataclasses
from math import sqrt

import numpy as np
import pytest
import torch
from torch import nn

from syntaxlm.core.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import Rows, drop_weights, locked_dropout
from syntaxlm.models.on_lstm import ONLSTMConfig
from syntaxlm.models.recurrent import HighwayLayer
from syntaxlm.models.registry import build_model, model_shapes
from syntaxlm.ops.backend import using
from tests.golden import ON_LSTM_FILES, ON_LSTM_NAMES, released_on_lstm
from tests.models.checks import check_against_reference, check_dropout
from tests.models.variants import built, config_of

NONE = {"dropout": 0.0, "layer_dropout": 0.0, "input_dropout": 0.0, "embedding_dropout": 0.0, "weight_drop": 0.0}
SMALL = ONLSTMConfig(embedding_size=6, layer_sizes=(8, 6), chunk_size=2, **NONE)
TOKENS = torch.randint(11, (9, 3), generator=torch.Generator().manual_seed(1))
BATCH = TokenBatch(TOKENS[:-1], TOKENS[1:], lengths=torch.tensor([8, 5, 2]))


def test_there_are_golden_files():
    assert ON_LSTM_FILES


@pytest.mark.parametrize("backend", ["compiled", "torch", "reference"])
@pytest.mark.parametrize("path", ON_LSTM_FILES, ids=lambda path: path.stem)
def test_equals_the_released_program_in_value_state_and_every_gradient(path, backend):
    stack, golden = released_on_lstm(path)
    inputs = torch.from_numpy(golden["x"]).requires_grad_()
    steps, columns, _ = inputs.shape
    rows = Rows(steps, columns, None, inputs.device)
    names = {"hidden": "h", "cell": "c"}
    layers = range(len(stack.layers))
    before = {f"{ours}.{n}": torch.from_numpy(golden[f"l{n}.{name}0"]) for n in layers for ours, name in names.items()}
    with using(backend):
        outputs, state = stack(rows.of(inputs), rows, before)
    found = {
        "output": rows.padded(outputs[-1].hidden),
        "distance_forget": torch.stack([rows.padded(output.distances) for output in outputs]),
        "distance_in": torch.stack([rows.padded(output.input_distances) for output in outputs]),
    }
    for n in layers:
        found |= {f"l{n}.{name}T": state[f"{ours}.{n}"] for ours, name in names.items()}
        found[f"l{n}.layer_output"] = rows.padded(outputs[n].hidden)
    found["output"].backward(torch.from_numpy(golden["grad_output"]))
    found["grad_x"] = inputs.grad
    for n, layer in enumerate(stack.layers):
        found |= {f"l{n}.grad_{theirs}": layer.get_parameter(ours).grad for ours, theirs in ON_LSTM_NAMES.items()}
    compared = set(found) & set(golden)
    assert len(compared) >= 5 + 5 * len(layers)
    for name in sorted(compared):
        np.testing.assert_allclose(found[name].detach().numpy(), golden[name], rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("cell", ["on-lstm", "lstm"])
def test_fast_model_equals_reference_in_loss_penalties_and_every_gradient_under_dropout(cell):
    config = dataclasses.replace(SMALL, cell=cell, **dict.fromkeys(NONE, 0.4))
    torch.manual_seed(0)
    model = build_model(config, 11).double().train()
    check_against_reference(model, BATCH)


@pytest.mark.parametrize("rate", NONE)
def test_every_dropout_rate_has_an_effect_in_training_only(rate):
    for cell in ("on-lstm", "lstm", "highway", "nas"):
        torch.manual_seed(0)
        model = build_model(dataclasses.replace(SMALL, cell=cell, **{rate: 0.5}), 11).double().train()
        check_dropout(model, BATCH)


def test_penalties_are_means_of_squares_before_or_after_the_output_dropout():
    """Over real tokens only; no change leads from one column to another."""
    config = dataclasses.replace(SMALL, dropout=0.5, ar=3.0, tar=5.0)
    values = {}
    for after in (False, True):
        torch.manual_seed(0)
        model = build_model(dataclasses.replace(config, ar_after_dropout=after), 11).double().train()
        torch.manual_seed(1)
        values[after] = model.loss(BATCH).penalties
    seen = {}
    model.backbone.stack.register_forward_hook(lambda module, inputs, read: seen.update(states=read[0][-1].hidden))
    torch.manual_seed(1)
    dropped = model.backbone(model.embedding(BATCH.tokens), BATCH, None).hidden
    states = Rows(8, 3, BATCH.lengths, dropped.device).padded(seen["states"])
    changes = torch.cat([states[1:length, b] - states[: length - 1, b] for b, length in enumerate([8, 5, 2])])
    assert values[False]["ar"].item() == pytest.approx(3 * seen["states"].square().mean().item())
    assert values[True]["ar"].item() == pytest.approx(3 * dropped.square().mean().item())
    for penalties in values.values():
        assert penalties["tar"].item() == pytest.approx(5 * changes.square().mean().item())


def test_a_single_step_has_no_tar_and_evaluation_no_penalty():
    model = build_model(SMALL, 11).train()
    assert set(model.loss(TokenBatch(TOKENS[:1], TOKENS[1:2])).penalties) == {"ar"}
    assert not model.eval().loss(BATCH).penalties


def test_a_locked_mask_is_one_for_all_steps_of_a_column_and_differs_between_columns():
    torch.manual_seed(3)
    rows = Rows(8, 3, BATCH.lengths, torch.device("cpu"))
    dropped = rows.padded(locked_dropout(torch.ones(15, 200), 0.4, rows, training=True))
    for column, length in enumerate([8, 5, 2]):
        assert (dropped[:length, column] == dropped[0, column]).all()
        assert dropped[0, column].unique().tolist() == pytest.approx([0, 1 / 0.6], abs=1e-4)
    assert (dropped[0, 0] != dropped[0, 1]).any()
    assert locked_dropout(hidden := torch.ones(15, 200), 0.4, rows, training=False) is hidden


def test_embedding_dropout_drops_whole_word_types():
    torch.manual_seed(4)
    backbone = build_model(dataclasses.replace(SMALL, embedding_dropout=0.3), 50).backbone.train()
    embedding = nn.Embedding(50, 6)
    tokens = torch.randint(50, (40, 5))
    embedded = backbone.embed(embedding, tokens)
    dropped = (embedded == 0).all(-1)
    assert set(tokens[dropped].tolist()).isdisjoint(tokens[~dropped].tolist())
    assert 0.1 < dropped.double().mean() < 0.5
    torch.testing.assert_close(embedded[~dropped], embedding(tokens)[~dropped] / 0.7, rtol=1e-4, atol=0)
    torch.testing.assert_close(backbone.eval().embed(embedding, tokens), embedding(tokens))


@pytest.mark.parametrize("rescaled", [False, True])
def test_weight_drop_keeps_weights_or_rescales_them(rescaled):
    torch.manual_seed(5)
    weight, rate = torch.randn(300, 300), 0.45
    dropped = drop_weights(weight, rate, rescaled, training=True)
    kept = dropped != 0
    assert float((~kept).double().mean()) == pytest.approx(rate, abs=5 * sqrt(rate * (1 - rate)) / 300)
    torch.testing.assert_close(dropped[kept], weight[kept] / (1 - rate if rescaled else 1), rtol=1e-4, atol=0)
    expected = weight if rescaled else weight * (1 - rate)
    torch.testing.assert_close(drop_weights(weight, rate, rescaled, training=False), expected)


def test_sizes_that_are_not_multiples_of_the_chunk_raise_an_error():
    sizes = {"embedding_size": 7, "layer_sizes": (12, 7), "chunk_size": 4}
    fault = r"model\.chunk_size: layers of 12, 7 neurons with chunks of 4: every size must be a multiple"
    with pytest.raises(InputError, match=fault):
        ONLSTMConfig(**sizes)
    assert ONLSTMConfig(**sizes, cell="lstm").chunk_size == 4


PUBLISHED = {  # sizes, and parameters as the papers state them, in millions
    "on-lstm": ({"embedding_size": 400, "layer_sizes": (1150, 1150, 400)}, 25),
    "highway, depth 10": ({"cell": "highway", "highway_depth": 10, "embedding_size": 830, "layer_sizes": (830,)}, 23),
    "mixture of 15": ({"cell": "lstm", "mixture": 15, "embedding_size": 280, "layer_sizes": (960, 960, 620)}, 22),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_sizes_have_the_published_number_of_parameters(name):
    sizes, millions = PUBLISHED[name]
    model = model_shapes(ONLSTMConfig(**sizes), 10_000)
    assert sum(weight.numel() for weight in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.6)


@pytest.mark.parametrize("cell", ["on-lstm", "lstm", "highway", "nas"])
def test_with_skip_connections_the_decoder_reads_the_sum_of_all_layers(cell):
    config = dataclasses.replace(SMALL, cell=cell, layer_sizes=(6, 6, 6))
    models = [build_model(dataclasses.replace(config, skip=skip), 11).double().eval() for skip in (True, False)]
    models[1].load_state_dict(models[0].state_dict())
    seen = []
    models[0].backbone.stack.register_forward_hook(lambda module, inputs, read: seen.extend(read[0]))
    summed, last = (model.read(BATCH).hidden for model in models)
    torch.testing.assert_close(summed, sum(layer.hidden for layer in seen))
    torch.testing.assert_close(last, seen[-1].hidden)


def test_skip_connections_between_layers_of_different_sizes_raise_an_error():
    with pytest.raises(InputError, match=r"model\.skip: layers of 8, 6 neurons; expected equal layer_sizes"):
        dataclasses.replace(SMALL, skip=True)


def test_a_new_highway_layer_keeps_most_of_its_state():
    torch.manual_seed(0)
    layer = HighwayLayer(6, 200, depth=5, weight_drop=0.0, rescaled=False)
    state = torch.ones(1, 200)
    after = layer(torch.zeros(1, 6), (state,), Rows(1, 1, None, state.device)).hidden
    assert after.mean() > 0.4  # with gates of 1/2 it would be 1/32


@pytest.mark.parametrize("name", ["lstm", "on-lstm", "palm", "transformer"])
def test_a_mixture_of_softmaxes_is_refused_with_cutoffs(name):
    with pytest.raises(InputError, match=r"model\.mixture: found 2 with cutoffs; expected 1"):
        config_of(name, mixture=2, cutoffs=(5, 12))


@pytest.mark.parametrize("name", ["on-lstm", "palm"])
def test_only_a_mixture_of_softmaxes_maps_the_last_layer_to_the_embedding_size(name):
    sizes = {"embedding_size": 6, "layer_sizes": (8, 8)}
    with pytest.raises(InputError, match=r"layer_sizes: the last is 8; tied weights need embedding_size, 6"):
        config_of(name, **sizes)
    assert built(name, **sizes, mixture=2).token_log_probs(BATCH).hidden.shape == (15, 8)
