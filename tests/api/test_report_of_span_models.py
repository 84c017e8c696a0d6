"""Drawings and reports of models that score spans or give their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from syntaxlm.api.model_report import page_of, read_run
from syntaxlm.cli import main, quickstart
from syntaxlm.drawing.sentence import Drawing
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.trees.decoding import SPAN_RULES
from syntaxlm.trees.tree import parse_brackets
from tests.drawing.reading import drawn, of_role, read_svg, tooltip
from tests.fresh_models import fresh
from tests.parsing.span_models import NAMES, bracketing, scoring

SENTENCE = "the old cat sees a dog"
GOLD = "(S (NP the old cat) (VP sees (NP a dog)))"
PROBABILITIES = "probability of each span given the sentence, 0 to 1"


@pytest.mark.parametrize(
    ("model", "decoder"),
    [(name, rule) for name in NAMES for rule in (None, *SPAN_RULES)]
    + [("probabilities", rule) for rule in (None, "mbr", "viterbi")],
)
def test_the_tree_of_the_decoder_is_above_a_chart_with_a_cell_for_every_span(model, decoder):
    stored = bracketing() if model == "probabilities" else scoring(model)
    options, words = ParseOptions(decoder=decoder), SENTENCE.split()
    (parse,) = parse_lines(stored, [SENTENCE], options)
    for sentence in (SENTENCE, words):
        analysis = analyse(stored, sentence, options)
        assert analysis.tree == parse.tree
        assert analysis.distances == ()
        svg = Drawing(analysis, *parse_brackets(GOLD)).picture().svg()
        assert (PROBABILITIES in svg) == (model == "probabilities")
        root = read_svg(svg)
        assert not of_role(root, "bar")
        values = parse.marginals if model == "probabilities" else np.exp(parse.span_scores)
        expected = {
            f"{words[first]} → {words[last]}: {values[first, last]:.4g}"
            for last in range(6)
            for first in range(last + 1)
        }
        cells = {tooltip(cell) for role in ("cell", "negative") for cell in of_role(root, role)}
        assert cells - {None, ""} == expected


@pytest.mark.parametrize("stored", [scoring, bracketing])
def test_a_sentence_of_one_word_is_drawn(stored):
    picture = Drawing(analyse(stored(), "cat")).picture()
    assert "cat" in [drawn(word) for word in of_role(read_svg(picture.svg()), "word")]


def test_a_model_with_distances_has_bars_and_no_chart(prpn):
    drawing = Drawing(analyse(prpn, SENTENCE))
    assert of_role(read_svg(drawing.picture().svg()), "bar")
    assert drawing.scores_pictures() == ()


@pytest.mark.parametrize("ending", ["svg", "html", "tex"])
@pytest.mark.parametrize(
    ("stored", "decoder", "title"), [(scoring, "cky", "span scores"), (bracketing, "viterbi", PROBABILITIES)]
)
def test_the_command_draws_it(stored, decoder, title, ending, tmp_path, monkeypatch):
    monkeypatch.setattr("syntaxlm.storage.sources.read_model", lambda folder: stored())
    path = tmp_path / f"cat.{ending}"
    assert main(["draw", "MODEL", SENTENCE, "--decoder", decoder, "-o", str(path)]) == 0
    assert (title in path.read_text(encoding="utf-8")) == (ending != "tex")


@pytest.mark.parametrize(
    ("stored", "decoder", "texts"),
    [
        pytest.param(
            scoring(),
            "greedy-sum",
            ["greedy-right<", "greedy-sum (chosen)", "cky<", "span scores, decoded by greedy-"],
            marks=pytest.mark.long,
        ),
        (bracketing(), "mbr", ["mbr (chosen)", "span probabilities, decoded by mbr", ">Induced labels<"]),
        pytest.param(bracketing(labelled=False), None, ["mbr (chosen)"], marks=pytest.mark.long),
    ],
)
def test_a_report_has_all_decoders_and_the_label_mapping_of_labelled_spans(stored, decoder, texts, toy, trained):
    parsing = evaluate_parsing(stored, toy / "test.mrg", decoder=decoder)
    page = page_of(stored, read_run(trained.lstm), parsing)
    html = page.html()
    assert page.left_out == {}
    assert all(text in html for text in texts)
    assert ("Induced labels" in html) == (parsing.labels is not None)
    if parsing.labels is not None:
        accuracy, matched = 100 * parsing.labels.accuracy, parsing.labels.matched
        assert f"Many-to-one accuracy {accuracy:.1f}: of the {matched:,}" in html
        assert all(one.label in html for one in parsing.labels.labels)
    assert "layer" not in "".join(figure.source for figure in page.key_figures)
    assert "neither distances" not in html


@pytest.mark.long
def test_the_quickstart_parses_by_the_default_decoder(toy, trained, tmp_path, monkeypatch):
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


def test_the_scores_of_a_model_that_was_trained_with_trees_are_drawn_as_they_are():
    """They are lengths of vectors, not logarithms of shares of the attention."""
    stored, words = fresh("lstm that learns from trees"), SENTENCE.split()
    (parse,) = parse_lines(stored, [SENTENCE])
    expected = {
        f"{words[first]} → {words[last]}: {parse.span_scores[first, last]:.4g}"
        for last in range(6)
        for first in range(last + 1)
    }
    for sentence in (SENTENCE, words):
        analysis = analyse(stored, sentence)
        assert {note.fill for note in analysis.span_notes.values()} == {0.0}
        svg = Drawing(analysis).picture().svg()
        assert "span scores, whose sum over both parts is the score of a split" in svg
        assert "attention" not in svg
        cells = {tooltip(cell) for role in ("cell", "negative") for cell in of_role(read_svg(svg), role)}
        assert cells - {None, ""} == expected


def test_constituents_without_values_are_not_said_to_have_distances():
    analysis = analyse(fresh("dmv"), SENTENCE)
    assert analysis.span_notes
    assert {note.tooltip for note in analysis.span_notes.values()} == {"constituent"}
