"""The abilities of models: abstract classes that a model implements and that other packages request.

Code that needs an ability calls `registry.require`, which raises an error for a model without it and lists the model
types that have it. Nothing outside `models/` checks a model's type.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from syntaxlm.core.arrays import Numbers
from syntaxlm.core.declarations import Masking
from syntaxlm.models.batches import Reads, State, TokenBatch, TreeBatch
from syntaxlm.models.structures import DistancesAndHeights, Heads, SpanMarginals, Structure
from syntaxlm.ops.sampling import TreeSpans
from syntaxlm.ops.tree_levels import Levels, States


class AbilityMeta(ABCMeta):
    """Type of abilities: `isinstance` also asks the model which abilities of its class it lacks."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) and cls not in getattr(instance, "lacks", ())


class Ability(metaclass=AbilityMeta):
    """Base class of all abilities."""


class Model(nn.Module, Ability):
    """Base class of all models. A model that is not trained by gradient descent keeps its parameters in buffers.

    Attributes:
        reads: the type of batches the model takes.
        lacks: abilities of the class that the model lacks because of its settings.
        reasons: why models of this class lack an ability, for messages; other abilities have the text of
            MISSING_ABILITY.
        mixes_lengths: whether training batches must mix sentences of different lengths. Models with batch normalisation
            need this: with sentences of one length, the batch statistics would reveal where the sentences end.
    """

    vocabulary_size: int
    reads: ClassVar[Reads] = "tokens"
    lacks: Collection[type] = ()
    reasons: ClassVar[Mapping[type, str]] = {}
    mixes_lengths: bool = False

    @property
    def device(self) -> torch.device:
        """The device that the model's batches must be on."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def parameter_count(self) -> int:
        """Number of parameters, tied weights counted once; without parameters, of floating-point values in buffers."""
        weights: list[Tensor] = list(self.parameters())
        return sum(weight.numel() for weight in weights or self.buffers() if weight.is_floating_point())

    def validating(self) -> AbstractContextManager[None]:
        """Return a context for validations during training, in which a slow model may compute less exactly."""
        return nullcontext()

    def resize_buffers(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Resize buffers whose sizes depend on the training text to match stored tensors, before these are loaded.

        Returns:
            Error messages about the stored tensors, other than wrong shapes.
        """
        return []


# ---- training


@dataclass(frozen=True)
class Criterion:
    """A model's own validation criterion. Lower is better unless `maximise`.

    Attributes:
        name: e.g. "negative log-likelihood".
        unit: e.g. "nats per token".
    """

    name: str
    unit: str
    maximise: bool = False


NATS_PER_TOKEN = Criterion("negative log-likelihood", "nats per token")


@dataclass(frozen=True)
class Loss:
    """The loss of a batch.

    Attributes:
        total: scalar, summed over the batch.
        count: what the criterion is averaged over (tokens, words, pairs).
        items: number of sentences, trees or pairs.
        penalties: named scalars, already weighted, that training adds to the mean loss; empty in evaluation mode.
        state: carried to the next batch of a stream, detached.
    """

    total: Tensor
    count: int
    items: int
    penalties: dict[str, Tensor] = field(default_factory=dict)
    state: State = None


class HasLoss(Ability):
    """Has a loss. In evaluation mode it is the validation criterion of a model without sentence scores."""

    criterion: ClassVar[Criterion] = NATS_PER_TOKEN

    @abstractmethod
    def loss(self, batch: Any, state: State = None) -> Loss:
        """Return the loss of a batch that continues from `state`."""


ACTIVATION_COPIES = 2.5  # of each layer's inputs and outputs, kept for backward: activations, dropout, gradients


class TrainsByGradient(HasLoss):
    """Has a loss that gradient descent minimises."""

    def parser_weights(self) -> list[nn.Parameter]:
        """Return the weights that only score spans, which can have an optimiser of their own; usually none."""
        return []

    def step_size(self, tokens: int, longest: int) -> int:
        """Estimate how many numbers a training step has in memory beside weights and gradients, within a factor of two.

        By default, every token is an input of every layer. Logits are in memory once.

        Args:
            tokens: number of tokens of a batch.
            longest: number of words of its longest sentence.
        """
        assert isinstance(self, Model)
        features = logits = 0
        for module in self.modules():
            for weight in module.parameters(recurse=False):
                if weight.dim() < 2 or not len(weight):  # a vector, or a band without words
                    continue
                outputs, inputs = len(weight), weight[0].numel()
                if outputs == self.vocabulary_size:
                    logits += 0 if isinstance(module, nn.Embedding) else outputs
                    outputs = 0
                features += outputs + inputs
        return int(tokens * (ACTIVATION_COPIES * features + logits))


