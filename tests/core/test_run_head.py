"""The head of a report: what made it, where, and from which files."""

from __future__ import annotations

import hashlib
import json

import syntaxlm
from syntaxlm import cli
from syntaxlm.core import run_head
from syntaxlm.core.run_head import file_hash, invocation, running_command, training_recipe

TREES = "(S (NP (D the) (N cat)) (V sleeps))\n" * 2


def test_a_report_as_json_names_command_version_machine_and_the_files_of_a_pattern(tmp_path, capsys):
    for name in ("a.mrg", "b.mrg"):
        (tmp_path / name).write_text(TREES)
    pattern = str(tmp_path / "*.mrg")
    assert cli.main(["evaluate", "trees", str(tmp_path / "a.mrg"), str(tmp_path / "a.mrg"), "--json"]) == 0
    head = json.loads(capsys.readouterr().out)["run"]
    assert head["command"] == f"syntaxlm evaluate trees {tmp_path}/a.mrg {tmp_path}/a.mrg --json"
    assert head["version"] == syntaxlm.__version__
    assert set(head["machine"]) == {"processor", "instructions", "threads"}
    assert head["minutes"] >= 0
    assert head["date"].endswith("+00:00")
    digest = hashlib.sha256(TREES.encode()).hexdigest()
    assert head["sha256"] == {str(tmp_path / "a.mrg"): digest}
    (tmp_path / "both").write_text(2 * TREES)
    assert cli.main(["evaluate", "trees", str(tmp_path / "both"), pattern, "--json"]) == 0
    head = json.loads(capsys.readouterr().out)["run"]
    assert f"'{pattern}'" in head["command"]
    assert head["sha256"].items() >= {(str(tmp_path / name), digest) for name in ("a.mrg", "b.mrg")}


def test_tables_and_text_have_no_head(tmp_path, capsys):
    (tmp_path / "a.mrg").write_text(TREES)
    for format in ("text", "tsv", "markdown"):
        assert cli.main(["evaluate", "trees", *2 * [str(tmp_path / "a.mrg")], "--format", format]) == 0
        assert "--format" not in capsys.readouterr().out


def test_very_large_files_and_what_is_no_file_have_no_hash(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("the cat")
    assert file_hash(tmp_path / "text") == hashlib.sha256(b"the cat").hexdigest()
    assert file_hash("standard input") is None
    monkeypatch.setattr(run_head, "LARGEST_HASHED", 3)
    assert file_hash(tmp_path / "text") is None


def test_a_recipe_is_known_in_its_block_alone():
    assert run_head.run_head().command is None
    with running_command(["syntaxlm", "train", "my recipe"]):
        with training_recipe("lstm", [("model.layers", 2)]), training_recipe("prpn"):
            assert (invocation().recipe, invocation().overrides) == ("prpn", {"model.layers": 2})
        assert run_head.run_head().recipe is None
        assert run_head.run_head(seed=3).command == "syntaxlm train 'my recipe'"
