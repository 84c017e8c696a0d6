"""Grammars whose rule probabilities are computed by a neural network.

Five parametrisations over one interface, `Grammar`: `SimpleGrammar` (SN-PCFG, Liu et al. 2023), `HolographicGrammar`
(Hol-PCFG, Yamaki et al. 2026), `TensorGrammar` (TN-PCFG, Yang et al. 2021), `NeuralGrammar` and `CompoundGrammar`
(N-PCFG and C-PCFG, Kim et al. 2019).
m nonterminals, t preterminals, V words, d embedding size. Symbols are ordered nonterminals first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from syntaxlm.core.settings import NonNegative, Positive, Size
from syntaxlm.models.config import BaseConfig
from syntaxlm.models.layers import RMSNorm
from syntaxlm.models.pcfg.networks import (
    NormalisedBlock,
    ResidualLayer,
    RuleNetwork,
    UnitLength,
    embedding,
    initialise,
    network_emissions,
    rule_network,
)
from syntaxlm.ops.inside import FactoredRules, Rules, TableRules
from syntaxlm.ops.softmax import emission_log_probs, product_softmax
from syntaxlm.ops.unit_rows import unit_rows
from syntaxlm.trees.marks import MarkSide

_MOST_RULES = 1 << 28  # most probabilities of binary rules in one table


@dataclass(frozen=True)
class Sentences:
    """A batch of sentences of any lengths, without padding.

    Attributes:
        words: (N,) int64, the words of all sentences, concatenated.
        lengths: number of words of each sentence, at least 1.
    """

    words: Tensor
    lengths: tuple[int, ...]

    @staticmethod
    def of(sentences: Iterable[Sequence[int]], device: torch.device | str = "cpu") -> Sentences:
        sentences = list(sentences)
        words = torch.tensor([word for sentence in sentences for word in sentence], dtype=torch.int64, device=device)
        return Sentences(words, tuple(map(len, sentences)))


class Tables(NamedTuple):
    """The rules and emissions of a batch: arguments of the inside algorithm.

    Attributes:
        penalties: (B,) KL divergence of the sentence vectors from their prior, in nats; None without sentence vectors.
    """

    rules: Rules
    emissions: Tensor
    words: Tensor
    penalties: Tensor | None = None

    def double(self) -> Tables:
        return self._replace(rules=self.rules.double(), emissions=self.emissions.double())


class Grammar(nn.Module, ABC):
    """Computes the rule probabilities of a grammar from its weights.

    Args:
        config: number of symbols.
        vocabulary_size: number of words, without BOS and EOS.
    """

    latent_size = 0  # features of the sentence vector on which the rules depend; 0: no vector

    def __init__(self, config: PCFGConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.nonterminal_count = config.nonterminals
        self.preterminal_count = config.preterminals
        self.vocabulary_size = vocabulary_size

    @abstractmethod
    def rules(self) -> Rules:
        """Return the probabilities of start and binary rules."""

    @abstractmethod
    def emissions(self, columns: Tensor) -> Tensor:
        """Return natural log p(w | T) of distinct words w: (u,) int64 -> (u, t)."""

    def tables(self, sentences: Sentences) -> Tables:
        """Return the arguments of the inside algorithm for a batch."""
        columns, words = torch.unique(sentences.words, return_inverse=True)
        return Tables(self.rules(), self.emissions(columns), words)

    def all_tables(self, vector: Tensor | None = None) -> tuple[Rules, Tensor]:
        """Return the rules, and natural log p(w | T) of all words: (V, t).

        Args:
            vector: (latent_size,) the sentence vector z, if the rules depend on one; None for z = 0, its prior mean.
        """
        return self.rules(), self.emissions(torch.arange(self.vocabulary_size, device=next(self.parameters()).device))


class SimpleGrammar(Grammar):
    """SN-PCFG: left and right child are independent given the parent, p(A -> B C) = p_L(B | A) p_R(C | A).

    With p_A = relu(P e_A) + e_A, l_X = relu(L e_X) + e_X, q_X = relu(R e_X) + e_X: p_L(. | A) = softmax_X(l_X . p_A),
    p_R(. | A) = softmax_X(q_X . p_A), r = softmax_A(s . e_A); with h_T = f(e_T) + e_T: p(w | T) = softmax_w(h_T . v_w).
    Liu et al. 2023, section 4 and appendix. s is drawn from N(0, 1), so that the start probabilities differ initially.
    """

    def __init__(self, config: SimplePCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        size = config.embedding_size
        counts = config.nonterminals + config.preterminals, 1, vocabulary_size
        self.symbols, self.start, self.words = (embedding(count, size) for count in counts)
        self.is_standard = config.network == "standard"
        self.parent, self.left, self.right = self._symbol_networks(size)
        self.emission = rule_network(config.network, size, size, blocks=3)
        initialise(self)
        nn.init.normal_(self.start)

    def rules(self) -> FactoredRules:
        symbols, count = self.symbols, self.nonterminal_count
        parents = self.parent(symbols[:count])
        left, right = (product_softmax(parents, side(symbols)) for side in (self.left, self.right))
        return FactoredRules(torch.softmax(linear(self.start, symbols[:count])[0].to(left.dtype), 0), left, right)

    def emissions(self, columns: Tensor) -> Tensor:
        preterminals = self.symbols[self.nonterminal_count :]
        hidden = self.emission(preterminals)
        if self.is_standard:
            return emission_log_probs(hidden + preterminals, self.words, None, columns)
        return emission_log_probs(hidden, unit_rows(self.words), None, columns)

    def _symbol_networks(self, size: int) -> tuple[nn.Module, nn.Module, nn.Module]:
        """Return the networks of parents, left children and right children: (k, d) -> (k, d) each."""
        if self.is_standard:
            return ResidualLayer(size, size), ResidualLayer(size, size), ResidualLayer(size, size)
        parent = nn.Sequential(NormalisedBlock(size), RMSNorm(size))
        left, right = (nn.Sequential(NormalisedBlock(size), UnitLength()) for _ in range(2))
        return parent, left, right


class HolographicGrammar(Grammar):
    """Hol-PCFG: rules as in SN-PCFG, scored by circular correlation of vectors without hidden layers.

    With * circular convolution: p_L(. | A) = softmax_X(tau_rule e_X . (v_L * e_A)), p_R likewise with v_R,
    r = softmax_A(tau_root s . e_A), p(w | T) = softmax_w(tau_emission u_w . (v_E * e_T)). tau = exp(log_tau).
    `project` puts every vector on the torus: all its Fourier coefficients have modulus 1. Yamaki et al. 2026.
    """

    def __init__(self, config: HolographicPCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        size = config.embedding_size
        counts = config.nonterminals + config.preterminals, 1, vocabulary_size
        self.symbols, self.start, self.words = (nn.Parameter(_phase_vectors(size, count)) for count in counts)
        self.left, self.right, self.emission = (nn.Parameter(_phase_vectors(size)) for _ in range(3))
        initial = config.root_temperature, config.rule_temperature, config.emission_temperature
        self.log_tau_root, self.log_tau_rule, self.log_tau_emission = (
            nn.Parameter(torch.tensor(math.log(temperature))) for temperature in initial
        )

    def rules(self) -> FactoredRules:
        symbols = self.symbols
        parents = symbols[: self.nonterminal_count]
        spectrum = torch.fft.rfft(parents)
        tau = self.log_tau_rule.exp()
        left, right = (product_softmax(tau * _bound(spectrum, side), symbols) for side in (self.left, self.right))
        root = linear(self.start, parents)[0].to(left.dtype) * self.log_tau_root.exp()
        return FactoredRules(torch.softmax(root, 0), left, right)

    def emissions(self, columns: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(self.symbols[self.nonterminal_count :])
        hidden = self.log_tau_emission.exp() * _bound(spectrum, self.emission)
        return emission_log_probs(hidden, self.words, None, columns)

    @torch.no_grad()
    def project(self) -> None:
        """Divide every Fourier coefficient of every vector by its modulus; a coefficient of 0 stays 0."""
        for vectors in (self.symbols, self.start, self.words, self.left, self.right, self.emission):
            spectrum = torch.fft.rfft(vectors)
            vectors.copy_(torch.fft.irfft(spectrum / spectrum.abs().clamp_min(1e-12), n=vectors.shape[-1]))


class TensorGrammar(Grammar):
    """TN-PCFG: the binary rule table has low rank, p(A -> B C) = sum_l U_Al V_Bl W_Cl.

    U is a softmax over the rank, V and W over symbols. Yang et al. 2021, section 4.
    """

    def __init__(self, config: TensorPCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        size = config.embedding_size
        self.symbols, self.start = embedding(config.nonterminals + config.preterminals, size), embedding(1, size)
        self.parent, self.left, self.right = (
            nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, config.rank)) for _ in range(3)
        )
        self.emission = rule_network("standard", size, size, 2, vocabulary_size)
        self.root = rule_network("standard", size, size, 2, config.nonterminals)
        initialise(self)

    def rules(self) -> FactoredRules:
        dtype = self.symbols.dtype
        parent = torch.softmax(self.parent(self.symbols[: self.nonterminal_count]).to(dtype), 1)
        left, right = (torch.softmax(side(self.symbols).to(dtype), 0).T for side in (self.left, self.right))
        return FactoredRules(torch.softmax(self.root(self.start)[0].to(dtype), 0), left, right, parent)

    def emissions(self, columns: Tensor) -> Tensor:
        return network_emissions(self.emission, self.symbols[self.nonterminal_count :], columns)


class NeuralGrammar(Grammar):
    """N-PCFG: the binary rule table is a linear map of the parent's embedding. Kim et al. 2019, section 2.1."""

    def __init__(self, config: NeuralPCFGConfig, vocabulary_size: int) -> None:
        super().__init__(config, vocabulary_size)
        self._make(config, config.embedding_size)
        initialise(self)

    def _make(self, config: NeuralPCFGConfig | CompoundPCFGConfig, input_size: int) -> None:
        """Create the parameters.

        Args:
            input_size: features of the networks' input.
        """
        size = config.embedding_size
        symbols = config.nonterminals + config.preterminals
        counts = config.nonterminals, config.preterminals, 1
        self.nonterminals, self.preterminals, self.start = (embedding(count, size) for count in counts)
        self.rule: nn.Module
        if config.network == "standard":
            self.rule = nn.Linear(input_size, symbols**2)
        else:
            self.rule = rule_network(config.network, input_size, size, 2, symbols**2)
        self.emission = rule_network(config.network, input_size, size, 2, self.vocabulary_size)
        self.root = rule_network(config.network, input_size, size, 2, config.nonterminals)

    def rules(self) -> TableRules:
        root = torch.softmax(self.root(self.start)[0].to(self.start.dtype), 0)
        return TableRules(root, self._binary(self.nonterminals))

    def emissions(self, columns: Tensor) -> Tensor:
        return network_emissions(self.emission, self.preterminals, columns)

    def _binary(self, parents: Tensor) -> Tensor:
        """Return probabilities of binary rules: (..., m, features) -> (..., m, m + t, m + t)."""
        symbols = self.nonterminal_count + self.preterminal_count
        flat = torch.softmax(self.rule(parents).to(parents.dtype), -1)
        return flat.unflatten(-1, (symbols, symbols))


