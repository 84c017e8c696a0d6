"""PaLM: span attention, supervision by gold spans, and parsing scores."""

from __future__ import annotations

import dataclasses
from math import log

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models import palm
from syntaxlm.models.abilities import AnnealsLoss, ParsesSentences
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.layers import Rows
from syntaxlm.models.palm import PaLMConfig, SpanAttention
from syntaxlm.models.registry import build_model
from syntaxlm.models.structures import CorpusSpanScores
from tests.models.checks import check_against_reference, check_dropout

NONE = {"dropout": 0.0, "layer_dropout": 0.0, "input_dropout": 0.0, "embedding_dropout": 0.0, "weight_drop": 0.0}
SMALL = PaLMConfig(
    embedding_size=6, layer_sizes=(8, 7, 6), span_size=4, scorer_size=5, maximum_span=3, **NONE, init_range=0.5
)
TOKENS = torch.randint(11, (9, 3), generator=torch.Generator().manual_seed(1))
BATCH = TokenBatch(TOKENS[:-1], TOKENS[1:], lengths=torch.tensor([8, 5, 2]))
# Step, column, length of gold constituents; one of a single token, one longer than any span attended to.
SPANS = torch.tensor([[3, 0, 2], [4, 0, 3], [4, 0, 2], [4, 1, 3], [4, 1, 1], [5, 0, 4], [1, 2, 1]])


def built(**settings):
    torch.manual_seed(0)
    return build_model(dataclasses.replace(SMALL, **settings), 11).double()


def padded(rows, batch=BATCH):
    """(n, F) -> (T, B, F)."""
    steps, columns = batch.tokens.shape
    return Rows(steps, columns, batch.lengths, torch.device("cpu")).padded(rows)


def scores_in_reading(model, batch, state=None):
    """Scores of the spans that are attended to while a batch is read, (T, B, m), and the state after it."""
    seen = {}
    hook = model.backbone.attention.register_forward_hook(lambda module, inputs, outputs: seen.update(spans=outputs[2]))
    after = model.read(batch, state).state
    hook.remove()
    return padded(seen["spans"].scores, batch), after


def normalised(scores):
    """Log-probabilities among the spans of words that end at one word: step t, length k is of tokens t - k to t - 1."""
    found = torch.full_like(scores, -torch.inf)
    for step, of_step in enumerate(scores):
        words = min(step - 1, scores.shape[2])  # token 0 is BOS
        if words > 0:
            found[step, :, :words] = torch.log_softmax(of_step[:, :words], dim=-1)
    return found


@pytest.mark.parametrize("form", ["released", "paper"])
def test_the_attended_mean_is_mixed_into_the_state_by_a_gate_with_dropout_of_all_but_the_state(form, monkeypatch):
    """Equation (6), written out for each form, with masks that double or treble what they are applied to."""
    monkeypatch.setattr(palm, "locked_dropout", lambda values, rate, rows, training: 2 * values)
    monkeypatch.setattr(palm, "dropout_mask", lambda shape, rate, like: like.new_full(shape, 3.0))
    torch.manual_seed(2)
    layer = SpanAttention(8, 4, 5, 3, form, dropout=0.5).double().train()
    rows = Rows(8, 3, BATCH.lengths, torch.device("cpu"))
    states = torch.randn(15, 8, dtype=torch.float64)
    mixed, carried, spans = layer(states, rows, None)
    masked = layer.spans(2 * states, rows, None, 3, torch.full((3, 4), 3.0, dtype=torch.float64))
    torch.testing.assert_close(spans.context, masked.context)
    torch.testing.assert_close(carried[:, :1], padded(2 * states)[-3:, :1])
    for h, a, found in zip(states, 2 * spans.context, mixed, strict=True):
        both = torch.cat([2 * h, a])
        gate = torch.sigmoid(layer.gate.weight @ both + layer.gate.bias)
        mixture = 2 * torch.tanh(layer.mixture.weight @ (both if form == "paper" else a) + layer.mixture.bias)
        expected = gate * h + (1 - gate) * mixture if form == "released" else gate * mixture + (1 - gate) * h
        torch.testing.assert_close(found, expected)


