"""Beliefs about a tree after each word: agreement with the golden file, between forms of rules, sum rules."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from syntaxlm.ops.inside import FactoredRules, Layout, TableRules, posteriors
from syntaxlm.ops.inside.incremental import (
    belief_updates,
    bernoulli_divergence,
    derivation_entropies,
    incremental_beliefs,
)
from tests.golden import INCREMENTAL_FILES
from tests.ops.test_inside import RULES, text, word_log_probs


def test_there_are_golden_files():
    assert INCREMENTAL_FILES


@pytest.mark.parametrize("path", INCREMENTAL_FILES, ids=lambda path: path.stem)
def test_equals_sums_over_all_continuations(path):
    arrays = {name: torch.from_numpy(np.array(value)) for name, value in np.load(path).items()}
    sentences = sorted(
        {name.split(".sentence.")[0] + ".sentence." + name.split(".")[3] for name in arrays if ".sentence." in name}
    )
    for name in sentences:
        grammar = name.split(".sentence.")[0]
        rules = FactoredRules(*(arrays[f"{grammar}.{part}"] for part in ("root", "left", "right")))
        emission = arrays[f"{grammar}.emission"]
        words = arrays[f"{name}.words"].long()[None]
        found = incremental_beliefs(rules, emission.T.log(), words)
        emission_entropies = -torch.special.xlogy(emission, emission).sum(1)
        entropies = derivation_entropies(rules, emission.T.log(), words, emission_entropies, found)
        lexical, structural = found.lexical_and_structural(emission.T.log()[words])
        length = words.shape[1]
        pairs = torch.ones(length, length).triu(1)
        values = {
            "prefix_log_probs": found.log_probs, "log_prob": found.sentence_log_probs, "open": found.open,
            "ended": found.ended, "depth": found.depth, "low": found.low, "tag": found.tags,
            "next_tag": found.expected_tags, "update.1": belief_updates(found.spans),
            "update.0.5": belief_updates(found.spans, 0.5),
            "lexical": lexical, "structural": structural, "entropy": entropies.prefixes,
            "entropy_of_parses": entropies.sentences,
        }  # fmt: skip
        for part, value in values.items():
            torch.testing.assert_close(value[0], arrays[f"{name}.{part}"], rtol=1e-10, atol=1e-11, msg=f"{name}.{part}")
        for read in range(1, length + 1):
            expected = arrays[f"{name}.belief.{read}"]
            torch.testing.assert_close(found.spans[0, read - 1, :read, :read], expected, rtol=0, atol=1e-12)
            assert not found.spans[0, read - 1, :, read:].any()
        torch.testing.assert_close(found.spans[0, -1] * pairs, arrays[f"{name}.marginals"] * pairs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in RULES if kind != "table"])
def test_factors_and_their_table_give_the_same_beliefs(kind):
    rules = RULES[kind]()
    table = TableRules(rules.root, rules.table())
    emissions, words = word_log_probs(8, 4), text([6, 6]).view(2, 6)
    for found, expected in zip(
        incremental_beliefs(rules, emissions, words), incremental_beliefs(table, emissions, words), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", RULES)
def test_after_the_end_beliefs_are_the_marginals_of_the_sentence(kind):
    rules, emissions, words = RULES[kind](), word_log_probs(8, 4), text([5, 5, 5]).view(3, 5)
    found = incremental_beliefs(rules, emissions, words)
    expected = posteriors(rules, emissions, words.flatten(), Layout([5] * 3)).marginals
    pairs = torch.ones(5, 5).triu(1)
    torch.testing.assert_close(found.spans[:, -1] * pairs, expected.double() * pairs, rtol=0, atol=1e-9)
    torch.testing.assert_close(
        found.spans[:, -1].sum((1, 2)), torch.full((3,), 4.0, dtype=torch.float64)
    )  # n - 1 binary nodes


@pytest.mark.parametrize("kind", RULES)
def test_lexical_and_structural_parts_are_not_negative_and_add_up_to_the_surprisal(kind):
    emissions, words = word_log_probs(8, 4), text([7, 7]).view(2, 7)
    found = incremental_beliefs(RULES[kind](), emissions, words)
    lexical, structural = found.lexical_and_structural(emissions[words])
    assert lexical.min() >= 0
    assert structural.min() >= 0
    surprisal = -torch.diff(found.log_probs, prepend=torch.zeros(2, 1)) / math.log(2)
    torch.testing.assert_close(lexical + structural, surprisal, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.tags.sum(-1), torch.ones(2, 7, dtype=torch.float64))


@pytest.mark.parametrize("branching", ["right", "left"])
def test_what_is_open_from_a_word_if_all_trees_branch_to_one_side(branching):
    """In a right-branching tree, one constituent begins at each word but the last, and none ends before the sentence.

    In a left-branching tree, all constituents begin at the first word, and the largest one is the sentence.
    """
    random = torch.Generator().manual_seed(1)
    words_only = torch.rand(3, 4, generator=random, dtype=torch.float64)
    both = torch.rand(3, 7, generator=random, dtype=torch.float64)
    sides = [torch.cat([torch.zeros(3, 3), words_only], 1), both]
    sides = [side / side.sum(1, keepdim=True) for side in (sides if branching == "right" else sides[::-1])]
    rules = FactoredRules(torch.full((3,), 1 / 3, dtype=torch.float64), *sides)
    found = incremental_beliefs(rules, word_log_probs(8, 4), text([5]).view(1, 5))
    if branching == "right":
        torch.testing.assert_close(found.open_from.sum(-1), found.open)
    else:
        goes_on = 1 - (found.sentence_log_probs - found.log_probs[:, -1]).exp()
        torch.testing.assert_close(found.open_from[:, -1, 0], goes_on)
        torch.testing.assert_close(found.open_from[..., 1:], torch.zeros(1, 5, 4).double(), rtol=0, atol=1e-15)


def test_prefixes_read_in_parts_equal_prefixes_read_together(monkeypatch):
    rules, emissions, words = RULES["simple"](), word_log_probs(8, 4), text([7, 7]).view(2, 7)
    expected = incremental_beliefs(rules, emissions, words)
    monkeypatch.setattr("syntaxlm.ops.inside.incremental.OUTSIDE_TOGETHER", 1)
    for found, together in zip(incremental_beliefs(rules, emissions, words), expected, strict=True):
        torch.testing.assert_close(found, together, rtol=0, atol=1e-13)


def test_threads_compute_entropies_at_the_same_time():
    rules, emissions, words = RULES["simple"](), word_log_probs(8, 4), text([9, 9]).view(2, 9)
    emission_entropies = torch.ones(4, dtype=torch.float64)
    read = rules, emissions, words, emission_entropies, incremental_beliefs(rules, emissions, words)
    expected = derivation_entropies(*read)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(derivation_entropies, *read) for _ in range(12)]
    for one in asked:
        torch.testing.assert_close(one.result(), expected, rtol=0, atol=0)


def test_sixty_words_do_not_underflow():
    rules, emissions, words = RULES["simple"](), word_log_probs(8, 4) - 20, text([60]).view(1, 60)
    found = incremental_beliefs(rules, emissions, words)
    assert found.log_probs[0, -1] < -1200
    torch.testing.assert_close(found.spans[0, -1].sum(), torch.tensor(59.0, dtype=torch.float64), rtol=1e-9, atol=0)
    torch.testing.assert_close(found.tags.sum(-1), torch.ones(1, 60, dtype=torch.float64))


def test_the_entropy_of_prefixes_is_infinite_if_derivations_need_not_end():
    symbols = torch.tensor([[0.6, 0.4]], dtype=torch.float64)  # 1.2 children that are nonterminals
    rules = FactoredRules(torch.ones(1, dtype=torch.float64), symbols, symbols)
    emissions, words = torch.zeros(1, 1), torch.zeros(1, 3, dtype=torch.int64)
    beliefs = incremental_beliefs(rules, emissions, words)
    found = derivation_entropies(rules, emissions, words, torch.zeros(1), beliefs)
    assert found.prefixes.isinf().all()
    assert found.sentences.item() == pytest.approx(math.log(2))  # two trees of three words, equally probable


def test_divergences_of_bernoulli_distributions():
    first, second = torch.tensor([0.3, 1.0, 0.0, 0.5]), torch.tensor([0.6, 1.0, 0.25, 0.0])
    kullback = 0.3 * math.log(0.3 / 0.6) + 0.7 * math.log(0.7 / 0.4)
    assert bernoulli_divergence(first, second).tolist() == pytest.approx([kullback, 0, -math.log(0.75), math.inf])
    half = -2 * math.log(math.sqrt(0.3 * 0.6) + math.sqrt(0.7 * 0.4))
    assert bernoulli_divergence(first, second, 0.5).tolist()[0] == pytest.approx(half, rel=1e-5)