class CompoundGrammar(NeuralGrammar):
    """C-PCFG: an N-PCFG whose networks also read a sentence vector z ~ N(0, I) of `latent_size` features.

    z is inferred by a BiLSTM over the words with max pooling; training maximises the evidence lower bound (ELBO).
    Sentence probabilities are only known through estimates of this bound. Kim et al. 2019, sections 2.2 and 2.3.
    """

    def __init__(self, config: CompoundPCFGConfig, vocabulary_size: int) -> None:
        super(NeuralGrammar, self).__init__(config, vocabulary_size)
        self.latent_size = config.latent_size
        size = config.encoder_size
        self._make(config, config.embedding_size + config.latent_size)
        self.words = nn.Embedding(vocabulary_size, size)
        self.encoder = nn.LSTM(size, size, bidirectional=True)
        self.moments = nn.Linear(2 * size, 2 * config.latent_size)
        initialise(self)

    def tables(self, sentences: Sentences) -> Tables:
        """As in `Grammar`; z is sampled by reparametrisation in training and is its mean in evaluation."""
        parts = self.words(sentences.words).split(sentences.lengths)
        packed = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], padding_value=-torch.inf)
        mean, log_variance = self.moments(states.amax(0)).chunk(2, -1)
        vectors = mean
        if self.training:
            vectors = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        penalties = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return self.tables_of(sentences, vectors)._replace(penalties=penalties)

    def all_tables(self, vector: Tensor | None = None) -> tuple[Rules, Tensor]:
        words = torch.arange(self.vocabulary_size, device=self.start.device)
        vector = self.start.new_zeros(self.latent_size) if vector is None else vector.to(self.start)
        tables = self.tables_of(Sentences(words, (len(words),)), vector[None])
        assert isinstance(tables.rules, TableRules)
        return tables.rules.of(0), tables.emissions

    def tables_of(self, sentences: Sentences, vectors: Tensor) -> Tables:
        """For given z, (B, latent): the rules of each sentence and the emissions of each word."""
        start, nonterminals, preterminals = (  # every symbol with every sentence vector: (B, k, d + latent)
            torch.cat([part.expand(len(vectors), -1, -1), vectors[:, None].expand(-1, len(part), -1)], -1)
            for part in (self.start, self.nonterminals, self.preterminals)
        )
        root = torch.softmax(self.root(start[:, 0]).to(self.start.dtype), -1)
        columns, words = torch.unique(sentences.words, return_inverse=True)
        emissions = network_emissions(self.emission, preterminals.flatten(0, 1), columns)
        emissions = emissions.unflatten(1, preterminals.shape[:2])
        lengths = torch.tensor(sentences.lengths, device=words.device)
        sentence = torch.arange(len(lengths), device=words.device).repeat_interleave(lengths)
        rules = TableRules(root, self._binary(nonterminals))
        return Tables(rules, emissions[words, sentence], torch.arange(len(words), device=words.device))


