"""What models can do. A model implements the abstract classes of its abilities; everything else asks for one of them.

A command that needs an ability calls `registry.require`, which refuses a model without it and lists the models that
have it. Nothing outside `models/` asks for a model's type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.models.batches import Reads, State, TokenBatch, TreeBatch
from syntaxlm.ops.tree_levels.types import Levels, States


class Model(nn.Module):
    """What all models share. A model that no gradient trains keeps its parameters in buffers.

    reads: the type of batches the model takes.
    mixes_lengths: whether training batches of sentences must mix lengths: where the tokens of a batch are normalised
        together, the statistics of a batch of one length would reveal where its sentences end.
    """

    vocabulary_size: int
    reads: ClassVar[Reads] = "tokens"
    mixes_lengths: bool = False

    @property
    def device(self) -> torch.device:
        """The device that the model's batches must be on."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def parameter_count(self) -> int:
        """Number of trained numbers; tied weights count once. Without weights: of floating-point numbers in buffers."""
        weights: list[Tensor] = list(self.parameters())
        return sum(one.numel() for one in weights or self.buffers() if one.is_floating_point())

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Gives tensors whose sizes depend on the training text the sizes of stored ones, which are loaded next.

        Returns faults of the stored tensors other than wrong shapes.
        """
        return []


# ---- training


@dataclass(frozen=True)
class Criterion:
    """A model's own validation criterion. Lower is better unless `maximise`.

    name: e.g. "negative log-likelihood".  unit: e.g. "nats per token".
    """

    name: str
    unit: str
    maximise: bool = False


NATS_PER_TOKEN = Criterion("negative log-likelihood", "nats per token")


@dataclass(frozen=True)
class Loss:
    """The loss of a batch.

    total: scalar, summed over the batch.  count: what the criterion is averaged over (tokens, words, pairs).
    items: number of sentences, trees or pairs.
    penalties: named scalars, already weighted, that training adds to the mean loss; empty in evaluation mode.
    state: carried to the next batch of a stream, detached.
    """

    total: Tensor
    count: int
    items: int
    penalties: dict[str, Tensor] = field(default_factory=dict)
    state: State = None


class TrainsByGradient(ABC):
    """Has a loss that gradient descent minimises. In evaluation mode it is the validation criterion."""

    criterion: ClassVar[Criterion] = NATS_PER_TOKEN

    @abstractmethod
    def loss(self, batch: Any, state: State = None) -> Loss:
        """The loss of a batch that continues from `state`."""


class TrainsByCounting(ABC):
    """Trained in rounds over the whole text: expected counts are accumulated, then parameters maximise them.

    criterion: of the value that `maximise` reports.  rounds: how many are useful; None for as many as in the recipe.
    """

    criterion: ClassVar[Criterion] = NATS_PER_TOKEN
    rounds: ClassVar[int | None] = None

    @abstractmethod
    def accumulate(self, batch: Any) -> None:
        """Adds a batch's counts under the present parameters."""

    @abstractmethod
    def maximise(self) -> dict[str, Any]:
        """Sets the parameters by the accumulated counts and clears these. Returns figures for the log and the result.

        The figure "objective", where there is one, is what EM never lets rise: the criterion before the update.
        """


@dataclass(frozen=True)
class TextCounts:
    """Statistics of the training text that a model may need before its first step.

    words: (V,) int64, frequency of each word.  labels: number of edge labels; 0 for text.
    final_words: (V,) int64, frequency of each word as the last of a sentence of two words or more.
    one_word_sentences: (V,) int64, frequency of each word as a sentence.  Both None for dependency trees.
    parsers: number of parsers whose trees of the training text batches bring.
    """

    words: Tensor
    labels: int = 0
    final_words: Tensor | None = None
    one_word_sentences: Tensor | None = None
    parsers: int = 0


class NeedsTextCounts(ABC):
    """Needs statistics of the training text before its first step."""

    @abstractmethod
    def setup(self, counts: TextCounts) -> None:
        """Takes the statistics of the training text."""


class AnnealsLoss(TrainsByGradient):
    """Has a loss that changes in the course of training, by a schedule of the model's settings."""

    @abstractmethod
    def set_epoch(self, epochs: float) -> None:
        """Takes the number of epochs passed, the fraction of the present one included."""


# ---- probabilities


class ScoresSentences(ABC):
    """Gives log-probabilities of whole sentences (of dependency-tree models: of the words given the tree).

    likelihood_estimate: what is given in place of exact log-probabilities, to be printed beside figures; None: nothing.
    """

    likelihood_estimate: ClassVar[str | None] = None

    @abstractmethod
    def sentence_log_probs(self, batch: Any) -> Tensor:
        """Natural log-probability of each sentence of a batch of whole sentences: (B,)."""


