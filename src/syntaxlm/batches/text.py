"""Batches of a text: as independent sentences, or as one stream whose state is carried from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from syntaxlm.core.arrays import Integers
from syntaxlm.core.errors import InputError
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.models.batches import TokenBatch
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.spans import SpanSets, item_indices


def words_at(corpus: EncodedCorpus, places: Integers) -> Integers:
    """Return corpus.ids[places] as int64, with arbitrary values for positions out of range, which the caller
    overwrites.
    """
    if not len(corpus.ids):
        return np.zeros(places.shape, np.int64)
    return corpus.ids[np.clip(places, 0, len(corpus.ids) - 1)].astype(np.int64)


def check_arguments(seed: int, rank: int, ranks: int, **sizes: int | None) -> None:
    """Raise InputError for sizes under 1, a seed under 0 and a rank out of range."""
    limits = {name: (size, 1) for name, size in sizes.items() if size is not None} | {"seed": (seed, 0)}
    limits |= {"ranks": (ranks, 1)}
    faults = [
        f"{name}: found {value}; expected {limit} or more" for name, (value, limit) in limits.items() if value < limit
    ]
    if not 0 <= rank < max(1, ranks):
        faults.append(f"rank: found {rank}; expected 0 to {ranks - 1}")
    if faults:
        raise InputError("\n".join(faults))


def share(batches: list[Integers], rank: int, ranks: int, unit: str) -> list[Integers]:
    """Return every ranks-th batch of an epoch in training; batches left over after an equal number each are dropped."""
    batches = batches[: len(batches) // ranks * ranks]
    if not batches:
        raise InputError(
            f"found too few {unit} for {ranks} processes; expected at least one batch for each process. Use more text,"
            " smaller batches (batches.token_budget or batches.batch_size) or fewer processes"
        )
    return batches[rank::ranks]


# Sentences are sorted by length * (1 + at most this): neighbours differ from epoch to epoch even if few sentences have
# the same length, and there is little padding.
LENGTH_NOISE = 0.03


class SentenceBatches:
    """A corpus as independent sentences: with BOS w w w as input, w w w EOS is predicted.

    Args:
        corpus: the sentences.
        vocabulary: of the corpus.
        token_budget: tokens per batch, steps times sentences, including padding; a longer sentence is a batch by
            itself.
        shuffle: for training, whether sentences and batches are in a new order every epoch; otherwise they are sorted
            from the longest sentence to the shortest.
        seed: of the shuffling, at least 0.
        mixed: for training, whether each batch mixes sentences of all lengths, for models that normalise the tokens of
            a batch together; the budget then counts real tokens. Otherwise batches have similar lengths, which needs
            the least padding.
        maximum_words: longer sentences are excluded and counted in `skipped`; None for no limit. For training only.
        closed: whether EOS is also an input, as needed for parsing: BOS w w w EOS. The target of this EOS is another
            EOS and not a prediction of the corpus.
        rank: index of this process. Each process takes every ranks-th batch.
        ranks: number of processes. If shuffled, batches left over after an equal number per process are dropped in
            that epoch; otherwise none are.
        spans: of trees of the corpus's sentences, for training. A batch has the spans that end just before one of its
            steps; without `closed`, the spans that end a sentence have no such step.
        predict_eos: whether EOS is predicted; otherwise the input is BOS w w, and w w w is predicted.
        curriculum: maximum words in epochs 0, 1, ...; after that `maximum_words`. For training only.
        final_spans: whether a batch also has the spans that end a sentence, at a step after its last.
        span_interval: only every so many batches of an epoch have spans.

    Raises:
        InputError: for a budget or limit under 1, and if no sentence is left.
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
        maximum_words: int | None = None,
        closed: bool = False,
        rank: int = 0,
        ranks: int = 1,
        spans: SpanSets | None = None,
        predict_eos: bool = True,
        curriculum: Sequence[int] = (),
        final_spans: bool = False,
        span_interval: int = 1,
    ) -> None:
        check_arguments(seed, rank, ranks, token_budget=token_budget, maximum_words=maximum_words)
        if spans is not None and not np.array_equal(spans.lengths, corpus.lengths):
            raise ValueError("the spans do not fit the sentences of the corpus")
        self.corpus = corpus
        self.vocabulary = vocabulary
        self.closed = closed
        self.token_budget = token_budget
        self.shuffle = shuffle
        self.seed = seed
        self.rank = rank
        self.ranks = ranks
        self.mixed, self.spans = mixed, spans
        self._extra_steps = 2 if closed else int(predict_eos)  # of a sentence, besides one for each word
        self._lengths: Integers = corpus.lengths + self._extra_steps
        self._final_spans = final_spans
        self._span_interval = span_interval
        self._limits = [*curriculum, maximum_words]
        self.skipped = len(corpus) - len(self._chosen(len(curriculum)))
        for limit in self._limits:
            if limit is not None and limit < corpus.lengths.min():
                source = corpus.source or "the corpus"
                raise InputError(
                    f"{source}: found only sentences of more than {limit} words ({len(corpus)} sentences); expected"
                    " some that are not longer. Raise the limit, batches.maximum_words or batches.curriculum"
                )

    def _chosen(self, epoch: int) -> Integers:
        """Return the sentences of an epoch, as indices."""
        limit = self._limits[min(epoch, len(self._limits) - 1)]
        words = self._lengths - self._extra_steps
        return np.flatnonzero(words <= (words.max() if limit is None else limit))

    def epoch(self, number: int) -> list[Integers]:
        """Return the batches of an epoch as sentence indices, longest sentence first; a function of seed and number."""
        chosen = self._chosen(number)
        lengths = self._lengths[chosen]
        if not self.shuffle:
            order = np.argsort(-lengths, kind="stable")
            return self._cut(chosen[order], lengths[order], 1.0)[self.rank :: self.ranks]
        random = np.random.default_rng([self.seed, number])
        if self.mixed:
            batches = self._mixed(random, chosen)
        else:
            noisy = lengths * (1 + LENGTH_NOISE * random.random(len(lengths))) + random.random(len(lengths))
            order = np.argsort(-noisy)

            # No later sentence is longer than the integer part of the noisy length, so cutting by that keeps the
            # budget. The first batch has a random smaller size, which shifts all later cuts.
            batches = self._cut(chosen[order], noisy[order].astype(np.int64), random.random())
            batches = [batches[place] for place in random.permutation(len(batches))]
        batches = [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in batches]
        return share(batches, self.rank, self.ranks, "sentences")

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch."""
        return len(self.epoch(epoch))

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TokenBatch]:
        """Yield the batches of an epoch from number `start` on, counted from 0; tokens are (longest, sentences)."""
        for number, indices in enumerate(self.epoch(epoch)[start:], start):
            yield self.batch(indices, with_spans=number % self._span_interval == 0)

    def batch(self, indices: Integers, with_spans: bool = True) -> TokenBatch:
        """Return the batch of these sentences, in this order, padded with EOS.

        Args:
            with_spans: whether it has `spans`.
        """
        lengths = self._lengths[indices]
        words = lengths - self._extra_steps
        steps = np.arange(lengths.max())[:, None]

        # Inputs are the targets one step later, after BOS.
        targets = words_at(self.corpus, self.corpus.offsets[indices] + steps)
        targets[steps >= words] = self.vocabulary.end_id
        first = np.full((1, len(indices)), self.vocabulary.begin_id, np.int64)

        # Step 0 reads BOS, so word k, counted from 1, is read at step k: this is where the marks after it and its spans
        # are. A sentence has one gap for marks more than it has words.
        marks = None
        if self.corpus.marks is not None:
            places = self.corpus.offsets[indices] + indices + steps
            real = steps <= words
            marks = torch.from_numpy(self.corpus.marks[np.where(real, places, 0)] * real)
        spans = None
        if self.spans is not None and with_spans:
            places = item_indices(self.spans.offsets, indices)
            columns = np.repeat(np.arange(len(indices)), np.diff(self.spans.offsets)[indices])
            ends = self.spans.ends[places].astype(np.int64)
            spans = np.stack([ends + 1, columns, ends - self.spans.starts[places]], axis=1)
            if not self._final_spans:
                spans = spans[ends + 1 < lengths[columns]]
        return TokenBatch(
            tokens=torch.from_numpy(np.concatenate([first, targets[:-1]])),
            targets=torch.from_numpy(targets),
            lengths=torch.from_numpy(lengths),
            indices=torch.from_numpy(indices.copy()),
            spans=None if spans is None else torch.from_numpy(spans),
            marks=marks,
        )

    def places(self, batch: TokenBatch) -> Tensor:
        """Return the position of each real step of a batch among all predictions, concatenated by sentence.

        (n,) int64, in the order of `TokenBatch.mask()`. Not for `closed` batches, which have more steps.
        """
        assert batch.indices is not None
        indices = batch.indices.cpu().numpy()
        steps = np.arange(len(batch.tokens))[:, None]
        # If EOS is predicted, each previous sentence adds one.
        places: Integers = np.asarray(self.corpus.offsets)[indices] + self._extra_steps * indices + steps
        return torch.from_numpy(places[batch.mask().cpu().numpy()])

    def _mixed(self, random: np.random.Generator, chosen: Integers) -> list[Integers]:
        """Return sentences in random order, cut into batches of as many real tokens as the budget allows.

        If possible, a batch is filled to exactly the budget with a sentence of the missing length: matrix products of
        one size are prepared once and cached, while new sizes in every batch would fill memory.
        """
        order = random.permutation(chosen)
        lengths = self._lengths[order].tolist()
        by_length: dict[int, list[int]] = {}
        for place, length in enumerate(lengths):
            by_length.setdefault(length, []).append(place)
        used = np.zeros(len(order), bool)
        batches: list[Integers] = []
        place = 0
        while place < len(order):
            # Sentences in their random order, as long as they fit.
            batch: list[int] = []
            room = self.token_budget
            while place < len(order):
                if not used[place]:
                    if lengths[place] > room and batch:
                        break
                    used[place] = True
                    batch.append(place)
                    room -= lengths[place]
                place += 1

            # A later sentence that fills the batch exactly.
            if room > 0:
                fitting = by_length.get(room, [])
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

        Args:
            order: the sentences, as indices.
            bounds: decreasing; no sentence from here on is longer.
            first: fraction of the budget used by the first batch.
        """
        batches: list[Integers] = []
        start, budget = 0, max(1, int(self.token_budget * first))
        while start < len(order):
            size = max(1, budget // int(bounds[start]))
            batches.append(order[start : start + size])
            start, budget = start + size, self.token_budget
        return batches


# Variable bptt lengths: normal around the setting, or in a few batches around half of it, within bounds.
SHARE_AROUND_BPTT = 0.95
BPTT_STD = 5.0
SHORTEST_BPTT = 5
LARGEST_EXCESS_OF_BPTT = 10


class StreamBatches:
    """A corpus as one stream, w w w EOS w w EOS, in parallel columns of as equal length as possible.

    The first input of every column is the preceding token of the stream, BOS for the first column. Every batch except
    the first continues the previous one (`carries`).

    Args:
        corpus: the sentences.
        vocabulary: of the corpus.
        batch_size: columns, over all processes; fewer if the stream has fewer tokens.
        bptt: steps per batch. A step that only some columns have is added to the last batch, which then has `lengths`;
            it is never a separate batch, so no column of a batch is empty.
        rank: index of this process, which has a share of the columns and the same number of batches as the others.
        ranks: number of processes.
        variable_bptt: for training, whether the steps of each batch are resampled every epoch, around `bptt` (with
            probability 0.95) or half of it, at least 5, at most 10 more than `bptt`; the last batch has the rest.
            Merity et al. 2018, section 4.1.
        seed: of the sampling, at least 0.
        spans: of gold trees of the corpus's sentences, for training. A batch has the spans that end just before one of
            its steps and are in one column; they may start in an earlier batch.
        span_interval: only every so many batches of an epoch have spans.

    Raises:
        InputError: for sizes under 1, a seed under 0, and for fewer columns than processes.
    """

    carries_state = True

    def __init__(
        self,
        corpus: EncodedCorpus,
        vocabulary: Vocabulary,
        batch_size: int,
        bptt: int,
        rank: int = 0,
        ranks: int = 1,
        variable_bptt: bool = False,
        seed: int = 0,
        spans: SpanSets | None = None,
        span_interval: int = 1,
    ) -> None:
        check_arguments(seed, rank, ranks, batch_size=batch_size, bptt=bptt)
        if spans is not None and not np.array_equal(spans.lengths, corpus.lengths):
            raise ValueError("the spans do not fit the sentences of the corpus")
        self.corpus = corpus
        self.vocabulary = vocabulary
        self.bptt = bptt
        self.variable_bptt = variable_bptt
        self.seed = seed
        self._span_interval = span_interval

        # Start of each sentence in the stream, which has one EOS for every previous sentence.
        self._starts: Integers = np.asarray(corpus.offsets) + np.arange(len(corpus) + 1)
        self.token_count = int(self._starts[-1])

        # Columns of as equal length as possible, of which this process has a share.
        columns = min(batch_size, self.token_count)
        if columns < ranks:
            raise InputError(
                f"found {columns} columns (batch size {batch_size}, {self.token_count} tokens) for {ranks} processes;"
                " expected at least one column for each process. Use larger batches, more text or fewer processes"
            )
        ends = np.linspace(0, columns, ranks + 1).astype(np.int64)
        mine = np.arange(ends[rank], ends[rank + 1])
        short, longer = divmod(self.token_count, columns)
        self._column_starts: Integers = mine * short + np.minimum(mine, longer)
        self._column_lengths: Integers = short + (mine < longer)
        self._shortest, self._longest = short, short + (longer > 0)
        self._spans = None if spans is None else self._spans_of_columns(spans)

    def _spans_of_columns(self, spans: SpanSets) -> Integers:
        """Return steps, columns and lengths of the spans within this process's columns, sorted by step: (3, n).

        The step, counted from 0, is the one that reads the token after the span; it predicts the token after its input.
        """
        lengths = spans.ends.astype(np.int64) - spans.starts
        targets = self._starts[spans.sentences()] + spans.ends + 1
        columns = np.searchsorted(self._column_starts, targets, side="right") - 1
        steps = targets - self._column_starts[columns]
        # Steps before the first column are negative.
        is_inside = (steps >= lengths) & (steps < self._column_lengths[columns])
        in_columns: Integers = np.stack([steps, columns, lengths])[:, is_inside]
        return in_columns[:, np.argsort(in_columns[0], kind="stable")]

    def __len__(self) -> int:
        """Return the number of batches; with variable bptt, of epoch 0."""
        return self.count()

    def __iter__(self) -> Iterator[TokenBatch]:
        return self.iterate()

    def count(self, epoch: int = 0) -> int:
        """Return the number of batches of an epoch."""
        return len(self._cuts(epoch)) - 1

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TokenBatch]:
        """Yield the batches of an epoch from number `start` on, from 0; tokens are (steps, columns of this process)."""
        cuts = self._cuts(epoch)
        for number in range(start, len(cuts) - 1):
            begin, end = int(cuts[number]), int(cuts[number + 1])
            lengths = np.minimum(self._column_lengths, end) - begin
            steps = np.arange(begin, end)[:, None]
            targets = self._tokens(self._column_starts + np.minimum(steps, self._column_lengths - 1))
            before = np.concatenate([self._tokens(self._column_starts[None] + begin - 1), targets[:-1]])
            ragged = bool((lengths < end - begin).any())
            spans = None
            if self._spans is not None and number % self._span_interval == 0:
                first, last = np.searchsorted(self._spans[0], [begin, end])
                spans = torch.from_numpy(self._spans[:, first:last].T - [begin, 0, 0])
            yield TokenBatch(
                tokens=torch.from_numpy(before),
                targets=torch.from_numpy(targets),
                lengths=torch.from_numpy(lengths) if ragged else None,
                carries=number > 0,
                spans=spans,
                ends=None if spans is None else torch.from_numpy(before == self.vocabulary.end_id),
            )

    def _cuts(self, epoch: int) -> Integers:
        """Return the first step of each batch of an epoch, and the end of the last: (batches + 1,)."""
        if self.variable_bptt:
            random = np.random.default_rng([self.seed, epoch])
            count = -(-self._shortest // SHORTEST_BPTT)  # enough for the shortest column
            means = np.where(random.random(count) < SHARE_AROUND_BPTT, self.bptt, self.bptt / 2)
            steps = random.normal(means, BPTT_STD).astype(np.int64)
            ends = np.cumsum(np.clip(steps, SHORTEST_BPTT, self.bptt + LARGEST_EXCESS_OF_BPTT))
            begins = np.concatenate([[0], ends[ends < self._shortest]])
        else:
            begins = np.arange(0, self._shortest, self.bptt)
        return np.append(begins, self._longest)

    def _tokens(self, positions: Integers) -> Integers:
        """Return the tokens at positions of the stream; BOS at the position before the first token."""
        sentences = np.searchsorted(self._starts, positions, side="right") - 1
        is_end = positions == self._starts[np.minimum(sentences + 1, len(self._starts) - 1)] - 1
        tokens = words_at(self.corpus, positions - sentences)
        tokens[is_end] = self.vocabulary.end_id
        tokens[positions < 0] = self.vocabulary.begin_id
        return tokens
