"""Runs that are interrupted or killed, and resumed with the same results."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch

from syntaxlm.cli import main
from syntaxlm.core.errors import InputError
from syntaxlm.core.run_head import training_recipe
from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.training import language_model
from syntaxlm.training.language_model import TextTask
from syntaxlm.training.result import CHECKPOINT, INPUTS, RESULT
from syntaxlm.training.run import METRICS, RECIPE, Event, resume, train
from tests.training.runs import assert_resumes, assert_same_run, content, metrics, stop_at

SETTINGS = [
    pytest.param("prpn", "reset", "32", id="prpn-sentences-32", marks=pytest.mark.long),
    pytest.param("prpn", "carry", "bf16-mixed", id="prpn-stream-bf16", marks=pytest.mark.long),
    pytest.param("prpn", "carry", "32", id="prpn-stream-32", marks=pytest.mark.long),
    pytest.param("prpn", "reset", "bf16-mixed", id="prpn-sentences-bf16", marks=pytest.mark.long),
    pytest.param("lstm", "reset", "bf16-mixed", id="lstm-sentences-bf16", marks=pytest.mark.long),
    pytest.param("lstm", "carry", "32", id="lstm-stream-32", marks=pytest.mark.long),
    pytest.param("lstm", "carry", "bf16-mixed", id="lstm-stream-bf16"),
    pytest.param("lstm", "reset", "32", id="lstm-sentences-32", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("model", "context", "precision"), SETTINGS)
def test_a_run_interrupted_twice_ends_bit_for_bit_as_one_that_was_not(toy, tmp_path, model, context, precision):
    run, schedule = {"precision": precision}, {"validations_per_epoch": 2}
    recipe = toy.recipe(model, batches={"context": context}, run=run, schedule=schedule)
    finished = train(recipe, tmp_path / "whole")
    assert finished.steps // 2 > 4, "not in the middle of an epoch"
    assert_resumes(finished, recipe, 4, finished.steps // 2 + 3)


@pytest.mark.parametrize(
    ("model", "context", "precision"),
    [
        pytest.param({"cell": "highway"}, "carry", "bf16-mixed", id="highway", marks=pytest.mark.long),
        pytest.param({"cell": "nas", "mixture": 2}, "reset", "bf16-mixed", id="nas", marks=pytest.mark.long),
        pytest.param({"cell": "lstm", "skip": True, "mixture": 3}, "carry", "32", id="skip"),
    ],
)
def test_other_cells_skip_connections_and_mixtures_resume_bit_for_bit(toy, tmp_path, model, context, precision):
    run, schedule = {"precision": precision}, {"epochs": 1, "validations_per_epoch": 2}
    recipe = toy.recipe("on-lstm", model=model, batches={"context": context}, run=run, schedule=schedule)
    finished = train(recipe, tmp_path / "whole")
    assert_resumes(finished, recipe, 4, finished.steps // 2 + 3)


# Averaging that starts when the loss rises or at an epoch, after SGD or Adam; then fine-tuning, which ends the run.
RISEN = {"kind": "sgd", "learning_rate": 5.0, "average_patience": 1, "finetune_epoch": 3}
FROM_EPOCH = {"average_from_epoch": 1, "average_learning_rate": 1.0, "average_patience": 3, "finetune_epoch": 2}
STREAM = {"context": "carry", "batch_size": 16, "variable_bptt": True}


def falling_until(monkeypatch: pytest.MonkeyPatch, turn: int) -> Callable[[Event], None]:
    """Makes the validation loss a function of the step, with the minimum after step `turn`."""
    evaluate, place = language_model.evaluate_language_model, {"step": 0}

    def falsified(*given):
        score = evaluate(*given)
        return dataclasses.replace(score, nats=score.tokens * (2.0 + abs(place["step"] - turn) / 100))

    def watch(event: Event) -> None:
        place["step"] = event.trainer.steps

    monkeypatch.setattr(language_model, "evaluate_language_model", falsified)
    return watch


@pytest.mark.parametrize(
    ("batches", "optimiser"),
    [
        pytest.param(STREAM, RISEN, id="risen loss", marks=pytest.mark.long),
        pytest.param({}, FROM_EPOCH, id="epoch"),
    ],
)
def test_averaging_and_fine_tuning_resume_bit_for_bit_before_at_and_after_their_start(
    toy, tmp_path, monkeypatch, batches, optimiser
):
    schedule = {"epochs": 9, "validations_per_epoch": 3}
    recipe = toy.recipe("lstm", batches=batches, optimiser=optimiser, schedule=schedule)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    placed = falling_until(monkeypatch, turn=15)
    finished = train(recipe, whole, placed)
    found = {line["averaging"]: line["step"] for line in metrics(whole) if line.get("averaging")}
    assert list(found) == ["begins", "restarts", "ends"]
    stops = [found["begins"] + more for more in (-1, 0, 1)] + [found["restarts"] + more for more in (-1, 0, 1)]
    stops.append(found["ends"] - 1)
    assert sorted(set(stops)) == stops

    def watching(stop: int) -> Callable[[Event], None]:
        ask = stop_at(stop)

        def watch(event: Event) -> None:
            placed(event)
            ask(event)

        return watch

    assert train(recipe, broken, watching(stops[0])).steps == stops[0]
    for stop in stops[1:]:
        assert resume(broken, watching(stop)).steps == stop
        means = [name for name in safetensors.torch.load_file(broken / CHECKPOINT) if name.startswith("average/")]
        assert bool(means) is (stop not in (found["begins"], found["restarts"]))
    of_one_run = {"folder": None, "seconds": None, "run": None}
    assert resume(broken, placed).to_dict() | of_one_run == finished.to_dict() | of_one_run
    assert_same_run(whole, broken)


def test_a_run_killed_between_report_and_checkpoint_of_a_change_of_averaging_repeats_it(toy, tmp_path):
    recipe = toy.recipe(
        "lstm",
        batches={"context": "carry", "batch_size": 32},
        optimiser=RISEN | {"learning_rate": 20.0, "average_from_epoch": 1, "finetune_epoch": 2},
        schedule={"epochs": 40},
        run={"checkpoint_seconds": 0.0},
    )

    def dying(change: str) -> Callable[[Event], None]:
        def die(event: Event) -> None:
            if event.values.get("averaging") == change:
                raise KeyboardInterrupt

        return die

    train(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "broken", dying("begins"))
    for change in ("restarts", "ends"):
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "broken", dying(change))
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_a_stop_at_the_last_batch_of_an_epoch_repeats_no_batch(toy, tmp_path):
    recipe = toy.recipe("lstm", schedule={"epochs": 2})
    finished = train(recipe, tmp_path / "whole")
    assert_resumes(finished, recipe, finished.steps // 2, finished.steps)


def test_a_run_stopped_before_its_first_checkpoint_resumes_from_the_start(toy, tmp_path):
    recipe = toy.recipe("lstm", schedule={"epochs": 1})
    train(recipe, tmp_path / "whole")

    def fall(event: Event) -> None:
        if event.trainer.steps == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "broken", fall)
    assert not (tmp_path / "broken" / CHECKPOINT).exists()
    resume(tmp_path / "broken")
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("overrides", [None, {"schedule.epochs": 1}])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed before its texts were hashed", "stopped"])
def test_a_resumed_run_keeps_the_name_of_its_recipe_and_its_overrides(toy, tmp_path, is_killed, overrides):
    recipe = toy.recipe("lstm", schedule={"epochs": 1})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with training_recipe("lstm-toy", None if overrides is None else overrides.items()):
        train(recipe, whole)
        assert train(recipe, broken, stop_at(3)).stopped
    for path in broken.iterdir():
        if is_killed and path.name != RECIPE:
            path.unlink()
    resume(broken)
    for folder in (whole, broken):
        head = json.loads((folder / RESULT).read_text())["run"]
        assert (head["recipe"], head["overrides"]) == ("lstm-toy", overrides)
    assert (broken / INPUTS).read_bytes() == (whole / INPUTS).read_bytes()
    assert_same_run(whole, broken)


def test_a_log_that_was_removed_has_the_line_of_every_further_step_once(toy, tmp_path):
    folder = tmp_path / "run"
    assert train(toy.recipe("lstm", schedule={"epochs": 1}, run={"log_steps": 1}), folder, stop_at(3)).stopped
    (folder / METRICS).unlink()
    assert resume(folder, stop_at(5)).stopped
    with open(folder / METRICS, "a") as file:  # as of a process that was killed before its next checkpoint
        file.write('{"event": "step", "step": 6}\n')
    steps = resume(folder).steps
    assert [line["step"] for line in metrics(folder, "step")] == list(range(4, steps + 1))


def test_the_random_state_of_mps_is_restored(toy, tmp_path, monkeypatch):
    states = [torch.full((2,), number, dtype=torch.uint8) for number in (7, 8)]
    restored: list[torch.Tensor] = []
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: states[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", restored.append)
    train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run", stop_at(2))
    assert torch.equal(content(tmp_path / "run")[0]["random/mps"], states[0])
    resume(tmp_path / "run", stop_at(4))
    (state,) = restored
    assert torch.equal(state, states[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_prints_how_to_resume(toy, tmp_path, monkeypatch, capsys, number):
    recipe = tmp_path / "lstm.yaml"
    recipe.write_text(yaml_text(toy.recipe_data("lstm")))
    watch = stop_at(4, number=number)
    monkeypatch.setattr("syntaxlm.training.progress.ProgressDisplay.__call__", lambda self, event: watch(event))
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert main(["train", str(recipe), "--output", str(tmp_path / "run")]) == 128 + number
    assert f"syntaxlm train --resume {tmp_path / 'run'}" in capsys.readouterr().out
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert content(tmp_path / "run")[1]["steps"] == 4
    assert main(["train", "--resume", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stopped"] is False


def test_a_second_ctrl_c_interrupts_at_once(toy, tmp_path):
    def insist(event: Event) -> None:
        if event.trainer.steps == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(toy.recipe("lstm"), tmp_path / "run", insist)


def test_resuming_a_finished_run_trains_no_step_and_gives_its_result_again(toy, tmp_path, capsys):
    first = train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run")
    before = (tmp_path / "run" / CHECKPOINT).read_bytes(), (tmp_path / "run" / METRICS).read_bytes()
    events: list[Event] = []
    again = resume(tmp_path / "run", events.append)
    assert not events
    assert before == ((tmp_path / "run" / CHECKPOINT).read_bytes(), (tmp_path / "run" / METRICS).read_bytes())
    assert again.to_dict() | {"run": None} == first.to_dict() | {"run": None}
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "the run was finished before" in capsys.readouterr().err


def test_a_folder_that_holds_a_run_or_a_model_is_refused(toy, tmp_path, trained):
    with pytest.raises(InputError, match=r"already holds a run. Resume it with syntaxlm\.resume\("):
        train(toy.recipe("lstm"), trained.lstm)
    (tmp_path / "weights.safetensors").write_bytes(b"somebody's")
    with pytest.raises(InputError, match="already holds a model"):
        train(toy.recipe("lstm"), tmp_path)
    assert (tmp_path / "weights.safetensors").read_bytes() == b"somebody's"
    assert len(list(tmp_path.iterdir())) == 1


def test_resume_reports_missing_files(tmp_path):
    with pytest.raises(InputError, match=r"no run to resume: recipe\.yaml is missing"):
        resume(tmp_path / "nowhere")


@pytest.mark.parametrize("folder", ["file/below/run", "new/" + "x" * 300])
def test_a_folder_that_cannot_be_made_is_reported_before_any_text_is_read(toy, tmp_path, monkeypatch, folder):
    (tmp_path / "file").write_text("a file, not a folder")
    monkeypatch.setattr(TextTask, "_read", lambda task: pytest.fail("the text was read"))
    with pytest.raises(InputError, match=r"cannot be made"):
        train(toy.recipe("lstm"), tmp_path / folder)
    assert not (tmp_path / "new").exists()


def test_a_text_that_cannot_be_read_leaves_the_folder_unclaimed(toy, tmp_path):
    with pytest.raises(InputError, match=r"nothing\.txt"):
        train(toy.recipe("lstm", text={"valid": str(tmp_path / "nothing.txt")}), tmp_path / "run")
    assert train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run").steps


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"text": {"train": "nothing.txt"}}, r"nothing\.txt"),
        ({"model": {"layers": 99}}, "a model of these sizes cannot be built: not enough memory"),
        ({"batches": {"maximum_words": 1}}, "found only sentences of more than 1 words"),
    ],
    ids=["no text", "no such model", "no batch"],
)
def test_a_refused_run_removes_the_folders_that_it_made_and_no_other(toy, tmp_path, monkeypatch, settings, said):
    def without_memory(*sizes: object, **rates: object) -> None:
        raise RuntimeError("not enough memory")

    if "model" in settings:
        monkeypatch.setattr(torch.nn, "LSTM", without_memory)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("")
    for folder in ("mine", "mine/new/run", "used"):
        with pytest.raises(InputError, match=said):
            train(toy.recipe("lstm", **settings), folder)
    assert sorted(map(str, Path().rglob("*"))) == ["mine", "used", "used/notes.txt"]


def test_a_file_size_limit_is_reported_with_exit_code_2_and_no_traceback(toy, tmp_path, capsys):
    data = toy.recipe_data("lstm", run={"checkpoint_seconds": 0.0})
    (tmp_path / "lstm.yaml").write_text(yaml_text(data))
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        code = main(["train", str(tmp_path / "lstm.yaml"), "--output", str(tmp_path / "run")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    errors = capsys.readouterr().err
    assert code == 2, errors
    assert "safetensors: cannot be written: File too large" in errors
    assert "Traceback" not in errors
    assert not list((tmp_path / "run").glob("*.safetensors"))