class TrainsByCounting(Ability):
    """Trained in rounds over the whole text: accumulates expected counts, then sets the parameters that maximise them.

    Attributes:
        criterion: the criterion that `maximise` reports.
        rounds: number of useful rounds; None: set by the recipe.
    """

    criterion: ClassVar[Criterion] = NATS_PER_TOKEN
    rounds: ClassVar[int | None] = None

    @abstractmethod
    def accumulate(self, batch: Any) -> None:
        """Add a batch's expected counts under the current parameters."""

    @abstractmethod
    def maximise(self) -> dict[str, Any]:
        """Set the parameters from the accumulated counts and clear the counts. Returns values for log and result.

        "objective", if present, is the criterion before the update; EM never increases it.
        """


@dataclass(frozen=True)
class TextCounts:
    """Statistics of the training text that a model may need before its first step.

    The last three are None for dependency trees.

    Attributes:
        words: (V,) int64, frequency of each word.
        labels: number of edge labels; 0 for text.
        first_words: (V,) int64, how often each word is the first of a sentence of two or more words.
        final_words: (V,) int64, how often it is the last.
        one_word_sentences: (V,) int64, how often each word is a whole sentence.
    """

    words: Tensor
    labels: int = 0
    first_words: Tensor | None = None
    final_words: Tensor | None = None
    one_word_sentences: Tensor | None = None


class NeedsTextCounts(Ability):
    """Needs statistics of the training text before its first step."""

    @abstractmethod
    def setup(self, counts: TextCounts) -> None:
        """Take the statistics of the training text."""


class AnnealsLoss(TrainsByGradient):
    """Has a loss that changes during training, on a schedule set in the model's settings."""

    @abstractmethod
    def set_epoch(self, epochs: float) -> None:
        """Set the training progress: the number of epochs completed, including the fraction of the current one."""


class ConstrainsWeights(TrainsByGradient):
    """Has weights that lie on a manifold, to which training returns them after every optimiser step."""

    @abstractmethod
    def project(self) -> None:
        """Replace the weights, in place, by the nearest ones that the model allows."""


class LearnsFromTrees(TrainsByGradient):
    """Learns only from the trees that other parsers predict for its text, and is validated on such trees."""


# ---- probabilities


class ScoresSentences(Ability):
    """Gives log-probabilities of whole sentences (dependency-tree models: of the words given the tree).

    Attributes:
        likelihood_estimate: description of the estimate that replaces exact log-probabilities, printed with the
            results; None if they are exact.
    """

    likelihood_estimate: ClassVar[str | None] = None

    @abstractmethod
    def sentence_log_probs(self, batch: Any) -> Tensor:
        """Return natural log-probability of each sentence of a batch of whole sentences: (B,)."""

    def check_length(self, words: int) -> None:  # most models read sentences of any length
        """Raise InputError if a sentence of this length does not fit in this machine's memory."""


@dataclass(frozen=True)
class TokenScores:
    """Log-probabilities of a batch's targets.

    Attributes:
        log_probs: natural; (T, B), 0 on padding, for a `TokenBatch`; (n,) for a `TreeBatch`.
        state: carried to the next batch of a stream.
        hidden: (n, F), the decoder's input at each real step, in the order of `TokenBatch.mask()` or of a `TreeBatch`'s
            rows; None for a model without hidden states.
    """

    log_probs: Tensor
    state: State = None
    hidden: Tensor | None = None


class ScoresTokens(ScoresSentences):
    """Gives the log-probability of each token given the preceding tokens. Their sum is the sentence log-probability."""

    @abstractmethod
    def token_log_probs(self, batch: Any, state: State = None) -> TokenScores:
        """Return natural log-probability of each target given all preceding tokens."""

    def subtoken_count(self, token: str, is_first: bool) -> int:
        """Return the number of units that the model predicts for a token of its vocabulary.

        Args:
            is_first: whether the token is the first of its text.
        """
        return 1

    def sentence_log_probs(self, batch: TokenBatch | TreeBatch) -> Tensor:
        log_probs = self.token_log_probs(batch).log_probs
        if isinstance(batch, TreeBatch):
            sums = torch.zeros(batch.sentence_count(), dtype=torch.float64, device=log_probs.device)
            return sums.index_add_(0, batch.trees, log_probs.double())
        return log_probs.sum(0, dtype=torch.float64)


