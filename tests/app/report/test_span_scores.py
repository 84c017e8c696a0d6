"""Drawings and reports of a model that scores spans."""

from __future__ import annotations

import json
import math

import pytest

from syntaxlm.app import quickstart
from syntaxlm.app.cli import main
from syntaxlm.app.report.report import page_of, read_run
from syntaxlm.app.report.sentence import analyse
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.parsing.evaluation import evaluate_parsing
from syntaxlm.parsing.options import DecodingOptions, ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.trees.decoding import SPAN_RULES
from syntaxlm.trees.tree import parse_brackets
from tests.drawing.reading import drawn, of_role, read_svg, tooltip
from tests.parsing.span_models import NAMES, scoring

SENTENCE = "the old cat sees a dog"
GOLD = "(S (NP the old cat) (VP sees (NP a dog)))"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", [None, *SPAN_RULES])
def test_the_tree_of_the_rule_is_above_a_chart_with_a_cell_for_every_span(name, rule):
    stored = scoring(name)
    (parse,) = parse_lines(stored, [SENTENCE], ParseOptions(decoder=rule))
    for sentence in (SENTENCE, SENTENCE.split()):
        analysis = analyse(stored, sentence, ParseOptions(decoder=rule))
        assert analysis.tree == parse.tree
        assert analysis.distances == ()
        root = read_svg(Drawing(analysis, *parse_brackets(GOLD)).picture().svg())
        assert not of_role(root, "bar")
        words = SENTENCE.split()
        expected = {
            f"{words[first]} → {words[last]}: {math.exp(parse.span_scores[first, last]):.4g}"
            for last in range(6)
            for first in range(last + 1)
        }
        cells = [tooltip(cell) for role in ("cell", "negative") for cell in of_role(root, role)]
        assert len(cells) >= 21  # those of the legend, too
        assert {cell for cell in cells if cell} == expected


def test_a_sentence_of_one_word_is_drawn():
    picture = Drawing(analyse(scoring(), "cat")).picture()
    assert "cat" in [drawn(word) for word in of_role(read_svg(picture.svg()), "word")]


def test_a_model_with_distances_has_bars_and_no_chart(prpn):
    drawing = Drawing(analyse(prpn, SENTENCE))
    assert of_role(read_svg(drawing.picture().svg()), "bar")
    assert drawing.scores_pictures() == ()


@pytest.mark.parametrize("ending", ["svg", "html", "tex"])
def test_the_command_draws_it(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.storage.folder.read_model", lambda folder: scoring())
    path = tmp_path / f"cat.{ending}"
    assert main(["draw", "MODEL", SENTENCE, "--decoder", "cky", "-o", str(path)]) == 0
    if ending in ("svg", "html"):
        assert "span scores" in path.read_text(encoding="utf-8")


def test_a_report_has_all_rules_and_the_best_and_worst_trees(toy, trained):
    stored = scoring()
    parsing = evaluate_parsing(stored, toy / "test.mrg", options=DecodingOptions(decoder="greedy-sum"))
    page = page_of(stored, read_run(trained.lstm), parsing)
    text = page.html()
    assert page.left_out == {}
    for row in (
        "greedy-right<",
        "greedy-sum (chosen)",
        "cky<",
        "span scores, decoded by greedy-right and greedy-sum and",
    ):
        assert row in text
    assert "layer" not in "".join(figure.source for figure in page.key_figures)
    assert "neither distances" not in text


def test_the_command_report_evaluates_it(toy, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("syntaxlm.app.report.report.read_model", lambda folder: scoring())
    assert main(["report", str(trained.lstm), str(toy / "test.mrg"), "-o", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == {}
    assert "greedy-right (chosen)" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_random_weights_are_a_row_of_the_report(prpn, toy, trained):
    parsing = evaluate_parsing(prpn, toy / "test.mrg", random_weights=2)
    text = page_of(prpn, read_run(trained.prpn), parsing).html()
    assert ">random weights, biased<" in text


def test_the_quickstart_parses_by_the_default_rule(toy, trained, tmp_path, monkeypatch):
    def trained_already(recipe, folder, watcher):
        folder.mkdir(parents=True)
        return quickstart.TrainingResult(folder, 3, 0.1, 1.0)

    monkeypatch.setattr(quickstart, "SENTENCES", 200)
    monkeypatch.setattr(quickstart, "train", trained_already)
    monkeypatch.setattr(quickstart, "read_model", lambda folder: scoring())
    result = quickstart.run_quickstart(tmp_path / "quick", "lstm", say=lambda line: None)
    assert result.parsing.chosen == "greedy-right"
    assert len(result.drawn) == 3
    assert "greedy-right (chosen)" in result.report.read_text(encoding="utf-8")
