"""The Python blocks of the guide run without changes, one after the other."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import warnings

import pytest

from syntaxlm.storage.folder import write_model
from tests.docs.examples import ROOT
from tests.grammar_models import grammar

BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "guides" / "python.md").read_text(), re.M | re.S)
PAIR = {"sentence_good": "the old cat sleeps", "sentence_bad": "cat the sleeps old", "UID": "order"}


@pytest.fixture
def folder(few, toy, trained, tmp_path, monkeypatch):
    """The working directory for the guide."""
    (tmp_path / "my-model").symlink_to(trained.prpn)
    pcfg = grammar("simple-pcfg")
    write_model(tmp_path / "my-pcfg", dataclasses.replace(pcfg, model=pcfg.model.float()))
    for part in ("train", "valid", "test"):
        shutil.copy(few / f"{part}.txt", tmp_path)
    shutil.copy(few / "test.txt", tmp_path / "sentences.txt")
    for name in ("treebank", "predicted"):
        shutil.copy(toy / "test.mrg", tmp_path / f"{name}.mrg")
    (tmp_path / "pairs.jsonl").write_text(json.dumps(PAIR) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(blocks: list[str]) -> None:
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # the guide uses no old name
        for block in blocks:
            exec(block, names)


def test_the_guide_runs(folder, capsys):
    run([block for block in BLOCKS if "to_dataframe" not in block])
    printed = capsys.readouterr().out
    assert "2 (no words)" in printed
    assert "Did you mean model.hidden_size?" in printed
    assert printed.count("(X ") >= 10
    assert (folder / "another-model" / "weights.safetensors").exists()


def test_the_data_frames_of_the_guide_are_made(folder):
    pandas = pytest.importorskip("pandas")
    run([BLOCKS[0], *(block for block in BLOCKS if "to_dataframe" in block)])
    assert set(pandas.read_csv("surprisal.csv").columns) >= {"sentence", "word", "surprisal"}
