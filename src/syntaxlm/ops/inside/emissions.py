"""Emission probabilities: the softmax over the vocabulary for every preterminal, computed once per step.

The whole t x V matrix is only needed for its sums; the charts read the columns of the batch's words. So forward keeps
exponentials and each preterminal's expected embedding, sum_w p(w | T) v_w. The gradient of the normaliser is that
expectation times the summed gradient of the columns, so backward builds no t x V matrix. The vocabulary is processed in
chunks, so that a chunk's logits, exponentials and expectation stay in cache; exponentials are relative to the chunk's
largest logit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from syntaxlm.ops.inside.tiles import product_of_sums, repeated_product, tiles_usable
from syntaxlm.ops.native import address, usable
from syntaxlm.ops.products import product_dtype

_SOURCE = Path(__file__).with_name("emissions.c")
_BLOCK = 64  # the compiled kernel needs a multiple of this many preterminals
_CACHED, _ON_DEVICE = 1 << 20, 1 << 28  # logits at a time


def emission_log_probs_reference(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Return `emission_log_probs` as its equation: slow, differentiated by autograd."""
    logits = hidden @ words.T
    if bias is not None:
        logits = logits + bias
    return torch.log_softmax(logits, dim=1)[:, columns].T


def emission_log_probs(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Return natural log p(w | T) = log softmax_w(h_T . v_w + bias_w) of some words w.

    hidden: (t, d) h; words: (V, d) v; bias: (V,) or None; columns: (u,) int64, distinct words.  Returns (u, t).
    Products are computed in autocast's dtype, sums at least in float32.
    """
    dtype = product_dtype(words)
    with torch.autocast(words.device.type, enabled=False):
        result: Tensor = _EmissionLogProbs.apply(hidden.to(words.dtype), words, bias, columns, dtype)
    return result


class _EmissionLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor, dtype: torch.dtype
    ) -> Tensor:
        library = usable(_SOURCE, dtype, hidden, words, bias)
        count = len(hidden)
        padded = count if library is None else -(-count // _BLOCK) * _BLOCK
        tiled = library is not None and dtype == torch.bfloat16 and tiles_usable(padded, words.shape[1])
        low_hidden = pad(hidden, (0, 0, 0, padded - count)).to(dtype)
        low_words = words.to(dtype)
        shares = torch.empty(len(words), padded, dtype=dtype, device=words.device)
        product = repeated_product(low_hidden, False, tiled)
        parts, greatest, sums, expected = list(_parts(shares)), [], [], []
        for part in parts:
            logits = product(low_words[part], shares[part])
            added = None if bias is None else bias[part]
            tops, totals = _exponentials(library, logits, added)
            greatest.append(tops)
            sums.append(totals)
            expected.append(product_of_sums(logits, low_words[part], tiled))
        every_top = torch.stack(greatest)
        top = every_top.amax(0)
        factors = torch.exp(every_top - top)  # (parts, t)
        total = (factors * torch.stack(sums)).sum(0)
        expectation = torch.zeros(padded, words.shape[1], dtype=factors.dtype, device=words.device)
        for factor, of_part in zip(factors, expected, strict=True):
            expectation.addcmul_(factor[:, None], of_part.to(factors.dtype))
        expectation = expectation[:count] / total[:count, None]
        chosen = low_words[columns]
        result = torch.empty(len(columns), padded, dtype=words.dtype, device=words.device)
        product(chosen, result)
        result -= top + total.log()
        if bias is not None:
            result += bias[columns, None]
        ctx.save_for_backward(hidden, low_hidden, chosen, shares, factors / total, expectation, columns)
        ctx.has_bias, ctx.tiled, ctx.parts = bias is not None, tiled, parts
        return result[:, :count]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, low_hidden, chosen, shares, factors, expectation, columns = ctx.saved_tensors
        (count, size), dtype = hidden.shape, low_hidden.dtype
        totals = grads[0].sum(0)
        low_grad = pad(grads[0], (0, len(low_hidden) - count)).to(dtype)
        hidden_grad = product_of_sums(low_grad, chosen, ctx.tiled)[:count].to(hidden.dtype)
        hidden_grad -= totals[:, None] * expectation
        extra = (32 if ctx.tiled else 1) if ctx.has_bias else 0  # columns for the gradient of the bias
        weighted = hidden.new_zeros(len(low_hidden), size + extra)
        weighted[:count, :size] = -totals[:, None] * hidden
        if ctx.has_bias:
            weighted[:count, size] = -totals
        words_grad = hidden.new_empty(len(shares), size + extra)
        for part, factor in zip(ctx.parts, factors, strict=True):
            low = (factor[:, None] * weighted).to(dtype)
            repeated_product(low, True, ctx.tiled)(shares[part], words_grad[part])
        bias_grad = None
        if ctx.has_bias:
            bias_grad = words_grad[:, size].index_add(0, columns, grads[0].sum(1))
            words_grad = words_grad[:, :size].contiguous()
        of_columns = hidden.new_empty(len(columns), size)
        repeated_product(low_hidden, True, ctx.tiled)(low_grad, of_columns)
        words_grad.index_add_(0, columns, of_columns)
        return hidden_grad, words_grad, bias_grad, None, None


def _exponentials(library: ctypes.CDLL | None, logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return exp(logit + bias - maximum) in place, (words, t); returns the maximum and sum of each preterminal, (t,)
    each.
    """
    if library is None:
        sums = torch.float64 if logits.dtype == torch.float64 else torch.float32
        wide = logits.to(sums) if bias is None else logits.to(sums) + bias[:, None]
        greatest = wide.amax(0)
        values = torch.exp(wide - greatest)
        logits.copy_(values)
        return greatest, values.sum(0)
    half = logits.dtype == torch.bfloat16
    pair = torch.empty(2, logits.shape[1])
    library.exponentials(
        address(logits), ctypes.c_int(half), *(ctypes.c_int64(length) for length in logits.shape),
        address(None if bias is None else bias.contiguous()), address(pair[0]), address(pair[1]),
    )  # fmt: skip
    if half:  # even and odd entries of each 32 are stored separately
        pair = pair.view(2, -1, 2, 16).transpose(2, 3).reshape(2, -1)
    return pair[0], pair[1]


def _parts(shares: Tensor) -> Iterator[slice]:
    """Return slices of words whose logits fit in the cache."""
    words, width = shares.shape
    most = max(1, (_CACHED if shares.device.type == "cpu" else _ON_DEVICE) // width)
    return (slice(first, min(first + most, words)) for first in range(0, words, most))
