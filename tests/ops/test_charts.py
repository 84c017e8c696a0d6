"""Charts in torch, and best trees in NumPy: against all binary trees of up to 6 words, and against each other."""

import math
from functools import cache
from types import ModuleType

import numpy as np
import pytest
import torch

from syntaxlm.ops import charts as torch_charts
from syntaxlm.trees import charts as numpy_charts
from tests.trees.enumeration import all_binary_trees

FORMS = {"NumPy": numpy_charts, "torch": torch_charts}
WEIGHTS = ["normal", "zero", "equal", "small integers", "large", "partly -inf", "tree or -inf"]


def call(form: str, function: str, *arrays, **options):
    """A function of one of the modules on NumPy arrays, its results as NumPy arrays."""
    module: ModuleType = FORMS[form]
    if form == "torch":
        arrays = tuple(None if array is None else torch.from_numpy(array) for array in arrays)
    result = getattr(module, function)(*arrays, **options)
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result)


@cache
def tree_matrices(length: int) -> tuple[np.ndarray, np.ndarray]:
    """The spans (including one-word spans) and splits of each binary tree, in row order."""
    rows = [(start, start + width) for width in range(1, length + 1) for start in range(length - width + 1)]
    splits = [
        (start, start + part, start + width)
        for width in range(2, length + 1)
        for part in range(1, width)
        for start in range(length - width + 1)
    ]
    trees = [tree | {(word, word + 1) for word in range(length)} for tree in all_binary_trees(0, length)]
    spans = np.array([[row in tree for row in rows] for tree in trees])
    made = [[(a, b) in tree and (b, c) in tree and (a, c) in tree for a, b, c in splits] for tree in trees]
    return spans, np.array(made, bool).reshape(len(trees), -1)


def drawn(kind: str, rows: int, count: int, seed: int = 0) -> np.ndarray:
    source = np.random.default_rng([seed, rows, count])
    weights = source.standard_normal((rows, count))
    if kind == "zero":
        weights[:] = 0
    if kind == "equal":
        weights[:] = -2.5
    if kind == "small integers":
        weights = source.integers(-1, 2, (rows, count)).astype(np.float64)
    if kind == "large":
        weights *= 1000
    if kind == "partly -inf":
        weights[source.random((rows, count)) < 0.2] = -np.inf
    if kind == "tree or -inf":
        weights[source.random((rows, count)) < 0.6] = -np.inf
    return weights


