"""Probabilities of prefixes of sentences, from which surprisals follow, and of the next word after a prefix.

An inside algorithm in float64, because the left-corner closure is nearly singular for left-branching grammars. Jelinek
& Lafferty 1991; Stolcke 1995. The probability pi of a span that may be continued is

    a_A(i, k) = sum_X left_AX beta_X(i, k),  c_A(i, j) = sum_X right_AX pi_X(i, j)
    pi(i, j) = Q sum_k a(i, k) * c(k + 1, j),  pi(i, i) = Q a(i, i) in nonterminals, e(w_i) in preterminals

Q = (I - L)^-1, L_AB = left_AB. If the rules have a parent factor, factors replace nonterminals. Full rule tables, which
are for small grammars, have a chart of pi. For independent children it is not needed: the probability of a prefix is a
linear function of the last word's emissions, whose weights follow from complete spans by a pass from the first word to
the last: with H_1 = root Q, for j = 2, ..., n + 1,

    C_j = sum_{i < j} H_i * a(i, j - 1),  G_j = C_j right,  H_j = G_j Q

The weights of word j are H_j left + C_j right over preterminals: O(n^2 m + n m^2) for independent children, in addition
to the inside algorithm. Short sentences have one chart together, with a scale for each span; a long one is computed by
`long_chart` or, if that could leave the range of float64, as the short ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from syntaxlm.core.errors import InputError
from syntaxlm.ops.inside.long import LARGEST, long_chart
from syntaxlm.ops.inside.partition import SpanValues, TableGroup, rescaled, split_factors, table_groups
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules, TableRules

LONG = 150  # words of a sentence that is computed by `long_chart`; more than two windows
WINDOW = 32  # words after which the probability of the next one is about that after all words before it
_IMPROBABLE = 1e-30  # probabilities below it are not exact in float32
_PRODUCTS_TOGETHER = 1 << 18  # products of children that are computed at a time


def prefix_log_probs_reference(rules: Rules, emissions: Tensor) -> Tensor:
    """(n,) log P(w_1 .. w_j followed by anything) of one sentence, including derivations that never end.

        pi_A(i, j) = sum_B Q_AB [sum_k sum_CD p(B -> C D) beta_C(i, k) pi_D(k + 1, j), or for i = j
                                 sum_T sum_D p(B -> T D) e_T(w_i)],  L_AB = sum_C p(A -> B C)

    Args:
        emissions: (n, t) log p(w_i | T). Not computed in logarithms, so for short sentences only.
    """
    length, nonterminals = len(emissions), rules.nonterminals
    table = rules.table()
    corners = table.sum(-1)
    closure = closure_of(corners[:, :nonterminals])
    words = emissions.exp()
    beta = {(word, word): torch.cat([words.new_zeros(nonterminals), words[word]]) for word in range(length)}
    prefix = {
        (word, word): torch.cat([closure @ corners[:, nonterminals:] @ words[word], words[word]])
        for word in range(length)
    }
    # pi_A(i, j) = sum over B, C, D and k of Q_AB p(B -> C D) beta_C(i, k) pi_D(k + 1, j)
    for width in range(2, length + 1):
        for first in range(length - width + 1):
            last = first + width - 1
            inside = [(beta[first, split], beta[split + 1, last]) for split in range(first, last)]
            started = [(beta[first, split], prefix[split + 1, last]) for split in range(first, last)]
            spans, prefixes = (
                torch.stack([torch.einsum("abc,b,c->a", table, left, right) for left, right in pairs]).sum(0)
                for pairs in (inside, started)
            )
            no_word = words.new_zeros(words.shape[1])
            beta[first, last] = torch.cat([spans, no_word])
            prefix[first, last] = torch.cat([closure @ prefixes, no_word])
    return torch.stack([(rules.root @ prefix[0, last][:nonterminals]).log() for last in range(length)])


class PrefixLogProbs(NamedTuple):
    """Natural logarithms for B sentences of at most n words; -inf after a sentence's last word.

    Attributes:
        prefixes: (B, n) log P(w_1 .. w_j followed by anything), including derivations that never end.
        sentences: (B, n) log P(the sentence is exactly w_1 .. w_j), from j = 2; -inf for j = 1.
    """

    prefixes: Tensor
    sentences: Tensor


@torch.no_grad()
def prefix_log_probs(rules: Rules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    """Return the probabilities of all prefixes of a batch of sentences. Arguments: see `log_partition`."""
    if isinstance(rules, TableRules):
        return _prefixes_of_tables(rules.double(), emissions.double(), words, layout)
    rules, emissions, words = rules.double(), emissions.double(), words[layout.words_order]
    result = PrefixLogProbs(*emissions.new_full((2, len(layout), layout.longest), -torch.inf))
    for sentences, sentence_words, lengths in _charts_together(words, layout.lengths.tolist()):
        chart = _factor_chart(rules, emissions, sentence_words, lengths)
        places = layout.order[sentences].to(words.device)
        result.prefixes[places, : lengths[0]] = chart.prefixes(emissions, sentence_words, lengths)
        result.sentences[places, : lengths[0]] = chart.wholes
    return result


def _charts_together(words: Tensor, lengths: list[int]) -> Iterator[tuple[slice, Tensor, list[int]]]:
    """Yield sentences whose charts are computed together, of those sorted by length, longest first.

    Yields:
        Their numbers, their words, and their lengths.
    """
    first = 0
    parts = words.split(lengths)
    while first < len(lengths):
        last = first + 1 if lengths[first] >= LONG else len(lengths)
        yield slice(first, last), torch.cat(parts[first:last]), lengths[first:last]
        first = last


def _complete_chart(
    root: Tensor, left: Tensor, right: Tensor, emissions: Tensor, words: Tensor, layout: Layout | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inside algorithm over complete spans in float64, one row each as in `Layout`.

    Args:
        root: (R,).
        left: rules of left children, (R, R + t).
        right: rules of right children, (R, R + t).
        layout: None if all have one word.

    Returns:
        The inside probability of each span as a left child, divided by exp(scale), (rows, R); the scales, (rows,),
        natural logarithms; and log P(S => span), (rows,), -inf for single words.
    """
    count = len(root)
    sorted_words = words if layout is None else words[layout.words_order]
    single = len(sorted_words)
    rows = single if layout is None else layout.rows
    top, probabilities = _scaled(emissions)
    lefts, rights = (root.new_empty(rows, count) for _ in range(2))
    scales = root.new_empty(rows)
    wholes = root.new_full((rows,), -torch.inf)
    lefts[:single], rights[:single] = ((probabilities @ side[:, count:].T)[sorted_words] for side in (left, right))
    scales[:single] = top[sorted_words]
    # beta(i, j) = sum over k of a(i, k) * b(k + 1, j), with a = left beta and b = right beta
    for width in range(2, 1 if layout is None else layout.longest + 1):
        assert layout is not None
        span = layout.of_width(width)
        value, scales[span] = _split_sums(layout, width, lefts, rights, scales)
        wholes[span] = (value @ root).log() + scales[span]
        lefts[span] = value @ left[:, :count].T
        rights[span] = value @ right[:, :count].T
    return lefts, scales, wholes


