"""The Transformer that is trained from a recipe: its equations, its window, and the keys and values that it carries."""

from __future__ import annotations

import math

import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import HasMaps, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.causal_transformer import CausalTransformerConfig, reaches, rotated, rotations
from syntaxlm.models.registry import build_model

WORDS = 13
NONE = {"dropout": 0.0, "init_range": 0.5}


def built(words=WORDS, **settings):
    torch.manual_seed(0)
    small = {"embedding_size": 8, "layers": 2, "heads": 2} | NONE | settings
    model = build_model(CausalTransformerConfig(**small), words).double().eval()
    with torch.no_grad():  # gains of 1 and biases of 0 would hide where they are
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.rand_like(weight))
    return model


def text(steps, columns=1, seed=1):
    tokens = torch.randint(WORDS, (steps + 1, columns), generator=torch.Generator().manual_seed(seed))
    return TokenBatch(tokens[:-1], tokens[1:])


def part(batch, start, end):
    return TokenBatch(batch.tokens[start:end], batch.targets[start:end], carries=start > 0)


def rms_norm(rows, gain):
    return gain * rows / (rows.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def turned(vectors):
    """(T, D): features k and k + D/2 as a complex number, times exp(i t 10000^(-2k/D))."""
    half = vectors.shape[1] // 2
    rates = torch.tensor([10_000 ** (-k / half) for k in range(half)], dtype=torch.float64)
    angles = torch.arange(len(vectors))[:, None] * rates
    numbers = torch.complex(vectors[:, :half], vectors[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([numbers.real, numbers.imag], 1)


def reference(model, tokens):
    """Log-probabilities of all words after each of T tokens, (T, V), by the equations: no cache, no fused attention."""
    config, weights = model.backbone.config, dict(model.backbone.named_parameters())
    x, size = model.embedding.weight[tokens], config.embedding_size // config.heads
    distance = torch.arange(len(tokens))[:, None] - torch.arange(len(tokens))
    unseen = (distance < 0) | (distance > config.window)
    for number in range(config.layers):
        block = {name.removeprefix(f"blocks.{number}."): weight for name, weight in weights.items()}
        y = rms_norm(x, block["attention_norm.gain"])
        q, k, v = (y @ weight.T for weight in block["query_key_value"].chunk(3))
        heads = []
        for head in range(config.heads):
            own = slice(head * size, (head + 1) * size)
            scores = turned(q[:, own]) @ turned(k[:, own]).T / math.sqrt(size)
            heads.append(torch.softmax(scores.masked_fill(unseen, -math.inf), 1) @ v[:, own])
        x = x + torch.cat(heads, 1) @ block["attention_output"].T
        y = rms_norm(x, block["feedforward_norm.gain"])
        gate, up = (y @ weight.T for weight in block["gate_up"].chunk(2))
        x = x + (gate * torch.sigmoid(gate) * up) @ block["down"].T
    return torch.log_softmax(rms_norm(x, weights["norm.gain"]) @ model.embedding.weight.T + model.decoder.bias, 1)


@pytest.mark.parametrize(("steps", "window"), [(1, 4), (12, 64), (12, 3), (300, 5), (300, 140)])
def test_probabilities_and_gradients_equal_those_of_the_equations(steps, window):
    """300 steps are read in parts."""
    model, batch = built(window=window), text(steps)
    found = model.loss(batch).total
    expected = -reference(model, batch.tokens[:, 0]).gather(1, batch.targets).sum()
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=0)
    pairs = (torch.autograd.grad(loss, list(model.parameters())) for loss in (found, expected))
    torch.testing.assert_close(*pairs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("window", [1, 5, 30, 64])
@pytest.mark.parametrize("cuts", [(1, 2, 3), (29, 30, 31), (7, 39), tuple(range(1, 40))])
def test_batches_of_a_stream_change_no_probability_within_or_beyond_the_window(window, cuts):
    model, batch, state = built(window=window), text(40, 2), None
    whole = model.token_log_probs(batch).log_probs
    for start, end in zip((0, *cuts), (*cuts, 40), strict=True):
        scores = model.token_log_probs(part(batch, start, end), state)
        torch.testing.assert_close(scores.log_probs, whole[start:end], rtol=0, atol=1e-12)
        state = scores.state
        assert {tensor.shape for tensor in state.values()} == {(2, 2, min(end, window), 4)}
    assert state.keys() == {"keys.0", "values.0", "keys.1", "values.1"}


@pytest.mark.parametrize("layers", [1, 2])
def test_a_token_sees_the_window_before_it_in_each_layer_and_nothing_older(layers):
    model, batch = built(layers=layers, window=3), text(12)
    whole = model.token_log_probs(batch).log_probs[-1]
    for changed in range(12):
        tokens = batch.tokens.clone()
        tokens[changed] = (tokens[changed] + 1) % WORDS
        last = model.token_log_probs(TokenBatch(tokens, batch.targets)).log_probs[-1]
        assert bool((last - whole).abs() > 1e-9) == (11 - changed <= 3 * layers)


def test_gradients_of_one_target_stay_in_the_window():
    model, batch = built(layers=1, window=3), text(12)
    embedded = model.embedding(batch.tokens).detach().requires_grad_()
    model.backbone(embedded, batch, None).hidden[8].sum().backward()
    assert embedded.grad.abs().sum((1, 2)).nonzero()[:, 0].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("shift", [1, 17, 1000])
def test_attention_scores_depend_on_distances_and_not_on_positions(shift):
    vectors = torch.randn(2, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    scores = []
    for start in (0, shift):
        queries, keys = (rotated(one, *(part[start:] for part in rotations(start + 9, 6, one))) for one in vectors)
        scores.append(queries @ keys.T)
    torch.testing.assert_close(*scores, rtol=0, atol=1e-11)
    assert (scores[0] - vectors[0] @ vectors[1].T).abs().max() > 0.1


def test_a_text_after_a_long_one_is_read_as_after_its_last_tokens():
    """Positions have no limit: with one layer, only the window matters, however long the text before it."""
    model, batch = built(layers=1, window=4), text(700)
    long = model.token_log_probs(batch).log_probs[-5:]
    short = model.token_log_probs(part(batch, 691, 700)).log_probs[-5:]
    torch.testing.assert_close(long, short, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("steps", "past", "window"), [(1, 0, 3), (1, 3, 3), (5, 0, 4), (5, 0, 3), (9, 2, 50), (300, 4, 4)]
)
def test_each_query_reaches_itself_and_the_window_before_it(steps, past, window):
    seen = torch.zeros(steps, past + steps, dtype=torch.bool)
    for one in reaches(steps, past, window, torch.device("cpu")):
        shape = seen[one.queries, one.keys].shape
        mask = torch.ones(shape, dtype=torch.bool) if one.mask is None else one.mask
        seen[one.queries, one.keys] = mask.tril() if one.causal else mask
    distance = torch.arange(past, past + steps)[:, None] - torch.arange(past + steps)
    assert torch.equal(seen, (distance >= 0) & (distance <= window))


def test_a_step_of_generation_needs_no_mask():
    (one,) = reaches(1, 64, 64, torch.device("cpu"))
    assert one.mask is None
    assert not one.causal


@pytest.mark.parametrize("settings", [{}, {"feedforward_size": 20}, {"heads": 1, "layers": 3}])
def test_the_number_of_parameters(settings):
    model = built(**settings)
    config = model.backbone.config
    inner = config.feedforward_size or 32  # 8/3 of 8 is 21.3; the next multiple of 16
    block = 4 * 8**2 + 3 * 8 * inner + 2 * 8
    assert model.parameter_count == WORDS * 8 + WORDS + config.layers * block + 8


def test_untrained_probabilities_are_nearly_uniform():
    torch.manual_seed(0)
    model = build_model(CausalTransformerConfig(), 1000).eval()
    tokens = torch.randint(1000, (41, 4))
    loss = model.loss(TokenBatch(tokens[:-1], tokens[1:]))
    assert loss.total.item() / loss.count == pytest.approx(math.log(1000), abs=0.1)
    stds = {
        name: weight.std().item() for name, weight in model.backbone.blocks[0].named_parameters() if weight.dim() > 1
    }
    added = {"attention_output", "down"}
    assert stds == pytest.approx({name: 0.0202 / (12**0.5 if name in added else 1) for name in stds}, rel=0.02)


def test_attention_dropout_changes_the_loss_in_training_only():
    model, batch = built(attention_dropout=0.5), text(9)
    assert model.loss(batch).total == model.loss(batch).total
    model.train()
    assert model.loss(batch).total != model.loss(batch).total


def test_it_gives_no_trees_and_has_nothing_to_draw():
    assert not isinstance(built(), ParsesSentences)
    assert not isinstance(built(), HasMaps)


def test_a_head_needs_an_even_number_of_features():
    with pytest.raises(InputError, match=r"heads: found 8 with embedding_size 200; expected .* a\s+multiple of 16"):
        CausalTransformerConfig(embedding_size=200)
