"""Log-probabilities of words and sentences given their dependency trees, P(S | T)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from syntaxlm.data.dependencies import DependencyCorpus, read_words
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.model_io import ModelBundle
from syntaxlm.models.abilities import GeneratesTrees
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.surprisal import LINES_TOGETHER, WordSurprisal
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.tree import DependencyTree

Values = npt.NDArray[np.float64]


def tree_log_probs(stored: ModelBundle, corpus: DependencyCorpus) -> Values:
    """ln P(S | T) of each tree, in nats: (S,). Raises InputError like `Scorer.trees`."""
    return np.add.reduceat(Scorer.of(stored).trees(corpus), corpus.text.offsets[:-1])


def log_probs_of_trees(stored: ModelBundle, trees: Sequence[DependencyTree], source: str = "") -> Values:
    """ln P(S | T) of trees in memory, in nats: (n,), in their order.

    Trees that the model cannot distinguish are scored once, so that rounding, which differs between batches, does not
    break ties. source: the file, for messages, which name trees. Raises InputError like `Scorer.trees`, for words
    without a path to a root, and for a model that does not read trees or returns NaN.
    """
    labels, model = _labels(stored), stored.require(GeneratesTrees, "scoring of dependency trees")
    vocabulary, normaliser = stored.vocabulary, stored.normaliser
    read_of = [read_words(tree, normaliser) for tree in trees]
    ids = {word: vocabulary.id(normaliser.word(word, word)) for words in read_of for word in words}
    label_ids = [tuple(map(labels.id, tree.labels)) if model.reads_labels else () for tree in trees]
    read = [
        (tuple(map(ids.__getitem__, words)), tree.heads, marks)
        for words, tree, marks in zip(read_of, trees, label_ids, strict=True)
    ]
    distinct = dict(zip(reversed(read), reversed(trees), strict=True))  # the first of equal trees
    corpus = DependencyCorpus.from_trees(distinct.values(), normaliser, vocabulary, labels, source)
    log_probs = tree_log_probs(stored, corpus)
    place = {one: place for place, one in enumerate(distinct)}
    return log_probs[[place[one] for one in read]]


def tree_surprisals(stored: ModelBundle, path: str | Path) -> Iterator[list[WordSurprisal]]:
    """The words of each tree in sentence order, with their surprisal; the surprisals add up to the tree's.

    path: a file, a folder or a pattern, as in `dependency_trees`; read some thousand trees at a time. Positions are
    those in the sentence with single spaces between words. The end is not predicted and has no row.
    Raises InputError like `dependency_trees`, and for a model that does not read trees.
    """
    labels = _labels(stored)
    trees, first = dependency_trees(path), 1
    while chunk := list(islice(trees, LINES_TOGETHER)):
        corpus = DependencyCorpus.from_trees(chunk, stored.normaliser, stored.vocabulary, labels, str(path))
        bits = 0.0 - Scorer.of(stored).trees(corpus) / math.log(2)  # never -0
        for number, (tree, start, end) in enumerate(
            zip(chunk, corpus.text.offsets[:-1], corpus.text.offsets[1:], strict=True), first
        ):
            yield _rows(stored, number, tree, bits[start:end].tolist())
        first += len(chunk)


def _labels(stored: ModelBundle) -> Vocabulary:
    stored.require(GeneratesTrees, "scoring of dependency trees")
    assert stored.labels is not None
    return stored.labels


def _rows(stored: ModelBundle, number: int, tree: DependencyTree, bits: list[float]) -> list[WordSurprisal]:
    vocabulary, rows, begin = stored.vocabulary, [], 0
    for position, (word, surprisal) in enumerate(zip(tree.words, bits, strict=True), 1):
        read = vocabulary.id(stored.normaliser.word(word, tree.tags[position - 1]))
        end, known = begin + len(word), read not in vocabulary.unknown_ids
        rows.append(WordSurprisal(number, position, word, begin, end, vocabulary.tokens[read], known, surprisal))
        begin = end + 1
    return rows
