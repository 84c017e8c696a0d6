"""Unlabelled F1 of constituency trees, under named protocols.

A tree is scored as its set of spans. `score` counts with a few sorted arrays over all sentences at once; what only
describes (recall by label, F1 by length, the shape of the trees) is in `statistics.py`, so that counting stays fast.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from syntaxlm.errors import InputError
from syntaxlm.trees.span_index import common, span_keys
from syntaxlm.trees.spans import Flags, Integers, SpanSets
from syntaxlm.trees.statistics import BranchingStatistics, f1_by_length, recall_by_label, shape_of

Fractions = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Protocol:
    """The choices behind an F1.  Spans of one word are always dropped, repeated spans always collapsed."""

    name: str
    average: Literal["sentence", "corpus"] = "sentence"  # mean of the sentences' F1, or F1 of the pooled counts
    whole_sentence: Literal["drop", "keep"] = "drop"  # the span of the whole sentence, every copy of it
    one_word: Literal["skip", "count as 1"] = "skip"  # sentences of one word
    max_words: int | None = None  # longer sentences are left out (words after clean-up); None: none are

    def scored(self, lengths: Integers) -> Flags:
        """(S,) which sentences count."""
        scored = lengths >= (1 if self.one_word == "count as 1" else 2)
        return scored if self.max_words is None else scored & (lengths <= self.max_words)

    def __str__(self) -> str:
        limit = "" if self.max_words is None else f", up to {self.max_words} words"
        mean = "sentence mean" if self.average == "sentence" else "corpus"
        whole = "dropped" if self.whole_sentence == "drop" else "kept"
        alone = ", one-word sentences count as 1" if self.one_word == "count as 1" else ""
        return f"{self.name} ({mean}, whole-sentence span {whole}{alone}{limit})"


# wsj-test: what compound-pcfg and later papers mean. wsj10: Klein & Manning 2002; PRPN's own WSJ10 is another, prpn up
# to 10 words.
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("wsj-test"),
        Protocol("prpn", one_word="count as 1"),
        Protocol("wsj10", average="corpus", max_words=10),
        Protocol("wsj40", max_words=40),
        Protocol("evalb", average="corpus", whole_sentence="keep"),
    )
}


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """One row for each scored sentence, (S,) each.  indices: its place among the sentences given (from 0)."""

    indices: Integers
    lengths: Integers
    matched_spans: Integers
    predicted_spans: Integers
    gold_spans: Integers
    precision: Fractions
    recall: Fractions
    f1: Fractions


@dataclass(frozen=True, eq=False)
class ParsingScores:
    """The scores of one set of trees.  precision, recall, f1: 0 to 1, averaged by the protocol."""

    protocol: Protocol
    precision: float
    recall: float
    f1: float
    sentences: int  # scored
    by_sentence: SentenceScores
    recall_by_label: dict[str, tuple[float, int]] = field(default_factory=dict)  # recall, number of gold spans
    f1_by_length: dict[str, tuple[float, int]] = field(default_factory=dict)  # F1, number of sentences
    predicted_shape: BranchingStatistics | None = None
    gold_shape: BranchingStatistics | None = None

    def to_dict(self, by_sentence: bool = False) -> dict[str, Any]:
        """All figures as JSON takes them, fractions from 0 to 1; by_sentence: with one list entry for each sentence."""
        result: dict[str, Any] = {
            "protocol": asdict(self.protocol),
            "sentences": self.sentences,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "recall_by_label": {label: list(pair) for label, pair in self.recall_by_label.items()},
            "f1_by_length": {bin_: list(pair) for bin_, pair in self.f1_by_length.items()},
        }
        for name, shape in (("predicted_shape", self.predicted_shape), ("gold_shape", self.gold_shape)):
            result[name] = shape.to_dict() if shape else None
        if by_sentence:
            rows = {name: getattr(self.by_sentence, name).tolist() for name in SentenceScores.__dataclass_fields__}
            result["by_sentence"] = rows
        return result

    def __str__(self) -> str:
        lengths = self.by_sentence.lengths
        figures = f"precision {self.precision:.1%}  recall {self.recall:.1%}".replace("%", "")
        return (
            f"unlabelled F1 {100 * self.f1:.1f}  {figures}   protocol {self.protocol}"
            f"   sentences {self.sentences} ({lengths.min()} to {lengths.max()} words)"
        )


def score(predicted: SpanSets, gold: SpanSets, protocol: Protocol, details: bool = True) -> ParsingScores:
    """Scores predicted against gold spans of the same sentences, in the same order.

    A sentence whose gold has no span that counts: of two words (or one), F1 is 1; longer, recall is 1, precision 0, and
    so F1 0, unless the prediction has none either, then all are 1.
    details: also recall by gold label (where gold has labels), F1 by length, and the shape of the trees.
    Raises InputError when the sentences differ in number or length, or none is left to score.
    """
    _check_same(predicted, gold)
    scored = protocol.scored(gold.lengths)
    indices = np.flatnonzero(scored)
    if not len(indices):
        raise InputError(f"protocol {protocol}: found no sentence to score among {len(gold)}")
    keep_whole = protocol.whole_sentence == "keep"
    predicted_keys, predicted_counts = span_keys(predicted, keep_whole)
    gold_keys, gold_counts = span_keys(gold, keep_whole)
    matched = common(predicted_keys, gold_keys, gold.lengths)
    rows = _sentence_scores(indices, gold.lengths, matched, predicted_counts, gold_counts)
    if protocol.average == "sentence":
        precision, recall, f1 = (float(values.mean()) for values in (rows.precision, rows.recall, rows.f1))
    else:
        sums = (int(values.sum()) for values in (rows.matched_spans, rows.predicted_spans, rows.gold_spans))
        precision, recall, f1 = pooled(*sums)
    if not details:
        return ParsingScores(protocol, precision, recall, f1, len(indices), rows)
    return ParsingScores(
        protocol,
        precision,
        recall,
        f1,
        len(indices),
        rows,
        recall_by_label(predicted, gold, scored, keep_whole),
        f1_by_length(rows.lengths, _f1_of(rows, protocol)),
        shape_of(predicted, scored),
        shape_of(gold, scored),
    )


def _check_same(predicted: SpanSets, gold: SpanSets) -> None:
    if len(predicted) != len(gold):
        raise InputError(f"found {len(predicted)} predicted trees, expected {len(gold)}, one for each gold sentence")
    wrong = np.flatnonzero(predicted.lengths != gold.lengths)
    if len(wrong):
        sizes = f"{predicted.lengths[wrong[0]]} words, expected {gold.lengths[wrong[0]]} as in the gold tree"
        raise InputError(f"sentence {wrong[0] + 1}: the predicted tree has {sizes}")


def _sentence_scores(
    indices: Integers, lengths: Integers, matched: Integers, predicted: Integers, gold: Integers
) -> SentenceScores:
    """The rows of the scored sentences, from counts of all."""
    lengths, matched, predicted, gold = lengths[indices], matched[indices], predicted[indices], gold[indices]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(predicted > 0, matched / predicted, 0.0)
        recall = np.where(gold > 0, matched / gold, 1.0)
        f1 = np.where(matched > 0, 2 * matched / (predicted + gold), 0.0)
    perfect = (gold == 0) & ((lengths <= 2) | (predicted == 0))
    precision[perfect] = recall[perfect] = f1[perfect] = 1.0
    return SentenceScores(indices, lengths, matched, predicted, gold, precision, recall, f1)


def pooled(matched: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of pooled counts; all 1 where there is nothing to find and nothing was found."""
    if not predicted and not gold:
        return 1.0, 1.0, 1.0
    precision = matched / predicted if predicted else 0.0
    recall = matched / gold if gold else 1.0
    return precision, recall, 2 * matched / (predicted + gold)


def _f1_of(rows: SentenceScores, protocol: Protocol) -> dict[int, float]:
    """F1, averaged by the protocol, by tens of sentence length: 0 for 1 to 10 words, 1 for 11 to 20."""
    tens = (rows.lengths - 1) // 10
    result: dict[int, float] = {}
    for ten in np.unique(tens).tolist():
        here = tens == ten
        if protocol.average == "sentence":
            result[ten] = float(rows.f1[here].mean())
        else:
            counts = (int(values[here].sum()) for values in (rows.matched_spans, rows.predicted_spans, rows.gold_spans))
            result[ten] = pooled(*counts)[2]
    return result