class HasHiddenStates(ScoresTokens):
    """Gives hidden states (`TokenScores.hidden`) for batches of text; the neural cache compares them."""


class PredictsNextToken(ScoresTokens):
    """Gives the distribution of the next token, from which sentences are sampled left to right."""

    @abstractmethod
    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        """Return natural log-probability of every token after each column's last real step, (B, V), and the state."""

    def each_next_log_probs(self, batch: TokenBatch, state: State = None) -> Iterator[Tensor]:
        """Yield natural log-probability of every token after each step, (B, V), of a batch without padding.

        One step at a time, because the distributions of all steps may not fit in memory.
        """
        for step in range(len(batch.tokens)):
            single = TokenBatch(batch.tokens[step : step + 1], batch.targets[step : step + 1])
            log_probs, state = self.next_log_probs(single, state)
            yield log_probs


class Predictions(NamedTuple):
    """The distributions of the model before each of n tokens.

    Attributes:
        entropy: (n,) nats.
        rank: (n,) int64, 1 for the most probable token.
        best: (n, k) int64, the most probable tokens, the most probable first.
        log_probs: theirs, (n, k), natural.
    """

    entropy: Tensor
    rank: Tensor
    best: Tensor
    log_probs: Tensor


class PredictsSubtokens(ScoresTokens):
    """Gives the distribution of the first sub-token of the next token, for models that split tokens into sub-tokens.

    Every token that begins with a sub-token is at most as probable as the sub-token, and the entropy of the next token
    is at least that of its first sub-token.
    """

    @abstractmethod
    def first_subtokens(self, batch: TokenBatch, best: int, state: State = None) -> Predictions:
        """Return the distribution of the first sub-token of each target, in the order of `TokenBatch.mask()`.

        Args:
            best: number of most probable sub-tokens; fewer if there are not so many.
            state: carried from the batch before.
        """

    @abstractmethod
    def subtoken_text(self, number: int) -> str:
        """Return a sub-token as text; it ends in "…" if a token may continue after it."""


class WordScoreType(NamedTuple):
    """A score of words and sentences that is not a log-probability given the words before.

    Attributes:
        word: name of the column of words, which has bits: the negative score, so that larger is less expected.
        sentence: name of the score of a sentence, the sum of its words' scores in nats.
        meaning: what it is, for notes.
    """

    word: str
    sentence: str
    meaning: str


class ScoresWords(Ability):
    """Gives a score of each word that is not its log-probability given the words before, and of sentences, their sum.

    Such a model has none of the abilities of `ScoresSentences`: what measures log-probabilities refuses it, and what
    takes scores of this type names them.

    Attributes:
        score_type: the name and the meaning of the scores.
    """

    score_type: WordScoreType

    @abstractmethod
    def token_log_probs(self, batch: Any, state: State = None) -> TokenScores:
        """Return the score of each target in nats. Sentences are read by themselves."""

    @abstractmethod
    def sentence_log_probs(self, batch: Any) -> Tensor:
        """Return the score of each sentence in nats: (B,)."""

    @abstractmethod
    def subtoken_count(self, token: str, is_first: bool) -> int:
        """Return the number of sub-tokens of a word.

        Args:
            is_first: whether the word is the first of its text.
        """

    @abstractmethod
    def knows(self, token: str) -> bool:
        """Return whether the model reads at least one sub-token of a word, and knows all of them."""


class MasksTokens(ScoresWords):
    """Predicts each sub-token of a sentence from all others."""

    @abstractmethod
    def with_masking(self, masking: Masking) -> Model:
        """Return a model with the same weights.

        Args:
            masking: which sub-tokens are masked with the one that is predicted: the later ones of its word
                ("word-l2r"), or none ("original").
        """


class SampledSentence(NamedTuple):
    """A sentence sampled from a model, with its tree.

    Attributes:
        words: vocabulary ids.
        spans: the spans of each constituent of two or more words, in pre-order: first and last word, both inclusive,
            and index into `LabelsSpans.labels`, -1 for no label.
        word_labels: an index into `LabelsSpans.labels` for each word; empty for a sentence without labels.
    """

    words: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    word_labels: tuple[int, ...] = ()


