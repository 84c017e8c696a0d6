"""Corpora of dependency trees, from files and from trees in memory."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest

from syntaxlm.batches import TreeBatches
from syntaxlm.core.errors import InputError
from syntaxlm.data.dependencies import ROOT, UNKNOWN, DependencyCorpus, count_dependencies, label_vocabulary
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.conllu import NO_HEAD
from syntaxlm.trees.tree import DependencyTree
from tests.batches.forests import CAT, GO, LOWER, corpus_of
from tests.shared_data import DATA
from tests.trees.faults import dependency_faults


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


def test_a_corpus_of_trees_without_labels_is_marked():
    bare = DependencyTree(("a", "b"), ("", ""), (0, 1), ("", ""))
    words, labels = count_dependencies([bare, bare], LOWER)
    assert (words, labels) == (Counter(a=2, b=2), Counter())
    corpus = corpus_of([bare])
    assert not corpus.labelled
    assert set(corpus.labels.tolist()) == {label_vocabulary(labels).unknown_id}


def test_a_cycle_is_refused_with_the_id_of_its_sentence():
    bad = DependencyTree(("a", "b", "c"), ("",) * 3, (2, 1, 0), ("",) * 3, "odd-one")
    with pytest.raises(InputError, match=r"^some\.conllu, sentence odd-one: words 1, 2 have no path to a root"):
        corpus_of([CAT, bad], source="some.conllu")
    with pytest.raises(InputError, match="the corpus: found no sentence"):
        corpus_of([])


def conllu(*trees):
    lines = []
    for tree in trees:
        lines += [f"# sent_id = {tree.name}"] if tree.name else []
        rows = zip(tree.words, tree.tags, tree.heads, tree.labels, strict=True)
        lines += [f"{n}\t{w}\t_\t{t}\t_\t_\t{h}\t{d}\t_\t_" for n, (w, t, h, d) in enumerate(rows, 1)]
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("preprocessing", ["none", "letters"])
@pytest.mark.parametrize("heads", [(2, 1), (0, NO_HEAD)])
def test_a_cycle_or_a_missing_head_in_a_file_is_refused_with_file_and_line(tmp_path, heads, preprocessing):
    text = "# text = a\n1\ta\t_\tN\t_\t_\t0\tx\t_\t_\n\n" + conllu(
        DependencyTree(("b", "c"), ("N", "N"), heads, ("x", "x"))
    )
    (tmp_path / "a.conllu").write_text(text.replace("\t-1\t", "\t_\t"))
    vocabulary = Vocabulary([UNKNOWN, ROOT, "b"], UNKNOWN, ROOT, ROOT)
    for path in (tmp_path / "a.conllu", tmp_path):
        with pytest.raises(InputError, match=rf"^{tmp_path}/a\.conllu, line 4, sentence 2: words? "):
            DependencyCorpus.read(path, LOWER, vocabulary, label_vocabulary(Counter("x")), preprocessing)


def test_trees_of_files_folders_and_patterns_are_named_by_id_or_place(tmp_path):
    nameless = DependencyTree(GO.words, GO.tags, GO.heads, GO.labels)
    (tmp_path / "a.conllu").write_text(conllu(CAT, nameless))
    with gzip.open(tmp_path / "b.conllu.gz", "wt") as file:
        file.write(conllu(nameless))
    assert [tree.name for tree in dependency_trees(tmp_path)] == ["cat", "a.conllu 2", "b.conllu.gz 1"]
    assert [tree.name for tree in dependency_trees(tmp_path / "a.conllu")] == ["cat", "2"]
    assert [tree.heads for tree in dependency_trees(tmp_path / "*.conllu")] == [CAT.heads, GO.heads, GO.heads]


def test_constituency_trees_are_refused(tmp_path):
    (tmp_path / "a.mrg").write_text("(S (A a))\n")
    with pytest.raises(InputError, match=r"a\.mrg: found \.mrg; expected dependency trees, in files .*conllu"):
        list(dependency_trees(tmp_path))


@pytest.mark.skipif(not (DATA / "gum").is_dir(), reason=f"GUM is not in {DATA}")
def test_all_of_gum_is_read():
    path = DATA / "gum" / "dev.conllu"
    words, labels = count_dependencies(dependency_trees(path), LOWER)
    vocabulary = Vocabulary.build(words, UNKNOWN, ROOT, ROOT, minimum_count=6)
    corpus = DependencyCorpus.read(path, LOWER, vocabulary, label_vocabulary(labels))
    assert (len(corpus), corpus.text.word_count, len(labels)) == (1575, 28119, 51)
    assert corpus.labelled
    assert sum(batch.token_count() for batch in TreeBatches(corpus, 1000, False, 0).iterate(0)) == 28119
    faults = Counter(fault for tree in dependency_trees(path) for fault in dependency_faults(tree))
    assert faults == {"non-projective": 54}


@pytest.mark.skipif(not (DATA / "wsj-sample").is_dir(), reason=f"the WSJ sample is not in {DATA}")
def test_the_wsj_sample_has_trees_of_one_root_without_labels():
    trees = list(dependency_trees(DATA / "wsj-sample" / "dep"))
    assert len(trees) == 3914
    assert not any(dependency_faults(tree) for tree in trees)
    assert not corpus_of(trees).labelled
    assert trees[0].name == "wsj_0001.dp 1"
