"""The inside algorithm as its equations, in logarithms, differentiated by autograd: the reference of all tests.

It takes one sentence at a time; `emissions` are the log-probabilities of its words, (n, t), log p(w_i | T).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from syntaxlm.ops.inside.types import FactoredRules, Rules

Addition = Callable[[Tensor, int], Tensor]


def _sum(values: Tensor, axis: int) -> Tensor:
    return torch.logsumexp(values, axis)


def _greatest(values: Tensor, axis: int) -> Tensor:
    return values.amax(axis)


def log_partition(rules: Rules, emissions: Tensor, weights: Tensor | None = None, add: Addition = _sum) -> Tensor:
    """Return log P(sentence): log Z = log sum_A r_A beta_A(1, n).

    weights: log-weights added to log beta, (n, n) of spans by first and last word, or (n, n, m) of spans and symbols;
        their gradient at 0 is the span marginals.
    add: how derivations are combined: log-sum-exp, or the maximum for the best derivation.
    Liu et al. 2023, section 2; Yang et al. 2021, equations 5 to 7.
    """
    length, nonterminals = len(emissions), rules.nonterminals
    if length < 2:
        raise ValueError("a sentence of one word is not in the grammar")
    beta: dict[tuple[int, int], Tensor] = {}  # (m + t,) by first and last word; -inf if impossible
    no_word = emissions.new_full((nonterminals,), -torch.inf)
    no_span = emissions.new_full((emissions.shape[1],), -torch.inf)
    for word in range(length):
        beta[word, word] = torch.cat([no_word, emissions[word]])
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
    if isinstance(rules, FactoredRules) and (rules.parent is None or add is _sum):
        product = add(rules.left[:, left_symbols].log() + left, 1) + add(rules.right[:, right_symbols].log() + right, 1)
        return product if rules.parent is None else add(rules.parent.log() + product, 1)
    binary = rules.table()[:, left_symbols, right_symbols].log() + left[:, None] + right
    return add(binary.flatten(1), 1)


def marginals(rules: Rules, emissions: Tensor) -> Tensor:
    """(n, n) the posterior probability of each span of two or more words, by first and last word."""
    weights = emissions.new_zeros(len(emissions), len(emissions)).requires_grad_()
    with torch.enable_grad():
        total = log_partition(rules.detach(), emissions.detach(), weights)
    (found,) = torch.autograd.grad(total, weights)
    return found


def viterbi(rules: Rules, emissions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log P of the best derivation, and its spans: (n, n), 1 for spans of two or more words that it contains."""
    weights = emissions.new_zeros(len(emissions), len(emissions)).requires_grad_()
    with torch.enable_grad():
        total = log_partition(rules.detach(), emissions.detach(), weights, _greatest)
    (found,) = torch.autograd.grad(total, weights)
    return total.detach(), found


def prefix_log_probs(rules: Rules, emissions: Tensor) -> Tensor:
    """(n,) log P(w_1 .. w_j followed by anything), including derivations that never end.

    Not computed in logarithms, so for short sentences only. Q = (I - L)^-1 is the left-corner closure, L_AB = sum_C
    p(A -> B C):
        pi_A(i, j) = sum_B Q_AB [sum_k sum_CD p(B -> C D) beta_C(i, k) pi_D(k + 1, j), or for i = j
                                 sum_T sum_D p(B -> T D) e_T(w_i)]
    Jelinek & Lafferty 1991; Stolcke 1995.
    """
    length, nonterminals = len(emissions), rules.nonterminals
    table = rules.table()
    corners = table.sum(-1)
    closure = torch.linalg.inv(torch.eye(nonterminals).to(corners) - corners[:, :nonterminals])
    words = emissions.exp()
    beta = {(word, word): torch.cat([words.new_zeros(nonterminals), words[word]]) for word in range(length)}
    prefix = {
        (word, word): torch.cat([closure @ corners[:, nonterminals:] @ words[word], words[word]])
        for word in range(length)
    }
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
