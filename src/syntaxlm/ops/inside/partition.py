"""Probabilities of sentences under a grammar, and posterior probabilities of their spans.

Liu et al. 2023, section 3; Yang et al. 2021, equations 5 to 7; for tables Kim et al. 2019, section 2; Baker 1979.
`log_partition_reference` is the equations, in logarithms. The fast forms scale probabilities instead of storing
logarithms, so the sum over symbols is a matrix product; each span has one scale, which backward treats as a constant.
- Factored rules: one product for all spans of one width in a block of sentences of any lengths (rows are ordered by
  width, without padding, see `Layout`). A block has as many sentences as have charts that fit in the cache. A span is
  stored as a and b, its inside probabilities as a left and as a right child: the sum over splits is elementwise, in C
  or in torch, and never reads the m^2 rules. Backward is a hand-written outside pass of the same form, from the widest
  spans down; the gradient of the rules is one product.
- Tables, N-PCFG and C-PCFG, for small m: torch operations, differentiated by autograd, for sentences of one length.

Shapes: m nonterminals, t preterminals, R factors, u distinct words of the batch, N words, B sentences; for tables S
sentences of n words, k splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from syntaxlm.ops.backend import address, c_struct, call, filled, kernels, parts
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules, TableRules
from syntaxlm.ops.products import product_dtype, product_into, product_of_sums, tiles_usable

Addition = Callable[[Tensor, int], Tensor]

SYMBOL_MULTIPLE = 64  # in C, the numbers of factors and preterminals must be multiples of this
MOST_WORDS_IN_C = 4096  # of a sentence
BLOCK_PROBABILITIES = 1 << 21  # inside probabilities of the charts of a block of sentences, so that they stay in cache
# Entries of splits that are multiplied at a time in torch: as many as fit in a core's cache; on other devices, enough
# for few calls.
SPLITS_IN_CACHE = 1 << 20
SPLITS_ON_DEVICE = 1 << 26
_SMALLEST_RULE = 1e-16  # smaller rule probabilities become 0, so that no product is subnormal (with TINY in inside.c)


def log_partition_reference(
    rules: Rules, emissions: Tensor, weights: Tensor | None = None, add: Addition = torch.logsumexp
) -> Tensor:
    """Return log P(sentence), log Z = log sum_A r_A beta_A(1, n), of one sentence, differentiated by autograd.

    Args:
        emissions: (n, t) log p(w_i | T).
        weights: log-weights added to log beta, (n, n) of spans by first and last word, or (n, n, m) of spans and
            symbols; their gradient at 0 is the span marginals.
        add: how derivations are combined: log-sum-exp, or `torch.amax` for the best derivation.
    """
    length, nonterminals = len(emissions), rules.nonterminals
    if length < 2:
        raise ValueError("a sentence of one word is not in the grammar")
    beta: dict[tuple[int, int], Tensor] = {}  # (m + t,) by first and last word; -inf if impossible
    no_word = emissions.new_full((nonterminals,), -torch.inf)
    no_span = emissions.new_full((emissions.shape[1],), -torch.inf)
    for word in range(length):
        beta[word, word] = torch.cat([no_word, emissions[word]])
    # beta_A(i, j) = sum over B, C and k of p(A -> B C) beta_B(i, k) beta_C(k + 1, j)
    for width in range(2, length + 1):
        for first in range(length - width + 1):
            last = first + width - 1
            splits = [(beta[first, split], beta[split + 1, last]) for split in range(first, last)]
            nonterminal = add(torch.stack([_binary(rules, left, right, add) for left, right in splits]), 0)
            if weights is not None:
                nonterminal = nonterminal + weights[first, last]
            beta[first, last] = torch.cat([nonterminal, no_span])
    return add(rules.root.log() + beta[0, length - 1][:nonterminals], 0)


def _binary(rules: Rules, left: Tensor, right: Tensor, add: Addition) -> Tensor:
    """Return log sum_BC p(A -> B C) beta_B beta_C: (m + t,), (m + t,) -> (m,)."""
    nonterminals = rules.nonterminals
    left_symbols, right_symbols = (
        slice(nonterminals) if torch.isinf(part[-1]) else slice(nonterminals, None) for part in (left, right)
    )
    left, right = left[left_symbols], right[right_symbols]
    if isinstance(rules, FactoredRules) and (rules.parent is None or add is torch.logsumexp):
        product = add(rules.left[:, left_symbols].log() + left, 1) + add(rules.right[:, right_symbols].log() + right, 1)
        return product if rules.parent is None else add(rules.parent.log() + product, 1)
    binary = rules.table()[:, left_symbols, right_symbols].log() + left[:, None] + right
    return add(binary.flatten(1), 1)


def log_partition(
    rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None
) -> Tensor:
    """Return log Z of each sentence, (B,) natural logarithms in float64, in the order given to `layout`.

    Without weights, log Z is log P(sentence). In float32, log Z of a long sentence would be rounded too much for the
    log-probability of a tree, which is the difference of two of them.

    Factored rules: products in autocast's dtype, sums at least in float32. Tables: in the dtype of `emissions`.

    Args:
        emissions: (u, t) natural log p(word | T) of the distinct words of the batch or, if each sentence has its own
            rules, one row for every word of the batch. The gradient is the expected number of times that T emits the
            word.
        words: (N,) int64, rows of `emissions`, for the words of all sentences, concatenated.
        weights: (B, n, n) log-weights, added to log-probabilities of derivations, of spans by first and last word,
            both inclusive; they get no gradient, and those of single words are ignored. None: no weights.
    """
    if isinstance(rules, TableRules):
        result = emissions.new_empty(len(layout), dtype=torch.float64)
        groups = list(table_groups(rules, words, layout))
        sentences = torch.cat([group.sentences for group in groups]).to(result.device)
        log_probs = [group.of_root(group.chart(emissions, weights)[-1])[:, 0] for group in groups]
        return result.index_copy(0, sentences, torch.cat(log_probs))
    dtype = _charts_dtype(rules.left)
    with torch.autocast(rules.left.device.type, enabled=False):
        result = _LogPartition.apply(*rules.over_factors(), emissions, words, layout, weights, dtype)
    return result


class Posteriors(NamedTuple):
    """Posterior probabilities of the spans of a batch of sentences.

    Attributes:
        log_probs: (B,), as returned by `log_partition`.
        marginals: (B, n, n), indexed by first and last word, both inclusive; 0 for single words and where there is no
            span.
        labels: (B, n, n) int64, the most probable symbol of each span given that it is a constituent: 0 to m - 1 for
            nonterminals, m + T for single words, -1 where there is no span; None unless requested.
    """

    log_probs: Tensor
    marginals: Tensor
    labels: Tensor | None


@torch.no_grad()
def posteriors(rules: Rules, emissions: Tensor, words: Tensor, layout: Layout, labels: bool = True) -> Posteriors:
    """Return span marginals, d log Z / d log weight of the span, and perhaps the most probable symbol of every span.

    Other arguments: see `log_partition`.

    Args:
        labels: whether the most probable symbols are needed.
    """
    if isinstance(rules, TableRules):
        return _table_posteriors(rules, emissions, words, layout, labels)
    dtype = _charts_dtype(rules.left)
    with torch.autocast(rules.left.device.type, enabled=False):
        charts = InsideCharts(*rules.over_factors(), emissions, words, layout, None, dtype)
        log_probs = charts.inside()
        charts.outside(torch.ones_like(log_probs))
        marginals = charts.span_marginals()
        span_labels = layout.squares(_labels(charts, rules), -1) if labels else None
    return Posteriors(log_probs, layout.squares(marginals), span_labels)


def _labels(charts: InsideCharts, rules: FactoredRules) -> Tensor:
    """(rows,) the most probable symbol of each span, from charts with gradients of log Z."""
    size = charts.factors
    layout = charts.layout
    count = len(rules.root)
    longer = slice(layout.of_width(1).stop, layout.rows)  # spans of two words or more
    if rules.parent is None:
        symbols = charts.values[longer, :size] * charts.value_grads[longer, :size]
    else:
        # Charts are indexed by factor: the probabilities of symbols are products with the rules.
        children = torch.cat([rules.left[:, :count], rules.right[:, :count]])
        child_grads = torch.cat([part[longer, :size] for part in charts.children_grads.chunk(2, 1)], 1)
        outside = child_grads.to(children) @ children
        outside[layout.whole_rows - longer.start] += (rules.root / charts.root_sums[:, None]).to(outside)
        symbols = (charts.values[longer, :size].to(children) @ rules.parent.T) * outside
    return torch.cat([count + charts.word_symbols().argmax(1), symbols.argmax(1)])


def _charts_dtype(tensor: Tensor) -> torch.dtype:
    """Return autocast's dtype, but never float16, whose range is too small for gradients of probabilities."""
    dtype = product_dtype(tensor)
    return torch.float32 if dtype == torch.float16 else dtype


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Return log Z, (B,).

        Args:
            arguments: those of `InsideCharts`.
        """
        ctx.charts = InsideCharts(*arguments)  # its tensors are neither inputs nor outputs, except the root
        ctx.save_for_backward(arguments[0])
        result: Tensor = ctx.charts.inside()
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        charts: InsideCharts = ctx.charts
        (charts.root,) = ctx.saved_tensors  # raises an error if it was modified
        charts.outside(grads[0])
        return (*charts.gradients(), None, None, None, None)


_Chart = c_struct(
    "size",
    "lengths begins starts counts inside children scales weights inside_grads children_grads marginals",
    "half threads",
)


class InsideCharts:
    """The charts of one batch, forward and backward. One row per span, see `layout`.

    Sums over splits are computed in C (kernels/inside.c), with products in kernels/tiles.c where it can be used, or in
    torch. For C, factors and preterminals are padded to a multiple of `SYMBOL_MULTIPLE`.

    Other arguments: see `log_partition`.

    Args:
        root: (R,).
        left: rules of left children, (R, R + t).
        right: rules of right children, (R, R + t).
        dtype: the dtype of the products.
        weights: (B, n, n) log-weights of spans, see `log_partition`, or None; stored as (rows,) and added to the
            scales.

    Attributes:
        values: (rows, R) beta / exp(scale).
        children: (rows, 2R) a and b, with the same scale.
        scales: (rows,) float64, natural logarithms.
        value_grads: (rows, R), gradients of the values, from `outside` on.
        children_grads: (rows, 2R), gradients of the children, from `outside` on.
    """

    def __init__(
        self, root: Tensor, left: Tensor, right: Tensor, emissions: Tensor, words: Tensor, layout: Layout,
        weights: Tensor | None, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        device, self.factors = left.device, len(root)
        self.library = kernels("inside", dtype, left, emissions) if layout.longest <= MOST_WORDS_IN_C else None
        self.layout = layout
        self.dtype = dtype
        self.root = root
        self.words = words[layout.words_order]
        self.preterminals = preterminals = left.shape[1] - self.factors

        # Factors and preterminals are padded for C.
        multiple = 1 if self.library is None else SYMBOL_MULTIPLE
        self.size, padded = (-(-count // multiple) * multiple for count in (self.factors, preterminals))
        self.tiled = self.library is not None and dtype == torch.bfloat16 and tiles_usable(self.size, padded)

        # Emissions are probabilities divided by their largest; rules of both sides are one matrix.
        scales = emissions.amax(1).clamp(min=torch.finfo(emissions.dtype).min)  # finite for impossible words
        self.emissions = pad(torch.exp(emissions - scales[:, None]).to(dtype), (0, padded - preterminals))
        rules = torch.zeros(2, self.size, self.size + padded, dtype=dtype, device=device)
        for side, values in enumerate((left, right)):
            rules[side, : self.factors, : self.factors] = values[:, : self.factors]
            rules[side, : self.factors, self.size : self.size + preterminals] = values[:, self.factors :]
        if self.library is not None and dtype == torch.float32:
            rules.masked_fill_(rules < _SMALLEST_RULE, 0)
        rules = rules.flatten(0, 1)
        self.span_rules, self.word_rules = rules[:, : self.size].contiguous(), rules[:, self.size :].contiguous()

        # The charts, one row per span.
        self.values = torch.empty(layout.rows, self.size, dtype=dtype, device=device)
        self.children = torch.empty(layout.rows, 2 * self.size, dtype=dtype, device=device)
        self.scales = torch.empty(layout.rows, dtype=torch.float64, device=device)
        self.scales[: len(self.words)] = scales[self.words].to(torch.float64)
        self.weights = None if weights is None else layout.flat(weights.to(device, torch.float64))
        self.sum_dtype = torch.float64 if dtype == torch.float64 else torch.float32

        # The sorted sentences that are computed together: in C as many as have charts that fit in the cache.
        self.blocks = [range(len(layout.lengths))]
        if self.library is not None:
            self.blocks = layout.blocks(BLOCK_PROBABILITIES // self.size)
        tensors: dict[str, Tensor | None] = {"lengths": layout.lengths, "begins": layout.begins}
        tensors |= {"starts": layout.starts, "counts": layout.counts, "inside": self.values}
        tensors |= {"children": self.children, "scales": self.scales, "weights": self.weights}
        self.struct = filled(_Chart, tensors, size=self.size, half=dtype == torch.bfloat16)

    def inside(self) -> Tensor:
        """Return log Z, in the caller's order."""
        layout = self.layout

        # Single words as children: products of emissions and rules.
        self.values[: len(self.words)] = 0  # words have no nonterminal
        by_word = self.children.new_empty(len(self.emissions), 2 * self.size)
        product_into(self.word_rules, False, self.tiled)(self.emissions, by_word)
        torch.index_select(by_word, 0, self.words, out=self.children[: len(self.words)])

        product = product_into(self.span_rules, False, self.tiled)
        # beta(i, j) = sum over k of a(i, k) * b(k + 1, j), with a = left beta and b = right beta
        for block in self.blocks:
            for width in range(2, int(layout.lengths[block.start]) + 1):
                if self.library is None:
                    self._add_splits(width)
                else:
                    call(self.library.inside_width, self.struct, width, block.start, block.stop)
                inner, _, _ = layout.of_block(width, block)
                if inner.stop > inner.start:
                    product(self.values[inner], self.children[inner])

        # log Z = log(root . beta of the whole sentence) + its scale
        whole = layout.whole_rows
        self.whole = self.values[whole, : self.factors].to(self.root.dtype)
        self.root_sums = self.whole @ self.root
        result = torch.empty_like(self.scales[whole])
        result[layout.order.to(result.device)] = self.root_sums.log() + self.scales[whole]
        return result

    def outside(self, grads: Tensor) -> None:
        """Compute the gradients of values and children of all spans.

        Args:
            grads: (B,) of log Z, in the caller's order.
        """
        layout, device = self.layout, self.values.device
        self.whole_grads = grads[layout.order.to(device)].to(self.root.dtype) / self.root_sums
        self.value_grads = torch.empty_like(self.values)
        if self.library is None:
            self.children_grads = torch.zeros_like(self.children, dtype=self.sum_dtype)
        else:
            self.children_grads = torch.empty_like(self.children)
        self.struct.inside_grads, self.struct.children_grads = address(self.value_grads), address(self.children_grads)
        product = product_into(self.span_rules, True, self.tiled)
        root_grads = torch.zeros(len(self.whole_grads), self.size, dtype=self.root.dtype, device=device)
        torch.mul(self.whole_grads[:, None], self.root, out=root_grads[:, : self.factors])
        # da(i, k) = sum over j of dbeta(i, j) * b(k + 1, j), and likewise db; dbeta = left^T da + right^T db
        for block in self.blocks:
            for width in range(int(layout.lengths[block.start]), 0, -1):
                # Complete the gradients of children, once those of longer spans' values are known.
                if self.library is None:
                    self._gather_grads(width)
                else:
                    call(self.library.outside_width, self.struct, width, block.start, block.stop)
                if width == 1:
                    break
                inner, whole, sentences = layout.of_block(width, block)
                if inner.stop > inner.start:
                    product(self.children_grads[inner].to(self.dtype), self.value_grads[inner])
                self.value_grads[whole] = root_grads[sentences].to(self.dtype)

    def word_symbols(self) -> Tensor:
        """(N, t) posterior probabilities of the preterminals at each word of the sorted sentences."""
        grads = self.children_grads[: len(self.words)].to(self.dtype)
        return (torch.mm(grads, self.word_rules) * self.emissions[self.words])[:, : self.preterminals]

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return gradients of the root (R,), left and right rules (R, R + t), and the log-emissions (u, t)."""
        layout, grads = self.layout, self.children_grads
        root = self.whole_grads @ self.whole

        # The rules of spans of two words or more.
        longer = slice(layout.of_width(1).stop, layout.rows)
        spans = product_of_sums(grads[longer].to(self.dtype), self.values[longer], self.tiled)

        # The rules of words, and the emissions: the gradients of equal words are added up first.
        sums = torch.zeros(len(self.emissions), 2 * self.size, dtype=self.root.dtype, device=root.device)
        sums.index_add_(0, self.words, grads[: len(self.words)].to(sums.dtype))
        low = sums.to(self.dtype)
        words = product_of_sums(low, self.emissions, self.tiled)
        emissions = torch.empty(self.emissions.shape, dtype=sums.dtype, device=root.device)
        product_into(self.word_rules, True, self.tiled)(low, emissions).mul_(self.emissions)

        # Left and right rules, without padding.
        size, count = self.factors, self.preterminals
        sides = []
        for side in range(2):
            rows = slice(side * self.size, side * self.size + size)
            sides.append(torch.cat([spans[rows, :size], words[rows, :count]], 1).to(sums.dtype))
        return root, sides[0], sides[1], emissions[:, :count]

    def span_marginals(self) -> Tensor:
        """(rows,) d log Z / d log weight of each span; 0 for single words."""
        marginals = torch.zeros(self.layout.rows, dtype=self.sum_dtype, device=self.values.device)
        longer = slice(self.layout.of_width(1).stop, self.layout.rows)
        if self.library is None:
            products = self.values[longer].to(self.sum_dtype) * self.value_grads[longer].to(self.sum_dtype)
            marginals[longer] = products.sum(1)
        else:
            self.struct.marginals = address(marginals)
            call(self.library.inside_marginals, self.struct, longer.start, longer.stop)
        return marginals

    def _add_splits(self, width: int) -> None:
        """Compute values and scales of all spans of a width."""
        rows, size = self.layout.of_width(width), self.size
        left, right = self.layout.splits(width, range(1, width))
        logs = self.scales[left] + self.scales[right]
        greatest = logs.amax(1)
        factors = torch.exp(logs - greatest.clamp(min=torch.finfo(greatest.dtype).min)[:, None]).to(self.sum_dtype)
        for part in parts(len(left), self._together(width - 1)):
            a = self.children[:, :size][left[part]]
            b = self.children[:, size:][right[part]]
            sums = torch.einsum("sk,skr->sr", factors[part], (a * b).to(self.sum_dtype))
            most = sums.amax(1)
            most.masked_fill_(most < torch.finfo(most.dtype).tiny, 0)  # the inverse of others may be infinite
            span = slice(rows.start + part.start, rows.start + part.stop)
            self.values[span] = (torch.where(most > 0, 1 / most, 0)[:, None] * sums).to(self.dtype)
            self.scales[span] = greatest[part] + most.to(greatest.dtype).log()
            if self.weights is not None:
                self.scales[span] += self.weights[span]

    def _gather_grads(self, width: int) -> None:
        """Let all spans that are one word longer add to the gradients of all their parts."""
        if width == self.layout.longest:
            return
        rows = self.layout.of_width(width + 1)
        size = self.size
        grads = self.children_grads
        left, right = self.layout.splits(width + 1, range(1, width + 1))
        parent = self.scales[rows, None]
        if self.weights is not None:
            parent = parent - self.weights[rows, None]
        differences = self.scales[left] + self.scales[right] - parent
        factors = torch.where(parent.isfinite(), differences.exp(), 0).to(self.sum_dtype)
        for part in parts(len(left), self._together(width)):
            parent_grads = self.value_grads[rows][part, None].to(self.sum_dtype) * factors[part, :, None]
            for child, sibling, first in ((left, right, 0), (right, left, size)):
                sibling_side = slice(size - first, 2 * size - first)
                values = parent_grads * self.children[:, sibling_side][sibling[part]].to(self.sum_dtype)
                grads[:, first : first + size].index_add_(0, child[part].flatten(), values.flatten(0, 1))

    def _together(self, splits: int) -> int:
        """Return the number of spans whose splits are multiplied at a time."""
        return max(
            1, (SPLITS_IN_CACHE if self.values.device.type == "cpu" else SPLITS_ON_DEVICE) // (splits * self.size)
        )


class SpanValues(NamedTuple):
    """All spans of one width, of S sentences of n words.

    Attributes:
        values: (S, n - width + 1, symbols), probabilities divided by exp(scale).
        scales: (S, n - width + 1) float64.
        symbols: those that `values` has: all, nonterminals, or preterminals.
    """

    values: Tensor
    scales: Tensor
    symbols: slice


class TableGroup:
    """Sentences of one length under a full rule table.

    Args:
        rules: one table, or one for each of the S sentences.
        sentences: (S,) indices in the caller's order.
        words: (S, n) rows of the emissions.
    """

    def __init__(self, rules: TableRules, sentences: Tensor, words: Tensor) -> None:
        self.rules = rules
        self.sentences = sentences
        self.words = words
        self.nonterminals, self.preterminals = slice(rules.nonterminals), slice(rules.nonterminals, None)
        self._parts: dict[tuple[int, int, int, int], Tensor] = {}

    def chart(self, emissions: Tensor, weights: Tensor | None = None) -> list[SpanValues]:
        """Return the inside probabilities by width, from 1.

        Args:
            weights: (B, n, n), see `log_partition`.
        """
        log_probs = emissions[self.words]
        top = log_probs.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
        chart = [SpanValues(torch.exp(log_probs - top), top[..., 0].double(), self.preterminals)]
        # beta_A(i, j) = sum over B and C of p(A -> B C) (sum over k of beta_B(i, k) beta_C(k + 1, j))
        for width in range(2, self.words.shape[1] + 1):
            value, scale = rescaled(*self.split_sums(chart, chart, width))
            if weights is not None:
                first = torch.arange(value.shape[1])
                scale = scale + weights[self.sentences][:, first, first + width - 1].to(scale)
            chart.append(SpanValues(value, scale, self.nonterminals))
        return chart

    def split_sums(self, lefts: list[SpanValues], rights: list[SpanValues], width: int) -> tuple[Tensor, Tensor]:
        """Return the sums over the splits of all spans of a width, (S, rows, m), and their scales, (S, rows).

        Args:
            lefts: the spans of each width, from 1, as left children.
            rights: the same as right children.
        """
        rows = self.words.shape[1] - width + 1
        pairs = [(lefts[k - 1], rights[width - k - 1]) for k in range(1, width)]
        logs = [left.scales[:, :rows] + right.scales[:, k : k + rows] for k, (left, right) in enumerate(pairs, 1)]
        top, factors = split_factors(torch.stack(logs, -1))
        factors = factors.to(self.rules.binary.dtype)

        # Splits whose children have the same symbols are one product: single words have preterminals only.
        total = factors.new_zeros(*top.shape, self.rules.nonterminals)
        splits = enumerate(pairs, 1)
        for symbols, together in groupby(splits, lambda split: (split[1][0].symbols, split[1][1].symbols)):
            group = list(together)
            left = torch.stack([left.values[:, :rows] for _, (left, _) in group], 2)
            right = torch.stack([right.values[:, k : k + rows] for k, (_, right) in group], 2)
            group_factors = factors[..., group[0][0] - 1 : group[-1][0], None]
            products = torch.einsum("srkb,srkc->srbc", group_factors * left, right).flatten(2)
            total = total + products @ self._part(*symbols)
        return total, top

    def _part(self, left: slice, right: slice) -> Tensor:
        """Return the probabilities of pairs of these children: (pairs, m) or (S, pairs, m).

        The group keeps each part, because backward fills a whole table for every cut.
        """
        count = self.rules.binary.shape[-1]
        key = *left.indices(count)[:2], *right.indices(count)[:2]
        if key not in self._parts:
            self._parts[key] = self.rules.binary[..., left, right].flatten(-2).mT
        return self._parts[key]

    def of_root(self, spans: SpanValues) -> Tensor:
        """Return log P(S => span) of all spans of a width: (S, rows)."""
        return (spans.values * self.rules.root.unsqueeze(-2)).sum(-1).log() + spans.scales


def table_groups(rules: TableRules, words: Tensor, layout: Layout) -> Iterator[TableGroup]:
    """Yield the sentences of each length."""
    if rules.root.ndim == 2 and len(rules.root) != len(layout):
        raise ValueError(f"found rules for {len(rules.root)} sentences; expected {len(layout)}, the batch size")
    ordered = words[layout.words_order]
    for length in layout.lengths.unique().tolist():
        chosen = (layout.lengths == length).nonzero()[:, 0]
        places = layout.begins[chosen][:, None] + torch.arange(length)
        sentences = layout.order[chosen]
        yield TableGroup(rules.of(sentences), sentences, ordered[places.to(words.device)])


def split_factors(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of the splits' logarithms, or 0 if no split is possible, and all relative to it.

    Args:
        logs: (..., k).

    Returns:
        The largest, (...), and exp(logs - largest), (..., k).
    """
    top = logs.amax(-1)
    top = top.where(top > -torch.inf, 0)
    return top, torch.exp(logs - top[..., None])


