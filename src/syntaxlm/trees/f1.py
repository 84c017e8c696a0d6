"""Unlabelled F1 of constituency trees, under named protocols.

A tree is scored as its set of spans. `score` counts with a few sorted arrays over all sentences at once. Descriptive
statistics (recall by label, F1 by length, shape of the trees) are apart, so that counting stays fast.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from syntaxlm.core.arrays import Flags, Integers, Numbers
from syntaxlm.core.errors import InputError
from syntaxlm.reports.tables import PERCENT, ReportTable
from syntaxlm.trees.spans import SpanSets, common, contained, counted, key_bases, keys_of, span_keys


@dataclass(frozen=True)
class Protocol:
    """How F1 is computed. Spans of one word are always dropped, repeated spans always collapsed.

    Attributes:
        average: mean of the sentences' F1, or F1 of the pooled counts.
        whole_sentence: what happens to the span of the whole sentence, including its copies.
        one_word: what happens to sentences of one word.
        max_words: longer sentences (after preprocessing) are excluded; None: no limit.

    Examples:
        >>> print(syntaxlm.PROTOCOLS["wsj10"])
        wsj10 (corpus, whole-sentence span dropped, up to 10 words)
    """

    name: str
    average: Literal["sentence", "corpus"] = "sentence"
    whole_sentence: Literal["drop", "keep"] = "drop"
    one_word: Literal["skip", "count as 1"] = "skip"
    max_words: int | None = None

    def scored(self, lengths: Integers) -> Flags:
        """(S,) whether each sentence is scored."""
        scored = lengths >= (1 if self.one_word == "count as 1" else 2)
        return scored if self.max_words is None else scored & (lengths <= self.max_words)

    def __str__(self) -> str:
        limit = "" if self.max_words is None else f", up to {self.max_words} words"
        mean = "sentence mean" if self.average == "sentence" else "corpus"
        whole = "dropped" if self.whole_sentence == "drop" else "kept"
        alone = ", one-word sentences count as 1" if self.one_word == "count as 1" else ""
        return f"{self.name} ({mean}, whole-sentence span {whole}{alone}{limit})"


# wsj-test: used by compound-pcfg and later papers. Klein and Manning (2002): evalb, up to 10 words. PRPN's WSJ10: prpn,
# up to 10 words.
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
"""The protocols by name: which sentences and spans count, and how F1 is averaged."""


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """One row per scored sentence, (S,) each.

    Attributes:
        indices: the index of the sentence among the given ones, from 0.
    """

    indices: Integers
    lengths: Integers
    matched_spans: Integers
    predicted_spans: Integers
    gold_spans: Integers
    precision: Numbers
    recall: Numbers
    f1: Numbers


@dataclass(frozen=True)
class BranchingStatistics:
    """The shape of many trees, ignoring spans of one word and repeated spans.

    Attributes:
        depth: number of constituents above a word, including the whole sentence, averaged over the words of a sentence,
            then over sentences.
        left: percentage of the spans of three or more words that split off their last word, ([i, j - 1], j).
        right: percentage of these spans that split off their first word, (i, [i + 1, j]).
    """

    depth: float
    left: float
    right: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ParsingScores:
    """The scores of one set of trees.

    Attributes:
        precision: 0 to 1, averaged by the protocol.
        recall: 0 to 1, averaged by the protocol.
        f1: 0 to 1, averaged by the protocol.
        sentences: number of scored sentences.
        recall_by_label: by gold label, the recall and the number of gold spans.
        f1_by_length: by range of lengths, F1 and the number of sentences.
    """

    protocol: Protocol
    precision: float
    recall: float
    f1: float
    sentences: int
    by_sentence: SentenceScores
    recall_by_label: dict[str, tuple[float, int]] = field(default_factory=dict)
    f1_by_length: dict[str, tuple[float, int]] = field(default_factory=dict)
    predicted_shape: BranchingStatistics | None = None
    gold_shape: BranchingStatistics | None = None

    def to_dict(self, by_sentence: bool = False) -> dict[str, Any]:
        """Return all results for JSON, as fractions from 0 to 1.

        Args:
            by_sentence: also lists with one entry per sentence.
        """
        result: dict[str, Any] = {
            "protocol": asdict(self.protocol),
            **{name: getattr(self, name) for name in ("sentences", "precision", "recall", "f1")},
            "recall_by_label": {label: list(pair) for label, pair in self.recall_by_label.items()},
            "f1_by_length": {bin_: list(pair) for bin_, pair in self.f1_by_length.items()},
            "predicted_shape": self.predicted_shape and asdict(self.predicted_shape),
            "gold_shape": self.gold_shape and asdict(self.gold_shape),
        }
        if by_sentence:
            result["by_sentence"] = {name: values.tolist() for name, values in vars(self.by_sentence).items()}
        return result

    def __str__(self) -> str:
        lengths = self.by_sentence.lengths
        figures = f"precision {self.precision:.1%}  recall {self.recall:.1%}".replace("%", "")
        return (
            f"unlabelled F1 {100 * self.f1:.1f}  {figures}   protocol {self.protocol}"
            f"   sentences {self.sentences} ({lengths.min()} to {lengths.max()} words)"
        )


def score(predicted: SpanSets, gold: SpanSets, protocol: Protocol, details: bool = True) -> ParsingScores:
    """Score predicted against gold spans of the same sentences, in the same order.

    If the gold tree has no span that counts: F1 is 1 for a sentence of one or two words; for a longer one, recall is 1,
    precision 0 and F1 0, or all are 1 if the prediction has no such span either.

    Args:
        details: also recall by gold label (if gold has labels), F1 by length, and the shape of the trees.

    Raises:
        InputError: if the sentences differ in number or length, or none is left to score.
    """
    if len(predicted) != len(gold):
        raise InputError(f"found {len(predicted)} predicted trees; expected {len(gold)}, one for each gold sentence")
    wrong = np.flatnonzero(predicted.lengths != gold.lengths)
    if len(wrong):
        sizes = f"{predicted.lengths[wrong[0]]} words; expected {gold.lengths[wrong[0]]} as in the gold tree"
        raise InputError(f"sentence {wrong[0] + 1}: the predicted tree has {sizes}")
    scored = protocol.scored(gold.lengths)
    indices = np.flatnonzero(scored)
    if not len(indices):
        raise InputError(
            f"protocol {protocol}: found no sentence to score among {len(gold)}; expected one or more. Choose another"
            " protocol, or raise its limit of words"
        )
    keep_whole = protocol.whole_sentence == "keep"

    # Count the spans of all sentences, then score those of the protocol.
    predicted_keys, predicted_counts = span_keys(predicted, keep_whole)
    gold_keys, gold_counts = span_keys(gold, keep_whole)
    lengths = gold.lengths[indices]
    matched = common(predicted_keys, gold_keys, gold.lengths)[indices]
    predicted_counts = predicted_counts[indices]
    gold_counts = gold_counts[indices]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(predicted_counts > 0, matched / predicted_counts, 0.0)
        recall = np.where(gold_counts > 0, matched / gold_counts, 1.0)
        f1 = np.where(matched > 0, 2 * matched / (predicted_counts + gold_counts), 0.0)
    perfect = (gold_counts == 0) & ((lengths <= 2) | (predicted_counts == 0))
    precision[perfect] = recall[perfect] = f1[perfect] = 1.0
    rows = SentenceScores(indices, lengths, matched, predicted_counts, gold_counts, precision, recall, f1)
    scores = ParsingScores(protocol, *_averaged(rows, protocol, slice(None)), len(indices), rows)
    if not details:
        return scores
    return replace(
        scores,
        recall_by_label=recall_by_label(predicted, gold, scored, keep_whole),
        f1_by_length=f1_by_length(rows, protocol),
        predicted_shape=shape_of(predicted, scored),
        gold_shape=shape_of(gold, scored),
    )


def _averaged(rows: SentenceScores, protocol: Protocol, among: Flags | slice) -> tuple[float, float, float]:
    """Return precision, recall and F1 of some sentences: means over sentences, or those of the pooled counts.

    Pooled, all are 1 if there are neither gold nor predicted spans.
    """
    if protocol.average == "sentence":
        return float(rows.precision[among].mean()), float(rows.recall[among].mean()), float(rows.f1[among].mean())
    matched = int(rows.matched_spans[among].sum())
    predicted = int(rows.predicted_spans[among].sum())
    gold = int(rows.gold_spans[among].sum())
    if not predicted and not gold:
        return 1.0, 1.0, 1.0
    precision = matched / predicted if predicted else 0.0
    recall = matched / gold if gold else 1.0
    return precision, recall, 2 * matched / (predicted + gold)


# Descriptive statistics of trees: recall by gold label, F1 by sentence length, depth, left and right splits.


def recall_by_label(
    predicted: SpanSets, gold: SpanSets, scored: Flags, keep_whole: bool
) -> dict[str, tuple[float, int]]:
    """Return the recall of the spans of each gold label, and their number; the most frequent labels first.

    Only spans of two or more words count. A span with several labels, from a unary chain, counts for each. The result
    is empty if the gold trees have no labels.

    Args:
        scored: (S,) whether each sentence counts.
        keep_whole: whether spans of whole sentences count.
    """
    if gold.labels is None or not any(gold.label_names):
        return {}
    predicted = predicted.select(scored)
    gold = gold.select(scored)
    assert gold.labels is not None
    # The distinct pairs of a span and a label, as one number each.
    is_counted = counted(gold, keep_whole)
    names = len(gold.label_names)
    labelled = np.unique(keys_of(gold)[is_counted] * names + gold.labels[is_counted])
    is_matched = contained(labelled // names, span_keys(predicted, keep_whole)[0])
    total = np.bincount(labelled % names, minlength=names)
    matched = np.bincount(labelled[is_matched] % names, minlength=names)
    order = [code for code in np.argsort(-total, kind="stable").tolist() if total[code]]
    return {gold.label_names[code]: (float(matched[code] / total[code]), int(total[code])) for code in order}


def f1_by_length(rows: SentenceScores, protocol: Protocol) -> dict[str, tuple[float, int]]:
    """Return F1, averaged by the protocol, and the number of sentences with 1-10, 11-20, ... words."""
    tens = (rows.lengths - 1) // 10
    result = {}
    for ten in np.unique(tens).tolist():
        among = tens == ten
        result[f"{10 * ten + 1}-{10 * ten + 10}"] = _averaged(rows, protocol, among)[2], int(np.count_nonzero(among))
    return result


def shape_of(spans: SpanSets, scored: Flags | None = None) -> BranchingStatistics:
    """Return depth and splits of the trees.

    Args:
        scored: (S,) whether each sentence counts; None: all.
    """
    spans = spans if scored is None else spans.select(scored)
    keys, counts = span_keys(spans, keep_whole=True)
    sentences = np.repeat(np.arange(len(spans)), counts)
    lengths = spans.lengths[sentences]
    starts, ends = np.divmod(keys - key_bases(spans.lengths)[:-1][sentences], lengths + 1)
    # The sum of the depths of a sentence's words is the sum of the widths of its spans.
    depth = np.bincount(sentences, weights=ends - starts, minlength=len(spans)) / np.maximum(spans.lengths, 1)
    long = ends - starts > 2
    left = contained(keys[long] - 1, keys)  # the span that ends one word earlier
    right = contained(keys[long] + lengths[long] + 1, keys)  # the span that starts one word later
    total = max(1, int(np.count_nonzero(long)))
    return BranchingStatistics(
        float(depth.mean()) if len(depth) else 0.0,
        100 * float(np.count_nonzero(left)) / total,
        100 * float(np.count_nonzero(right)) / total,
    )


# Induced labels compared with gold labels: the most frequent gold label of each induced label.
#
# Only spans that are in both trees are compared: the mapping interprets the labels of correct spans and ignores all
# others. It is derived from the gold trees on which it is scored, so its accuracy is an upper bound.


LABELS_PRINTED = 15  # induced labels in the printed table, the most frequent


@dataclass(frozen=True)
class MappedLabel:
    """An induced label.

    Attributes:
        spans: number of predicted spans with the label.
        matched: number of these that are gold constituents.
        gold_label: the most frequent gold label of the matched ones, "" if there are none.
        gold_spans: number of these with that gold label.
    """

    label: str
    spans: int
    matched: int
    gold_label: str
    gold_spans: int


@dataclass(frozen=True)
class LabelMapping:
    """The many-to-one mapping of induced labels to gold labels.

    Attributes:
        labels: most frequent first.
        protocol: which spans and sentences are counted.
        most_frequent: the most frequent gold label of all matched spans, and its number of spans.
    """

    labels: tuple[MappedLabel, ...]
    protocol: Protocol
    most_frequent: tuple[str, int]

    @property
    def matched(self) -> int:
        return sum(mapped.matched for mapped in self.labels)

    @property
    def accuracy(self) -> float:
        """The share of matched spans whose gold label is that of their induced label; 1 without matched spans."""
        return sum(mapped.gold_spans for mapped in self.labels) / self.matched if self.matched else 1.0

    @property
    def baseline(self) -> float:
        """The accuracy of mapping all induced labels to one gold label, the most frequent."""
        return self.most_frequent[1] / self.matched if self.matched else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return all results; fractions from 0 to 1."""
        return {
            "protocol": self.protocol.name,
            "many_to_one_accuracy": self.accuracy,
            "most_frequent_label_accuracy": self.baseline,
            "most_frequent_label": self.most_frequent[0],
            "spans": sum(mapped.spans for mapped in self.labels),
            "matched_spans": self.matched,
            "labels": [asdict(mapped) for mapped in self.labels],
        }

    def table(self, decoder: str) -> ReportTable:
        """Return the most frequent labels as a table for reading.

        Args:
            decoder: name of the decoder of the trees.
        """
        title = (
            f"induced labels of the {decoder} trees, mapped many-to-one to gold labels   protocol {self.protocol}\n"
            f"many-to-one accuracy {100 * self.accuracy:.1f}   all labels mapped to {self.most_frequent[0] or 'none'}"
            f" {100 * self.baseline:.1f}   of {self.matched:,} predicted spans that are gold constituents"
        )
        rest = len(self.labels) - LABELS_PRINTED
        title += f"; {rest} less frequent labels are not shown" if rest > 0 else ""
        rows = [
            [
                mapped.spans,
                mapped.matched,
                mapped.matched / mapped.spans,
                f"{mapped.gold_label} ({100 * mapped.gold_spans / mapped.matched:.1f}%)" if mapped.matched else "none",
                mapped.label,
            ]
            for mapped in self.labels[:LABELS_PRINTED]
        ]
        headings = {"spans": ",", "constituents": ",", "share": PERCENT, "gold label": "", "induced label": ""}
        return ReportTable(headings, rows, title)


