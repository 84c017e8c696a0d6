"""Language models that syntaxlm trained, for AutoModelForCausalLM of the library transformers.

Load them with `trust_remote_code=True`. This file needs torch and transformers only.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, MistralConfig, MistralForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class SyntaxLMLSTMConfig(PretrainedConfig):
    """Settings of an LSTM or a simple recurrent network.

    Args:
        cell: "lstm" or "rnn".
        vocab_size: number of tokens.
        embedding_size: features of a token's embedding.
        hidden_size: features of a layer's state.
        num_hidden_layers: stacked layers.
        projected: whether the states are mapped to the size of the embeddings before the decoder.
        tied: whether the decoder shares the weight of the embeddings.
        cutoffs: ids where the bands of an adaptive softmax begin, without the first; empty for a plain softmax.
        options: see `PretrainedConfig`.
    """

    model_type = "syntaxlm-lstm"

    def __init__(
        self,
        cell: str = "lstm",
        vocab_size: int = 3,
        embedding_size: int = 1,
        hidden_size: int = 1,
        num_hidden_layers: int = 1,
        projected: bool = False,
        tied: bool = True,
        cutoffs: Any = (),
        **options: Any,
    ) -> None:
        self.cell = cell
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.projected = projected
        self.tied = tied
        self.cutoffs = list(cutoffs)
        super().__init__(**options)


class SyntaxLMTransformerConfig(MistralConfig):
    """Settings of a Transformer: those of Mistral, and those of its decoder, `tied` and `cutoffs`."""

    model_type = "syntaxlm-transformer"
    tied: bool = True
    cutoffs: Any = ()


class OutputDecoder(nn.Module):
    """Maps states to logits or, with an adaptive softmax, to log-probabilities.

    In an adaptive softmax, the first softmax is over the words before the first cutoff and the bands of the others;
    each band has a softmax of its own.

    Args:
        config: with `vocab_size`, `tied` and `cutoffs`.
        size: features of a state.
        embedding: the embeddings, whose weight is shared if the decoder is tied.
    """

    embedding: nn.Embedding
    weight: nn.Parameter | None

    def __init__(self, config: Any, size: int, embedding: nn.Embedding) -> None:
        super().__init__()
        object.__setattr__(self, "embedding", embedding)  # not a submodule, so that its weight is stored once
        self.edges = [*config.cutoffs, config.vocab_size]
        self.weight = None if config.tied else nn.Parameter(torch.zeros(config.vocab_size, size))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        if config.cutoffs:
            self.bands = nn.Linear(size, len(config.cutoffs))

    def forward(self, states: Tensor) -> Tensor:
        """Return logits. (..., features) -> (..., tokens)."""
        weight = self.embedding.weight if self.weight is None else self.weight
        logits = nn.functional.linear(states, weight, self.bias)
        if len(self.edges) == 1:
            return logits
        first = torch.cat([logits[..., : self.edges[0]], self.bands(states)], -1).log_softmax(-1)
        parts = [first[..., : self.edges[0]]]
        for band, (start, end) in enumerate(zip(self.edges, self.edges[1:])):  # noqa: B905
            parts.append(logits[..., start:end].log_softmax(-1) + first[..., self.edges[0] + band, None])
        return torch.cat(parts, -1)


class SyntaxLMLSTM(PreTrainedModel, GenerationMixin):
    """An LSTM or simple recurrent network. It reads every text from its beginning, without a cache."""

    config_class = SyntaxLMLSTMConfig
    _tied_weights_keys: ClassVar[dict[str, str]] = {}

    def __init__(self, config: SyntaxLMLSTMConfig) -> None:
        super().__init__(config)
        layers = nn.RNN if config.cell == "rnn" else nn.LSTM
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        self.lstm = layers(config.embedding_size, config.hidden_size, config.num_hidden_layers, batch_first=True)
        size = config.embedding_size if config.projected else config.hidden_size
        self.projection = nn.Linear(config.hidden_size, size) if config.projected else nn.Identity()
        self.decoder = OutputDecoder(config, size, self.embedding)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embeddings."""
        return self.embedding

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **ignored: Any,
    ) -> CausalLMOutput:
        """Return the logits of the token after each token.

        Args:
            input_ids: (texts, tokens).
            attention_mask: 0 where a text is padded, which must be on its right side.
            labels: as `input_ids`, with -100 for tokens that are not predicted; the loss is then returned, too.
            ignored: options of attention and caches.
        """
        if attention_mask is not None and (attention_mask[:, 1:] > attention_mask[:, :-1]).any():
            raise ValueError(
                "a recurrent network reads the padding on the left of a text; expected padding on the right"
                " (padding_side='right'), or one text"
            )
        states, _ = self.lstm(self.embedding(input_ids))
        logits = self.decoder(self.projection(states))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **ignored: Any
    ) -> dict[str, Any]:
        """Return the whole text so far."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class SyntaxLMTransformer(MistralForCausalLM):
    """Mistral's blocks, with the decoder's bias that no model of the library has."""

    config_class = SyntaxLMTransformerConfig
    _tied_weights_keys: ClassVar[dict[str, str]] = {}

    def __init__(self, config: SyntaxLMTransformerConfig) -> None:
        super().__init__(config)
        self.lm_head = OutputDecoder(config, config.hidden_size, self.model.embed_tokens)
        self.post_init()
