"""Tag models: one setting makes a model read tags; training, parsing and evaluation on tagged text."""

import gzip
import io
import json
import re
import sys

import pytest

from syntaxlm import cli
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.data.treebanks import read_treebank, write_words
from syntaxlm.evaluation.perplexity import evaluate_text
from syntaxlm.evaluation.trees import evaluate_parsing
from syntaxlm.generation.sentences import generate
from syntaxlm.parsing.analysis import analyse
from syntaxlm.parsing.options import ParseOptions
from syntaxlm.parsing.parse import parse_lines
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import read_model
from syntaxlm.training.run import train
from syntaxlm.trees.spans import trees_of
from syntaxlm.trees.tree import parse_brackets
from tests.conftest import MODELS

LINE = "the_DT dog_NN sleeps_VBZ"


@pytest.fixture(scope="module")
def tagged(toy, tmp_path_factory):
    """The toy corpus as tagged text."""
    folder = tmp_path_factory.mktemp("tagged")
    for name in ("train", "test"):
        path = folder / f"{name}.tagged.txt"
        write_words(read_treebank(toy / f"{name}.mrg"), path, with_tags=True)
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder


@pytest.fixture(scope="module")
def folders(toy, tagged, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    text = {"train": str(tagged / "train.tagged.txt.gz"), "valid": str(tagged / "test.tagged.txt"), "test": None}
    for name in MODELS:
        train(toy.recipe(name, text=text | {"normaliser": {"units": "tags"}}, schedule={"epochs": 1}), root / name)
    return root


@pytest.fixture
def parser(folders):
    return read_model(folders / "prpn")


@pytest.mark.parametrize("name", MODELS)
def test_a_tag_model_has_a_vocabulary_of_tags_and_stores_the_setting(folders, tagged, name):
    stored = read_model(folders / name)
    assert stored.normaliser.units == "tags"
    tags = set(re.findall(r"_(\S+)", (tagged / "train.tagged.txt").read_text()))
    assert {token for token in stored.vocabulary.tokens if stored.vocabulary.knows(token)} == tags
    score = evaluate_text(stored, tagged / "test.tagged.txt.gz")
    assert (score.unknown, score.sentences) == (0, 15)
    assert 1 < score.perplexity < len(stored.vocabulary)


def test_words_of_a_tagged_file_train_a_model_of_words(toy, tagged, tmp_path):
    text = {"train": str(tagged / "train.tagged.txt"), "valid": str(tagged / "test.tagged.txt.gz"), "test": None}
    train(toy.recipe("lstm", text=text, schedule={"epochs": 1}), tmp_path / "tagged")
    text = {"valid": str(toy / "test.txt"), "test": None}
    train(toy.recipe("lstm", text=text, schedule={"epochs": 1}), tmp_path / "plain")
    first, second = (read_model(tmp_path / name) for name in ("tagged", "plain"))
    assert first.vocabulary == second.vocabulary
    assert evaluate_text(first, tagged / "test.tagged.txt").nats == evaluate_text(second, toy / "test.txt").nats


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_score_are_words_with_their_tags_as_tokens(folders, name):
    (rows,) = surprisals(read_model(folders / name), [LINE])
    places = [(row.word, row.begin, row.end, row.token) for row in rows[:2]]
    assert places == [("the", 0, 3, "DT"), ("dog", 7, 10, "NN")]
    with pytest.raises(InputError, match="sentence 2: found 'the'; expected word_TAG"):
        list(surprisals(read_model(folders / name), [LINE, "the dog"]))


def test_generated_tags_have_spaces_between_them(folders):
    (sentence,) = generate(read_model(folders / "lstm"), 1)
    assert sentence.text == " ".join(sentence.tokens)
    with pytest.raises(InputError, match="prompt: found 'the'; expected word_TAG"):
        generate(read_model(folders / "lstm"), 1, "the")


def test_parsed_words_stand_below_their_tags(parser):
    parses = parse_lines(parser, [LINE, "", "_DT dog_NN", "go_VB"])
    first, second, third, fourth = parses.brackets()
    assert second == ""
    for written, expected in ((first, LINE), (third, "DT_DT dog_NN"), (fourth, "go_VB")):
        (tree,) = parse_brackets(written)
        assert [f"{word}_{tag}" for word, tag in zip(tree.words, tree.tags, strict=True)] == expected.split()
    one, *_ = parses
    assert (one.words, one.tokens) == (["the", "dog", "sleeps"], ["DT", "NN", "VBZ"])
    assert str(one.tree) == first
    with pytest.raises(InputError, match="sentence 5: found 'dog'; expected word_TAG"):
        parse_lines(parser, [LINE, "the_DT dog"], first=4)


def test_models_of_tags_and_of_words_are_averaged_over_tagged_text(parser, prpn):
    first, second = parse_lines(parser, [LINE]), parse_lines(prpn, ["the dog sleeps"])
    assert parse_lines([parser, parser], [LINE]).brackets() == first.brackets()
    assert parse_lines([prpn, prpn], ["the dog sleeps"]).brackets() == second.brackets()
    (mixed,) = parse_lines([prpn, parser], [LINE])
    assert mixed.words == ["the", "dog", "sleeps"]
    assert set(mixed.tree.tags) == {""}
    (mixed,) = parse_lines([parser, prpn], [LINE])
    assert mixed.tree.tags == ("DT", "NN", "VBZ")


def test_a_gold_tree_is_analysed_by_its_tags(parser):
    (gold,) = parse_brackets("(S (NP (DT the) (NN dog)) (VBZ sleeps))")
    analysis = analyse(parser, gold)
    assert analysis.tokens == ("DT", "NN", "VBZ")
    assert analysis.tree == analyse(parser, LINE).tree


def test_parse_and_evaluate_parse_read_the_same_tags(parser, toy, tagged):
    report = evaluate_parsing(parser, toy / "test.mrg", preprocessing="none")
    lines = (tagged / "test.tagged.txt").read_text().splitlines()
    expected = [
        parse.tree for parse in parse_lines(parser, lines, ParseOptions(decoder=report.chosen)) if parse is not None
    ]
    found = trees_of(report.predicted[report.chosen], [tree.words for tree in expected])
    assert [tree.constituents for tree in found] == [tree.constituents for tree in expected]


def test_commands_read_tagged_text_from_files_and_standard_input(folders, tagged, toy, monkeypatch, capsys, tmp_path):
    folder = str(folders / "prpn")
    assert cli.main(["parse", folder, str(tagged / "test.tagged.txt.gz")]) == 0
    from_file = capsys.readouterr().out
    content = (tagged / "test.tagged.txt.gz").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert cli.main(["parse", folder]) == 0
    assert capsys.readouterr().out == from_file
    assert cli.main(["evaluate", "parse", folder, str(toy / "test.mrg"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] > 0
    (tmp_path / "plain.txt").write_text("the_DT\nthe cat\n")
    for command in (["parse", folder], ["score", folder], ["evaluate", "perplexity", folder]):
        assert cli.main([*command, str(tmp_path / "plain.txt")]) == 2
        assert "plain.txt, line 2 (2 of 3 tokens so far have no tag): found 'the'" in capsys.readouterr().err
    assert cli.main(["data", "tags", str(toy / "test.mrg"), "-o", str(tmp_path / "out.tagged.txt")]) == 0
    assert "15 sentences" in capsys.readouterr().out
    assert cli.main(["data", "words", str(tmp_path / "out.tagged.txt"), "-o", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text() == (toy / "test.txt").read_text()


def test_unknown_tags_of_a_treebank_are_counted_or_refused(parser, tmp_path):
    path = tmp_path / "trees.mrg"
    path.write_text("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (XX it)))\n(S (NP (DT the) (NN dog)) (VBZ sleeps))\n")
    with pytest.warns(
        InputWarning, match=r"trees\.mrg: 1 of 7 words \(14\.3%\) have tags that are unknown to the model: XX"
    ):
        evaluate_parsing(parser, path, preprocessing="none")
    path.write_text("(S (NP (D the) (N dog)) (VP (V sees) (PRP it)))\n")
    with pytest.raises(InputError, match=r"trees\.mrg: 3 of 4 words \(75\.0%\) .*: D, N, V\.\n  known tags: .*NN"):
        evaluate_parsing(parser, path, preprocessing="none")
    path.write_text("(S (NP the dog) (VP sees it))\n")
    with pytest.raises(InputError, match=r"sentence 1: the word 'the' has no part-of-speech tag"):
        evaluate_parsing(parser, path, preprocessing="none")


def test_supervision_is_read_over_tags(toy, tagged, tmp_path):
    from syntaxlm.data.corpora import EncodedCorpus, count_tokens
    from syntaxlm.data.supervision import read_supervision
    from syntaxlm.text.vocabulary import Vocabulary
    from tests.normalisers import normaliser_with

    normaliser = normaliser_with(units="tags")
    vocabulary = Vocabulary.build(count_tokens(tagged / "test.tagged.txt", normaliser))
    corpus = EncodedCorpus.encode(tagged / "test.tagged.txt", normaliser, vocabulary)
    assert read_supervision(toy / "test.mrg", "none", corpus, normaliser, vocabulary).count == 15
