"""Batches of a corpus as one stream: the state is carried from batch to batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from syntaxlm.batches.checks import Integers, check_positive, check_rank, check_seed, check_spans, words_at
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.errors import InputError
from syntaxlm.models.batches import TokenBatch
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.spans import SpanSets

# Variable bptt lengths: normal around the setting, or in a few batches around half of it, within bounds.
FULL_SHARE = 0.95
STEPS_SPREAD = 5.0
FEWEST_STEPS = 5
MOST_MORE_STEPS = 10


class StreamBatches:
    """A corpus as one stream, w w w EOS w w EOS, in parallel columns of as equal length as possible.

    batch_size: columns, over all processes; fewer if the stream has fewer tokens.
    bptt: steps per batch. A step that only some columns have is added to the last batch, which then has `lengths`; it
        is never a separate batch, so no column of a batch is empty.
    rank, ranks: index of this process and number of processes; each has a share of the columns and the same number of
        batches.
    variable_bptt: for training, whether the steps of each batch are resampled every epoch, around `bptt` (with
        probability 0.95) or half of it, at least 5, at most 10 more than `bptt`; the last batch has the rest.
        Merity et al. 2018, section 4.1. seed: of the sampling, at least 0.
    spans: of gold trees of the corpus's sentences, for training. A batch has the spans that end just before one of its
        steps and are in one column; they may start in an earlier batch.
    The first input of every column is the preceding token of the stream, BOS for the first column. Every batch except
    the first continues the previous one (`carries`).
    Raises InputError for sizes under 1, a seed under 0, and for fewer columns than processes.
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
    ) -> None:
        check_positive(batch_size=batch_size, bptt=bptt)
        check_spans(spans, corpus)
        check_rank(rank, ranks)
        check_seed(seed)
        self.corpus, self.vocabulary, self.bptt = corpus, vocabulary, bptt
        self.variable_bptt, self.seed = variable_bptt, seed
        # Start of each sentence in the stream, which has one EOS for every previous sentence.
        self._begins: Integers = np.asarray(corpus.offsets) + np.arange(len(corpus) + 1)
        self.token_count = int(self._begins[-1])
        columns = min(batch_size, self.token_count)
        if columns < ranks:
            raise InputError(
                f"{columns} columns (batch size {batch_size}, {self.token_count} tokens) are too few for {ranks}"
                " processes; each needs at least one"
            )
        ends = np.linspace(0, columns, ranks + 1).astype(np.int64)
        mine = np.arange(ends[rank], ends[rank + 1])
        short, longer = divmod(self.token_count, columns)
        self._column_starts: Integers = mine * short + np.minimum(mine, longer)
        self._column_lengths: Integers = short + (mine < longer)
        self._shortest, self._longest = short, short + (longer > 0)
        self._spans = None if spans is None else self._in_columns(spans)

    def __len__(self) -> int:
        """Number of batches; with variable bptt, of epoch 0."""
        return self.count()

    def __iter__(self) -> Iterator[TokenBatch]:
        return self.iterate()

    def count(self, epoch: int = 0) -> int:
        """Number of batches of an epoch."""
        return len(self._cuts(epoch)) - 1

    def iterate(self, epoch: int = 0, start: int = 0) -> Iterator[TokenBatch]:
        """The batches of an epoch from number `start` on, from 0. tokens, targets: (steps, columns of this process)."""
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
        """(3, n): steps, columns and lengths of the spans within this process's columns, sorted by step.

        The step, counted from 0, is the one that reads the token after the span.
        """
        lengths = spans.ends.astype(np.int64) - spans.starts
        # A step predicts the token after its input.
        targets = self._begins[spans.sentences()] + spans.ends + 1
        columns = np.searchsorted(self._column_starts, targets, side="right") - 1
        steps = targets - self._column_starts[columns]
        # Steps before the first column are negative.
        inside = (steps >= lengths) & (steps < self._column_lengths[columns])
        found: Integers = np.stack([steps, columns, lengths])[:, inside]
        return found[:, np.argsort(found[0], kind="stable")]

    def _spans_between(self, begin: int, end: int) -> Tensor | None:
        """`TokenBatch.spans` of a batch with the columns' steps from `begin` to `end`."""
        if self._spans is None:
            return None
        first, last = np.searchsorted(self._spans[0], [begin, end])
        steps, columns, lengths = self._spans[:, first:last]
        return torch.from_numpy(np.stack([steps - begin, columns, lengths], axis=1))

    def _cuts(self, epoch: int) -> Integers:
        """(batches + 1,) the first step of each batch of an epoch, and the end of the last."""
        if self.variable_bptt:
            ends = np.cumsum(self._drawn_lengths(epoch))
            begins = np.concatenate([[0], ends[ends < self._shortest]])
        else:
            begins = np.arange(0, self._shortest, self.bptt)
        return np.append(begins, self._longest)

    def _drawn_lengths(self, epoch: int) -> Integers:
        """Random numbers of steps, enough for the shortest column; determined by seed and epoch."""
        random = np.random.default_rng([self.seed, epoch])
        count = -(-self._shortest // FEWEST_STEPS)
        means = np.where(random.random(count) < FULL_SHARE, self.bptt, self.bptt / 2)
        drawn = random.normal(means, STEPS_SPREAD).astype(np.int64)
        return np.clip(drawn, FEWEST_STEPS, self.bptt + MOST_MORE_STEPS)

    def _tokens(self, positions: Integers) -> Integers:
        """The tokens at positions of the stream; BOS at the position before the first token."""
        sentences = np.searchsorted(self._begins, positions, side="right") - 1
        is_end = positions == self._begins[np.minimum(sentences + 1, len(self._begins) - 1)] - 1
        tokens = words_at(self.corpus, positions - sentences)
        tokens[is_end] = self.vocabulary.end_id
        tokens[positions < 0] = self.vocabulary.begin_id
        return tokens
