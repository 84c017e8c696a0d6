"""The command `generate`."""

from __future__ import annotations

import json

import pytest

from syntaxlm import cli
from syntaxlm.storage.folder import read_model, write_model
from syntaxlm.trees.tree import parse_brackets
from tests.grammar_models import grammar


@pytest.fixture
def generate(trained, run):
    """Samples from a small model; returns exit code, stdout, stderr."""

    def generate(*options: object, model: str = "prpn") -> tuple[int, str, str]:
        return run("generate", getattr(trained, model), *options)

    return generate


@pytest.mark.parametrize("model", ["prpn", "lstm"])
def test_sentences_come_one_a_line_in_words_of_the_vocabulary(generate, trained, model):
    code, out, said = generate("--sentences", 70, "--max-words", 8, "--seed", 3, model=model)
    assert (code, said) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 70
    assert all(1 <= len(line.split()) <= 8 for line in lines)
    vocabulary = read_model(getattr(trained, model)).vocabulary
    assert all(vocabulary.knows(word) for line in lines for word in line.split())
    assert generate("--sentences", 70, "--max-words", 8, "--seed", 3, model=model)[1] == out
    assert generate("--sentences", 70, "--max-words", 8, "--seed", 4, model=model)[1] != out


def test_a_prompt_begins_every_sentence(generate):
    lines = generate("--sentences", 5, "--prompt", "the cat", "--top-k", 3)[1].splitlines()
    assert len(lines) == 5
    assert all(line.startswith("the cat") for line in lines)
    assert len(set(generate("--sentences", 5, "--prompt", "the cat", "--temperature", 0)[1].splitlines())) == 1


@pytest.mark.long
def test_json_lines_have_the_surprisals_of_score(generate, trained, tmp_path, capsys):
    lines = [
        json.loads(line) for line in generate("--sentences", 4, "--format", "json", "--prompt", "a")[1].splitlines()
    ]
    assert [line["number"] for line in lines] == [1, 2, 3, 4]
    assert lines[0].keys() == {"number", "text", "tokens", "surprisals", "ended"}
    (tmp_path / "text.txt").write_text("".join(line["text"] + "\n" for line in lines))
    cli.main(["score", str(trained.prpn), str(tmp_path / "text.txt"), "--format", "json"])
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    for line in lines:
        reported = [row["surprisal"] for row in rows if row["sentence"] == line["number"]]
        assert line["surprisals"] == pytest.approx(reported if line["ended"] else reported[:-1], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompt", ""], "prompt: found '', which has no word"),
        (["--temperature", "-1"], "--temperature: found '-1'; expected a number, 0 or more"),
        (["--temperature", "nan"], "--temperature: found 'nan'"),
        (["--sentences", "0"], "--sentences: found '0'; expected an integer, 1 or more"),
        (["--max-words", "0"], "--max-words: found '0'"),
        (["--seed", "-1"], "--seed: found '-1'"),
    ],
)
def test_impossible_requests_are_reported(generate, options, said):
    code, out, error = generate(*options)
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("error:") == 1


@pytest.fixture
def pcfg(tmp_path, run):
    """Samples from a small PCFG of a type; returns exit code, stdout, stderr."""

    def pcfg(name: str, *options: object) -> tuple[int, str, str]:
        folder = tmp_path / name
        if not folder.exists():
            write_model(folder, grammar(name))
        return run("generate", folder, *options)

    return pcfg


def test_trees_are_printed_as_brackets_or_json_of_the_same_sentences(pcfg):
    code, out, said = pcfg("simple-pcfg", "--trees", "--sentences", 6, "--seed", 2, "--max-words", 9)
    assert (code, said) == (0, "")
    trees = parse_brackets(out)
    lines = pcfg("simple-pcfg", "--trees", "--sentences", 6, "--seed", 2, "--max-words", 9, "--format", "json")[1]
    found = [json.loads(line) for line in lines.splitlines()]
    assert [line["tokens"] for line in found] == [list(tree.words) for tree in trees]
    assert found[0].keys() == {"number", "text", "tokens", "spans", "labels", "word_labels"}
    assert all(len(line["spans"]) == len(line["labels"]) == len(line["tokens"]) - 1 for line in found)
    assert all(1 <= len(line["tokens"]) <= 9 for line in found)


def test_a_compound_pcfg_is_sampled_top_down_by_default(pcfg):
    code, out, _ = pcfg("compound-pcfg", "--sentences", 4)
    assert code == 0
    assert len(out.splitlines()) == 4
    line = json.loads(pcfg("compound-pcfg", "--format", "json")[1])
    assert line["surprisals"] == []
    code, out, error = pcfg("compound-pcfg", "--prompt", "the")
    assert (code, out) == (2, "")
    assert "prompt: a compound-pcfg model does not predict the next token" in error


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--prompt", "the"], "prompt: --trees samples top-down, not word by word. Leave it out"),
        (["--temperature", "0.5", "--top-k", "3"], "temperature, top_k: --trees samples top-down"),
        (["--format", "conllu"], "--format conllu: found --trees"),
    ],
)
def test_options_that_do_not_go_with_trees_are_refused(pcfg, options, fault):
    code, out, error = pcfg("neural-pcfg", "--trees", *options)
    assert (code, out) == (2, "")
    assert fault in error
