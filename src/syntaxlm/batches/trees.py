"""Batches of dependency trees: the steps that generate their words, level by level, without padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.batches.text import check_arguments, share
from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.models.batches import TreeBatch
from syntaxlm.ops.tree_levels import EDGES, Levels

# Trees are sorted by depth + at most this, so that neighbours differ from epoch to epoch.
DEPTH_NOISE = 2.0


class TreeBatches:
    """Batches of whole trees: the steps that generate their words.

    Args:
        corpus: the trees.
        token_budget: steps (words) per batch; a larger tree is a batch by itself.
        shuffle: for training, whether trees and batches are in a new order every epoch; otherwise they are sorted from
            the deepest tree to the shallowest.
        seed: of the shuffling, at least 0.
        mixed: for training, whether each batch mixes trees of all depths; otherwise batches have similar depths, which
            means fewer and larger matrix products for the same number of words.
        maximum_trees: per batch; None for no limit.
        maximum_words: larger trees are excluded and counted in `skipped`; None for no limit. For training only.
        rank: index of this process. Each process takes every ranks-th batch.
        ranks: number of processes. If shuffled, batches left over after an equal number per process are dropped in
            that epoch; otherwise none are.

    Raises:
        InputError: for sizes out of range, and if no tree is left.
    """

    carries_state = False

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
        limits = {"maximum_trees": maximum_trees, "maximum_words": maximum_words}
        check_arguments(seed, rank, ranks, token_budget=token_budget, **limits)
        self.corpus = corpus
        self.token_budget = token_budget
        self.maximum_trees = maximum_trees
        self.shuffle = shuffle
        self.seed = seed
        self.mixed = mixed
        self.rank = rank
        self.ranks = ranks
        words = corpus.text.lengths
        self._chosen: Integers = np.flatnonzero(words <= (maximum_words or words.max()))
        self.skipped = len(corpus) - len(self._chosen)
        if not len(self._chosen):
            raise InputError(
                f"{corpus.source or 'the corpus'}: found only trees of more than {maximum_words} words ({len(corpus)}"
                " trees); expected some that are not larger. Raise batches.maximum_words"
            )

    def epoch(self, number: int) -> list[Integers]:
        """Return the batches of an epoch as tree indices; determined by seed and number."""
        if not self.shuffle:
            lengths = self.corpus.text.lengths[self._chosen]
            depths = self.corpus.depths[self._chosen]
            return self._cut(self._chosen[np.lexsort((-lengths, -depths))], 1.0)[self.rank :: self.ranks]
        random = np.random.default_rng([self.seed, number])
        noise = random.random(len(self._chosen))
        order = noise if self.mixed else self.corpus.depths[self._chosen] + DEPTH_NOISE * noise
        # The first batch has a random smaller size, which shifts all later cuts.
        batches = self._cut(self._chosen[np.argsort(-order)], random.random())
        batches = [batches[place] for place in random.permutation(len(batches))]
        return share(batches, self.rank, self.ranks, "trees")

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch."""
        return len(self.epoch(epoch))

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TreeBatch]:
        """Yield the batches of an epoch from number `start` on, from 0."""
        for indices in itertools.islice(self.epoch(epoch), start, None):
            yield self.batch(indices)

    def batch(self, indices: Integers) -> TreeBatch:
        """Return the batch of these trees."""
        corpus = self.corpus
        offsets = np.asarray(self.corpus.text.offsets)

        # Of each word of the batch: its tree, and its positions in the tree, in the batch and in the corpus.
        lengths = corpus.text.lengths[indices]
        trees = np.repeat(np.arange(len(indices)), lengths)
        firsts = (np.cumsum(lengths) - lengths)[trees]  # index of the first word of each word's tree in the batch
        positions = np.arange(len(trees)) - firsts
        places = offsets[indices][trees] + positions

        # Steps are sorted by path depth, then by edge type.
        kinds = EDGES * (corpus.paths.depths[places] - 1) + corpus.paths.edges[places]
        order = np.argsort(kinds, kind="stable")
        counts = np.bincount(kinds, minlength=EDGES * int(corpus.depths[indices].max()))
        rows = np.zeros(len(order) + 1, np.int64)  # index of each word's state, from 1, after ROOT
        rows[order + 1] = np.arange(1, len(order) + 1)
        trees = trees[order]
        positions = positions[order]
        places = places[order]
        firsts = firsts[order]

        # The word that each edge leaves.
        parents = corpus.paths.parents[places].astype(np.int64)
        sources = places - positions + parents - 1  # positions in the corpus of the words that the edges leave
        return TreeBatch(
            words=_ids_at(corpus.text.ids, sources, parents, corpus.root_id),
            targets=torch.from_numpy(corpus.text.ids[places].astype(np.int64)),
            labels=_ids_at(corpus.labels, sources, parents, corpus.root_label_id),
            trees=torch.from_numpy(trees),
            positions=torch.from_numpy(positions),
            indices=torch.from_numpy(indices.copy()),
            levels=Levels.of(
                torch.from_numpy(rows[np.where(parents > 0, firsts + parents, 0)]),
                tuple(map(tuple, counts.reshape(-1, EDGES).tolist())),
            ),
        )

    def places(self, batch: TreeBatch) -> Tensor:
        """Return the position of each step's generated word among all words of the corpus: (n,) int64."""
        offsets = torch.from_numpy(np.asarray(self.corpus.text.offsets))
        return offsets[batch.indices[batch.trees.cpu()]] + batch.positions.cpu()

    def _cut(self, order: Integers, first: float) -> list[Integers]:
        """Cut trees into batches under the budget.

        Args:
            first: fraction of the budget used by the first batch.
        """
        ends = np.cumsum(self.corpus.text.lengths[order])
        batches: list[Integers] = []
        start = words_before = 0
        budget = int(self.token_budget * first)
        while start < len(order):
            end = max(start + 1, int(np.searchsorted(ends, words_before + budget, side="right")))
            end = min(end, start + (self.maximum_trees or len(order)))
            batches.append(order[start:end])
            start = end
            words_before = int(ends[end - 1])
            budget = self.token_budget
        return batches


def _ids_at(ids: npt.NDArray[np.integer], sources: Integers, parents: Integers, root: int) -> Tensor:
    """Return the ids at positions of the corpus, or ROOT's if the parent is ROOT: (n,) int64."""
    return torch.from_numpy(np.where(parents > 0, ids[np.maximum(sources, 0)], root).astype(np.int64))
