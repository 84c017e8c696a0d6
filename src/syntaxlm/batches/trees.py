"""Batches of dependency trees: the steps that generate their words, level by level, without padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.data.dependencies import DependencyCorpus
from syntaxlm.errors import InputError
from syntaxlm.models.batches import TreeBatch
from syntaxlm.ops.tree_levels.types import EDGES, Levels

Integers = npt.NDArray[np.int64]

# Trees of like depth are batched in an order of depth + at most this, so that neighbours differ from epoch to epoch.
DEPTH_NOISE = 2.0


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
        least = {"token_budget": (token_budget, 1), "maximum_trees": (maximum_trees, 1),
                 "maximum_words": (maximum_words, 1), "seed": (seed, 0), "ranks": (ranks, 1)}  # fmt: skip
        faults = [
            f"{name}: found {value}; expected {limit} or more"
            for name, (value, limit) in least.items()
            if value is not None and value < limit
        ]
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

    def count(self, epoch: int = 0) -> int:
        """Number of batches of an epoch."""
        return len(self.epoch(epoch))

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TreeBatch]:
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
