"""Top-down sampling from grammars: trees, limits, unknown words, and frequencies."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.generation.options import SamplingOptions
from syntaxlm.generation.sentences import generate, sample_with_trees
from syntaxlm.models.batches import TokenBatch
from syntaxlm.trees.tree import parse_brackets
from tests.fresh_models import fresh
from tests.grammar_models import WORDS, every_grammar, grammar


@every_grammar
def test_every_tree_is_binary_over_its_tokens_with_labels_of_the_grammar(name):
    stored = grammar(name)
    count, labels = stored.model.nonterminal_count, stored.model.labels
    sentences = list(sample_with_trees(stored, 40, SamplingOptions(seed=3, max_words=12)))
    assert [one.number for one in sentences] == list(range(1, 41))
    assert {len(one.tokens) == 1 for one in sentences} == {True, False}
    for one in sentences:
        assert one.text.split() == one.tokens == list(one.tree.words)
        assert 1 <= len(one.tokens) <= 12
        if len(one.tokens) == 1:
            assert one.tree.tags == ("",)
            continue
        (read,) = parse_brackets(str(one.tree))
        assert read == one.tree
        assert len(one.tree.constituents) == len(one.tokens) - 1
        assert one.tree.constituents[0][1:] == (0, len(one.tokens))
        assert {part.label for part in one.tree.constituents} <= set(labels[:count])
        assert set(one.tree.tags) <= set(labels[count:])


def test_a_dictionary_has_spans_labels_and_the_labels_of_words():
    one = next(
        one for one in sample_with_trees(grammar("neural-pcfg"), 20, SamplingOptions(seed=1)) if len(one.tokens) > 2
    )
    found = one.to_dict()
    assert found["spans"] == [[part.start, part.end] for part in one.tree.constituents]
    assert found["labels"] == [part.label for part in one.tree.constituents]
    assert found["word_labels"] == list(one.tree.tags)


@every_grammar
def test_a_sentence_depends_only_on_the_seed_and_its_number(name):
    stored = grammar(name)
    few = list(sample_with_trees(stored, 3, SamplingOptions(seed=1)))
    assert list(sample_with_trees(stored, 6, SamplingOptions(seed=1)))[:3] == few
    assert list(sample_with_trees(stored, 3, SamplingOptions(seed=2))) != few


@every_grammar
@pytest.mark.parametrize("share", [0.0, 1.0], ids=["longer", "one-word"])
def test_unknown_words_are_sampled_only_if_kept_and_the_tree_is_unchanged(name, share):
    stored = grammar(name, share, sharpness=0.5)
    stored.model.unigrams[0] = 0.0
    kept = list(sample_with_trees(stored, 40, SamplingOptions(keep_unknown=True)))
    assert any("<unk>" in one.tokens for one in kept)
    assert not any("<unk>" in one.tokens for one in sample_with_trees(stored, 40))


@pytest.mark.parametrize("name", ["simple-pcfg", "holographic-pcfg", "tensor-pcfg", "neural-pcfg"])
def test_sentences_are_sampled_with_their_probabilities(name):
    stored = grammar(name, 0.2)
    drawn = Counter(
        sample.words for sample in stored.model.sample(1000, 100, np.random.default_rng(0)) if len(sample.words) <= 2
    )
    for words, times in drawn.most_common(6):
        tokens = torch.tensor([[1, *words]]).T
        batch = TokenBatch(tokens, tokens.roll(-1, 0), torch.tensor([len(words) + 1]))
        expected = float(stored.model.sentence_log_probs(batch).detach().exp())
        assert times / 1000 == pytest.approx(expected, abs=4 * (expected / 1000) ** 0.5)


def test_under_a_limit_sentences_have_their_probabilities_among_those_that_are_short_enough():
    """Those of one word, too, although they are not drawn from the rules of the grammar."""
    model, numbers = grammar("simple-pcfg", 0.1).model, [0, *range(3, 3 + len(WORDS))]
    totals = []
    for length in (1, 2):
        tokens = torch.tensor([(1, *words, 2) for words in product(numbers, repeat=length)]).T
        batch = TokenBatch(tokens[:-1], tokens[1:], torch.full(tokens.shape[1:], length + 1))
        totals.append(float(model.sentence_log_probs(batch).detach().exp().sum()))
    share = totals[0] / sum(totals)
    assert share > 0.15, "more than among all sentences"
    alone = sum(len(sample.words) == 1 for sample in model.sample(2000, 2, np.random.default_rng(0)))
    assert alone == pytest.approx(2000 * share, abs=4 * (2000 * share * (1 - share)) ** 0.5)
    assert all(len(sample.words) == 1 for sample in model.sample(20, 1, np.random.default_rng(0)))


def test_generate_samples_top_down_what_does_not_predict_the_next_word():
    stored = grammar("compound-pcfg")
    sentences = list(generate(stored, 5, options=SamplingOptions(seed=2)))
    assert [one.text for one in sentences] == [
        one.text for one in sample_with_trees(stored, 5, SamplingOptions(seed=2))
    ]
    assert all(one.ended and not one.surprisals for one in sentences)
    with pytest.raises(InputError, match=r"prompt, top_k: a compound-pcfg model does not predict the next token"):
        generate(stored, prompt="the", options=SamplingOptions(top_k=3))
    with pytest.raises(InputError, match="temperature: a compound-pcfg model"):
        generate(stored, options=SamplingOptions(temperature=0.5))


@pytest.mark.parametrize("name", ["simple-pcfg", "neural-pcfg"])
def test_word_by_word_surprisals_add_up_to_the_probability_of_the_sentence(name):
    stored = grammar(name)
    for one in generate(stored, 4, "the", SamplingOptions(max_words=6, seed=1)):
        words = stored.vocabulary.encode(one.tokens)
        tokens = torch.tensor([[1, *words]]).T
        batch = TokenBatch(tokens, tokens.roll(-1, 0), torch.tensor([len(tokens)]))
        if one.ended:
            expected = -float(stored.model.sentence_log_probs(batch).detach()) / np.log(2)
            assert sum(one.surprisals) == pytest.approx(expected, abs=1e-6)


def test_the_error_for_a_model_without_a_grammar_lists_those_that_have_one():
    with pytest.raises(
        InputError,
        match=r"this lstm model does not sample whole sentences.*can: tree-transformer, simple-pcfg, holographic-",
    ):
        sample_with_trees(fresh("lstm"))


def test_a_count_of_0_raises_an_error_before_sampling():
    with pytest.raises(InputError, match="count: found 0"):
        sample_with_trees(grammar("simple-pcfg"), 0)


def test_a_limit_below_all_sampled_sentences_raises_an_error():
    with pytest.raises(InputError, match="none of 1,000 sampled sentences has at most 1 word"):
        list(sample_with_trees(grammar("simple-pcfg", 0.0), options=SamplingOptions(max_words=1)))
