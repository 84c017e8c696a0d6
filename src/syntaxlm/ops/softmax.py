"""Softmaxes of matrix products: over the vocabulary for given targets or words, and over the rules of a grammar.

`target_log_probs` has the logits in memory once, in the dtype of the product. Backward computes the logits' gradient
and the three products from it in parts. Without compiled code it is the reference, in parts, which is as fast.
`emission_log_probs` needs the whole t x V matrix of preterminals and words only for its sums. Forward keeps
exponentials and each preterminal's expected embedding, sum_w p(w | T) v_w. The gradient of the normaliser is that
expectation times the summed gradient of the columns, so backward builds no t x V matrix. The vocabulary is processed in
chunks, so that a chunk's logits, exponentials and expectation stay in cache; exponentials are relative to the chunk's
largest logit.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, pad

from syntaxlm.ops.backend import applied, call, kernels, parts, with_reference
from syntaxlm.ops.products import (
    RepeatedProduct,
    affine,
    padded_rows,
    product_dtype,
    product_into,
    product_of_sums,
    tiles_usable,
)

# Logits computed at a time. Forward is fastest if they fit in the processor's caches; in backward every part adds to
# the whole weight gradient, so few large parts are faster. Each part reads all weights: with few rows in a part, time
# would grow with the square of a large vocabulary.
FORWARD_LOGITS, FORWARD_ROWS = 1 << 21, 64
BACKWARD_LOGITS, BACKWARD_ROWS = 1 << 23, 256

_ROW_MULTIPLE = 16  # rows of products without gradients are padded to a multiple, because oneDNN keeps each shape
_PRETERMINAL_MULTIPLE = 64  # the compiled kernel of emissions needs a multiple of this many preterminals
_EMISSIONS_IN_CACHE = 1 << 20  # logits of emissions that are computed at a time on a CPU
_EMISSIONS_ON_DEVICE = 1 << 28  # the same on other devices


def target_log_probs_reference(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return `target_log_probs` as its equation, differentiated by autograd."""
    log_probs = torch.log_softmax(linear(rows, weight, bias).to(weight.dtype), dim=-1)
    return log_probs.gather(1, targets[:, None])[:, 0]


