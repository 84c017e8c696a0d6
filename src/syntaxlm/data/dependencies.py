"""Dependency trees as token ids and paths in flat arrays."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import Preprocessing, dependency_trees
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.dependencies import Paths, paths_of
from syntaxlm.trees.tree import DependencyTree

ROOT = "<root>"  # the root node, in the vocabularies of words and of labels
UNKNOWN = "<unk>"


def read_words(tree: DependencyTree, normaliser: Normaliser) -> tuple[str, ...]:
    """Return the model input for each word before normalisation: the words or, if the units are tags, the tags.

    Raises:
        InputError: for a word without a tag if the units are tags.
    """
    if normaliser.units != "tags":
        return tree.words
    if "" in tree.tags:
        word = tree.words[tree.tags.index("")]
        place = tree.place or f"sentence {tree.name}"
        raise InputError(
            f"{place}: the word {word!r} has no part-of-speech tag; the model reads tags (text.normaliser.units: tags)"
        )
    return tree.tags


def count_dependencies(trees: Iterable[DependencyTree], normaliser: Normaliser) -> tuple[Counter[str], Counter[str]]:
    """Count the normalised words and the labels of trees."""
    written: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    for tree in trees:
        written.update(read_words(tree, normaliser))
        labels.update(tree.labels)
    words: Counter[str] = Counter()
    for word, count in written.items():
        words[normaliser.word(word, word)] += count
    del labels[""]
    return words, labels


def label_vocabulary(counts: Counter[str]) -> Vocabulary:
    """Build the vocabulary of labels. `ROOT` is its BOS: the label of the node without a head."""
    return Vocabulary.build(counts, UNKNOWN, ROOT, ROOT)


@dataclass(frozen=True)
class DependencyCorpus:
    """The trees of a text as flat arrays. Arrays over words have shape (N,), in text order.

    Attributes:
        text: the words without their trees, for sequence models. Its line numbers are sentence numbers.
        labels: (N,) int32, the label id of the edge between each word and its head.
        paths: the last edge of each word's path from ROOT.
        depths: (S,) int32, the number of edges on the longest path of each tree.
        names: the names of the sentences, for messages.
        root_id: the word id of ROOT, which is no word.
        root_label_id: the label id of ROOT, which has no label.
        labelled: whether any edge has a label.
    """

    text: EncodedCorpus
    labels: npt.NDArray[np.int32]
    paths: Paths
    depths: npt.NDArray[np.int32]
    names: tuple[str, ...]
    root_id: int
    root_label_id: int
    labelled: bool

    @classmethod
    def read(
        cls,
        path: str | Path,
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        labels: Vocabulary,
        preprocessing: Preprocessing = "none",
    ) -> DependencyCorpus:
        """Read the trees of a file, a folder or a pattern (see `dependency_trees`). `Normaliser.word` normalises words.

        Args:
            vocabulary: the words; its BOS stands for ROOT.
            labels: the labels, see `label_vocabulary`; its BOS also stands for ROOT.

        Raises:
            InputError: like `dependency_trees` and `from_trees`.
        """
        return cls.from_trees(dependency_trees(path, preprocessing), normaliser, vocabulary, labels, str(path))

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[DependencyTree],
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        labels: Vocabulary,
        source: str = "",
    ) -> DependencyCorpus:
        """Build a corpus from trees, which may come from an iterator.

        Args:
            source: the name of the data, for messages.

        Raises:
            InputError: if words of a sentence are not connected to a root, naming the first such sentence, and if there
                is no tree.
        """

        @cache
        def word_id(written: str) -> int:
            return vocabulary.id(normaliser.word(written, written))

        words = array("i")
        heads = array("i")
        marks = array("i")
        lengths = array("q")
        characters = array("q")
        names: list[str] = []
        places: list[str] = []
        labelled = False
        for tree in trees:
            read = read_words(tree, normaliser)
            words.extend(map(word_id, read))
            heads.extend(tree.heads)
            marks.extend(map(labels.id, tree.labels))
            lengths.append(len(tree))
            names.append(tree.name)
            sentence = f"sentence {tree.name or len(lengths)}"
            places.append(tree.place or (f"{source}, {sentence}" if source else sentence))
            characters.append(sum(map(len, read)) + len(tree))  # one for each space between words and one for the end
            labelled = labelled or any(tree.labels)
        ids = np.array(words, np.int32)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))])
        unknown = int(np.count_nonzero(vocabulary.is_unknown(ids)))
        numbers = np.arange(1, len(offsets), dtype=np.int64)
        text = EncodedCorpus(ids, offsets, numbers, unknown, np.array(characters, np.int64), source)
        paths = paths_of(np.array(heads, np.int32), offsets, places)
        depths = np.maximum.reduceat(paths.depths, offsets[:-1])
        roots = vocabulary.begin_id, labels.begin_id
        return cls(text, np.array(marks, np.int32), paths, depths, tuple(names), *roots, labelled)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.text)

    @property
    def lengths(self) -> Integers:
        """(S,) words of each sentence."""
        return self.text.lengths

    @property
    def source(self) -> str:
        return self.text.source
