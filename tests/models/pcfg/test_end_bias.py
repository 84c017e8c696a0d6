"""The end bias: its log-weights, its effect on the loss, and its decay to 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.models.pcfg.grammars import Sentences
from syntaxlm.models.pcfg.sentence_pcfg import EDGE_PSEUDO_COUNT, edge_scores
from syntaxlm.ops.inside import log_partition_reference
from tests.models.pcfg.small import EVERY, SORTED, WORDS, batch_of, counts_of, small_model

# Words 1 and 2 end sentences; 0 and 3 occur in longer sentences only, 4 only alone.
WORD_COUNTS = torch.tensor([30, 50, 40, 80, 0])
FINAL_COUNTS = torch.tensor([1, 30, 15, 0, 0])


def test_scores_are_the_log_ratios_of_the_ends_of_sentences_and_never_positive():
    found = edge_scores(WORD_COUNTS, FINAL_COUNTS)
    rate = 46 / 200
    expected = [np.log((ends + 10 * rate) / (count + 10) / rate) for count, ends in ((30, 1), (80, 0))]
    assert EDGE_PSEUDO_COUNT == 10
    assert found.dtype == torch.float64
    assert found[[0, 3]].tolist() == pytest.approx(expected)
    assert found[[1, 2, 4]].tolist() == [0, 0, 0], "words that end sentences as often as any, and words never seen"


def test_a_text_without_rare_ends_has_no_bias():
    counts = torch.full((4,), 12)
    assert not edge_scores(counts, counts // 3).any()


def test_a_model_takes_its_scores_from_the_training_text():
    model = small_model("simple", end_bias=1.0)
    text = [[0, 1, 2], [0, 3, 2], [0, 1, 3], [1]]
    model.setup(counts_of(text))
    expected = edge_scores(torch.tensor([3, 2, 2, 2, 0, 0, 0]), torch.tensor([0, 0, 2, 1, 0, 0, 0]))
    torch.testing.assert_close(model.end_scores, expected)
    assert expected[0] < expected[1] < 0
    starts = edge_scores(torch.tensor([3, 2, 2, 2, 0, 0, 0]), torch.tensor([3, 0, 0, 0, 0, 0, 0]))
    torch.testing.assert_close(model.start_scores, starts)
    assert starts[0] == 0 > starts[1]
    assert not {"end_scores", "start_scores"} & set(model.state_dict()), "they are of no use after training"


def weighted_loss(model, weight: float, start_weight: float = 0.0) -> float:
    """The reference: negative log-likelihood of derivations with weighted spans."""
    tables = model.grammar.tables(Sentences.of(SORTED))
    total = 0.0
    for sentence, own in zip(SORTED, tables.words.split(list(map(len, SORTED))), strict=True):
        if len(sentence) == 1:
            continue
        weights = weight * model.end_scores[sentence].repeat(len(sentence), 1)  # of a span, by its last word
        weights[:, -1] = 0
        of_first = start_weight * model.start_scores[sentence]  # and by its first word
        of_first[0] = 0
        weights = weights + of_first[:, None]
        found = log_partition_reference(tables.rules, tables.emissions[own], weights)
        total -= float((found + torch.log1p(-model.one_word_share)).detach())
    return total + alone_loss(model)


def alone_loss(model) -> float:
    words = torch.tensor([sentence[0] for sentence in SORTED if len(sentence) == 1])
    return -float((model.unigrams[words] + model.one_word_share.log()).sum())


@pytest.mark.parametrize("name", ["simple", "tensor", "neural"])
def test_the_training_loss_weights_derivations_until_the_bias_is_0(name):
    model, batch = small_model(name, end_bias=1.5, end_bias_epochs=2.0), batch_of(SORTED)
    assert weighted_loss(model, 1.5) > weighted_loss(model, 0) + 0.1
    model.train()
    for epochs, weight in ((0.0, 1.5), (0.5, 1.125), (1.0, 0.75), (2.0, 0.0), (7.5, 0.0)):
        model.set_epoch(epochs)
        assert float(model.loss(batch).total.detach()) == pytest.approx(weighted_loss(model, weight), abs=1e-9)


def test_the_start_bias_is_the_mirror_image():
    model, batch = small_model("simple", end_bias=0.5, start_bias=1.5), batch_of(SORTED)
    assert weighted_loss(model, 0.5, 1.5) > weighted_loss(model, 0.5) + 0.1
    assert float(model.train().loss(batch).total.detach()) == pytest.approx(weighted_loss(model, 0.5, 1.5), abs=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_evaluation_and_scores_ignore_the_bias(name):
    biased, plain, batch = small_model(name, end_bias=2.0), small_model(name), batch_of(SORTED)
    biased.set_epoch(0.0)
    with torch.no_grad():
        assert float(biased.loss(batch).total) == float(plain.loss(batch).total)
        assert torch.equal(biased.sentence_log_probs(batch), plain.sentence_log_probs(batch))
        torch.manual_seed(0)
        one = float(biased.train().loss(batch).total)
        torch.manual_seed(0)
        assert one > float(plain.train().loss(batch).total)
        assert torch.equal(biased.sentence_log_probs(batch), plain.sentence_log_probs(batch)) == (name != "compound")


def test_the_bias_of_words_missing_from_the_text_is_0():
    model = small_model("simple", end_bias=1.0)
    model.setup(counts_of([[1, 2], [1, 2], [2]]))
    assert model.end_scores[[0, *range(3, WORDS)]].tolist() == [0] * (WORDS - 2)