class SamplesSentences(Ability):
    """Samples whole sentences with their trees, such as top-down by a grammar."""

    @abstractmethod
    def sample(
        self, count: int, maximum_words: int, generator: np.random.Generator, *, omitted: int = 0
    ) -> Sequence[SampledSentence]:
        """Sample `count` sentences of at most `maximum_words` words; longer ones are resampled.

        Args:
            omitted: number of the first words of the vocabulary, without BOS and EOS, that are not sampled: the unknown
                word and its classes. Instead, another word is sampled and the tree is kept.

        Raises:
            InputError: if almost no sample is short enough.
        """


# ---- structure


class ParsesSentences(Ability):
    """Gives the structure from which trees are decoded.

    Attributes:
        structure_type: the class that `structure` returns.
        distance_layers: number of layers of distances; 0 for other structures.
        default_layer: the layer used if none is given, counted from 1.
    """

    structure_type: type[Structure]
    distance_layers: int = 0
    default_layer: int = 1

    @property
    def decoders(self) -> tuple[str, ...]:
        """Names of the decoding algorithms, the default first."""
        return self.structure_type.corpus.decoders

    @abstractmethod
    def structure(self, batch: TokenBatch) -> Structure:
        """Return the structure of whole sentences with BOS and EOS, computed without anything it does not need."""


class LabelsSpans(ParsesSentences):
    """Labels spans and words: `SpanMarginals.labels` are indices into `labels`, the label names, such as "NT-3"."""

    labels: Sequence[str]

    @abstractmethod
    def labelled_structure(self, batch: TokenBatch) -> SpanMarginals:
        """Like `structure`, but with labels, which take longer to compute."""


class FindsBestTrees(ParsesSentences):
    """Finds the single most probable tree of a sentence, in addition to its structure: the decoder `viterbi`."""

    @property
    def decoders(self) -> tuple[str, ...]:
        return (*super().decoders, "viterbi")

    @abstractmethod
    def best_trees(self, batch: TokenBatch) -> list[LabelledSpans]:
        """Return the best tree of each column. The batch has whole sentences with BOS and EOS."""


class ScoresTrees(ParsesSentences):
    """Gives the probability of each binary tree of a sentence, and samples of trees."""

    @abstractmethod
    def tree_log_probs(self, batch: TokenBatch, spans: Tensor) -> Tensor:
        """Return ln P(tree | sentence) of one tree for each column: (B,) float64.

        Args:
            batch: whole sentences with BOS and EOS.
            spans: (B, n, n) bool, by first and last word: the spans of two words or more of a binary tree.
        """

    @abstractmethod
    def sample_trees(self, batch: TokenBatch, count: int, generator: np.random.Generator) -> list[list[TreeSpans]]:
        """Return `count` trees of each column, drawn from P(tree | sentence).

        Args:
            batch: see `tree_log_probs`.
        """


@dataclass(frozen=True)
class TreeBeliefs:
    """What follows about the tree of a sentence of n words from each of its beginnings, and from its end.

    Arrays are in float64. Those of length n + 1 have the end of the sentence last. A constituent has two words or more.

    Attributes:
        spans: (n + 1, n, n), after each word, the probability that a span is a constituent, by first and last word.
        open: (n,), expected number of constituents that begin at or before a word and end after it.
        open_from: (n, n), after each word, the probability that a constituent begins at a word and ends later.
        ended: (n,), expected number of constituents that end at the word.
        low: (n,), probability that the smallest constituent around the word has at most three words.
        entropies: (n + 1,), entropy of the derivation of the sentence after the word, in nats, with all that is not
            read yet; infinite for a grammar whose derivations need not end.
        lexical: (n + 1,), bits of the word's surprisal that are of the word given its preterminal.
        structural: (n + 1,), bits that are of the preterminal given the words before.
    """

    spans: Numbers
    open: Numbers
    open_from: Numbers
    ended: Numbers
    low: Numbers
    entropies: Numbers
    lexical: Numbers
    structural: Numbers


class HasTreeBeliefs(ScoresTokens):
    """Knows after each word of a sentence how probable each constituent is."""

    @abstractmethod
    def tree_beliefs(
        self, sentences: Sequence[Sequence[int]], spans: bool = True, entropies: bool = True
    ) -> list[TreeBeliefs]:
        """Return the beliefs about each sentence.

        Args:
            sentences: their tokens, at least one each, without BOS and EOS.
            spans: whether to compute the probabilities of spans, which takes most of the time; otherwise they are NaN.
            entropies: whether to compute the entropies of derivations; otherwise they are NaN.
        """


