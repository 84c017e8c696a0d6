"""Batches of a corpus as sentences, each read by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from syntaxlm.batches.checks import Integers, check_positive, check_rank, check_seed, check_spans, words_at
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.spans import SpanSets

# Sentences of like length are batched in an order of length * (1 + at most this): neighbours differ from epoch to
# epoch even where few sentences have one length, and the padding stays small.
LENGTH_NOISE = 0.03


class SentenceBatches:
    """The corpus as sentences, each by itself: begin w w w is read, w w w end is predicted.

    predict_eos: whether the end is predicted; else BOS w w is read, and w w w predicted.

    token_budget: tokens of a batch, (steps) * (sentences), padding included; a longer sentence is a batch by itself.
    shuffle: for training, whether sentences and batches come in a new order every epoch. Else they come from the
        longest sentence to the shortest, the same every time. seed: of the shuffling, at least 0.
    mixed: for training, whether each batch mixes sentences of all lengths, for models that normalise a batch's tokens
        together; the budget is then of real tokens. Else batches are of like length, which wastes least on padding.
    maximum_sentences: of a batch; None for no limit.
    maximum_words: longer sentences are left out, and counted in `skipped`; None for no limit. For training only.
    curriculum: the longest sentences of epochs 0, 1, ...; from then on `maximum_words`. For training only.
    closed: whether the sentences' ends are read, too, as parsing wants it: begin w w w end. What follows an end in
        `targets` is an end again, and no prediction of the corpus.
    rank, ranks: which of how many processes this is. It takes every ranks-th batch. When shuffled, what is left over
        once every process has as many batches is dropped from that epoch; else nothing is.
    spans: of trees of the corpus's sentences, for training. A batch has those that end just before one of its
        steps; of a sentence that is not `closed`, those that end with it have no such step.
    final_spans: whether a batch also has those that end with their sentence, at a step after its last.
    Raises InputError for a budget or limit under 1, and when no sentence is left.
    """

    carries_state = False

    def __init__(
        self,
        corpus: EncodedCorpus,
        vocabulary: Vocabulary,
        token_budget: int,
        shuffle: bool,
        seed: int,
        mixed: bool = False,
        maximum_sentences: int | None = None,
        maximum_words: int | None = None,
        closed: bool = False,
        rank: int = 0,
        ranks: int = 1,
        spans: SpanSets | None = None,
        predict_eos: bool = True,
        curriculum: Sequence[int] = (),
        final_spans: bool = False,
    ) -> None:
        check_spans(spans, corpus)
        limits = {"maximum_sentences": maximum_sentences, "maximum_words": maximum_words}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        check_positive(token_budget=token_budget, **given)
        check_rank(rank, ranks)
        check_seed(seed)
        self.corpus, self.vocabulary, self.closed = corpus, vocabulary, closed
        self.token_budget, self.maximum_sentences = token_budget, maximum_sentences
        self.shuffle, self.seed, self.rank, self.ranks = shuffle, seed, rank, ranks
        self.mixed, self.spans = mixed, spans
        self._more = 2 if closed else int(predict_eos)  # steps of a sentence than words
        self._lengths: Integers = corpus.lengths + self._more
        self._final_spans = final_spans
        self._limits = [*curriculum, maximum_words]
        self.skipped = len(corpus) - len(self._chosen(len(curriculum)))
        for limit in self._limits:
            if limit is not None and limit < corpus.lengths.min():
                source = corpus.source or "the corpus"
                raise InputError(f"{source}: all {len(corpus)} sentences are longer than {limit} words")

    def _chosen(self, epoch: int) -> Integers:
        """The sentences of an epoch, as indices."""
        limit = self._limits[min(epoch, len(self._limits) - 1)]
        words = self._lengths - self._more
        return np.flatnonzero(words <= (words.max() if limit is None else limit))

    def epoch(self, number: int) -> list[Integers]:
        """The batches of an epoch as sentence indices, longest sentence first; a function of seed and number."""
        chosen = self._chosen(number)
        batches = self._shuffled(number, chosen) if self.shuffle else self._sorted(chosen)
        if self.shuffle:
            batches = batches[: len(batches) // self.ranks * self.ranks]
            if not batches:
                raise InputError(f"too few sentences for {self.ranks} processes: each needs a batch")
        return batches[self.rank :: self.ranks]

    def count(self, epoch: int = 0) -> int:
        """Number of batches of an epoch."""
        return len(self.epoch(epoch))

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TokenBatch]:
        """The batches of an epoch from number `start` on, 0 first. tokens, targets: (longest, sentences)."""
        for indices in self.epoch(epoch)[start:]:
            yield self.batch(indices)

    def batch(self, indices: Integers) -> TokenBatch:
        """The batch of these sentences, in this order. Padding is `end`."""
        lengths = self._lengths[indices]
        words = lengths - self._more
        steps = np.arange(lengths.max())[:, None]
        targets = words_at(self.corpus, self.corpus.offsets[indices] + steps)
        targets[steps >= words] = self.vocabulary.end_id
        first = np.full((1, len(indices)), self.vocabulary.begin_id, np.int64)
        return TokenBatch(
            tokens=torch.from_numpy(np.concatenate([first, targets[:-1]])),
            targets=torch.from_numpy(targets),
            lengths=torch.from_numpy(lengths),
            indices=torch.from_numpy(indices.copy()),
            spans=self._spans_of(indices),
        )

    def _spans_of(self, indices: Integers) -> Tensor | None:
        """`TokenBatch.spans` of the batch of these sentences."""
        if self.spans is None:
            return None
        places = self.spans.places(indices)
        columns = np.repeat(np.arange(len(indices)), np.diff(self.spans.offsets)[indices])
        ends = self.spans.ends[places].astype(np.int64)
        # Step 0 reads begin, so word k, 1 first, is read at step k.
        spans = np.stack([ends + 1, columns, ends - self.spans.starts[places]], axis=1)
        if self._final_spans:
            return torch.from_numpy(spans)
        return torch.from_numpy(spans[ends + 1 < self._lengths[indices][columns]])

    def places(self, batch: TokenBatch) -> Tensor:
        """Where each real step of one of the batches is among all that is predicted, sentence after sentence.

        (n,) int64, in the order of `TokenBatch.mask()`. Not for `closed` batches, which have a step more a sentence.
        """
        assert batch.indices is not None
        indices = batch.indices.cpu().numpy()
        steps = np.arange(len(batch.tokens))[:, None]
        # As many ends more as there are sentences before, where they are predicted.
        places: Integers = np.asarray(self.corpus.offsets)[indices] + self._more * indices + steps
        return torch.from_numpy(places[batch.mask().cpu().numpy()])

    def _sorted(self, chosen: Integers) -> list[Integers]:
        lengths = self._lengths[chosen]
        order = np.argsort(-lengths, kind="stable")
        return self._cut(chosen[order], lengths[order], 1.0)

    def _shuffled(self, number: int, chosen: Integers) -> list[Integers]:
        random = np.random.default_rng([self.seed, number])
        if self.mixed:
            return [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in self._mixed(random, chosen)]
        lengths = self._lengths[chosen]
        noisy = lengths * (1 + LENGTH_NOISE * random.random(len(lengths))) + random.random(len(lengths))
        order = np.argsort(-noisy)
        # No later sentence is longer than the whole part of the noisy length here, so cutting by that keeps the budget.
        # The first batch is smaller by chance, which moves all cuts after it.
        batches = self._cut(chosen[order], noisy[order].astype(np.int64), random.random())
        batches = [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in batches]
        return [batches[place] for place in random.permutation(len(batches))]

    def _mixed(self, random: np.random.Generator, chosen: Integers) -> list[Integers]:
        """Sentences in random order, cut into batches of as many real tokens as the budget allows.

        A batch is filled up to the very budget with a sentence of the missing length where there still is one: products
        of one size are prepared once and kept, those of a new size in every batch fill memory.
        """
        order = random.permutation(chosen)
        lengths = self._lengths[order].tolist()
        places: dict[int, list[int]] = {}  # by length
        for place, length in enumerate(lengths):
            places.setdefault(length, []).append(place)
        used = np.zeros(len(order), bool)
        most = self.maximum_sentences or len(order)
        batches, place = [], 0
        while place < len(order):
            batch: list[int] = []
            room = self.token_budget
            while place < len(order) and len(batch) < most:
                if not used[place]:
                    if lengths[place] > room and batch:
                        break
                    used[place] = True
                    batch.append(place)
                    room -= lengths[place]
                place += 1
            if room > 0 and len(batch) < most:
                fitting = places.get(room, [])
                while fitting and used[fitting[-1]]:
                    fitting.pop()
                if fitting:
                    batch.append(fitting.pop())
                    used[batch[-1]] = True
            if batch:
                batches.append(order[batch])
        return batches

    def _cut(self, order: Integers, bounds: Integers, first: float) -> list[Integers]:
        """Cut sentences into batches under the budget.

        bounds: falling; no sentence from here on is longer.  first: the share of the budget that the first batch has.
        """
        batches = []
        begin = 0
        budget = max(1, int(self.token_budget * first))
        while begin < len(order):
            size = max(1, budget // int(bounds[begin]))
            if self.maximum_sentences is not None:
                size = min(size, self.maximum_sentences)
            batches.append(order[begin : begin + size])
            begin += size
            budget = self.token_budget
        return batches