def test_initial_weights_are_those_of_the_released_program():
    """Orthogonal gates of the LSTM layers, Xavier's limits for the rest, biases 0."""
    torch.manual_seed(3)
    model = build_model(PaLMConfig(embedding_size=60, layer_sizes=(80, 80, 60), span_size=40, scorer_size=30), 200)
    attention = model.backbone.attention
    for layer in (*model.backbone.below.layers, *model.backbone.above.layers):
        for gate in (*layer.input_weight.chunk(4), *layer.recurrent_weight.chunk(4)):
            products = gate @ gate.T if len(gate) <= gate.shape[1] else gate.T @ gate
            torch.testing.assert_close(products, torch.eye(len(products)), rtol=0, atol=1e-5)
    limits = {
        "update and forget gate": (attention.input_weight[:80], 5 / 3 * (6 / (80 + 20)) ** 0.5),
        "gate of the attending token": (attention.input_weight[80:120], (6 / (80 + 20)) ** 0.5),
        "attending token's side of the scorer": (attention.input_weight[120:], (6 / (120 + 30)) ** 0.5),
        "span's side of the scorer": (attention.span_weight, (6 / (120 + 30)) ** 0.5),
        "scorer": (attention.score_weight, (6 / 31) ** 0.5),
        "gate of the mixture": (attention.gate.weight, (6 / (120 + 80)) ** 0.5),
        "mixture": (attention.mixture.weight, (6 / (40 + 80)) ** 0.5),
        "embedding": (model.embedding.weight, 0.1225),
    }
    for name, (weight, limit) in limits.items():
        largest = weight.abs().max().item()
        assert 0.85 * limit < largest <= limit, name
    biases = [weight for name, weight in model.named_parameters() if "bias" in name]
    assert len(biases) == 10
    assert not any(bias.any() for bias in biases)


def test_uniform_weights_of_the_lstm_are_those_of_awd_lstm():
    torch.manual_seed(3)
    model = build_model(PaLMConfig(embedding_size=60, layer_sizes=(80, 80, 60), initial_weights="uniform"), 200)
    for layer in (*model.backbone.below.layers, *model.backbone.above.layers):
        for weight in layer.parameters():
            assert 0.85 < weight.abs().max().item() * layer.size**0.5 <= 1


@pytest.mark.parametrize("scores", ["learned", "right-branching", "trees"])
@pytest.mark.parametrize("form", ["released", "paper"])
def test_fast_model_equals_reference_in_loss_penalties_and_every_gradient_under_dropout(form, scores):
    supervision = 0.5 if scores == "learned" else 0.0
    model = built(form=form, scores=scores, supervision=supervision, **dict.fromkeys(NONE, 0.4)).train()
    batch = dataclasses.replace(BATCH, spans=SPANS)
    check_against_reference(model, batch, penalties=2 + (scores == "learned"))


@pytest.mark.parametrize("rate", NONE)
def test_every_dropout_rate_has_an_effect_in_training_only(rate):
    check_dropout(built(**{rate: 0.5}), BATCH)


def test_ar_applies_to_the_decoder_input_and_tar_to_the_last_layer():
    model = built(dropout=0.5, ar=3.0, tar=5.0).train()
    seen = {}
    model.backbone.above.register_forward_hook(lambda module, inputs, read: seen.update(states=read[0][-1].hidden))
    output = model.read(BATCH)
    states = padded(seen["states"])
    changes = torch.cat([states[1:length, b] - states[: length - 1, b] for b, length in enumerate([8, 5, 2])])
    assert output.penalties["ar"].item() == pytest.approx(3 * output.hidden.square().mean().item())
    assert output.penalties["tar"].item() == pytest.approx(5 * changes.square().mean().item())


def test_supervision_is_the_cross_entropy_of_gold_spans_and_attention_over_all_tokens():
    """Equation (5), token by token. Constituents of a step share its gold attention equally."""
    model = built(supervision=0.01).train()
    output = model.read(dataclasses.replace(BATCH, spans=SPANS))
    attention = output.maps.earlier_tokens["span attention"]
    total = 0.0
    for column, length in enumerate([8, 5, 2]):
        for step in range(length):
            spans = {n for t, b, n in SPANS.tolist() if (t, b) == (step, column) and 2 <= n <= 3}
            total -= sum(log(attention[step, column, n - 1]) / len(spans) for n in spans)
    assert output.penalties["spans"].item() == pytest.approx(0.01 * total / 15, rel=1e-12)
    assert total > 1