class HasSpanBeliefs(ScoresTokens):
    """Knows after each word of a sentence how probable the constituents are that have ended, but not of open ones."""

    @abstractmethod
    def span_beliefs(self, sentences: Sequence[Sequence[int]]) -> list[Numbers]:
        """Return, after each word and after the end, the probability that a span is a constituent.

        Args:
            sentences: their tokens, at least one each, without BOS and EOS.

        Returns:
            (n + 1, n, n) of each sentence, as `TreeBeliefs.spans`.
        """


class ParsesDependencies(ParsesSentences):
    """Gives projective dependency trees: `word_values` of its structure's corpus has "heads".

    The constituents of `Heads` follow from the heads. `DistancesAndHeights` has constituents of its own.
    """

    structure_type: type[Heads | DistancesAndHeights] = Heads

    @abstractmethod
    def structure(self, batch: TokenBatch) -> Heads | DistancesAndHeights:
        """Return the dependency tree of each sentence, or what it follows from."""


LabelledSpans = list[tuple[int, int, int]]
"""The spans of a tree, including single words: (first word, last word, index into `LabelsSpans.labels`), both words
inclusive; the index is -1 for no label."""


class SymbolRule(NamedTuple):
    """A binary rule of a nonterminal.

    Attributes:
        left: the left child, as an index into `LabelsSpans.labels`.
        right: the right child.
    """

    left: int
    right: int
    probability: float


class EmittedWord(NamedTuple):
    """A word that a preterminal emits.

    Attributes:
        word: vocabulary id.
        probability: p(w | T).
    """

    word: int
    probability: float


class HasGrammar(LabelsSpans, SamplesSentences):
    """Parses and samples with a probabilistic context-free grammar whose symbols are the `labels`.

    Attributes:
        nonterminal_count: m; the first m labels are nonterminals, the others preterminals.
        rules_note: which rules are listed, if the rules depend on the sentence; "" for fixed rules.
    """

    nonterminal_count: int
    rules_note: str = ""

    @abstractmethod
    def start_probabilities(self) -> Tensor:
        """Return p(S -> A) of every nonterminal: (m,)."""

    @abstractmethod
    def top_rules(self, nonterminal: int, count: int) -> list[SymbolRule]:
        """Return the `count` most probable binary rules p(A -> B C) of a nonterminal A, in descending order."""

    @abstractmethod
    def top_words(self, preterminal: int, count: int) -> list[EmittedWord]:
        """Return the `count` most probable words p(w | T) of a preterminal T, by its label, in descending order."""


@dataclass(frozen=True)
class Maps:
    """Internal values of a model, for drawing.

    Attributes:
        earlier_tokens: name -> (T, B, slots): gates or attention; slot k at step t belongs to step t - 1 - k.
        units: name -> (T, B, units): master gates.
    """

    earlier_tokens: dict[str, Tensor] = field(default_factory=dict)
    units: dict[str, Tensor] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.earlier_tokens or self.units)


class HasMaps(Ability):
    """Has gates or attention that can be drawn."""

    @abstractmethod
    def maps(self, batch: TokenBatch) -> Maps:
        """Return gates and attention at each step of a batch."""


# ---- other


@dataclass(frozen=True)
class Decisions:
    """Random decisions of an encoder in training, such as a parser's actions.

    Attributes:
        log_probs: (B,), natural log-probability of each sentence's decisions, differentiable.
        entropies: (B,), entropy of the distributions that they were drawn from, in nats, summed over a sentence.
    """

    log_probs: Tensor
    entropies: Tensor


@dataclass(frozen=True)
class Encoding:
    """Sentence vectors.

    Attributes:
        features: (B, F).
        penalties: as in `Loss`.
        decisions: None if none were drawn.
    """

    features: Tensor
    penalties: dict[str, Tensor] = field(default_factory=dict)
    decisions: Decisions | None = None


class EncodesSentences(Model):
    """Encodes a sentence as a vector.

    Attributes:
        feature_size: F.
    """

    feature_size: int

    @abstractmethod
    def encode(self, batch: TokenBatch) -> Encoding:
        """Return the vector of each sentence."""

    @classmethod
    def encoder(cls, config: Any, vocabulary_size: int) -> EncodesSentences:
        """Return a model with fresh weights, without what only decodes."""
        return cls(config, vocabulary_size)


class LearnsFromRewards(EncodesSentences):
    """Makes random decisions in training, `Encoding.decisions`, and learns them from their rewards (REINFORCE)."""

    @abstractmethod
    def policy_terms(self, decisions: Decisions, rewards: Tensor) -> dict[str, Tensor]:
        """Return what training adds to the mean loss, by name, already weighted. Called once per training step.

        Args:
            rewards: (B,), of each sentence; larger is better.
        """


