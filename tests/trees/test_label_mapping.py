from collections import Counter

import numpy as np
import pytest

from syntaxlm.trees.bounds import random_trees
from syntaxlm.trees.f1 import LABELS_PRINTED, PROTOCOLS, Protocol, label_mapping
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import parse_brackets

WSJ, EVALB = PROTOCOLS["wsj-test"], PROTOCOLS["evalb"]

GOLD = """
(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))
(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))
(S (NP (PRP it)) (S (VP (VBZ is) (ADJP (RB very) (JJ old)))))
(X (A a))
"""
PREDICTED = """
(NT-0 (NT-1 the dog) (NT-2 sees (NT-1 a cat)))
(NT-0 (NT-1 the cat) sleeps)
(NT-0 (NT-1 it is) (NT-2 very old))
(X (A a))
"""


@pytest.fixture
def trees():
    return [SpanSets.of(parse_brackets(text)) for text in (PREDICTED, GOLD)]


def test_each_induced_label_goes_with_its_most_frequent_gold_label(trees):
    found = label_mapping(*trees, WSJ)
    rows = [(one.label, one.spans, one.matched, one.gold_label, one.gold_spans) for one in found.labels]
    assert rows == [("NT-1", 4, 3, "NP", 3), ("NT-2", 2, 2, "VP", 1)]
    assert (found.to_dict()["spans"], found.matched) == (6, 5)
    assert found.accuracy == 4 / 5
    assert found.most_frequent == ("NP", 3)
    assert found.baseline == 3 / 5


def test_whole_sentences_and_lengths_count_according_to_the_protocol(trees):
    found = label_mapping(*trees, EVALB)
    assert {one.label: (one.spans, one.matched, one.gold_label) for one in found.labels}["NT-0"] == (3, 3, "S")
    assert found.accuracy == 7 / 8
    short = label_mapping(*trees, Protocol("short", max_words=3))
    assert [(one.label, one.matched) for one in short.labels] == [("NT-1", 1)]


def test_the_outermost_label_of_a_unary_chain_counts():
    (predicted,), (gold,) = parse_brackets("(A (B a b) c)"), parse_brackets("(S (NP (VP (A a) (B b))) (C c))")
    found = label_mapping(SpanSets.of([predicted]), SpanSets.of([gold]), WSJ)
    assert [(one.label, one.gold_label) for one in found.labels] == [("B", "NP")]


def test_sides_without_labels_have_no_mapping(trees):
    plain = random_trees([5, 3, 4, 1], 0)
    assert label_mapping(plain, trees[1], WSJ) is None
    assert label_mapping(trees[0], plain, WSJ) is None


def test_trees_that_share_no_span_have_no_matched_label():
    sides = [SpanSets.of(parse_brackets(text)) for text in ("(A (B a b) c)", "(S (A a) (VP (B b) (C c)))")]
    found = label_mapping(*sides, WSJ)
    assert [(one.label, one.spans, one.matched, one.gold_label) for one in found.labels] == [("B", 1, 0, "")]
    assert found.accuracy == found.baseline == 1
    assert found.table("mbr").rows[0][3] == "none"


def test_counts_are_those_of_a_loop_over_all_spans():
    source = np.random.default_rng(0)
    lengths = source.integers(1, 15, 200)
    sides = []
    for seed, names in ((1, ("P", "Q", "R")), (2, ("NP", "VP"))):
        spans = random_trees(lengths, seed)
        labels = source.integers(0, len(names), len(spans.starts)).astype(np.int32)
        sides.append(SpanSets(spans.lengths, spans.offsets, spans.starts, spans.ends, labels, names))
    counts: Counter[tuple[str, str]] = Counter()
    for index, length in enumerate(lengths.tolist()):
        one, other = ({}, {})
        for side, into in zip(sides, (one, other), strict=True):
            for place in range(*side.offsets[index : index + 2]):
                span = int(side.starts[place]), int(side.ends[place])
                if 1 < span[1] - span[0] < length:
                    into[span] = side.label_names[side.labels[place]]
        counts.update((label, other[span]) for span, label in one.items() if span in other)
    found = label_mapping(*sides, WSJ)
    for one in found.labels:
        own = {gold: count for (label, gold), count in counts.items() if label == one.label}
        assert (one.matched, one.gold_spans) == (sum(own.values()), max(own.values()))
        assert own[one.gold_label] == one.gold_spans
    assert found.matched == counts.total()


def test_the_printed_table_has_the_protocol_the_decoder_and_the_most_frequent_labels(trees):
    names = tuple(f"NT-{number}" for number in range(LABELS_PRINTED + 3))
    chain = random_trees([LABELS_PRINTED + 4], 0)
    predicted = SpanSets(
        chain.lengths, chain.offsets, chain.starts, chain.ends, np.arange(LABELS_PRINTED + 3, dtype=np.int32), names
    )
    codes = np.zeros(LABELS_PRINTED + 3, np.int32)
    gold = SpanSets(chain.lengths, chain.offsets, chain.starts, chain.ends, codes, ("NP",))
    section = label_mapping(predicted, gold, EVALB).table("mbr")
    title = section.title.splitlines()
    assert "mbr trees" in title[0]
    assert str(EVALB) in title[0]
    assert title[1].startswith("many-to-one accuracy 100.0   all labels mapped to NP 100.0   of 18 predicted spans")
    assert title[1].endswith("; 3 less frequent labels are not shown")
    assert len(section.rows) == LABELS_PRINTED
    assert section.cells()[0] == ["1", "1", "100.0", "NP (100.0%)", "NT-0"]
    figures = label_mapping(*trees, WSJ).to_dict()
    assert figures["protocol"] == "wsj-test"
    assert figures["many_to_one_accuracy"] == 0.8
    assert figures["labels"][0] == {"label": "NT-1", "spans": 4, "matched": 3, "gold_label": "NP", "gold_spans": 3}
