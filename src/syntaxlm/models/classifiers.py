"""Classifiers on top of models: of sentence pairs, and of where a dependency tree ends.

**Pairs.** As in Shen et al. 2019 (ON-LSTM), section 5.4: u and v are the states after the last tokens of the two
sentences; a network with one hidden layer reads u, v, u * v and |u - v|. (Bowman, Manning, Potts 2015 use a tanh layer
over u, v.) Shapes: B pairs, T time, F features of a state, L classes.

**Stops**, so that a dependency-tree model can generate trees. After a word is sampled, four binary classifiers predict,
for each type of edge, whether such an edge leaves the word: add left, add right, add next left, add next right (Zhang,
Lu, Lapata 2016). Each is a two-layer network over the word's state H[:, t]. It encodes the path to the word, not the
word itself, which is sampled from it, so the classifiers can also read the model's next input, which includes the word.
For a model with edge labels, a further network over the state and the word's embedding predicts the label of the edge
above the word; in the papers the labels are given.
Shapes: n words, D features of a state, E features of the model's input for a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from syntaxlm.core.settings import Bounds, Count, Fraction, Settings, Size
from syntaxlm.models.abilities import Criterion, Encoding, LearnsFromRewards, Loss, Model, TrainsByGradient
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.registry import ModelConfig, build_encoder
from syntaxlm.ops.tree_levels import EDGES

STOPS_FORMAT = 1
StopInputs = Literal["states", "states-and-words"]

# ---- sentence pairs


@dataclass(frozen=True)
class ClassifierSettings(Settings, section="classifier"):
    """The layers above the encoder.

    Attributes:
        hidden_size: neurons of the hidden layer
        dropout: rate on the input and output of the hidden layer
    """

    hidden_size: Size = 400
    dropout: Fraction = 0.2


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs, all sentences in one batch.

    Attributes:
        sentences: 2B columns, longest first.
        places: (2B,), the column of each left sentence, then of each right one.
        classes: (B,) int64, the class of each pair; None where unknown.
    """

    carries = False  # pairs are independent: no state is carried
    sentences: TokenBatch
    places: Tensor
    classes: Tensor | None = None

    @classmethod
    def of(cls, left: Sequence[Tensor], right: Sequence[Tensor], classes: Tensor | None = None) -> PairBatch:
        """Return a batch of pairs.

        Args:
            left: B sentences, int64 token ids, none of them empty.
            right: B sentences, likewise.
        """
        sentences = [*left, *right]
        lengths, order = torch.tensor([len(sentence) for sentence in sentences]).sort(descending=True, stable=True)
        tokens = nn.utils.rnn.pad_sequence([sentences[place] for place in order.tolist()])
        return cls(TokenBatch(tokens, tokens, lengths), order.argsort(), classes)

    def to(self, device: torch.device | str) -> PairBatch:
        classes = None if self.classes is None else self.classes.to(device)
        return PairBatch(self.sentences.to(device), self.places.to(device), classes)


class PairClassifier(Model, TrainsByGradient):
    """An encoder of any model type that encodes sentences, and a classifier on top of it.

    Args:
        config: settings of the encoder.
        tokens: vocabulary size.
        classes: L.

    Raises:
        InputError: for settings out of range and for a model type that does not encode sentences.
    """

    criterion = Criterion("accuracy", "fraction of pairs", maximise=True)

    def __init__(self, config: ModelConfig, settings: ClassifierSettings, tokens: int, classes: int) -> None:
        super().__init__()
        self.vocabulary_size = tokens
        self.encoder = build_encoder(config, tokens)
        features = 4 * self.encoder.feature_size
        self.layers = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(features, settings.hidden_size),
            nn.ELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden_size, classes),
        )

    def forward(self, pairs: PairBatch) -> tuple[Tensor, Encoding]:
        """Return logits, (B, L), and the encoding of all sentences."""
        encoding = self.encoder.encode(pairs.sentences)
        left, right = encoding.features[pairs.places].chunk(2)
        features = torch.cat([left, right, left * right, (left - right).abs()], dim=-1)
        return self.layers(features), encoding

    def loss(self, batch: PairBatch, state: State = None) -> Loss:
        """Return cross-entropy in training mode; number of correct answers in evaluation mode.

        An encoder that learns from rewards gets the log-probability of the pair's class for each of its sentences.
        """
        assert batch.classes is not None, "training batches must have classes"
        logits, encoding = self(batch)
        count = len(batch.classes)
        if not self.training:
            return Loss((logits.argmax(-1) == batch.classes).sum(), count, count)
        nats = cross_entropy(logits, batch.classes, reduction="none")
        penalties = encoding.penalties
        if encoding.decisions is not None:
            assert isinstance(self.encoder, LearnsFromRewards)
            rewards = torch.empty_like(nats).repeat(2).index_put((batch.places,), -nats.detach().repeat(2))
            penalties = penalties | self.encoder.policy_terms(encoding.decisions, rewards)
        return Loss(nats.sum(), count, count, penalties)


