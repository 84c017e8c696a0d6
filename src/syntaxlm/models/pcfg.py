"""Neural probabilistic context-free grammars: rule probabilities computed by a network, trained on plain text.

Four parametrisations over one interface, `Grammar`: `SimpleGrammar` (SN-PCFG, Liu et al. 2023), `TensorGrammar`
(TN-PCFG, Yang et al. 2021), `NeuralGrammar` and `CompoundGrammar` (N-PCFG and C-PCFG, Kim et al. 2019). `PCFG` makes a
language model and a parser of any of them.
m nonterminals, t preterminals, V words, d embedding size. Symbols are ordered nonterminals first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from syntaxlm.ops.inside import (
    Derivation,
    FactoredRules,
    Layout,
    Posteriors,
    Rules,
    TableRules,
    best_derivations,
    emission_log_probs,
    log_partition,
    posteriors,
    prefix_log_probs,
    product_softmax,
)
from syntaxlm.trees.span_decoding import SpanScores, decode_spans
from syntaxlm.trees.spans import SpanSets

_PREFIX_CHART = 1 << 22  # entries of each float64 chart of prefix probabilities


@dataclass(frozen=True)
class Sentences:
    """A batch of sentences of any lengths, without padding.

    words: (N,) int64 words, sentence after sentence.  lengths: words of each sentence, one or more.
    """

    words: Tensor
    lengths: tuple[int, ...]

    @staticmethod
    def of(sentences: Iterable[Sequence[int]], device: torch.device | str = "cpu") -> Sentences:
        sentences = list(sentences)
        words = torch.tensor([word for sentence in sentences for word in sentence], dtype=torch.int64, device=device)
        return Sentences(words, tuple(map(len, sentences)))

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, indices: Sequence[int]) -> Sentences:
        """The sentences of these indices, in this order."""
        parts = self.words.split(self.lengths)
        chosen = [parts[index] for index in indices]
        return Sentences(torch.cat(chosen) if chosen else self.words[:0], tuple(len(part) for part in chosen))


class Tables(NamedTuple):
    """What a grammar says about a batch: the arguments of the inside algorithm.

    penalties: (B,) KL divergence of the sentence vectors from their prior, nats; None where there are none.
    """

    rules: Rules
    emissions: Tensor
    words: Tensor
    penalties: Tensor | None = None


class ResidualBlock(nn.Module):
    """x + relu(second(relu(first(x)))): (..., d) -> (..., d)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + relu(self.second(relu(self.first(inputs))))


def _embedding(rows: int, size: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, size)))


def _residual_network(input_size: int, size: int, blocks: int, output_size: int | None = None) -> nn.Sequential:
    """A linear layer, residual blocks, and a linear layer to the output if there is one."""
    layers: list[nn.Module] = [nn.Linear(input_size, size), *(ResidualBlock(size) for _ in range(blocks))]
    if output_size is not None:
        layers.append(nn.Linear(size, output_size))
    return nn.Sequential(*layers)


