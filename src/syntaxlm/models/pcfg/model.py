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
from typing import NamedTuple

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
    PredictsNextToken,
    ScoresSentences,
    SpanMarginals,
    TextCounts,
    TokenScores,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.pcfg.end_bias import end_scores, end_weights
from syntaxlm.models.pcfg.grammars import Grammar, Sentences, Tables
from syntaxlm.models.pcfg.listing import ListsGrammar
from syntaxlm.models.pcfg.sampling import Sample, Sampler, draw_from, draw_short
from syntaxlm.models.pcfg.words import BOS, EOS, SPECIALS, counts_of_grammar, of_vocabulary, to_grammar
from syntaxlm.ops.inside import (
    Layout,
    Rules,
    best_derivations,
    log_partition,
    next_words,
    posteriors,
    prefix_log_probs,
    tiles_usable,
)

_CHART = 1 << 26  # numbers of the inside probabilities of sentences that are in memory together
_PREFIX_CHART = 1 << 22  # of those of prefix probabilities, in float64
_BYTES = 24  # of all charts, for each inside probability


class _Kept(NamedTuple):
    """Rules and emissions of all words, for evaluation, and what they were computed from.

    kind: autocast's type; None without autocast.
    """

    kind: torch.dtype | None
    weights: list[Tensor]
    rules: Rules
    emissions: Tensor


