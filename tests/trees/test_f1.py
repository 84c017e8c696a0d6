import json
import random
from statistics import mean

import numpy as np
import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.statistics.bootstrap import RunScores, compare_runs
from syntaxlm.trees.baselines import over_seeds, paired_bootstrap, run_scores
from syntaxlm.trees.bounds import balanced, left, random_trees, right
from syntaxlm.trees.f1 import PROTOCOLS, Protocol, score, shape_of
from syntaxlm.trees.matching import GOLD_ADVICE, gold_sides, match_files
from syntaxlm.trees.spans import SpanSets
from syntaxlm.trees.tree import Tree, parse_brackets

from .enumeration import random_tree


def trees(count, longest, seed):
    source = random.Random(seed)
    return [random_tree(source.randint(1, longest), source) for _ in range(count)]


def literally(predicted: Tree, gold: Tree, protocol: Protocol) -> tuple[int, int, int, float, float, float]:
    """Matched, predicted, gold spans; precision, recall, F1: the protocol's rules with plain sets."""
    whole = (0, len(gold))
    found, wanted = (
        {s[1:] for s in t.constituents if s.end - s.start > 1 and (protocol.whole_sentence == "keep" or s[1:] != whole)}
        for t in (predicted, gold)
    )
    shared = len(found & wanted)
    if not wanted:
        if len(gold) <= 2 or not found:
            return shared, len(found), 0, 1.0, 1.0, 1.0
        return shared, len(found), 0, 0.0, 1.0, 0.0
    precision, recall = shared / len(found) if found else 0.0, shared / len(wanted)
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    return shared, len(found), len(wanted), precision, recall, f1


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("longest", [2, 5, 50])
def test_every_protocol_equals_its_rules_with_plain_sets(protocol, longest):
    gold = trees(300, longest, 0)
    source = random.Random(1)
    predicted = [random_tree(len(tree), source) for tree in gold]
    scores = score(SpanSets.of(predicted), SpanSets.of(gold), protocol)
    shortest = 1 if protocol.one_word == "count as 1" else 2
    kept = [i for i, tree in enumerate(gold) if shortest <= len(tree) <= (protocol.max_words or 1000)]
    rows = [literally(predicted[i], gold[i], protocol) for i in kept]
    assert scores.by_sentence.indices.tolist() == kept
    assert scores.sentences == len(kept)
    assert scores.by_sentence.f1.tolist() == pytest.approx([row[5] for row in rows])
    assert scores.by_sentence.precision.tolist() == pytest.approx([row[3] for row in rows])
    if protocol.average == "sentence":
        expected = [mean(row[column] for row in rows) for column in (3, 4, 5)]
    else:
        shared, found, wanted = (sum(row[column] for row in rows) for column in range(3))
        expected = [shared / found, shared / wanted, 2 * shared / (found + wanted)] if found and wanted else [1.0] * 3
    assert [scores.precision, scores.recall, scores.f1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "predicted", "precision", "recall", "f1"),
    [
        ("(S a b)", "(S a b)", 1, 1, 1),
        ("(S a b c)", "(X a (X b c))", 0, 1, 0),
        ("(S a b c)", "(X a b c)", 1, 1, 1),
        ("(S a (S b c))", "(X a b c)", 0, 0, 0),
        ("(S a (S b c) d)", "(X (X a (X b c)) d)", 0.5, 1, 2 / 3),
        ("(S (NP (NP a b)) c)", "(X (X a b) c)", 1, 1, 1),
        ("(ROOT (S a (VP b c)))", "(X (X a b) c)", 0, 0, 0),  # a unary root does not make the whole sentence count
    ],
)
def test_gold_without_inner_spans_and_unary_chains(gold, predicted, precision, recall, f1):
    scores = score(SpanSets.of(parse_brackets(predicted)), SpanSets.of(parse_brackets(gold)), PROTOCOLS["wsj-test"])
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx((precision, recall, f1))


def test_recall_by_label_counts_each_label_of_a_chain():
    gold = SpanSets.of(parse_brackets("(S (NP a b) (VP (VP c d)) (PP (NP e f)))"))
    predicted = SpanSets.of(parse_brackets("(X (X a b) (X c (X d (X e f))))"))
    scores = score(predicted, gold, PROTOCOLS["wsj-test"])
    assert scores.recall_by_label == {"NP": (1.0, 2), "VP": (0.0, 1), "PP": (1.0, 1)}
    assert score(predicted, gold, PROTOCOLS["evalb"]).recall_by_label["S"] == (1.0, 1)


