"""The constituent-context model of Klein & Manning 2002, trained by EM.

Every span of a sentence has a yield, its words, and a context, the pair of words around it. The model draws a binary
tree B uniformly, then the yield and the context of every span, given whether the span is a constituent:

    P(s, B) = P(B) prod over spans (i, j) of P(yield(i, j) | B_ij) P(context(i, j) | B_ij)

Yields overlap, so the sum of P(s) over all sentences is far below 1: P(s) compares trees and parameters, but is no
probability of the sentence. The model therefore has a loss, but no sentence scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.core.settings import Positive
from syntaxlm.models.abilities import Criterion, HasLoss, Loss, Model, TrainsByCounting
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import LOG_PROBS
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import ChartParser, chart_spans
from syntaxlm.ops import charts
from syntaxlm.trees.charts import checked_length

CONSTITUENT, DISTITUENT = 0, 1
_SPANS_TOGETHER = 1 << 22  # most spans in the charts of a group of sentences


@dataclass(frozen=True)
class CCMConfig(BaseConfig):
    """Settings of the constituent-context model (Klein & Manning 2002).

    Attributes:
        constituent_smoothing: added to the count of every yield and context as a constituent
        distituent_smoothing: added to the count of every yield and context as a distituent
    """

    name: Literal["ccm"] = "ccm"
    constituent_smoothing: Positive = 2.0
    distituent_smoothing: Positive = 8.0


class SpanTypes(NamedTuple):
    """Of every span, the number of its yield and of its context: (n(n + 1)/2, B) each, see `syntaxlm.trees.charts`."""

    yields: Tensor
    contexts: Tensor


@model("ccm", CCMConfig)
class CCM(Model, TrainsByCounting, HasLoss, ChartParser):
    """Tables of yields and contexts, and the posterior probabilities of brackets under them.

    The first round determines the N yields and M contexts of the model. The row of a table after the last one is that
    of an unseen yield or context; its only count is the smoothing.

    Attributes:
        yields: (N,) rising keys; a yield is another one, its parent, and a word. The key is (parent + 1) V + word, with
            a parent of -1 for yields of one word.
        contexts: (M,) rising keys: left (V + 1) + right, where the boundary of a sentence is V.
        yield_log_probs: (2, N + 1).
        context_log_probs: (2, M + 1): natural log-probabilities given that the span is a constituent, and given that it
            is none.
    """

    reads = "sentences"
    criterion: ClassVar[Criterion] = Criterion("negative log-likelihood of yields and contexts", "nats per span")
    value_ranges: ClassVar = {"yield_log_probs": LOG_PROBS, "context_log_probs": LOG_PROBS}
    yields: Tensor
    contexts: Tensor
    yield_log_probs: Tensor
    context_log_probs: Tensor

    def __init__(self, config: CCMConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size = config, vocabulary_size
        for name in ("yields", "contexts"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64))
        for name in ("yield_log_probs", "context_log_probs"):
            self.register_buffer(name, torch.zeros(2, 1, dtype=torch.float64))
        self._clear()

    def _clear(self) -> None:
        self._waiting: list[tuple[Tensor, Tensor]] = []  # words and posteriors of the first round
        self._counts: tuple[Tensor, Tensor] | None = None  # of yields and contexts, in the shape of their tables
        self._log_likelihood, self._spans = 0.0, 0

    # ---- training

    def accumulate(self, batch: TokenBatch) -> None:
        """Add the expected counts of whole sentences; in the first round, under the random-split distribution."""
        for _, words in self._groups(batch):
            if not len(self.yields):
                self._count(words, random_split_marginals(len(words), words.shape[1]).to(words.device))
                continue
            types = self.types(words)
            chart = charts.marginals(self._log_weights(types))
            self._log_likelihood += float(self._log_likelihoods(types, chart.log_totals).sum())
            self._count(words, chart.spans, types)

    def accumulate_posteriors(self, batch: TokenBatch, posteriors: Tensor) -> None:
        """Add the counts of whole sentences, given the probability that each span is a constituent.

        For models that combine the CCM with another one and compute the posteriors jointly.

        Args:
            posteriors: (B, n, n + 1), indexed by first word and by the word after the last, from 0; 1 for single words
                and whole sentences. Values where there is no span are ignored.
        """
        for columns, words in self._groups(batch):
            starts, ends = chart_spans(len(words), words.device)
            self._count(words, posteriors[columns][:, starts, ends].T.to(self.yield_log_probs))

    def maximise(self) -> dict[str, Any]:
        """Set the tables to the smoothed relative frequencies of the counts.

        Returns, after the first round, the log-likelihood of the text before the update, with P(B) = 1 / number of
        binary trees, and as the objective what EM minimises: the negative of its sum with the logarithm of the
        smoothing's prior, per span. The numbers of distinct yields and contexts are returned after every round.

        Raises:
            InputError: without counts.
        """
        spans = self._spans
        if not spans:
            raise InputError("constituent-context model: found no sentence to count; expected one or more")
        figures: dict[str, Any] = {}
        if self._waiting:
            self._index()
        elif self._log_likelihood:
            figures = {
                "log_likelihood": self._log_likelihood,
                "objective": -(self._log_likelihood + self._log_prior()) / spans,
            }
        smoothing = self._smoothing()
        assert self._counts is not None
        for table, counts in zip((self.yield_log_probs, self.context_log_probs), self._counts, strict=True):
            totals = (counts[:, :-1] + smoothing).sum(1, keepdim=True)
            counts[:, -1] = 0
            table.copy_(((counts + smoothing) / totals).log())
        self._clear()
        return figures | {"yields": len(self.yields), "contexts": len(self.contexts)}

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return the negative log-likelihood of yields and contexts of whole sentences, over all binary trees."""
        total = self.yield_log_probs.new_zeros(())
        count = 0
        items = 0
        for _, words in self._groups(batch):
            types = self.types(words)
            total = total - self._log_likelihoods(types, charts.total(self._log_weights(types))).sum()
            count = count + types.yields.numel()
            items = items + words.shape[1]
        return Loss(total, count, items)

    def _smoothing(self) -> Tensor:
        """(2, 1): pseudo-counts of a yield or context as a constituent and as a distituent."""
        config = self.config
        return self.yield_log_probs.new_tensor([[config.constituent_smoothing], [config.distituent_smoothing]])

    def _log_prior(self) -> float:
        """Return the logarithm of the Dirichlet prior whose pseudo-counts are the smoothing, without its constant."""
        tables = self.yield_log_probs[:, :-1], self.context_log_probs[:, :-1]
        return sum(float((self._smoothing() * table).sum()) for table in tables)

    def _count(self, words: Tensor, posteriors: Tensor, types: SpanTypes | None = None) -> None:
        """Add the counts of sentences of one length.

        Args:
            posteriors: (n(n + 1)/2, B).
        """
        self._spans += posteriors.numel()
        if not len(self.yields):
            self._waiting.append((words, posteriors))
            return
        types = types or self.types(words)
        weights = posteriors.flatten().clamp(0, 1)  # sums of probabilities may slightly exceed 1
        if self._counts is None:
            self._counts = torch.zeros_like(self.yield_log_probs), torch.zeros_like(self.context_log_probs)
        for numbers, counts in zip((types.yields, types.contexts), self._counts, strict=True):
            rows = numbers.flatten()
            size = counts.shape[1]
            counts[CONSTITUENT] += torch.bincount(rows, weights, size)
            counts[DISTITUENT] += torch.bincount(rows, 1 - weights, size)

    def _index(self) -> None:
        """Assign numbers to the yields and contexts of the first round, and count them."""
        waiting = self._waiting

        # The key of a yield is made of the number of its parent, the yield without the last word, and this word.
        keys, count = [], 0
        parents = [words.new_full(words.shape, -1) for words, _ in waiting]
        for width in range(1, max(len(words) for words, _ in waiting) + 1):
            last_words = [words[width - 1 :] for words, _ in waiting]
            width_keys = [
                ((parent[: len(last)] + 1) * self.vocabulary_size + last).flatten()
                for parent, last in zip(parents, last_words, strict=True)
            ]
            distinct, numbers = torch.unique(torch.cat(width_keys), return_inverse=True)
            parts = (numbers + count).split([len(part) for part in width_keys])
            parents = [part.view_as(last) for part, last in zip(parts, last_words, strict=True)]
            keys.append(distinct)
            count += len(distinct)
        self.yields = torch.cat(keys)
        self.contexts = torch.unique(torch.cat([self._context_keys(words).flatten() for words, _ in waiting]))
        self.yield_log_probs = self.yield_log_probs.new_zeros(2, len(self.yields) + 1)
        self.context_log_probs = self.context_log_probs.new_zeros(2, len(self.contexts) + 1)

        # Only now the sentences of the first round can be counted.
        self._clear()
        for words, posteriors in waiting:
            self._count(words, posteriors)

    # ---- spans

    def log_span_weights(self, batch: TokenBatch, closed: bool = False) -> Tensor:
        """Return the log of phi = P(yield | c) P(context | c) / (P(yield | d) P(context | d)) of every span.

        Args:
            closed: whether the batch's tokens include EOS.

        Returns:
            (B, n, n + 1), indexed by first word and by the word after the last, from 0; 0 where there is no span. A
            tree's posterior is proportional to the product of phi over its spans.
        """
        longest = int(batch.word_counts(2 if closed else 1).max())
        weights = self.yield_log_probs.new_zeros(batch.sentence_count(), longest, longest + 1)
        for columns, words in self._groups(batch, closed):
            starts, ends = chart_spans(len(words), words.device)
            weights[columns, starts, ends] = self._log_weights(self.types(words)).T
        return weights

    def types(self, words: Tensor) -> SpanTypes:
        """Return the yields and contexts of sentences of one length, (n, B), as rows of the tables."""
        numbers = words.new_full(words.shape, -1)
        yields = []
        # yield(i, j) = the row with the key (yield(i, j - 1) + 1) V + word(j)
        for width in range(1, len(words) + 1):
            ends = words[width - 1 :]
            # An unseen parent, whose number is N, gives a key above all others.
            numbers = _rows_of(self.yields, (numbers[: len(ends)] + 1) * self.vocabulary_size + ends)
            yields.append(numbers)
        return SpanTypes(torch.cat(yields), _rows_of(self.contexts, self._context_keys(words)))

    def _context_keys(self, words: Tensor) -> Tensor:
        """Return the keys of all spans: (n, B) -> (n(n + 1)/2, B)."""
        starts, ends = chart_spans(len(words), words.device)
        boundary = words.new_full((1, words.shape[1]), self.vocabulary_size)
        padded = torch.cat([boundary, words, boundary])
        return padded[starts] * (self.vocabulary_size + 1) + padded[ends + 1]

    def _log_weights(self, types: SpanTypes) -> Tensor:
        """Return the log of phi as a chart, (n(n + 1)/2, B)."""
        tables = self.yield_log_probs, self.context_log_probs
        yields, contexts = (table[CONSTITUENT] - table[DISTITUENT] for table in tables)
        return yields[types.yields] + contexts[types.contexts]

    def distituent_log_probs(self, types: SpanTypes) -> Tensor:
        """Return log p of all yields and contexts of sentences of one length as distituents: (B,).

        Added to the logarithm of the product of phi over the spans of a tree B, it is log P(s | B).
        """
        yields = self.yield_log_probs[DISTITUENT]
        contexts = self.context_log_probs[DISTITUENT]
        return (yields[types.yields] + contexts[types.contexts]).sum(0)

    def _log_likelihoods(self, types: SpanTypes, log_totals: Tensor) -> Tensor:
        """Return log P(s), (B,), from the log of the sum over trees of the product of phi."""
        n = checked_length(types.yields)
        log_trees = math.lgamma(2 * n - 1) - math.lgamma(n) - math.lgamma(n + 1)  # the Catalan number of n - 1
        return log_totals + self.distituent_log_probs(types) - log_trees

    def chart_weights(self, batch: TokenBatch) -> Iterator[tuple[slice, int, Tensor, None]]:
        for columns, words in self._groups(batch, closed=True):
            yield columns, len(words), self._log_weights(self.types(words)), None

    @staticmethod
    def _groups(batch: TokenBatch, closed: bool = False) -> Iterator[tuple[slice, Tensor]]:
        """Yield sentences of one length whose charts fit in memory: their columns, and their words, (n, B).

        Args:
            closed: whether the tokens include EOS.
        """
        for columns, words in batch.by_length(2 if closed else 1, lambda n: _SPANS_TOGETHER // (n * (n + 1) // 2)):
            yield columns, words.T

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Resize the tables to the stored numbers of yields and contexts. Returns error messages."""
        faults = []
        for keys, table, bound in (
            ("yields", "yield_log_probs", self.vocabulary_size),
            ("contexts", "context_log_probs", (self.vocabulary_size + 1) ** 2),
        ):
            if keys not in tensors or tensors[keys].dim() != 1:
                continue  # reported with the other wrong shapes
            stored = tensors[keys]
            size = len(stored)
            setattr(self, keys, getattr(self, keys).new_empty(size))
            setattr(self, table, getattr(self, table).new_empty(2, size + 1))
            if stored.is_meta or not size:  # only shapes are known
                continue
            limit = bound * (size if keys == "yields" else 1)
            if not bool((stored[1:] > stored[:-1]).all()) or int(stored[0]) < 0 or int(stored[-1]) >= limit:
                faults.append(f"{keys} must increase from 0 to below {limit}")
        self._clear()
        return faults


def random_split_marginals(length: int, columns: int) -> Tensor:
    """Return probabilities of spans in a tree that is split at random places, from the top: (n(n + 1)/2, B), float64.

    This is the distribution of trees before the first round; it has more balanced trees than the uniform one. The
    places between words are then in a random order, and a span is a constituent if those at its ends come before those
    inside it: of a span of w words, probability 2 / (w (w + 1)), or 1 / w at an end of the sentence.
    """
    starts, ends = chart_spans(length, torch.device("cpu"))
    widths = (ends - starts).double()
    is_first, is_last = starts == 0, ends == length
    parts = torch.where(is_first | is_last, 1 / widths, 2 / (widths * (widths + 1)))
    return torch.where(is_first & is_last, 1.0, parts)[:, None].expand(-1, columns)


def _rows_of(keys: Tensor, wanted: Tensor) -> Tensor:
    """Return the positions of wanted keys among rising keys; the number of keys for a key that is missing."""
    places = torch.searchsorted(keys, wanted)
    is_known = torch.cat([keys, keys.new_full((1,), -1)])[places] == wanted
    return torch.where(is_known, places, len(keys))
