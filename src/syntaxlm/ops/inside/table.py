"""The inside algorithm for full rule tables: N-PCFG, and C-PCFG with one table per sentence. For small m.

Probabilities are scaled as in `fast`, in torch operations differentiated by autograd, with constant scales. The inside
vector of a span is the product of the table with the outer products of its children, summed over splits; sentences of
one length are processed together.

Shapes: m nonterminals, t preterminals, S sentences of n words, k splits.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from syntaxlm.ops.inside.types import Layout, TableRules


def log_partition(
    rules: TableRules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None
) -> Tensor:
    """Return log P(sentence) of each sentence: (B,). Arguments: see `inside.log_partition`; autocast is ignored.

    emissions: for rules per sentence, one row for each word of the batch.
    Kim et al. 2019, section 2; Baker 1979.
    """
    result = emissions.new_empty(len(layout))
    indices, values = [], []
    for group in _groups(rules, words, layout):
        chart = _Chart(group.rules, emissions[group.words], None if weights is None else weights[group.sentences])
        indices.append(group.sentences)
        values.append(chart.log_probs)
    return result.index_copy(0, torch.cat(indices).to(result.device), torch.cat(values))


def posteriors(
    rules: TableRules,
    emissions: Tensor,
    words: Tensor,
    layout: Layout,
    weights: Tensor | None = None,
    labelled: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return log_probs, marginals and labels, as in `inside.posteriors`."""
    longest, nonterminals = layout.longest, rules.nonterminals
    log_probs = emissions.new_empty(len(layout))
    marginals = emissions.new_zeros(len(layout), longest, longest)
    labels = torch.full((len(layout), longest, longest), -1, device=emissions.device) if labelled else None
    for group in _groups(rules, words, layout):
        with torch.enable_grad():
            own = None if weights is None else weights[group.sentences]
            chart = _Chart(group.rules.detach(), emissions[group.words].detach().requires_grad_(), own)
            spans = [chart.words, *chart.spans]
            grads = torch.autograd.grad(chart.log_probs.sum(), spans, allow_unused=True)
        log_probs[group.sentences] = chart.log_probs.detach()
        for width, (span, grad) in enumerate(zip(spans, grads, strict=True), start=1):
            assert grad is not None
            expected = (span * grad).detach()  # (S, n - width + 1, symbols)
            first = torch.arange(expected.shape[1])
            place = group.sentences[:, None], first, first + width - 1
            if labels is not None:
                labels[place] = expected.argmax(-1) + (nonterminals if width == 1 else 0)
            if width > 1:
                marginals[place] = expected.sum(-1)
    return log_probs, marginals, labels


class _Group:
    """Sentences of one length. sentences: (S,) indices in the caller's order; words: (S, n) rows of the emissions."""

    def __init__(self, rules: TableRules, sentences: Tensor, words: Tensor) -> None:
        self.sentences, self.words = sentences, words
        per_sentence = rules.root.ndim == 2
        self.rules = TableRules(rules.root[sentences], rules.binary[sentences]) if per_sentence else rules


def _groups(rules: TableRules, words: Tensor, layout: Layout) -> Iterator[_Group]:
    if rules.root.ndim == 2 and len(rules.root) != len(layout):
        raise ValueError(f"found rules for {len(rules.root)} sentences; expected {len(layout)}, the batch size")
    ordered = words[layout.words_order]
    for length in layout.lengths.unique().tolist():
        chosen = (layout.lengths == length).nonzero()[:, 0]
        places = layout.begins[chosen][:, None] + torch.arange(length)
        yield _Group(rules, layout.order[chosen], ordered[places.to(words.device)])


class _Chart:
    """One group's charts. words: (S, n, t) scaled emissions; spans: for each width from 2, (S, n - width + 1, m)."""

    def __init__(self, rules: TableRules, emissions: Tensor, weights: Tensor | None) -> None:
        count, length, _ = emissions.shape
        nonterminals = rules.nonterminals
        tops = emissions.detach().amax(-1, keepdim=True)
        self.words = torch.exp(emissions - tops)
        self.spans: list[Tensor] = []
        values, scales = [self.words], [tops[..., 0]]
        single, longer = slice(nonterminals, None), slice(nonterminals)
        for width in range(2, length + 1):
            rows = length - width + 1
            lefts = [scales[k - 1][:, :rows] for k in range(1, width)]
            rights = [scales[width - k - 1][:, k : k + rows] for k in range(1, width)]
            logs = torch.stack(lefts, -1) + torch.stack(rights, -1)  # (S, rows, k)
            top = logs.amax(-1)
            top = top.where(top > -torch.inf, 0)  # a span without possible splits
            factors = torch.exp(logs - top[..., None])
            value = emissions.new_zeros(count, rows, nonterminals)
            for left_symbols, right_symbols, splits in _by_child_widths(width, single, longer):
                left = torch.stack([values[k - 1][:, :rows] for k in splits], 2)
                right = torch.stack([values[width - k - 1][:, k : k + rows] for k in splits], 2)
                chosen = factors[..., [k - 1 for k in splits], None]
                pairs = torch.einsum("srkb,srkc->srbc", chosen * left, right).flatten(2)
                table = rules.binary[..., left_symbols, right_symbols].flatten(-2).mT
                value = value + pairs @ table
            greatest = value.detach().amax(-1)
            scale = top + greatest.log()
            if weights is not None:
                first = torch.arange(rows)
                scale = scale + weights[:, first, first + width - 1].to(scale)
            span = value / torch.where(greatest > 0, greatest, 1)[..., None]
            self.spans.append(span)
            values.append(span)
            scales.append(scale)
        whole = values[-1][:, 0]
        self.log_probs = (whole * rules.root).sum(-1).log() + scales[-1][:, 0]


def _by_child_widths(width: int, single: slice, longer: slice) -> Iterator[tuple[slice, slice, list[int]]]:
    """Yield symbols of the left and the right child, and the widths of the left child for which they are possible."""
    if width == 2:
        yield single, single, [1]
        return
    yield single, longer, [1]
    yield longer, single, [width - 1]
    if width > 3:
        yield longer, longer, list(range(2, width - 1))
