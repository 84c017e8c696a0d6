"""What describes trees beside their F1: recall by gold label, F1 by sentence length, depth, left and right splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from syntaxlm.trees.span_index import contained, key_bases, span_keys
from syntaxlm.trees.spans import Flags, Integers, SpanSets


@dataclass(frozen=True)
class BranchingStatistics:
    """The shape of many trees, spans of one word and repeated spans left out.

    depth: constituents above a word, the whole sentence among them: mean over the words, then over the sentences.
    left, right: percent of the spans of three words or more that split off their last word, ([i, j - 1], j), or their
    first, (i, [i + 1, j]).
    """

    depth: float
    left: float
    right: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def recall_by_label(
    predicted: SpanSets, gold: SpanSets, scored: Flags, keep_whole: bool
) -> dict[str, tuple[float, int]]:
    """For each gold label the share of its spans (of two words or more) found, and their number; most frequent first.

    A span with several labels, from a unary chain, counts under each.  Empty where gold has no labels.
    scored: (S,) which sentences count.  keep_whole: with spans of whole sentences.
    """
    if gold.labels is None or not any(gold.label_names):
        return {}
    predicted, gold = predicted.select(scored), gold.select(scored)
    assert gold.labels is not None
    sentences = gold.sentences()
    lengths = gold.lengths[sentences]
    widths = gold.ends - gold.starts
    counts = (widths > 1) & (keep_whole | (widths < lengths))
    keys = key_bases(gold.lengths)[:-1][sentences] + gold.starts.astype(np.int64) * (lengths + 1) + gold.ends
    names = len(gold.label_names)
    labelled = np.unique(keys[counts] * names + gold.labels[counts])
    found = contained(labelled // names, span_keys(predicted, keep_whole)[0])
    total = np.bincount(labelled % names, minlength=names)
    right = np.bincount(labelled[found] % names, minlength=names)
    order = [code for code in np.argsort(-total, kind="stable").tolist() if total[code]]
    return {gold.label_names[code]: (float(right[code] / total[code]), int(total[code])) for code in order}


def f1_by_length(lengths: Integers, f1_of_tens: Mapping[int, float]) -> dict[str, tuple[float, int]]:
    """F1 and number of sentences of 1-10, 11-20 ... words.  f1_of_tens: by ten, counted from 0."""
    tens = (lengths - 1) // 10
    return {
        f"{10 * ten + 1}-{10 * ten + 10}": (f1, int(np.count_nonzero(tens == ten))) for ten, f1 in f1_of_tens.items()
    }


def shape_of(spans: SpanSets, scored: Flags | None = None) -> BranchingStatistics:
    """Depth and splits of the trees.  scored: (S,) which sentences count; None: all."""
    spans = spans if scored is None else spans.select(scored)
    keys, counts = span_keys(spans, keep_whole=True)
    sentences = np.repeat(np.arange(len(spans)), counts)
    lengths = spans.lengths[sentences]
    starts, ends = np.divmod(keys - key_bases(spans.lengths)[:-1][sentences], lengths + 1)
    # The depths of a sentence's words add up to the widths of its spans.
    depth = np.bincount(sentences, weights=ends - starts, minlength=len(spans)) / np.maximum(spans.lengths, 1)
    long = ends - starts > 2
    left = contained(keys[long] - 1, keys)  # the span that ends one word earlier
    right = contained(keys[long] + lengths[long] + 1, keys)  # that begins one word later
    total = max(1, int(np.count_nonzero(long)))
    return BranchingStatistics(
        float(depth.mean()) if len(depth) else 0.0,
        100 * float(np.count_nonzero(left)) / total,
        100 * float(np.count_nonzero(right)) / total,
    )
