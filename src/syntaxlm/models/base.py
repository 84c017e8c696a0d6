"""The shell every neural token model shares: embedding, core, decoder. A model is its core."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from syntaxlm.layers.softmax import Decoder
from syntaxlm.models.contract import Output, State, Syntax, TokenBatch


@dataclass(frozen=True)
class Reading:
    """What a core makes of an embedded batch.

    hidden: (n, F), what the decoder reads for each real step, in the order of `TokenBatch.mask()`'s true entries.
    """

    hidden: Tensor
    state: State
    penalties: dict[str, Tensor] = field(default_factory=dict)
    syntax: Syntax | None = None


class Core(nn.Module):
    """What differs from model to model: how embedded tokens become rows to decode."""

    output_size: int
    distance_layers: int = 0  # how many layers of distances `syntax` gives; 0: none
    default_layer: int = 1  # the one of them, 1 is the first, whose trees are the model's where none is named
    # Whether a batch's tokens are normalised together. Then batches of sentences must mix lengths: the statistics of
    # sentences of one length betray it, and so the sentence's end, to training alone.
    has_batch_statistics: bool = False

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> Reading:
        """embedded: (T, B, E); state: None at the start. Returns a `Reading`, its state detached."""
        raise NotImplementedError

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """What `forward` reads of tokens, (T, B) -> (T, B, E): their embeddings, where a core does nothing to them."""
        embedded: Tensor = embedding(tokens)
        return embedded

    def syntax(self, batch: TokenBatch, embedding: nn.Embedding) -> Syntax | None:
        """What the model says of the structure of whole sentences, by the cheapest way that gives it."""
        return self(self.embed(embedding, batch.tokens), batch, None).syntax


class LanguageModel(nn.Module):
    """Embedding, core and decoder: `forward` is the contract."""

    def __init__(
        self, core: Core, vocabulary_size: int, embedding_size: int, tied: bool, initial_spread: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        self.core = core
        self.decoder = Decoder(core.output_size, vocabulary_size, self.embedding if tied else None)
        nn.init.uniform_(self.embedding.weight, -initial_spread, initial_spread)
        if not tied:
            self.decoder.initialise(initial_spread)

    @property
    def vocabulary_size(self) -> int:
        return self.embedding.num_embeddings

    def forward(self, batch: TokenBatch, state: State = None) -> Output:
        """Reads the batch from `state`. `Output.log_probs(targets)` is 0 on padding."""
        reading: Reading = self.core(self.core.embed(self.embedding, batch.tokens), batch, state)

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
        """The structure of whole sentences, without the cost of what structure does not need."""
        return self.core.syntax(batch, self.embedding)