class GeneratesTrees(Model, ScoresTokens):
    """A dependency-tree model that processes one tree level at a time, for sampling and for stop classifiers.

    Its `TokenScores` have hidden states, which the stop classifiers read.

    Attributes:
        state_size: D, size of a step's hidden state.
        word_size: size of a word's embedding.
        input_size: E, size of a step's input: the embedding of the word that the edge leaves and, if labels are read,
            the label's embedding.
        reads_labels: whether edge labels are read.
        label_count: number of labels; None until it is set.
        reads_left_dependents: whether a step along a RIGHT edge reads the left dependents of the word that it leaves.
    """

    state_size: int
    word_size: int
    input_size: int
    reads_labels: bool = False
    label_count: int | None = None
    reads_left_dependents: bool = False

    @abstractmethod
    def root_states(self) -> States:
        """Return the states before the first step: one row, for ROOT."""

    @abstractmethod
    def embedded(self, words: Tensor) -> Tensor:
        """(n,) -> (n, word_size)."""

    @abstractmethod
    def inputs(self, words: Tensor, labels: Tensor) -> Tensor:
        """Return inputs of steps, (n, E), from the words that the edges leave and the labels above them, (n,) each."""

    def left_states(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Return what steps along RIGHT edges read of left dependents, (k, D), if the model reads them.

        Args:
            words: (L, k) int64, the left dependents for each step, from the farthest to the closest, then padding.
            lengths: (k,) int64, their numbers, on the CPU.
        """
        raise NotImplementedError

    @abstractmethod
    def follow(self, inputs: Tensor, levels: Levels, before: States, left: Tensor | None = None) -> States:
        """Return states of steps, (n, E) -> (n, D), computed from earlier states, which `levels.parents` indexes.

        Args:
            left: (k, D), from `left_states`, for the steps along RIGHT edges; None if left dependents are not read.
        """

    @abstractmethod
    def all_log_probs(self, hidden: Tensor, levels: Levels) -> Tensor:
        """Return natural log-probability of every word at each step: (n, D) -> (n, V)."""


MISSING_ABILITY: dict[type, str] = {
    HasLoss: "has no loss",
    TrainsByGradient: "is not trained by gradient descent",
    TrainsByCounting: "is not trained by counting",
    AnnealsLoss: "has a loss that does not change during training",
    ConstrainsWeights: "has no constraints on its weights",
    LearnsFromTrees: "does not learn from the trees of other parsers alone",
    ScoresSentences: "gives no sentence probabilities",
    ScoresTokens: "gives no token probabilities",
    HasHiddenStates: "gives no hidden states of a text",
    PredictsNextToken: "does not predict the next token",
    PredictsSubtokens: "does not predict sub-tokens",
    ScoresWords: "gives surprisals",
    MasksTokens: "masks no tokens",
    SamplesSentences: "does not sample whole sentences",
    ParsesSentences: "does not parse",
    ParsesDependencies: "gives no dependency trees",
    LabelsSpans: "does not label spans",
    FindsBestTrees: "does not find the most probable trees (Viterbi)",
    ScoresTrees: "gives no probabilities of trees",
    HasSpanBeliefs: "gives no probabilities of ended constituents after each word",
    HasTreeBeliefs: "gives no probabilities of constituents after each word",
    HasGrammar: "has no grammar",
    HasMaps: "has no gates or attention",
    EncodesSentences: "does not encode sentences",
    LearnsFromRewards: "does not learn from rewards",
    GeneratesTrees: "does not generate dependency trees",
}
"""The reason given for rejecting a model without each ability, as in "this ngram model does not parse"."""


# ---- names

ABILITIES: dict[str, tuple[type, ...]] = {
    "parsing": (ParsesSentences,),
    "dependencies": (ParsesDependencies,),
    "sentence scores": (ScoresSentences,),
    "surprisal": (ScoresTokens,),
    "generation": (PredictsNextToken, SamplesSentences, GeneratesTrees),
    "labels": (LabelsSpans,),
    "grammar": (HasGrammar,),
    "maps": (HasMaps,),
    "encoding": (EncodesSentences,),
}
"""Names of abilities, and the classes any of which gives them."""


def abilities_of(model: Model) -> list[str]:
    """Return the names of a model's abilities."""
    return [name for name, classes in ABILITIES.items() if isinstance(model, classes)]
