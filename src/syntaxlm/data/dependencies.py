"""Dependency trees as token ids and paths in flat arrays, and batches of them: steps level by level, no padding."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.errors import InputError
from syntaxlm.models.contract import TreeBatch
from syntaxlm.ops.tree_levels.types import EDGES, Levels
from syntaxlm.settings import Limits, range_faults
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.dependencies import Paths, paths_of
from syntaxlm.trees.preprocessing import GoldPreprocessing
from syntaxlm.trees.tree import DependencyTree

Integers = npt.NDArray[np.int64]

ROOT = "<root>"  # what an edge from ROOT leaves, among words and among labels
UNKNOWN = "<unk>"

# Trees of like depth are batched in an order of depth + at most this, so that neighbours differ from epoch to epoch.
DEPTH_NOISE = 2.0


def read_words(tree: DependencyTree, normaliser: Normaliser) -> tuple[str, ...]:
    """What a model reads of each word before normalisation: the words or, where units are tags, the tags.

    Raises InputError for a word without a tag where units are tags.
    """
    if normaliser.units != "tags":
        return tree.words
    if "" in tree.tags:
        word = tree.words[tree.tags.index("")]
        raise InputError(
            f"sentence {tree.name}: the word {word!r} has no part-of-speech tag; the model reads tags"
            " (text.normaliser.units: tags)"
        )
    return tree.tags


def count_dependencies(trees: Iterable[DependencyTree], normaliser: Normaliser) -> tuple[Counter[str], Counter[str]]:
    """How often each normalised word and each label is in trees."""
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
    """The labels of trees, with `ROOT` as begin for what has no label because it has no head."""
    return Vocabulary.build(counts, UNKNOWN, ROOT, ROOT)


class _Ids(dict[str, int]):
    """Word as written -> its id, worked out once."""

    def __init__(self, normaliser: Normaliser, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._normaliser, self._vocabulary = normaliser, vocabulary

    def __missing__(self, written: str) -> int:
        self[written] = found = self._vocabulary.id(self._normaliser.word(written, written))
        return found


@dataclass(frozen=True)
class DependencyCorpus:
    """The trees of a text as flat arrays: what is of words is (N,), word after word, sentence after sentence.

    text: the words without their trees, which models of sequences read; its lines are numbers of sentences.
    labels: (N,) int32 ids, of the edge between each word and its head.
    paths: the last edge of each word's path from ROOT.
    depths: (S,) int32, edges of the longest path in each tree.
    names: of the sentences, for messages.
    root_id, root_label_id: of what has no word, and no label, because it is ROOT.
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
        clean_up: GoldPreprocessing | str | Path = "none",
    ) -> DependencyCorpus:
        """The trees of a file, a folder or a pattern, see `dependency_trees`; words by `Normaliser.word`.

        vocabulary: its begin stands for ROOT; so does that of `labels`, see `label_vocabulary`.
        Raises InputError as `dependency_trees` and `from_trees` do.
        """
        return cls.from_trees(dependency_trees(path, clean_up), normaliser, vocabulary, labels, str(path))

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[DependencyTree],
        normaliser: Normaliser,
        vocabulary: Vocabulary,
        labels: Vocabulary,
        source: str = "",
    ) -> DependencyCorpus:
        """Trees at hand, or as they come. source: for messages.

        Raises InputError naming the first sentence with words that hang on no root, and where there is no tree.
        """
        word_ids, label_ids = _Ids(normaliser, vocabulary), labels.id
        words, heads, marks, lengths = array("i"), array("i"), array("i"), array("q")
        names: list[str] = []
        characters, labelled = 0, False
        for tree in trees:
            read = read_words(tree, normaliser)
            words.extend(map(word_ids.__getitem__, read))
            heads.extend(tree.heads)
            marks.extend(map(label_ids, tree.labels))
            lengths.append(len(tree))
            names.append(tree.name)
            characters += sum(map(len, read)) + len(tree)  # white space between two words is one, the end is one
            labelled = labelled or any(tree.labels)
        ids = np.array(words, np.int32)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))])
        unknown = int(np.count_nonzero(ids == vocabulary.unknown_id))
        numbers = np.arange(1, len(offsets), dtype=np.int64)
        text = EncodedCorpus(ids, offsets, numbers, unknown, characters, source)
        paths = paths_of(np.array(heads, np.int32), offsets, names, source)
        depths = np.maximum.reduceat(paths.depths, offsets[:-1])
        roots = vocabulary.begin_id, labels.begin_id
        return cls(text, np.array(marks, np.int32), paths, depths, tuple(names), *roots, labelled)

    def __len__(self) -> int:
        """How many trees."""
        return len(self.text)

    @property
    def source(self) -> str:
        return self.text.source


_LIMITS: Limits = {
    "token_budget": ("1 or more", lambda value: value >= 1),
    "maximum_trees": ("1 or more", lambda value: value >= 1),
    "maximum_words": ("1 or more", lambda value: value >= 1),
    "seed": ("0 or more", lambda value: value >= 0),
    "ranks": ("1 or more", lambda value: value >= 1),
}


