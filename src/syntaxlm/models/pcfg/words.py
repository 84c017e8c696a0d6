"""Conversion between vocabulary ids and a grammar's words. A grammar has no BOS and EOS; word 0 is the unknown word."""

from __future__ import annotations

import torch
from torch import Tensor

BOS, EOS = 1, 2
SPECIALS = 2  # BOS and EOS, which a grammar does not have


def counts_of_grammar(counts: Tensor) -> Tensor:
    """Counts per token, without BOS and EOS: (V,) -> (V - 2,)."""
    return torch.cat([counts[:1], counts[SPECIALS + 1 :]])


def to_grammar(tokens: Tensor) -> Tensor:
    """The grammar's words for tokens; BOS and EOS inside a sentence become unknown words."""
    return (tokens - SPECIALS).clamp(min=0)


def of_vocabulary(word: int) -> int:
    """The token of a grammar's word."""
    return word + SPECIALS if word else 0
