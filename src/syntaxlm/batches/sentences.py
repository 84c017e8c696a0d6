"""Batches of a corpus as independent sentences."""

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

# Sentences are sorted by length * (1 + at most this): neighbours differ from epoch to epoch even if few sentences have
# the same length, and there is little padding.
LENGTH_NOISE = 0.03


class SentenceBatches:
    """A corpus as independent sentences: with BOS w w w as input, w w w EOS is predicted.

    predict_eos: whether EOS is predicted; otherwise the input is BOS w w, and w w w is predicted.

    token_budget: tokens per batch, steps times sentences, including padding; a longer sentence is a batch by itself.
    shuffle: for training, whether sentences and batches are in a new order every epoch; otherwise they are sorted from
        the longest sentence to the shortest. seed: of the shuffling, at least 0.
    mixed: for training, whether each batch mixes sentences of all lengths, for models that normalise the tokens of a
        batch together; the budget then counts real tokens. Otherwise batches have similar lengths, for least padding.
    maximum_sentences: per batch; None for no limit.
    maximum_words: longer sentences are excluded and counted in `skipped`; None for no limit. For training only.
    curriculum: maximum words in epochs 0, 1, ...; after that `maximum_words`. For training only.
    closed: whether EOS is also an input, as needed for parsing: BOS w w w EOS. The target of this EOS is another EOS
        and not a prediction of the corpus.
    rank, ranks: index of this process and number of processes. Each takes every ranks-th batch. If shuffled, batches
        left over after an equal number per process are dropped in that epoch; otherwise none are.
    spans: of trees of the corpus's sentences, for training. A batch has the spans that end just before one of its
        steps; without `closed`, the spans that end a sentence have no such step.
    final_spans: whether a batch also has the spans that end a sentence, at a step after its last.
    Raises InputError for a budget or limit under 1, and if no sentence is left.
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
        self._more = 2 if closed else int(predict_eos)  # additional steps of a sentence, compared with its words
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
                raise InputError(f"too few sentences for {self.ranks} processes; each needs at least one batch")
        return batches[self.rank :: self.ranks]

    def count(self, epoch: int = 0) -> int:
        """Number of batches of an epoch."""
        return len(self.epoch(epoch))

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TokenBatch]:
        """The batches of an epoch from number `start` on, counted from 0. tokens, targets: (longest, sentences)."""
        for indices in self.epoch(epoch)[start:]:
            yield self.batch(indices)

    def batch(self, indices: Integers) -> TokenBatch:
        """The batch of these sentences, in this order, padded with EOS."""
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
        # Step 0 reads BOS, so word k, counted from 1, is read at step k.
        spans = np.stack([ends + 1, columns, ends - self.spans.starts[places]], axis=1)
        if self._final_spans:
            return torch.from_numpy(spans)
        return torch.from_numpy(spans[ends + 1 < self._lengths[indices][columns]])

    def places(self, batch: TokenBatch) -> Tensor:
        """The position of each real step of a batch among all predictions, concatenated by sentence.

        (n,) int64, in the order of `TokenBatch.mask()`. Not for `closed` batches, which have more steps.
        """
        assert batch.indices is not None
        indices = batch.indices.cpu().numpy()
        steps = np.arange(len(batch.tokens))[:, None]
        # If EOS is predicted, each previous sentence adds one.
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
        # No later sentence is longer than the integer part of the noisy length, so cutting by that keeps the budget.
        # The first batch has a random smaller size, which shifts all later cuts.
        batches = self._cut(chosen[order], noisy[order].astype(np.int64), random.random())
        batches = [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in batches]
        return [batches[place] for place in random.permutation(len(batches))]

    def _mixed(self, random: np.random.Generator, chosen: Integers) -> list[Integers]:
        """Sentences in random order, cut into batches of as many real tokens as the budget allows.

        If possible, a batch is filled to exactly the budget with a sentence of the missing length: matrix products of
        one size are prepared once and cached, while new sizes in every batch would fill memory.
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
        """Cuts sentences into batches under the budget.

        bounds: decreasing; no sentence from here on is longer.  first: fraction of the budget used by the first batch.
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
