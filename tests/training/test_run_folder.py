"""Run folders: claims of several processes, changed files, full disks."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count

import pytest

from syntaxlm.cli.quickstart import run_quickstart
from syntaxlm.comparison.focus import FocusOptions, focus
from syntaxlm.comparison.runs import compare, train_seeds
from syntaxlm.core.errors import InputError, InputWarning
from syntaxlm.core.files import append_stored, locked, system_error
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.storage.folder import WEIGHTS, read_model, write_model
from syntaxlm.training import task
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import INPUTS, RESULT
from syntaxlm.training.run import (
    RECIPE,
    check_fingerprints,
    claimed,
    fingerprint,
    read_run_recipe,
    refuse_run,
    resume,
    train,
    write_fingerprints,
)
from tests.fresh_models import fresh
from tests.training.runs import stop_at

ROUNDS = 20

# For each line of input, a process claims the next folder and prints the outcome.
RACER = """
import sys, time
from pathlib import Path
from syntaxlm.core.errors import InputError
from syntaxlm.training.run import claimed
print("ready", flush=True)
for line in sys.stdin:
    folder, moment = line.split()
    while time.monotonic() < float(moment):
        pass
    try:
        with claimed(Path(folder), f"{sys.argv[1]}\\n" * 1000):
            print("won", flush=True)
            sys.stdin.readline()
    except InputError as error:
        print("lost", error, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="one clock for all processes")
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.long)])
def test_of_several_processes_that_claim_a_folder_at_one_instant_exactly_one_has_it(count, tmp_path):
    import time

    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * count
        for number in range(ROUNDS):
            folder = tmp_path / f"new{number}" / "run"
            moment = time.monotonic() + 0.005
            for racer in racers:
                racer.stdin.write(f"{folder} {moment}\n")
                racer.stdin.flush()
            reported = [racer.stdout.readline().split(" ", 1) for racer in racers]
            won = [place for place, (word, *_) in enumerate(reported) if word == "won\n"]
            assert len(won) == 1, reported
            assert all(str(folder) in rest[0] for word, *rest in reported if word == "lost")
            assert [path.name for path in folder.iterdir()] == [RECIPE], "a loser left something"
            assert (folder / RECIPE).read_text() == f"{won[0]}\n" * 1000
            racers[won[0]].stdin.write("\n")
            racers[won[0]].stdin.flush()
    finally:
        for racer in racers:
            racer.stdin.close()
            racer.wait(30)


@pytest.mark.long
def test_two_runs_started_at_one_instant_train_once(toy, tmp_path):
    (tmp_path / "lstm.yaml").write_text(yaml_text(toy.recipe_data("lstm", schedule={"epochs": 1})))
    folder = tmp_path / "new" / "run"
    arguments = "train", str(tmp_path / "lstm.yaml"), "--output", str(folder), "--json"
    command = [sys.executable, "-m", "syntaxlm", *arguments]

    def start(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(start, range(2)))
    assert sorted(one.returncode for one in ended) == [0, 2], [one.stderr for one in ended]
    for one in ended:
        if one.returncode:
            assert f"{folder}: " in one.stderr
            assert "Traceback" not in one.stderr
            assert not one.stdout
    steps = next(json.loads(one.stdout)["steps"] for one in ended if not one.returncode)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    assert lines[-1]["step"] == steps
    assert not list(folder.glob(".*"))


def test_a_claim_that_is_abandoned_leaves_the_folder_as_it_was(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("")
    for folder in ("used", "new/run", "used", "new/run"):
        with claimed(tmp_path / folder, "a: 1\n") as abandon:
            (tmp_path / folder / INPUTS).write_text("{}")
            abandon()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["used", "used/notes.txt"]


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "result.json"])
def test_a_file_of_another_program_is_not_replaced(toy, tmp_path, name):
    """As of a model that was exported for transformers."""
    (tmp_path / name).write_text("somebody's")
    with pytest.raises(InputError, match=f"already holds {name}, which training would replace"):
        train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "somebody's"


def test_a_model_that_was_exported_for_transformers_counts_as_a_model(tmp_path):
    for name in ("config.json", "vocabulary.json", "model.safetensors"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="already holds a model"):
        refuse_run(tmp_path)


def test_a_folder_is_locked_from_its_claim_until_the_end(tmp_path):
    folder = tmp_path / "run"
    with claimed(folder, "a: 1\n"):
        for lock in (locked(folder), claimed(folder, "b: 1\n")):
            with pytest.raises(InputError, match="another process is using this folder"), lock:
                pass
    with locked(folder), pytest.raises(InputError, match="another process is using this folder"), locked(folder):
        pass
    with pytest.raises(InputError, match="already holds a run"), claimed(folder, "b: 1\n"):
        pass
    assert [path.name for path in folder.iterdir()] == [RECIPE]


def test_a_recipe_that_is_a_link_counts_as_a_run_and_is_not_written_through(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECIPE).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="already holds a run"), claimed(tmp_path / "run", "a: 1\n"):
        pass
    with pytest.raises(InputError, match=r"recipe\.yaml"):
        read_run_recipe(tmp_path / "run")
    assert not (tmp_path / "outside").exists()


def test_a_full_disk_leaves_no_claim(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(InputError, match=r"recipe\.yaml: cannot be written: No space left"),
        claimed(tmp_path / "new" / "run", "a: 1\n"),
    ):
        pass
    assert not list(tmp_path.iterdir())


# ---- files that change between the start of a run and its resumption


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