def with_all_trees(length: int, weights: np.ndarray, split_weights: np.ndarray | None):
    """(trees, B) the weight of every tree."""
    spans, splits = tree_matrices(length)
    weighed = np.stack([np.where(tree[:, None], weights, 0).sum(0) for tree in spans])
    if split_weights is not None:
        weighed += np.stack([np.where(tree[:, None], split_weights, 0).sum(0) for tree in splits])
    return weighed


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("with_splits", [False, True])
@pytest.mark.parametrize("length", range(1, 7))
def test_total_best_and_marginals_are_those_of_all_binary_trees(kind, with_splits, length):
    spans, _ = tree_matrices(length)
    for count in (0, 1, 5):
        weights = drawn(kind, length * (length + 1) // 2, count)
        split_weights = drawn(kind, math.comb(length + 1, 3), count, seed=1) if with_splits else None
        weighed = with_all_trees(length, weights, split_weights)
        expected = np.logaddexp.reduce(weighed, axis=0)
        np.testing.assert_allclose(call("torch", "total", weights, split_weights), expected, rtol=1e-12, atol=1e-12)

        with np.errstate(invalid="ignore"):
            probabilities = np.nan_to_num(np.exp(weighed - expected))
        log_totals, marginals = call("torch", "marginals", weights, split_weights)
        np.testing.assert_allclose(log_totals, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(marginals, spans.T.astype(float) @ probabilities, rtol=1e-9, atol=1e-12)

        scores, best = call("torch", "best", weights, split_weights)
        if not with_splits and count:
            in_numpy = call("NumPy", "best", weights)
            np.testing.assert_allclose(in_numpy[0], scores, rtol=1e-12, atol=1e-12)
            assert np.array_equal(in_numpy[1], best)
        np.testing.assert_allclose(scores, weighed.max(0), rtol=1e-12, atol=1e-12)
        assert best.dtype == bool
        found = [np.flatnonzero((spans == column).all(1)) for column in best.T]
        for sentence, trees in enumerate(found):
            assert len(trees) == 1
            assert weighed[trees[0], sentence] == pytest.approx(weighed[:, sentence].max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number_type", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("length", range(1, 7))
def test_ties_go_to_the_first_split_of_every_span(form, number_type, length):
    """The enumeration is sorted by the first split, recursively in both parts."""
    weights = np.random.default_rng(length).integers(-1, 2, (length * (length + 1) // 2, 300)).astype(number_type)
    spans, _ = tree_matrices(length)
    expected = spans[with_all_trees(length, weights, None).argmax(0)]
    assert np.array_equal(call(form, "best", weights)[1], expected.T)


@pytest.mark.parametrize(("length", "count"), [(3, 1), (23, 4), (60, 2)])
def test_both_forms_agree_on_long_sentences(length, count):
    weights = drawn("normal", length * (length + 1) // 2, count)
    log_totals, marginals = call("torch", "marginals", weights)
    np.testing.assert_allclose(call("torch", "total", weights), log_totals, rtol=1e-12)
    np.testing.assert_allclose(marginals.sum(0), 2 * length - 1)
    (scores, spans), (expected_scores, expected_spans) = (call(form, "best", weights) for form in FORMS)
    assert np.array_equal(spans, expected_spans)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 10, 60])
def test_equal_weights_count_the_binary_trees(length):
    weights = np.zeros((length * (length + 1) // 2, 2))
    catalan = math.comb(2 * length - 2, length - 1) // length
    assert call("torch", "total", weights) == pytest.approx([math.log(catalan)] * 2)


def test_sentences_without_possible_trees_have_no_mass_and_do_not_affect_others():
    weights = drawn("normal", 15, 3)
    alone = call("torch", "marginals", np.ascontiguousarray(weights[:, ::2]))
    weights[2, 1] = -np.inf  # a one-word span, which every tree has
    log_totals, marginals = call("torch", "marginals", weights)
    assert np.isneginf(log_totals).tolist() == [False, True, False]
    assert not marginals[:, 1].any()
    np.testing.assert_array_equal(marginals[:, ::2], alone[1])


@pytest.mark.parametrize("form", FORMS)
def test_integers_are_added_exactly(form):
    """Weights differ in the last digit, which float64 cannot represent."""
    weights = np.full((6, 2), 10**17)
    weights[3, 0] += 1  # words 1 and 2
    weights[4, 1] += 1  # words 2 and 3
    scores, spans = call(form, "best", weights)
    assert scores.tolist() == [5 * 10**17 + 1] * 2
    assert spans[3].tolist() == [True, False]
    assert spans[4].tolist() == [False, True]


@pytest.mark.parametrize("function", ["total", "marginals", "best"])
def test_arrays_of_wrong_shapes_raise_an_error(function):
    for shape in ((0, 2), (5, 2), (6,), (3, 2, 2)):
        for form in FORMS if function == "best" else ("torch",):
            with pytest.raises(ValueError, match=r"expected \(n\(n \+ 1\)/2, sentences\) for n words"):
                call(form, function, np.zeros(shape))
    for shape in ((3, 2), (4, 1)):
        with pytest.raises(ValueError, match=r"expected \(4, 2\) for 3 words"):
            call("torch", function, np.zeros((6, 2)), np.zeros(shape))


def test_random_split_weights_of_a_span_make_every_split_equally_probable():
    """The start of EM of a constituent-context model: the weight of a span is -log of its number of splits."""
    starts, ends = numpy_charts.spans_in(4)
    weights = -np.log(np.maximum(ends - starts - 1, 1))[:, None]
    marginals = torch_charts.marginals(torch.from_numpy(weights))
    assert marginals.log_totals == pytest.approx([0])
    of_spans = marginals.spans[:, 0].tolist()
    by_span = dict(zip(zip(starts.tolist(), ends.tolist(), strict=True), of_spans, strict=True))
    assert by_span[0, 2] == pytest.approx(1 / 3 + 1 / 6)
    assert by_span[1, 3] == pytest.approx(1 / 3)
    assert by_span[1, 4] == pytest.approx(1 / 3)


@pytest.mark.parametrize("number_type", [torch.float32, torch.bfloat16])
def test_torch_results_have_the_dtype_of_the_weights(number_type):
    weights = torch.zeros(10, 2, dtype=number_type)
    results = torch_charts.total(weights), torch_charts.best(weights).scores, torch_charts.marginals(weights).spans
    assert {result.dtype for result in results} == {number_type}