def _initialise(module: nn.Module) -> None:
    """Xavier-uniform matrices, which the papers found to matter; biases stay as torch draws them."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)


class Grammar(nn.Module, ABC):
    """What turns weights into the probabilities of rules."""

    nonterminal_count: int
    preterminal_count: int
    vocabulary_size: int

    exact = True  # whether the probability of a sentence is exact, not bounded

    @abstractmethod
    def rules(self) -> Rules:
        """The probabilities of start and binary rules."""

    @abstractmethod
    def emissions(self, columns: Tensor) -> Tensor:
        """Natural log p(w | T) of distinct words: (u,) int64 -> (u, t)."""

    def tables(self, sentences: Sentences) -> Tables:
        """What the inside algorithm reads of a batch."""
        columns, words = torch.unique(sentences.words, return_inverse=True)
        return Tables(self.rules(), self.emissions(columns), words)


class SimpleGrammar(Grammar):
    """SN-PCFG: left and right child are independent given the parent, p(A -> B C) = p_L(B | A) p_R(C | A).

    With p_A = relu(P e_A) + e_A, l_X = relu(L e_X) + e_X, q_X = relu(R e_X) + e_X: p_L(. | A) = softmax_X(l_X . p_A),
    p_R(. | A) = softmax_X(q_X . p_A), r = softmax_A(s . e_A); with h_T = f(e_T) + e_T: p(w | T) = softmax_w(h_T . v_w).
    Liu et al. 2023, section 4 and appendix.
    """

    def __init__(self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self.nonterminal_count, self.preterminal_count = nonterminals, preterminals
        self.vocabulary_size = vocabulary_size
        self.symbols = _embedding(nonterminals + preterminals, embedding_size)
        self.start = _embedding(1, embedding_size)
        self.words = _embedding(vocabulary_size, embedding_size)
        self.parent, self.left, self.right = (nn.Linear(embedding_size, embedding_size) for _ in range(3))
        self.emission = _residual_network(embedding_size, embedding_size, blocks=3)
        _initialise(self)

    def rules(self) -> FactoredRules:
        symbols, count = self.symbols, self.nonterminal_count
        parents = symbols[:count]
        parents = relu(self.parent(parents)) + parents
        left, right = (product_softmax(parents, relu(side(symbols)) + symbols) for side in (self.left, self.right))
        return FactoredRules(torch.softmax(linear(self.start, symbols[:count])[0].to(left.dtype), 0), left, right)

    def emissions(self, columns: Tensor) -> Tensor:
        preterminals = self.symbols[self.nonterminal_count :]
        return emission_log_probs(self.emission(preterminals) + preterminals, self.words, None, columns)


class TensorGrammar(Grammar):
    """TN-PCFG: the table of binary rules has a low rank, p(A -> B C) = sum_l U_Al V_Bl W_Cl.

    U is a softmax over the rank, V and W over symbols. Yang et al. 2021, section 4.
    """

    def __init__(
        self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int, rank: int
    ) -> None:
        super().__init__()
        self.nonterminal_count, self.preterminal_count = nonterminals, preterminals
        self.vocabulary_size = vocabulary_size
        self.symbols = _embedding(nonterminals + preterminals, embedding_size)
        self.start = _embedding(1, embedding_size)
        self.parent, self.left, self.right = (
            nn.Sequential(nn.Linear(embedding_size, embedding_size), nn.ReLU(), nn.Linear(embedding_size, rank))
            for _ in range(3)
        )
        self.emission = _residual_network(embedding_size, embedding_size, 2, vocabulary_size)
        self.root = _residual_network(embedding_size, embedding_size, 2, nonterminals)
        _initialise(self)

    def rules(self) -> FactoredRules:
        dtype = self.symbols.dtype
        parent = torch.softmax(self.parent(self.symbols[: self.nonterminal_count]).to(dtype), 1)
        left, right = (torch.softmax(side(self.symbols).to(dtype), 0).T for side in (self.left, self.right))
        return FactoredRules(torch.softmax(self.root(self.start)[0].to(dtype), 0), left, right, parent)

    def emissions(self, columns: Tensor) -> Tensor:
        return _network_emissions(self.emission, self.symbols[self.nonterminal_count :], columns)


class NeuralGrammar(Grammar):
    """N-PCFG: the table of binary rules is a linear map of the parent's embedding. Kim et al. 2019, section 2.1."""

    def __init__(self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int) -> None:
        super().__init__()
        self._make(nonterminals, preterminals, vocabulary_size, embedding_size, embedding_size)
        _initialise(self)

    def _make(
        self, nonterminals: int, preterminals: int, vocabulary_size: int, embedding_size: int, input_size: int
    ) -> None:
        """input_size: features that the networks read."""
        self.nonterminal_count, self.preterminal_count = nonterminals, preterminals
        self.vocabulary_size = vocabulary_size
        self.nonterminals = _embedding(nonterminals, embedding_size)
        self.preterminals = _embedding(preterminals, embedding_size)
        self.start = _embedding(1, embedding_size)
        self.rule = nn.Linear(input_size, (nonterminals + preterminals) ** 2)
        self.emission = _residual_network(input_size, embedding_size, 2, vocabulary_size)
        self.root = _residual_network(input_size, embedding_size, 2, nonterminals)

    def rules(self) -> TableRules:
        root = torch.softmax(self.root(self.start)[0].to(self.start.dtype), 0)
        return TableRules(root, self._binary(self.nonterminals))

    def emissions(self, columns: Tensor) -> Tensor:
        return _network_emissions(self.emission, self.preterminals, columns)

    def _binary(self, parents: Tensor) -> Tensor:
        """(..., m, features) -> (..., m, m + t, m + t)."""
        symbols = self.nonterminal_count + self.preterminal_count
        flat = torch.softmax(self.rule(parents).to(parents.dtype), -1)
        return flat.unflatten(-1, (symbols, symbols))


