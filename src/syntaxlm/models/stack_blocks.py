"""The parts of the Transformer that builds a tree: its settings, blocks that see the stack, and the closing decision.

Shapes: T tokens, B sentences, E embedding size, H heads, D features of a head, S tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from syntaxlm.core.settings import Positive, Size
from syntaxlm.models.causal_transformer import Block, CausalTransformerConfig, Reach, rotations
from syntaxlm.models.config import TreeLoss
from syntaxlm.models.layers import RMSNorm

PLACES = 16  # indices and depths that have embeddings; larger ones have that of the last


@dataclass(frozen=True)
class TreeTransformerConfig(CausalTransformerConfig):
    """Settings of the Transformer that builds a tree, besides those of the plain one. It learns from text.trees.

    Attributes:
        supervision: weight of the loss of closing decisions; with 1, the loss is the negative log-probability of
            words and trees
        closing_layer: number of blocks before the closing decision; null means half of them, rounded up
        beam: hypotheses that are kept after each word of a text without trees
        validation_beam: hypotheses that are kept in validations during training
    """

    name: Literal["tree-transformer"] = "tree-transformer"  # type: ignore[assignment]
    supervision: Positive = 1.0
    closing_layer: Size | None = None
    beam: Size = 8
    validation_beam: Size = 1

    @property
    def tree_loss(self) -> TreeLoss:
        return "decisions"

    @property
    def lower_blocks(self) -> int:
        """The number of blocks before the closing decision."""
        return self.closing_layer or -(-self.layers // 2)

    def contradictions(self) -> list[str]:
        faults = super().contradictions()
        if self.closing_layer is not None and self.closing_layer > self.layers:
            expected = f"expected at most layers, {self.layers}"
            faults.append(f"closing_layer: found {self.closing_layer}; {expected}")
        return faults


class StackBlock(Block):
    """A block whose keys have embeddings of the place of their token on the stack of the query.

    The score of a key is (rotated q_t . rotated k_j + q_t . (index embedding + depth embedding)) / sqrt(D). Positions
    are counted from the start of the sentence, so keys are rotated once.
    """

    keeps_rotated = True

    def __init__(self, config: TreeTransformerConfig) -> None:
        super().__init__(config)
        shape = config.heads, PLACES, config.embedding_size // config.heads
        self.index_keys, self.depth_keys = nn.Parameter(torch.empty(shape)), nn.Parameter(torch.empty(shape))
        for weight in (self.index_keys, self.depth_keys):
            nn.init.uniform_(weight, -config.init_range, config.init_range)

    def read(
        self, hidden: Tensor, index: Tensor, depth: Tensor, before: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the output, (T, B, E), and the rotated keys and the values of the text so far, (B, H, S, D) each.

        Args:
            index: (B, T, S), of the tokens on the stack of each query.
            depth: (B, T, S).
            before: keys and values of earlier tokens.
        """
        steps, size = index.shape[1:]
        heads = self.config.heads
        tokens = torch.arange(size, device=index.device)
        distances = tokens[size - steps :, None] - tokens
        hides = (distances < 0) | (distances > self.config.window)

        def bias(queries: Tensor) -> Tensor:
            scores = _of_places(queries @ self.index_keys.mT, index[:, None].expand(-1, heads, -1, -1))
            scores = scores + _of_places(queries @ self.depth_keys.mT, depth[:, None].expand(-1, heads, -1, -1))
            return (scores / sqrt(queries.shape[-1])).masked_fill(hides, -torch.inf)

        rotation = rotations(size, hidden.shape[-1] // heads, hidden)
        return super().forward(hidden, [Reach(slice(0, steps), slice(0, size), None)], rotation, before, bias)


def _of_places(scores: Tensor, places: Tensor) -> Tensor:
    """Return the scores of places on the stack: (..., T, PLACES), (..., T, S) -> (..., T, S)."""
    return scores.gather(-1, places.clamp(max=PLACES - 1))


class ClosingHead(nn.Module):
    """A pointer over the items of the stack: the first one that is merged with all above it, or none.

    The state of a token t is compared with the states of the first tokens of the items, whose keys have embeddings of
    the items' indices; none is a learned key.
    """

    def __init__(self, config: TreeTransformerConfig) -> None:
        super().__init__()
        size, limit = config.embedding_size, config.init_range
        self.norm = RMSNorm(size)
        self.query_key = nn.Parameter(torch.empty(2 * size, size))
        self.index_keys = nn.Parameter(torch.empty(PLACES, size))
        self.none = nn.Parameter(torch.empty(1, size))
        for weight in self.parameters(recurse=False):
            nn.init.uniform_(weight, -limit, limit)

    def query_and_key(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a token compares, and what it is compared by: (..., E) -> (..., E) each."""
        query, key = linear(self.norm(states), self.query_key).chunk(2, -1)
        return query, key

    def log_probs(self, queries: Tensor, keys: Tensor, index: Tensor, begins: Tensor) -> Tensor:
        """Return the log-probabilities of decisions, (..., T, S) in float32 or more; -inf where no item begins.

        Args:
            queries: (..., T, E), of the last T of S tokens; a token's own key stands for none.
            keys: (..., S, E).
            index: (..., T, S), of the items of tokens when each query's token has just been pushed.
            begins: (..., T, S) bool, whether a token is the first of an item.
        """
        steps, size = index.shape[-2:]
        items = queries @ keys.mT + _of_places(queries @ self.index_keys.mT, index)
        own = torch.eye(size, dtype=torch.bool, device=index.device)[size - steps :]
        scores = torch.where(own, queries @ self.none.mT, items) / sqrt(queries.shape[-1])
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores.masked_fill(~begins, -torch.inf).log_softmax(-1)
