"""Sampled trees: probabilities equal those of scoring, limits, and excluded words."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from syntaxlm.batches import TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.generation import trees as tree_generation
from syntaxlm.generation.options import TreeSamplingOptions
from syntaxlm.generation.stops import StopBatches
from syntaxlm.generation.trees import GeneratedTree, generate_trees
from syntaxlm.scoring.engine import Scorer
from tests.fresh_models import fresh
from tests.generation.growing_models import grown
from tests.models.tree_variants import LABELS, VOCABULARY, every_variant
from tests.trees.faults import dependency_faults


def depth_of(tree, word: int) -> int:
    heads = 1
    while tree.heads[word - 1]:
        word, heads = tree.heads[word - 1], heads + 1
    return heads


def read(stored, stops, one: GeneratedTree) -> tuple[list[float], float]:
    """Bits of each word and of the tree, by scoring the whole tree."""
    corpus = DependencyCorpus.from_trees([one.tree], stored.normaliser, stored.vocabulary, stored.labels)
    words = (-Scorer.of(stored).trees(corpus) / math.log(2)).tolist()
    (some,) = StopBatches(stored.model, TreeBatches(corpus, 1000, shuffle=False, seed=0)).iterate()
    logits = stops(some.hidden, some.inputs)
    nats = torch.nn.functional.binary_cross_entropy_with_logits(logits, some.leaving.double(), reduction="none")
    total = float((nats * some.possible).sum().detach())
    if stops.label_network is not None:
        labels = stops.label_logits(some.hidden, some.embedded)
        total += float(torch.nn.functional.cross_entropy(labels, some.labels, reduction="sum").detach())
    return words, total / math.log(2)


@every_variant
def test_probabilities_are_those_of_reading_the_tree(name, monkeypatch):
    monkeypatch.setattr(tree_generation, "SAMPLED_TOGETHER", 5)
    monkeypatch.setattr(tree_generation, "ROWS_TOGETHER", 3)
    stored, stops = grown(name)
    trees = list(
        generate_trees(stored, stops, 12, TreeSamplingOptions(seed=3, max_words=12, temperature=1.3, keep_unknown=True))
    )
    assert [one.number for one in trees] == [int(one.tree.name) for one in trees] == list(range(1, 13))
    assert len({one.text for one in trees}) > 6
    assert max(len(one.tree) for one in trees) > 4
    for one in trees:
        assert dependency_faults(one.tree) == []
        assert any(one.tree.labels) == stored.model.reads_labels
        words, total = read(stored, stops, one)
        assert one.surprisals == pytest.approx(words, abs=1e-9)
        assert one.tree_surprisal == pytest.approx(total, abs=1e-9)


def test_a_tree_depends_only_on_the_seed_and_its_number(monkeypatch):
    stored, stops = grown("labelled")
    few = [one.tree for one in generate_trees(stored, stops, 3, TreeSamplingOptions(seed=1, max_words=20))]
    monkeypatch.setattr(tree_generation, "SAMPLED_TOGETHER", 2)
    assert [one.tree for one in generate_trees(stored, stops, 5, TreeSamplingOptions(seed=1, max_words=20))][:3] == few
    assert [one.tree for one in generate_trees(stored, stops, 3, TreeSamplingOptions(seed=2, max_words=20))] != few


@pytest.mark.parametrize("name", ["tanh", "left dependents, lstm"])
@pytest.mark.parametrize(("most", "depth"), [(1, None), (9, None), (None, 3), (25, 2)])
def test_trees_that_would_never_end_are_cut_at_the_limits_and_marked(name, most, depth):
    stored, stops = grown(name, bias=3.0)
    for one in generate_trees(stored, stops, 6, TreeSamplingOptions(max_words=most, max_depth=depth)):
        assert len(one.tree) <= (most or 100)
        assert max(depth_of(one.tree, word) for word in range(1, len(one.tree) + 1)) <= (depth or 30)
        assert one.cut
        assert not one.to_dict()["ended"]
        limits = {f"at {most or 100} words", f"at a depth of {depth or 30}"}
        assert set(one.comments()["cut"].split("; ")) <= limits
    assert len(one.tree) == most or depth


def test_redrawn_trees_end_by_themselves_and_other_trees_are_unchanged():
    stored, stops = grown("tanh", bias=-0.2)
    cut = list(generate_trees(stored, stops, 30, TreeSamplingOptions(max_words=6)))
    whole = list(generate_trees(stored, stops, 30, TreeSamplingOptions(max_words=6, redraw=True)))
    assert any(one.cut for one in cut)
    assert not any(one.cut for one in whole)
    for one, other in zip(cut, whole, strict=True):
        assert one.cut or one == other
        assert "cut" not in other.comments()


def test_resampling_terminates():
    stored, stops = grown("tanh", bias=30.0)
    with pytest.raises(InputError, match="tree 1: none of 100 ended within 4 words and a depth of 30"):
        list(generate_trees(stored, stops, 2, TreeSamplingOptions(max_words=4, redraw=True)))


def test_root_symbols_and_unknown_words_are_not_sampled():
    stored, stops = grown("labelled")
    with torch.no_grad():
        for decoder in stored.model.decoder.decoders:
            decoder.bias[:2] = 4.0
        stops.label_network[2].bias[:2] = 4.0

    def drawn(**settings) -> tuple[set[str], set[str]]:
        trees = [one.tree for one in generate_trees(stored, stops, 40, TreeSamplingOptions(max_words=8, **settings))]
        return {word for tree in trees for word in tree.words}, {label for tree in trees for label in tree.labels}

    special = {VOCABULARY.unknown, VOCABULARY.begin}
    words, labels = drawn()
    assert not special & words
    assert labels <= set(LABELS.tokens) - {LABELS.unknown, LABELS.begin}
    assert drawn(keep_unknown=True)[0] & special == {VOCABULARY.unknown}


def test_roots_are_sampled_with_their_probabilities():
    stored, stops = grown("tanh", bias=-1e6)
    counts = Counter(one.text for one in generate_trees(stored, stops, 2000, TreeSamplingOptions(keep_unknown=True)))
    model = stored.model
    corpus = DependencyCorpus.from_trees(
        [one.tree for one in generate_trees(stored, stops, 200, TreeSamplingOptions(keep_unknown=True))],
        stored.normaliser, VOCABULARY, LABELS,
    )  # fmt: skip
    probabilities = dict(zip(corpus.text.ids.tolist(), np.exp(Scorer.of(stored).trees(corpus)).tolist(), strict=True))
    allowed = 1 - math.exp(root_log_probs(model)[VOCABULARY.begin_id])
    for word, probability in probabilities.items():
        expected = probability / allowed
        error = math.sqrt(expected * (1 - expected) / 2000)
        assert counts[VOCABULARY.tokens[word]] / 2000 == pytest.approx(expected, abs=4.5 * error)


def root_log_probs(model) -> list[float]:
    """Log-probability of every word as the root."""
    levels = tree_generation.Levels.of(torch.zeros(1, dtype=torch.int64), ((0, 1, 0, 0),))
    ids = torch.tensor([VOCABULARY.begin_id]), torch.tensor([LABELS.begin_id])
    with torch.no_grad():
        return model.all_log_probs(model.follow(model.inputs(*ids), levels, model.root_states()).hidden, levels)[
            0
        ].tolist()


def test_at_temperature_0_all_trees_are_the_most_probable_one():
    stored, stops = grown("labelled")
    trees = list(generate_trees(stored, stops, 3, TreeSamplingOptions(temperature=0, max_words=15)))
    assert len({one.text for one in trees}) == 1
    values = root_log_probs(stored.model)
    values[VOCABULARY.begin_id] = values[VOCABULARY.unknown_id] = -math.inf
    root = trees[0].tree.words[trees[0].tree.heads.index(0)]
    assert VOCABULARY.id(root) == int(np.argmax(values))


def test_top_k_applies_to_words_only():
    stored, stops = grown("labelled", bias=-1e6)
    trees = [one.tree for one in generate_trees(stored, stops, 60, TreeSamplingOptions(top_k=2))]
    assert len({tree.words for tree in trees}) == 2
    assert len({tree.labels for tree in trees}) > 2


def test_a_count_of_0_raises_an_error_before_sampling():
    with pytest.raises(InputError, match="count: found 0"):
        generate_trees(*grown("tanh"), 0)


def test_a_model_that_reads_text_raises_an_error():
    with pytest.raises(InputError, match="this lstm model does not generate dependency trees, so generation"):
        generate_trees(fresh("lstm"), grown("tanh")[1])
