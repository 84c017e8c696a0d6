"""Neural PCFGs as language models and parsers.

Sentences of one word are not in the grammar (S -> A -> B C). A share q of sentences has one word, drawn from unigrams;
the others have 1 - q times the grammar's probability. Both are counted in the training text. The end of the sentence
is always predicted: P(sentence) is that of exactly these words. Words that the vocabulary lacks are one word, <unk>,
which the grammar learns where the training text has it.

The ids of a vocabulary are those of `Vocabulary.build`: unknown, BOS, EOS, then words. A grammar has no symbols BOS and
EOS; its word 0 is the unknown one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from syntaxlm.allocation import memory_size
from syntaxlm.errors import InputError
from syntaxlm.models.abilities import (
    AnnealsLoss,
    FindsBestTrees,
    LabelledSpans,
    Loss,
    Model,
    NeedsTextCounts,
    ScoresSentences,
    SpanMarginals,
    TextCounts,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.pcfg.end_bias import end_scores, end_weights
from syntaxlm.models.pcfg.grammars import Grammar, Sentences, Tables
from syntaxlm.models.pcfg.listing import ListsGrammar
from syntaxlm.models.pcfg.sampling import Sample, Sampler, draw_from, draw_short
from syntaxlm.models.pcfg.words import SPECIALS, counts_of_grammar, of_vocabulary, to_grammar
from syntaxlm.ops.inside import (
    Layout,
    Rules,
    best_derivations,
    log_partition,
    posteriors,
    tiles_usable,
)

ELBO_AT_MEAN = "ELBO at the mean of q(z|x), approximate"
_CHART = 1 << 26  # numbers of the inside probabilities of sentences that are in memory together
_BYTES = 24  # of all charts, for each inside probability


class _Kept(NamedTuple):
    """Rules and emissions of all words, for evaluation, and what they were computed from.

    dtype: autocast's; None without autocast.
    """

    dtype: torch.dtype | None
    weights: list[Tensor]
    rules: Rules
    emissions: Tensor


class SentencePCFG(Model, AnnealsLoss, NeedsTextCounts, ScoresSentences, FindsBestTrees, ListsGrammar):
    """A grammar that scores whole sentences and parses them.

    The log-probability of a sentence is exact or, for compound grammars, an estimate of the evidence lower bound
    (ELBO): in training with a sampled sentence vector z, in evaluation at the mean of q(z|x), which is not a bound.
    end_bias: weight of the end bias at the start of training, which falls to 0 in `end_bias_epochs`.
    focus: parse-focusing (Park & Kim 2024): in training, derivations are weighted by how many of the parsers whose
        trees a batch brings have each span; a span of none of k parsers costs `focus` nats, one of j costs
        (1 - j / k) of that. Sentences without such trees are not focused.
    """

    reads = "sentences"
    mixes_lengths = True
    structure_type = SpanMarginals
    likelihood_estimate: ClassVar[str | None] = ELBO_AT_MEAN
    one_word_share: Tensor
    unigrams: Tensor
    end_scores: Tensor

    def __init__(
        self, grammar: Grammar, end_bias: float = 0.0, end_bias_epochs: float = 1.0, focus: float = 0.0
    ) -> None:
        super().__init__()
        self.grammar, self.end_bias, self.end_bias_epochs, self.focus = grammar, end_bias, end_bias_epochs, focus
        self.vocabulary_size = grammar.vocabulary_size + SPECIALS
        size = grammar.vocabulary_size
        self.register_buffer("one_word_share", torch.zeros(()))
        self.register_buffer("unigrams", torch.zeros(size))
        self.register_buffer("end_scores", torch.zeros(size), persistent=False)
        self._end_weight, self.parsers = end_bias, 1
        self._kept: _Kept | None = None
        self._kept_sampler: Sampler | None = None

    # ---- training

    def setup(self, counts: TextCounts) -> None:
        """Sets q, the unigrams of one-word sentences (each word's count plus one half), and the end bias."""
        assert counts.final_words is not None
        assert counts.one_word_sentences is not None
        words, ends, alone = (
            counts_of_grammar(part) for part in (counts.words, counts.final_words, counts.one_word_sentences)
        )
        if not ends.sum():
            raise InputError("no sentence of the training text has two words or more, which a grammar learns from")
        single, total = alone.sum(), ends.sum() + alone.sum()
        self.one_word_share.fill_((single + 0.5) / (total + 1))
        smoothed = alone.double() + 0.5
        self.unigrams.copy_((smoothed / smoothed.sum()).log())
        self.end_scores.copy_(end_scores(words - alone, ends))
        self.parsers = max(1, counts.parsers)

    def set_epoch(self, epochs: float) -> None:
        self._end_weight = self.end_bias * max(0.0, 1 - epochs / self.end_bias_epochs)

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """The negative log-likelihood; in training, of derivations weighted by end bias and focus."""
        sentences = self._sentences(batch)
        weights = self._span_weights(sentences, batch) if self.training else None
        total = -self._log_probs(sentences, weights).sum()
        return Loss(total, batch.token_count(), len(sentences))

    def _span_weights(self, sentences: Sentences, batch: TokenBatch) -> Tensor | None:
        """(B, n, n) log-weights of spans by first and last word; None without any."""
        longest = max(sentences.lengths)
        weights = None
        if self._end_weight:
            weights = self._end_weight * end_weights(self.end_scores, sentences.words, sentences.lengths)
        if self.focus and batch.spans is not None:
            shares = self.end_scores.new_zeros(len(sentences), longest, longest, dtype=torch.float64)
            end, column, length = batch.spans.unbind(1)
            shares.index_put_((column, end - length - 1, end - 2), shares.new_ones(()), accumulate=True)
            known = shares.flatten(1).sum(1) > 0
            penalty = self.focus * (shares / self.parsers - 1)
            last = torch.tensor(sentences.lengths, device=shares.device) - 1
            penalty[torch.arange(len(sentences)), 0, last] = 0  # the whole sentence is a span of every tree
            penalty[~known] = 0
            weights = penalty if weights is None else weights + penalty
        return weights

    # ---- probabilities

    def sentence_log_probs(self, batch: TokenBatch) -> Tensor:
        return self._log_probs(self._sentences(batch))

    def _log_probs(self, sentences: Sentences, weights: Tensor | None = None) -> Tensor:
        """(B,) float64. A sentence without words never occurs. weights: (B, n, n), see `log_partition`."""
        result = self.unigrams.new_full((len(sentences),), -torch.inf, dtype=torch.float64)
        rest = torch.log1p(-self.one_word_share.double())
        for chosen in self._groups(sentences, 2, _CHART):
            part = sentences.select(chosen)
            tables = self._tables(part)
            own = None
            if weights is not None:
                longest = max(part.lengths)
                own = weights[self._index(chosen), :longest, :longest]
            found = log_partition(tables.rules, tables.emissions, tables.words, Layout(part.lengths, self.device), own)
            if tables.penalties is not None:
                found = found - tables.penalties
            result = result.index_copy(0, self._index(chosen), found.double() + rest)
        single = [index for index, length in enumerate(sentences.lengths) if length == 1]
        if single:
            alone = self.unigrams.double()[sentences.select(single).words] + self.one_word_share.double().log()
            result = result.index_copy(0, self._index(single), alone)
        return result

    # ---- structure

    def structure(self, batch: TokenBatch) -> SpanMarginals:
        """The probability of every span.

        Where a processor has tiles for bfloat16 (AMX), or on a GPU, products of a float32 model are made in bfloat16,
        as in training: marginals are then within a few hundredths of those of float32.
        """
        return self._marginals(batch, labelled=False)

    def labelled_structure(self, batch: TokenBatch) -> SpanMarginals:
        """As `structure`, with the most probable symbol of every span: nonterminals, then preterminals."""
        return self._marginals(batch, labelled=True)

    @torch.no_grad()
    def _marginals(self, batch: TokenBatch, labelled: bool) -> SpanMarginals:
        place = self.device.type
        low = self.unigrams.dtype == torch.float32 and (place == "cuda" or tiles_usable())
        with torch.autocast(place, torch.bfloat16, enabled=low or torch.is_autocast_enabled(place)):
            return self._posteriors(self._sentences(batch, closed=True), labelled)

    def _posteriors(self, sentences: Sentences, labelled: bool) -> SpanMarginals:
        longest = max(1, *sentences.lengths)
        shape = len(sentences), longest, longest
        marginals = self.unigrams.new_zeros(shape)
        labels = torch.full(shape, -1, device=self.device) if labelled else None
        for chosen in self._groups(sentences, 2, _CHART // 2):
            part = sentences.select(chosen)
            tables = self._tables(part)
            layout = Layout(part.lengths, self.device)
            found = posteriors(tables.rules, tables.emissions, tables.words, layout, labels=labelled)
            index, size = self._index(chosen), found.marginals.shape[-1]
            marginals = marginals.to(found.marginals.dtype)
            marginals[index, :size, :size] = found.marginals.clamp(0, 1)  # sums of bfloat16 may exceed 1 a little
            marginals[index, 0, self._index([length - 1 for length in part.lengths])] = 1
            if labels is not None and found.labels is not None:
                labels[index, :size, :size] = found.labels
        single = [index for index, length in enumerate(sentences.lengths) if length == 1]
        if single and labels is not None:  # not in the grammar: the preterminal that emits the word most
            tables = self._tables(sentences.select(single))
            labels[self._index(single), 0, 0] = self.nonterminal_count + tables.emissions[tables.words].argmax(-1)
        return SpanMarginals(marginals, labels)

    @torch.no_grad()
    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        sentences = self._sentences(batch, closed=True)
        count = self.nonterminal_count
        found: list[LabelledSpans] = [[] for _ in sentences.lengths]
        for index in chain.from_iterable(self._groups(sentences, 1, 1)):  # each by itself
            part = sentences.select([index])
            tables = self._tables(part)
            if part.lengths == (1,):
                found[index] = [(0, 0, count + int(tables.emissions[tables.words].argmax()))]
                continue
            (best,) = best_derivations(tables.rules, tables.emissions, tables.words, Layout(part.lengths, self.device))
            words = [(place, place, count + symbol) for place, symbol in enumerate(best.preterminals)]
            found[index] = [*best.spans, *words]
        return found

    # ---- sampling

    @torch.no_grad()
    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, keep_unknown: bool = True
    ) -> list[Sample]:
        """Draws sentences ancestrally."""
        share, alone = float(self.one_word_share), self.unigrams.double().exp().cumsum(0).cpu().numpy()

        def draw() -> Sample:
            if generator.random() < share:
                return Sample((draw_from(alone, generator, keep_unknown),), ())
            return draw_short(lambda: self._sampler(generator), maximum_words, generator, keep_unknown)

        drawn = (draw() for _ in range(count))
        return [sample._replace(words=tuple(map(of_vocabulary, sample.words))) for sample in drawn]

    def _sampler(self, generator: np.random.Generator) -> Sampler:
        if self.grammar.latent_size:
            vector = torch.from_numpy(generator.standard_normal(self.grammar.latent_size))
            return Sampler(*self.grammar.all_tables(vector))
        rules, emissions = self._all_tables()
        if self._kept_sampler is None or self._kept_sampler.rules is not rules:
            self._kept_sampler = Sampler(rules, emissions)
        return self._kept_sampler

    # ---- what the algorithms read

    def train(self, mode: bool = True) -> SentencePCFG:
        if mode:  # they would only take memory
            self._kept = self._kept_sampler = None
        super().train(mode)
        return self

    def _tables(self, sentences: Sentences) -> Tables:
        if self.training or torch.is_grad_enabled() or self.grammar.latent_size:
            return self.grammar.tables(sentences)
        rules, emissions = self._all_tables()
        columns, words = torch.unique(sentences.words, return_inverse=True)
        return Tables(rules, emissions[columns], words)

    def _all_tables(self) -> tuple[Rules, Tensor]:
        """Rules and emissions of all words, computed anew only where weights, or the type of products, changed.

        Of a compound grammar, those at z = 0. Weights are compared by value: a fused optimiser changes neither their
        addresses nor their version counters.
        """
        place = self.device.type
        dtype = torch.get_autocast_dtype(place) if torch.is_autocast_enabled(place) else None
        weights = [weight.detach() for weight in self.parameters()]
        if self._kept is None or self._kept.dtype != dtype or not all(map(_same, self._kept.weights, weights)):
            with torch.no_grad():
                tables = self.grammar.all_tables()
            self._kept = _Kept(dtype, [weight.clone() for weight in weights], *tables)
        return self._kept.rules, self._kept.emissions

    def _sentences(self, batch: TokenBatch, closed: bool = False) -> Sentences:
        """The words of whole sentences. closed: whether EOS is read, too."""
        steps, columns = batch.tokens.shape
        lengths = torch.full((columns,), steps) if batch.lengths is None else batch.lengths
        words = (lengths - (2 if closed else 1)).clamp(min=0)
        kept = (torch.arange(1, steps)[:, None] <= words).to(batch.tokens.device)
        return Sentences(to_grammar(batch.tokens[1:].T[kept.T]), tuple(words.tolist()))

    def _groups(self, sentences: Sentences, shortest: int, most: int) -> Iterator[list[int]]:
        """Indices of sentences of so many words or more, in groups whose charts are in memory together.

        most: numbers of a group's inside probabilities. Raises InputError for a sentence that memory cannot hold.
        """
        size = self.nonterminal_count
        group: list[int] = []
        spans = 0
        for index, length in enumerate(sentences.lengths):
            if length < shortest:
                continue
            own = length * (length + 1) // 2 * size
            if own * _BYTES > memory_size():
                raise InputError(
                    f"a sentence of {length:,} words: its chart takes about {own * _BYTES / 2**30:,.0f} GiB, more than"
                    f" the {memory_size() / 2**30:,.0f} GiB of this machine; split the sentence"
                )
            if group and spans + own > most:
                yield group
                group, spans = [], 0
            group.append(index)
            spans += own
        if group:
            yield group

    def _index(self, indices: list[int]) -> Tensor:
        return torch.tensor(indices, device=self.device)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)