@dataclass(frozen=True)
class TokenScores:
    """Log-probabilities of a batch's targets.

    log_probs: natural; (T, B), 0 on padding, for a `TokenBatch`; (n,) for a `TreeBatch`.
    state: carried to the next batch of a stream.
    hidden: (n, F), the decoder's input at each real step, in the order of `TokenBatch.mask()` or of a `TreeBatch`'s
        rows; None for a model without hidden states.
    """

    log_probs: Tensor
    state: State = None
    hidden: Tensor | None = None


class ScoresTokens(ScoresSentences):
    """Gives the log-probability of each token given those before it; they add up to the sentence's."""

    @abstractmethod
    def token_log_probs(self, batch: Any, state: State = None) -> TokenScores:
        """Natural log-probability of each target given all tokens before it."""

    def sentence_log_probs(self, batch: TokenBatch | TreeBatch) -> Tensor:
        log_probs = self.token_log_probs(batch).log_probs
        if isinstance(batch, TreeBatch):
            sums = torch.zeros(batch.sentence_count(), dtype=torch.float64, device=log_probs.device)
            return sums.index_add_(0, batch.trees, log_probs.double())
        return log_probs.sum(0, dtype=torch.float64)


class HasHiddenStates(ScoresTokens):
    """Gives `TokenScores.hidden` of the batches of a text, which a neural cache compares."""


class PredictsNextToken(ScoresTokens):
    """Gives the distribution of the next token, from which sentences are sampled left to right."""

    @abstractmethod
    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        """Natural log-probability of every token after each column's last real step, (B, V), and the next state."""


class SampledSentence(Protocol):
    """A sentence drawn from a model, with its tree.

    words: ids of the vocabulary.  spans: of two words or more: first word, last word, inclusive, and an index into
    `LabelsSpans.labels`, in pre-order.  word_labels: such an index for each word; empty for a sentence without labels.
    """

    @property
    def words(self) -> Sequence[int]: ...

    @property
    def spans(self) -> Sequence[tuple[int, int, int]]: ...

    @property
    def word_labels(self) -> Sequence[int]: ...


class SamplesSentences(ABC):
    """Draws whole sentences with their trees, top-down."""

    @abstractmethod
    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, keep_unknown: bool = True
    ) -> Sequence[SampledSentence]:
        """Sentences of at most so many words; longer ones are drawn anew.

        keep_unknown: whether the unknown word may be drawn; otherwise each is drawn anew, its tree kept.
        Raises InputError where the model hardly ever gives a sentence so short.
        """


# ---- structure


@dataclass(frozen=True)
class Distances:
    """Syntactic distances between each token and the one before it; large between constituents.

    values: (layers, T, B).
    """

    values: Tensor


@dataclass(frozen=True)
class SpanScores:
    """Log-probability of each span among the spans that end with the same token.

    values: (T, B, m), at step t the spans of 1 to m tokens that end at token t - 1; -inf where there is no such span.
    """

    values: Tensor


@dataclass(frozen=True)
class SpanMarginals:
    """The probability of each span of two words or more given the sentence, and its most probable label.

    values: (B, n, n) by first and last word, inclusive, of n words at most; 0 where there is no span.
    labels: (B, n, n) int64, indices into `LabelsSpans.labels`, single words included; -1 where there is no span; None
        unless they were asked for.
    """

    values: Tensor
    labels: Tensor | None = None


Structure = Distances | SpanScores | SpanMarginals
"""What a parser gives for a batch. Each type has its own decoders, in `parsing.structure`."""


class Parses(ABC):
    """Gives the structure that trees are decoded from.

    structure_type: the class that `structure` returns.
    distance_layers: number of layers of distances; 0 for other structures.  default_layer: the one used unless another
    is named, from 1.
    """

    structure_type: type[Distances | SpanScores | SpanMarginals]
    distance_layers: int = 0
    default_layer: int = 1

    @abstractmethod
    def structure(self, batch: TokenBatch) -> Structure:
        """The structure of whole sentences with BOS and EOS around them, at the least cost that gives it."""


class LabelsSpans(Parses):
    """Labels spans and words: `SpanMarginals.labels` are indices into `labels`, the names, such as "NT-3"."""

    labels: Sequence[str]

    @abstractmethod
    def labelled_structure(self, batch: TokenBatch) -> SpanMarginals:
        """As `structure`, with labels, at the further cost of these."""


class FindsBestTrees(Parses):
    """Finds the single most probable tree of a sentence (Viterbi), besides giving its structure."""

    @abstractmethod
    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        """The best tree of each column, of whole sentences with BOS and EOS around them."""


LabelledSpans = list[tuple[int, int, int]]
"""Spans of a tree: first word, last word, inclusive, and an index into `LabelsSpans.labels`, -1 for no label; single
words included."""


