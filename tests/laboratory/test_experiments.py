"""Experiments: every command of all of them is valid, and a small one runs to its end."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from laboratory.__main__ import main
from laboratory.experiment import Places, experiment_names, read_experiment, run_experiment, steps_of

from syntaxlm.core.errors import InputError
from tests.docs.examples import Example
from tests.docs.test_examples import check


@pytest.mark.parametrize("name", experiment_names())
def test_recipes_settings_and_options_of_every_command_are_valid(name):
    steps = steps_of(read_experiment(name), Places())
    of_one_seed = {re.sub(r"(seed\W)\d+", r"\1", " ".join(step.words)): step for step in steps}
    for step in of_one_seed.values():
        if step.words[0] == "syntaxlm":
            check(Example(name, step.with_report[1:], whole=True))
        else:
            assert (Path(*step.words[2].split(".")).with_suffix(".py")).exists()


def test_prepared_data_is_outside_the_folders_that_patterns_of_files_read():
    steps = [step for name in experiment_names() for step in steps_of(read_experiment(name), Places())]
    patterns = {word for step in steps for word in step.words if re.fullmatch(r"data/.*[*?].*", word)}
    read = {Path(pattern).parent for pattern in patterns} | {Path("data/wsj-sample")}
    prepared = {step.output for step in steps if step.run is None}
    assert len(prepared) > 10
    assert not [path for path in prepared if path.parent in read]


def test_a_small_experiment_runs_to_its_end_and_does_not_repeat_what_is_stored(toy, tmp_path):
    places, stored = Places(tmp_path / "runs", {"toy": str(toy.folder)}), []

    def store(name, report, **facts):
        stored.append((name, report, facts))

    for _ in range(2):
        run_experiment("toy", steps_of(read_experiment("toy"), places, only="lstm"), places.output, store)
    run_experiment("toy", steps_of(read_experiment("toy"), places, only="prpn", seed=2), places.output, store)

    assert [(name, facts["run"], facts["seed"], facts.get("data")) for name, _, facts in stored] == [
        ("toy", "lstm", 1, None), ("toy", "prpn", 2, None), ("toy", "prpn", 2, "toy-test"),
    ]  # fmt: skip
    assert stored[0][1]["valid"]["perplexity"] > 1
    assert stored[2][1]["f1"] > 0
    assert stored[2][2]["training"][0].startswith("syntaxlm train prpn-toy -o")


@pytest.mark.long
def test_a_training_that_was_stopped_is_resumed_and_stored_with_the_command_that_starts_it(toy, tmp_path):
    places, stored = Places(tmp_path / "runs", {"toy": str(toy.folder)}), []
    training = steps_of(read_experiment("toy"), places, only="lstm")[-1]
    for _ in range(2):
        run_experiment("toy", [training], places.output, lambda name, report, **facts: stored.append(report))
        shutil.rmtree(places.output / "toy" / "reports")  # as if it was stopped before it could report
    assert [report["run"]["command"] for report in stored] == [f"{training} --json"] * 2


def test_runs_inherit_and_files_of_data_can_be_elsewhere(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "purpose: A test\nrecipe: lstm-toy\nsettings: {schedule.epochs: 1}\nseeds: [1, 2]\nruns:\n"
        "  plain: {}\n"
        "  deep: {settings: {model.layers: 3}, evaluations: [{command: syntaxlm parse MODEL data/toy/a.txt}]}\n"
        "  wide: {like: deep, seeds: [3]}\n"
    )
    experiment = read_experiment(str(tmp_path / "mine.yaml"))
    steps = steps_of(experiment, Places(Path("r"), {"toy": "else where"}), only="wide")
    assert [str(step) for step in steps] == [
        "syntaxlm train lstm-toy -o r/mine/wide/seed-3 --run.seed 3 --schedule.epochs 1 --model.layers 3 --text.train"
        " 'else where/train.txt' --text.valid 'else where/valid.txt' --text.test 'else where/test.txt'",
        "syntaxlm parse r/mine/wide/seed-3 'else where/a.txt'",
    ]
    assert len(steps_of(experiment, Places())) == 8
    assert len(steps_of(experiment, Places(), seed=9)) == 5
    assert main(["run", str(tmp_path / "mine.yaml"), "--data", "toi=x", "--dry-run"]) != 0
    with pytest.raises(InputError, match=r"mine: no run wid\. Did you mean wide\?"):
        steps_of(experiment, Places(), only="wid")
    with pytest.raises(InputError, match=r"tooy: no such experiment\. Did you mean toy\?"):
        read_experiment("tooy")
    (tmp_path / "wrong.yaml").write_text("purpose: A test\nrun: {}\n")
    with pytest.raises(InputError, match="run"):
        read_experiment(str(tmp_path / "wrong.yaml"))


def test_only_the_command_and_no_caller_of_main_is_ended_by_a_reader_that_stops_reading():
    before = signal.getsignal(signal.SIGPIPE)
    assert main(["list"]) == 0
    assert signal.getsignal(signal.SIGPIPE) == before == signal.SIG_IGN
    command = [sys.executable, "-m", "laboratory", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def test_the_command_lists_and_prints_experiments_and_refuses_what_is_stored(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == experiment_names()
    assert main(["run", "toy", "--dry-run", "--only", "lstm", "--output", "r"]) == 0
    assert "syntaxlm train lstm-toy -o r/toy/lstm/seed-1 --run.seed 1" in capsys.readouterr().out
    assert main(["run", "pcfg-types", "--only", "tensor-pcfg", "--seed", "301"]) == 1
    assert "found stored results of the run 'tensor-pcfg', seed 301" in capsys.readouterr().err
