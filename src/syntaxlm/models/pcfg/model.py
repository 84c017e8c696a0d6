"""Neural PCFGs as language models and parsers, trained on plain text: SN-PCFG, Hol-PCFG, TN-PCFG and N-PCFG.

They also give the probability of every next word. C-PCFG, which does not, is in `sentence_pcfg`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from syntaxlm.core.iteration import batched
from syntaxlm.models.abilities import ConstrainsWeights, HasTreeBeliefs, PredictsNextToken, TokenScores, TreeBeliefs
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.pcfg.beliefs import tree_beliefs
from syntaxlm.models.pcfg.grammars import (
    HolographicGrammar,
    HolographicPCFGConfig,
    NeuralPCFGConfig,
    Sentences,
    SimplePCFGConfig,
    TensorPCFGConfig,
)
from syntaxlm.models.pcfg.sentence_pcfg import SentencePCFG
from syntaxlm.models.registry import model
from syntaxlm.models.sentences import BOS, EOS, SPECIALS
from syntaxlm.models.sizes import chart_limit, check_chart
from syntaxlm.ops.inside import (
    OUTSIDE_TOGETHER,
    FactoredRules,
    GrowingChart,
    Layout,
    NextWords,
    empty_chart,
    next_words,
    next_words_after_each,
    prefix_log_probs,
)

_PREFIX_PROBABILITIES_TOGETHER = 1 << 22  # most entries of a float64 chart of a group of sentences
_BELIEFS_TOGETHER = 1 << 23  # most outside probabilities of all prefixes of a group of sentences
_BELIEF_CHARTS = 6  # of beliefs, with what is computed from them; twice as many with derivatives
_GROWING_CHART = 1 << 25  # most entries of a float64 chart that is kept while words are added
_OTHER_VALUES_PER_SPAN = 12  # of float64, in prefix probabilities, besides the values of symbols: scales, places


@model("simple-pcfg", SimplePCFGConfig)
@model("tensor-pcfg", TensorPCFGConfig)
@model("neural-pcfg", NeuralPCFGConfig)
class PCFG(SentencePCFG, PredictsNextToken, HasTreeBeliefs):
    """A grammar that also gives the probability of every next word, from prefix probabilities in float64.

    The state has all tokens of the prefix since BOS and, while it is small, the chart of `next_log_probs`.
    """

    likelihood_estimate = None

    @torch.no_grad()
    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        before, mask = len(tokens) - len(batch.tokens), batch.mask()
        result = self.unigrams.new_zeros(batch.targets.shape, dtype=torch.float64)
        continues = mask[1:]
        before_last = batch.targets[:-1][continues]
        is_text = (  # each target is the next input, no target is BOS, and EOS is only a last target
            torch.equal(before_last, batch.tokens[1:][continues])
            and not bool((before_last == EOS).any())
            and not bool((batch.targets[mask] == BOS).any())
        )
        if not is_text:  # each target from the distribution after its prefix
            for step, targets in enumerate(batch.targets):
                result[step] = self._next(tokens[: before + step + 1]).gather(1, targets[:, None])[:, 0]
            return TokenScores(result.masked_fill(~mask, 0), {"tokens": tokens})

        # The prefixes of whole texts: what each prefix adds to the previous one is a target's log-probability.
        lengths = batch.step_counts().tolist()
        words: list[Tensor] = []
        for column, length in enumerate(lengths):
            last = batch.targets[length - 1 : length, column]
            words.append(torch.cat([tokens[1 : before + length, column], last[last != EOS]]))
        sentences = Sentences((torch.cat(words) - SPECIALS).clamp(min=0), tuple(map(len, words)))
        prefixes, wholes = self._prefixes(sentences)
        for column, length in enumerate(lengths):
            values = prefixes[column, : len(words[column]) + 1]
            if len(values) == before + length:  # EOS is the last target
                values = torch.cat([values, wholes[column, len(values) - 1 : len(values)]])
            result[:length, column] = torch.diff(values)[before:]
        return TokenScores(result, {"tokens": tokens})

    @torch.no_grad()
    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        tokens = batch.tokens if state is None else torch.cat([state["tokens"], batch.tokens])
        before = len(tokens) - len(batch.tokens)
        chart = self._grown_chart(batch.tokens, state) if batch.lengths is None else None
        if chart is not None:
            return self._next_by_chart(chart, tokens), {"tokens": tokens, **chart._asdict()}
        lengths = None if batch.lengths is None else batch.lengths + before
        return self._next(tokens, lengths), {"tokens": tokens}

    def _grown_chart(self, tokens: Tensor, state: State) -> GrowingChart | None:
        """Return the chart of the state with these tokens, (T, B), added.

        None if the grammar has full tables, if the state has no chart, or if the chart would become too large.
        """
        if state is None:
            rules, emissions = self._all_tables()
            if not isinstance(rules, FactoredRules):
                return None
            chart = empty_chart(rules, emissions, self._word_probabilities(), tokens.shape[1])
            tokens = tokens[1:]  # without BOS
        elif "lefts" in state:
            chart = GrowingChart(*(state[name] for name in GrowingChart._fields))
        else:
            return None
        limit = chart_limit()
        most = _GROWING_CHART if limit is None else min(_GROWING_CHART, limit // torch.float64.itemsize)
        words = chart.length + len(tokens)
        if tokens.shape[1] * len(chart.root) * words * (words + 1) // 2 > most:
            return None
        for added in (tokens - SPECIALS).clamp(min=0):
            chart = chart.with_words(added)
        return chart if chart.is_finite else None

    sentence_log_probs = SentencePCFG.sentence_log_probs  # type: ignore[assignment]  # faster than a sum over tokens

    @torch.no_grad()
    def tree_beliefs(
        self, sentences: Sequence[Sequence[int]], spans: bool = True, entropies: bool = True
    ) -> list[TreeBeliefs]:
        words = [(torch.tensor(sentence, device=self.device) - SPECIALS).clamp(min=0) for sentence in sentences]
        all_emissions = self._all_tables()[1].double()
        emission_entropies = -(all_emissions.exp() * all_emissions).sum(0) if entropies else None
        beliefs: dict[int, TreeBeliefs] = {}
        for length in sorted(set(map(len, words))):
            self._check_beliefs(length, spans, entropies)
            columns = [column for column, sentence in enumerate(words) if len(sentence) == length]
            for together in batched(columns, max(1, _BELIEFS_TOGETHER // (length**3 * self.config.rule_rows))):
                # The chart needs two words: a single word is repeated, and the second is ignored.
                read = [words[column].repeat(2) if length == 1 else words[column] for column in together]
                part = Sentences(torch.cat(read), (max(2, length),) * len(together))
                tables = self._tables(part)
                tables = tables._replace(words=tables.words.view(len(together), -1))
                alone = self.unigrams[torch.stack([words[column][0] for column in together])]
                new_beliefs = tree_beliefs(tables, emission_entropies, alone, self.one_word_share, length, spans)
                beliefs.update(zip(together, new_beliefs, strict=True))
        return [beliefs[column] for column in range(len(words))]

    def _check_beliefs(self, words: int, spans: bool, entropies: bool) -> None:
        """Raise InputError if the charts of beliefs about a sentence do not fit in this machine's memory."""
        symbols = self.nonterminal_count + self.config.preterminals
        factors = self.config.rule_rows * (symbols if self.config.full_table else 1)
        chart = words**2 * factors
        size = chart * (2 * _BELIEF_CHARTS if entropies else _BELIEF_CHARTS) + 6 * factors * (factors + symbols)
        if spans:
            size += 2 * words**3 + 2 * max(chart, OUTSIDE_TOGETHER)
        check_chart(words, size * torch.float64.itemsize)

    def _check_prefixes(self, words: int) -> None:
        """Raise InputError if the prefix probabilities of a sentence do not fit in this machine's memory."""
        spans = words * (words + 1) // 2
        symbols = self.nonterminal_count
        size = spans * (3 * self.config.rule_rows + _OTHER_VALUES_PER_SPAN)
        if self.config.full_table:  # both charts, and copies of the children of the spans of one width
            size = spans * 4 * symbols + words * (symbols + self.config.preterminals) ** 2
        check_chart(words, size * torch.float64.itemsize)

    def _prefixes(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Return natural log-probabilities of prefixes of 0 to n words, and as whole sentences: (B, n + 1) each."""
        share = self.one_word_share.double().log()
        rest = torch.log1p(-self.one_word_share.double())
        shape = len(sentences.lengths), max(sentences.lengths) + 1
        self._check_prefixes(max(sentences.lengths))
        prefixes = self.unigrams.new_full(shape, -torch.inf, dtype=torch.float64)
        wholes = prefixes.clone()
        prefixes[:, 0] = 0
        for index, part in self._groups(sentences, _PREFIX_PROBABILITIES_TOGETHER, shortest=1):
            # The layout needs two words: a single word is repeated, and the prefix of the second is ignored.
            parts = [words if len(words) > 1 else words.repeat(2) for words in part.words.split(part.lengths)]
            padded = Sentences(torch.cat(parts), tuple(map(len, parts)))
            tables = self._tables(padded)
            computed = prefix_log_probs(
                tables.rules, tables.emissions, tables.words, Layout(padded.lengths, self.device)
            )
            size = computed.prefixes.shape[1]
            alone = share + self.unigrams.double()[torch.stack([words[0] for words in parts])]
            prefixes[index, 1 : size + 1] = (rest + computed.prefixes)[:, : shape[1] - 1]
            prefixes[index, 1] = torch.logaddexp(prefixes[index, 1], alone)
            wholes[index, 1 : size + 1] = (rest + computed.sentences)[:, : shape[1] - 1]
            wholes[index, 1] = alone
        return prefixes, wholes

    def _next(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the next-token distribution after prefixes, (T, B) with BOS -> (B, V), each computed once."""
        repeated = self._sentences(TokenBatch(tokens, tokens, lengths))
        parts = [tuple(part.tolist()) for part in repeated.words.split(repeated.lengths)]
        places = {part: place for place, part in enumerate(dict.fromkeys(parts))}
        sentences = Sentences.of(places, self.device)
        prefixes, wholes = self._prefixes(sentences)
        tables = self._tables(sentences)  # of the words in the prefixes only
        predicted = next_words(tables.rules, tables.emissions, tables.words, sentences.lengths)
        last = torch.tensor(sentences.lengths, device=self.device)
        words = predicted.log_probs(self._all_tables()[1], self._word_probabilities())
        prefix, whole = (chart.gather(1, last[:, None])[:, 0] for chart in (prefixes, wholes))
        result = self._distributions(words, last == 0, prefix, whole)
        return result[torch.tensor([places[part] for part in parts], device=self.device)]

    def _next_by_chart(self, chart: GrowingChart, tokens: Tensor) -> Tensor:
        """Return the next-token distribution, (B, V), after prefixes, (T, B) with BOS, of which this is the chart."""
        rest = torch.log1p(-self.one_word_share.double())
        prefixes, wholes = rest + chart.prefixes, rest + chart.wholes
        if chart.length == 0:
            prefixes = torch.zeros_like(prefixes)
        elif chart.length == 1:
            words = (tokens[1] - SPECIALS).clamp(min=0)
            wholes = self.one_word_share.double().log() + self.unigrams.double()[words]
            prefixes = torch.logaddexp(prefixes, wholes)
        is_empty = torch.full_like(prefixes, chart.length == 0, dtype=torch.bool)
        return self._distributions(chart.next_words(), is_empty, prefixes, wholes)

    @torch.no_grad()
    def each_next_log_probs(self, batch: TokenBatch, state: State = None) -> Iterator[Tensor]:
        if state is not None:
            yield from super().each_next_log_probs(batch, state)
            return
        sentences = self._sentences(TokenBatch(batch.tokens, batch.tokens))
        prefixes, wholes = self._prefixes(sentences)
        tables = self._tables(sentences)
        predicted = next_words_after_each(tables.rules, tables.emissions, tables.words, sentences.lengths)
        weights, scales = (torch.stack(parts, 1) for parts in zip(*predicted, strict=True))  # (n + 1, B, ...)
        emissions, probabilities = self._all_tables()[1], self._word_probabilities()
        for step, next_word in enumerate(map(NextWords, weights, scales)):
            words = next_word.log_probs(emissions, probabilities)
            is_empty = torch.full(batch.tokens.shape[1:], step == 0, device=self.device)
            yield self._distributions(words, is_empty, prefixes[:, step], wholes[:, step])

    def _distributions(self, words: Tensor, is_empty: Tensor, prefixes: Tensor, wholes: Tensor) -> Tensor:
        """Return the next-token distributions, (B, V), after prefixes.

        Args:
            words: (B, V - 2), log P(prefix w followed by anything), given that a sentence has two or more words.
            is_empty: whether a prefix has no words.
            prefixes: (B,) log-probability of each prefix.
            wholes: (B,) log-probability of the sentence that ends after it.
        """
        alone = self.unigrams.double() + self.one_word_share.double().log()
        words = words + torch.log1p(-self.one_word_share.double())
        words[is_empty] = torch.logaddexp(words[is_empty], alone)
        result = words.new_full((len(words), self.vocabulary_size), -torch.inf)
        result[:, 0] = words[:, 0] - prefixes
        result[:, SPECIALS + 1 :] = words[:, 1:] - prefixes[:, None]
        result[:, EOS] = wholes - prefixes
        return result


@model("holographic-pcfg", HolographicPCFGConfig)
class HolographicPCFG(PCFG, ConstrainsWeights):
    """A Hol-PCFG, whose vectors are projected onto the torus after every optimiser step."""

    grammar: HolographicGrammar

    def project(self) -> None:
        self.grammar.project()
