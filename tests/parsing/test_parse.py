"""Parses of models with span probabilities: labels, JSON, and averages with other models."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from syntaxlm.cli import main
from syntaxlm.core.files import to_json
from syntaxlm.drawing.latex import format_latex
from syntaxlm.drawing.terminal import draw_tree
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.parsing.result import CONSTITUENTS, NotRead, Parse
from syntaxlm.parsing.structure import structure_of
from syntaxlm.reports.writers import blocks_of, format_blocks
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.trees.averaging import average
from syntaxlm.trees.charts import TIE_RULES
from syntaxlm.trees.spans import format_spans
from syntaxlm.trees.tree import Constituent, Tree, parse_brackets
from tests.fresh_models import KNOWN, fresh
from tests.parsing.span_models import bracketing, scoring

LINES = ["", "the old cat sees a dog", "dog", " ", "a dog", "cat , the old N sees ( b )"]


@pytest.fixture
def folders(monkeypatch):
    """Model folders for the command line, by name."""
    models = {"brackets": bracketing(), "prpn": fresh("prpn"), "palm": fresh("palm")}
    monkeypatch.setattr("syntaxlm.storage.sources.read_model", lambda folder: models[str(folder)])
    return models


def tagged(stored):
    """The same model, reading tags."""
    other = fresh("prpn", units="tags")
    return dataclasses.replace(stored, settings=other.settings, vocabulary=other.vocabulary)


@pytest.mark.parametrize("rule", ["mbr", "viterbi"])
def test_labels_are_in_the_brackets_of_spans_and_words(rule):
    stored = bracketing()
    plain, labelled = (
        list(parse_lines(stored, LINES, ParseOptions(decoder=rule, labels=labels))) for labels in (False, True)
    )
    texts = parse_lines(stored, LINES, ParseOptions(decoder=rule, labels=True)).brackets()
    spans = structure_of(stored, [line.split() for line in LINES if line.strip()]).labelled(rule)
    sentence = 0
    for one, other, text in zip(plain, labelled, texts, strict=True):
        if not one:
            assert (bool(other), text) == (False, "")
            continue
        assert text == str(other.tree)
        assert parse_brackets(text) == [other.tree] or len(other.words) == 1
        assert one.word_labels is None
        assert other.word_labels == list(other.tree.tags)
        found = {(part.start, part.end): part.label for part in other.tree.constituents}
        assert set(found) == {(part.start, part.end) for part in one.tree.constituents}
        found |= {(place, place + 1): tag for place, tag in enumerate(other.tree.tags) if tag}
        here = slice(*spans.offsets[sentence : sentence + 2])
        names = [spans.label_names[code] for code in spans.labels[here]]
        assert found == dict(zip(zip(spans.starts[here], spans.ends[here], strict=True), names, strict=True))
        sentence += 1
    assert texts[2] == "(X dog)"  # the model has no label for a sentence of one word
    assert parse_lines(stored, LINES, ParseOptions(decoder=rule)).brackets()[4] == "(X a dog)"
    assert texts[4].startswith("(NT-")
    assert "(T-" in texts[4]


def test_json_has_labels_on_request_and_always_marginals():
    stored = bracketing()
    (plain,), (parse,) = (parse_lines(stored, [LINES[1]], ParseOptions(labels=labels)) for labels in (False, True))
    figures = json.loads(json.dumps(parse.to_dict()))
    assert list(figures) == [
        *("number", "words", "tokens", "offsets", "known", "not_read"),
        *("spans", "labels", "word_labels", "marginals", "confidence"),
    ]
    assert len(figures["spans"]) == len(figures["labels"]) == len(figures["marginals"]) == 5
    assert len(figures["word_labels"]) == 6
    assert {label.split("-")[0] for label in figures["labels"]} == {"NT"}
    assert {label.split("-")[0] for label in figures["word_labels"]} == {"T"}
    chart = structure_of(stored, [parse.words]).table.chart(0)
    expected = [chart[start, end - 1] for start, end in figures["spans"]]
    np.testing.assert_allclose(figures["marginals"], expected, rtol=0, atol=1e-6)
    assert figures["marginals"][0] == pytest.approx(1, abs=1e-6)
    assert list(plain.to_dict()) == [
        *("number", "words", "tokens", "offsets", "known", "not_read", "spans", "marginals", "confidence")
    ]
    assert plain.to_dict()["spans"] == figures["spans"]
    assert parse._repr_svg_().startswith("<svg")


def test_offsets_of_words_are_those_in_tagged_text_also_for_a_model_that_reads_no_tags():
    line = "the_DT  cat_NN sees_VBZ snake_case_NN"
    (parse,) = parse_lines([fresh("prpn"), fresh("prpn", units="tags")], [line])
    assert parse.words == ["the", "cat", "sees", "snake_case"]
    assert [line[start:end] for start, end in parse.offsets] == parse.words


def test_labels_of_words_stand_above_the_tags_of_tagged_text():
    stored = tagged(bracketing())
    words = KNOWN["tags"].split()
    line = " ".join(f"{word.lower()}_{word}" for word in words[:3])
    parses = parse_lines(stored, [line, "dt_DT"], ParseOptions(labels=True))
    parse, alone = parses
    figures = parse.to_dict()
    text = parses.brackets()[0]
    for word, label in zip(words[:3], figures["word_labels"], strict=True):
        assert label.startswith("T-")
        assert f"({label} ({word} {word.lower()}))" in text
    assert text == str(parse.tree)
    assert len(figures["spans"]) == 2
    assert alone.word_labels == [""]
    assert not any(parse_lines(stored, ["", " "], ParseOptions(labels=True)))
    assert parse_lines(stored, [line]).brackets()[0].count("(T-") == 0


@pytest.mark.parametrize("ties", TIE_RULES)
def test_models_of_every_structure_are_averaged_those_of_mbr_by_their_marginals(ties):
    models = [bracketing(), bracketing(seed=6), fresh("prpn"), scoring(), fresh("on-lstm")]
    sentences = [line.split() for line in LINES if line.strip()]
    structures = [structure_of(one, sentences) for one in models]

    def expected(*rules):
        found = [
            one.averaging_input(rule, stored.model.default_layer)
            for one, stored, rule in zip(structures, models, rules, strict=True)
        ]
        return format_spans(average(found, ties=ties), sentences)

    def together(decoder):
        found = parse_lines(models, LINES, ParseOptions(decoder=decoder, ties=ties))
        assert found.structure is None
        assert not found.labelled
        return [text for text in found.brackets() if text]

    default = expected("mbr", "mbr", "biased", "greedy-right", "biased")
    assert together(None) == together("mbr") == default
    assert together("viterbi") == expected("viterbi", "viterbi", "biased", "greedy-right", "biased")
    assert together("unbiased") == expected("mbr", "mbr", "unbiased", "greedy-right", "unbiased")
    pair = parse_lines(models[:2], LINES).brackets()
    assert [text for text in pair if text] == format_spans(average([one.table for one in structures[:2]]), sentences)
    assert parse_lines(models[:1] * 2, LINES).brackets() == parse_lines(models[0], LINES).brackets()


def test_the_command_writes_labels(folders, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES) + "\n")
    expected = parse_lines(folders["brackets"], LINES, ParseOptions(labels=True))
    assert main(["parse", "brackets", str(text), "--labels"]) == 0
    assert capsys.readouterr().out.splitlines() == expected.brackets()
    assert main(["parse", "brackets", str(text), "--labels", "--format", "json", "--decoder", "viterbi"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    viterbi = parse_lines(folders["brackets"], LINES, ParseOptions(decoder="viterbi", labels=True))
    assert rows == [json.loads(json.dumps(one.to_dict() if one else None)) for one in viterbi]
    assert main(["parse", "brackets", str(text), "--labels", "--format", "latex"]) == 0
    assert capsys.readouterr().out == "".join((format_latex(one.tree) if one else "") + "\n" for one in expected)


def test_the_command_refuses_labels_of_averages_and_of_models_without_any(folders, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a dog\n")
    text = str(tmp_path / "text.txt")
    assert main(["parse", "brackets", text, "--labels", "--also", "prpn"]) == 2
    assert "--labels: averaged trees have no labels; omit either" in capsys.readouterr().err
    assert main(["parse", "palm", text, "--labels"]) == 2
    assert "this palm model does not label spans, so parsing with labels cannot use it." in capsys.readouterr().err


@pytest.mark.parametrize("command", [["parse"], ["evaluate", "parse"], ["evaluate", "agreement"]], ids=" ".join)
def test_the_commands_refuse_a_model_that_is_given_twice(folders, command, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("a dog\n")
    arguments = [str(text), "prpn", "prpn"] if "agreement" in command else ["prpn", str(text), "--also", "prpn"]
    assert main([*command, *arguments]) == 2
    assert "the same model is given twice" in capsys.readouterr().err


def test_the_command_averages_models_of_every_structure(folders, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    also = ["--also", "prpn", "--also", "palm"]
    for ties in TIE_RULES:
        assert main(["parse", "brackets", str(tmp_path / "text.txt"), *also, "--ties", ties]) == 0
        expected = parse_lines(list(folders.values()), LINES, ParseOptions(ties=ties)).brackets()
        assert capsys.readouterr().out.splitlines() == expected


def test_words_keep_their_offsets_and_unread_marks_are_attached_between_their_neighbours():
    stored = bracketing()
    options = ParseOptions(punctuation="drop", contractions="split")
    line = "The “dog” sees, xyzzy can’t."
    (parse,) = parse_lines(stored, [line], options)
    assert parse.words == ["The", "dog", "sees", "xyzzy", "ca", "n’t"]
    assert [line[start:end] for start, end in parse.offsets] == parse.words
    assert [part.text for part in parse.not_read] == ["“", "”", ",", "."]
    assert all(line[part.start : part.end] == part.text for part in parse.not_read)
    assert parse.known == [stored.vocabulary.knows(token) for token in parse.tokens]
    tree = parse.complete_tree
    assert "".join(tree.words) == line.replace(" ", "")
    assert [word for word, tag in zip(tree.words, tree.tags, strict=True) if tag == "UNREAD"] == ["“", "”", ",", "."]
    assert tree.constituents[0][1:] == (0, len(tree))
    read = [place for place, tag in enumerate(tree.tags) if tag != "UNREAD"]
    spans = {(sum(at < start for at in read), sum(at < end for at in read)) for _, start, end in tree.constituents}
    assert spans == {part[1:] for part in parse.tree.constituents}
    for _, start, end in tree.constituents[1:]:
        assert tree.tags[start] != "UNREAD" != tree.tags[end - 1], "a mark borders on a constituent, and is outside it"
    brackets = parse_lines(stored, [line, ""], options)
    assert brackets.brackets(with_unread=True) == [str(tree), ""]
    assert brackets.brackets()[0].count("UNREAD") == 0


def test_models_with_different_vocabularies_split_a_line_in_the_same_way():
    def with_words(stored, **replaced):
        tokens = [replaced.get(f"is_{place}", token) for place, token in enumerate(stored.vocabulary.tokens)]
        return dataclasses.replace(stored, vocabulary=Vocabulary(tokens))

    first = bracketing()
    marks = {place: token for place, token in enumerate(first.vocabulary.tokens) if token in ",.!"}
    first = with_words(first, **{f"is_{place}": f"word{place}" for place in marks})
    second = with_words(first, **dict(zip((f"is_{place}" for place in marks), ("n't", ",", "."), strict=True)))
    line = ["The dog, didn't see."]
    alone = parse_lines(first, line, ParseOptions())
    together = parse_lines([first, second], line, ParseOptions())
    assert together.words == alone.words
    assert next(iter(together)).offsets == next(iter(alone)).offsets
    reverse = parse_lines([second, first], line, ParseOptions())
    assert reverse.words == [["The", "dog", ",", "did", "n't", "see", "."]]


def test_unknown_words_are_marked_in_a_tree_drawn_as_text():
    stored = bracketing()
    (parse,) = parse_lines(stored, ["the xyzzy sees"])
    drawn = draw_tree(parse.tree, parse.known)
    assert "xyzzy*" in drawn
    assert "sees*" not in drawn
    assert drawn.endswith("\n* not in the model's vocabulary")
    assert "*" not in draw_tree(parse.tree)


@pytest.mark.parametrize(
    ("constituents", "expected"),
    [
        ([("NT-7", 0, 2)], [("NT-7", 0, 4)]),  # the root keeps its label and takes the marks at both ends
        ([("NT-7", 0, 2), ("NT-1", 0, 1)], [("NT-7", 0, 4), ("NT-1", 1, 2)]),
        ([("T-3", 1, 2)], [("X", 0, 4), ("T-3", 2, 3)]),  # no root: one without a label is added
        ([], [("X", 0, 4)]),
    ],
)
def test_the_root_keeps_its_label_when_dropped_marks_are_restored(constituents, expected):
    tree = Tree(("a", "dog"), ("DT", "NN"), tuple(Constituent(*part) for part in constituents))
    marks = [NotRead("“", 0, 1), NotRead("”", 7, 8)]
    parse = Parse(1, ["a", "dog"], ["a", "dog"], tree, offsets=[(1, 2), (3, 6)], not_read=marks)
    assert parse.complete_tree.words == ("“", "a", "dog", "”")
    assert parse.complete_tree.tags == ("UNREAD", "DT", "NN", "UNREAD")
    assert list(parse.complete_tree.constituents) == expected


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (lambda: fresh("prpn"), ParseOptions()),
        (lambda: fresh("prpn", units="characters"), ParseOptions()),
        (scoring, ParseOptions()),
        (bracketing, ParseOptions(labels=True)),
        (lambda: tagged(bracketing()), ParseOptions(labels=True)),
        (bracketing, ParseOptions(best=2)),
        (lambda: [bracketing(), fresh("prpn")], ParseOptions()),
    ],
)
def test_the_rows_of_a_table_are_those_of_each_parse(model, options):
    models = model()
    lines = LINES
    if not isinstance(models, list) and models.normaliser.units == "tags":
        lines = [" ".join(f"{word.lower()}_{word}" for word in KNOWN["tags"].split()[:3]), "", "dt_DT"]
    parses = parse_lines(models, lines, options, first=7)
    blocks = blocks_of((row for parse in parses for row in parse.rows()), CONSTITUENTS, 1000)
    expected = "".join(format_blocks(blocks, CONSTITUENTS, "csv"))
    assert "".join(format_blocks([parses.constituents()], CONSTITUENTS, "csv")) == expected
    assert expected.count("\n") > 2
    assert parse_lines(models, ["", " "], options).constituents() == {name: [] for name in CONSTITUENTS}


def test_infinite_distances_are_null_in_json():
    parses = parse_lines(fresh("prpn"), LINES)
    parses.structure.values[0, 0] = np.inf
    assert json.loads(to_json(list(parses)[1].to_dict()))["distances"][0] is None
