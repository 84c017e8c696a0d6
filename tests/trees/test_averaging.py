import random

import numpy as np
import pytest

from syntaxlm.comparison.averages import average_files
from syntaxlm.core.errors import InputError
from syntaxlm.trees import charts
from syntaxlm.trees.averaging import agreement, average
from syntaxlm.trees.bounds import binary_upper_bound, left, random_trees, right
from syntaxlm.trees.charts import TIE_RULES
from syntaxlm.trees.decoding import SpanTable, decode, decode_spans
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.spans import SpanSets, trees_of
from syntaxlm.trees.tree import parse_brackets, read_brackets, write_brackets

from .enumeration import all_binary_trees, random_tree, spans_of_lists

WSJ, EVALB = PROTOCOLS["wsj-test"], PROTOCOLS["evalb"]


def n_ary(lengths, seed):
    source = random.Random(seed)
    return SpanSets.of([random_tree(length, source) for length in lengths])


def shared(tree, predictions, sentence, weights):
    """The total weight of a tree's spans of two or more words in the predictions that have them."""
    return sum(w * len(tree & one.sentence(sentence)) for one, w in zip(predictions, weights, strict=True))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_binary_tree_shares_more_spans(count, weighted):
    lengths = [1, 2, *np.random.default_rng(count).integers(3, 7, 60).tolist()]
    kinds = [n_ary, random_trees]
    predictions = [kinds[seed % 2](lengths, seed) for seed in range(count)]
    weights = [0.25 * (1 + seed * seed % 5) for seed in range(count)] if weighted else None
    averaged = average(predictions, weights)
    for sentence, length in enumerate(lengths):
        assert averaged.sentence(sentence) in all_binary_trees(0, length)
        best = max(shared(tree, predictions, sentence, weights or [1] * count) for tree in all_binary_trees(0, length))
        assert shared(averaged.sentence(sentence), predictions, sentence, weights or [1] * count) == best


@pytest.mark.parametrize("chart_bytes", [1, 10_000])
def test_a_tree_depends_neither_on_other_sentences_nor_on_the_batch_size(monkeypatch, chart_bytes):
    lengths = np.random.default_rng(0).integers(1, 20, 80)
    predictions = [random_trees(lengths, seed) for seed in range(3)]
    expected = average(predictions)
    monkeypatch.setattr("syntaxlm.trees.charts._CHART_BYTES", chart_bytes)
    averaged = average(predictions)
    assert all(averaged.sentence(i) == expected.sentence(i) for i in range(80))
    for i in range(5):
        assert average([one.select([i]) for one in predictions]).sentence(0) == expected.sentence(i)


def test_large_weights_and_long_sentences_do_not_overflow():
    lengths = np.array([130, 130, 2])
    one, other = random_trees(lengths, 0), random_trees(lengths, 1)
    for weights in ([1e12, 1.0], [1.0, 1e-12]):
        assert score(average([one, other], weights), one, EVALB, details=False).f1 == 1
    assert score(average([one, other], [1.0, 1e12]), other, EVALB, details=False).f1 == 1


def test_the_average_of_binary_trees_that_agree_is_that_tree():
    lengths = np.random.default_rng(0).integers(1, 40, 100)
    one = random_trees(lengths, 0)
    for predictions in ([one], [one, one], [one, left(lengths), one]):
        averaged = average(predictions)
        assert all(averaged.sentence(i) == one.sentence(i) for i in range(100))


def flat_of(lengths):
    """Trees without a constituent."""
    return spans_of_lists([[]] * len(lengths), lengths)


def same(one, other):
    return all(one.sentence(index) == other.sentence(index) for index in range(len(one)))


def test_first_ties_split_first_whatever_the_order_and_the_scale_of_weights():
    one, other = spans_of_lists([[(0, 2)]], [3]), spans_of_lists([[(1, 3)]], [3])
    for predictions, weights in (
        ([one, other], None),
        ([other, one], None),
        ([one, other], [0.3, 0.3]),
        ([one, one, other], [0.1, 0.2, 0.3]),  # in binary fractions 0.1 + 0.2 is more than 0.3
    ):
        assert average(predictions, weights, "first").sentence(0) == {(0, 3), (1, 3)}
    for ties in TIE_RULES:
        assert average([one, one, other], [0.1, 0.21, 0.3], ties).sentence(0) == {(0, 3), (0, 2)}


def test_ties_are_broken_at_random_by_default():
    predictions = [n_ary([3, 4, 5, 6] * 20, seed) for seed in range(2)]
    assert same(average(predictions), average(predictions, ties="random"))
    assert not same(average(predictions), average(predictions, ties="first"))


def test_random_ties_depend_only_on_the_sentence():
    lengths = np.random.default_rng(0).integers(3, 20, 80)
    predictions = [random_trees(lengths, seed) for seed in range(2)]
    expected = average(predictions)
    order = np.random.default_rng(1).permutation(80)
    assert same(average([one.select(order) for one in predictions]), expected.select(order))
    assert same(average(predictions[::-1]), expected)
    assert same(average(predictions, [0.7, 0.7]), expected)
    assert same(average([one.select([5, 5, 5]) for one in predictions]), expected.select([5, 5, 5]))


