"""Batches of an encoded corpus: as one stream, its state carried, or as sentences, each by itself.

In both every token is a target exactly once: perplexity does not depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.models.contract import TokenBatch
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.spans import SpanSets

Integers = npt.NDArray[np.int64]

# Sentences of like length are batched in an order of length * (1 + at most this): neighbours differ from epoch to
# epoch even where few sentences have one length, and the padding stays small.
LENGTH_NOISE = 0.03

# Random steps of a stream's batches: normal around all of them, or in a few batches around half, within bounds.
FULL_SHARE = 0.95
STEPS_SPREAD = 5.0
FEWEST_STEPS = 5
MOST_MORE_STEPS = 10


class StreamBatches:
    """The corpus as one stream, w w w end w w end, in parallel columns of as equal length as possible.

    batch_size: columns, over all processes; fewer when the stream has fewer tokens.
    steps: of a batch. A step that only some columns have is added to the last batch, which gives the `lengths`; it is
        never a batch of its own, so no column of a batch is empty.
    rank, ranks: which of how many processes this is; each has a share of the columns, all as many batches.
    variable_bptt: for training, whether the steps of each batch are drawn anew every epoch, around `steps` (with
        probability 0.95) or half of them, at least 5, at most 10 more than `steps`; the last batch has what is left.
        Merity et al. 2018, section 4.1. seed: of the drawing, at least 0.
    spans: of gold trees of the corpus's sentences, for training. A batch has those that end just before one of its
        steps and lie in one column; they may begin in a batch before.
    Every column reads first the token before it in the stream, the first one `begin`. Every batch but the first
    continues the one before (`carries`).
    Raises InputError for sizes under 1, a seed under 0, and for fewer columns than processes.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        vocabulary: Vocabulary,
        batch_size: int,
        steps: int,
        rank: int = 0,
        ranks: int = 1,
        variable_bptt: bool = False,
        seed: int = 0,
        spans: SpanSets | None = None,
    ) -> None:
        _check_positive(batch_size=batch_size, steps=steps)
        _check_spans(spans, corpus)
        _check_rank(rank, ranks)
        _check_seed(seed)
        self.corpus, self.vocabulary, self.steps = corpus, vocabulary, steps
        self.variable_bptt, self.seed = variable_bptt, seed
        # Where each sentence begins in the stream, which has one end more for every sentence before.
        self._begins: Integers = np.asarray(corpus.offsets) + np.arange(len(corpus) + 1)
        self.token_count = int(self._begins[-1])
        columns = min(batch_size, self.token_count)
        if columns < ranks:
            raise InputError(
                f"{columns} columns (batch size {batch_size}, {self.token_count} tokens) are too few for {ranks}"
                " processes: each needs one"
            )
        ends = np.linspace(0, columns, ranks + 1).astype(np.int64)
        mine = np.arange(ends[rank], ends[rank + 1])
        short, longer = divmod(self.token_count, columns)
        self._column_starts: Integers = mine * short + np.minimum(mine, longer)
        self._column_lengths: Integers = short + (mine < longer)
        self._shortest, self._longest = short, short + (longer > 0)
        self._spans = None if spans is None else self._in_columns(spans)

    def __len__(self) -> int:
        """How many batches; of epoch 0 where their steps are random."""
        return self.count()

    def __iter__(self) -> Iterator[TokenBatch]:
        return self.iterate()

    def count(self, epoch: int = 0) -> int:
        """How many batches an epoch has."""
        return len(self._cuts(epoch)) - 1

    def iterate(self, start: int = 0, epoch: int = 0) -> Iterator[TokenBatch]:
        """The batches of an epoch from number `start` on, 0 first. tokens, targets: (steps, this process's columns)."""
        cuts = self._cuts(epoch)
        for number in range(start, len(cuts) - 1):
            begin, end = int(cuts[number]), int(cuts[number + 1])
            lengths = np.minimum(self._column_lengths, end) - begin
            steps = np.arange(begin, end)[:, None]
            targets = self._tokens(self._column_starts + np.minimum(steps, self._column_lengths - 1))
            before = np.concatenate([self._tokens(self._column_starts[None] + begin - 1), targets[:-1]])
            ragged = bool((lengths < end - begin).any())
            yield TokenBatch(
                tokens=torch.from_numpy(before),
                targets=torch.from_numpy(targets),
                lengths=torch.from_numpy(lengths) if ragged else None,
                carries=number > 0,
                spans=self._spans_between(begin, end),
            )

    def _in_columns(self, spans: SpanSets) -> Integers:
        """(3, n): steps, columns, lengths of the spans inside this process's columns, in the order of the steps.

        The step is that of the column, 0 first, which reads the token after the span.
        """
        lengths = spans.ends.astype(np.int64) - spans.starts
        # A step predicts the token after the one it reads.
        targets = self._begins[spans.sentences()] + spans.ends + 1
        columns = np.searchsorted(self._column_starts, targets, side="right") - 1
        steps = targets - self._column_starts[columns]
        # Before the first column steps are negative.
        inside = (steps >= lengths) & (steps < self._column_lengths[columns])
        found: Integers = np.stack([steps, columns, lengths])[:, inside]
        return found[:, np.argsort(found[0], kind="stable")]

    def _spans_between(self, begin: int, end: int) -> Tensor | None:
        """`TokenBatch.spans` of a batch that has the columns' steps from `begin` to `end`."""
        if self._spans is None:
            return None
        first, last = np.searchsorted(self._spans[0], [begin, end])
        steps, columns, lengths = self._spans[:, first:last]
        return torch.from_numpy(np.stack([steps - begin, columns, lengths], axis=1))

    def _cuts(self, epoch: int) -> Integers:
        """(batches + 1,) where the batches of an epoch begin in a column, and where the last one ends."""
        if self.variable_bptt:
            ends = np.cumsum(self._drawn_lengths(epoch))
            begins = np.concatenate([[0], ends[ends < self._shortest]])
        else:
            begins = np.arange(0, self._shortest, self.steps)
        return np.append(begins, self._longest)

    def _drawn_lengths(self, epoch: int) -> Integers:
        """Steps of batches, enough of them for the shortest column; a function of seed and epoch."""
        random = np.random.default_rng([self.seed, epoch])
        count = -(-self._shortest // FEWEST_STEPS)
        means = np.where(random.random(count) < FULL_SHARE, self.steps, self.steps / 2)
        drawn = random.normal(means, STEPS_SPREAD).astype(np.int64)
        return np.clip(drawn, FEWEST_STEPS, self.steps + MOST_MORE_STEPS)

    def _tokens(self, positions: Integers) -> Integers:
        """The tokens at positions of the stream; that before the first one is `begin`."""
        sentences = np.searchsorted(self._begins, positions, side="right") - 1
        is_end = positions == self._begins[np.minimum(sentences + 1, len(self._begins) - 1)] - 1
        tokens = _words_at(self.corpus, positions - sentences)
        tokens[is_end] = self.vocabulary.end_id
        tokens[positions < 0] = self.vocabulary.begin_id
        return tokens


class SentenceBatches:
    """The corpus as sentences, each by itself: begin w w w is read, w w w end is predicted.

    ends: whether the end is predicted; else begin w w is read, w w w predicted.

    token_budget: tokens of a batch, (steps) * (sentences), padding included; a longer sentence is a batch by itself.
    shuffle: for training, whether sentences and batches come in a new order every epoch. Else they come from the
        longest sentence to the shortest, the same every time. seed: of the shuffling, at least 0.
    mixed: for training, whether each batch mixes sentences of all lengths, for models that normalise a batch's tokens
        together; the budget is then of real tokens. Else batches are of like length, which wastes least on padding.
    maximum_sentences: of a batch; None for no limit.
    maximum_words: longer sentences are left out, and counted in `skipped`; None for no limit. For training only.
    closed: whether the sentences' ends are read, too, as parsing wants it: begin w w w end. What follows an end in
        `targets` is an end again, and no prediction of the corpus.
    rank, ranks: which of how many processes this is. It takes every ranks-th batch. When shuffled, what is left over
        once every process has as many batches is dropped from that epoch; else nothing is.
    spans: of gold trees of the corpus's sentences, for training. A batch has those that end just before one of its
        steps; of a sentence that is not `closed`, those that end with it have no such step.
    Raises InputError for a budget or limit under 1, and when no sentence is left.
    """

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
        ends: bool = True,
    ) -> None:
        _check_spans(spans, corpus)
        limits = {"maximum_sentences": maximum_sentences, "maximum_words": maximum_words}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        _check_positive(token_budget=token_budget, **given)
        _check_rank(rank, ranks)
        _check_seed(seed)
        self.corpus, self.vocabulary, self.closed = corpus, vocabulary, closed
        self.token_budget, self.maximum_sentences = token_budget, maximum_sentences
        self.shuffle, self.seed, self.rank, self.ranks = shuffle, seed, rank, ranks
        self.mixed, self.spans = mixed, spans
        words = corpus.lengths
        self._more = 2 if closed else int(ends)  # steps of a sentence than words
        self._lengths: Integers = words + self._more
        self._chosen: Integers = np.flatnonzero(words <= (maximum_words or words.max()))
        self.skipped = len(corpus) - len(self._chosen)
        if not len(self._chosen):
            raise InputError(
                f"{corpus.source or 'the corpus'}: all {len(corpus)} sentences are longer than {maximum_words} words"
            )

    def epoch(self, number: int) -> list[Integers]:
        """The batches of an epoch as sentence indices, longest sentence first; a function of seed and number."""
        batches = self._shuffled(number) if self.shuffle else self._sorted()
        if self.shuffle:
            batches = batches[: len(batches) // self.ranks * self.ranks]
            if not batches:
                raise InputError(f"too few sentences for {self.ranks} processes: each needs a batch")
        return batches[self.rank :: self.ranks]

    def iterate(self, epoch: int, start: int = 0) -> Iterator[TokenBatch]:
        """The batches of an epoch from number `start` on, 0 first. tokens, targets: (longest, sentences)."""
        for indices in self.epoch(epoch)[start:]:
            yield self.batch(indices)

    def batch(self, indices: Integers) -> TokenBatch:
        """The batch of these sentences, in this order. Padding is `end`."""
        lengths = self._lengths[indices]
        words = lengths - self._more
        steps = np.arange(lengths.max())[:, None]
        targets = _words_at(self.corpus, self.corpus.offsets[indices] + steps)
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

    def _sorted(self) -> list[Integers]:
        lengths = self._lengths[self._chosen]
        order = np.argsort(-lengths, kind="stable")
        return self._cut(self._chosen[order], lengths[order], 1.0)

    def _shuffled(self, number: int) -> list[Integers]:
        random = np.random.default_rng([self.seed, number])
        if self.mixed:
            return [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in self._mixed(random)]
        lengths = self._lengths[self._chosen]
        noisy = lengths * (1 + LENGTH_NOISE * random.random(len(lengths))) + random.random(len(lengths))
        order = np.argsort(-noisy)
        # No later sentence is longer than the whole part of the noisy length here, so cutting by that keeps the budget.
        # The first batch is smaller by chance, which moves all cuts after it.
        batches = self._cut(self._chosen[order], noisy[order].astype(np.int64), random.random())
        batches = [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in batches]
        return [batches[place] for place in random.permutation(len(batches))]

    def _mixed(self, random: np.random.Generator) -> list[Integers]:
        """Sentences in random order, cut into batches of as many real tokens as the budget allows.

        A batch is filled up to the very budget with a sentence of the missing length where there still is one: products
        of one size are prepared once and kept, those of a new size in every batch fill memory.
        """
        order = random.permutation(self._chosen)
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


def _words_at(corpus: EncodedCorpus, places: Integers) -> Integers:
    """corpus.ids[places] as int64, with something where there is no such place: the caller overwrites it."""
    if not len(corpus.ids):
        return np.zeros(places.shape, np.int64)
    return corpus.ids[np.clip(places, 0, len(corpus.ids) - 1)].astype(np.int64)


def _check_spans(spans: SpanSets | None, corpus: EncodedCorpus) -> None:
    if spans is not None and not np.array_equal(spans.lengths, corpus.lengths):
        raise ValueError("the spans are of other sentences than the corpus's")


def _check_positive(**sizes: int) -> None:
    faults = [f"{name}: {size}; expected 1 or more" for name, size in sizes.items() if size < 1]
    if faults:
        raise InputError("\n".join(faults))


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"seed: {seed}; expected 0 or more")


def _check_rank(rank: int, ranks: int) -> None:
    if not 0 <= rank < ranks:
        raise InputError(f"rank {rank} of {ranks} processes; expected 0 to {ranks - 1}")
