"""Stop classifiers, which decide where a tree ends, so that a dependency-tree model can generate trees.

After a word is sampled, four binary classifiers predict, for each type of edge, whether such an edge leaves the word:
add left, add right, add next left, add next right (Zhang, Lu, Lapata 2016). Each is a two-layer network over the word's
state H[:, t]. It encodes the path to the word, not the word itself, which is sampled from it, so the classifiers
can also read the model's next input, which includes the word.
For a model with edge labels, a further network over the state and the word's embedding predicts the label of the edge
above the word; in the papers the labels are given.
Shapes: n words, D features of a state, E features of the model's input for a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from syntaxlm.core.settings import Count, Settings, Size
from syntaxlm.models.abilities import Criterion, Loss, Model, TrainsByGradient
from syntaxlm.models.batches import State
from syntaxlm.ops.tree_levels import EDGES

FORMAT = 1

Reads = Literal["states", "states-and-words"]


@dataclass(frozen=True)
class StopSettings(Settings):
    """Sizes and inputs of the classifiers. The sizes D, E and so on must match the model's."""

    state_size: Size  # features of a state, D
    word_size: Size  # features of a word's embedding
    input_size: Count  # features of the model's input for a word, E: embeddings of the word and, if labelled, the label
    hidden_size: Size  # neurons of the classifiers' hidden layer
    labels: Annotated[int, Field(ge=0, le=65_536)] = 0  # number of edge labels; 0: the model reads no labels
    reads: Reads = "states-and-words"  # the word's state; or also the word and its label
    format: int = FORMAT


@dataclass(frozen=True)
class StopExamples:
    """A batch of n words of trees, as read by a dependency-tree model.

    hidden: (n, D); embedded: (n, word_size); inputs: (n, E), the model's inputs for the words themselves.
    leaving: (n, 4) bool, whether an edge of each type leaves a word.  possible: (n, 4) bool, whether one could:
        see `generation.stops.possible_edges`.
    labels: (n,) int64, label of the edge above each word.
    """

    hidden: Tensor
    embedded: Tensor
    inputs: Tensor
    leaving: Tensor
    possible: Tensor
    labels: Tensor

    @property
    def carries(self) -> bool:
        """Words are independent: no state is carried."""
        return False

    def to(self, device: torch.device | str) -> StopExamples:
        """Return the same words on another device."""
        return StopExamples(**{name: value.to(device) for name, value in vars(self).items()})

    def nats(self, stops: Stops) -> Tensor:
        """Return negative log-probability of each word's decisions and label, if labels are read: (n,)."""
        logits = stops(self.hidden, self.inputs)
        found = binary_cross_entropy_with_logits(logits, self.leaving.to(logits.dtype), reduction="none").sum(1)
        if stops.label_network is not None:
            found = found + cross_entropy(stops.label_logits(self.hidden, self.embedded), self.labels, reduction="none")
        return found


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