def _split_sums(layout: Layout, width: int, lefts: Tensor, rights: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums over splits of all spans of one width: (spans, R) scaled to a maximum of 1, and the scales."""
    left_rows, right_rows = layout.splits(width, range(1, width))
    top, factors = split_factors(scales[left_rows] + scales[right_rows])
    sums = lefts.new_zeros(len(left_rows), lefts.shape[1])
    together = max(1, _PRODUCTS_TOGETHER // sums.numel())
    for first in range(0, width - 1, together):
        part = slice(first, first + together)
        products = lefts[left_rows[:, part]] * rights[right_rows[:, part]]
        sums += torch.einsum("sk,skr->sr", factors[:, part], products)
    return rescaled(sums, top)


def closure_of(corners: Tensor) -> Tensor:
    """(I - L)^-1, the left-corner closure: (..., m, m) each.

    Raises:
        InputError: for a grammar with a symbol that is its own left corner for ever, which makes no sentence.
    """
    try:
        inverse: Tensor = torch.linalg.inv(torch.eye(corners.shape[-1]).to(corners) - corners)
    except torch.linalg.LinAlgError:
        raise InputError(
            "the weights of the grammar are unusable: the probabilities of prefixes are not finite, because a symbol"
            " always has itself as its first child"
        ) from None
    return inverse


def _scaled(emissions: Tensor) -> tuple[Tensor, Tensor]:
    """(u,) the largest log-probability of each word, and its probabilities divided by the largest: (u, t)."""
    top = emissions.double().amax(1)
    return top, torch.exp(emissions.double() - top[:, None])


def _prefixes_of_tables(rules: TableRules, emissions: Tensor, words: Tensor, layout: Layout) -> PrefixLogProbs:
    result = PrefixLogProbs(*emissions.new_full((2, len(layout), layout.longest), -torch.inf))
    for group in table_groups(rules, words, layout):
        complete = group.chart(emissions)
        closure, word_corners = _corners(group.rules)
        opened = complete[0].values @ word_corners.mT @ closure.mT
        single = torch.cat([opened, complete[0].values], -1)
        begun = [SpanValues(single, complete[0].scales, slice(None))]
        prefixes = [SpanValues(opened, complete[0].scales, group.nonterminals)]
        # pi_A(i, j) = sum over B, C, D and k of Q_AB p(B -> C D) beta_C(i, k) pi_D(k + 1, j)
        for width in range(2, len(complete) + 1):
            sums, scale = group.split_sums(complete, begun, width)
            prefixes.append(SpanValues(*rescaled(sums @ closure.mT, scale), group.nonterminals))
            begun.append(prefixes[-1])
        for last, spans in enumerate(prefixes):
            result.prefixes[group.sentences, last] = group.of_root(spans)[:, 0]
            if last:
                result.sentences[group.sentences, last] = group.of_root(complete[last])[:, 0]
    return result


def _corners(rules: TableRules) -> tuple[Tensor, Tensor]:
    """Return Q, (m, m), and the probabilities of preterminals as left children, (m, t); by sentence if rules are."""
    corners, count = rules.binary.sum(-1), rules.nonterminals
    return closure_of(corners[..., :count]), corners[..., count:]


class NextWords(NamedTuple):
    """P(prefix w ...) = exp(scale) * sum_T weights_T p(w | T) for a next word w, for each of B prefixes.

    Attributes:
        weights: (B, t).
        scales: (B,) natural logarithms. Both float64.
    """

    weights: Tensor
    scales: Tensor

    def log_probs(self, emissions: Tensor, probabilities: Tensor) -> Tensor:
        """Return log P(prefix w ...) for each of u words w: (B, u), float64.

        The products are in the precision of the grammar. Words whose probability is near the end of its range are
        computed in float64.

        Args:
            emissions: (u, t), log p(word | T).
            probabilities: (u, t), their exponentials, in the same precision.
        """
        largest = self.weights.amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        weights, scales = self.weights / largest, largest.log() + self.scales[:, None]
        sums = (weights.to(probabilities.dtype) @ probabilities.T).double()
        result = sums.log() + scales

        improbable = (sums < _IMPROBABLE).any(0)
        if improbable.any():
            exact = emissions[improbable].double()
            top = exact.amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)  # finite for impossible words
            exact_sums = weights @ (exact - top).exp().T
            result[:, improbable] = exact_sums.log() + top.T + scales
        return result


def next_words(rules: Rules, emissions: Tensor, words: Tensor, lengths: tuple[int, ...]) -> NextWords:
    """For each prefix, the linear function of a next word's emissions that gives the probability of the longer prefix.

    Args:
        emissions: as in `log_partition`.
        words: as in `log_partition`; a prefix may have any number of words, including 0.
    """
    sentences = next_words_after_each(rules, emissions, words, lengths)
    return NextWords(
        torch.stack([sentence.weights[-1] for sentence in sentences]),
        torch.stack([sentence.scales[-1] for sentence in sentences]),
    )


@torch.no_grad()
def next_words_after_each(rules: Rules, emissions: Tensor, words: Tensor, lengths: tuple[int, ...]) -> list[NextWords]:
    """Return the same for the prefixes of 0, 1, ... n words of each sentence, from one chart."""
    rules, emissions = rules.double(), emissions.double()
    sentences = words.split(lengths)
    by_sentence: dict[int, NextWords] = {}
    for length in sorted(set(lengths)):
        index = torch.tensor([column for column, each in enumerate(lengths) if each == length])
        same_length = torch.stack([sentences[column] for column in index.tolist()])
        if isinstance(rules, FactoredRules):
            groups = _charts_together(same_length.flatten(), [length] * len(index))
            charts = [_factor_chart(rules, emissions, part_words, equal) for _, part_words, equal in groups]
            weights, scales = (torch.cat(parts) for parts in list(zip(*charts, strict=True))[:2])
        else:
            weights, scales = _next_by_tables(TableGroup(rules.of(index), index, same_length), emissions)
        for place, column in enumerate(index.tolist()):
            by_sentence[column] = NextWords(weights[place], scales[place])
    return [by_sentence[column] for column in range(len(lengths))]


class _FactorChart(NamedTuple):
    """The next words after each prefix of B sentences of at most n words, and the probabilities of whole sentences.

    Attributes:
        weights: (B, n + 1, t), see `NextWords`; undefined after the end of a sentence.
        scales: (B, n + 1).
        wholes: (B, n), as `PrefixLogProbs.sentences`.
    """

    weights: Tensor
    scales: Tensor
    wholes: Tensor

    def prefixes(self, emissions: Tensor, words: Tensor, lengths: list[int]) -> Tensor:
        """Return the log-probabilities of prefixes, those of their last words after the words before: (B, n)."""
        texts = torch.nn.utils.rnn.pad_sequence(list(words.split(lengths)), batch_first=True)
        top, probabilities = _scaled(emissions)
        values = (self.weights[:, :-1] * probabilities[texts]).sum(-1).log() + top[texts] + self.scales[:, :-1]
        is_after = torch.arange(lengths[0]) >= torch.tensor(lengths)[:, None]
        return values.masked_fill(is_after.to(words.device), -torch.inf)


def _factor_chart(rules: FactoredRules, emissions: Tensor, words: Tensor, lengths: list[int]) -> _FactorChart:
    """Return the chart of sentences.

    Args:
        words: (N,) of all sentences.
        lengths: the longest first; all of less than two words, or none.
    """
    if lengths[0] >= LONG and len(lengths) == 1:
        chart = _long_factor_chart(rules, emissions, words)
        if chart is not None:
            return chart
    root, left, right = rules.over_factors()
    count, batch, longest = len(root), len(lengths), lengths[0]
    closure = closure_of(left[:, :count])
    reached = root.new_zeros(batch, longest + 1, count)  # H, and its scales
    opened = torch.zeros_like(reached)  # C
    scales = root.new_zeros(batch, longest + 1)
    reached[:, 0] = root @ closure
    wholes = root.new_full((batch, longest), -torch.inf)
    if longest:
        layout = Layout(lengths, words.device) if longest > 1 else None
        lefts, left_scales, of_root = _complete_chart(root, left, right, emissions, words, layout)
        if layout is not None:
            wholes = layout.squares(of_root, -torch.inf)[:, 0]
    # C(j) = sum over i < j of H(i) * a(i, j - 1);  H(j) = C(j) right Q
    for end in range(1, longest + 1):
        reaching = sum(length >= end for length in lengths)  # the first sentences, which are the longest
        sentence, first = torch.arange(reaching)[:, None], torch.arange(end)[None]
        rows = sentence if layout is None else layout.row(sentence, first, end - first)
        top, factors = split_factors(scales[:reaching, :end] + left_scales[rows])
        sums = torch.einsum("bi,bim,bim->bm", factors, reached[:reaching, :end], lefts[rows])
        opened[:reaching, end], scales[:reaching, end] = rescaled(sums, top)
        reached[:reaching, end] = opened[:reaching, end] @ right[:, :count] @ closure
    return _FactorChart(reached @ left[:, count:] + opened @ right[:, count:], scales, wholes)


def _long_factor_chart(rules: FactoredRules, emissions: Tensor, words: Tensor) -> _FactorChart | None:
    """Return the chart of one long sentence; None if its probabilities are too far from what is expected."""
    # What is expected of each word: its probability after the `WINDOW` words before it, or more of them.
    starts = range(0, max(1, len(words) - WINDOW), WINDOW)
    windows = [words[start : start + 2 * WINDOW] for start in starts]
    lengths, together = list(map(len, windows)), torch.cat(windows)
    prefixes = _factor_chart(rules, emissions, together, lengths).prefixes(emissions, together, lengths)
    ratios = torch.diff(prefixes, dim=1, prepend=prefixes.new_zeros(len(windows), 1))
    new = [ratios[number, WINDOW if number else 0 : length] for number, length in enumerate(lengths)]
    expected = torch.cat(new)
    if not bool(expected.isfinite().all()):
        return None

    root, left, right = rules.over_factors()
    count = len(root)
    scaled = (emissions[words] - expected[:, None]).exp()
    chart = long_chart(root, left, right, scaled)
    if chart is None:
        return None
    opened, reached = chart.reach(root, closure_of(left[:, :count]), right[:, :count])
    weights = reached @ left[:, count:] + opened @ right[:, count:]
    relative_prefixes = (weights[:-1] * scaled).sum(1)
    if not bool(((relative_prefixes > 1 / LARGEST) & (relative_prefixes < LARGEST)).all()):
        return None
    scales = torch.cat([expected.new_zeros(1), expected.cumsum(0)])
    return _FactorChart(weights[None], scales[None], (chart.wholes[1:].log() + scales[1:])[None])


def _next_by_tables(group: TableGroup, emissions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same with a full rule table, or one per sentence."""
    rules, (batch, length) = group.rules, group.words.shape
    count, symbols = rules.nonterminals, rules.binary.shape[-1]
    closure, word_corners = _corners(rules)
    table = rules.binary.expand(batch, count, symbols, symbols)
    reached = [(rules.root.unsqueeze(-2) @ closure).expand(batch, 1, count)[:, 0]]
    scales = [reached[0].new_zeros(batch)]
    opened = [reached[0].new_zeros(batch, symbols)]  # the next symbol as a right child
    chart = group.chart(emissions) if length else []
    # C_D(j) = sum over i < j, A and B of H_A(i) beta_B(i, j - 1) p(A -> B D);  H(j) = C(j) Q
    for end in range(1, length + 1):
        spans = [chart[end - first - 1] for first in range(end)]
        top, factors = split_factors(
            torch.stack([scales[first] + spans[first].scales[:, first] for first in range(end)], -1)
        )
        pairs = table.new_zeros(batch, count, symbols)  # of the parent and its left child
        for first, span in enumerate(spans):
            weighted = factors[:, first, None] * reached[first]
            pairs[..., span.symbols] += weighted[:, :, None] * span.values[:, None, first]
        end_values, scale = rescaled(torch.einsum("bac,bacd->bd", pairs, table), top)
        opened.append(end_values)
        scales.append(scale)
        reached.append((end_values[:, None, :count] @ closure)[:, 0])
    weights = torch.stack(reached, 1) @ word_corners + torch.stack(opened, 1)[..., count:]
    return weights, torch.stack(scales, 1)