def test_random_ties_share_as_many_spans_and_are_unbiased():
    predictions = [n_ary([3, 4, 5, 6] * 20, seed) for seed in range(2)]
    first, tied = average(predictions, ties="first"), average(predictions)
    for sentence in range(80):
        assert shared(tied.sentence(sentence), predictions, sentence, [1, 1]) == shared(
            first.sentence(sentence), predictions, sentence, [1, 1]
        )
    lengths = range(10, 130, 2)
    tied = average([flat_of(lengths)])
    left_splits, right_splits = (
        sum(len(tied.sentence(i) & one.sentence(i)) for i in range(len(lengths)))
        for one in (left(lengths), right(lengths))
    )
    assert left_splits == pytest.approx(right_splits, rel=0.15)


def test_a_tie_of_two_trees_goes_either_way_in_half_of_the_sentences_of_a_length():
    rest = random_trees([8] * 600, 0)
    trees = [[(0, 3), *((start + 3, end + 3) for start, end in rest.sentence(index))] for index in range(600)]
    one, other = (spans_of_lists([[*tree, span] for tree in trees], [11] * 600) for span in ((0, 2), (1, 3)))
    averaged = average([one, other])
    assert np.mean([(0, 2) in averaged.sentence(index) for index in range(600)]) == pytest.approx(0.5, abs=0.07)


def probabilities(lengths, seed):
    """Exact probabilities: fractions of eight random trees that have each span."""
    drawn = [random_trees(lengths, 100 * seed + number) for number in range(8)]
    values = [
        1.0 if end - start == 1 else sum((start, end) in tree.sentence(index) for tree in drawn) / 8
        for index, length in enumerate(lengths)
        for end in range(1, length + 1)
        for start in range(end - 1, -1, -1)
    ]
    return SpanTable(np.array(lengths), np.array(values, np.float32)), drawn


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 2.0]])
@pytest.mark.parametrize("ties", TIE_RULES)
def test_a_prediction_of_probabilities_equals_the_trees_it_averages(weights, ties):
    lengths = [1, 2, *np.random.default_rng(0).integers(3, 9, 40).tolist()]
    (first, drawn), (second, others), trees = probabilities(lengths, 1), probabilities(lengths, 2), n_ary(lengths, 3)
    averaged = average([first, trees, second], weights, ties)
    of_first, of_trees, of_second = weights or [1, 1, 1]
    every = [*drawn, *others, trees]
    each = [of_first / 8] * 8 + [of_second / 8] * 8 + [of_trees]
    expected = average(every, each, ties)
    for sentence in range(len(lengths)):
        found = shared(averaged.sentence(sentence), every, sentence, each)
        assert found == pytest.approx(shared(expected.sentence(sentence), every, sentence, each), abs=1e-6)
    assert same(average([second, first, trees], weights and [weights[2], weights[0], weights[1]], ties), averaged)