class BoundedPCFG(Model, AnnealsLoss, NeedsTextCounts, ScoresSentences, FindsBestTrees, ListsGrammar):
    """A grammar that scores whole sentences and parses them.

    The probability of a sentence is exact, or, for compound grammars, a lower bound (ELBO): in training by a sampled
    sentence vector, in evaluation at its mean.
    end_bias: weight of the end bias at the start of training, which falls to 0 in `end_bias_epochs`.
    focus: parse-focusing (Park & Kim 2024): in training, derivations are weighted by how many of the parsers whose
        trees a batch brings have each span; a span of none of k parsers costs `focus` nats, one of j costs
        (1 - j / k) of that. Sentences without such trees are not focused.
    """

    reads = "sentences"
    mixes_lengths = True
    structure_type = SpanMarginals
    is_bound = True
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

    @torch.no_grad()
    def structure(self, batch: TokenBatch) -> SpanMarginals:
        """The probability of every span, and its most probable symbol: nonterminals, then preterminals.

        Where a processor has tiles for bfloat16 (AMX), or on a GPU, products of a float32 model are made in bfloat16,
        as in training: marginals are then within a few hundredths of those of float32.
        """
        place = self.device.type
        low = self.unigrams.dtype == torch.float32 and (place == "cuda" or tiles_usable())
        with torch.autocast(place, torch.bfloat16, enabled=low or torch.is_autocast_enabled(place)):
            return self._structure(self._sentences(batch, closed=True))

    def _structure(self, sentences: Sentences) -> SpanMarginals:
        longest = max(1, *sentences.lengths)
        shape = len(sentences), longest, longest
        marginals = self.unigrams.new_zeros(shape)
        labels = torch.full(shape, -1, device=self.device)
        for chosen in self._groups(sentences, 2, _CHART // 2):
            part = sentences.select(chosen)
            tables = self._tables(part)
            found = posteriors(tables.rules, tables.emissions, tables.words, Layout(part.lengths, self.device))
            index, size = self._index(chosen), found.marginals.shape[-1]
            marginals = marginals.to(found.marginals.dtype)
            marginals[index, :size, :size] = found.marginals
            labels[index, :size, :size] = found.labels
        single = [index for index, length in enumerate(sentences.lengths) if length == 1]
        if single:  # no grammar says of one word what it is: the symbol that emits it most
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

    def train(self, mode: bool = True) -> BoundedPCFG:
        self._kept = self._kept_sampler = None
        super().train(mode)
        return self

    def _tables(self, sentences: Sentences) -> Tables:
        if self.training or torch.is_grad_enabled() or not self.grammar.exact:
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
        kind = torch.get_autocast_dtype(place) if torch.is_autocast_enabled(place) else None
        weights = [weight.detach() for weight in self.parameters()]
        if self._kept is None or self._kept.kind != kind or not all(map(_same, self._kept.weights, weights)):
            with torch.no_grad():
                tables = self.grammar.all_tables()
            self._kept = _Kept(kind, [weight.clone() for weight in weights], *tables)
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


class PCFG(BoundedPCFG, PredictsNextToken):
    """A grammar that also gives the probability of every next word, by prefix probabilities, in float64.

    The state, of a prefix that continues, is all tokens since BOS.
    """

    is_bound = False

    @torch.no_grad()
    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        steps = len(batch.tokens)
        mask = batch.mask()
        if self._is_text(batch, mask):
            result = self._of_text(batch, tokens)
        else:  # each target from the distribution after its prefix
            result = self.unigrams.new_zeros(batch.targets.shape, dtype=torch.float64)
            for step in range(steps):
                prefix = tokens[: len(tokens) - steps + step + 1]
                result[step] = self._next(prefix).gather(1, batch.targets[step][:, None])[:, 0]
        return TokenScores(result.masked_fill(~mask, 0), {"tokens": tokens})

    @staticmethod
    def _is_text(batch: TokenBatch, mask: Tensor) -> bool:
        """Whether each target is the token read next, and none is BOS, or EOS before the last step."""
        goes_on = mask[1:]
        before_last = batch.targets[:-1][goes_on]
        return (
            torch.equal(before_last, batch.tokens[1:][goes_on])
            and not bool((before_last == EOS).any())
            and not bool((batch.targets[mask] == BOS).any())
        )

    @torch.no_grad()
    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        before = len(tokens) - len(batch.tokens)
        lengths = None if batch.lengths is None else batch.lengths + before
        return self._next(tokens, lengths), {"tokens": tokens}

    sentence_log_probs = BoundedPCFG.sentence_log_probs  # type: ignore[assignment]  # faster than a sum over tokens

    def _of_text(self, batch: TokenBatch, tokens: Tensor) -> Tensor:
        """Targets that are the tokens read next: differences of the prefixes' log-probabilities. (T, B)."""
        steps, columns = batch.targets.shape
        before = len(tokens) - steps
        lengths = torch.full((columns,), steps) if batch.lengths is None else batch.lengths
        words: list[Tensor] = []
        for column, length in enumerate(lengths.tolist()):
            last = batch.targets[length - 1 : length, column]
            words.append(torch.cat([tokens[1 : before + length, column], last[last != EOS]]))
        sentences = Sentences(to_grammar(torch.cat(words)), tuple(map(len, words)))
        prefixes, wholes = self._prefixes(sentences)
        result = prefixes.new_zeros(steps, columns)
        for column, length in enumerate(lengths.tolist()):
            own = prefixes[column, : len(words[column]) + 1]
            if len(own) == before + length:  # EOS is the last target
                own = torch.cat([own, wholes[column, len(own) - 1 : len(own)]])
            result[:length, column] = torch.diff(own)[before:]
        return result

    def _prefixes(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """(B, n + 1) each, natural log-probabilities of prefixes of 0 to n words, and of these as sentences."""
        share, rest = self.one_word_share.double().log(), torch.log1p(-self.one_word_share.double())
        shape = len(sentences), max(sentences.lengths) + 1
        prefixes = self.unigrams.new_full(shape, -torch.inf, dtype=torch.float64)
        wholes = prefixes.clone()
        prefixes[:, 0] = 0
        for chosen in self._groups(sentences, 1, _PREFIX_CHART):
            part = sentences.select(chosen)
            # The layout needs two words: one word is doubled, and the prefix of the second is not read.
            parts = [own if len(own) > 1 else own.repeat(2) for own in part.words.split(part.lengths)]
            padded = Sentences(torch.cat(parts), tuple(map(len, parts)))
            tables = self._tables(padded)
            found = prefix_log_probs(tables.rules, tables.emissions, tables.words, Layout(padded.lengths, self.device))
            index, size = self._index(chosen), found.prefixes.shape[1]
            alone = share + self.unigrams.double()[torch.stack([own[0] for own in parts])]
            prefixes[index, 1 : size + 1] = (rest + found.prefixes)[:, : shape[1] - 1]
            prefixes[index, 1] = torch.logaddexp(prefixes[index, 1], alone)
            wholes[index, 1 : size + 1] = (rest + found.sentences)[:, : shape[1] - 1]
            wholes[index, 1] = alone
        return prefixes, wholes

    def _next(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The distribution after prefixes, (T, B) with BOS first -> (B, V). What repeats is computed once."""
        given = self._sentences(TokenBatch(tokens, tokens, lengths))
        parts = [tuple(part.tolist()) for part in given.words.split(given.lengths)]
        places = {part: place for place, part in enumerate(dict.fromkeys(parts))}
        sentences = Sentences.of(places, self.device)
        if any(sentences.lengths):
            prefixes, wholes = self._prefixes(sentences)
        else:
            prefixes = self.unigrams.new_zeros(len(sentences), 1, dtype=torch.float64)
            wholes = torch.full_like(prefixes, -torch.inf)
        tables = self._tables(sentences)  # of the prefixes' words alone
        emissions = self._all_tables()[1]
        rest = torch.log1p(-self.one_word_share.double())
        found = next_words(tables.rules, tables.emissions, tables.words, sentences.lengths)
        words = torch.log(found.weights @ emissions.exp().double().T) + found.scales[:, None] + rest
        empty = torch.tensor([not length for length in sentences.lengths], device=words.device)
        alone = self.unigrams.double() + self.one_word_share.double().log()
        words[empty] = torch.logaddexp(words[empty], alone)
        last = torch.tensor(sentences.lengths, device=words.device)[:, None]
        of_prefix = prefixes.gather(1, last)
        result = words.new_full((len(words), self.vocabulary_size), -torch.inf)
        result[:, 0] = words[:, 0] - of_prefix[:, 0]
        result[:, SPECIALS + 1 :] = words[:, 1:] - of_prefix
        result[:, EOS] = (wholes.gather(1, last) - of_prefix)[:, 0]
        return result[self._index([places[part] for part in parts])]


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)