def label_mapping(predicted: SpanSets, gold: SpanSets, protocol: Protocol) -> LabelMapping | None:
    """Return the mapping of the labels of predicted spans; None if either side has no labels.

    Args:
        predicted: predicted spans. Spans of one word never count; those of whole sentences depend on the protocol.
        gold: gold spans of the same sentences, in pre-order. If several gold constituents have the same span (a unary
            chain), the outermost counts.
    """
    if predicted.labels is None or gold.labels is None or not any(gold.label_names):
        return None
    # Find each predicted span among the gold spans.
    keys, codes = _labelled_keys(predicted, protocol)
    gold_keys, gold_codes = _labelled_keys(gold, protocol)
    place = np.minimum(np.searchsorted(gold_keys, keys), max(0, len(gold_keys) - 1))
    is_matched = gold_keys[place] == keys if len(gold_keys) else np.zeros(len(keys), np.bool_)

    # Count the matched spans by predicted label (rows) and gold label (columns).
    count = len(predicted.label_names)
    gold_count = len(gold.label_names)
    pairs = codes[is_matched] * gold_count + gold_codes[place[is_matched]]
    table = np.bincount(pairs, minlength=count * gold_count).reshape(count, gold_count)

    totals = np.bincount(codes, minlength=count)
    most_shared = table.argmax(1)
    labels = []
    for code in np.argsort(-totals, kind="stable").tolist():
        if not totals[code]:
            break
        matched = int(table[code].sum())
        gold_label = gold.label_names[most_shared[code]] if matched else ""
        gold_spans = int(table[code, most_shared[code]])
        labels.append(MappedLabel(predicted.label_names[code], int(totals[code]), matched, gold_label, gold_spans))
    gold_totals = table.sum(0)
    most = int(gold_totals.argmax())
    most_frequent = gold.label_names[most] if gold_totals[most] else ""
    return LabelMapping(tuple(labels), protocol, (most_frequent, int(gold_totals[most])))


def _labelled_keys(spans: SpanSets, protocol: Protocol) -> tuple[Integers, Integers]:
    """Return sorted distinct keys of the spans that count, as in `span_keys`, and the first label of each span."""
    assert spans.labels is not None
    is_scored = protocol.scored(spans.lengths)[spans.sentences()]
    counts = counted(spans, protocol.whole_sentence == "keep") & is_scored
    keys, first = np.unique(keys_of(spans)[counts], return_index=True)
    return keys, spans.labels[counts][first].astype(np.int64)
