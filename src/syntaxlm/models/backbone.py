"""Neural token models: embedding, backbone, decoder. Models differ only in their backbones.

Shapes: T time, B batch, E embedding size, F features of the decoder's input, n real tokens of a batch, V words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from syntaxlm.models.abilities import (
    EncodesSentences,
    Encoding,
    HasHiddenStates,
    HasMaps,
    Loss,
    Maps,
    ParsesSentences,
    PredictsNextToken,
    TokenScores,
    TrainsByGradient,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.layers import Decoder
from syntaxlm.models.structures import Distances, SpanScores, Structure


@dataclass(frozen=True)
class BackboneOutput:
    """Output of a backbone for an embedded batch.

    hidden: (n, F), the decoder's input at each real step, in the order of `TokenBatch.mask()`.
    penalties: named scalars, already weighted, that training adds to the loss.
    distances: (layers, T, B), detached; None for a backbone without distances.
    """

    hidden: Tensor
    state: State
    penalties: dict[str, Tensor] = field(default_factory=dict)
    distances: Tensor | None = None
    maps: Maps = field(default_factory=Maps)


class Backbone(nn.Module, ABC):
    """Maps embedded tokens to the decoder's input.

    output_size: F.  structure_type: type of the structure; None if the model does not parse.
    has_maps: whether there are gates or attention to draw.
    distance_layers, default_layer: see `ParsesSentences`.  mixes_lengths: see `Model`.
    """

    output_size: int
    structure_type: type[Distances | SpanScores] | None = None
    has_maps: bool = False
    distance_layers: int = 0
    default_layer: int = 1
    mixes_lengths: bool = False

    @abstractmethod
    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        """Return embedded: (T, B, E); state: None at the start of a text. The returned state is detached."""

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """Return the input of `forward`, (T, B) -> (T, B, E): the embeddings, with dropout of word types if there is
        any.
        """
        embedded: Tensor = embedding(tokens)
        return embedded

    def structure(self, batch: TokenBatch, embedding: nn.Embedding) -> Structure:
        """Return the structure of whole sentences; by default from a full forward pass."""
        distances = self(self.embed(embedding, batch.tokens), batch, None).distances
        assert distances is not None, "a backbone that parses must give distances or override structure()"
        return Distances(distances)


class NeuralEncoder(EncodesSentences):
    """Embedding and backbone. A sentence's vector is the decoder's input after the last token."""

    def __init__(self, backbone: Backbone, vocabulary_size: int, embedding_size: int, init_range: float) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.backbone = backbone
        self.mixes_lengths, self.feature_size = backbone.mixes_lengths, backbone.output_size
        nn.init.uniform_(self.embedding.weight, -init_range, init_range)

    def read(self, batch: TokenBatch, state: State = None) -> BackboneOutput:
        """Return the backbone's output for a batch, starting from `state`."""
        output: BackboneOutput = self.backbone(self.backbone.embed(self.embedding, batch.tokens), batch, state)
        return output

    def encode(self, batch: TokenBatch) -> Encoding:
        output = self.read(batch)
        return Encoding(output.hidden[batch.last_rows()], output.penalties)


class ParsingEncoder(NeuralEncoder, ParsesSentences):
    """An encoder that also gives distances. It reads the words without BOS and EOS, as in a pair classifier."""

    def __init__(self, backbone: Backbone, vocabulary_size: int, embedding_size: int, init_range: float) -> None:
        super().__init__(backbone, vocabulary_size, embedding_size, init_range)
        self.structure_type = Distances
        self.distance_layers, self.default_layer = backbone.distance_layers, backbone.default_layer

    def structure(self, batch: TokenBatch) -> Distances:
        """Return distances of the words; those of BOS and EOS are 0."""
        found = self.backbone.structure(batch.inner(), self.embedding)
        assert isinstance(found, Distances)
        return Distances(pad(found.values, (0, 0, 1, 1)))


class NeuralModel(NeuralEncoder, TrainsByGradient, HasHiddenStates, PredictsNextToken):
    """A language model: an encoder and a decoder."""

    def __init__(
        self, backbone: Backbone, vocabulary_size: int, embedding_size: int, tied: bool, init_range: float
    ) -> None:
        super().__init__(backbone, vocabulary_size, embedding_size, init_range)
        self.decoder = Decoder(backbone.output_size, vocabulary_size, self.embedding if tied else None)
        if not tied:
            self.decoder.initialise(init_range)

    def loss(self, batch: TokenBatch, state: State = None) -> Loss:
        output = self.read(batch, state)
        nats = -self._target_log_probs(output, batch).sum()
        penalties = output.penalties if self.training else {}
        return Loss(nats, batch.token_count(), batch.sentence_count(), penalties, output.state)

    def token_log_probs(self, batch: TokenBatch, state: State = None) -> TokenScores:
        output = self.read(batch, state)
        values = self._target_log_probs(output, batch)
        if batch.lengths is None:
            values = values.view(batch.targets.shape)
        else:
            zeros = torch.zeros(batch.targets.shape, dtype=values.dtype, device=values.device)
            values = zeros.masked_scatter(batch.mask(), values)
        return TokenScores(values, output.state, output.hidden)

    def next_log_probs(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        output = self.read(batch, state)
        logits = self.decoder(output.hidden[batch.last_rows()])
        return torch.log_softmax(logits.to(self.decoder.weight.dtype), dim=-1), output.state

    def _target_log_probs(self, output: BackboneOutput, batch: TokenBatch) -> Tensor:
        """Return log-probabilities of the targets of real steps: (n,)."""
        targets = batch.targets.flatten() if batch.lengths is None else batch.targets[batch.mask()]
        return self.decoder.log_probs(output.hidden, targets)


class NeuralModelWithMaps(NeuralModel, HasMaps):
    """A language model with gates or attention that can be drawn."""

    def maps(self, batch: TokenBatch) -> Maps:
        return self.read(batch).maps


class NeuralParser(NeuralModel, ParsesSentences):
    """A language model that also gives structure."""

    def __init__(
        self, backbone: Backbone, vocabulary_size: int, embedding_size: int, tied: bool, init_range: float
    ) -> None:
        super().__init__(backbone, vocabulary_size, embedding_size, tied, init_range)
        assert backbone.structure_type is not None
        self.structure_type = backbone.structure_type
        self.distance_layers, self.default_layer = backbone.distance_layers, backbone.default_layer

    def structure(self, batch: TokenBatch) -> Structure:
        return self.backbone.structure(batch, self.embedding)


class NeuralParserWithMaps(NeuralParser, NeuralModelWithMaps):
    """A language model that also gives structure and has gates or attention that can be drawn."""


class NeuralConfig(Protocol):
    """Settings that every model with a backbone has."""

    @property
    def embedding_size(self) -> int: ...

    @property
    def tied(self) -> bool: ...

    @property
    def init_range(self) -> float: ...


def neural_model(backbone: Backbone, config: NeuralConfig, vocabulary_size: int) -> NeuralModel:
    """Return a language model of the class that matches the backbone's abilities."""
    if backbone.structure_type is None:
        model_class = NeuralModelWithMaps if backbone.has_maps else NeuralModel
    else:
        model_class = NeuralParserWithMaps if backbone.has_maps else NeuralParser
    return model_class(backbone, vocabulary_size, config.embedding_size, config.tied, config.init_range)
