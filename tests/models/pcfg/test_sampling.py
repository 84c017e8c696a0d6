"""Sampling sentences with their trees from a grammar: frequencies and limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.pcfg.derivations import Sampler
from syntaxlm.ops.inside import FactoredRules, TableRules, log_partition_reference
from tests.models.pcfg.small import BOS, EOS, EVERY, small_model


def ending_rules(kind: str) -> FactoredRules | TableRules:
    """Random rules of three nonterminals and four preterminals, most of whose children are preterminals."""
    generator = torch.Generator().manual_seed(0)

    def shares(*shape: int) -> torch.Tensor:
        values = torch.rand(*shape, dtype=torch.float64, generator=generator)
        if shape[-1] == 7:
            values[..., 3:] *= 8
        return values / values.sum(-1, keepdim=True)

    if kind == "table":
        return TableRules(shares(3), shares(3, 7)[:, :, None] * shares(3, 7)[:, None])
    rank = 5 if kind == "rank" else 3
    return FactoredRules(shares(3), shares(rank, 7), shares(rank, 7), shares(3, rank) if kind == "rank" else None)


@pytest.mark.parametrize("kind", ["independent", "rank", "table"])
def test_samples_follow_the_rules(kind):
    rules, generator = ending_rules(kind), np.random.default_rng(0)
    torch.manual_seed(0)
    emissions = torch.log_softmax(torch.randn(5, 4, dtype=torch.float64), 0)
    sampler = Sampler(rules, emissions)
    drawn = [sampler.draw(2, generator) for _ in range(4000)]
    found = [sample.words for sample in drawn if sample is not None]
    pairs = [(one, other) for one in range(5) for other in range(5)]
    expected = np.array([float(log_partition_reference(rules, emissions[list(pair)]).exp()) for pair in pairs])
    expected *= len(drawn)
    counts = np.array([found.count(pair) for pair in pairs])
    assert len(found) == pytest.approx(expected.sum(), abs=4 * expected.sum() ** 0.5)
    assert ((counts - expected) ** 2 / expected.clip(min=1)).sum() < 2 * len(pairs)


def test_one_word_sentences_are_sampled_with_their_probability():
    model = small_model("neural")
    drawn = model.sample(300, 40, np.random.default_rng(0))
    assert all(1 <= len(sample.words) <= 40 for sample in drawn)
    alone = sum(len(sample.words) == 1 for sample in drawn)
    share = float(model.one_word_share)
    assert alone == pytest.approx(300 * share, abs=4 * (300 * share) ** 0.5)


def test_one_word_sentences_are_sampled_from_the_unigrams_of_the_training_text():
    model = small_model("simple")
    model.one_word_share.fill_(1)
    words = [sample.words for sample in model.sample(1000, 1, np.random.default_rng(0))]
    ids = [0, *range(3, model.vocabulary_size)]
    counts = np.array([words.count((one,)) for one in ids])
    expected = 1000 * model.unigrams.exp().numpy()
    assert counts.sum() == 1000
    assert ((counts - expected) ** 2 / expected).sum() < 2 * len(ids)


@pytest.mark.parametrize("name", EVERY)
def test_samples_are_words_of_the_vocabulary_with_binary_trees_within_the_limit(name):
    model = small_model(name, seed=1)
    for sample in model.sample(20, 6, np.random.default_rng(0)):
        length = len(sample.words)
        assert 1 <= length <= 6
        assert set(sample.words) <= set(range(model.vocabulary_size)) - {BOS, EOS}
        spans = [(first, last) for first, last, _ in sample.spans]
        assert len(set(spans)) == len(spans) == length - 1
        assert all(0 <= first < last < length for first, last in spans)
        assert length == 1 or spans[0] == (0, length - 1), "a span comes before its parts"
        crossing = [(one, other) for one in spans for other in spans if one[0] < other[0] <= one[1] < other[1]]
        assert not crossing
        assert all(0 <= symbol < model.grammar.nonterminal_count for _, _, symbol in sample.spans)


def test_the_same_generator_samples_the_same_sentences():
    model = small_model("tensor")
    one, other, another = (model.sample(5, 20, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert one == other != another


def test_a_limit_below_all_sentences_raises_an_error():
    model = small_model("simple")
    model.one_word_share.fill_(0)
    with pytest.raises(InputError, match="none of 1,000 sampled sentences has at most 1 word; allow longer sentences"):
        model.sample(1, 1, np.random.default_rng(0))
