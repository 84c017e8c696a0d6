"""The best trees of a sentence, their probabilities and confidence, and the reliability of these."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.evaluation.reliability import reliability
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.models.abilities import ScoresTrees
from syntaxlm.models.registry import model_types_with
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.structure import structure_of
from syntaxlm.storage.combination import combine
from syntaxlm.storage.folder import write_model
from syntaxlm.trees.averaging import best_averages
from syntaxlm.trees.charts import k_best, spans_in
from syntaxlm.trees.decoding import SpanTable
from syntaxlm.trees.f1 import PROTOCOLS, score
from syntaxlm.trees.marks import MarkClass, Marks
from tests.fresh_models import fresh
from tests.grammar_models import grammar
from tests.trees.enumeration import all_binary_trees, spans_of_lists

LINE = "the old cat sees a dog"
CATALAN = 42  # binary trees over six words


def span_weights(length, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(length * (length + 1) // 2, columns))


@pytest.mark.parametrize("length", range(1, 7))
def test_the_best_trees_are_those_of_an_enumeration(length):
    weights = span_weights(length, 3)
    starts, ends = spans_in(length)
    row_of = {span: row for row, span in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))}
    scores, spans = k_best(weights, 7)
    for column in range(3):
        words = weights[:length, column].sum() * (length > 1)
        trees = all_binary_trees(0, length) if length > 1 else [frozenset({(0, 1)})]
        every = [(words + sum(weights[row_of[span], column] for span in tree), tree) for tree in trees]
        best = sorted(every, key=lambda pair: -pair[0])[:7]
        for rank, (weight, tree) in enumerate(best):
            assert scores[rank, column] == pytest.approx(weight)
            found = {(int(starts[row]), int(ends[row])) for row in np.flatnonzero(spans[:, rank, column])}
            assert found - {(place, place + 1) for place in range(length if length > 1 else 0)} == tree
        assert (scores[len(best) :, column] == -np.inf).all()


def test_violations_of_marks_change_the_order_but_not_the_confidence():
    lengths = np.array([3])
    values = np.array([1, 1, 0.6, 1, 0.4, 1], np.float32)  # by end, then by length: (0, 2) has 0.6 and (1, 3) has 0.4
    table = SpanTable(lengths, values)
    gaps = np.array([0, MarkClass.COMMA, 0, 0], np.int16)  # a mark before the second word: (0, 2) violates it
    marks = Marks(gaps, lengths, "both")
    plain, marked = best_averages([table], 9), best_averages([table], 9, marks)
    assert [tree.spans[1] for tree in plain[0]] == [(0, 2), (1, 3)]
    assert [tree.spans[1] for tree in marked[0]] == [(1, 3), (0, 2)]
    assert [tree.confidence for tree in marked[0]] == pytest.approx([0.4, 0.6])


TREE_SCORERS = sorted(set(model_types_with(ScoresTrees)) - {"combination", "parser-combination"})


def model_of(name):
    """A model with trees of different probabilities, in float64."""
    if name == "combination":
        return combine([grammar("simple-pcfg"), grammar("simple-pcfg", sharpness=3.0)])
    if "pcfg" in name and name != "dep-pcfg":
        return grammar(name)
    stored = fresh(name)
    return replace(stored, model=stored.model.double().eval())


@pytest.mark.parametrize("name", TREE_SCORERS)
def test_the_probabilities_of_all_trees_add_up_to_one_and_to_the_marginals(name):
    stored = model_of(name)
    (parse,) = parse_lines(stored, [LINE], ParseOptions(decoder="mbr", best=100))
    assert len(parse.alternatives) == CATALAN
    probabilities = np.array([way.probability for way in parse.alternatives])
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)
    for start, end in ((0, 2), (1, 4), (2, 6)):
        having = [(start, end) in {tuple(part[1:]) for part in way.tree.constituents} for way in parse.alternatives]
        assert probabilities[having].sum() == pytest.approx(parse.marginals[start, end - 1], abs=1e-5)


SHORT = ("simple-pcfg", "neural-pcfg", "diora")  # of one set of rules, with tables, and without a grammar


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in (*TREE_SCORERS, "combination")],
)
def test_samples_have_the_probabilities_of_their_trees(name):
    stored = model_of(name)
    count = 2000
    options = ParseOptions(decoder="mbr", samples=count)
    parse, single, again = parse_lines(stored, ["the old cat sees", "cat", "the old cat sees"], options)
    assert [way.tree for way in parse.alternatives] == [way.tree for way in again.alternatives]
    assert {way.probability for way in single.alternatives} == {1.0}
    (exact,) = parse_lines(stored, ["the old cat sees"], ParseOptions(decoder="mbr", best=5))
    drawn = Counter(str(way.tree) for way in parse.alternatives)
    for way in exact.alternatives:
        error = (way.probability * (1 - way.probability) / count) ** 0.5
        assert drawn[str(way.tree)] / count == pytest.approx(way.probability, abs=5 * error + 1e-6)
    assert len({(str(way.tree), round(way.probability, 9)) for way in parse.alternatives}) == len(drawn)


def test_samples_are_refused_for_averages_together_with_best_and_without_probabilities_of_trees():
    with pytest.raises(InputError, match="samples: found together with best"):
        ParseOptions(samples=2, best=2)
    with pytest.raises(InputError, match="samples: found 2 models; expected one"):
        parse_lines([grammar("simple-pcfg"), grammar("simple-pcfg")], [LINE], ParseOptions(samples=2))
    with pytest.raises(InputError, match="samples: found prpn with decoder biased"):
        parse_lines(fresh("prpn"), [LINE], ParseOptions(samples=2))


def test_a_combination_has_the_mean_probability_of_its_parsers():
    parsers = [grammar("simple-pcfg"), grammar("simple-pcfg", sharpness=3.0)]
    ways = [parse_lines(one, [LINE], ParseOptions(best=50)) for one in (*parsers, combine(parsers))]
    first, second, both = ({str(way.tree): way.probability for way in next(iter(batch)).alternatives} for batch in ways)
    for tree, probability in both.items():
        assert probability == pytest.approx((first[tree] + second[tree]) / 2, abs=1e-6)


def test_the_first_alternative_is_the_tree_and_has_its_confidence():
    stored = grammar("simple-pcfg")
    parses = parse_lines(stored, [LINE, "", "cat", "the cat"], ParseOptions(best=3))
    for parse in parses:
        if parse:
            assert [part[1:] for part in parse.tree.constituents] == [
                part[1:] for part in parse.alternatives[0].tree.constituents
            ]
            assert parse.confidence == pytest.approx(parse.alternatives[0].confidence, abs=1e-6)
            assert parse.to_dict()["alternatives"][0]["spans"] == parse.to_dict()["spans"]
        assert len(parse.alternatives) == {6: 3, 0: 0, 1: 1, 2: 1}[len(parse)]


def test_models_without_span_probabilities_are_refused():
    with pytest.raises(InputError, match="best: found prpn with decoder biased; expected a model of span prob"):
        parse_lines(fresh("prpn"), [LINE], ParseOptions(best=2))
    (parse,) = parse_lines([grammar("simple-pcfg"), fresh("prpn")], [LINE], ParseOptions(best=2))
    assert [way.probability for way in parse.alternatives] == [None, None]


@pytest.fixture
def folder(tmp_path):
    stored = grammar("simple-pcfg")
    stored.model.float()
    write_model(tmp_path / "model", stored)
    return str(tmp_path / "model")


def test_the_command_writes_the_best_trees_in_every_format(folder, tmp_path, capsys):
    assert main(["parse", folder, "--text", LINE, "--best", "2", "--format", "brackets"]) == 0
    first, second, empty = capsys.readouterr().out.splitlines()
    assert first.startswith("confidence 0.")
    assert first.split("\t")[2].startswith("(X ")
    assert second != first
    assert empty == ""
    assert main(["parse", folder, "--text", LINE, "--best", "2", "--format", "tsv"]) == 0
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    ranks = [row[header.index("rank")] for row in rows]
    assert ranks == ["1"] * 5 + ["2"] * 5
    assert main(["parse", folder, "--text", LINE, "--best", "2", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["alternatives"]) == 2
    assert main(["parse", folder, "--text", LINE, "--best", "0"]) == 2


def test_reliability_counts_correct_constituents_by_probability():
    lengths = np.array([4, 3])
    gold = spans_of_lists([[(0, 4), (0, 2), (2, 4)], [(0, 3), (1, 3)]], [4, 3])
    trees = spans_of_lists([[(0, 4), (0, 2), (2, 4)], [(0, 3), (0, 2)]], [4, 3])
    values = np.zeros(16, np.float32)
    table = SpanTable(lengths, values)
    values[2], values[7], values[10 + 2] = 0.95, 0.55, 0.31  # (0, 2) and (2, 4); (0, 2) of the second sentence
    found = reliability(table, trees, gold, score(trees, gold, PROTOCOLS["wsj-test"]))
    assert [(one.size, round(one.probability, 4), one.correct) for one in found.constituents] == [
        (1, 0.31, 0.0), (1, 0.55, 1.0), (1, 0.95, 1.0)
    ]  # fmt: skip
    assert [(one.size, round(one.probability, 4), one.correct) for one in found.sentences] == [
        (1, 0.31, 0.0), (1, 0.75, 1.0)
    ]  # fmt: skip
    assert found.error == pytest.approx((0.31 + 0.45 + 0.05) / 3, abs=1e-6)
    assert found.plot().axes[0].lines[1].get_ydata().tolist() == [0, 1, 1]


def test_the_evaluation_reports_reliability(tmp_path):
    gold = tmp_path / "gold.mrg"
    gold.write_text("(S (NP (D the) (N cat)) (VP (V sees) (NP (D a) (N dog))))\n" * 2)
    stored = grammar("simple-pcfg")
    report = evaluate_parsing(stored, gold, preprocessing="none")
    found = report.reliability
    table = structure_of(stored, [["the", "cat", "sees", "a", "dog"]]).table
    assert sum(one.size for one in found.constituents) == 6
    mean = sum(one.size * one.probability for one in found.constituents) / 6
    spans = [
        (start, end) for _, start, end in next(iter(parse_lines(stored, ["the cat sees a dog"]))).tree.constituents
    ]
    assert mean == pytest.approx(np.mean([table.chart(0)[start, end - 1] for start, end in spans[1:]]), abs=1e-5)
    assert "reliability of probabilities" in str(report)
    assert math.isclose(report.report().to_dict()["reliability"]["expected_calibration_error"], found.error)
    assert evaluate_parsing(fresh("prpn"), gold, preprocessing="none").reliability is None


def test_options_that_contradict_several_trees_are_refused(folder, capsys):
    for options, message in (
        ({"best": 2, "labels": True}, "labels: found together with best"),
        ({"samples": 2, "labels": True}, "labels: found together with samples"),
        ({"sample_seed": 2}, "sample_seed: found without samples"),
    ):
        with pytest.raises(InputError, match=message):
            ParseOptions(**options)
    for format_name in ("latex", "svg"):
        assert main(["parse", folder, "--text", LINE, "--best", "2", "--format", format_name]) == 2
        assert f"--best: --format {format_name} writes one tree of a sentence" in capsys.readouterr().err
