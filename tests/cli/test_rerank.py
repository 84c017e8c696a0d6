"""`rerank` from the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from syntaxlm.core.files import UNFINISHED
from syntaxlm.storage.folder import write_model
from syntaxlm.trees.conllu import read_conllu, write_conllu
from tests.models.test_tree_rnn import SENTENCE, TREES
from tests.tree_models import tree_model


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "model", tree_model())
    return tmp_path / "model"


@pytest.fixture
def files(tmp_path):
    """Two sentences with two candidates each, with parser's scores under two names, and gold trees."""

    def files(name: str):
        gold = [replace(SENTENCE, name="a"), replace(TREES[2], name="b")]
        flat = [replace(tree, heads=tuple(0 if head == 0 else root(tree) for head in tree.heads)) for tree in gold]
        write_conllu([one for pair in zip(flat, gold, strict=True) for one in pair], tmp_path / f"{name}.conllu")
        text = (tmp_path / f"{name}.conllu").read_text()
        (tmp_path / f"{name}.conllu").write_text(text.replace("# sent_id", "# score = -3.5\n# sent_id"))
        write_conllu(gold, tmp_path / f"{name}-gold.conllu")
        return tmp_path / f"{name}.conllu", tmp_path / f"{name}-gold.conllu"

    return files


def root(tree):
    return tree.heads.index(0) + 1


def test_picked_trees_are_written_to_stdout_or_a_file(run, model, files, tmp_path):
    path, gold = files("k")
    code, out, error = run("rerank", model, path)
    assert code == 0
    assert error == f"read {path}: dependency trees, CoNLL-U, 4 sentences, 26 words\n"
    assert out.count("# rerank_log_prob = -") == out.count("# rerank_candidate = ") == out.count("# sent_id") == 2
    code, reported, _ = run("rerank", model, path, "-o", tmp_path / "best.conllu")
    assert code == 0
    assert (tmp_path / "best.conllu").read_text() == out
    assert "sentences 2   candidates 4" in reported
    assert "UAS" not in reported
    assert [tree.name for tree in read_conllu(tmp_path / "best.conllu")] == ["a", "b"]
    code, reported, _ = run("rerank", model, path, "--gold", gold)
    assert code == 0
    assert "first candidate" in reported
    assert "# sent_id" not in reported


def test_json_has_the_figures_and_a_weight_may_be_chosen(run, model, files):
    path, gold = files("k")
    code, out, _ = run("rerank", model, path, "--gold", gold, "--tune", *files("dev"), "--json")
    assert code == 0
    figures = json.loads(out)
    assert figures["scores"]["best candidate"]["las"] == 1
    assert figures["tuning"]["sentences"] == 2
    assert figures["weight"] == figures["tuning"]["weight"]
    first = json.loads(run("rerank", model, path, "--gold", gold, "--weight", "0", "--json")[1])
    assert first["scores"]["picked"] == first["scores"]["first candidate"]
    table = run("rerank", model, path, "--gold", gold, "--weight", "0", "--format", "tsv")[1].splitlines()
    assert table[0].split("\t")[:2] == ["trees", "uas"]
    assert float(dict(line.split("\t")[:2] for line in table[1:])["picked"]) == pytest.approx(
        first["scores"]["picked"]["uas"], abs=1e-6
    )


def test_errors_exit_with_code_2_their_place_and_no_file(refused, model, files, trained, tmp_path):
    path, gold = files("k")
    output = tmp_path / "best.conllu"
    output.write_text("old")
    lines = path.read_text().splitlines(keepends=True)
    (tmp_path / "broken.conllu").write_text("".join(lines) + "1\tx\n")
    for arguments, message in (
        ((model, tmp_path / "broken.conllu", "-o", output), f"conllu, line {len(lines) + 1}, sentence 5: found 2"),
        ((model, path, "--gold", path, "-o", output), "k.conllu, line "),
        ((model, path, "--json"), "--format json: is the format of the scores"),
        ((model, path, "--format", "csv", "-o", output), "the table has attachment scores; add --gold"),
        ((model, path, "--score", "loss", "--weight", "0.5"), "found no parser's score in the comments"),
        ((model, path, "--gold", gold, "--tune", path, gold), "is also evaluated; expected a different file"),
        ((trained.lstm, path), "this lstm model does not generate dependency trees"),
    ):
        assert message in refused("rerank", *arguments)
    assert output.read_text() == "old"
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))
