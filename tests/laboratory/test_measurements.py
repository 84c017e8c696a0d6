"""Programs of the laboratory that measure trees and models."""

from __future__ import annotations

import math

import pytest
import torch
from laboratory.measurements.belief_updates import (
    EXCHANGED_TOGETHER,
    exchanged_words,
    measures_of,
    random_tree_rules,
    right_branching,
)
from laboratory.measurements.dependency_range import dependency_range
from laboratory.measurements.marked_constituents import recalls
from laboratory.measurements.tree_rnn_parameters import parameters

from syntaxlm.data.treebanks import read_treebank
from syntaxlm.ops.inside import FactoredRules
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import DependencyTree, read_brackets


def test_the_range_of_dependencies_is_the_longest_path_of_a_tree_beside_the_words_of_its_sentence():
    chain, flat = (2, 3, 4, 0), (0, 1, 1)
    steps = dependency_range([chain, flat])
    assert (steps.sentences, steps.words) == (2, 7)
    assert (steps.longest_in_sentence, steps.longest_in_tree) == ((4 + 3) / 2, (4 + 3) / 2)
    assert (steps.in_sentence, steps.in_tree) == ((1 + 2 + 3 + 4 + 1 + 2 + 3) / 7, (4 + 3 + 2 + 1 + 1 + 2 + 3) / 7)
    assert dependency_range([(3, 3, 0, 3, 3)]).longest_in_tree == 3


def test_parameters_are_those_of_the_published_formula_and_the_biases_of_the_softmaxes():
    words, size, embedding = 10_000, 100, 50
    counted = parameters(words, size)
    assert counted.tree_rnn == words * embedding + 4 * (size * embedding + size**2 + words * size + words)
    assert counted.ratio == pytest.approx(2.26, abs=0.01)


def test_automatic_trees_have_the_words_of_the_treebank_and_the_heads_of_the_parser():
    spacy = pytest.importorskip("spacy")
    from laboratory.measurements.automatic_trees import parsed

    @spacy.Language.component("each-word-depends-on-the-next")
    def chain(document):
        last = len(document) - 1
        for token in document:
            token.head, token.dep_, token.tag_ = document[min(token.i + 1, last)], "dep", "NN"
        document[last].dep_ = "ROOT"
        return document

    pipeline = spacy.blank("en")
    pipeline.add_pipe("each-word-depends-on-the-next")
    gold = DependencyTree(("do", "n't", "stop."), ("", "", ""), (3, 3, 0), ("aux", "advmod", "root"), "first")
    (tree,) = parsed([gold], pipeline)
    assert tree == DependencyTree(gold.words, ("NN",) * 3, (2, 3, 0), ("dep", "dep", "ROOT"), "first")


def test_a_right_branching_grammar_only_learns_that_the_sentence_did_not_end():
    continues = 0.7  # probability that a right child branches: the sentence ends at a word t > 1 with 1 - continues
    children = torch.tensor([[continues, 1 - continues]])
    rules = right_branching(FactoredRules(torch.ones(1), torch.tensor([[0.2, 0.8]]), children))
    assert rules.left.tolist() == [[0, 1]]
    (measured,) = measures_of((rules, torch.zeros(5, 1)), [[0, 1, 2, 3, 4]])
    bits = -math.log2(continues)  # of every constituent that would have ended at the word before
    assert measured["belief_update"].tolist() == pytest.approx([0, 0, bits, 2 * bits, 3 * bits], abs=1e-6)


def test_updates_of_random_trees_depend_on_the_position_only():
    grammar = random_tree_rules(), torch.zeros(9, 1)
    first, second, longer = measures_of(grammar, [[0, 1, 2, 3], [5, 5, 6, 8], [0, 1, 2, 3, 4, 5]])
    assert first["belief_update"].tolist() == second["belief_update"].tolist()
    assert first["belief_update"].tolist() == pytest.approx(longer["belief_update"][:4].tolist())
    assert first["belief_update"][3] > 0


def test_words_are_exchanged_with_words_of_like_frequency_and_the_unknown_word_stays():
    unigrams = -torch.arange(3 * EXCHANGED_TOGETHER + 1.0)
    exchanged = exchanged_words(unigrams, seed=1)
    assert exchanged[0] == 0
    assert sorted(exchanged.tolist()) == list(range(len(unigrams)))
    assert int((exchanged - torch.arange(len(unigrams))).abs().max()) < EXCHANGED_TOGETHER


def test_clauses_before_commas_and_lists_are_found_by_the_commas_of_the_gold_trees(tmp_path):
    gold, predicted = tmp_path / "gold.mrg", tmp_path / "predicted.mrg"
    gold.write_text(
        "(S (SBAR-ADV (IN if) (S (NP (PRP it)) (VP (VBZ rains)))) (, ,) (NP (PRP we)) (VP (VBP stay) (RB here)))\n"
        "(S (NP (NP (JJ old) (NNS dogs)) (, ,) (NP (NNS cats)) (CC and) (NP (DT the) (NNS mice))) (VP (VBP run)))\n"
        "(S (NP (NNS dogs) (CC and) (NNS cats)) (, ,) (ADVP (RB then)) (VP (VBP run)))\n"
    )
    predicted.write_text(
        "((if (it rains)) (we (stay here)))\n"
        "((old (dogs (cats (and (the mice))))) run)\n"
        "(dogs (and (cats (then run))))\n"
    )
    trees = SpanSets.of(read_brackets(predicted))
    assert recalls(read_treebank(gold, "ptb-keep"), {"mbr": trees}) == {
        "clauses before a comma": 2,  # if it rains, and the clause in it
        "clauses before a comma, mbr": 1.0,
        "lists": 1,
        "lists, mbr": 1.0,
        "parts of lists": 2,
        "parts of lists, mbr": 0.5,
    }