class SymbolRule(NamedTuple):
    """A binary rule of a nonterminal. left, right: its children, indices into `LabelsSpans.labels`."""

    left: int
    right: int
    probability: float


class EmittedWord(NamedTuple):
    """A word of a preterminal. word: id of the vocabulary.  probability: p(w | T)."""

    word: int
    probability: float


class HasGrammar(LabelsSpans, SamplesSentences):
    """Parses and samples with a probabilistic context-free grammar, whose symbols are the `labels`.

    nonterminal_count: m; the first m labels are nonterminals, the others preterminals.
    rules_note: which rules are listed, for a model whose rules depend on the sentence; "" for fixed rules.
    """

    nonterminal_count: int
    rules_note: str = ""

    @abstractmethod
    def start_probabilities(self) -> Tensor:
        """p(S -> A) of every nonterminal: (m,)."""

    @abstractmethod
    def top_rules(self, nonterminal: int, count: int) -> list[SymbolRule]:
        """The most probable binary rules p(A -> B C) of a nonterminal A, the most probable first."""

    @abstractmethod
    def top_words(self, preterminal: int, count: int) -> list[EmittedWord]:
        """The most probable words p(w | T) of a preterminal T, an index into `labels`, the most probable first."""


@dataclass(frozen=True)
class Maps:
    """Internal values of a model to draw.

    earlier_tokens: name -> (T, B, slots), slot k of step t belongs to step t - 1 - k: gates, attention.
    units: name -> (T, B, units): master gates.
    """

    earlier_tokens: dict[str, Tensor] = field(default_factory=dict)
    units: dict[str, Tensor] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.earlier_tokens or self.units)


class HasMaps(ABC):
    """Has gates or attention to draw."""

    @abstractmethod
    def maps(self, batch: TokenBatch) -> Maps:
        """Gates and attention while reading a batch."""


# ---- other


@dataclass(frozen=True)
class Encoding:
    """Features of sentences. features: (B, F).  penalties: as of `Loss`."""

    features: Tensor
    penalties: dict[str, Tensor] = field(default_factory=dict)


class EncodesSentences(ABC):
    """Gives a vector for a sentence. feature_size: F."""

    feature_size: int

    @abstractmethod
    def encode(self, batch: TokenBatch) -> Encoding:
        """The features of each sentence."""


class GeneratesTrees(Model, ScoresTokens):
    """A dependency-tree model that takes one level of steps at a time, for sampling and for stop classifiers.

    Its `TokenScores` have hidden states, which stop classifiers read.

    state_size: D, size of a step's hidden state.  word_size: size of a word's embedding.  input_size: E, size of all
    that is read of the word an edge leaves: its embedding and, where labels are read, the label's.
    reads_labels: whether edge labels are read.  label_count: number of labels; None before it is known.
    """

    state_size: int
    word_size: int
    input_size: int
    reads_labels: bool = False
    label_count: int | None = None

    @abstractmethod
    def root_states(self) -> States:
        """The states before the first step: one row, that of ROOT."""

    @abstractmethod
    def embedded(self, words: Tensor) -> Tensor:
        """(n,) -> (n, word_size)."""

    @abstractmethod
    def inputs(self, words: Tensor, labels: Tensor) -> Tensor:
        """Inputs of steps from the words their edges leave and the labels above these: (n,), (n,) -> (n, E)."""

    @abstractmethod
    def follow(self, inputs: Tensor, levels: Levels, before: States) -> States:
        """States of steps, (n, E) -> (n, D), that continue from those before, which `levels.parents` indexes."""

    @abstractmethod
    def all_log_probs(self, hidden: Tensor, levels: Levels) -> Tensor:
        """Natural log-probability of every word at each step: (n, D) -> (n, V)."""


LACKS: dict[type, str] = {
    TrainsByGradient: "is not trained by gradient descent",
    TrainsByCounting: "is not trained by counting",
    AnnealsLoss: "has a loss that does not change in the course of training",
    ScoresSentences: "gives no sentence probabilities",
    ScoresTokens: "gives no token probabilities",
    HasHiddenStates: "gives no hidden states of a text",
    PredictsNextToken: "does not predict the next token",
    SamplesSentences: "does not draw whole sentences",
    Parses: "does not parse",
    LabelsSpans: "does not label spans",
    FindsBestTrees: "does not give single best trees (Viterbi)",
    HasGrammar: "has no grammar",
    HasMaps: "has no gates or attention to draw",
    EncodesSentences: "does not encode sentences",
    GeneratesTrees: "does not generate dependency trees",
}
"""The abilities, and the reason given for refusing a model without each: "this ngram model does not parse"."""