def test_the_average_of_one_prediction_of_probabilities_has_the_spans_of_the_greatest_sum():
    lengths = [1, 2, 3, 4, 5, 6, 6, 6]
    values = np.random.default_rng(1).random(sum(n * (n + 1) // 2 for n in lengths), np.float32)
    one = SpanTable(np.array(lengths), values)
    assert same(average([one]), decode_spans(one, "cky"))
    assert same(average([one, one, one]), decode_spans(one, "cky"))


def test_words_that_no_prediction_brackets_are_right_branching_with_first_ties_as_in_the_binary_bound():
    gold = n_ary(np.random.default_rng(5).integers(1, 30, 100).tolist(), 5)
    assert same(average([gold], ties="first"), binary_upper_bound(gold))
    assert average([flat_of([6])] * 2, ties="first").sentence(0) == right([6]).sentence(0)


def test_repeated_spans_of_a_prediction_count_once():
    chain = SpanSets.of(parse_brackets("(S (A (B (C (D a b)))) c)"))
    flat = SpanSets.of(parse_brackets("(S a (B b c))"))
    assert average([chain, flat, flat]).sentence(0) == {(0, 3), (1, 3)}


def broken():
    table, _ = probabilities([3, 4], 0)
    table.values[8] = np.nan
    return table


@pytest.mark.parametrize(
    ("predictions", "weights", "message"),
    [
        ([right([3, 4]), right([3])], None, "prediction 2: found 1 trees; expected 2 as in the first"),
        ([right([3, 4]), probabilities([3], 0)[0]], None, "prediction 2: found 1 trees; expected 2"),
        (
            [right([3, 4]), left([3, 4]), right([3, 5])], None,
            "prediction 3, sentence 2: the tree has 5 words; expected 4 as in the first",
        ),
        ([probabilities([3, 4], 0)[0], right([3, 5])], None, "prediction 2, sentence 2: the tree has 5 words"),
        ([right([3, 4]), broken()], None, "sentence 2, words 1 to 2: the score of the span is nan"),
        *(
            ([right([3]), left([3])], weights, "expected 2 positive numbers, one for each prediction")
            for weights in ([1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [float("inf"), 1.0])
        ),
        # Refused before memory is taken for a chart.
        ([right([3, 5001])], None, "sentence 2: found 5,001 words; expected at most 5,000"),
    ],
)  # fmt: skip
def test_predictions_that_cannot_be_averaged_raise_an_error(predictions, weights, message):
    with pytest.raises(InputError, match=message):
        average(predictions, weights)


def test_agreement_and_averages_need_predictions_of_the_same_sentences():
    with pytest.raises(InputError, match="prediction 3, sentence 2: the tree has 5 words; expected 4 as in the first"):
        agreement([right([3, 4]), left([3, 4]), right([3, 5])], WSJ)
    with pytest.raises(ValueError, match="at least one"):
        average([])


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
def test_agreement_is_the_pairwise_f1(protocol):
    lengths = np.random.default_rng(3).integers(1, 15, 200)
    predictions = [random_trees(lengths, 0), left(lengths), decode(-np.ones(lengths.sum()), lengths, "biased")]
    found = agreement(predictions, protocol)
    assert found.sentences == score(predictions[0], predictions[1], protocol).sentences
    matrix = found.values
    assert np.array_equal(matrix, matrix.T)
    assert np.diag(matrix).tolist() == [1, 1, 1]
    for first, second in ((0, 1), (0, 2), (2, 1)):
        assert matrix[first, second] == score(predictions[first], predictions[second], protocol).f1


@pytest.fixture
def files(tmp_path):
    """Three files of trees for the same sentences: two similar ones, and one with left-branching trees."""
    lengths = np.random.default_rng(1).integers(1, 12, 50)
    words = [[f"w{place}" for place in range(length)] for length in lengths]
    one = random_trees(lengths, 0)
    for name, spans in (("a", one), ("b", one), ("odd", left(lengths))):
        write_brackets(trees_of(spans, words), tmp_path / f"{name}.mrg")
    return [tmp_path / f"{name}.mrg" for name in ("a", "odd", "b")]


def test_files_are_averaged_and_an_outlier_agrees_least(files):
    result = average_files(files, WSJ)
    assert parse_brackets("\n".join(result.brackets())) == read_brackets(files[0])
    figures = result.to_dict()
    assert figures["with_average"][0] == figures["with_average"][2] == figures["agreement"][0][2] == 1
    low = figures["agreement"][0][1]
    assert figures["with_others"] == pytest.approx([(1 + low) / 2, low, (1 + low) / 2])
    assert figures["with_average"][1] == low
    assert f"{100 * low:.1f}" in str(result).splitlines()[-2]
    assert average_files(files, WSJ, [1, 5, 1]).to_dict()["with_average"][1] == 1


@pytest.mark.parametrize("ties", TIE_RULES)
def test_files_are_averaged_with_the_given_rule_for_ties(files, ties):
    result = average_files(files[:2], WSJ, ties=ties)
    predictions = [SpanSets.of(read_brackets(path)) for path in files[:2]]
    assert same(result.spans, average(predictions, ties=ties))
    assert result.to_dict()["ties"] == ties
    assert str(result).splitlines()[0].endswith(f"   sentences 45   ties {ties}")
    assert average_files(files[:2], WSJ).ties == "random"


def test_files_of_different_sentences_raise_an_error_with_both_sentences(files):
    lines = files[1].read_text().splitlines()
    files[1].write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match=f"{files[1]}: found 49 trees; expected 50 as in {files[0]}"):
        average_files(files, WSJ)
    lines[3] = "(X (X an odd) (X one (X of (X seven words (X that)))))"
    files[1].write_text("\n".join(lines) + "\n")
    found = rf"{files[0]}, sentence 4: .* that of {files[1]} has 7\.\n  file 1: w0.*\n  file 2: an odd one of seven"
    with pytest.raises(InputError, match=rf"{found} words that   \({files[1]}, tree 4\)\nAll files"):
        average_files(files, WSJ)


def test_an_ambiguous_file_is_read_like_the_others(tmp_path):
    (tmp_path / "a.mrg").write_text("(X (X the cat) sat)\n")
    (tmp_path / "b.mrg").write_text("(the (cat sat))\n")
    averaged = average_files([tmp_path / "a.mrg", tmp_path / "b.mrg"], WSJ, ties="first")
    assert averaged.brackets() == ["(X the (X cat sat))"]


def test_one_file_raises_an_error(files):
    with pytest.raises(InputError, match="found 1 file of trees; expected two or more"):
        average_files(files[:1], WSJ)


@pytest.mark.parametrize(("length", "count"), [(1, 3), (2, 2), (7, 2), (12, 5), (40, 3)])
def test_charts_filled_by_width_equal_those_filled_split_by_split(length, count, monkeypatch):
    weights = np.random.default_rng(length).integers(-2, 4, (length * (length + 1) // 2, count))
    found = []
    for few_words in (0, 10_000):
        monkeypatch.setattr(charts, "_FEW_WORDS", few_words)
        found.append(charts.best(weights))
    assert all(map(np.array_equal, *found))
