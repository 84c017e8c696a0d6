"""Softmax, dropout, normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import (
    AdaptiveDecoder,
    AdaptiveEmbedding,
    Decoder,
    MixtureDecoder,
    RowBatchNorm,
    dropout,
)
from syntaxlm.models.registry import build_model
from syntaxlm.ops.dropout import dropout_mask
from tests.models.checks import assert_gradients_agree


def test_tied_weights_of_a_different_size_raise_an_error():
    with pytest.raises(ValueError, match="size, 6, not 5"):
        Decoder(5, 10, nn.Embedding(10, 6))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_dropout_mask_has_its_rate_and_mean_one(rate, dtype):
    torch.manual_seed(1)
    count = 200_003  # not a multiple of four: four entries share a random number
    mask = dropout_mask((count,), rate, torch.zeros((), dtype=dtype))
    assert mask.dtype == dtype
    assert mask.shape == (count,)
    assert len(mask.unique()) == 2
    assert float((mask == 0).double().mean()) == pytest.approx(rate, abs=5 * (rate * (1 - rate) / count) ** 0.5)
    assert float(mask.double().mean()) == pytest.approx(1, abs=0.02)


def test_neighbouring_entries_of_a_dropout_mask_are_independent():
    torch.manual_seed(2)
    dropped = (dropout_mask((400_000,), 0.5, torch.zeros(())) == 0).double() - 0.5
    for lag in (1, 2, 3, 4, 5):
        assert abs(float((dropped[lag:] * dropped[:-lag]).mean())) < 0.002


@pytest.mark.parametrize(("rate", "value"), [(0.0, 1.0), (1e-9, 1.0), (1.0, 0.0)])
def test_rates_0_and_1_are_exact(rate, value):
    assert (dropout_mask((3, 5), rate, torch.zeros(())) == value).all()


def test_dropout_is_the_identity_in_evaluation():
    values = torch.randn(4, 4)
    assert dropout(values, 0.5, training=False) is values
    assert dropout(values, 0.0, training=True) is values
    assert (dropout(values, 0.5, training=True) == 0).any()


def test_row_batch_norm_of_several_rows_equals_torch_in_training_and_evaluation():
    ours, theirs = RowBatchNorm(3).double(), nn.BatchNorm1d(3).double()
    for size in (9, 2, 50):
        rows = torch.randn(size, 3, dtype=torch.float64) * 4 + 2
        torch.testing.assert_close(ours(rows), theirs(rows))
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(rows), theirs.eval()(rows))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)


def test_row_batch_norm_returns_the_dtype_of_its_weights():
    assert RowBatchNorm(3)(torch.randn(4, 3).bfloat16()).dtype == torch.float32


def test_one_row_is_normalised_by_the_running_statistics_without_updating_them():
    norm = RowBatchNorm(3)
    norm(torch.randn(20, 3) * 3 + 1)
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    row = torch.randn(1, 3, requires_grad=True)
    result = norm(row)
    torch.testing.assert_close(result, norm.eval()(row))
    assert all(torch.equal(tensor, before[name]) for name, tensor in norm.state_dict().items())
    result.sum().backward()
    assert row.grad.any()


def test_padding_does_not_affect_the_statistics_of_a_model(toy):
    """Two batches with the same real tokens, one of them padded, leave the same running statistics."""
    tokens = torch.randint(20, (12, 3))
    lengths = torch.tensor([5, 3, 2])
    left = []
    for steps in (5, 12):
        torch.manual_seed(4)
        config = toy.recipe("prpn", model={"dropout": 0.0, "layer_dropout": 0.0, "recurrent_dropout": 0.0}).model
        model = build_model(config, 20).train()
        batch = TokenBatch(tokens[:steps], tokens[:steps], lengths)
        model.loss(batch)
        left.append(dict(model.named_buffers()))
    assert any("running_mean" in name and tensor.any() for name, tensor in left[0].items())
    for name, tensor in left[0].items():
        torch.testing.assert_close(tensor, left[1][name], msg=name)


def test_adaptive_embeddings_without_gradients_are_those_with_gradients():
    torch.manual_seed(0)
    embedding = AdaptiveEmbedding(50, 16, (10, 25)).double()
    embedding.initialise(0.1)
    tokens = torch.randint(50, (7, 3))
    expected = embedding(tokens)
    assert expected.requires_grad
    with torch.no_grad():
        assert torch.allclose(embedding(tokens), expected)
        assert embedding(tokens[:, :0]).shape == (7, 0, 16)


def test_an_adaptive_softmax_has_the_probabilities_of_its_two_levels():
    torch.manual_seed(0)
    embedding = AdaptiveEmbedding(50, 16, (10, 25, 80)).double()
    embedding.initialise(0.5)
    assert [tuple(band.shape) for band in embedding.bands] == [(10, 16), (15, 4), (25, 1)]
    decoder = AdaptiveDecoder(embedding).double()
    nn.init.normal_(decoder.bias)
    nn.init.normal_(decoder.of_bands)
    rows, targets = torch.randn(200, 16, dtype=torch.float64), torch.randint(50, (200,))
    weight, bias = embedding.weight, decoder.bias
    # The features of a word are a map of those of its band, so all words could be scored by their embeddings.
    scores = rows @ weight.T + bias[:50]
    first = torch.cat([scores[:, :10], rows @ decoder.of_bands.T + bias[50:]], 1).log_softmax(1)
    expected = [
        first[:, :10],
        *(scores[:, a:b].log_softmax(1) + first[:, [c]] for a, b, c in ((10, 25, 10), (25, 50, 11))),
    ]
    torch.testing.assert_close(decoder(rows), torch.cat(expected, 1))
    torch.testing.assert_close(decoder.log_probs(rows, targets), decoder(rows).gather(1, targets[:, None])[:, 0])
    torch.testing.assert_close(embedding(targets), weight[targets])
    assert {name for name, _ in decoder.named_parameters()} == {"of_bands", "bias"}


def mixture_in_numpy(decoder, rows):
    """Yang et al. 2017, section 2.3, for one row and word at a time, in logarithms only at the end."""
    weight, bias = decoder.weight.detach().numpy(), decoder.bias.detach().numpy()
    latent, added = decoder.latent.weight.detach().numpy(), decoder.latent.bias.detach().numpy()
    size, found = weight.shape[1], []
    for row in rows.numpy():
        shares = np.exp(decoder.prior.weight.detach().numpy() @ row)
        total = 0.0
        for number, share in enumerate(shares / shares.sum()):
            own = slice(number * size, (number + 1) * size)
            scores = np.exp(
                [w @ np.tanh(latent[own] @ row + added[own]) + b for w, b in zip(weight, bias, strict=True)]
            )
            total = total + share * scores / scores.sum()
        found.append(np.log(total))
    return np.array(found)


@pytest.mark.parametrize("components", [1, 4])
@pytest.mark.parametrize("tied", [True, False])
def test_a_mixture_of_softmaxes_equals_its_equation(components, tied):
    torch.manual_seed(0)
    embedding = nn.Embedding(11, 5).double()
    decoder = MixtureDecoder(components, 7, 5, 11, embedding if tied else None).double()
    decoder.initialise(0.9)
    nn.init.normal_(decoder.bias)
    rows, targets = torch.randn(20, 7, dtype=torch.float64), torch.randint(11, (20,))
    expected = torch.from_numpy(mixture_in_numpy(decoder, rows))
    torch.testing.assert_close(decoder(rows), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(decoder(rows.view(4, 5, 7)), expected.view(4, 5, 11), rtol=0, atol=1e-9)
    found = decoder.log_probs(rows, targets)
    torch.testing.assert_close(found, expected.gather(1, targets[:, None])[:, 0], rtol=0, atol=1e-9)
    assert (decoder.weight is embedding.weight) == tied


def test_every_gradient_of_a_mixture_of_softmaxes_agrees_with_finite_differences():
    torch.manual_seed(0)
    decoder = MixtureDecoder(3, 4, 3, 5).double()
    decoder.initialise(0.9)
    rows, targets = torch.randn(4, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(lambda rows: (decoder(rows), decoder.log_probs(rows, targets)), rows)
    decoder.log_probs(rows, targets).sum().backward()
    assert_gradients_agree(decoder, lambda: decoder.log_probs(rows, targets).sum())
