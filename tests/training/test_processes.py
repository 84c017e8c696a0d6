"""Training of one model in two processes."""

from __future__ import annotations

import json
import os
import re
import signal
from functools import partial

import pytest
import safetensors.torch
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.registry import MODELS, build_encoder, build_model
from syntaxlm.storage.folder import WEIGHTS
from syntaxlm.training import run as training_run
from syntaxlm.training.checkpoint import TrainerState, read_checkpoint, tensors_of_process, write_checkpoint
from syntaxlm.training.loop import Loop, build_optimisers
from syntaxlm.training.processes import Processes, on_stop_signals
from syntaxlm.training.recipe import read_recipe
from syntaxlm.training.result import CHECKPOINT
from syntaxlm.training.run import METRICS, Run
from syntaxlm.training.task import RunLog
from tests.training.runs import written
from tests.training.two_processes import LOST, exit_codes, forked, in_two_processes, torchrun


@pytest.mark.long
def test_two_processes_stay_equal_and_their_loss_falls_and_they_resume_each_with_its_own_numbers(larger_toy, tmp_path):
    """PRPN with sentences and dropout, interrupted by one process and resumed."""
    recipe = written(tmp_path, larger_toy.recipe_data("prpn", schedule={"epochs": 3}))
    run = tmp_path / "run"
    stopped = in_two_processes(tmp_path, recipe, run, stop=4)
    resumed = in_two_processes(tmp_path, recipe, run, stop=0)
    for output in (stopped, resumed):
        first, second = ((output / f"weights-{rank}").read_text().splitlines() for rank in (0, 1))
        assert first == second
        assert len(first) >= 4
        ours, theirs = ((output / f"mask-{rank}").read_text().split()[1] for rank in (0, 1))
        assert ours != theirs, "both processes have the same random numbers, and so the same dropout"
    assert len((stopped / "weights-0").read_text().splitlines()) == 4
    losses = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    losses = [line["train_loss"] for line in losses if line["event"] == "valid"]
    assert losses[0] > losses[-1]
    assert json.loads((run / "result.json").read_text())["stopped"] is False


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_two_processes_give_the_gradient_of_one_and_resume_with_their_own_columns(toy, tmp_path, nodes):
    """LSTM without dropout, stream mode, 5 columns: a process has 2 or 3 of them."""
    model, batches = {"dropout": 0.0, "layer_dropout": 0.0}, {"context": "carry", "batch_size": 5}
    recipe = written(tmp_path, toy.recipe_data("lstm", model=model, batches=batches, schedule={"epochs": 1}))
    gradients: list[dict[str, torch.Tensor]] = []

    def watch(event):
        if event.trainer.steps == 1 and event.kind == "step":
            gradients.append({name: p.grad.clone() for name, p in runs[0].task.model.named_parameters()})

    one = read_recipe(recipe)
    runs = [Run(one, tmp_path / "one", watch)]
    with runs[0].start():
        single = runs[0].train()
    launch = torchrun if torch.cuda.is_available() else partial(forked, nodes=nodes)
    output = in_two_processes(tmp_path, recipe, tmp_path / "two", stop=6, launch=launch)
    for rank in (0, 1):
        for name, gradient in torch.load(output / f"gradient-{rank}").items():
            torch.testing.assert_close(gradient, gradients[0][name], rtol=1e-4, atol=1e-6)
    checkpoint = safetensors.torch.load_file(tmp_path / "two" / CHECKPOINT)
    assert checkpoint["state/hidden"].shape[1] == 2
    assert checkpoint["process 1/state/hidden"].shape[1] == 3
    in_two_processes(tmp_path, recipe, tmp_path / "two", stop=0, launch=launch)
    result = json.loads((tmp_path / "two" / "result.json").read_text())
    assert result["steps"] == single.steps
    assert result["valid"]["nats"] == pytest.approx(single.valid.nats, rel=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="forks cannot use a GPU")
def test_penalties_of_two_processes_are_the_mean_over_the_tokens_of_both(toy, tmp_path):
    """ON-LSTM with AR and without dropout; of 5 columns, a process has 2 or 3."""
    model = {"name": "on-lstm", "embedding_size": 8, "layer_sizes": [8, 8], "chunk_size": 4, "ar": 20.0, "tar": 0.0}
    rates = dict.fromkeys(("dropout", "layer_dropout", "input_dropout", "embedding_dropout", "weight_drop"), 0.0)
    data = toy.recipe_data("lstm", batches={"context": "carry", "batch_size": 5}, schedule={"epochs": 1})
    recipe = written(tmp_path, data | {"model": model | rates})
    gradients: list[dict[str, torch.Tensor]] = []

    def watch(event):
        if event.trainer.steps == 1 and event.kind == "step":
            gradients.append({name: p.grad.clone() for name, p in run.task.model.named_parameters()})

    run = Run(read_recipe(recipe), tmp_path / "one", watch)
    with run.start():
        run.train()
    output = in_two_processes(tmp_path, recipe, tmp_path / "two", stop=6, launch=partial(forked, nodes=1))
    for rank in (0, 1):
        for name, gradient in torch.load(output / f"gradient-{rank}").items():
            torch.testing.assert_close(gradient, gradients[0][name], rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="forks cannot use a GPU")
