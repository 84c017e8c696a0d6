"""Whether a grammar has collapsed: how much its symbols differ, and how many of them it uses.

    python -m laboratory.measurements.collapse MODEL TEXT [--sentences 300] [--json]

MODEL: a PCFG. Two symbols differ by the Jensen-Shannon divergence of their rules, which is 0 to 1 bit. Rules are the
binary rules of two nonterminals, or the words of two preterminals. Each divergence is exact: it is a sum over all pairs
of children, also where these are independent. If a grammar has too many pairs of symbols, the mean is over pairs drawn
at random, which are the same for all grammars of a size. Of a compound grammar, the rules at z = 0 are compared. Park
and Kim 2025.

The effective number of symbols is the exponential of the entropy of their counts. For all trees of the sentences, these
are expected counts, the derivatives of log P(sentence). TEXT: its first sentences with three words or more are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import syntaxlm
from laboratory.measurements.output import measurement_parser, show
from syntaxlm.core.iteration import batched
from syntaxlm.data.corpora import EncodedCorpus
from syntaxlm.evaluation.collapse import SENTENCES, effective_number, tree_figures
from syntaxlm.models.pcfg.grammars import Grammar, Sentences, Tables
from syntaxlm.models.pcfg.sentence_pcfg import SentencePCFG
from syntaxlm.models.sentences import SPECIALS
from syntaxlm.ops.inside import Layout, Rules, TableRules, log_partition
from syntaxlm.storage.folder import ModelBundle

PROBABILITIES_COMPARED = 1 << 30  # of all pairs of distributions
PAIRS_SEED = 1  # of the pairs that are drawn
SENTENCES_TOGETHER = 50


@dataclass(frozen=True)
class Collapse:
    """Differences of symbols, and numbers of symbols that are used.

    Attributes:
        nonterminals: number of nonterminals.
        preterminals: number of preterminals.
        rule_divergence: Jensen-Shannon divergence of the binary rules of two nonterminals, in bits, mean over pairs.
        rule_divergence_error: its standard error if pairs are drawn, 0 if all are compared.
        rule_pairs: number of pairs of nonterminals.
        rule_pairs_compared: number of pairs in the mean.
        emission_divergence: Jensen-Shannon divergence of the words of two preterminals, likewise.
        emission_divergence_error: its standard error.
        emission_pairs: number of pairs of preterminals.
        emission_pairs_compared: number of pairs in the mean.
        sentences: number of sentences.
        used_nonterminals: effective number of nonterminals in all trees of the sentences, by their probabilities.
        used_preterminals: effective number of preterminals in these trees.
        tree_labels: effective number of labels of the decoded trees.
        right_branching: F1 of the decoded trees with right-branching trees, 0 to 1, protocol wsj-test.
    """

    nonterminals: int
    preterminals: int
    rule_divergence: float
    rule_divergence_error: float
    rule_pairs: int
    rule_pairs_compared: int
    emission_divergence: float
    emission_divergence_error: float
    emission_pairs: int
    emission_pairs_compared: int
    sentences: int
    used_nonterminals: float
    used_preterminals: float
    tree_labels: float
    right_branching: float


def main() -> None:
    """Measure a grammar; see the module."""
    parser = measurement_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="number of sentences, from the first")
    options = parser.parse_args()
    bundle = syntaxlm.load(options.model)
    with open(options.text, encoding="utf-8") as lines:
        tokens = (bundle.normaliser.tokens(line) for line in lines)
        sentences = list(islice((sentence for sentence in tokens if len(sentence) > 2), options.sentences))
    if not sentences:
        parser.error(f"{options.text}: found no sentence of three words or more, which have several trees")
    show(asdict(collapse(bundle, sentences)), options.json)


def collapse(bundle: ModelBundle, sentences: Sequence[Sequence[str]]) -> Collapse:
    """Measure a grammar.

    Args:
        bundle: a PCFG with two nonterminals or more.
        sentences: tokens of sentences with three words or more.

    Raises:
        InputError: for another model.
    """
    grammar = bundle.require(SentencePCFG, "rule probabilities").grammar
    with torch.no_grad():
        rules, emissions = grammar.all_tables()
        word_probabilities = emissions.T.contiguous().double().exp()
    rule_divergence = mean_divergence(partial(binary_rules, rules.double()), grammar.nonterminal_count)
    emission_divergence = mean_divergence(word_probabilities.__getitem__, grammar.preterminal_count)

    corpus = EncodedCorpus.from_sentences([bundle.vocabulary.encode(sentence) for sentence in sentences])
    words = [[max(token - SPECIALS, 0) for token in corpus.sentence(place)] for place in range(len(corpus))]
    used_nonterminals, used_preterminals = (
        effective_number(counts.numpy()) for counts in expected_counts(grammar, words)
    )
    trees = tree_figures(bundle, corpus, len(corpus))
    assert trees is not None
    assert trees.symbols is not None
    return Collapse(
        nonterminals=grammar.nonterminal_count,
        preterminals=grammar.preterminal_count,
        rule_divergence=rule_divergence.mean,
        rule_divergence_error=rule_divergence.standard_error,
        rule_pairs=rule_divergence.pairs,
        rule_pairs_compared=rule_divergence.compared,
        emission_divergence=emission_divergence.mean,
        emission_divergence_error=emission_divergence.standard_error,
        emission_pairs=emission_divergence.pairs,
        emission_pairs_compared=emission_divergence.compared,
        sentences=len(corpus),
        used_nonterminals=used_nonterminals,
        used_preterminals=used_preterminals,
        tree_labels=trees.symbols,
        right_branching=trees.right_branching,
    )


class Divergence(NamedTuple):
    """The mean Jensen-Shannon divergence of two symbols, in bits; see `Collapse`."""

    mean: float
    standard_error: float
    pairs: int
    compared: int


def mean_divergence(distribution: Callable[[int], Tensor], count: int) -> Divergence:
    """Return the mean over pairs of symbols: H((p + q) / 2) - (H(p) + H(q)) / 2.

    Args:
        distribution: of each symbol, float64 of any shape.
        count: of symbols.

    Raises:
        ValueError: for a single symbol.
    """
    if count < 2:
        raise ValueError("found one symbol; expected two or more, whose distributions can differ")
    entropy = cache(lambda symbol: _entropy(distribution(symbol)))
    total = count * (count - 1) // 2
    pairs = drawn_pairs(count, max(2, PROBABILITIES_COMPARED // distribution(0).numel()))
    values = []
    for first, of_first in groupby(pairs.tolist(), key=lambda pair: pair[0]):
        probabilities = distribution(first)
        for _, second in of_first:
            mixture = _entropy((probabilities + distribution(second)) / 2)
            values.append(mixture - (entropy(first) + entropy(second)) / 2)
    left_out = 1 - len(values) / total
    error = float(np.std(values, ddof=1)) * (left_out / len(values)) ** 0.5 if left_out else 0.0
    return Divergence(float(np.mean(values)), error, total, len(values))


def drawn_pairs(count: int, most: int) -> npt.NDArray[np.int64]:
    """Return all pairs of symbols or, of too many, pairs drawn at random; in order, (pairs, 2).

    Args:
        count: of symbols.
        most: the largest number of pairs.
    """
    pairs = np.stack(np.triu_indices(count, 1), 1)
    if len(pairs) <= most:
        return pairs
    chosen = np.random.default_rng(PAIRS_SEED).choice(len(pairs), most, replace=False)
    return pairs[np.sort(chosen)]


def _entropy(probabilities: Tensor) -> float:
    """Return the entropy in bits."""
    return -float(torch.xlogy(probabilities, probabilities).sum()) / float(np.log(2))


def binary_rules(rules: Rules, parent: int) -> Tensor:
    """Return the probabilities of the pairs of children of one nonterminal, (m + t, m + t); see `Rules.table`."""
    if isinstance(rules, TableRules):
        return rules.binary[parent]
    if rules.parent is None:
        return torch.outer(rules.left[parent], rules.right[parent])
    return (rules.left.T * rules.parent[parent]) @ rules.right


def expected_counts(grammar: Grammar, sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return how often each nonterminal and each preterminal is expected in the trees of sentences, (m,) and (t,).

    Args:
        grammar: the grammar.
        sentences: words of the grammar, two or more in each.

    Raises:
        ValueError: if the grammar gives a sentence probability 0.
    """
    nonterminals = torch.zeros(grammar.nonterminal_count, dtype=torch.float64)
    preterminals = torch.zeros(grammar.preterminal_count, dtype=torch.float64)
    for batch in map(Sentences.of, batched(sentences, SENTENCES_TOGETHER)):
        with torch.no_grad():
            tables = grammar.tables(batch)
        counts = _counts(tables, batch)
        if counts is None:  # too small for float32
            counts = _counts(tables._replace(rules=tables.rules.double(), emissions=tables.emissions.double()), batch)
        if counts is None:
            raise ValueError("found a sentence with probability 0; expected a grammar that can derive every sentence")
        nonterminals += counts[0]
        preterminals += counts[1]
    return nonterminals, preterminals


def _counts(tables: Tables, sentences: Sentences) -> tuple[Tensor, Tensor] | None:
    """Return the expected counts, see `expected_counts`; None if a sentence has probability 0."""
    rules = tables.rules
    # Each binary rule of a parent is a sum of products with one of these probabilities, so that the derivatives by
    # their logarithms add up to the count of the parent.
    name = "binary" if isinstance(rules, TableRules) else "left" if rules.parent is None else "parent"
    probabilities = getattr(rules, name).detach().requires_grad_()
    emissions = tables.emissions.detach().requires_grad_()
    layout = Layout(sentences.lengths)
    log_probs = log_partition(replace(rules, **{name: probabilities}), emissions, tables.words, layout)
    if not bool(log_probs.isfinite().all()):
        return None
    log_probs.sum().backward()
    assert emissions.grad is not None
    counts = probabilities.detach() * probabilities.grad
    counts = counts.flatten(-2) if isinstance(rules, TableRules) else counts
    return counts.sum(-1).reshape(-1, rules.nonterminals).sum(0), emissions.grad.sum(0)


if __name__ == "__main__":
    main()
