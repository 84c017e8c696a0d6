"""The command generate."""

from __future__ import annotations

import json

import pytest

from syntaxlm import cli
from syntaxlm.model_io import read_model


@pytest.fixture
def generate(trained, capsys):
    """Samples from a small model; returns exit code, stdout, stderr."""

    def generate(*options: object, model: str = "prpn") -> tuple[int, str, str]:
        code = cli.main(["generate", str(getattr(trained, model)), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return generate


@pytest.mark.parametrize("model", ["prpn", "lstm"])
def test_sentences_come_one_a_line_in_words_of_the_vocabulary(generate, trained, model):
    code, out, said = generate("--count", 70, "--maximum-words", 8, "--seed", 3, model=model)
    assert (code, said) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 70
    assert all(1 <= len(line.split()) <= 8 for line in lines)
    vocabulary = read_model(getattr(trained, model)).vocabulary
    assert all(vocabulary.knows(word) for line in lines for word in line.split())
    assert generate("--count", 70, "--maximum-words", 8, "--seed", 3, model=model)[1] == out
    assert generate("--count", 70, "--maximum-words", 8, "--seed", 4, model=model)[1] != out


def test_a_prompt_begins_every_sentence(generate):
    lines = generate("--count", 5, "--prompt", "the cat", "--top-k", 3)[1].splitlines()
    assert len(lines) == 5
    assert all(line.startswith("the cat") for line in lines)
    assert len(set(generate("--count", 5, "--prompt", "the cat", "--temperature", 0)[1].splitlines())) == 1


def test_json_lines_tell_the_surprisals_that_score_tells(generate, trained, tmp_path, capsys):
    lines = [json.loads(line) for line in generate("--count", 4, "--format", "json", "--prompt", "a")[1].splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3, 4]
    assert lines[0].keys() == {"number", "text", "tokens", "surprisals", "ended"}
    (tmp_path / "text.txt").write_text("".join(line["text"] + "\n" for line in lines))
    cli.main(["score", str(trained.prpn), str(tmp_path / "text.txt"), "--format", "json"])
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    for line in lines:
        told = [row["surprisal"] for row in rows if row["sentence"] == line["number"]]
        assert line["surprisals"] == pytest.approx(told if line["ended"] else told[:-1], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompt", ""], "prompt: '' has no word"),
        (["--temperature", "-1"], "temperature: found -1.0"),
        (["--temperature", "nan", "--top-k", "0"], "top_k: found 0"),
        (["--count", "0"], "count: found 0; expected 1 or more"),
        (["--maximum-words", "0"], "maximum_words: found 0"),
        (["--seed", "-1"], "seed: found -1"),
    ],
)
def test_what_cannot_be_is_told(generate, options, said):
    code, out, error = generate(*options)
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("error:") == 1