@pytest.mark.parametrize("content", [None, "{", "[]", '{"sha256": 3}', '{"sha256": {"text.train": "x"}}', "[" * 50_000])
def test_missing_and_damaged_hashes_are_reported_by_name(stopped, content):
    (stopped / "run" / INPUTS).unlink()
    if content is not None:
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
    write_fingerprints(tmp_path, found, {})
    check_fingerprints(tmp_path, fingerprint(paths, paths))
    (tmp_path / "b.conllu").rename(tmp_path / "d.conllu")
    (tmp_path / "a.conllu").write_text("changed")
    with pytest.raises(InputError) as caught:
        check_fingerprints(tmp_path, fingerprint(paths, paths))
    message = str(caught.value)
    assert f"{tmp_path / 'd.conllu'}: added since the run started (text.train)" in message
    assert "a.conllu: changed since the run started (text.valid)" in message
    assert "b.conllu: removed since the run started (text.valid)" in message
    assert "c.conllu" not in message


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("texts/*", "texts/run, the output folder of this run"),
        ("t*/**/*.*", "texts/run/recipe.yaml, a file of the output folder of this run"),
        ("m*/*", "mine/weights.safetensors, a file of another run or model"),
        ("*s", "texts, a folder"),
    ],
)
def test_a_pattern_of_texts_that_matches_a_folder_or_a_run_is_refused(toy, tmp_path, monkeypatch, pattern, found):
    monkeypatch.chdir(tmp_path)
    for folder, name in (("texts", "a.txt"), ("mine", "weights.safetensors")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("the cat sees\n")
    files = {"text.train": pattern, "text.valid": str(toy / "valid.txt"), "text.test": None}
    message = re.escape(f"text.train: the pattern {pattern} matches {found}; expected only files of text. Choose a")
    with pytest.raises(InputError, match=message):
        train(read_recipe("lstm-toy", files), "texts/run")
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["a.txt"]


def test_a_run_that_reads_standard_input_warns_that_it_cannot_be_resumed(tmp_path):
    found = fingerprint({"text.valid": "-"})
    with pytest.warns(InputWarning, match=r"text\.valid \(-\) is standard input or a pipe: this run cannot be resumed"):
        write_fingerprints(tmp_path, found, {})
    assert json.loads((tmp_path / INPUTS).read_text())["sha256"] == {"text.valid": {"-": None}}
    with pytest.raises(InputError, match=r"cannot be resumed: text\.valid \(-\) was read from standard input"):
        check_fingerprints(tmp_path, found)


def test_a_training_text_that_can_be_read_only_once_is_refused(toy, tmp_path):
    with pytest.raises(InputError, match=r"text\.train: found -, standard input"):
        train(toy.recipe("lstm", text={"train": "-"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- a full disk: what was written before is intact, and the run can be resumed

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def writes(monkeypatch):
    """A dict: with "left" writes before the disk is full, -1 for never; "full": whether it was."""
    state = {"left": -1, "full": False}
    fsync = os.fsync

    def is_full() -> bool:
        state["left"] -= 1
        state["full"] |= state["left"] == -1
        return state["left"] == -1

    def written(descriptor: int) -> None:
        if is_full():
            raise FULL
        fsync(descriptor)

    def appended(content: bytes, path) -> None:
        if is_full():
            append_stored(content[: len(content) // 2], path)
            raise system_error(path, "written", FULL)
        append_stored(content, path)

    monkeypatch.setattr(os, "fsync", written)  # every file but metrics.jsonl is synchronised before it is put in place
    monkeypatch.setattr(task, "append_stored", appended)
    return state


@pytest.mark.long
def test_a_disk_that_is_full_at_any_write_is_reported_and_the_run_resumes(few, tmp_path, writes):
    recipe = few.recipe("lstm", schedule={"epochs": 2}, run={"log_steps": 20})
    train(recipe, tmp_path / "whole")
    weights = (tmp_path / "whole" / WEIGHTS).read_bytes()
    faults = []
    for number in count():
        folder = tmp_path / str(number)
        writes.update(left=number, full=False)
        try:
            train(recipe, folder)
        except InputError as error:
            faults.append(str(error))
        if not writes["full"]:
            break
        writes["left"] = -1
        if (folder / WEIGHTS).exists():
            read_model(folder)
        if (folder / RECIPE).exists():
            resume(folder)
        else:
            assert not folder.exists(), "a withdrawn claim leaves nothing"
            train(recipe, folder)
        assert (folder / WEIGHTS).read_bytes() == weights
        assert json.loads((folder / RESULT).read_text())["stopped"] is False
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            path.name for path in (tmp_path / "whole").iterdir()
        )
    assert len(faults) == number >= 10
    assert all("No space left on device. Free some space, or write to another disk." in fault for fault in faults)
    reported = {fault.split(": ")[0].rpartition(os.sep)[2] for fault in faults}
    names = {"recipe.yaml", "inputs.json", "config.json", "vocabulary.json", "metrics.jsonl", "result.json"}
    assert reported == names | {"weights.safetensors", "checkpoint.safetensors"}


def test_a_model_folder_whose_name_is_not_utf8_is_refused_before_it_is_made(tmp_path, toy):
    recipe = toy.recipe("lstm")
    watching = lambda recipe: pytest.fail("training started")  # noqa: E731
    folder = tmp_path / "l\udcfc"
    for make in (
        lambda: train(recipe, folder, watching),
        lambda: train_seeds(recipe, folder, 2, lambda recipe: nullcontext(watching)),
        lambda: compare({"lstm": recipe}, folder, 1, watching),
        lambda: focus(toy.recipe("prpn"), folder, FocusOptions(seeds=2), watching),
        lambda: write_model(folder, fresh("lstm")),
        lambda: run_quickstart(folder, "kn5"),
    ):
        with pytest.raises(InputError, match=r"found a name with bytes that are not UTF-8; expected UTF-8"):
            make()
    assert not list(tmp_path.iterdir())