def test_f1_by_length_adds_up_to_the_whole():
    gold = SpanSets.of(trees(200, 35, 3))
    scores = score(right(gold.lengths), gold, PROTOCOLS["wsj-test"])
    assert list(scores.f1_by_length) == ["1-10", "11-20", "21-30", "31-40"]
    assert sum(count for _, count in scores.f1_by_length.values()) == scores.sentences
    total = sum(f1 * count for f1, count in scores.f1_by_length.values())
    assert total / scores.sentences == pytest.approx(scores.f1)


def test_shapes_of_trees():
    assert shape_of(left([4])).left == shape_of(left([3])).left == 100
    assert shape_of(left([4])).right == 0
    assert shape_of(right([4, 2, 3])).right == 100
    assert shape_of(right([4])).depth == pytest.approx((1 + 2 + 3 + 3) / 4)
    both = shape_of(balanced([4, 3]))
    assert (both.left, both.right) == (0, 50)
    assert both.depth == pytest.approx((2 + 5 / 3) / 2)
    assert shape_of(SpanSets.of(parse_brackets("(S (NP (NP a b c)) d)"))).left == 50


def test_scores_are_written_as_json_and_printed_with_their_protocol():
    gold = SpanSets.of(trees(30, 12, 5))
    scores = score(right(gold.lengths), gold, PROTOCOLS["wsj10"])
    written = json.loads(json.dumps(scores.to_dict(by_sentence=True)))
    assert written["protocol"]["name"] == "wsj10"
    assert written["f1"] == scores.f1
    assert len(written["by_sentence"]["f1"]) == scores.sentences
    assert f"{100 * scores.f1:.1f}" in str(scores)
    assert "wsj10" in str(scores)


def test_sentences_that_do_not_match_raise_an_error():
    with pytest.raises(InputError, match="found 1 predicted trees; expected 2"):
        score(right([3]), right([3, 4]), PROTOCOLS["wsj-test"])
    with pytest.raises(InputError, match="sentence 2: the predicted tree has 5 words; expected 4"):
        score(right([3, 5]), right([3, 4]), PROTOCOLS["wsj-test"])
    with pytest.raises(InputError, match="found no sentence to score among 1"):
        score(right([1]), right([1]), PROTOCOLS["wsj-test"])


@pytest.mark.parametrize(
    ("predicted", "lines"),
    [
        (
            "(X a b) (X the (X board said)) (X c d)",
            [
                "gold.mrg, sentence 2: the tree has 5 words, but the prediction has 3.",
                "  gold:      The board said 61 years",
                "  predicted: the board said   ({file}, tree 2)",
            ],
        ),
        (
            "(X a b) (X c d)",  # a wrong number is reported before a wrong length
            [
                "{file}: found 2 trees; expected 3 as in gold.mrg.",
                "First difference: sentence 2",
                "  gold:      The board said 61 years",
                "  predicted: c d",
            ],
        ),
        (
            "(X a b) (X The (X board said 61 years)) (X c d) (X e f)",
            [
                "{file}: found 4 trees; expected 3 as in gold.mrg.",
                "First difference: sentence 4",
                "  gold:      (no tree)",
                "  predicted: e f",
            ],
        ),
    ],
)
def test_the_first_sentences_that_do_not_match_are_shown_next_to_each_other(predicted, lines, tmp_path):
    gold = parse_brackets("(S a b) (S The (S board said 61 years)) (S c d)")
    same = parse_brackets("(X a b) (X the (X <unk> said N years)) (X e f)")
    (tmp_path / "predicted.mrg").write_text(predicted)
    sides = gold_sides(str(tmp_path / "predicted.mrg"), "gold.mrg")
    with pytest.warns(InputWarning, match=r"agree in 1 of 3 sentences. The first is sentence 3:\n  gold:      c d\n"):
        match_files(same, gold, *sides, GOLD_ADVICE)
    with pytest.raises(InputError) as caught:
        match_files(parse_brackets(predicted), gold, *sides, GOLD_ADVICE)
    expected = [line.format(file=tmp_path / "predicted.mrg") for line in lines]
    assert str(caught.value).splitlines() == [*expected, GOLD_ADVICE]


