"""Dropout: of entries, of whole columns, of word types, of weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from syntaxlm.layers.rows import Rows

_LEVELS = 1 << 16


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
    """A mask that is 0 with probability `rate`, else 1 / (1 - rate), in the type and on the device of `like`.

    Four entries share one 64-bit random number (Bernoulli draws cost a twelfth of a PRPN step otherwise), so the rate
    is rounded to a multiple of 2^-16; the scale is that of the rounded rate, so that the mask's mean is exactly 1.
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
    """Each entry 0 with probability `rate`, the others scaled so that the mean stays; the identity in evaluation."""
    if not training or rate == 0:
        return values
    return values * dropout_mask(tuple(values.shape), rate, values)


def locked_dropout(hidden: Tensor, rate: float, rows: Rows, training: bool) -> Tensor:
    """Dropout with one mask for all steps of a column, drawn anew for each batch. hidden: (n, F), rows of `rows`.

    Gal & Ghahramani 2016; as Merity, Keskar, Socher 2018 use it, section 4.2.
    """
    if not training or rate == 0:
        return hidden
    mask = dropout_mask((rows.columns, hidden.shape[1]), rate, hidden)
    return hidden * mask[rows.column_of_each(hidden.device)]


def embed_with_dropout(embedding: nn.Embedding, tokens: Tensor, rate: float, training: bool) -> Tensor:
    """Embeddings of tokens, (T, B) -> (T, B, E), of which whole word types are 0, wherever they stand in the batch.

    Merity, Keskar, Socher 2018, section 4.3.
    """
    embedded: Tensor = embedding(tokens)
    if not training or rate == 0:
        return embedded
    return embedded * dropout_mask((embedding.num_embeddings, 1), rate, embedding.weight)[tokens]


def drop_weights(weight: Tensor, rate: float, rescaled: bool, training: bool) -> Tensor:
    """A weight with entries 0 at `rate`, one mask a forward pass (DropConnect; Merity, Keskar, Socher 2018, section 2).

    rescaled: whether the others are divided by 1 - rate, as AWD-LSTM has it. Without, as in the released ON-LSTM, they
    stay as they are, and evaluation multiplies the whole weight by 1 - rate.
    """
    if rate == 0 or (rescaled and not training):
        return weight
    if not training:
        return weight * (1 - rate)
    mask = dropout_mask(tuple(weight.shape), rate, weight)
    return weight * (mask if rescaled else mask.sign_())