class TreeBatches:
    """Batches of whole trees, of the steps that generate their words.

    token_budget: steps, which are words, of a batch; a larger tree is a batch by itself.
    shuffle: for training, whether trees and batches come in a new order every epoch. Else they come from the deepest
        tree to the shallowest, the same every time. seed: of the shuffling, at least 0.
    mixed: for training, whether each batch mixes trees of all depths. Else they are of like depth: fewer and larger
        products for as many words.
    maximum_trees: of a batch; None for no limit.
    maximum_words: larger trees are left out, and counted in `skipped`; None for no limit. For training only.
    rank, ranks: which of how many processes this is. It takes every ranks-th batch. When shuffled, what is left over
        once every process has as many batches is dropped from that epoch; else nothing is.
    Raises InputError for sizes out of range, and when no tree is left.
    """

    def __init__(
        self,
        corpus: DependencyCorpus,
        token_budget: int,
        shuffle: bool,
        seed: int,
        mixed: bool = False,
        maximum_trees: int | None = None,
        maximum_words: int | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        given = {
            "token_budget": token_budget, "maximum_trees": maximum_trees, "maximum_words": maximum_words,
            "seed": seed, "ranks": ranks,
        }  # fmt: skip
        faults = range_faults(_LIMITS, given.get)
        if not 0 <= rank < max(1, ranks):
            faults.append(f"rank: found {rank}; expected 0 to {ranks - 1}")
        if faults:
            raise InputError("\n".join(faults))
        self.corpus, self.token_budget, self.maximum_trees = corpus, token_budget, maximum_trees
        self.shuffle, self.seed, self.mixed, self.rank, self.ranks = shuffle, seed, mixed, rank, ranks
        words = corpus.text.lengths
        self._chosen: Integers = np.flatnonzero(words <= (maximum_words or words.max()))
        self.skipped = len(corpus) - len(self._chosen)
        if not len(self._chosen):
            raise InputError(
                f"{corpus.source or 'the corpus'}: all {len(corpus)} trees are of more than {maximum_words} words"
            )

    def epoch(self, number: int) -> list[Integers]:
        """The batches of an epoch as indices of trees; a function of seed and number."""
        if not self.shuffle:
            lengths, depths = self.corpus.text.lengths[self._chosen], self.corpus.depths[self._chosen]
            return self._cut(self._chosen[np.lexsort((-lengths, -depths))], 1.0)[self.rank :: self.ranks]
        random = np.random.default_rng([self.seed, number])
        noise = random.random(len(self._chosen))
        order = noise if self.mixed else self.corpus.depths[self._chosen] + DEPTH_NOISE * noise
        # The first batch is smaller by chance, which moves all cuts after it.
        batches = self._cut(self._chosen[np.argsort(-order)], random.random())
        batches = [batches[place] for place in random.permutation(len(batches))]
        batches = batches[: len(batches) // self.ranks * self.ranks]
        if not batches:
            raise InputError(f"too few trees for {self.ranks} processes: each needs a batch")
        return batches[self.rank :: self.ranks]

    def iterate(self, epoch: int, start: int = 0) -> Iterator[TreeBatch]:
        """The batches of an epoch from number `start` on, 0 first."""
        for indices in itertools.islice(self.epoch(epoch), start, None):
            yield self.batch(indices)

    def batch(self, indices: Integers) -> TreeBatch:
        """The batch of these trees."""
        corpus, offsets = self.corpus, np.asarray(self.corpus.text.offsets)
        lengths = corpus.text.lengths[indices]
        ends = np.cumsum(lengths)
        trees = np.repeat(np.arange(len(indices)), lengths)
        firsts = (ends - lengths)[trees]  # where each word's tree begins in the batch
        positions = np.arange(len(trees)) - firsts
        places = offsets[indices][trees] + positions
        kinds = EDGES * (corpus.paths.depths[places] - 1) + corpus.paths.edges[places]
        order = np.argsort(kinds, kind="stable")
        counts = np.bincount(kinds, minlength=EDGES * int(corpus.depths[indices].max()))
        rows = np.zeros(len(order) + 1, np.int64)  # in the pool, of each word of the batch, 1 first, behind ROOT
        rows[order + 1] = np.arange(1, len(order) + 1)
        trees, positions, places, firsts = trees[order], positions[order], places[order], firsts[order]
        parents = corpus.paths.parents[places].astype(np.int64)
        sources = places - positions + parents - 1  # where the words that edges leave are in the corpus
        return TreeBatch(
            words=_taken(corpus.text.ids, sources, parents, corpus.root_id),
            targets=torch.from_numpy(corpus.text.ids[places].astype(np.int64)),
            labels=_taken(corpus.labels, sources, parents, corpus.root_label_id),
            trees=torch.from_numpy(trees),
            positions=torch.from_numpy(positions),
            indices=torch.from_numpy(indices.copy()),
            levels=Levels.of(
                torch.from_numpy(rows[np.where(parents > 0, firsts + parents, 0)]),
                tuple(map(tuple, counts.reshape(-1, EDGES).tolist())),
            ),
        )

    def places(self, batch: TreeBatch) -> Tensor:
        """Where the word that each step generates is among all words of the corpus: (n,) int64."""
        offsets = torch.from_numpy(np.asarray(self.corpus.text.offsets))
        return offsets[batch.indices[batch.trees.cpu()]] + batch.positions.cpu()

    def _cut(self, order: Integers, first: float) -> list[Integers]:
        """Cut trees into batches under the budget. first: the share of the budget that the first batch has."""
        ends = np.cumsum(self.corpus.text.lengths[order])
        batches, begin, before = [], 0, 0
        budget = int(self.token_budget * first)
        while begin < len(order):
            end = max(begin + 1, int(np.searchsorted(ends, before + budget, side="right")))
            if self.maximum_trees is not None:
                end = min(end, begin + self.maximum_trees)
            batches.append(order[begin:end])
            begin, before = end, int(ends[end - 1])
            budget = self.token_budget
        return batches


def _taken(ids: npt.NDArray[np.integer], sources: Integers, parents: Integers, root: int) -> Tensor:
    """The ids at places of the corpus, ROOT's where the parent is none: (n,) int64."""
    return torch.from_numpy(np.where(parents > 0, ids[np.maximum(sources, 0)], root).astype(np.int64))
