"""Dropout of entries, columns, word types and weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from syntaxlm.layers.rows import Rows

_LEVELS = 1 << 16


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """A mask that is 0 with probability `rate`, else 1 / (1 - rate), with the dtype and device of `like`.

    Four entries share one 64-bit random number (Bernoulli sampling would take a twelfth of a PRPN step), so the rate is
    rounded to a multiple of 2^-16. The scale uses the rounded rate, so the mask's expected value is exactly 1.
    """
    kept = round((1 - rate) * _LEVELS)
    if kept == _LEVELS:
        return like.new_ones(shape)
    if kept == 0:
        return like.new_zeros(shape)
    count = math.prod(shape)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    below = bits.view(torch.int16)[:count] < kept - _LEVELS // 2
    return below.to(like.dtype).mul_(_LEVELS / kept).view(shape)


def dropout(values: Tensor, rate: float, training: bool) -> Tensor:
    """Sets entries to 0 with probability `rate` and scales the others to keep the mean; the identity in evaluation."""
    if not training or rate == 0:
        return values
    return values * dropout_mask(tuple(values.shape), rate, values)


def locked_dropout(hidden: Tensor, rate: float, rows: Rows, training: bool) -> Tensor:
    """Dropout with one mask for all steps of a column, resampled for each batch. hidden: (n, F), ordered as `rows`.

    Gal & Ghahramani 2016; used as in Merity, Keskar, Socher 2018, section 4.2.
    """
    if not training or rate == 0:
        return hidden
    mask = dropout_mask((rows.columns, hidden.shape[1]), rate, hidden)
    return hidden * mask[rows.column_of_each(hidden.device)]


def embed_with_dropout(embedding: nn.Embedding, tokens: Tensor, rate: float, training: bool) -> Tensor:
    """Embeddings of tokens, (T, B) -> (T, B, E), with some word types set to 0 at all their positions in the batch.

    Merity, Keskar, Socher 2018, section 4.3.
    """
    embedded: Tensor = embedding(tokens)
    if not training or rate == 0:
        return embedded
    return embedded * dropout_mask((embedding.num_embeddings, 1), rate, embedding.weight)[tokens]


def drop_weights(weight: Tensor, rate: float, rescaled: bool, training: bool) -> Tensor:
    """DropConnect: a weight with entries set to 0 at `rate`, with one mask per forward pass.

    Merity, Keskar, Socher 2018, section 2. rescaled: whether kept entries are divided by 1 - rate, as in AWD-LSTM.
    Otherwise, as in the released ON-LSTM program, they stay, and evaluation multiplies the whole weight by 1 - rate.
    """
    if rate == 0 or (rescaled and not training):
        return weight
    if not training:
        return weight * (1 - rate)
    mask = dropout_mask(tuple(weight.shape), rate, weight)
    return weight * (mask if rescaled else mask.sign_())