@with_reference(target_log_probs_reference)
def target_log_probs(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return natural log-probability of each row's target under softmax(rows weight^T + bias).

    Args:
        rows: (n, E).
        weight: (V, E).
        bias: (V,).
        targets: (n,) int64.

    Returns:
        (n,) in the weight's dtype.
    """
    dtype, size, targets = product_dtype(weight), len(weight), targets.long()
    # Compiled code would read out of bounds. A GPU checks targets itself.
    if targets.device.type == "cpu" and len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < size:
        raise IndexError(f"targets from {int(targets.min())} to {int(targets.max())}; expected 0 to {size - 1}")
    library = kernels("softmax", dtype, weight, bias)
    if library is not None:
        result: Tensor = applied(_TargetLogProbs, rows, weight, bias, targets, dtype, library)
        return result
    by_part = parts(max(1, len(rows)), max(BACKWARD_ROWS, BACKWARD_LOGITS // size))
    rows = rows.to(dtype)
    return torch.cat([target_log_probs_reference(rows[part], weight, bias, targets[part]) for part in by_part])


class _TargetLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, dtype: torch.dtype, library: ctypes.CDLL
    ) -> Tensor:
        low_rows, low_weight = rows.to(dtype), weight.to(dtype)
        bias, targets = bias.contiguous(), targets.contiguous()
        result, sums = torch.empty(2, len(rows)).unbind()

        # All logits are saved for backward. Without gradients, logits need not be written to one matrix, so the weight
        # is packed for oneDNN, which takes as long as the product of a few rows.
        is_packed = len(rows) > FORWARD_ROWS and not any(ctx.needs_input_grad[:3])
        saved = torch.empty(0 if is_packed else len(rows), len(weight), dtype=dtype)
        together = max(1, FORWARD_LOGITS // len(weight) // FORWARD_ROWS) * FORWARD_ROWS
        product = RepeatedProduct(low_weight, together) if is_packed else None
        for part in parts(len(rows), together):
            if product is None:
                logits = torch.mm(low_rows[part], low_weight.T, out=saved[part])
            else:
                logits = product(padded_rows(low_rows[part], _ROW_MULTIPLE))
            tensors = bias, targets[part], sums[part], result[part]
            shape = part.stop - part.start, len(weight)
            call(library.softmax_forward, logits, dtype == torch.bfloat16, *shape, *tensors, torch.get_num_threads())
        ctx.save_for_backward(low_rows, low_weight, bias, targets, saved, sums)
        ctx.row_dtype, ctx.library = rows.dtype, library
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        rows, weight, bias, targets, logits, sums = ctx.saved_tensors
        rows_grad = torch.empty_like(rows)
        half = rows.dtype == torch.bfloat16
        weight_grad = torch.zeros(weight.shape)
        bias_grad = torch.zeros(len(weight))
        for part in parts(len(rows), max(BACKWARD_ROWS, BACKWARD_LOGITS // len(weight))):
            logit_grad = torch.empty_like(logits[part])
            tensors = bias, targets[part], sums[part], grad[part], logit_grad, bias_grad
            call(ctx.library.softmax_backward, logits[part], half, *logit_grad.shape, *tensors, torch.get_num_threads())
            torch.mm(logit_grad, weight, out=rows_grad[part])
            weight_grad += logit_grad.T @ rows[part]
        return rows_grad.to(ctx.row_dtype), weight_grad, bias_grad, *(None,) * 3


def emission_log_probs_reference(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Return `emission_log_probs` as its equation, differentiated by autograd."""
    logits = hidden @ words.T
    if bias is not None:
        logits = logits + bias
    return torch.log_softmax(logits, dim=1)[:, columns].T


@with_reference(emission_log_probs_reference)
def emission_log_probs(hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Return natural log p(w | T) = log softmax_w(h_T . v_w + bias_w) of some words w.

    Args:
        hidden: (t, d) h.
        words: (V, d) v.
        bias: (V,) or None.
        columns: (u,) int64, distinct words.

    Returns:
        (u, t). Products are computed in autocast's dtype, sums at least in float32.
    """
    dtype = product_dtype(words)
    with torch.autocast(words.device.type, enabled=False):
        result: Tensor = applied(_EmissionLogProbs, hidden.to(words.dtype), words, bias, columns, dtype)
    return result


class _EmissionLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, words: Tensor, bias: Tensor | None, columns: Tensor, dtype: torch.dtype
    ) -> Tensor:
        library = kernels("emissions", dtype, hidden, words, bias)
        count = len(hidden)
        padded = count if library is None else -(-count // _PRETERMINAL_MULTIPLE) * _PRETERMINAL_MULTIPLE
        tiled = library is not None and dtype == torch.bfloat16 and tiles_usable(padded, words.shape[1])
        low_hidden = pad(hidden, (0, 0, 0, padded - count)).to(dtype).contiguous()
        low_words = words.to(dtype).contiguous()
        product = product_into(low_hidden, False, tiled)

        # Exponentials of all words, part by part: their maxima, sums and, for backward, expected embeddings.
        together = max(1, (_EMISSIONS_IN_CACHE if words.device.type == "cpu" else _EMISSIONS_ON_DEVICE) // padded)
        by_part = list(parts(len(words), together))
        needs_grad = any(ctx.needs_input_grad)
        greatest = []
        sums = []
        expected = []
        rows = len(words) if needs_grad else min(together, len(words))
        shares = torch.empty(rows, padded, dtype=dtype, device=words.device)
        for part in by_part:
            logits = product(low_words[part], shares[part] if needs_grad else shares[: part.stop - part.start])
            top, total = _exponentials(library, logits, None if bias is None else bias[part])
            greatest.append(top)
            sums.append(total)
            if needs_grad:
                expected.append(product_of_sums(logits, low_words[part], tiled))

        # The normaliser, from the parts: log sum_w exp(logit_w) = top + log(total).
        tops = torch.stack(greatest)
        top = tops.amax(0)
        factors = torch.exp(tops - top)  # (parts, t)
        total = (factors * torch.stack(sums)).sum(0)

        # The log-probabilities of the requested words.
        chosen = low_words[columns]
        result = torch.empty(len(columns), padded, dtype=words.dtype, device=words.device)
        product(chosen, result)
        result -= top + total.log()
        if bias is not None:
            result += bias[columns, None]
        if not needs_grad:
            return result[:, :count]

        expectation = torch.zeros(padded, words.shape[1], dtype=factors.dtype, device=words.device)
        for factor, part_expected in zip(factors, expected, strict=True):
            expectation.addcmul_(factor[:, None], part_expected.to(factors.dtype))
        expectation = expectation[:count] / total[:count, None]
        ctx.save_for_backward(hidden, low_hidden, chosen, shares, factors / total, expectation, columns)
        ctx.has_bias = bias is not None
        ctx.tiled = tiled
        ctx.parts = by_part
        return result[:, :count]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, low_hidden, chosen, shares, factors, expectation, columns = ctx.saved_tensors
        (count, size), dtype = hidden.shape, low_hidden.dtype
        totals = grads[0].sum(0)

        # h_T: the requested words, minus the expectation for the normaliser.
        low_grad = pad(grads[0], (0, len(low_hidden) - count)).to(dtype).contiguous()
        hidden_grad = product_of_sums(low_grad, chosen, ctx.tiled)[:count].to(hidden.dtype)
        hidden_grad -= totals[:, None] * expectation

        # v_w and the bias: the normaliser's part of all words, from their shares, then the requested words.
        extra = (32 if ctx.tiled else 1) if ctx.has_bias else 0  # columns for the gradient of the bias
        weighted = hidden.new_zeros(len(low_hidden), size + extra)
        weighted[:count, :size] = -totals[:, None] * hidden
        if ctx.has_bias:
            weighted[:count, size] = -totals
        words_grad = hidden.new_empty(len(shares), size + extra)
        for part, factor in zip(ctx.parts, factors, strict=True):
            low = (factor[:, None] * weighted).to(dtype)
            product_into(low, True, ctx.tiled)(shares[part], words_grad[part])
        bias_grad = None
        if ctx.has_bias:
            bias_grad = words_grad[:, size].index_add(0, columns, grads[0].sum(1))
            words_grad = words_grad[:, :size].contiguous()
        column_grads = hidden.new_empty(len(columns), size)
        product_into(low_hidden, True, ctx.tiled)(low_grad, column_grads)
        words_grad.index_add_(0, columns, column_grads)
        return hidden_grad, words_grad, bias_grad, None, None


def _exponentials(library: ctypes.CDLL | None, logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Replace logits, (words, t), by exp(logit + bias - maximum).

    Returns:
        The maximum and the sum of each preterminal, (t,) each.
    """
    if library is None:
        sums = torch.float64 if logits.dtype == torch.float64 else torch.float32
        wide = logits.to(sums) if bias is None else logits.to(sums) + bias[:, None]
        greatest = wide.amax(0).clamp(min=torch.finfo(sums).min)  # finite for words of probability 0
        values = torch.exp(wide - greatest)
        logits.copy_(values)
        return greatest, values.sum(0)
    half = logits.dtype == torch.bfloat16
    pair = torch.empty(2, logits.shape[1])
    bias = None if bias is None else bias.contiguous()
    call(library.exponentials, logits, half, *logits.shape, bias, pair[0], pair[1])
    if half:  # even and odd entries of each 32 are stored separately
        pair = pair.view(2, -1, 2, 16).transpose(2, 3).reshape(2, -1)
    return pair[0], pair[1]


def product_softmax(rows: Tensor, columns: Tensor) -> Tensor:
    """Return softmax over k of rows . columns_k: (n, d), (k, d) -> (n, k), in the dtype of `rows`.

    The product is computed in autocast's dtype.
    """
    dtype = product_dtype(rows)
    with torch.autocast(rows.device.type, enabled=False):
        return torch.softmax(affine(rows.to(dtype), columns.to(dtype)).to(rows.dtype), dim=1)
