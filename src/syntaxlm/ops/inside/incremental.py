"""What a reader of a sentence believes about its tree after each word: exact posteriors given a prefix.

Let P_t be the distribution over derivations of sentences that begin with w_1 .. w_t. The prefix chart (see `prefix`)
has, for a factor X, beta_X(i, j), the inside probability of a complete span; pi_X(i, j), that X makes a yield that
begins with w_i .. w_j; and H_i(X), the outside probability of an X that begins at word i, whatever follows it. The
words' emissions are divided by P(w_t | w_1 .. w_{t-1}), so that every prefix has probability 1 and no scale is needed.

    P_t([i, t] is a constituent) = sum_X H_i(X) beta_X(i, t)
    P_t([i, j] is a constituent) = sum_X O_X(i, j; t) beta_X(i, j)  for j < t, with outside probabilities

        O(i, j; t) = [H_i * c(j + 1, t) + sum_{j < k < t} O(i, k; t) * b(j + 1, k)] left
                     + [sum_{k < i} O(k, j; t) * a(k, i - 1)] right

and a, b, c as in `prefix`: complete left and right children, and incomplete right children. The number of steps is
O(n), that of multiplications O(n^3 R^2 + n^4 R), where the inside algorithm needs O(n^2 R^2 + n^3 R).

Derivations that never end have a share in prefix probabilities, and so in all of this (see `prefix`).

Shapes: B sentences of n words each, R factors of the rules, t preterminals. Time steps and words are counted from 1 in
these formulas, and from 0 in tensors.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from syntaxlm.core.threads import check_wanted
from syntaxlm.ops.inside.prefix import closure_of, prefix_log_probs
from syntaxlm.ops.inside.rules import FactoredRules, Layout, Rules

_FORWARD_MODE = threading.Lock()  # torch has one level of forward-mode differentiation in a process, not in a thread
_ROUNDING = 1e-13  # of probabilities of spans
_CERTAIN = 1e-14  # distance from 0 or 1; it differs between processors
OUTSIDE_TOGETHER = 1 << 24  # outside probabilities of spans, for some prefixes at a time


class IncrementalBeliefs(NamedTuple):
    """Posteriors after each word of B sentences of n words, in float64.

    A constituent has two words or more. Expectations are over P_t, after the t-th word.

    Attributes:
        log_probs: (B, n), natural log P(w_1 .. w_t followed by anything).
        sentence_log_probs: (B,), natural log P(the sentence is exactly w_1 .. w_n).
        spans: (B, n + 1, n, n), index t - 1: P_t([i, j] is a constituent), by first and last word; column t - 1 has
            those that end at the last word read. The last one is given the ended sentence.
        open: (B, n), expected number of constituents that begin at or before word t and end after it.
        open_from: (B, n, n), index t - 1: P_t(at least one constituent begins at word i and ends after word t).
        ended: (B, n), that end at word t.
        low: (B, n), probability that the parent of word t has two or three words.
        expected_tags: (B, n, t), P(there is a word t and it has this preterminal | w_1 .. w_{t-1}).
        tags: (B, n, t), P_t(word t has this preterminal).
    """

    log_probs: Tensor
    sentence_log_probs: Tensor
    spans: Tensor
    open: Tensor
    open_from: Tensor
    ended: Tensor
    low: Tensor
    expected_tags: Tensor
    tags: Tensor

    @property
    def depth(self) -> Tensor:
        """Expected number of constituents that contain word t: (B, n)."""
        return self.open + self.ended

    def lexical_and_structural(self, emissions: Tensor) -> tuple[Tensor, Tensor]:
        """Return two parts of the surprisal of each word, in bits, both at least 0: (B, n) twice.

        With q the posterior and p the expectation of its preterminal T, the surprisal of a word w is the mean over q of
        -log p(w | T), plus the Kullback-Leibler divergence of q from p.

        Args:
            emissions: (B, n, t), natural log p(w_t | T).
        """
        lexical = -torch.where(self.tags > 0, self.tags * emissions, 0).sum(-1)
        ratios = torch.where(self.tags > 0, self.tags / self.expected_tags, 1)
        structural = (self.tags * ratios.log()).sum(-1)
        return lexical / math.log(2), structural / math.log(2)


def belief_updates(spans: Tensor, order: float = 1.0) -> Tensor:
    """Return the syntactic belief update of each word and of the end of the sentence, in bits: (..., n + 1).

    It is the sum of the divergences of the beliefs after the word from those before it, about spans of earlier words.

    Args:
        spans: (..., n + 1, n, n), as in `IncrementalBeliefs`.
        order: of the Renyi divergence; 1 is Kullback and Leibler's.
    """
    last_words = torch.arange(spans.shape[-1], device=spans.device)
    before = torch.zeros_like(spans[..., 0, :, :])
    updates = []
    for word, after in enumerate(spans.unbind(-3)):  # one at a time, or intermediate values would take most memory
        if order == 1:  # what was certain but for rounding cannot become infinitely surprising
            after = after.clamp(_ROUNDING, 1 - _ROUNDING)
        else:  # what is certain but for rounding is certain: a power of a rounding error may be large
            after = after.masked_fill(after < _CERTAIN, 0).masked_fill(after > 1 - _CERTAIN, 1)
        divergences = bernoulli_divergence(after, before, order)
        updates.append(torch.where(last_words < word, divergences, 0).sum((-2, -1)))
        before = after
    return torch.stack(updates, -1) / math.log(2)


def bernoulli_divergence(first: Tensor, second: Tensor, order: float = 1.0) -> Tensor:
    """Return the Renyi divergence of one Bernoulli distribution from another, in nats, elementwise.

    Args:
        first: probabilities, of any shape.
        second: probabilities, of the same shape.
        order: positive; 1 is Kullback and Leibler's divergence.
    """
    pairs = [(first, second), (1 - first, 1 - second)]
    if order == 1:
        terms = [torch.special.xlogy(p, p) - torch.special.xlogy(p, q) for p, q in pairs]
        return (terms[0] + terms[1]).clamp(min=0)
    powers = [torch.where(p > 0, p.clamp(min=0) ** order * q.clamp(min=0) ** (1 - order), 0) for p, q in pairs]
    return ((powers[0] + powers[1]).log() / (order - 1)).clamp(min=0)


@torch.no_grad()
def incremental_beliefs(rules: Rules, emissions: Tensor, words: Tensor, with_spans: bool = True) -> IncrementalBeliefs:
    """Return what follows about the tree of each sentence after each of its words.

    Args:
        rules: of one grammar. Full tables become factors, one for each parent and left child: for small grammars.
        emissions: (u, t), natural log p(w | T) of distinct words.
        words: (B, n), the row of each word of the sentences; n at least 2.
        with_spans: whether to compute probabilities of spans, which take most of the time; otherwise they are NaN.
    """
    batch, length = words.shape
    emissions = emissions.double()
    layout = Layout([length] * batch, words.device)
    prefixes = prefix_log_probs(rules, emissions, words.flatten(), layout)
    ratios = torch.diff(prefixes.prefixes, dim=1, prepend=prefixes.prefixes.new_zeros(batch, 1))
    chart = _Chart(factored(rules).double().over_factors(), (emissions[words] - ratios[..., None]).exp())
    chart.reach()

    # Constituents that end at the last word read, and those that are still open.
    ended = torch.einsum("bir,bijr->bij", chart.reached[:, :length], chart.inside)
    nodes = torch.einsum("bir,bijr->bj", chart.reached[:, :length], chart.begun)
    if with_spans:
        spans = ended.new_empty(batch, length + 1, length, length)
        chart.closed_spans(spans)
        spans[:, length] = chart.sentence_spans()
        after = torch.arange(length, device=words.device)
        spans[:, after, :, after] = ended.permute(2, 0, 1)
        spans.clamp_(0, 1)  # sums of rounded probabilities
    else:
        spans = ended.new_full((), torch.nan).expand(batch, length + 1, length, length)

    expected_tags = chart.expected_tags()
    return IncrementalBeliefs(
        prefixes.prefixes,
        prefixes.sentences[:, -1],
        spans,
        nodes - ended.sum(1),
        chart.open_from().clamp(0, 1),
        ended.sum(1),
        chart.low(),
        expected_tags,
        expected_tags * chart.words,
    )


class DerivationEntropies(NamedTuple):
    """Entropies of whole derivations of B sentences of n words, in nats; infinite if derivations need not end.

    Attributes:
        prefixes: (B, n), given w_1 .. w_t; of everything that is not read yet, too.
        sentences: (B,), given the ended sentence.
    """

    prefixes: Tensor
    sentences: Tensor


@torch.no_grad()
def derivation_entropies(
    rules: Rules, emissions: Tensor, words: Tensor, emission_entropies: Tensor, beliefs: IncrementalBeliefs
) -> DerivationEntropies:
    """Return the entropy of the derivations of each prefix (Hale 2006), from derivatives of its probability.

    If all probabilities of rules and words are raised to the power s, the sum over derivations D of a prefix has the
    derivative sum_D p(D) log p(D) at s = 1, which is computed in forward mode. Derivations of TN-PCFG have the factors
    of its rules in place of nonterminals, which are summed out.

    Args:
        rules: see `incremental_beliefs`, as are `emissions` and `words`.
        emission_entropies: (t,), entropy of the words of each preterminal, in nats.
        beliefs: of the same sentences, which have the probabilities of prefixes.
    """
    emissions = emissions.double()
    ratios = torch.diff(beliefs.log_probs, dim=1, prepend=beliefs.log_probs.new_zeros(len(words), 1))
    root, left, right = factored(rules).double().over_factors()
    count = len(root)

    # The entropy of what a factor makes: of its own rule, and of its children. It is finite if the mean number of
    # children that are factors falls from generation to generation.
    own = -(torch.special.xlogy(left, left) + torch.special.xlogy(right, right)).sum(1)
    children = left + right
    generation = children[:, :count]
    ends = float(torch.linalg.eigvals(generation).abs().max()) < 1
    own = own + children[:, count:] @ emission_entropies.double()
    free = torch.linalg.solve(torch.eye(count).to(generation) - generation, own) if ends else torch.zeros_like(own)

    with _FORWARD_MODE, forward_ad.dual_level():

        def powers(probabilities: Tensor) -> Tensor:
            return forward_ad.make_dual(probabilities, torch.special.xlogy(probabilities, probabilities))

        scaled = (emissions[words] - ratios[..., None]).exp()
        word_powers = forward_ad.make_dual(scaled, torch.where(scaled > 0, scaled * emissions[words], 0))
        entropies = torch.cat([free, emission_entropies.double()])
        mean_logs_of_rights = torch.special.xlogy(right, right).sum(1) - right @ entropies
        free_rights = forward_ad.make_dual(torch.ones_like(root), mean_logs_of_rights)
        chart = _Chart((powers(root), powers(left), powers(right)), word_powers, free_rights)
        begun, complete = chart.begun[:, 0] @ chart.root, chart.inside[:, 0, -1] @ chart.root
        mean_logs = forward_ad.unpack_dual(begun).tangent
        whole, whole_logs = forward_ad.unpack_dual(complete)
    of_prefixes = beliefs.log_probs - mean_logs
    of_sentences = beliefs.sentence_log_probs - whole_logs / whole
    return DerivationEntropies(of_prefixes if ends else torch.full_like(of_prefixes, torch.inf), of_sentences)


class _Chart:
    """The charts of B sentences of n words, whose prefixes have probability 1.

    Attributes:
        words: (B, n, t), probabilities of the words given each preterminal, divided by P(w_t | w_1 .. w_{t-1}).
        inside: (B, n, n, R), beta; 0 for single words.
        lefts: (B, n, n, R), a: the probability of a complete left child.
        rights: (B, n, n, R), b: of a complete right child.
        begun: (B, n, n, R), pi.
        begun_rights: (B, n, n, R), c: of an incomplete right child.
        opened: (B, n + 1, R), C_j: the outside probability of a right child that begins at word j.
        reached: (B, n + 1, R), H_j.
    """

    def __init__(
        self, over_factors: tuple[Tensor, Tensor, Tensor], words: Tensor, free_rights: Tensor | None = None
    ) -> None:
        self.root, left, right = over_factors
        self.words = words
        count = len(self.root)
        self.left, self.left_words = left[:, :count], left[:, count:]
        self.right, self.right_words = right[:, :count], right[:, count:]
        # What stands right of the last word read is free: its probabilities sum to 1.
        self.free_rights = torch.ones_like(self.root) if free_rights is None else free_rights
        self.closure = closure_of(self.left * self.free_rights[:, None])
        self._complete()
        self._begin()

    def _complete(self) -> None:
        """Fill the inside chart, by width."""
        batch, length, _ = self.words.shape
        self.inside, self.lefts, self.rights = (
            self.words.new_zeros(batch, length, length, len(self.root)) for _ in range(3)
        )
        every = torch.arange(length, device=self.words.device)
        self.lefts[:, every, every] = self.words @ self.left_words.T
        self.rights[:, every, every] = self.words @ self.right_words.T
        for width in range(2, length + 1):
            first = every[: length - width + 1]
            last = first + width - 1
            split = first[:, None] + every[: width - 1]  # the last word of the left child
            lefts = self.lefts[:, first[:, None], split]
            rights = self.rights[:, split + 1, last[:, None]]
            values = torch.einsum("bikr,bikr->bir", lefts, rights)
            self.inside[:, first, last] = values
            self.lefts[:, first, last] = values @ self.left.T
            self.rights[:, first, last] = values @ self.right.T

    def _begin(self) -> None:
        """Fill the chart of incomplete spans, by first word, for all last words at once."""
        length = self.words.shape[1]
        self.begun, self.begun_rights = torch.zeros_like(self.inside), torch.zeros_like(self.inside)
        for first in reversed(range(length)):
            values = torch.einsum("bkr,bktr->btr", self.lefts[:, first, first:-1], self.begun_rights[:, first + 1 :])
            values[:, first] += self.lefts[:, first, first] * self.free_rights
            self.begun[:, first] = values @ self.closure.T
            self.begun_rights[:, first] = self.begun[:, first] @ self.right.T
            self.begun_rights[:, first, first] += self.words[:, first] @ self.right_words.T

    def reach(self) -> None:
        """Compute outside probabilities of what begins at each word, and at the word after the last."""
        batch, length, _ = self.words.shape
        opened = [self.words.new_zeros(batch, len(self.root))]
        reached = [(self.root @ self.closure).expand(batch, -1)]
        for word in range(length):
            before = torch.stack(reached, 1)
            opened.append(torch.einsum("bir,bir->br", before, self.lefts[:, : word + 1, word]))
            reached.append(opened[-1] @ self.right @ self.closure)
        self.opened, self.reached = torch.stack(opened, 1), torch.stack(reached, 1)

    def expected_tags(self) -> Tensor:
        """Return P(the next word has this preterminal | the words before it), of every word: (B, n, t)."""
        tags = self.reached @ self.left_words + self.opened @ self.right_words
        return tags[:, :-1]

    def open_from(self) -> Tensor:
        """Return the probability that a constituent begins at a word and ends after the last one read: (B, n, n).

        The largest constituent that begins at a word is a right child, or the whole sentence.
        """
        length = self.words.shape[1]
        values = torch.einsum("bir,bijr->bji", self.opened[:, :length], self.begun_rights - self.rights)
        values[:, :, 0] = (self.begun[:, 0] - self.inside[:, 0]) @ self.root
        return values

    def low(self) -> Tensor:
        """Return the probability that the parent of a word has two or three words: (B, n)."""
        # The mass of right children of one word, and of two words, that are still to come.
        two_words = self.left_words.sum(1) * self.right_words.sum(1)
        to_come = self.right_words.sum(1) + self.right @ two_words

        length = self.words.shape[1]
        every = torch.arange(length, device=self.words.device)
        as_left, as_right = self.lefts[:, every, every], self.rights[:, every, every]
        reached = self.reached[:, :length]
        values = (reached * as_left) @ to_come
        values[:, 1:] += (reached[:, :-1] * as_left[:, :-1] * as_right[:, 1:]).sum(-1)
        pairs = self.lefts[:, every[:-2], every[1:-1]]
        values[:, 2:] += (reached[:, :-2] * pairs * as_right[:, 2:]).sum(-1)
        return values

    def sentence_spans(self) -> Tensor:
        """Return the probabilities of spans given the ended sentence: (B, n, n)."""
        whole = self.inside[:, 0, -1] @ self.root
        return self._spans(None, self.root / whole[:, None])[:, 0]

    def closed_spans(self, spans: Tensor) -> None:
        """Store the probabilities of spans that end before the last word read, for each prefix, in (B, n + 1, n, n)."""
        batch, length, _, size = self.inside.shape
        together = max(1, OUTSIDE_TOGETHER // (batch * length**2 * size))
        every = torch.arange(length, device=self.words.device)
        for last_read in every.split(together):
            spans[:, last_read] = self._spans(last_read, None)

    def _spans(self, last_read: Tensor | None, whole: Tensor | None) -> Tensor:
        """Return the probabilities of spans, (B, k, n, n), from outside probabilities.

        Args:
            last_read: (k,), the last words of prefixes; spans that end earlier are wanted. None: k = 1, the ended
                sentence.
            whole: (B, R), the outside probability of the ended sentence; None for prefixes.
        """
        batch, length, _, size = self.inside.shape
        prefixes = 1 if last_read is None else len(last_read)
        earliest = 0 if last_read is None else int(last_read[0])
        outside = self.lefts.new_zeros(batch, prefixes, length, length, size)  # factors last: products are fastest
        if last_read is not None:  # what follows a complete left child, on the way to what is still incomplete
            is_closed = torch.arange(1, length, device=last_read.device) <= last_read[:, None]
            begun = torch.where(is_closed[..., None], self.begun_rights[:, 1:, last_read].transpose(1, 2), 0)
        for first in range(length - 1):
            check_wanted()
            # As a right child: of all parents that begin earlier and end at the same word.
            # A span that ends after the last word of a prefix is not in it.
            second = first + 1
            start = 0 if last_read is None else min(prefixes, max(0, second + 1 - earliest))
            as_right = outside.new_zeros(batch, prefixes - start, length - second, size)
            for earlier in range(first):
                as_right.addcmul_(self.lefts[:, None, None, earlier, first - 1], outside[:, start:, earlier, second:])
            own = as_right @ self.right
            if last_read is not None:
                own[:, :, :-1] += (self.reached[:, first, None, None] * begun[:, start:, second:]) @ self.left
            elif first == 0 and whole is not None:
                own[:, 0, -1] = whole

            # As a left child: of all parents that begin at the same word and end later; the latest come first.
            outside[:, start:, first, -1] = own[:, :, -1]
            for last in range(length - 2, first, -1):
                since = 0 if last_read is None else min(prefixes, max(0, last + 1 - earliest))
                parents = outside[:, since:, first, last + 1 :]
                as_left = (parents * self.rights[:, None, last + 1, last + 1 :]).sum(2)
                outside[:, since:, first, last] = own[:, since - start :, last - second] + as_left @ self.left
        return torch.stack([(outside[:, prefix] * self.inside).sum(-1) for prefix in range(prefixes)], 1)


def factored(rules: Rules) -> FactoredRules:
    """Return rules with independent children given a factor; for a table, a factor is a parent with its left child."""
    if isinstance(rules, FactoredRules):
        return rules
    count, _, symbols = rules.binary.shape
    lefts = rules.binary.sum(-1)  # (m, m + t)
    parent = torch.block_diag(*lefts)
    left = torch.eye(symbols).to(lefts).repeat(count, 1)
    right = torch.where(lefts[..., None] > 0, rules.binary / lefts[..., None], 1 / symbols).flatten(0, 1)
    return FactoredRules(rules.root, left, right, parent)