@pytest.mark.parametrize(
    "lost", [pytest.param(signal.SIGKILL, id="dies"), pytest.param(signal.SIGSTOP, id="hangs", marks=pytest.mark.long)]
)
def test_if_one_node_is_lost_the_other_ends_with_a_message_and_both_resume(toy, tmp_path, capfd, monkeypatch, lost):
    monkeypatch.setenv(LOST, str(int(lost)))
    data = toy.recipe_data("lstm", batches={"context": "carry", "batch_size": 4}, schedule={"epochs": 1})
    recipe, run = written(tmp_path, data | {"run": {"checkpoint_seconds": 0, "process_timeout": 5}}), tmp_path / "run"
    codes: list[int] = []

    def launch(arguments: list[str]) -> None:
        codes.extend(exit_codes(arguments, nodes=2))

    in_two_processes(tmp_path, recipe, run, stop=-5, launch=launch)
    assert codes == [1, -signal.SIGKILL]
    message = r"InputError: process 0 of 2: the connection to another process of the run failed: .* syntaxlm\.resume\("
    assert re.search(message, capfd.readouterr().err)
    in_two_processes(tmp_path, recipe, run, stop=0, launch=partial(forked, nodes=2))
    whole = tmp_path / "whole"
    in_two_processes(tmp_path, recipe, whole, launch=partial(forked, nodes=2))
    assert (run / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(
    "starts", [pytest.param([-1], id="whole"), pytest.param([30, 0], id="resumed", marks=pytest.mark.long)]
)
def test_two_processes_average_and_fine_tune_in_step_with_the_same_random_lengths(larger_toy, tmp_path, starts):
    """Adam, averaged SGD and fine-tuning to the end; the second run is interrupted during averaging and resumed."""
    data = larger_toy.recipe_data(
        "lstm",
        batches={"context": "carry", "batch_size": 12, "variable_bptt": True},
        optimiser={"average_from_epoch": 1, "average_patience": 1, "average_learning_rate": 20.0, "finetune_epoch": 2},
        schedule={"epochs": 40, "plateau_factor": 1.0},
    )
    recipe, run = written(tmp_path, data), tmp_path / "run"
    steps = 0
    for stop in starts:
        output = in_two_processes(tmp_path, recipe, run, stop)
        first, second = ((output / f"weights-{rank}").read_text().splitlines() for rank in (0, 1))
        assert first == second
        steps += len(first)
        assert stop in (-1, 0, steps)
    lines = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    valid = [line for line in lines if line["event"] == "valid"]
    assert [line["averaging"] for line in valid if line["averaging"]] == ["begins", "restarts", "ends"]
    assert valid[0]["averaging"] == "begins"
    assert valid[0]["step"] < 30 < valid[1]["step"]
    assert valid[-1]["step"] == steps
    best = min(valid, key=lambda line: line["valid_loss"])
    assert json.loads((run / "result.json").read_text())["averaged"] is (best["averaged_steps"] > 0)


def test_a_checkpoint_of_two_processes_is_refused_by_one(toy, tmp_path):
    recipe = toy.recipe("lstm")
    model = build_model(recipe.model, 10)
    optimisers = build_optimisers(model, recipe.optimiser)
    states = [{"hidden": torch.full((1, columns), float(columns))} for columns in (2, 3)]
    write_checkpoint(tmp_path, model, optimisers, [tensors_of_process(state) for state in states], TrainerState())
    with pytest.raises(InputError, match="found the checkpoint of a run with 2 processes; expected 1"):
        read_checkpoint(tmp_path, model, optimisers)
    for rank, state in enumerate(states):
        assert torch.equal(read_checkpoint(tmp_path, model, optimisers, rank, 2)[0]["hidden"], state["hidden"])


def test_a_checkpoint_has_the_buffers_of_each_process(tmp_path):
    """RL-SPINN subtracts a mean of its rewards, which differs between processes."""
    models = [build_encoder(MODELS["rl-spinn"].config(), 10) for _ in range(2)]
    for number, model in enumerate(models, 1):
        model.baseline.fill_(-number)
    processes = [tensors_of_process(None), tensors_of_process(None, models[1])]
    write_checkpoint(tmp_path, models[0], (), processes, TrainerState())
    for rank, expected in enumerate([-1.0, -2.0]):
        model = build_encoder(MODELS["rl-spinn"].config(), 10)
        read_checkpoint(tmp_path, model, (), rank, 2)
        assert float(model.baseline) == expected
        assert torch.equal(model.embedding.weight, models[0].embedding.weight)


@pytest.mark.skipif(torch.cuda.is_available(), reason="forks cannot use a GPU")
def test_a_decay_in_a_time_limit_has_one_learning_rate_in_all_processes(toy, tmp_path, monkeypatch):
    """The clocks of two processes differ by some seconds."""
    own_time = Loop._time_used
    monkeypatch.setattr(Loop, "_time_used", lambda loop: own_time(loop) + 0.3 * loop.processes.rank)
    optimiser, schedule = {"gradient_clip": 1e-3}, {"epochs": 1, "minutes": 10, "decay": "linear"}
    recipe = written(tmp_path, toy.recipe_data("lstm", optimiser=optimiser, schedule=schedule))
    output = in_two_processes(tmp_path, recipe, tmp_path / "run", stop=4, launch=forked)
    first, second = ((output / f"weights-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first == second


@pytest.mark.skipif(torch.cuda.is_available(), reason="forks cannot use a GPU")
@pytest.mark.parametrize("differing", ["texts", "checkpoint"])
def test_processes_that_find_other_files_than_the_first_are_refused(toy, tmp_path, monkeypatch, capfd, differing):
    """As on machines that do not share a file system."""
    data = toy.recipe_data("lstm", schedule={"epochs": 1}, run={"process_timeout": 10})
    recipe, run = written(tmp_path, data), tmp_path / "run"
    if differing == "checkpoint":
        in_two_processes(tmp_path, recipe, run, stop=4, launch=forked)
        shared = RunLog.has_checkpoint
        monkeypatch.setattr(RunLog, "has_checkpoint", property(lambda log: log.active and shared.fget(log)))
    else:
        monkeypatch.setattr(training_run, "fingerprints_of", lambda *_: {"text.train": {"a": os.environ.get("RANK")}})
    codes: list[int] = []
    in_two_processes(tmp_path, recipe, run, stop=0, launch=lambda arguments: codes.extend(exit_codes(arguments, 2)))
    assert codes[0] == 1
    assert "process 1 of 2: found other texts, or another checkpoint, than process 0" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("accelerator", "environment", "message"),
    [
        ("cuda", {}, "run.accelerator: found cuda, which is not available"),
        ("mps", {"WORLD_SIZE": "2", "RANK": "1"}, "run.accelerator: mps runs one process; found 2"),
        ("cuda", {"WORLD_SIZE": "3", "RANK": "2", "LOCAL_RANK": "2"}, "process 3 of this machine has no GPU: found 1;"),
    ],
)
def test_devices_that_do_not_exist_are_reported(monkeypatch, accelerator, environment, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(environment))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message):
        Processes(accelerator, "32")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, "the environment has WORLD_SIZE=2 without MASTER_ADDR, MASTER_PORT"),
        ({"WORLD_SIZE": "2"}, "without RANK, MASTER_ADDR, MASTER_PORT"),
        ({"WORLD_SIZE": "abc", "RANK": "x"}, "WORLD_SIZE='abc'; expected a whole number"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK='x'; expected a whole number"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "WORLD_SIZE=2 and RANK=2; expected a rank below"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 and RANK=0; expected a rank below"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "x"}, "MASTER_PORT='x'"),
    ],
)
def test_an_environment_that_torchrun_would_not_make_is_reported(monkeypatch, environment, message):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message + ".* unset WORLD_SIZE and RANK"):
        Processes("cpu", "32")


@pytest.mark.parametrize("environment", [{"RANK": "3"}, {"WORLD_SIZE": ""}, {"WORLD_SIZE": "1", "RANK": "x"}])
def test_one_process_needs_no_rank(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (Processes("cpu", "32").rank, Processes("cpu", "32").count) == (0, 1)


@pytest.mark.parametrize("supported", [True, False])
def test_a_processor_without_bfloat16_instructions_computes_mixed_precision_in_float32(monkeypatch, supported):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    with Processes("cpu", "bf16-mixed").autocast():
        assert torch.is_autocast_enabled("cpu") is supported


def test_a_signal_handler_that_was_not_installed_from_python_is_left_as_it_is(monkeypatch):
    """As in a program in another language that embeds Python."""
    present = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getsignal", lambda number: None)
        with on_stop_signals(lambda: None):
            pass
    assert signal.getsignal(signal.SIGINT) is present
