"""Neural PCFGs that score and parse whole sentences: the base class of all of them, and C-PCFG.

Sentences of one word are not in the grammar (S -> A -> B C). With probability q a sentence has one word, drawn from
unigrams; the others have 1 - q times the probability that the grammar gives. q and the unigrams are estimated from the
training text. The end of the sentence is always predicted: P(sentence) is the probability of exactly these words. Words
outside the vocabulary are one word, <unk>, which the grammar learns if the training text contains it.

Vocabulary ids are those of `Vocabulary.build`: unknown, BOS, EOS, then words. A grammar has neither BOS nor EOS; its
word 0 is the unknown word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.errors import InputError
from syntaxlm.core.systems import memory_size
from syntaxlm.models.abilities import (
    AnnealsLoss,
    EmittedWord,
    FindsBestTrees,
    HasGrammar,
    LabelledSpans,
    Loss,
    Model,
    NeedsTextCounts,
    SampledSentence,
    ScoresSentences,
    ScoresTrees,
    SymbolRule,
    TextCounts,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import LOG_PROBS, PROBABILITIES
from syntaxlm.models.pcfg.derivations import Sampler, top_rules
from syntaxlm.models.pcfg.grammars import CompoundPCFGConfig, PCFGConfig, Sentences, Tables
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import SPECIALS, draw_short, token_of
from syntaxlm.models.sizes import chart_limit, check_chart
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.ops.inside import Layout, Rules, best_derivations, log_partition, posteriors, sample_trees
from syntaxlm.ops.sampling import TreeSpans, draw_from

ELBO_AT_MEAN = "ELBO at the mean of q(z|x), approximate"
EDGE_PSEUDO_COUNT = 10.0  # added occurrences of each word, with the overall rate of sentence ends
_PROBABILITIES_TOGETHER = 1 << 26  # most inside probabilities of a group of sentences
_BYTES_PER_PROBABILITY = 24  # in all charts
_LOG_WEIGHT_OUTSIDE_TREE = -1000.0  # of spans that are not in a tree; charts are scaled, so it may not be -inf
_RULES_NOTE = "rules at the sentence vector z = 0, the mean of its prior"


@model("compound-pcfg", CompoundPCFGConfig)
class SentencePCFG(Model, AnnealsLoss, NeedsTextCounts, ScoresSentences, FindsBestTrees, ScoresTrees, HasGrammar):
    """A grammar that scores and parses whole sentences.

    Sentence log-probabilities are exact or, for compound grammars, an estimate of the evidence lower bound (ELBO): with
    a sampled sentence vector z in training, and at the mean of q(z|x) in evaluation, which is not a bound.
    The setting `focus` is parse-focusing (Park & Kim 2024): in training, derivations are weighted by how many of the
    trees of a sentence, one per parser, have each span. With k trees, a span that j of them have costs (1 - j / k)
    `focus` nats. Sentences without such trees are not affected. The setting `marks` makes derivations with spans that
    violate the requirement of `trees.marks` less probable in training.
    """

    reads = "sentences"
    structure_type = SpanMarginals
    likelihood_estimate: ClassVar[str | None] = ELBO_AT_MEAN
    value_ranges: ClassVar = {"one_word_share": PROBABILITIES, "unigrams": LOG_PROBS}
    one_word_share: Tensor
    unigrams: Tensor
    end_scores: Tensor
    start_scores: Tensor

    def __init__(self, config: PCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        words = vocabulary_size - SPECIALS
        if words < 2:
            raise InputError(
                f"found a vocabulary of {vocabulary_size} tokens with fewer than two words; expected two or more,"
                " because a grammar emits words"
            )
        size = torch.float32.itemsize * words * config.preterminals
        if size > memory_size():
            raise InputError(
                f"model.preterminals: found {config.preterminals:,}, for which the probabilities of {words:,} words"
                f" need {size / 2**30:,.1f} GiB, but this machine has {memory_size() / 2**30:,.1f} GiB of memory. Lower"
                " this setting, or text.vocabulary.maximum_size"
            )
        self.config, self.vocabulary_size = config, vocabulary_size
        self.mixes_lengths = not config.full_table  # charts of full tables have sentences of one length
        self.grammar = config.grammar(words)
        self.nonterminal_count = config.nonterminals
        symbols = ("NT", config.nonterminals), ("T", config.preterminals)
        self.labels = [f"{name}-{number}" for name, count in symbols for number in range(count)]
        self.rules_note = _RULES_NOTE if self.grammar.latent_size else ""
        self.register_buffer("one_word_share", torch.zeros(()))
        self.register_buffer("unigrams", torch.zeros(words))
        # Not stored, so they need values here even if the model is built without values to load its weights.
        self.register_buffer("end_scores", torch.zeros(words, device="cpu"), persistent=False)
        self.register_buffer("start_scores", torch.zeros(words, device="cpu"), persistent=False)
        self._bias = 1.0
        # Rules and emissions of all words, cached for evaluation, after the weights from which they were computed; by
        # autocast's dtype, in which validation and later use may differ.
        self._caches: dict[torch.dtype | None, tuple[list[Tensor], Rules, Tensor]] = {}
        self._cached_sampler: Sampler | None = None
        # What `_word_probabilities` returns, after the emissions from which it was computed.
        self._cached_probabilities: tuple[Tensor, Tensor] | None = None

    # ---- training

    def setup(self, counts: TextCounts) -> None:
        """Set q, the unigrams of one-word sentences (add-1/2 smoothing), and the biases of ends and starts."""
        assert counts.first_words is not None
        assert counts.final_words is not None
        assert counts.one_word_sentences is not None
        words, starts, ends, alone = (  # without BOS and EOS
            torch.cat([part[:1], part[SPECIALS + 1 :]])
            for part in (counts.words, counts.first_words, counts.final_words, counts.one_word_sentences)
        )
        if not ends.sum():
            raise InputError(
                "found no training sentence of two or more words; expected some, because grammars are not trained on"
                " single words"
            )
        single, total = alone.sum(), ends.sum() + alone.sum()
        self.one_word_share.fill_((single + 0.5) / (total + 1))
        smoothed = alone.double() + 0.5
        self.unigrams.copy_((smoothed / smoothed.sum()).log())
        self.end_scores.copy_(edge_scores(words - alone, ends))
        self.start_scores.copy_(edge_scores(words - alone, starts))

    def step_size(self, tokens: int, longest: int) -> int:
        """As in `TrainsByGradient`: layers read symbols, not tokens, and a batch has charts and tables of rules."""
        config, words = self.config, self.vocabulary_size - SPECIALS
        symbols = config.nonterminals + config.preterminals
        sentences = -(-tokens // longest)
        grammars = sentences if self.grammar.latent_size else 1  # with a sentence vector, each sentence has its own
        linear = [module.weight for module in self.grammar.modules() if isinstance(module, nn.Linear)]
        layers = sum(sum(weight.shape) for weight in linear if len(weight) not in (words, symbols**2))
        factors = config.rule_rows
        rules = factors * symbols * (symbols if config.full_table else 2)
        emissions = config.preterminals * (tokens if grammars > 1 else min(tokens, words))
        spans = tokens * (longest + 1) // 2
        pairs = tokens * (longest**2 - 1) // 6
        chart = spans * factors * _BYTES_PER_PROBABILITY // 4
        if config.full_table:  # autograd keeps both parts of each split, and the products of symbols of each span
            chart += (4 * pairs + 3 * spans * factors) * factors
        return 2 * grammars * (symbols * layers + rules) + 2 * emissions + chart

    def set_epoch(self, epochs: float) -> None:
        self._bias = max(0.0, 1 - epochs / self.config.end_bias_epochs)

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        """Return the negative log-likelihood; in training, with derivations weighted by biases and penalties."""
        sentences = self._sentences(batch)
        weights = self._span_weights(sentences, batch) if self.training else None
        total = -self._log_probs(sentences, weights).sum()
        return Loss(total, batch.token_count(), batch.sentence_count())

    def _span_weights(self, sentences: Sentences, batch: TokenBatch) -> Tensor | None:
        """(B, n, n) log-weights of spans, indexed by first and last word; None if no weights are in use."""
        lengths = torch.tensor(sentences.lengths, device=self.device)
        longest = int(lengths.max())
        places = torch.arange(longest, device=self.device)
        parts: list[Tensor] = []

        # End bias, by the last word of a span, and start bias, by its first word; 0 at the edges of the sentence.
        if weight := self._bias * self.config.end_bias:
            last_scores = self._by_word(self.end_scores, sentences, places < lengths[:, None])
            last_scores[places == lengths[:, None] - 1] = 0
            parts.append((weight * last_scores)[:, None].expand(-1, longest, -1))
        if weight := self._bias * self.config.start_bias:
            first_scores = self._by_word(self.start_scores, sentences, places < lengths[:, None])
            first_scores[:, 0] = 0
            parts.append((weight * first_scores)[:, :, None].expand(-1, -1, longest))

        # Penalties of spans that other parsers do not have, and of spans that violate punctuation.
        if self.config.focus and batch.spans is not None:
            parts.append(self._focus_penalties(batch.spans, lengths))
        if self.config.marks and (violations := batch.violations(lengths, self.config.marks_side)) is not None:
            parts.append(-self.config.marks * violations.double())
        return sum(parts[1:], parts[0]) if parts else None

    def _focus_penalties(self, spans: Tensor, lengths: Tensor) -> Tensor:
        """(B, n, n) log-weights of spans by the share of a sentence's trees that have them; 0 without inner spans.

        Every tree has the span of the whole sentence. A parser may have no tree of a sentence, or a flat one.
        """
        columns, longest = len(lengths), int(lengths.max())
        counts = self.end_scores.new_zeros(columns, longest, longest, dtype=torch.float64)
        end, column, length = spans.unbind(1)
        counts.index_put_((column, end - length - 1, end - 2), counts.new_ones(()), accumulate=True)
        whole = torch.arange(columns), 0, lengths - 1
        trees = counts[whole].clamp(min=1)
        counts[whole] = 0
        penalties = self.config.focus * (counts / trees[:, None, None] - 1)
        penalties[whole] = 0
        penalties[counts.flatten(1).sum(1) == 0] = 0
        return penalties

    @staticmethod
    def _by_word(scores: Tensor, sentences: Sentences, real: Tensor) -> Tensor:
        """(B, n) the score of each word; 0 on padding.

        Args:
            real: (B, n) bool, whether there is a word.
        """
        word_scores = scores.new_zeros(real.shape)
        word_scores[real] = scores[sentences.words]
        return word_scores

    # ---- probabilities

    def sentence_log_probs(self, batch: TokenBatch) -> Tensor:
        return self._log_probs(self._sentences(batch))

    def _log_probs(self, sentences: Sentences, weights: Tensor | None = None) -> Tensor:
        """(B,) float64; -inf for sentences without words.

        Args:
            weights: (B, n, n), see `log_partition`.
        """
        share = self.one_word_share.double()
        result = self.unigrams.new_full((len(sentences.lengths),), -torch.inf, dtype=torch.float64)
        for index, part in self._groups(sentences, _PROBABILITIES_TOGETHER):
            tables, longest = self._tables(part), max(part.lengths)
            part_weights = None if weights is None else weights[index, :longest, :longest]
            layout = Layout(part.lengths, self.device)
            log_probs = log_partition(tables.rules, tables.emissions, tables.words, layout, part_weights)
            if not torch.is_grad_enabled() and _underflows(log_probs):
                exact = tables.double()
                log_probs = log_partition(exact.rules, exact.emissions, exact.words, layout, part_weights)
            if tables.penalties is not None:
                log_probs = log_probs - tables.penalties
            result = result.index_copy(0, index, log_probs.double() + torch.log1p(-share))
        for index, part in self._groups(sentences, _PROBABILITIES_TOGETHER, shortest=1, longest=1):
            result = result.index_copy(0, index, self.unigrams.double()[part.words] + share.log())
        return result

    # ---- structure

    @torch.no_grad()
    def structure(self, batch: TokenBatch, labelled: bool = False) -> SpanMarginals:
        """Return the probability of every span."""
        sentences = self._sentences(batch, closed=True)
        longest = max(1, *sentences.lengths)
        shape = len(sentences.lengths), longest, longest
        marginals = self.unigrams.new_zeros(shape)
        labels = torch.full(shape, -1, device=self.device) if labelled else None
        for index, part in self._groups(sentences, _PROBABILITIES_TOGETHER // 2, with_marginals=True):
            tables = self._tables(part)
            layout = Layout(part.lengths, self.device)
            chart = posteriors(tables.rules, tables.emissions, tables.words, layout, labels=labelled)
            if _underflows(chart.log_probs):
                exact = tables.double()
                chart = posteriors(exact.rules, exact.emissions, exact.words, layout, labels=labelled)
            size = chart.marginals.shape[-1]
            marginals = marginals.to(chart.marginals.dtype)
            marginals[index, :size, :size] = chart.marginals.clamp(0, 1)  # rounded sums may slightly exceed 1
            marginals[index, 0, torch.tensor(part.lengths, device=self.device) - 1] = 1
            if labels is not None and chart.labels is not None:
                labels[index, :size, :size] = chart.labels
        if labels is not None:  # one word is not in the grammar: the preterminal that most probably emits it
            for index, part in self._groups(sentences, _PROBABILITIES_TOGETHER, shortest=1, longest=1):
                tables = self._tables(part)
                labels[index, 0, 0] = self.nonterminal_count + tables.emissions[tables.words].argmax(-1)
        return SpanMarginals(marginals, labels)

    def labelled_structure(self, batch: TokenBatch) -> SpanMarginals:
        """Return `structure` with the most probable symbol of every span, as an index into `labels`."""
        return self.structure(batch, labelled=True)

    @torch.no_grad()
    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        sentences = self._sentences(batch, closed=True)
        count = self.nonterminal_count
        trees: list[LabelledSpans] = [[] for _ in sentences.lengths]
        for index, part in self._groups(sentences, 1, shortest=1):  # one at a time
            tables = self._tables(part)
            if part.lengths == (1,):
                trees[int(index)] = [(0, 0, count + int(tables.emissions[tables.words].argmax()))]
                continue
            (best,) = best_derivations(tables.rules, tables.emissions, tables.words, Layout(part.lengths, self.device))
            words = [(place, place, count + symbol) for place, symbol in enumerate(best.preterminals)]
            trees[int(index)] = [*best.spans, *words]
        return trees

    @torch.no_grad()
    def tree_log_probs(self, batch: TokenBatch, spans: Tensor) -> Tensor:
        sentences = self._sentences(batch, closed=True)
        joint = self._log_probs(sentences, torch.where(spans, 0.0, _LOG_WEIGHT_OUTSIDE_TREE).double())
        return joint - self._log_probs(sentences)

    @torch.no_grad()
    def sample_trees(self, batch: TokenBatch, count: int, generator: np.random.Generator) -> list[list[TreeSpans]]:
        sentences = self._sentences(batch, closed=True)
        trees: list[list[TreeSpans]] = [[[] for _ in range(count)] for _ in sentences.lengths]
        for index, part in self._groups(sentences, _PROBABILITIES_TOGETHER // 2):
            tables = self._tables(part)
            layout = Layout(part.lengths, self.device)
            if _underflows(log_partition(tables.rules, tables.emissions, tables.words, layout)):
                tables = tables.double()
            samples = sample_trees(tables.rules, tables.emissions, tables.words, layout, count, generator)
            for column, sentence_trees in zip(index.tolist(), samples, strict=True):
                trees[column] = sentence_trees
        return trees

    # ---- grammar

    def start_probabilities(self) -> Tensor:
        return self._all_tables()[0].root

    def top_rules(self, nonterminal: int, count: int) -> list[SymbolRule]:
        return top_rules(self._all_tables()[0], nonterminal, count)

    def top_words(self, preterminal: int, count: int) -> list[EmittedWord]:
        log_probs = self._all_tables()[1][:, preterminal - self.nonterminal_count]
        values, words = log_probs.double().exp().topk(min(count, len(log_probs)))
        return [EmittedWord(token_of(word), p) for word, p in zip(words.tolist(), values.tolist(), strict=True)]

    # ---- sampling

    @torch.no_grad()
    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, omitted: int = 0
    ) -> list[SampledSentence]:
        """Sample sentences top-down (ancestral sampling)."""
        share = float(self.one_word_share)
        alone = self.unigrams.double().exp().cumsum(0).cpu().numpy()

        def draw() -> SampledSentence | None:
            if generator.random() < share:
                return SampledSentence((draw_from(alone, generator, omitted),), ())
            return self._sampler(generator).draw(maximum_words, generator, omitted)

        samples = (draw_short(draw, maximum_words) for _ in range(count))
        return [sample._replace(words=tuple(map(token_of, sample.words))) for sample in samples]

    def _sampler(self, generator: np.random.Generator) -> Sampler:
        if self.grammar.latent_size:
            vector = torch.from_numpy(generator.standard_normal(self.grammar.latent_size))
            return Sampler(*self.grammar.all_tables(vector))
        rules, emissions = self._all_tables()
        sampler = self._cached_sampler  # another thread may replace it
        if sampler is None or sampler.rules is not rules:
            self._cached_sampler = sampler = Sampler(rules, emissions)
        return sampler

    # ---- arguments of the algorithms

    def train(self, mode: bool = True) -> SentencePCFG:
        if mode:  # free the memory
            self._caches.clear()
            self._cached_sampler = self._cached_probabilities = None
        super().train(mode)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies have, also in other processes: the caches, as large as the weights, stay behind."""
        return vars(self) | {"_caches": {}, "_cached_sampler": None, "_cached_probabilities": None}

    def _tables(self, sentences: Sentences) -> Tables:
        if self.training or torch.is_grad_enabled() or self.grammar.latent_size:
            return self.grammar.tables(sentences)
        rules, emissions = self._all_tables()
        columns, words = torch.unique(sentences.words, return_inverse=True)
        return Tables(rules, emissions[columns], words)

    def _all_tables(self) -> tuple[Rules, Tensor]:
        """Return rules and emissions of all words, recomputed only if weights changed.

        For a compound grammar, those at z = 0. Weights are compared by value: a fused optimiser changes neither their
        addresses nor their version counters.
        """
        device_type = self.device.type
        dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else None
        weights = [weight.detach() for weight in self.parameters()]
        cached = self._caches.get(dtype)
        if cached is None or not all(
            old.dtype == new.dtype and old.device == new.device and torch.equal(old, new)
            for old, new in zip(cached[0], weights, strict=True)
        ):
            with torch.no_grad():
                tables = self.grammar.all_tables()
            self._caches[dtype] = cached = ([weight.clone() for weight in weights], *tables)
        return cached[1:]

    @torch.no_grad()
    def _word_probabilities(self) -> Tensor:
        """Return p(word | preterminal) of all words, (V - 2, t), recomputed only if weights changed."""
        emissions = self._all_tables()[1]
        cached = self._cached_probabilities  # another thread may replace it
        if cached is None or cached[0] is not emissions:
            self._cached_probabilities = cached = emissions, emissions.exp()
        return cached[1]

    def _sentences(self, batch: TokenBatch, closed: bool = False) -> Sentences:
        """Return the words of whole sentences; BOS and EOS inside a sentence become unknown words.

        Args:
            closed: whether the tokens include EOS.
        """
        counts = batch.word_counts(2 if closed else 1)
        kept = (torch.arange(1, len(batch.tokens))[:, None] <= counts).to(batch.tokens.device)
        words = (batch.tokens[1:].T[kept.T] - SPECIALS).clamp(min=0)
        return Sentences(words, tuple(counts.tolist()))

    def check_length(self, words: int) -> None:
        check_chart(words, self._chart_size(words) * _BYTES_PER_PROBABILITY)

    def _chart_size(self, words: int, with_marginals: bool = False) -> int:
        """Return the number of inside probabilities of a sentence, or what takes as much memory as so many.

        Marginals of a full table are gradients, for which both children of each split stay in memory.
        """
        spans = words * (words + 1) // 2
        splits = words * (words**2 - 1) // 6 if with_marginals and self.config.full_table else 0
        return (spans + splits * 2 * torch.float32.itemsize // _BYTES_PER_PROBABILITY) * self.config.rule_rows

    def _groups(
        self,
        sentences: Sentences,
        most: int,
        shortest: int = 2,
        longest: int | None = None,
        with_marginals: bool = False,
    ) -> Iterator[tuple[Tensor, Sentences]]:
        """Yield sentences of `shortest` to `longest` words, with their indices, in groups of limited size.

        Args:
            most: limit of a group's inside probabilities; fewer if `chart_limit` allows fewer.
            with_marginals: see `_chart_size`.

        Raises:
            InputError: for a sentence too long for the memory.
        """
        limit = chart_limit()
        if limit is not None:
            most = min(most, limit // _BYTES_PER_PROBABILITY)
        groups: list[list[int]] = []
        size = most
        for index, length in enumerate(sentences.lengths):
            if length < shortest or (longest is not None and length > longest):
                continue
            chart_size = self._chart_size(length, with_marginals)
            check_chart(length, chart_size * _BYTES_PER_PROBABILITY)
            if size + chart_size > most:
                groups.append([])
                size = 0
            groups[-1].append(index)
            size += chart_size
        words = sentences.words.split(sentences.lengths)
        for group in groups:
            lengths = tuple(sentences.lengths[index] for index in group)
            part = Sentences(torch.cat([words[index] for index in group]), lengths)
            yield torch.tensor(group, device=self.device), part


def _underflows(log_probs: Tensor) -> bool:
    """Return whether a sentence has the probability 0, because its probability is too small for the precision."""
    return bool((log_probs == -torch.inf).any())


# ---- the end bias: which words end constituents, estimated from the words that end sentences


def edge_scores(words: Tensor, edge_words: Tensor) -> Tensor:
    """(V,) float64 log-weights, at most 0, of constituents that end in each word but not at the sentence's end.

    The log-weight is min(0, log(p(end | w) / p(end))), estimated from plain text: words that rarely end sentences, such
    as articles, prepositions and auxiliaries, rarely end constituents. As a bias in the first part of training, it
    makes grammars attach such words to what follows them, whatever the random seed. The bias falls to 0, so the final
    grammar is trained on the likelihood alone. The same with first words in place of last ones is for languages such as
    Japanese, whose particles rarely start sentences and follow what they belong to.

    Args:
        words: (V,) number of occurrences of each word in sentences of two or more words.
        edge_words: (V,) number of occurrences as the last word of such sentences.
    """
    counts, edges = words.double(), edge_words.double()
    rate = edges.sum() / counts.sum()
    shares = (edges + EDGE_PSEUDO_COUNT * rate) / (counts + EDGE_PSEUDO_COUNT)
    return torch.log(shares / rate).clamp(max=0)
