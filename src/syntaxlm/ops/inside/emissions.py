"""Emission probabilities: the softmax over the vocabulary of every preterminal, once per step.

The t x V probabilities are needed whole only for their sums; the charts read the columns of the batch's words. So
forward keeps exponentials and each preterminal's expected embedding, sum_w p(w | T) v_w, and the gradient of the
normaliser is that expectation times the columns' summed gradient: backward makes no t x V matrix at all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from syntaxlm.ops.native import address, usable
from syntaxlm.ops.products import large_product, product_dtype

_SOURCE = Path(__file__).with_name("emissions.c")
_BLOCK = 64  # the compiled kernel takes rows of a multiple of this
_ROWS = 256  # of logits at a time: what a core's cache holds


def emission_log_probs_reference(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """As `emission_log_probs`, as it is written: slow, differentiated by autograd."""
    logits = hidden @ words.T
    if bias is not None:
        logits = logits + bias
    return torch.log_softmax(logits, dim=1)[:, columns].T


def emission_log_probs(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Natural log p(w | T) = log softmax_w(h_T . v_w + bias_w) of some words w.

    hidden: (t, d) h; words: (V, d) v; bias: (V,) or None; columns: (u,) int64, distinct words.  Returns (u, t).
    The product of all words is made in autocast's type, that of the columns in the type of `hidden`.
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
        size = len(words)
        padded = size if library is None else -(-size // _BLOCK) * _BLOCK
        low_words = torch.zeros(words.shape[1], padded, dtype=dtype, device=words.device)  # faster so in a product
        low_words[:, :size] = words.T
        low_hidden = hidden.to(dtype)
        every_bias = torch.full((padded,), -torch.inf, dtype=words.dtype, device=words.device)
        every_bias[:size] = 0 if bias is None else bias
        shares = torch.empty(len(hidden), padded, dtype=dtype, device=words.device)
        greatest, sums = (torch.empty(len(hidden), dtype=words.dtype, device=words.device) for _ in range(2))
        expected = torch.empty(hidden.shape, dtype=dtype, device=words.device)
        ordered_bias = every_bias
        if library is not None and dtype == torch.bfloat16:  # even and odd words of 32 apart
            ordered_bias = every_bias.view(-1, 16, 2).transpose(1, 2).contiguous()
        for part in _parts(len(hidden)):
            block = torch.mm(low_hidden[part], low_words, out=shares[part])
            if library is None:
                logits = block.to(words.dtype) + every_bias
                torch.amax(logits, 1, out=greatest[part])
                values = logits.sub_(greatest[part, None]).exp_()
                torch.sum(values, 1, out=sums[part])
                block.copy_(values)
            else:
                library.exponentials(
                    address(block), ctypes.c_int(dtype == torch.bfloat16), ctypes.c_int64(len(block)),
                    ctypes.c_int64(padded), address(ordered_bias), address(greatest[part]), address(sums[part]),
                    torch.get_num_threads(),
                )  # fmt: skip
        torch.mm(shares, low_words.T, out=expected)
        normaliser = greatest + sums.log()
        chosen = words[columns]
        result = large_product(chosen, hidden, -normaliser)
        if bias is not None:
            result += bias[columns, None]
        ctx.save_for_backward(hidden, low_hidden, chosen, shares, sums, expected, columns)
        ctx.has_bias, ctx.size = bias is not None, size
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, low_hidden, chosen, shares, sums, expected, columns = ctx.saved_tensors
        grad, dtype = grads[0], low_hidden.dtype
        totals = grad.sum(0)
        low_grad = grad.to(dtype)
        hidden_grad = (low_grad.T @ chosen.to(dtype)).to(hidden.dtype)
        hidden_grad -= (totals / sums)[:, None] * expected
        weighted = (totals / sums)[:, None] * hidden
        if ctx.has_bias:
            weighted = torch.cat([weighted, (totals / sums)[:, None]], 1)
        words_grad = (shares[:, : ctx.size].T @ weighted.to(dtype)).to(hidden.dtype).neg_()
        bias_grad = None
        if ctx.has_bias:
            bias_grad = words_grad[:, -1].index_add(0, columns, grad.sum(1))
            words_grad = words_grad[:, :-1].contiguous()
        words_grad.index_add_(0, columns, (low_grad @ low_hidden).to(hidden.dtype))
        return hidden_grad, words_grad, bias_grad, None, None


def _parts(rows: int) -> Iterator[slice]:
    return (slice(first, min(first + _ROWS, rows)) for first in range(0, rows, _ROWS))
