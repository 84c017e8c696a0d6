"""How far several parsers agree on the trees of the same sentences, in unlabelled F1. No gold trees are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from syntaxlm.errors import InputError
from syntaxlm.trees.baselines import left, right
from syntaxlm.trees.scoring import Fractions, Protocol, score
from syntaxlm.trees.span_decoding import SpanScores
from syntaxlm.trees.spans import SpanSets


@dataclass(frozen=True, eq=False)
class AgreementMatrix:
    """F1 between each two of k predictions.

    values: (k, k), 0 to 1, 1 on the diagonal.  sentences: how many are scored.
    """

    values: Fractions
    protocol: Protocol
    sentences: int

    @property
    def with_others(self) -> Fractions:
        """(k,) the mean agreement of each prediction with the others: lowest for the odd one out."""
        others: Fractions = (self.values.sum(1) - 1) / (len(self.values) - 1)
        return others

    def to_dict(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol.name,
            "protocol_fields": asdict(self.protocol),
            "sentences": self.sentences,
            "agreement": self.values.tolist(),
            "with_others": self.with_others.tolist(),
        }

    def lines(self, names: Sequence[str], columns: Mapping[str, Iterable[float]], note: str = "") -> list[str]:
        """A table of percentages, one row per prediction, under a line with the protocol.

        names: of the predictions.  columns: further figures of each, by title.  note: ends the first line.
        """
        numbers = range(1, len(names) + 1)
        titles = [*(f"with {number}" for number in numbers), "others", *columns]
        lines = [
            f"agreement in unlabelled F1   protocol {self.protocol}   sentences {self.sentences}{note}",
            "",
            "".join(f"{title:>9}" for title in titles),
        ]
        rows = zip(numbers, names, self.values, self.with_others, *columns.values(), strict=True)
        for number, name, shared, *others in rows:
            figures = "".join(f"{100 * value:9.1f}" for value in (*shared, *others))
            lines.append(f"{figures}   {number} {name}")
        return lines


def agreement(predictions: Sequence[SpanSets], protocol: Protocol) -> AgreementMatrix:
    """F1 between each two predictions, averaged by the protocol.

    Raises InputError where sentences differ in number or length, or none is left to score.
    """
    check_same(predictions)
    matrix = np.eye(len(predictions))
    for first, gold in enumerate(predictions):
        for second in range(first):
            f1 = score(predictions[second], gold, protocol, details=False).f1
            matrix[first, second] = matrix[second, first] = f1
    return AgreementMatrix(matrix, protocol, int(protocol.scored(predictions[0].lengths).sum()))


class BranchingF1(NamedTuple):
    """F1 of trees against right- and left-branching ones, 0 to 1.  sentences: how many are scored."""

    right: float
    left: float
    sentences: int


def branching_f1(trees: SpanSets, protocol: Protocol) -> BranchingF1:
    """F1 against right- and left-branching trees. Raises InputError where no sentence is left to score."""
    of_right, of_left = (score(trees, side(trees.lengths), protocol, details=False) for side in (right, left))
    return BranchingF1(of_right.f1, of_left.f1, of_right.sentences)


def check_same(predictions: Sequence[SpanSets | SpanScores]) -> None:
    """Raises InputError where predictions differ in the number or the lengths of their sentences."""
    first = predictions[0].lengths
    for number, one in enumerate(predictions[1:], 2):
        if len(one) != len(first):
            raise InputError(f"prediction {number}: found {len(one)} trees, expected {len(first)} as in the first")
        wrong = np.flatnonzero(one.lengths != first)
        if len(wrong):
            sizes = f"{one.lengths[wrong[0]]} words, expected {first[wrong[0]]} as in the first"
            raise InputError(f"prediction {number}, sentence {wrong[0] + 1}: the tree has {sizes}")
