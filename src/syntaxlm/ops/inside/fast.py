"""A fast inside algorithm for factored rules.

Probabilities are scaled instead of stored as logarithms, so the sum over symbols is a matrix product: one for all spans
of one width in a block of sentences of any lengths (rows are ordered by width, without padding, see `Layout`). A block
has as many sentences as have charts that fit in the cache.
A span is stored as a and b, its inside probabilities as a left and as a right child: the sum over splits is elementwise
and never reads the m^2 rules. Each span has one scale, which the backward pass treats as a constant. Backward is a
hand-written outside pass of the same form, from the widest spans down; the gradient of the rules is one product.

Shapes: m nonterminals, t preterminals, R factors, u distinct words of the batch, N words, B sentences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from syntaxlm.ops.inside.eager import EagerKernels
from syntaxlm.ops.inside.native import BLOCK, CACHED, LONGEST, SOURCE, NativeKernels
from syntaxlm.ops.inside.tiles import product_of_sums, repeated_product, tiles_usable
from syntaxlm.ops.inside.types import FactoredRules, Layout
from syntaxlm.ops.inside.work import Work
from syntaxlm.ops.native import usable
from syntaxlm.ops.products import product_dtype

_TINY_RULE = 1e-16  # smaller rule probabilities become 0, so that no product is subnormal (with TINY in inside.c)


def log_partition(
    rules: FactoredRules, emissions: Tensor, words: Tensor, layout: Layout, weights: Tensor | None = None
) -> Tensor:
    """Return log P(sentence) of each sentence: (B,), in the order given to `layout`.

    emissions: (u, t) natural log p(word | T) of the distinct words of the batch. Its gradient is the expected number of
    times that T emits the word.  words: (N,) int64, rows of `emissions`, for the words of all sentences, concatenated.
    weights: (B, n, n) log-weights by which derivations are multiplied, of spans by first and last word, both inclusive;
    they get no gradient, and those of single words are ignored. None: no weights.
    Products are computed in autocast's dtype, sums at least in float32.
    Liu et al. 2023, section 3; Yang et al. 2021, equations 5 to 7.
    """
    dtype = _product_dtype(rules.left)
    with torch.autocast(rules.left.device.type, enabled=False):
        root, left, right = _composed(rules)
        result: Tensor = _LogPartition.apply(root, left, right, emissions, words, layout, weights, dtype)
    return result


class Posteriors(NamedTuple):
    """Posterior probabilities of the spans of a batch of sentences.

    log_probs: (B,).  marginals: (B, n, n), indexed by first and last word, both inclusive; 0 for single words and where
    there is no span.  labels: (B, n, n) int64, the most probable symbol of each span given that it is a constituent:
    0 to m - 1 for nonterminals, m + T for single words, -1 where there is no span; None unless requested.
    """

    log_probs: Tensor
    marginals: Tensor
    labels: Tensor | None


@torch.no_grad()
def posteriors(
    rules: FactoredRules,
    emissions: Tensor,
    words: Tensor,
    layout: Layout,
    weights: Tensor | None = None,
    labels: bool = True,
) -> Posteriors:
    """Return span marginals, d log Z / d log weight of the span, and labels. Arguments: see `log_partition`."""
    dtype = _product_dtype(rules.left)
    with torch.autocast(rules.left.device.type, enabled=False):
        root, left, right = _composed(rules)
        charts = _Charts(root, left, right, emissions, words, layout, weights, dtype)
        log_probs = charts.inside()
        charts.outside(torch.ones_like(log_probs), marginals=True)
        assert charts.work.marginals is not None
        marginals = charts.work.marginals.clone()
        marginals[layout.of_width(1)] = 0
        found = layout.squares(_labels(charts, rules), -1) if labels else None
    return Posteriors(log_probs, layout.squares(marginals), found)


def _labels(charts: _Charts, rules: FactoredRules) -> Tensor:
    """(rows,) the most probable symbol of each span, from charts with gradients of log Z."""
    work, size, layout, count = charts.work, charts.factors, charts.layout, len(rules.root)
    assert work.inside_grads is not None
    assert work.children_grads is not None
    longer = slice(layout.of_width(1).stop, layout.rows)
    if rules.parent is None:
        symbols = work.inside[longer, :size] * work.inside_grads[longer, :size]
    else:
        # Charts are indexed by factor: the probabilities of symbols are products with the rules.
        children = torch.cat([rules.left[:, :count], rules.right[:, :count]])
        worth = torch.cat([part[longer, :size] for part in work.children_grads.chunk(2, 1)], 1).to(children)
        outside = worth @ children
        outside[layout.whole_rows - longer.start] += (rules.root / charts.root_sums[:, None]).to(outside)
        symbols = (work.inside[longer, :size].to(children) @ rules.parent.T) * outside
    return torch.cat([count + charts.word_symbols().argmax(1), symbols.argmax(1)])


def _product_dtype(tensor: Tensor) -> torch.dtype:
    """Return autocast's dtype, but float32 instead of float16, whose range is too small for gradients of
    probabilities.
    """
    dtype = product_dtype(tensor)
    return torch.float32 if dtype == torch.float16 else dtype


def _composed(rules: FactoredRules) -> tuple[Tensor, Tensor, Tensor]:
    """Return rules over factors instead of nonterminals: (R,), (R, R + t), (R, R + t)."""
    if rules.parent is None:
        return rules.root, rules.left, rules.right
    count = len(rules.root)
    left, right = (
        torch.cat([side[:, :count] @ rules.parent, side[:, count:]], 1) for side in (rules.left, rules.right)
    )
    return rules.root @ rules.parent, left, right


class _Charts:
    """The charts of one batch, forward and backward. Factors are padded for the compiled kernels."""

    def __init__(
        self,
        root: Tensor,
        left: Tensor,
        right: Tensor,
        emissions: Tensor,
        words: Tensor,
        layout: Layout,
        weights: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        self.layout, self.dtype, self.factors = layout, dtype, len(root)
        library = usable(SOURCE, dtype, left, emissions) if layout.longest <= LONGEST else None
        self.size = self.factors if library is None else -(-self.factors // BLOCK) * BLOCK
        self.root, self.words = root, words[layout.words_order]
        device = left.device
        scales = emissions.amax(1)
        self.emissions = torch.exp(emissions - scales[:, None]).to(dtype)
        preterminals = left.shape[1] - self.factors
        padded = preterminals if library is None else -(-preterminals // BLOCK) * BLOCK
        if padded > preterminals:
            self.emissions = torch.nn.functional.pad(self.emissions, (0, padded - preterminals))
        self.preterminals = preterminals
        rules = torch.zeros(2, self.size, self.size + padded, dtype=dtype, device=device)
        for side, given in enumerate((left, right)):
            rules[side, : self.factors, : self.factors] = given[:, : self.factors]
            rules[side, : self.factors, self.size : self.size + preterminals] = given[:, self.factors :]
        rules = rules.flatten(0, 1)
        if library is not None and dtype == torch.float32:
            rules.masked_fill_(rules < _TINY_RULE, 0)
        self.span_rules, self.word_rules = rules[:, : self.size].contiguous(), rules[:, self.size :].contiguous()
        rows = layout.rows
        self.work = Work(
            layout,
            inside=torch.empty(rows, self.size, dtype=dtype, device=device),
            children=torch.empty(rows, 2 * self.size, dtype=dtype, device=device),
            scales=torch.empty(rows, dtype=torch.float64, device=device),
            weights=None if weights is None else layout.flat(weights.to(device, torch.float64)),
        )
        self.library = library
        everything = range(len(layout))
        self.blocks = [everything] if library is None else layout.blocks(CACHED // self.size)
        self.tiled = library is not None and dtype == torch.bfloat16 and tiles_usable(self.size, padded)
        self.work.scales[: len(self.words)] = scales[self.words].to(torch.float64)

    def kernels(self) -> EagerKernels | NativeKernels:
        return EagerKernels(self.work) if self.library is None else NativeKernels(self.library, self.work)

    def inside(self) -> Tensor:
        """Return log Z, in the caller's order."""
        layout, work, kernels = self.layout, self.work, self.kernels()
        work.inside[: len(self.words)] = 0  # words have no nonterminal
        by_word = work.children.new_empty(len(self.emissions), 2 * self.size)
        repeated_product(self.word_rules, False, self.tiled)(self.emissions, by_word)
        torch.index_select(by_word, 0, self.words, out=work.children[: len(self.words)])
        product = repeated_product(self.span_rules, False, self.tiled)
        for block in self.blocks:
            for width in range(2, int(layout.lengths[block.start]) + 1):
                kernels.inside(width, block)
                inner, _, _ = layout.of_block(width, block)
                if inner.stop > inner.start:
                    product(work.inside[inner], work.children[inner])
        whole = layout.whole_rows
        self.whole = work.inside[whole, : self.factors].to(self.root.dtype)
        self.root_sums = self.whole @ self.root
        result = torch.empty_like(self.root_sums)
        result[layout.order.to(result.device)] = self.root_sums.log() + work.scales[whole].to(result.dtype)
        return result

    def outside(self, grads: Tensor, marginals: bool = False) -> None:
        """Compute G and H of all spans. grads: (B,) gradients of log Z, in the caller's order."""
        layout, work = self.layout, self.work
        device = work.inside.device
        eager = self.library is None
        sums = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.whole_grads = grads[layout.order.to(device)] / self.root_sums
        work.inside_grads = torch.empty_like(work.inside)
        if eager:
            work.children_grads = torch.zeros(work.children.shape, dtype=sums, device=device)
        else:
            work.children_grads = torch.empty_like(work.children)
        work.marginals = torch.zeros(layout.rows, dtype=sums, device=device) if marginals else None
        kernels = self.kernels()
        product = repeated_product(self.span_rules, True, self.tiled)
        root_grads = torch.zeros(len(layout), self.size, dtype=self.root.dtype, device=device)
        torch.mul(self.whole_grads[:, None], self.root, out=root_grads[:, : self.factors])
        for block in self.blocks:
            for width in range(int(layout.lengths[block.start]), 1, -1):
                kernels.gather(width, block)
                inner, whole, sentences = layout.of_block(width, block)
                if inner.stop > inner.start:
                    product(work.children_grads[inner].to(self.dtype), work.inside_grads[inner])
                work.inside_grads[whole] = root_grads[sentences].to(self.dtype)
                kernels.scatter(width, block)
            kernels.gather(1, block)
        if marginals:
            assert work.marginals is not None
            longer = slice(layout.of_width(1).stop, layout.rows)
            work.marginals[longer] = kernels.span_marginals(longer)

    def word_symbols(self) -> Tensor:
        """(N, t) posterior probabilities of the preterminals at each word of the sorted sentences."""
        assert self.work.children_grads is not None
        grads = self.work.children_grads[: len(self.words)].to(self.dtype)
        return (torch.mm(grads, self.word_rules) * self.emissions[self.words])[:, : self.preterminals]

    def gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return gradients of the root (R,), left and right rules (R, R + t), and the log-emissions (u, t)."""
        layout, work = self.layout, self.work
        grads = work.children_grads
        assert grads is not None
        root = self.whole_grads @ self.whole
        longer = slice(layout.of_width(1).stop, layout.rows)
        spans = product_of_sums(grads[longer].to(self.dtype), work.inside[longer], self.tiled)
        sums = torch.zeros(len(self.emissions), 2 * self.size, dtype=self.root.dtype, device=root.device)
        sums.index_add_(0, self.words, grads[: len(self.words)].to(sums.dtype))
        low = sums.to(self.dtype)
        words = product_of_sums(low, self.emissions, self.tiled)
        emissions = torch.empty(self.emissions.shape, dtype=sums.dtype, device=root.device)
        repeated_product(self.word_rules, True, self.tiled)(low, emissions).mul_(self.emissions)
        size, count = self.factors, self.preterminals
        sides = []
        for side in range(2):
            rows = slice(side * self.size, side * self.size + size)
            sides.append(torch.cat([spans[rows, :size], words[rows, :count]], 1).to(sums.dtype))
        emissions = emissions[:, :count]
        return root, sides[0], sides[1], emissions


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Return arguments: those of `_Charts`."""
        charts = _Charts(*arguments)
        result = charts.inside()
        ctx.charts = charts  # save_for_backward is not needed: none of its tensors is an input or output
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        charts: _Charts = ctx.charts
        charts.outside(grads[0])
        return (*charts.gradients(), None, None, None, None)