def rescaled(values: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Return values (..., R) divided by their maximum, a constant, and the scales (...) plus its logarithm.

    Zeros (impossible spans) are unchanged.
    """
    most = values.detach().amax(-1)
    return values / most.where(most > 0, 1)[..., None], scales + most.log()


def _table_posteriors(
    rules: TableRules, emissions: Tensor, words: Tensor, layout: Layout, labelled: bool
) -> Posteriors:
    longest, nonterminals = layout.longest, rules.nonterminals
    log_probs = emissions.new_empty(len(layout), dtype=torch.float64)
    marginals = emissions.new_zeros(len(layout), longest, longest)
    labels = torch.full((len(layout), longest, longest), -1, device=emissions.device) if labelled else None
    for group in table_groups(rules, words, layout):
        with torch.enable_grad():
            chart = group.chart(emissions.detach().requires_grad_())
            values = [spans.values for spans in chart]
            totals = group.of_root(chart[-1])[:, 0]
            grads = torch.autograd.grad(totals.sum(), values)
        log_probs[group.sentences] = totals.detach()
        for width, (value, grad) in enumerate(zip(values, grads, strict=True), start=1):
            expected = (value * grad).detach()  # (S, n - width + 1, symbols)
            first = torch.arange(expected.shape[1])
            place = group.sentences[:, None], first, first + width - 1
            if labels is not None:
                labels[place] = expected.argmax(-1) + (nonterminals if width == 1 else 0)
            if width > 1:
                marginals[place] = expected.sum(-1)
    return Posteriors(log_probs, marginals, labels)
