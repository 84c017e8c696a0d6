"""Corpora and batches of dependency trees: every word generated once, from the word and the state its edge leaves."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syntaxlm.batches import TreeBatches
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, count_dependencies, label_vocabulary
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.models.batches import TreeBatch
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees import DependencyTree, dependency_faults, steps_of

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
LOWER = Normaliser(lower_case=True)

CAT = DependencyTree(
    ("The", "cat", "sleeps", "."), ("DT", "NN", "VBZ", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct"), "cat"
)
GO = DependencyTree(("Go", "!"), ("VB", "."), (0, 1), ("root", "punct"), "go")


def corpus_of(trees, vocabulary=None, labels=None, source=""):
    words, names = count_dependencies(trees, LOWER)
    vocabulary = vocabulary or Vocabulary.build(words, UNKNOWN, ROOT, ROOT)
    return DependencyCorpus.from_trees(trees, LOWER, vocabulary, labels or label_vocabulary(names), source)


def tree_of(heads, number):
    """A tree whose words and labels tell sentence and place."""
    words = tuple(f"s{number}w{place}" for place in range(1, len(heads) + 1))
    return DependencyTree(words, ("",) * len(heads), tuple(heads), tuple(f"to {word}" for word in words), str(number))


@st.composite
def forests(draw, most_trees=12, most_words=9):
    """Any trees: of one root or several, projective or not."""
    trees = []
    for number in range(draw(st.integers(1, most_trees))):
        order = draw(st.permutations(range(1, draw(st.integers(1, most_words)) + 1)))
        heads = {word: draw(st.sampled_from([0, *order[:place]])) for place, word in enumerate(order)}
        trees.append(tree_of([heads[word] for word in sorted(order)], number))
    return trees


def many_trees(count=300, seed=0):
    random = np.random.default_rng(seed)
    return [
        tree_of([int(random.integers(0, word)) for word in range(1, random.integers(1, 25) + 1)], number)
        for number in range(count)
    ]


def test_words_are_normalised_and_numbered_and_labels_are_numbered():
    vocabulary = Vocabulary([UNKNOWN, ROOT, "the", "cat", "sleeps", "go"], UNKNOWN, ROOT, ROOT)
    corpus = corpus_of([CAT, GO], vocabulary, source="some.conllu")
    assert vocabulary.decode(corpus.text.ids.tolist()) == ["the", "cat", "sleeps", UNKNOWN, "go", UNKNOWN]
    assert corpus.text.offsets.tolist() == [0, 4, 6]
    assert (len(corpus), corpus.text.unknown_count, corpus.source, corpus.names) == (2, 2, "some.conllu", ("cat", "go"))
    assert corpus.text.character_count == len("The cat sleeps . ") + len("Go ! ")
    labels = label_vocabulary(Counter({"det": 1, "nsubj": 1, "root": 2, "punct": 2}))
    assert labels.decode(corpus.labels.tolist()) == ["det", "nsubj", "root", "punct", "root", "punct"]
    assert labels.begin == ROOT
    assert corpus.labelled
    assert corpus.depths.tolist() == [3, 2]


def test_trees_without_labels_are_a_corpus_that_says_so():
    bare = DependencyTree(("a", "b"), ("", ""), (0, 1), ("", ""))
    words, labels = count_dependencies([bare, bare], LOWER)
    assert (words, labels) == (Counter(a=2, b=2), Counter())
    corpus = corpus_of([bare])
    assert not corpus.labelled
    assert set(corpus.labels.tolist()) == {label_vocabulary(labels).unknown_id}


def test_a_cycle_is_refused_with_the_id_of_its_sentence():
    bad = DependencyTree(("a", "b", "c"), ("",) * 3, (2, 1, 0), ("",) * 3, "odd-one")
    with pytest.raises(InputError, match=r"^some\.conllu, sentence odd-one: words 1, 2 hang on no root"):
        corpus_of([CAT, bad], source="some.conllu")
    with pytest.raises(InputError, match="the corpus: not one sentence"):
        corpus_of([])


def rows_of(batch, corpus, vocabulary, labels):
    """Of each word that a batch generates, by name: the word that the edge leaves, its label, and the edge."""
    words, targets = vocabulary.decode(batch.words.tolist()), vocabulary.decode(batch.targets.tolist())
    found = zip(words, labels.decode(batch.labels.tolist()), batch.levels.edges().tolist(), strict=True)
    return dict(zip(targets, found, strict=True))


@settings(max_examples=60, deadline=None)
@given(forests(), st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from([None, 1, 3]))
def test_every_word_is_generated_once_by_the_step_of_its_tree_and_no_row_is_padding(
    trees, budget, shuffle, mixed, most
):
    counts, names = count_dependencies(trees, LOWER)
    vocabulary, labels = Vocabulary.build(counts, UNKNOWN, ROOT, ROOT), label_vocabulary(names)
    corpus = corpus_of(trees, vocabulary, labels)
    seen = Counter()
    expected = {}
    for tree in trees:
        for step in steps_of(tree):
            source = (tree.words[step.source - 1], tree.labels[step.source - 1]) if step.source else (ROOT, ROOT)
            expected[tree.words[step.word - 1]] = (*source, step.edge)
    for batch in TreeBatches(corpus, budget, shuffle, 0, mixed, most).iterate(3):
        indices = batch.indices.tolist()
        seen.update(indices)
        assert batch.sentence_count() == len(indices) == 1 or batch.token_count() <= budget
        assert most is None or len(indices) <= most
        assert batch.token_count() == sum(len(trees[index]) for index in indices)
        found = rows_of(batch, corpus, vocabulary, labels)
        assert found == {word: expected[word] for index in indices for word in trees[index].words}
    assert seen == Counter(range(len(trees)))


@settings(max_examples=60, deadline=None)
@given(forests())
def test_steps_go_on_from_the_row_that_generated_the_word_their_edge_leaves(trees):
    corpus = corpus_of(trees)
    batches = TreeBatches(corpus, 10_000, False, 0)
    (batch,) = batches.iterate(0)
    parents = batch.levels.parents.tolist()
    level_of = np.repeat(np.arange(len(batch.levels.counts)), batch.levels.sizes)
    for row, parent in enumerate(parents):
        if parent:
            assert batch.words[row] == batch.targets[parent - 1]
            assert batch.trees[row] == batch.trees[parent - 1]
            assert level_of[parent - 1] == level_of[row] - 1
        else:
            assert level_of[row] == 0
            assert batch.words[row] == corpus.root_id
    edges = batch.levels.edges().tolist()
    pairs = {(parent, edge) for parent, edge in zip(parents, edges, strict=True) if parent}
    leaving = batch.continuations()
    assert {(row + 1, edge) for row, edge in leaving.nonzero().tolist()} == pairs
    assert leaving.shape == (len(parents), 4)


@settings(max_examples=30, deadline=None)
@given(forests(), st.integers(1, 40))
def test_places_put_what_batches_read_back_into_the_order_of_the_text(trees, budget):
    corpus = corpus_of(trees)
    batches = TreeBatches(corpus, budget, True, 0)
    read = np.full(corpus.text.word_count, -1)
    for batch in batches.iterate(0):
        read[batches.places(batch)] = batch.targets
    assert read.tolist() == corpus.text.ids.tolist()


def test_batches_are_the_contracts():
    (batch,) = TreeBatches(corpus_of([CAT, GO]), 100, False, 0).iterate(0)
    assert batch.carries is False
    assert batch.targets.shape == (6,)
    moved = batch.to("meta")
    assert isinstance(moved, TreeBatch)
    assert {moved.words.device.type, moved.levels.parents.device.type, moved.trees.device.type} == {"meta"}
    assert moved.token_count() == 6
    assert moved.indices.device.type == "cpu"
    assert all(
        getattr(batch, name).dtype == torch.int64 for name in ("words", "targets", "labels", "trees", "positions")
    )


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.levels.counts == other.levels.counts
        for name in ("words", "targets", "labels", "trees", "positions", "indices"):
            assert torch.equal(getattr(one, name), getattr(other, name))
        assert torch.equal(one.levels.parents, other.levels.parents)


def test_an_interrupted_epoch_goes_on_with_the_same_batches():
    corpus = corpus_of(many_trees())
    expected = list(TreeBatches(corpus, 128, True, 11).iterate(4))
    again = TreeBatches(corpus, 128, True, 11)
    list(again.iterate(0))
    assert_same(list(again.iterate(4, start=17)), expected[17:])


@pytest.mark.parametrize("mixed", [True, False])
def test_epochs_and_seeds_differ_in_order_and_in_company(mixed):
    corpus = corpus_of(many_trees())

    def batches(seed, epoch):
        return {frozenset(batch.tolist()) for batch in TreeBatches(corpus, 128, True, seed, mixed).epoch(epoch)}

    first = batches(0, 0)
    assert batches(0, 0) == first
    for other in (batches(0, 1), batches(1, 0)):
        assert len(first & other) < len(first) / 4


def test_evaluation_comes_in_the_same_order_deepest_first():
    batches = TreeBatches(corpus_of(many_trees()), 128, False, 0)
    first = [batch.tolist() for batch in batches.epoch(0)]
    assert first == [batch.tolist() for batch in batches.epoch(1)]
    assert (np.diff(batches.corpus.depths[np.concatenate(first)]) <= 0).all()


def test_batches_of_like_depth_have_fewer_levels_than_mixed_ones():
    corpus = corpus_of(many_trees(1000))

    def levels(mixed):
        return np.mean([len(batch.levels.counts) for batch in TreeBatches(corpus, 256, True, 0, mixed).iterate(0)])

    assert levels(mixed=False) < 0.9 * levels(mixed=True)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_processes_share_the_batches(ranks, shuffle):
    corpus = corpus_of(many_trees())
    whole = TreeBatches(corpus, 128, shuffle, 3).epoch(7)
    shares = [TreeBatches(corpus, 128, shuffle, 3, rank=rank, ranks=ranks).epoch(7) for rank in range(ranks)]
    if shuffle:
        assert {len(share) for share in shares} == {len(whole) // ranks}
    else:
        assert sum(map(len, shares)) == len(whole)
    found = [tuple(batch) for share in shares for batch in share]
    assert set(found) <= {tuple(batch) for batch in whole}
    assert len(set(found)) == len(found)


def test_large_trees_are_left_out_and_counted():
    corpus = corpus_of([tree_of(range(length), number) for number, length in enumerate([3, 9, 4, 10])])
    batches = TreeBatches(corpus, 100, True, 0, maximum_words=4)
    assert batches.skipped == 2
    assert sorted(np.concatenate(batches.epoch(0)).tolist()) == [0, 2]
    with pytest.raises(InputError, match="all 4 trees are of more than 2 words"):
        TreeBatches(corpus, 100, True, 0, maximum_words=2)


def test_impossible_sizes_are_refused_by_name():
    corpus = corpus_of([CAT])
    with pytest.raises(InputError, match=r"(?s)token_budget: found 0; .*maximum_trees: found 0; .*seed: found -1"):
        TreeBatches(corpus, 0, True, -1, maximum_trees=0)
    with pytest.raises(InputError, match="rank: found 2; expected 0 to 1"):
        TreeBatches(corpus, 10, True, 0, rank=2, ranks=2)
    with pytest.raises(InputError, match="too few trees for 2 processes"):
        TreeBatches(corpus, 10, True, 0, ranks=2).epoch(0)


def conllu(*trees):
    lines = []
    for tree in trees:
        lines += [f"# sent_id = {tree.name}"] if tree.name else []
        rows = zip(tree.words, tree.tags, tree.heads, tree.labels, strict=True)
        lines += [f"{n}\t{w}\t_\t{t}\t_\t_\t{h}\t{d}\t_\t_" for n, (w, t, h, d) in enumerate(rows, 1)]
        lines.append("")
    return "\n".join(lines) + "\n"


def test_trees_of_files_folders_and_patterns_are_named_by_id_or_place(tmp_path):
    nameless = DependencyTree(GO.words, GO.tags, GO.heads, GO.labels)
    (tmp_path / "a.conllu").write_text(conllu(CAT, nameless))
    with gzip.open(tmp_path / "b.conllu.gz", "wt") as file:
        file.write(conllu(nameless))
    assert [tree.name for tree in dependency_trees(tmp_path)] == ["cat", "a.conllu 2", "b.conllu.gz 1"]
    assert [tree.name for tree in dependency_trees(tmp_path / "a.conllu")] == ["cat", "2"]
    assert [tree.heads for tree in dependency_trees(tmp_path / "*.conllu")] == [CAT.heads, GO.heads, GO.heads]


def test_clean_up_leaves_words_out_and_passes_their_heads_on(tmp_path):
    (tmp_path / "a.conllu").write_text(conllu(CAT, GO))
    first, second = dependency_trees(tmp_path / "a.conllu", "ptb-drop")
    assert (first.words, first.heads, first.labels) == (("The", "cat", "sleeps"), (2, 3, 0), ("det", "nsubj", "root"))
    assert (first.name, second.name, second.words) == ("cat", "go", ("Go",))


def test_constituency_trees_are_refused(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (A a))\n")
    with pytest.raises(InputError, match=r"a\.mrg: found \.mrg; expected dependency trees, in files .*conllu"):
        list(dependency_trees(tmp_path))


@pytest.mark.skipif(not (SHARED / "gum").is_dir(), reason="GUM is not beside this checkout")
def test_gum_is_read_whole():
    path = SHARED / "gum" / "dev.conllu"
    words, labels = count_dependencies(dependency_trees(path), LOWER)
    vocabulary = Vocabulary.build(words, UNKNOWN, ROOT, ROOT, minimum_count=6)
    corpus = DependencyCorpus.read(path, LOWER, vocabulary, label_vocabulary(labels))
    assert (len(corpus), corpus.text.word_count, len(labels)) == (1575, 28119, 51)
    assert corpus.labelled
    assert sum(batch.token_count() for batch in TreeBatches(corpus, 1000, False, 0).iterate(0)) == 28119
    faults = Counter(fault.split(":")[0] for tree in dependency_trees(path) for fault in dependency_faults(tree))
    assert faults == {"non-projective": 54}


@pytest.mark.skipif(not (SHARED / "wsj-sample").is_dir(), reason="the WSJ sample is not beside this checkout")
def test_the_wsj_sample_has_trees_of_one_root_without_labels():
    trees = list(dependency_trees(SHARED / "wsj-sample" / "dep"))
    assert len(trees) == 3914
    assert not any(dependency_faults(tree) for tree in trees)
    assert not corpus_of(trees).labelled
    assert trees[0].name == "wsj_0001.dp 1"