def test_supervision_applies_only_in_training_with_gold_spans_and_a_weight():
    given = dataclasses.replace(BATCH, spans=SPANS)
    assert "spans" in built(supervision=0.01).train().loss(given).penalties
    assert "spans" not in built(supervision=0.01).train().loss(BATCH).penalties
    assert "spans" not in built().train().loss(given).penalties
    assert not built(supervision=0.01).eval().loss(given).penalties
    none = dataclasses.replace(BATCH, spans=SPANS[4:5])
    penalty = built(supervision=0.01).train().loss(none).penalties["spans"]
    assert penalty.item() == 0
    penalty.backward()


@pytest.mark.long
def test_supervision_alone_moves_attention_onto_gold_spans():
    model = built(supervision=1.0).train()
    batch = dataclasses.replace(BATCH, spans=torch.tensor([[3, 0, 2], [4, 0, 3], [4, 1, 3]]))
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    losses = []
    for _ in range(60):
        loss = model.loss(batch).penalties["spans"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    attention = model.maps(batch).earlier_tokens["span attention"]
    assert attention[3, 0].argmax() == 1
    assert attention[4, 0].argmax() == attention[4, 1].argmax() == 2


def test_supervision_can_train_the_attention_first_and_the_language_model_after_it():
    """First no weight but those that score spans has a gradient, and then the loss is that of PaLM-U."""
    model = built(supervision=0.5, supervision_epochs=1.5, dropout=0.0).train()
    batch = dataclasses.replace(BATCH, spans=SPANS)
    both, alone = built(supervision=0.5).train().loss(batch), built().train().loss(BATCH)
    for epochs in (0.0, 1.49):
        model.set_epoch(epochs)
        loss = model.loss(batch)
        assert list(loss.penalties) == ["spans"]
        assert loss.penalties["spans"].item() == pytest.approx(both.penalties["spans"].item(), rel=1e-12)
        assert loss.total.item() == pytest.approx(both.total.item(), rel=1e-12)
        assert not loss.total.requires_grad
    loss.penalties["spans"].backward()
    learning = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert {"embedding.weight", "backbone.attention.score_weight"} <= learning
    assert not any(part in name for name in learning for part in (".above.", "decoder", "mixture", "attention.gate"))
    model.set_epoch(1.5)
    loss = model.loss(batch)
    assert set(loss.penalties) == {"ar", "tar"}
    assert loss.total.requires_grad
    assert loss.total.item() == pytest.approx(alone.total.item(), rel=1e-12)
    assert isinstance(model, AnnealsLoss)
    assert not isinstance(built(supervision=0.5), AnnealsLoss)


def test_left_branching_attends_most_to_the_shortest_span_and_parses_so():
    model = built(scores="left-branching").eval()
    attention = model.maps(BATCH).earlier_tokens["span attention"]
    lengths = torch.tensor([-0.1, -0.2, -0.3], dtype=torch.float64)
    torch.testing.assert_close(attention[BATCH.mask()], torch.softmax(lengths, 0).expand(15, 3))
    whole = TokenBatch(TOKENS, TOKENS, lengths=torch.tensor([9, 6, 3]))  # 7, 4 and 1 words between BOS and EOS
    words = np.array([7, 4, 1])
    scores = CorpusSpanScores(words)
    scores.add(model.structure(whole), words, np.arange(3))
    trees = scores.decode("greedy-right")
    assert trees.starts.tolist() == [0] * 9
    assert sorted(trees.ends[trees.sentences() == 0]) == [2, 3, 4, 5, 6, 7]


def test_right_branching_attends_most_to_the_longest_span_whatever_the_words():
    model = built(scores="right-branching").eval()
    lengths = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    attention = model.maps(BATCH).earlier_tokens["span attention"]
    torch.testing.assert_close(attention[BATCH.mask()], torch.softmax(lengths, 0).expand(15, 3))
    scores, _ = scores_in_reading(model, BATCH)
    torch.testing.assert_close(scores[BATCH.mask()], lengths.expand(15, 3))
    scores, _ = scores_in_reading(built(scores="right-branching", form="paper").eval(), BATCH)
    torch.testing.assert_close(scores[BATCH.mask()], 10 * lengths.expand(15, 3))
    lengths = torch.arange(1.0, 8.0).double().expand(8, 3, -1)
    torch.testing.assert_close(model.structure(BATCH).values, normalised(0.1 * lengths), rtol=0, atol=1e-12)
    assert not any("score" in name for name in model.state_dict())


def test_trees_divide_the_attention_equally_among_constituents():
    """Before a step without constituents of up to three tokens, it is on the token before."""
    model = built(scores="trees").eval()
    attention = model.maps(dataclasses.replace(BATCH, spans=SPANS)).earlier_tokens["span attention"]
    expected = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).repeat(8, 3, 1)
    expected[3, 0] = torch.tensor([0.0, 1.0, 0.0])
    expected[4, 0] = torch.tensor([0.0, 0.5, 0.5])
    expected[4, 1] = torch.tensor([0.0, 0.0, 1.0])
    torch.testing.assert_close(attention[BATCH.mask()], expected[BATCH.mask()])
    assert not any("score" in name for name in model.state_dict())