class CompoundGrammar(NeuralGrammar):
    """C-PCFG: an N-PCFG whose networks also read a vector z of the sentence, z ~ N(0, I) of `latent_size` features.

    z is inferred by a BiLSTM over the words and a maximum over positions; training maximises the evidence lower bound.
    The probability of a sentence is known as this bound only. Kim et al. 2019, sections 2.2 and 2.3.
    """

    exact = False

    def __init__(
        self,
        nonterminals: int,
        preterminals: int,
        vocabulary_size: int,
        embedding_size: int,
        latent_size: int = 64,
        encoder_size: int = 512,
    ) -> None:
        super(NeuralGrammar, self).__init__()
        self.latent_size = latent_size
        self._make(nonterminals, preterminals, vocabulary_size, embedding_size, embedding_size + latent_size)
        self.words = nn.Embedding(vocabulary_size, encoder_size)
        self.encoder = nn.LSTM(encoder_size, encoder_size, bidirectional=True)
        self.moments = nn.Linear(2 * encoder_size, 2 * latent_size)
        _initialise(self)

    def infer(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of each sentence's vector: (B, latent) each."""
        parts = self.words(sentences.words).split(sentences.lengths)
        packed = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], padding_value=-torch.inf)
        mean, log_variance = self.moments(states.amax(0)).chunk(2, -1)
        return mean, log_variance

    def tables(self, sentences: Sentences) -> Tables:
        """With z drawn by reparametrisation in training, its mean in evaluation."""
        mean, log_variance = self.infer(sentences)
        vectors = mean
        if self.training:
            vectors = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        penalties = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return self.tables_of(sentences, vectors)._replace(penalties=penalties)

    def tables_of(self, sentences: Sentences, vectors: Tensor) -> Tables:
        """For given z, (B, latent): rules of each sentence, and emissions of each word."""
        root = torch.softmax(self.root(self._joined(self.start, vectors))[:, 0].to(self.start.dtype), -1)
        rules = TableRules(root, self._binary(self._joined(self.nonterminals, vectors)))
        columns, words = torch.unique(sentences.words, return_inverse=True)
        joined = self._joined(self.preterminals, vectors)
        found = _network_emissions(self.emission, joined.flatten(0, 1), columns).unflatten(1, joined.shape[:2])
        sentence = torch.arange(len(sentences), device=words.device)
        sentence = sentence.repeat_interleave(torch.tensor(sentences.lengths, device=words.device))
        return Tables(rules, found[words, sentence], torch.arange(len(words), device=words.device))

    @staticmethod
    def _joined(symbols: Tensor, vectors: Tensor) -> Tensor:
        """(k, d), (B, latent) -> (B, k, d + latent)."""
        shape = len(vectors), len(symbols), -1
        return torch.cat([symbols.expand(shape), vectors[:, None].expand(shape)], -1)


def _network_emissions(network: nn.Sequential, inputs: Tensor, columns: Tensor) -> Tensor:
    """log p(w | T) where the last layer of a network maps to words: (t, features), (u,) -> (u, t)."""
    words = network[-1]
    assert isinstance(words, nn.Linear)
    return emission_log_probs(network[:-1](inputs), words.weight, words.bias, columns)


class EndBias:
    """Which words end constituents, learned from where sentences end.

    Words with which sentences rarely end, such as articles, prepositions and auxiliaries, rarely end constituents. The
    log-weight of a span that ends before the sentence does, in word w, is min(0, log(p(end | w) / p(end))): counts of
    plain text. As a bias of the first part of training it makes all seeds find grammars in which such words attach to
    what follows them; it falls to 0, so that the final grammar is trained on the likelihood alone.
    scores: (V,) float64.
    """

    def __init__(self, sentences: Iterable[Sequence[int]], vocabulary_size: int, pseudo_counts: float = 10.0) -> None:
        """pseudo_counts: of each word, at the overall rate of sentence ends."""
        counts, ends = np.zeros(vocabulary_size), np.zeros(vocabulary_size)
        for sentence in sentences:
            if len(sentence) > 1:
                np.add.at(counts, np.asarray(sentence), 1)
                ends[sentence[-1]] += 1
        if not counts.sum():
            raise ValueError("no sentence of two words or more to count the ends of")
        rate = ends.sum() / counts.sum()
        shares = (ends + pseudo_counts * rate) / (counts + pseudo_counts)
        self.scores = torch.from_numpy(np.minimum(0, np.log(shares / rate)))

    def weights(self, sentences: Sentences, strength: float) -> Tensor:
        """(B, n, n) log-weights of spans by first and last word, times `strength`; 0 where the sentence ends."""
        longest = max(sentences.lengths)
        result = self.scores.new_zeros(len(sentences), longest, longest)
        for number, part in enumerate(sentences.words.cpu().split(sentences.lengths)):
            result[number, :, : len(part) - 1] = strength * self.scores[part[:-1]]
        return result


