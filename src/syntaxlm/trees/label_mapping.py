"""Induced labels compared with gold labels: the most frequent gold label of each induced label.

Only spans of both trees can be compared: the mapping interprets the labels of correct spans and ignores all others. It
is chosen by the gold trees that it is scored on, so its accuracy is an upper bound.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from syntaxlm.trees.scoring import Protocol
from syntaxlm.trees.span_index import key_bases
from syntaxlm.trees.spans import Integers, SpanSets

SHOWN = 15  # induced labels in the printed table, most frequent first


@dataclass(frozen=True)
class MappedLabel:
    """An induced label.

    spans: how many predicted spans have it.  matched: how many of these are gold constituents.
    gold_label: the most frequent gold label of the matched ones, "" for none.  gold_spans: how many of them have it.
    """

    label: str
    spans: int
    matched: int
    gold_label: str
    gold_spans: int


@dataclass(frozen=True)
class LabelMapping:
    """The many-to-one mapping of induced labels to gold labels.

    labels: most frequent first.  protocol: which spans and sentences count.
    most_frequent: the gold label that most matched spans have, and how many, whatever their induced label.
    """

    labels: tuple[MappedLabel, ...]
    protocol: Protocol
    most_frequent: tuple[str, int]

    @property
    def spans(self) -> int:
        return sum(one.spans for one in self.labels)

    @property
    def matched(self) -> int:
        return sum(one.matched for one in self.labels)

    @property
    def accuracy(self) -> float:
        """The share of matched spans whose gold label is that of their induced label: 0 to 1; 1 of no matched span."""
        return sum(one.gold_spans for one in self.labels) / self.matched if self.matched else 1.0

    @property
    def baseline(self) -> float:
        """The same where all induced labels are mapped to one gold label, the most frequent."""
        return self.most_frequent[1] / self.matched if self.matched else 1.0

    def to_dict(self) -> dict[str, Any]:
        """All figures, fractions from 0 to 1."""
        return {
            "protocol": self.protocol.name,
            "many_to_one_accuracy": self.accuracy,
            "most_frequent_label_accuracy": self.baseline,
            "most_frequent_label": self.most_frequent[0],
            "spans": self.spans,
            "matched_spans": self.matched,
            "labels": [asdict(one) for one in self.labels],
        }

    def lines(self, decoder: str) -> list[str]:
        """The printed table: percentages. decoder: by which the trees were made."""
        lines = [
            f"induced labels of the {decoder} trees, mapped many-to-one to gold labels   protocol {self.protocol}",
            f"many-to-one accuracy {100 * self.accuracy:.1f}   all labels mapped to {self.most_frequent[0] or 'none'}"
            f" {100 * self.baseline:.1f}   of {self.matched:,} predicted spans that are gold constituents",
            "",
            "    spans  constituents (share)  gold label        induced label",
        ]
        for one in self.labels[:SHOWN]:
            found = f"{one.gold_label} ({100 * one.gold_spans / one.matched:.1f}%)" if one.matched else "none"
            share = 100 * one.matched / one.spans
            lines.append(f"{one.spans:9,}{one.matched:10,} ({share:5.1f}%)   {found:15}   {one.label}")
        if len(self.labels) > SHOWN:
            lines.append(f"and {len(self.labels) - SHOWN} less frequent labels")
        return lines


def label_mapping(predicted: SpanSets, gold: SpanSets, protocol: Protocol) -> LabelMapping | None:
    """The mapping of the labels of predicted spans; None where either side has no labels.

    predicted, gold: of the same sentences, gold spans in pre-order. Of gold constituents with the same span, a unary
    chain, the outermost counts. Spans of one word never count; those of whole sentences count by the protocol.
    """
    if predicted.labels is None or gold.labels is None or not any(gold.label_names):
        return None
    keys, codes = _labelled_keys(predicted, protocol)
    gold_keys, gold_codes = _labelled_keys(gold, protocol)
    place = np.minimum(np.searchsorted(gold_keys, keys), max(0, len(gold_keys) - 1))
    matched = gold_keys[place] == keys if len(gold_keys) else np.zeros(len(keys), np.bool_)
    count, gold_count = len(predicted.label_names), len(gold.label_names)
    pairs = codes[matched] * gold_count + gold_codes[place[matched]]
    table = np.bincount(pairs, minlength=count * gold_count).reshape(count, gold_count)
    totals = np.bincount(codes, minlength=count)
    best = table.argmax(1)
    labels = []
    for code in np.argsort(-totals, kind="stable").tolist():
        if not totals[code]:
            break
        shared, gold_spans = int(table[code].sum()), int(table[code, best[code]])
        name = gold.label_names[best[code]] if shared else ""
        labels.append(MappedLabel(predicted.label_names[code], int(totals[code]), shared, name, gold_spans))
    together = table.sum(0)
    most = int(together.argmax())
    return LabelMapping(
        tuple(labels), protocol, (gold.label_names[most] if together[most] else "", int(together[most]))
    )


def _labelled_keys(spans: SpanSets, protocol: Protocol) -> tuple[Integers, Integers]:
    """Sorted distinct keys of the spans that count, as of `span_index`, and the first label of each span."""
    assert spans.labels is not None
    sentences = spans.sentences()
    lengths = spans.lengths[sentences]
    starts, ends = spans.starts.astype(np.int64), spans.ends.astype(np.int64)
    widths = ends - starts
    kept = protocol.scored(spans.lengths)[sentences] & (widths > 1)
    if protocol.whole_sentence == "drop":
        kept &= widths < lengths
    keys: Integers = key_bases(spans.lengths)[:-1][sentences] + starts * (lengths + 1) + ends
    distinct, first = np.unique(keys[kept], return_index=True)
    return distinct, spans.labels[kept][first].astype(np.int64)