def test_a_model_of_given_trees_does_not_parse_and_needs_trees():
    model = built(scores="trees").eval()
    assert not isinstance(model, ParsesSentences)
    with pytest.raises(InputError, match=r"found text without trees; expected both, .*\(model\.scores: trees\)"):
        model.token_log_probs(BATCH)


def test_spans_of_any_length_are_scored_when_a_sentence_is_parsed():
    """Like by a model that attends to spans of that length, normalised among the spans that end at the same word."""
    short, long = built(maximum_span=2).eval(), built(maximum_span=7).eval()
    long.load_state_dict(short.state_dict())
    found, (expected, _) = short.structure(BATCH).values, scores_in_reading(long, BATCH)
    assert found.shape == expected.shape == (8, 3, 7)
    real = BATCH.mask()
    torch.testing.assert_close(found[real], normalised(expected)[real], rtol=0, atol=1e-12)
    assert short.structure(TokenBatch(TOKENS[:1], TOKENS[1:2])).values.shape == (1, 3, 1)


def test_the_state_carries_the_tokens_of_spans_across_several_short_chunks():
    model = built(maximum_span=5).eval()
    expected, _ = scores_in_reading(model, TokenBatch(TOKENS, TOKENS))
    state, found = None, []
    for start, end in ((0, 1), (1, 3), (3, 4), (4, 9)):
        chunk = TokenBatch(TOKENS[start:end], TOKENS[start:end], carries=start > 0)
        scores, state = scores_in_reading(model, chunk, state)
        assert state["carried.spans"].shape == (5, 3, 7)
        found.append(scores)
    torch.testing.assert_close(torch.cat(found), expected, rtol=0, atol=1e-12)


def test_forms_differ_and_so_does_the_place_of_the_attention():
    log_probs = {}
    for settings in ({}, {"form": "paper"}, {"attention_after": 1}, {"attention_after": 3}):
        model = built(**settings).eval()
        log_probs[str(settings)] = model.token_log_probs(BATCH).log_probs.sum().item()
        assert len(model.backbone.below.layers) + len(model.backbone.above.layers) == 3
    assert len(set(log_probs.values())) == 4


def test_contradictory_settings_are_reported_together():
    with pytest.raises(
        ValueError, match=r"^model\.layer_sizes: the last is 5; tied weights need embedding_size, 6"
    ) as caught:
        dataclasses.replace(
            SMALL, layer_sizes=(8, 5), span_size=5, attention_after=3, supervision=0.1, scores="right-branching"
        )
    assert "attention_after: found 3; expected at most 2, the LSTM layers" in str(caught.value)
    assert "span_size: found 5; expected an even number" in str(caught.value)
    assert "supervision: found 0.1; expected 0, or model.scores learned" in str(caught.value)
    with pytest.raises(ValueError, match=r"supervision_epochs: found 2; expected 0, or model\.supervision above 0"):
        dataclasses.replace(SMALL, supervision_epochs=2)


def test_the_published_sizes_add_3_million_parameters_to_awd_lstm():
    sizes = {"embedding_size": 400, "layer_sizes": (1020, 1020, 400)}
    with torch.device("meta"):
        model = build_model(PaLMConfig(**sizes, span_size=400, scorer_size=100), 10_000)
    counts = {
        name: sum(weight.numel() for weight in part.parameters()) for name, part in model.backbone.named_children()
    }
    lstm = sum(4 * after * (before + after + 2) for before, after in ((400, 1020), (1020, 1020), (1020, 400)))
    assert counts["below"] + counts["above"] == lstm
    spans = 1020 * (3 * 400 + 100) + 2 * 400 + 100 + 100 * 400 + 100
    mixing = 1020 * (1020 + 400 + 1) + 1020 * (400 + 1)
    assert counts["attention"] == spans + mixing
    assert np.isclose(counts["attention"], 3.2e6, rtol=0.02)
