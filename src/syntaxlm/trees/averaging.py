"""The trees that several parsers agree on most.

The average of k trees of a sentence is the binary tree that shares the most spans with them in expectation (minimum
Bayes risk; Goodman 1996, "Parsing algorithms and metrics", on labelled recall). For parsers that give the probability
of every span, these probabilities replace the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syntaxlm.core.arrays import Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.reports.tables import PERCENT, ReportTable
from syntaxlm.trees.bounds import left, right
from syntaxlm.trees.charts import (
    Chart,
    TieBreaking,
    best_trees_of_charts,
    chart_of_spans,
    equal_lengths,
    k_best,
    seeds_of,
    spans_in,
)
from syntaxlm.trees.decoding import Scores, SpanTable
from syntaxlm.trees.f1 import Protocol, score
from syntaxlm.trees.marks import Marks
from syntaxlm.trees.spans import SpanSets, span_keys, spans_of_keys

# Agreement of several parsers on the same sentences, in unlabelled F1. No gold trees are needed.


@dataclass(frozen=True, eq=False)
class AgreementMatrix:
    """Pairwise F1 of k predictions.

    Attributes:
        values: (k, k), 0 to 1, 1 on the diagonal.
        sentences: number of scored sentences.
    """

    values: Numbers
    protocol: Protocol
    sentences: int

    @property
    def with_others(self) -> Numbers:
        """(k,) the mean agreement of each prediction with the others; an outlier has the lowest."""
        means: Numbers = (self.values.sum(1) - 1) / (len(self.values) - 1)
        return means

    def to_dict(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol.name,
            "protocol_fields": asdict(self.protocol),
            "sentences": self.sentences,
            "agreement": self.values.tolist(),
            "with_others": self.with_others.tolist(),
        }

    def table(self, names: Sequence[str], columns: Mapping[str, Iterable[float]]) -> ReportTable:
        """Return a table for reading with one row per prediction.

        Args:
            names: the names of the predictions.
            columns: additional values per prediction, by heading.
        """
        numbers = range(1, len(names) + 1)
        titles = [*(f"with {number}" for number in numbers), "others", *columns]
        figures = zip(self.values, self.with_others, *columns.values(), strict=True)
        rows = [
            [*map(float, [*pairwise_f1, *further]), f"{number} {name}"]
            for number, name, (pairwise_f1, *further) in zip(numbers, names, figures, strict=True)
        ]
        return ReportTable({**dict.fromkeys(titles, PERCENT), "trees": ""}, rows, is_named_last=True)


def agreement(predictions: Sequence[SpanSets], protocol: Protocol) -> AgreementMatrix:
    """Return pairwise F1 of predictions, averaged by the protocol.

    Raises:
        InputError: if the predictions' sentences differ in number or length, or no sentence is left to score.
    """
    check_same(predictions)
    matrix = np.eye(len(predictions))
    for first, second in combinations(range(len(predictions)), 2):
        f1 = score(predictions[first], predictions[second], protocol, details=False).f1
        matrix[first, second] = matrix[second, first] = f1
    return AgreementMatrix(matrix, protocol, int(protocol.scored(predictions[0].lengths).sum()))


class BranchingF1(NamedTuple):
    """F1 of trees with right- and left-branching trees as gold, 0 to 1.

    Attributes:
        sentences: number of scored sentences.
    """

    right: float
    left: float
    sentences: int


def branching_f1(trees: SpanSets, protocol: Protocol) -> BranchingF1:
    """Return F1 with right- and left-branching trees as gold. Raises InputError if no sentence is left to score."""
    with_right = score(trees, right(trees.lengths), protocol, details=False)
    with_left = score(trees, left(trees.lengths), protocol, details=False)
    return BranchingF1(with_right.f1, with_left.f1, with_right.sentences)


def check_same(predictions: Sequence[SpanSets | SpanTable]) -> None:
    """Raise InputError if predictions differ in the number or lengths of their sentences."""
    first = predictions[0].lengths
    for number, prediction in enumerate(predictions[1:], 2):
        if len(prediction) != len(first):
            raise InputError(
                f"prediction {number}: found {len(prediction)} trees; expected {len(first)} as in the first"
            )
        wrong = np.flatnonzero(prediction.lengths != first)
        if len(wrong):
            sizes = f"{prediction.lengths[wrong[0]]} words; expected {first[wrong[0]]} as in the first"
            raise InputError(f"prediction {number}, sentence {wrong[0] + 1}: the tree has {sizes}")


_CANDIDATES_AT_A_TIME = 1 << 20  # candidate trees of spans, which limit the memory
_WEIGHT_DECIMALS = 9  # of weights, after the leading digit of the largest


def average(
    predictions: Sequence[SpanSets | SpanTable],
    weights: Sequence[float] | None = None,
    ties: TieBreaking = "random",
    marks: Marks | None = None,
) -> SpanSets:
    """For each sentence, the binary tree that shares the most spans with the predictions.

    The order of predictions and the other sentences have no influence. Goodman 1996, "Parsing algorithms and metrics".

    Args:
        predictions: for the same sentences in the same order. Each has trees, which may be n-ary, or the probability of
            every span, 0 to 1; a span of a tree counts as probability 1. So the average of a single prediction of
            probabilities is its minimum Bayes risk tree.
        weights: one positive number per prediction; equal by default.
        ties: if several splits of a span are equally good, `random` takes each with the same probability, by a fixed
            pseudo-random choice that only depends on the spans of the sentence's trees: reproducible and unbiased.
            `first` takes the first, so words that no prediction brackets become right branching, as in
            `binary_upper_bound`.
        marks: the marks of the sentences. Their violation, 0 to 1, is subtracted from the mean probability of each
            span.

    Raises:
        InputError: if sentences differ in number or length, weights do not fit, a probability is not finite, or a
            sentence has more than `charts.MAXIMUM_WORDS` words.
    """
    charts = _expected_spans(predictions, weights, marks)

    def chart_of(chosen: Integers, length: int) -> Chart:
        return charts.minus_violations(charts(chosen, length), chosen, length, marks)

    return best_trees_of_charts(predictions[0].lengths, chart_of, ties=ties, seeds=seeds_of(charts.spans))


class RankedTree(NamedTuple):
    """One of several trees of a sentence.

    Attributes:
        spans: start and end of each span of two words or more, in pre-order.
        confidence: the mean probability of its spans without the whole sentence; 1 if there are none.
        probability: the probability of the tree given the sentence; None if unknown.
    """

    spans: list[tuple[int, int]]
    confidence: float
    probability: float | None = None

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]], probabilities: Scores) -> RankedTree:
        """Return a binary tree.

        Args:
            probabilities: (n, n), of spans by first and last word.
        """
        places = sorted(spans, key=lambda at: (at[0], -at[1]))
        inner = [float(probabilities[start, end - 1]) for start, end in places[1:]]
        return cls(places, float(np.mean(inner)) if inner else 1.0)


def best_averages(
    predictions: Sequence[SpanSets | SpanTable], count: int, marks: Marks | None = None
) -> list[list[RankedTree]]:
    """Return, for each sentence, the `count` trees that share the most spans with the predictions, the best first.

    A sentence with fewer binary trees gets all of them. Other arguments and errors: see `average`.
    """
    charts = _expected_spans(predictions, None, marks)
    lengths = predictions[0].lengths
    trees: list[list[RankedTree]] = [[] for _ in lengths]
    for length, chosen in equal_lengths(lengths, lambda length: max(1, _CANDIDATES_AT_A_TIME // (length**2 * count))):
        starts, ends = spans_in(length)
        plain = charts(chosen, length)
        scores, spans = k_best(charts.minus_violations(plain, chosen, length, marks) / charts.total, count)
        probabilities = np.zeros((len(chosen), length, length))
        probabilities[:, starts, ends - 1] = plain.T / charts.total
        for column, rank in zip(*np.nonzero(np.isfinite(scores.T)), strict=True):
            rows = length + np.flatnonzero(spans[length:, rank, column])
            places = zip(starts[rows].tolist(), ends[rows].tolist(), strict=True)
            trees[chosen[column]].append(RankedTree.of(places, probabilities[column]))
    return trees


@dataclass(frozen=True, eq=False)
class _ExpectedSpans:
    """Charts of the weights of the predictions that have each span.

    Attributes:
        spans: the distinct spans of trees.
        span_weights: the sum of the weights of the trees that have each span.
        tables: the predictions of probabilities, with their weights.
        total: the sum of the weights of all predictions.
    """

    spans: SpanSets
    span_weights: npt.NDArray[np.signedinteger[Any]]
    tables: Sequence[tuple[SpanTable, int]]
    total: int

    def __call__(self, chosen: Integers, length: int) -> Chart:
        """Return the chart of sentences of one length."""
        chart = chart_of_spans(self.spans, self.span_weights, chosen, length)
        for table, weight in self.tables:
            chart += np.rint(table.charts(chosen, length).astype(np.float64) * weight).astype(np.int64)
        return chart

    def minus_violations(self, chart: Chart, chosen: Integers, length: int, marks: Marks | None) -> Chart:
        """Return a chart minus the violations of marks, which have the weight of all predictions."""
        if marks is None:
            return chart
        return chart - np.rint(marks.violations(chosen, length) * self.total).astype(chart.dtype)


def _expected_spans(
    predictions: Sequence[SpanSets | SpanTable], weights: Sequence[float] | None, marks: Marks | None
) -> _ExpectedSpans:
    """Check the arguments of `average`, and return the weights of spans."""
    if not predictions:
        raise ValueError("an average needs at least one prediction")
    check_same(predictions)
    tables = [prediction for prediction in predictions if isinstance(prediction, SpanTable)]
    for table in tables:
        table.check_finite()
    # Weights are scaled by a power of ten and rounded to integers, so that 0.1 and 0.2 add up to exactly 0.3, and the
    # order of additions breaks no ties. Violations of marks, which may be 1/4, need the scale, too.
    integers: npt.NDArray[np.signedinteger[Any]] = np.ones(len(predictions), np.int32)
    if weights is not None or tables or marks is not None:
        floats = np.ones(len(predictions)) if weights is None else np.asarray(weights, np.float64)
        if floats.shape != (len(predictions),) or not (np.isfinite(floats) & (floats > 0)).all():
            listed = ", ".join(f"{weight:g}" for weight in floats)
            raise InputError(
                f"weights: found {listed}; expected {len(predictions)} positive numbers, one for each prediction"
            )
        leading = 10.0 ** np.floor(np.log10(floats.max()))
        integers = np.rint(floats / leading * 10.0**_WEIGHT_DECIMALS).astype(np.int64)
    # The distinct spans of two or more words of all trees, and the weight of the trees that have each.
    weighted = list(zip(predictions, integers, strict=True))
    trees = [(span_keys(spans, True)[0], weight) for spans, weight in weighted if isinstance(spans, SpanSets)]
    distinct = np.unique(np.concatenate([keys for keys, _ in trees])) if trees else np.zeros(0, np.int64)
    span_weights = np.zeros(len(distinct), integers.dtype)
    for keys, weight in trees:
        span_weights[np.searchsorted(distinct, keys)] += weight
    weighted_tables = [(table, int(weight)) for table, weight in weighted if isinstance(table, SpanTable)]
    spans = spans_of_keys(distinct, predictions[0].lengths)
    return _ExpectedSpans(spans, span_weights, weighted_tables, int(integers.sum()))
