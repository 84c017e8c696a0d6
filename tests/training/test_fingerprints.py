"""Files that change between the start of a run and its resumption are reported."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.training.result import INPUTS
from syntaxlm.training.run import check_fingerprints, fingerprint, resume, train, write_fingerprints
from tests.training.runs import stop_at


@pytest.fixture
def stopped(toy, tmp_path):
    """An interrupted run, and copies of its texts."""
    texts = {part: str(tmp_path / f"{part}.txt") for part in ("train", "valid", "test")}
    for part, path in texts.items():
        shutil.copy(toy / f"{part}.txt", path)
    assert train(toy.recipe("lstm", text=texts), tmp_path / "run", stop_at(3)).stopped
    return tmp_path


def test_the_hashes_are_those_of_the_files(stopped):
    found = json.loads((stopped / "run" / INPUTS).read_text())["sha256"]
    texts = {part: stopped / f"{part}.txt" for part in ("train", "valid", "test")}
    expected = {
        f"text.{part}": {str(path): hashlib.sha256(path.read_bytes()).hexdigest()} for part, path in texts.items()
    }
    assert found == expected
    assert not resume(stopped / "run").stopped
    assert json.loads((stopped / "run" / INPUTS).read_text())["sha256"] == expected


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_text_with_the_same_words_in_another_order_is_reported_and_the_run_unchanged(stopped, part):
    path = stopped / f"{part}.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    before = {file.name: file.read_bytes() for file in (stopped / "run").iterdir()}
    with pytest.raises(InputError, match=rf"{part}\.txt: changed since the run started \(text\.{part}\)"):
        resume(stopped / "run")
    assert {file.name: file.read_bytes() for file in (stopped / "run").iterdir()} == before
    path.write_text("".join(lines))
    assert not resume(stopped / "run").stopped


def test_missing_hashes_are_reported(stopped):
    (stopped / "run" / INPUTS).unlink()
    with pytest.raises(InputError, match=r"inputs\.json"):
        resume(stopped / "run")


@pytest.mark.parametrize("content", ["{", "[]", '{"sha256": 3}', '{"sha256": {"text.train": "x"}}', "[" * 50_000])
def test_damaged_hashes_are_reported_by_name(stopped, content):
    (stopped / "run" / INPUTS).write_text(content)
    with pytest.raises(InputError, match=r"inputs\.json"):
        resume(stopped / "run")


def test_every_file_of_a_treebank_counts_those_that_are_new_or_gone_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.conllu").write_text(name)
    paths = {"text.train": str(tmp_path), "text.valid": "*.conllu", "text.test": None}
    found = fingerprint(paths, paths)
    assert [list(files) for files in found.values()] == [
        [str(tmp_path / f"{name}.conllu") for name in "abc"], ["a.conllu", "b.conllu", "c.conllu"]
    ]  # fmt: skip
    write_fingerprints(tmp_path, found)
    check_fingerprints(tmp_path, fingerprint(paths, paths))
    (tmp_path / "b.conllu").rename(tmp_path / "d.conllu")
    (tmp_path / "a.conllu").write_text("changed")
    with pytest.raises(InputError) as caught:
        check_fingerprints(tmp_path, fingerprint(paths, paths))
    message = str(caught.value)
    assert f"{tmp_path / 'd.conllu'}: added since the run started (text.train)" in message
    assert "a.conllu: changed since the run started (text.valid)" in message
    assert "b.conllu: changed" in message
    assert "c.conllu" not in message


def test_a_run_that_reads_standard_input_warns_that_it_cannot_be_resumed(tmp_path):
    found = fingerprint({"text.valid": "-"})
    with pytest.warns(InputWarning, match=r"text\.valid \(-\) is standard input or a pipe: this run cannot be resumed"):
        write_fingerprints(tmp_path, found)
    assert json.loads((tmp_path / INPUTS).read_text())["sha256"] == {"text.valid": {"-": None}}
    with pytest.raises(InputError, match=r"cannot be resumed: text\.valid \(-\) was read from standard input"):
        check_fingerprints(tmp_path, found)


def test_a_training_text_that_can_be_read_only_once_is_refused(toy, tmp_path):
    with pytest.raises(InputError, match=r"text\.train: found -, standard input"):
        train(toy.recipe("lstm", text={"train": "-"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