@pytest.mark.parametrize("protocol", [PROTOCOLS["wsj-test"], PROTOCOLS["evalb"]], ids=["sentence", "corpus"])
def test_bootstrap_separates_a_difference_from_none(protocol):
    gold = random_trees(np.full(300, 12), 0)
    good = score(gold, gold, protocol)
    one, other = (score(random_trees(gold.lengths, seed), gold, protocol) for seed in (1, 2))
    clear = paired_bootstrap(good, one, samples=500)
    assert clear.low <= clear.difference <= clear.high
    assert clear.difference == pytest.approx(1 - one.f1)
    assert clear.p_value < 0.01
    assert paired_bootstrap(one, one, samples=100).p_value == 1
    assert paired_bootstrap(one, other, samples=500).p_value > 0.01
    assert paired_bootstrap(one, other, samples=50, seed=3) == paired_bootstrap(one, other, samples=50, seed=3)


@pytest.mark.parametrize("protocol", [PROTOCOLS["wsj-test"], PROTOCOLS["evalb"]], ids=["sentence", "corpus"])
def test_seeds_that_differ_widen_the_interval(protocol):
    gold = right(np.full(200, 12))
    low, high = score(left(gold.lengths), gold, protocol), score(gold, gold, protocol)
    middle = [score(random_trees(gold.lengths, seed), gold, protocol) for seed in range(4)]
    sure = compare_runs(run_scores([high] * 5), run_scores(middle), samples=500)
    unsure = compare_runs(run_scores([high, low, low, low, low]), run_scores(middle), samples=500)
    one = paired_bootstrap(high, middle[0], samples=500)
    assert sure.p_value < 0.01
    assert sure.seeds == (5, 4)
    assert unsure.difference == pytest.approx((high.f1 + 4 * low.f1) / 5 - mean(run.f1 for run in middle))
    assert unsure.p_value > 0.05  # by sentences alone, the difference would be certain
    assert unsure.high - unsure.low > 3 * (sure.high - sure.low)
    assert one.to_dict().keys() == {"difference", "low", "high", "p_value"}
    assert sure.to_dict()["seeds"] == [5, 4]


def test_identical_seeds_add_nothing_to_the_interval_of_sentences():
    gold = random_trees(np.full(150, 9), 0)
    one, other = (score(random_trees(gold.lengths, seed), gold, PROTOCOLS["wsj-test"]) for seed in (1, 2))
    single = paired_bootstrap(one, other, samples=800)
    several = compare_runs(run_scores([one] * 3), run_scores([other] * 3), samples=800)
    assert several.high - several.low == pytest.approx(single.high - single.low, rel=0.25)
    assert several.difference == pytest.approx(single.difference)


def test_means_over_items_are_compared_like_trees():
    first, second = RunScores.of_means(np.eye(2, 40)), RunScores.of_means(np.zeros((3, 40)))
    found = compare_runs(first, second, "accuracy", samples=300)
    assert found.difference == pytest.approx(1 / 40)
    assert found.measure == "accuracy"
    with pytest.raises(InputError, match="found scores of 40 and 39 items"):
        compare_runs(first, RunScores.of_means(np.zeros((1, 39))))


def test_bootstrap_in_parts_uses_every_sample(monkeypatch):
    gold = random_trees(np.full(50, 8), 0)
    scores = [score(random_trees(gold.lengths, seed), gold, PROTOCOLS["wsj-test"]) for seed in (1, 2)]
    whole = paired_bootstrap(*scores, samples=400)
    monkeypatch.setattr("syntaxlm.statistics.bootstrap._ITEMS_AT_A_TIME", 130)
    pieces = paired_bootstrap(*scores, samples=400)
    assert pieces.low == pytest.approx(whole.low, abs=0.02)
    assert pieces.difference == whole.difference


def test_scores_of_different_sentences_or_protocols_cannot_be_compared():
    gold = random_trees(np.full(5, 8), 0)
    scores, fewer = score(gold, gold, PROTOCOLS["wsj-test"]), gold.select([0, 1])
    with pytest.raises(InputError, match="expected one protocol"):
        paired_bootstrap(scores, score(gold, gold, PROTOCOLS["prpn"]))
    with pytest.raises(InputError, match="expected the same sentences"):
        paired_bootstrap(scores, score(fewer, fewer, PROTOCOLS["wsj-test"]))


def test_statistics_over_seeds():
    gold = random_trees(np.full(50, 8), 0)
    scores = [score(random_trees(gold.lengths, seed), gold, PROTOCOLS["wsj-test"]) for seed in range(4)]
    summed = over_seeds(scores)
    f1 = [one.f1 for one in scores]
    assert summed.mean == pytest.approx(mean(f1))
    assert summed.std == pytest.approx(np.std(f1, ddof=1))
    assert summed.max == max(f1)
    assert over_seeds(scores[:1]).std is None
    with pytest.raises(InputError):
        over_seeds([])