# ---- stops


@dataclass(frozen=True)
class StopSettings(Settings):
    """Sizes and inputs of the classifiers. The sizes D, E and so on must match the model's.

    Attributes:
        state_size: features of a state, D
        word_size: features of a word's embedding
        input_size: features of the model's input for a word, E: embeddings of the word and, if labelled, the label
        hidden_size: neurons of the classifiers' hidden layer
        labels: number of edge labels; 0: the model reads no labels
        reads: the word's state; or also the word and its label
    """

    state_size: Size
    word_size: Size
    input_size: Count
    hidden_size: Size
    labels: Annotated[int, Bounds(ge=0, le=65_536)] = 0
    reads: StopInputs = "states-and-words"
    format: int = STOPS_FORMAT


@dataclass(frozen=True)
class StopExamples:
    """A batch of n words of trees, as read by a dependency-tree model.

    Attributes:
        hidden: (n, D).
        embedded: (n, word_size).
        inputs: (n, E), the model's inputs for the words themselves.
        leaving: (n, 4) bool, whether an edge of each type leaves a word.
        possible: (n, 4) bool, whether one could: see `generation.stops.possible_edges`.
        labels: (n,) int64, label of the edge above each word.
    """

    carries = False  # words are independent: no state is carried
    hidden: Tensor
    embedded: Tensor
    inputs: Tensor
    leaving: Tensor
    possible: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> StopExamples:
        """Return the same words on another device."""
        return StopExamples(**{name: value.to(device) for name, value in vars(self).items()})

    def nats(self, stops: Stops) -> Tensor:
        """Return negative log-probability of each word's decisions and label, if labels are read: (n,)."""
        logits = stops(self.hidden, self.inputs)
        nats = binary_cross_entropy_with_logits(logits, self.leaving.to(logits.dtype), reduction="none").sum(1)
        if stops.label_network is not None:
            nats = nats + cross_entropy(stops.label_logits(self.hidden, self.embedded), self.labels, reduction="none")
        return nats


class Stops(Model, TrainsByGradient):
    """Four stop classifiers, and a label predictor if the model reads labels."""

    criterion = Criterion("negative log-likelihood of stop decisions and labels", "nats per word")

    def __init__(self, settings: StopSettings) -> None:
        super().__init__()
        self.settings = settings
        features = settings.state_size + (settings.input_size if settings.reads == "states-and-words" else 0)
        self.classifiers = nn.ModuleList(_network(features, settings.hidden_size, 1) for _ in range(EDGES))
        self.label_network: nn.Sequential | None = None
        if settings.labels:
            features = settings.state_size + settings.word_size
            self.label_network = _network(features, settings.hidden_size, settings.labels)

    def loss(self, batch: StopExamples, state: State = None) -> Loss:
        nats = batch.nats(self)
        return Loss(nats.sum(), len(nats), len(nats))

    def forward(self, hidden: Tensor, inputs: Tensor) -> Tensor:
        """Return logits of whether an edge of each type leaves each word: (n, D), (n, E) -> (n, 4).

        Args:
            inputs: the model's inputs for the words themselves.
        """
        features = torch.cat([hidden, inputs], dim=-1) if self.settings.reads == "states-and-words" else hidden
        return torch.cat([classifier(features) for classifier in self.classifiers], dim=-1)

    def label_logits(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Return logits of the label of the edge above each word: (n, D), (n, word_size) -> (n, labels)."""
        assert self.label_network is not None
        logits: Tensor = self.label_network(torch.cat([hidden, embedded], dim=-1))
        return logits


def _network(features: int, hidden_size: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden_size), nn.ReLU(), nn.Linear(hidden_size, outputs))