class Sample(NamedTuple):
    """A sentence drawn from a grammar: its words, and its spans (first, last, nonterminal), a span before its parts."""

    words: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]


class PCFG(nn.Module):
    """A grammar as a language model and a parser.

    Sentences of one word are not in the grammar (S -> A -> B C). A share q of sentences has one word, drawn from
    unigrams; the others have 1 - q times the grammar's probability. `count_single_words` sets both from training text.
    Wherever probabilities are given, the end of the sentence is predicted: P(sentence) is that of exactly these words.
    """

    one_word_share: Tensor
    unigrams: Tensor

    def __init__(self, grammar: Grammar) -> None:
        super().__init__()
        self.grammar = grammar
        size = grammar.vocabulary_size
        self.register_buffer("one_word_share", torch.zeros((), dtype=torch.float64))
        self.register_buffer("unigrams", torch.full((size,), -math.log(size), dtype=torch.float64))
        self._fixed: tuple[Rules, Tensor] | None = None

    def count_single_words(self, sentences: Iterable[Sequence[int]]) -> None:
        """Sets q, and the unigrams of one-word sentences: their counts plus one half of each word's."""
        total = single = 0
        counts = torch.zeros_like(self.unigrams)
        for sentence in sentences:
            total += 1
            if len(sentence) == 1:
                single += 1
                counts[sentence[0]] += 1
        counts += 0.5
        self.one_word_share.fill_((single + 0.5) / (total + 1))
        self.unigrams.copy_((counts / counts.sum()).log())

    @contextmanager
    def fixed_rules(self) -> Iterator[None]:
        """Computes the rules and all emissions once for what is done inside; nothing there may be trained.

        Not for compound grammars, whose rules differ by sentence: there it does nothing.
        """
        if not self.grammar.exact:
            yield
            return
        with torch.no_grad():
            every = torch.arange(self.grammar.vocabulary_size, device=self.unigrams.device)
            self._fixed = self.grammar.rules(), self.grammar.emissions(every)
        try:
            yield
        finally:
            self._fixed = None

    def sentence_log_probs(self, sentences: Sentences) -> Tensor:
        """(B,) natural log P(sentence), its end included. Of a compound grammar, the evidence lower bound."""
        single, longer = self._by_length(sentences)
        result = self.unigrams.new_zeros(len(sentences))
        if longer:
            parts = sentences.select(longer)
            tables = self._tables(parts)
            log_probs = log_partition(tables.rules, tables.emissions, tables.words, Layout(parts.lengths))
            if tables.penalties is not None:
                log_probs = log_probs - tables.penalties
            result = result.index_copy(0, self._index(longer), log_probs.double() + torch.log1p(-self.one_word_share))
        if single:
            words = sentences.select(single).words
            result = result.index_copy(0, self._index(single), self.unigrams[words] + self.one_word_share.log())
        return result

    def loss(self, sentences: Sentences, weights: Tensor | None = None) -> tuple[Tensor, int]:
        """Training: the summed negative log-likelihood (nats; of a compound grammar the negative bound), and words.

        Sentences of one word are left out: nothing of them is learned by gradient.
        weights: (B, n, n) log-weights of spans, see `log_partition`: the likelihood of weighted derivations.
        """
        indices = self._by_length(sentences)[1]
        longer = sentences.select(indices)
        if not len(longer):
            return self.unigrams.new_zeros(()), 0
        if weights is not None:
            longest = max(longer.lengths)
            weights = weights[indices, :longest, :longest]
        tables, layout = self._tables(longer), Layout(longer.lengths)
        total = -log_partition(tables.rules, tables.emissions, tables.words, layout, weights).sum()
        if tables.penalties is not None:
            total = total + tables.penalties.sum()
        return total, sum(longer.lengths)

    @torch.no_grad()
    def posteriors(self, sentences: Sentences) -> Posteriors:
        """Span marginals and labels of sentences of two words or more, see `ops.inside.posteriors`."""
        tables = self._tables(sentences)
        return posteriors(tables.rules, tables.emissions, tables.words, Layout(sentences.lengths))

    def span_marginals(self, sentences: Sentences) -> SpanScores:
        """The probability of every span given the sentence, to be decoded by the rule `cky` (minimum Bayes risk)."""
        _, longer = self._by_length(sentences)
        chosen = sentences.select(longer)
        values = [np.zeros(1)] * len(sentences)
        if longer:
            marginals = self.posteriors(chosen).marginals.double().cpu().numpy()
            for place, index in enumerate(longer):
                last, width = np.tril_indices(sentences.lengths[index])
                values[index] = marginals[place, last - width, last]
        return SpanScores(np.array(sentences.lengths), np.concatenate(values))

    def trees(self, sentences: Sentences) -> SpanSets:
        """The trees whose spans have the greatest sum of marginals: minimum Bayes risk."""
        return decode_spans(self.span_marginals(sentences), "cky")

    def derivations(self, sentences: Sentences) -> list[Derivation]:
        """The most probable derivation of each sentence, of two words or more: Viterbi trees with labels."""
        tables = self._tables(sentences)
        return best_derivations(tables.rules, tables.emissions, tables.words, Layout(sentences.lengths))

    @torch.no_grad()
    def token_log_probs(self, sentences: Sentences) -> Tensor:
        """(n + 1, B) natural log-probabilities of each word given those before it, and of the sentence's end behind.

        Zero behind the end of shorter sentences; a column adds up to `sentence_log_probs`. By prefix probabilities, in
        float64. Raises ValueError for a compound grammar, which has none.
        """
        if not self.grammar.exact:
            raise ValueError("a compound PCFG bounds the probability of a sentence and gives none of single words")
        longest = max(sentences.lengths)
        result = self.unigrams.new_zeros(longest + 1, len(sentences))
        for chosen in self._few_spans(sentences.lengths):
            part = self._token_log_probs(sentences.select(chosen))
            result[: len(part), self._index(chosen)] = part
        return result

    def _token_log_probs(self, sentences: Sentences) -> Tensor:
        """`token_log_probs` of sentences whose charts are in memory together."""
        share, rest = self.one_word_share.log(), torch.log1p(-self.one_word_share)
        # A prefix of one word may be a whole sentence; a column of two words keeps the layout valid for single ones.
        doubled = [length if length > 1 else 2 for length in sentences.lengths]
        words = [part if len(part) > 1 else part.repeat(2) for part in sentences.words.split(sentences.lengths)]
        padded = Sentences(torch.cat(words), tuple(doubled))
        tables = self._tables(padded)
        found = prefix_log_probs(tables.rules, tables.emissions, tables.words, Layout(padded.lengths))
        prefixes = rest + found.prefixes
        first = torch.tensor([int(part[0]) for part in words], device=prefixes.device)
        alone = share + self.unigrams[first]
        prefixes[:, 0] = torch.logaddexp(prefixes[:, 0], alone)
        result = prefixes.new_zeros(max(sentences.lengths) + 1, len(sentences))
        for column, length in enumerate(sentences.lengths):
            own = prefixes[column, :length]
            whole = alone[column] if length == 1 else rest + found.sentences[column, length - 1]
            result[: length + 1, column] = torch.diff(torch.cat([own.new_zeros(1), own, whole[None]]))
        return result

    @torch.no_grad()
    def sample(self, count: int, longest: int, generator: np.random.Generator, tries: int = 1000) -> list[Sample]:
        """Draws sentences of at most `longest` words, ancestrally; longer ones are given up and drawn anew.

        tries: draws per sentence before it is an error that none was short enough.
        """
        sampler = None if isinstance(self.grammar, CompoundGrammar) else self._sampler(None)
        drawn = []
        for _ in range(count):
            if generator.random() < float(self.one_word_share):
                shares = self.unigrams.exp().cpu().numpy()
                drawn.append(Sample((int(generator.choice(len(shares), p=shares / shares.sum())),), ()))
                continue
            for _ in range(tries):
                found = (sampler or self._sampler(generator)).draw(longest, generator)
                if found is not None:
                    drawn.append(found)
                    break
            else:
                raise ValueError(f"no sentence of at most {longest} words in {tries} draws")
        return drawn

    def _sampler(self, generator: np.random.Generator | None) -> _Sampler:
        every = torch.arange(self.grammar.vocabulary_size, device=self.unigrams.device)
        if isinstance(self.grammar, CompoundGrammar):
            assert generator is not None
            vector = torch.from_numpy(generator.standard_normal((1, self.grammar.latent_size))).to(self.grammar.start)
            tables = self.grammar.tables_of(Sentences(every, (len(every),)), vector)
            return _Sampler(
                tables.rules.of(0) if isinstance(tables.rules, TableRules) else tables.rules, tables.emissions
            )
        rules, emissions = self._fixed or (self.grammar.rules(), self.grammar.emissions(every))
        return _Sampler(rules, emissions)

    def _tables(self, sentences: Sentences) -> Tables:
        if self._fixed is None:
            return self.grammar.tables(sentences)
        rules, emissions = self._fixed
        columns, words = torch.unique(sentences.words, return_inverse=True)
        return Tables(rules, emissions[columns], words)

    def _index(self, indices: list[int]) -> Tensor:
        return torch.tensor(indices, device=self.unigrams.device)

    def _few_spans(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices of sentences in turn, in groups whose charts of prefixes fit in memory."""
        most = _PREFIX_CHART // self.grammar.nonterminal_count
        group: list[int] = []
        spans = 0
        for index, length in enumerate(lengths):
            own = length * (length + 1) // 2
            if group and spans + own > most:
                yield group
                group, spans = [], 0
            group.append(index)
            spans += own
        if group:
            yield group

    @staticmethod
    def _by_length(sentences: Sentences) -> tuple[list[int], list[int]]:
        """Indices of sentences of one word, and of longer ones."""
        if min(sentences.lengths, default=1) < 1:
            raise ValueError("a sentence without words has no probability")
        single = [index for index, length in enumerate(sentences.lengths) if length == 1]
        return single, [index for index, length in enumerate(sentences.lengths) if length > 1]


class _Sampler:
    """Draws derivations from fixed rules, by inverse cumulative distributions."""

    def __init__(self, rules: Rules, emissions: Tensor) -> None:
        def cumulated(shares: Tensor) -> np.ndarray:
            sums: np.ndarray = shares.double().cumsum(-1).cpu().numpy()
            return sums

        self.nonterminals = rules.nonterminals
        self.symbols = rules.nonterminals + rules.preterminals
        self.root, self.words = cumulated(rules.root), cumulated(emissions.T.exp())
        self.parent = self.pairs = None
        if isinstance(rules, TableRules):
            self.pairs = cumulated(rules.binary.flatten(1))
        else:
            self.left, self.right = cumulated(rules.left), cumulated(rules.right)
            self.parent = None if rules.parent is None else cumulated(rules.parent)

    def draw(self, longest: int, generator: np.random.Generator) -> Sample | None:
        """A sentence, or None where it would be longer than the limit."""
        words: list[int] = []
        spans: list[list[int]] = []
        # Symbols to expand, from left to right; a span's number stands for its end.
        waiting: list[tuple[int, bool]] = [(self._one(self.root, generator), False)]
        pending = 1  # symbols that will be words or more
        while waiting:
            symbol, is_end = waiting.pop()
            if is_end:
                spans[symbol][1] = len(words) - 1
                continue
            if symbol >= self.nonterminals:
                words.append(self._one(self.words[symbol - self.nonterminals], generator))
                pending -= 1
                continue
            pending += 1
            if len(words) + pending > longest:
                return None
            spans.append([len(words), -1, symbol])
            left, right = self._children(symbol, generator)
            waiting += [(len(spans) - 1, True), (right, False), (left, False)]
        return Sample(tuple(words), tuple((first, last, symbol) for first, last, symbol in spans))

    def _children(self, symbol: int, generator: np.random.Generator) -> tuple[int, int]:
        if self.pairs is not None:
            return divmod(self._one(self.pairs[symbol], generator), self.symbols)
        factor = symbol if self.parent is None else self._one(self.parent[symbol], generator)
        return self._one(self.left[factor], generator), self._one(self.right[factor], generator)

    @staticmethod
    def _one(sums: np.ndarray, generator: np.random.Generator) -> int:
        return int(np.searchsorted(sums, generator.random() * sums[-1], side="right").clip(max=len(sums) - 1))