def _bound(spectrum: Tensor, relation: Tensor) -> Tensor:
    """Return circular convolutions with a relation, from the vectors' spectrum: (n, d // 2 + 1), (d,) -> (n, d)."""
    return torch.fft.irfft(spectrum * torch.fft.rfft(relation), n=len(relation))  # without n, an odd d would shrink


def _phase_vectors(size: int, *shape: int) -> Tensor:
    """Return vectors whose Fourier coefficients have modulus 1 and uniform phases: (*shape, size)."""
    return _of_phases(torch.empty(*shape, size // 2 + 1).uniform_(-math.pi, math.pi), size)


def _of_phases(phases: Tensor, size: int) -> Tensor:
    """Return the vectors of given phases: (..., d // 2 + 1) -> (..., d). The phases of real coefficients are lost."""
    return torch.fft.irfft(torch.polar(torch.ones_like(phases), phases), n=size)


# ---- settings


@dataclass(frozen=True)
class PCFGConfig(BaseConfig, ABC):
    """Settings that all neural PCFGs share.

    `factors` names the setting with the number of rows of a rule table; `full_table` says whether a row has all pairs
    of symbols.

    Attributes:
        nonterminals: number of constituent symbols
        preterminals: number of word symbols (preterminals)
        embedding_size: features of a symbol's embedding
        end_bias: weight of the end bias at the start of training; 0: none
        start_bias: the same for first words, for languages that branch to the left; 0: none
        end_bias_epochs: epochs in which both fall linearly to 0
        focus: penalty in training, in nats, of a span in no tree of text.focus; 0: none
        marks: penalty in training, in nats, of a span with a dropped mark inside but none at its side
        marks_side: the side of a span at which it needs a mark or an edge of the sentence
    """

    factors = "nonterminals"
    full_table = False
    is_focusable = True
    name: str = ""
    nonterminals: Size = 512
    preterminals: Size = 1024
    embedding_size: Size = 256
    end_bias: NonNegative = 0.0
    start_bias: NonNegative = 0.0
    end_bias_epochs: Positive = 1.0
    focus: NonNegative = 0.0
    marks: NonNegative = 0.0
    marks_side: MarkSide = "either"

    @property
    def rule_rows(self) -> int:
        """The number of rows of a rule table, the value of the setting that `factors` names."""
        return self.nonterminals

    @property
    def training_marks(self) -> MarkSide | None:
        return self.marks_side if self.marks else None

    @abstractmethod
    def grammar(self, words: int) -> Grammar:
        """Return a grammar with fresh weights.

        Args:
            words: number of words, without BOS and EOS.
        """

    def contradictions(self) -> list[str]:
        rows = self.rule_rows
        size = rows * (self.nonterminals + self.preterminals) ** (2 if self.full_table else 1)
        if size <= _MOST_RULES:
            return []
        others = "" if self.factors == "nonterminals" else f"{self.nonterminals} nonterminals and "
        advice = ", or model.name simple-pcfg, which needs no full table" if self.full_table else ""
        return [
            f"{self.factors}: found {rows} with {others}{self.preterminals} preterminals, a table of {size:,} rules;"
            f" expected at most {_MOST_RULES:,}{advice}"
        ]


@dataclass(frozen=True)
class SimplePCFGConfig(PCFGConfig):
    """Settings of SN-PCFG (Liu et al. 2023): left and right child are independent given the parent.

    Attributes:
        network: the network from symbols to rules
    """

    name: Literal["simple-pcfg"] = "simple-pcfg"
    network: RuleNetwork = "standard"

    def grammar(self, words: int) -> Grammar:
        return SimpleGrammar(self, words)


@dataclass(frozen=True)
class HolographicPCFGConfig(PCFGConfig):
    """Settings of Hol-PCFG (Yamaki et al. 2026): rules scored by circular correlation of vectors on a torus.

    The default temperatures are the published ones, from a search by F1 on trees.

    Attributes:
        root_temperature: factor of the scores of start rules, at the start of training
        rule_temperature: factor of the scores of binary rules, at the start of training
        emission_temperature: factor of the scores of words, at the start of training
    """

    name: Literal["holographic-pcfg"] = "holographic-pcfg"
    root_temperature: Positive = 1.966
    rule_temperature: Positive = 12.74
    emission_temperature: Positive = 9.242

    def grammar(self, words: int) -> HolographicGrammar:
        return HolographicGrammar(self, words)


@dataclass(frozen=True)
class TensorPCFGConfig(PCFGConfig):
    """Settings of TN-PCFG (Yang et al. 2021): the binary rule table has low rank.

    Attributes:
        nonterminals: number of constituent symbols
        preterminals: number of word symbols (preterminals)
        rank: rank of the binary rule table
    """

    factors = "rank"
    name: Literal["tensor-pcfg"] = "tensor-pcfg"
    nonterminals: Size = 250
    preterminals: Size = 500
    rank: Size = 500

    @property
    def rule_rows(self) -> int:
        return self.rank

    def grammar(self, words: int) -> Grammar:
        return TensorGrammar(self, words)


@dataclass(frozen=True)
class NeuralPCFGConfig(PCFGConfig):
    """Settings of N-PCFG (Kim et al. 2019): a full binary rule table.

    Attributes:
        nonterminals: number of constituent symbols
        preterminals: number of word symbols (preterminals)
        network: the network from symbols to rules
    """

    full_table = True
    name: Literal["neural-pcfg"] = "neural-pcfg"
    nonterminals: Size = 30
    preterminals: Size = 60
    network: RuleNetwork = "standard"

    def grammar(self, words: int) -> Grammar:
        return NeuralGrammar(self, words)


@dataclass(frozen=True)
class CompoundPCFGConfig(PCFGConfig):
    """Settings of C-PCFG (Kim et al. 2019): an N-PCFG whose rules also depend on a sentence vector.

    Attributes:
        nonterminals: number of constituent symbols
        preterminals: number of word symbols (preterminals)
        network: the network from symbols to rules
        latent_size: features of the sentence vector
        encoder_size: features of each direction of the BiLSTM that infers the vector, and of its embeddings
    """

    full_table = True
    name: Literal["compound-pcfg"] = "compound-pcfg"
    nonterminals: Size = 30
    preterminals: Size = 60
    network: RuleNetwork = "standard"
    latent_size: Size = 64
    encoder_size: Size = 512

    def grammar(self, words: int) -> Grammar:
        return CompoundGrammar(self, words)
