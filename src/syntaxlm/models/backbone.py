"""The shell every neural token model shares: embedding, core, decoder. A model is its core."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from syntaxlm.layers.softmax import Decoder
from syntaxlm.models.contract import LanguageModel, Output, State, Syntax, TokenBatch


@dataclass(frozen=True)
class BackboneOutput:
    """What a core makes of an embedded batch.

    hidden: (n, F), what the decoder reads for each real step, in the order of `TokenBatch.mask()`'s true entries.
    """

    hidden: Tensor
    state: State
    penalties: dict[str, Tensor] = field(default_factory=dict)
    syntax: Syntax | None = None


class Backbone(nn.Module):
    """What differs from model to model: how embedded tokens become rows to decode."""

    output_size: int
    # As of `LanguageModel`, where they are told.
    distance_layers: int = 0
    default_layer: int = 1
    gives_span_scores: bool = False
    has_batch_statistics: bool = False

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        """embedded: (T, B, E); state: None at the start. Returns a `BackboneOutput`, its state detached."""
        raise NotImplementedError

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """What `forward` reads of tokens, (T, B) -> (T, B, E): their embeddings, where a core does nothing to them."""
        embedded: Tensor = embedding(tokens)
        return embedded

    def syntax(self, batch: TokenBatch, embedding: nn.Embedding) -> Syntax | None:
        """What the model says of the structure of whole sentences, by the cheapest way that gives it."""
        return self(self.embed(embedding, batch.tokens), batch, None).syntax


class NeuralModel(LanguageModel):
    """Embedding, core and decoder."""

    def __init__(
        self, core: Backbone, vocabulary_size: int, embedding_size: int, tied: bool, init_range: float
    ) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.core = core
        self.distance_layers, self.default_layer = core.distance_layers, core.default_layer
        self.gives_span_scores, self.has_batch_statistics = core.gives_span_scores, core.has_batch_statistics
        self.decoder = Decoder(core.output_size, vocabulary_size, self.embedding if tied else None)
        nn.init.uniform_(self.embedding.weight, -init_range, init_range)
        if not tied:
            self.decoder.initialise(init_range)

    def forward(self, batch: TokenBatch, state: State = None) -> Output:
        reading: BackboneOutput = self.core(self.core.embed(self.embedding, batch.tokens), batch, state)

        def log_probs(targets: Tensor) -> Tensor:
            if batch.lengths is None:
                return self.decoder.log_probs(reading.hidden, targets.flatten()).view(targets.shape)
            mask = batch.mask()
            values = self.decoder.log_probs(reading.hidden, targets[mask])
            return torch.zeros(targets.shape, dtype=values.dtype, device=values.device).masked_scatter(mask, values)

        def next_log_probs() -> Tensor:
            last = reading.hidden[batch.last_rows()]
            return torch.log_softmax(self.decoder(last).to(self.decoder.weight.dtype), dim=-1)

        return Output(log_probs, reading.state, reading.penalties, reading.syntax, next_log_probs, reading.hidden)

    def syntax(self, batch: TokenBatch) -> Syntax | None:
        return self.core.syntax(batch, self.embedding)
