"""`evaluate completion` from the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from syntaxlm.data.treebanks import dependency_trees
from syntaxlm.storage.folder import write_model
from syntaxlm.trees.conllu import write_conllu
from tests.tree_models import tree_model


@pytest.fixture
def files(toy, tmp_path):
    """Ten questions with a sentence of the built-in corpus and its words in two other orders."""
    lines = [line.split() for line in (toy / "test.txt").read_text().splitlines()[:10]]
    questions, answers = tmp_path / "questions.txt", tmp_path / "answers.txt"
    orders = [(words[::-1], words, words[1:] + words[:1]) for words in lines]
    questions.write_text("".join(f"<s> {' '.join(one)} </s>\n" for candidates in orders for one in candidates))
    answers.write_text("".join(f"<s> {' '.join(words)} </s>\n" for words in lines))
    return questions, answers


def test_models_and_interpolation_are_in_adjacent_columns_and_every_question_is_written(run, trained, files, tmp_path):
    rows = tmp_path / "rows.jsonl"
    code, out, _ = run("evaluate", "completion", trained.prpn, *files, "--also", trained.lstm, "--details", rows)
    assert code == 0
    assert "questions 10   candidates 30   chance 33.3" in out
    assert "weights tuned on the first half" in out
    assert "interpolated compared with prpn, second half: accuracy difference" in out
    written = [json.loads(row) for row in rows.read_text().splitlines()]
    assert [set(row["models"]) for row in written] == [{"prpn", "lstm", "interpolated"}] * 10
    assert {row["correct"] for row in written} == {1}


def test_json_has_the_figures_of_the_table(run, trained, files):
    code, out, _ = run(
        "evaluate", "completion", trained.prpn, *files, "--also", trained.lstm, "--weights", "0.25", "--json"
    )
    figures = json.loads(out)
    assert code == 0
    assert (figures["questions"], figures["chance"], figures["per_token"]) == (10, pytest.approx(1 / 3), False)
    assert figures["interpolated"]["weights"] == {"prpn": 0.75, "lstm": 0.25}
    assert [model["all"]["questions"] for model in figures["models"]] == [10, 10]
    assert run("evaluate", "completion", trained.prpn, *files)[1].count("prpn") == 1


def test_a_tree_model_and_a_word_model_answer_together(run, refused, trained, toy, tmp_path):
    trees = list(dependency_trees(toy / "test.conllu"))[:6]
    turned = [replace(tree, words=(*tree.words[1:], tree.words[0])) for tree in trees]
    write_conllu([one for pair in zip(trees, turned, strict=True) for one in pair], tmp_path / "q.conllu")
    write_conllu(trees, tmp_path / "a.conllu")
    folder = tmp_path / "tree"
    write_model(folder, tree_model())
    asked = folder, tmp_path / "q.conllu", tmp_path / "a.conllu", "--also", trained.lstm
    code, out, error = run("evaluate", "completion", *asked)
    assert code == 0, error
    assert "tree: of its words given its tree, P(S | T); lstm: end of sentence included" in out
    plain = tmp_path / "q.txt"
    plain.write_text("".join(" ".join(tree.words) + "\n" for pair in zip(trees, turned, strict=True) for tree in pair))
    code, reported, error = run("evaluate", "completion", folder, plain, *asked[2:], "--parses", tmp_path / "q.conllu")
    assert code == 0, error
    assert reported.splitlines()[1:] == out.splitlines()[1:]
    error = refused("evaluate", "completion", folder, plain, *asked[2:])
    assert "found plain text, but tree reads dependency trees" in error


def test_errors_exit_with_code_2_and_their_place(refused, trained, files):
    command = "evaluate", "completion", trained.prpn, *files
    assert "expected 0, one for each model except the first" in refused(*command, "--weights", "0.5")
    lines = files[1].read_text().splitlines()
    files[1].write_text("\n".join([*lines[:3], "<s> something else </s>", *lines[4:]]))
    assert f"{files[1]}, line 4, question 4: found 'something else'" in refused(*command)
