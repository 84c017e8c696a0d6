"""The command `grammar`."""

from __future__ import annotations

import json
from functools import partial

import pytest

from syntaxlm.storage.folder import write_model
from tests.fresh_models import fresh
from tests.grammar_models import grammar


@pytest.fixture
def listed(tmp_path, run):
    """Lists a small grammar of a text; returns exit code, stdout, stderr."""
    write_model(tmp_path / "model", grammar("simple-pcfg"))
    text = tmp_path / "text.txt"
    text.write_text("the cat sees a dog\nthe cat sleeps\n", encoding="utf-8")
    return partial(run, "grammar", tmp_path / "model", text)


def test_text_is_printed_and_json_has_the_same_symbols(listed):
    code, out, said = listed("--symbols", 2)
    assert code == 0
    assert said.endswith("text.txt: text, one sentence per line, 2 sentences\n")
    assert out.startswith("simple-pcfg   nonterminals 4   preterminals 8\nuse: 2 sentences parsed, ")
    found = json.loads(listed("--symbols", 2, "--json")[1])
    assert found["use"]["words"] == 8
    assert len(found["nonterminals"]) <= 2
    assert all(f"\n{one['symbol']} " in out for one in found["nonterminals"] + found["preterminals"])


def test_an_output_file_replaces_standard_output(listed, tmp_path):
    path = tmp_path / "out" / "grammar.html"
    path.parent.mkdir()
    assert listed("-o", path, "--quiet") == (0, "", "")
    assert "<!doctype html>" in path.read_text(encoding="utf-8")
    assert [one.name for one in path.parent.iterdir()] == ["grammar.html"]


def test_errors_are_reported_with_one_message(refused, tmp_path):
    error = refused("grammar", "en", "-o", tmp_path / "grammar.svg")
    assert "grammar.svg: syntaxlm grammar does not write .svg; expected one of .txt, .json, .jsonl, .tsv" in error
    write_model(tmp_path / "lstm", fresh("lstm"))
    assert "this lstm model has no grammar, so syntaxlm grammar cannot use it." in refused("grammar", tmp_path / "lstm")
