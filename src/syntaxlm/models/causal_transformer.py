"""A causal Transformer language model, trained from a recipe. Finished ones of other programs: `models/transformer.py`.

Blocks as in LLaMA (Touvron et al. 2023): normalisation before each part, by the root mean square (RMSNorm, Zhang &
Sennrich 2019); rotary positions (Su et al. 2021); SwiGLU (Shazeer 2020); no biases.

A token attends to itself and to the `window` tokens before it, in training, evaluation and generation alike. The state
that is carried through a text is the keys and values of its last `window` tokens, before rotation. Rotation depends on
distances only, so it is applied to whatever is in the window, and texts may have any length.

Shapes: T time, B batch, E embedding size, H heads, D features of a head, S keys: those of the state and T new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from syntaxlm.core.settings import Fraction, Layers, NonNegative, Positive, Size
from syntaxlm.models.backbone import (
    Backbone,
    BackboneOutput,
    Cutoffs,
    Mixture,
    NeuralConfig,
    neural_model,
    softmax_faults,
    with_tree_states,
)
from syntaxlm.models.batches import State, TokenBatch
from syntaxlm.models.config import TreeLoss
from syntaxlm.models.layers import RMSNorm, dropout
from syntaxlm.models.structures import SplitScores

ROTARY_BASE = 10_000.0
_TREE_STATES_DEPTH = 0.75  # share of the blocks below the states that given trees regularise
_QUERIES_TOGETHER = 128  # queries that attend together in long texts, or `window` if that is more


@dataclass(frozen=True)
class CausalTransformerConfig(NeuralConfig):
    """Settings of the Transformer language model.

    Attributes:
        embedding_size: features of a token, in all blocks
        layers: number of blocks
        heads: attention heads of a block; embedding_size must be a multiple of twice this number
        feedforward_size: inner features; null means 8/3 of embedding_size, rounded up to a multiple of 16
        window: number of preceding tokens that a token attends to, besides itself
        tied: whether the decoder shares the embedding's weight
        dropout: rate on embeddings and on the output of attention and feed-forward layers
        attention_dropout: rate on attention weights
        supervision: weight of the loss of TreeReg on the states of a block, with text.trees
        init_range: initial weights are uniform in (-init_range, init_range); the default has a std of 0.02
        cutoffs: word ids from which embeddings are a quarter, a sixteenth, ... as large, for an adaptive softmax
        mixture: number of softmaxes of a mixture, each of a projection of the last states; 1 is a plain softmax
    """

    name: Literal["transformer"] = "transformer"
    embedding_size: Size = 256
    layers: Layers = 6
    heads: Size = 8
    feedforward_size: Size | None = None
    window: Size = 256
    tied: bool = True
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0
    supervision: NonNegative = 0.0
    init_range: Positive = 0.035
    cutoffs: Cutoffs = ()
    mixture: Mixture = 1

    @property
    def tree_loss(self) -> TreeLoss:
        return "states"

    @property
    def inner_size(self) -> int:
        """Features inside a feed-forward layer."""
        return self.feedforward_size or -(-8 * self.embedding_size // (3 * 16)) * 16

    def contradictions(self) -> list[str]:
        faults = softmax_faults(self.cutoffs, self.tied, self.mixture)
        if self.embedding_size % (2 * self.heads):
            faults.append(
                f"heads: found {self.heads} with embedding_size {self.embedding_size}; expected embedding_size to be a"
                f" multiple of {2 * self.heads}, because each head has an even number of features"
            )
        return faults


Bias = Callable[[Tensor], Tensor]
"""Queries before rotation, (B, H, T, D) -> what is added to the scores of keys, (B, H, T, S), -inf for unseen ones."""


class Reach(NamedTuple):
    """Queries, the keys near enough to attend to, and which query attends to which: (queries, keys) bool.

    Attributes:
        mask: None if every query attends to all these keys, or if `causal`: to those at its own position and before.
    """

    queries: slice
    keys: slice
    mask: Tensor | None
    causal: bool = False


def reaches(steps: int, past: int, window: int, device: torch.device) -> Iterator[Reach]:
    """Yield the queries of T new tokens, in parts, so that time grows with T and not with its square.

    Args:
        past: number of tokens before them whose keys are known.
    """
    if past + steps <= window + 1 and (past == 0 or steps == 1):
        yield Reach(slice(0, steps), slice(0, past + steps), None, causal=steps > 1)
        return
    together = max(window, _QUERIES_TOGETHER)
    for start in range(0, steps, together):
        end = min(start + together, steps)
        first = max(0, past + start - window)
        positions = torch.arange(first, past + end, device=device)
        distances = positions[past + start - first :, None] - positions
        yield Reach(slice(start, end), slice(first, past + end), (distances >= 0) & (distances <= window))


def rotations(count: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the angles t 10000^(-2k/D) of positions t and features k < D/2: (count, D/2) each."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    features = torch.arange(0, size, 2, device=like.device, dtype=dtype)
    angles = torch.arange(count, device=like.device, dtype=dtype)[:, None] * ROTARY_BASE ** (-features / size)
    return angles.cos(), angles.sin()


def rotated(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate each pair of features k and k + D/2 by the angle of its position.

    Args:
        vectors: (..., T, D).
    """
    first, second = vectors.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Block(nn.Module):
    """Self-attention and a feed-forward layer, each added to what it reads.

    Weights are (outputs, inputs): those of queries, keys and values in one matrix, those of gate and up in another.
    The weights of the two outputs that are added start smaller by sqrt(2 layers), as in GPT-2 (Radford et al. 2019).

    Attributes:
        keeps_rotated: whether the keys of the text so far are kept after their rotation. The positions of tokens must
            then not change while a text is read.
    """

    keeps_rotated = False

    def __init__(self, config: CausalTransformerConfig) -> None:
        super().__init__()
        self.config = config
        size, inner = config.embedding_size, config.inner_size
        self.attention_norm, self.feedforward_norm = RMSNorm(size), RMSNorm(size)
        self.query_key_value = nn.Parameter(torch.empty(3 * size, size))
        self.attention_output = nn.Parameter(torch.empty(size, size))
        self.gate_up = nn.Parameter(torch.empty(2 * inner, size))
        self.down = nn.Parameter(torch.empty(size, inner))
        for weight, is_added in (
            (self.query_key_value, False), (self.attention_output, True), (self.gate_up, False), (self.down, True),
        ):  # fmt: skip
            limit = config.init_range / (sqrt(2 * config.layers) if is_added else 1)
            nn.init.uniform_(weight, -limit, limit)

    def forward(
        self,
        hidden: Tensor,
        reach: list[Reach],
        rotation: tuple[Tensor, Tensor],
        before: tuple[Tensor, Tensor] | None,
        bias: Bias | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the output, (T, B, E), and the keys and values of the text so far, (B, H, S, D) each.

        Args:
            before: keys and values of the tokens before the batch; None at the start of a text.
            bias: gives what is added to the scores of keys, in place of the masks of `reach`; None: nothing is added.
        """
        rate = self.config.dropout
        attended, known = self._attend(self.attention_norm(hidden), reach, rotation, before, bias)
        hidden = hidden + dropout(linear(attended, self.attention_output), rate, self.training)
        gate, up = linear(self.feedforward_norm(hidden), self.gate_up).chunk(2, dim=-1)
        return hidden + dropout(linear(silu(gate) * up, self.down), rate, self.training), known

    def _attend(
        self,
        inputs: Tensor,
        reach: list[Reach],
        rotation: tuple[Tensor, Tensor],
        before: tuple[Tensor, Tensor] | None,
        bias: Bias | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        steps, columns, size = inputs.shape
        heads = linear(inputs, self.query_key_value).view(steps, columns, 3, self.config.heads, -1)
        queries, keys, values = heads.permute(2, 1, 3, 0, 4)  # each (B, H, T, D)
        added = None if bias is None else bias(queries)
        rotation_of_new = tuple(part[-steps:] for part in rotation)
        queries = rotated(queries, *rotation_of_new)
        if self.keeps_rotated:
            keys = rotated(keys, *rotation_of_new)
        if before is not None:
            keys = torch.cat([before[0], keys], 2)
            values = torch.cat([before[1], values], 2)
        turned = keys if self.keeps_rotated else rotated(keys, *rotation)

        # On a processor, the fused backward pass is up to four times slower in bfloat16 than in float32.
        precise = inputs.device.type == "cpu" and torch.is_grad_enabled()
        dtype = torch.promote_types(values.dtype, torch.float32) if precise else values.dtype
        queries = queries.to(dtype)
        turned = turned.to(dtype)
        read = values.to(dtype)
        if added is not None:
            reach = [part._replace(mask=added.to(dtype), causal=False) for part in reach]
        rate = self.config.attention_dropout if self.training else 0.0
        with torch.autocast(inputs.device.type, enabled=False):
            parts = [
                scaled_dot_product_attention(
                    queries[:, :, part.queries], turned[:, :, part.keys], read[:, :, part.keys],
                    part.mask, rate, part.causal,
                )
                for part in reach
            ]  # fmt: skip
        attended = parts[0] if len(parts) == 1 else torch.cat(parts, 2)
        return attended.permute(2, 0, 1, 3).reshape(steps, columns, size), (keys, values)


@neural_model("transformer", CausalTransformerConfig)
class CausalTransformerBackbone(Backbone):
    """Blocks, and a last normalisation. TreeReg reads the states after three quarters of the blocks."""

    structure_type: type[SplitScores] | None = SplitScores

    def __init__(self, config: CausalTransformerConfig) -> None:
        super().__init__()
        self.config = config
        if not config.supervision:
            self.structure_type = None
        self.output_size = config.embedding_size
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.embedding_size)

    def forward(self, embedded: Tensor, batch: TokenBatch, state: State) -> BackboneOutput:
        # What the queries of this batch attend to, given the tokens of the state.
        config, steps = self.config, len(embedded)
        past = 0 if state is None else state["keys.0"].shape[2]
        reach = list(reaches(steps, past, config.window, embedded.device))
        rotation = rotations(past + steps, config.embedding_size // config.heads, embedded)

        # The blocks; those states are kept that given trees regularise.
        hidden = dropout(embedded, config.dropout, self.training)
        after: dict[str, Tensor] = {}
        tree_states = hidden
        for number, block in enumerate(self.blocks):
            names = f"keys.{number}", f"values.{number}"
            before = None if state is None else (state[names[0]], state[names[1]])
            hidden, known = block(hidden, reach, rotation, before)
            after |= {name: part[:, :, -config.window :].detach() for name, part in zip(names, known, strict=True)}
            if number + 1 == ceil(config.layers * _TREE_STATES_DEPTH):
                tree_states = hidden
        rows = hidden.flatten(0, 1) if batch.lengths is None else hidden[batch.mask()]
        output = BackboneOutput(self.norm(rows), after)
        return with_tree_states(output, tree_states, batch, config.supervision, self.training)
