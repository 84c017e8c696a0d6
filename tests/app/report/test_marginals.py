"""Drawings and reports of a model that gives span probabilities."""

from __future__ import annotations

import pytest

from syntaxlm.app.cli import main
from syntaxlm.app.report.report import page_of, read_run
from syntaxlm.app.report.sentence import analyse
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.parsing.evaluation import evaluate_parsing
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from tests.drawing.reading import of_role, read_svg, tooltip
from tests.parsing.span_models import bracketing

SENTENCE = "the old cat sees a dog"
WORDS = SENTENCE.split()
TITLE = "probability of each span given the sentence, 0 to 1"


@pytest.mark.parametrize("rule", [None, "mbr", "viterbi"])
def test_the_tree_is_above_a_chart_of_the_probability_of_every_span(rule):
    stored = bracketing()
    (parse,) = parse_lines(stored, [SENTENCE], ParseOptions(decoder=rule))
    for sentence in (SENTENCE, WORDS):
        analysis = analyse(stored, sentence, ParseOptions(decoder=rule))
        assert analysis.tree == parse.tree
        assert analysis.distances == ()
        svg = Drawing(analysis).picture().svg()
        assert TITLE in svg
        root = read_svg(svg)
        assert not of_role(root, "bar")
        assert not of_role(root, "negative")
        expected = {
            f"{WORDS[first]} → {WORDS[last]}: {parse.marginals[first, last]:.4g}"
            for last in range(6)
            for first in range(last + 1)
        }
        assert f"{WORDS[0]} → {WORDS[0]}: 1" in expected
        assert f"{WORDS[0]} → {WORDS[5]}: 1" in expected
        assert {tooltip(cell) for cell in of_role(root, "cell") if tooltip(cell)} == expected


def test_a_sentence_of_one_word_is_drawn():
    assert TITLE in Drawing(analyse(bracketing(), "cat")).picture().svg()


@pytest.mark.parametrize("ending", ["svg", "html", "tex"])
def test_the_command_draws_it(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.storage.folder.read_model", lambda folder: bracketing())
    path = tmp_path / f"cat.{ending}"
    assert main(["draw", "MODEL", SENTENCE, "--decoder", "viterbi", "-o", str(path)]) == 0
    assert (TITLE in path.read_text(encoding="utf-8")) == (ending != "tex")


def test_a_report_has_the_structure_and_the_label_mapping(toy, trained):
    stored = bracketing()
    parsing = evaluate_parsing(stored, toy / "test.mrg")
    page = page_of(stored, read_run(trained.lstm), parsing)
    text = page.html()
    assert page.left_out == {}
    assert "mbr (chosen)" in text
    assert "span probabilities, decoded by mbr" in text
    assert "Induced labels, mapped many-to-one to gold labels" in text
    assert f"Many-to-one accuracy {100 * parsing.labels.accuracy:.1f}: of the {parsing.labels.matched:,}" in text
    for one in parsing.labels.labels:
        assert one.label in text


def test_a_report_of_a_model_without_labels_has_no_label_section(toy, trained):
    stored = bracketing(labelled=False)
    text = page_of(stored, read_run(trained.lstm), evaluate_parsing(stored, toy / "test.mrg")).html()
    assert "Induced labels" not in text
