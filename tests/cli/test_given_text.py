"""Sentences on the command line, and results on standard output."""

from __future__ import annotations

import json

import pytest

from syntaxlm import cli
from syntaxlm.trees.tree import parse_brackets

SENTENCE = "the cat sees a dog"


def test_a_sentence_is_parsed_and_drawn(run, trained):
    code, out, error = run("parse", trained.prpn, SENTENCE)
    assert (code, error) == (0, "")
    assert out.splitlines()[0].strip() == "X"
    words = [word.removesuffix("*") for word in out.partition("* not in")[0].split() if word[0].islower()]
    assert words == SENTENCE.split()
    (tree,) = parse_brackets(run("parse", trained.prpn, SENTENCE, "--format", "brackets")[1])
    assert tree.words == tuple(SENTENCE.split())
    assert json.loads(run("parse", trained.prpn, SENTENCE, "--json")[1])["words"] == SENTENCE.split()
    assert run("parse", trained.prpn, SENTENCE, "--format", "svg")[1].startswith("<svg ")
    assert run("parse", trained.prpn, "--text", "cat", "--format", "brackets")[1] == "(X cat)\n"
    assert len(run("parse", trained.prpn, "a cat\na dog", "--json")[1].splitlines()) == 2


def test_a_sentence_may_be_longer_than_a_name_of_a_file(run, trained, tmp_path):
    sentence = " and ".join([SENTENCE] * 20)
    code, out, error = run("parse", trained.prpn, sentence, "--format", "brackets")
    assert (code, error) == (0, "")
    assert parse_brackets(out)[0].words == tuple(sentence.split())
    assert run("score", trained.prpn, sentence)[0] == 0
    assert run("draw", trained.prpn, sentence, "-o", tmp_path / "tree.svg")[0] == 0


def test_a_sentence_is_scored_as_the_same_text_of_a_file(run, trained, tmp_path):
    (tmp_path / "text.txt").write_text(SENTENCE + "\n")
    printed = run("score", trained.prpn, SENTENCE)
    assert printed == run("score", trained.prpn, "--text", SENTENCE)
    code, out, error = run("score", trained.prpn, tmp_path / "text.txt")
    assert (code, out, error.partition("1 sentence\n")[2]) == printed
    assert run("score", trained.prpn, SENTENCE, "--json") == run("score", trained.prpn, SENTENCE, "--format", "json")


def test_a_file_with_white_space_in_its_name_is_a_file_and_a_missing_one_without_is_an_error(run, trained, tmp_path):
    path = tmp_path / "my text.txt"
    path.write_text("a dog\n")
    assert parse_brackets(run("parse", trained.prpn, path)[1])[0].words == ("a", "dog")
    assert run("parse", trained.prpn, "missing.txt")[0] == 2
    assert "expected either a file or a sentence" in run("parse", trained.prpn, path, "--text", SENTENCE)[2]
    assert "expected a table file" in run("score", trained.prpn, SENTENCE, "--column", "text")[2]
    assert "expected one sentence" in run("parse", trained.prpn, "a cat\na dog", "--format", "svg")[2]


def test_data_is_printed_on_stdout_and_the_summary_on_stderr(capsys, tmp_path):
    bank, words = tmp_path / "bank.mrg", tmp_path / "words.txt"
    bank.write_text("(S (DT the) (NN cat))\n(S (DT a) (NN dog))\n")
    assert cli.main(["data", "words", str(bank), "-o", str(words)]) == 0
    in_file = capsys.readouterr()
    assert in_file.err == f"read {bank}: labelled trees, 2 sentences, 4 words\n"
    for extra in ([], ["-o", "-"]):
        assert cli.main(["data", "words", str(bank), *extra]) == 0
        printed = capsys.readouterr()
        assert printed.out == words.read_text() == "the cat\na dog\n"
        assert printed.err == in_file.err + in_file.out.replace(str(words), "standard output")
    assert cli.main(["data", "words", str(bank), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    for command in (["average", bank, bank], ["data", "sentences", words]):
        assert cli.main([*map(str, command), "-o", str(tmp_path / "out")]) == 0
        figures = capsys.readouterr().out
        assert cli.main([*map(str, command)]) == 0
        assert capsys.readouterr().out == (tmp_path / "out").read_text()
        assert figures


def test_an_argument_that_is_not_unicode_is_refused(run, trained):
    code, out, error = run("parse", trained.prpn, "the \udcff cat")  # as Python reads the byte 0xff
    assert (code, out) == (2, "")
    assert "the sentence: found '\\udcff' at character 5, half of a surrogate pair or a byte that is not UTF-8" in error


@pytest.mark.parametrize(("word", "quoted"), [("Go", "Go"), ("Stop!", "'Stop!'"), ("...", "...")])
def test_a_word_in_place_of_a_file_gets_the_option_for_sentences(refused, trained, word, quoted):
    expected = f"{word}: no such file. For a sentence of one word, write: --text {quoted}"
    assert expected in refused("parse", trained.prpn, word)


def test_a_closed_standard_output_is_reported_and_not_needed_with_an_output_file(
    trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdout", None)
    for command in ("parse", "score"):
        assert cli.main([command, str(trained.prpn), SENTENCE]) == 2
        assert "standard output: not available; expected a file, named by --output" in capsys.readouterr().err
        assert cli.main([command, str(trained.prpn), SENTENCE, "-o", str(tmp_path / command)]) == 0
        assert (tmp_path / command).stat().st_size
