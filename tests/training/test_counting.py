"""Training by EM: folder, log, checkpoints, stopping and resuming, like training by gradient descent."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import NATS_PER_TOKEN
from syntaxlm.models.batches import TokenBatch
from syntaxlm.models.tree_rnn import TreeRNNConfig
from syntaxlm.scoring.surprisal import surprisals
from syntaxlm.storage.folder import WEIGHTS, distinct_tensors, read_model, write_tensors
from syntaxlm.training import run as run_module
from syntaxlm.training.loop import CountingLoop
from syntaxlm.training.progress import Event
from syntaxlm.training.recipe import DataSettings, RunSettings, ScheduleSettings, TreeRecipe, read_recipe, recipe_from
from syntaxlm.training.result import CHECKPOINT, INPUTS, METRICS, RESULT, TrainingResult, Validation
from syntaxlm.training.run import RECIPE, Run, train
from syntaxlm.training.task import Task
from tests.models.mixture import MixtureOfUnigrams
from tests.models.variants import WORDS, ragged
from tests.training.runs import metrics

ROUNDS = 6


@dataclass(frozen=True, kw_only=True)
class MixtureRecipe(TreeRecipe):
    """A recipe whose files are not read. costs: of the validations; None: those of the model."""

    trees: DataSettings
    costs: Any = None


def texts(*seeds: int) -> list[TokenBatch]:
    batches = (ragged(14, (14, 11, 9, 6, 2), seed) for seed in seeds)
    return [dataclasses.replace(one, targets=one.targets // (1 + torch.arange(5) % 2 * 3)) for one in batches]


class MixtureTask(Task):
    """EM of a mixture of unigrams. Batches are generated one by one, as from disk."""

    def __init__(self, recipe: MixtureRecipe, device: torch.device, building: object) -> None:
        self.model = MixtureOfUnigrams(4, WORDS, seed=int(torch.randint(1000, ())))
        self.costs = recipe.costs

    def batches(self, rank, ranks):
        raise AssertionError("a model that counts takes full passes")

    def full_pass(self):
        return iter(texts(0, 1, 2, 3))

    def validate(self) -> Validation:
        batches = texts(7, 8)
        if self.costs is not None:
            return Validation(NATS_PER_TOKEN, self.costs.pop(0))
        nats = -sum(float(self.model.sentence_log_probs(batch).sum()) for batch in batches)
        loss = nats / sum(batch.token_count() for batch in batches)
        return Validation(NATS_PER_TOKEN, loss, {"valid_loss": loss})

    def write_weights(self, folder: Path) -> None:
        write_tensors(folder / WEIGHTS, distinct_tensors(self.model))


@pytest.fixture(autouse=True)
def mixture_tasks(monkeypatch):
    monkeypatch.setitem(run_module.TASKS, MixtureRecipe, MixtureTask)


def ran(folder: Path, callback=None, costs=None, resumed=False, **schedule: object) -> tuple[bool, Run]:
    """Starts or resumes a run. Returns whether it finished, and the run."""
    recipe = MixtureRecipe(
        model=TreeRNNConfig(),
        trees=DataSettings(train=__file__, valid=__file__),
        schedule=ScheduleSettings(**{"epochs": ROUNDS} | schedule),
        run=RunSettings(accelerator="cpu"),
        costs=costs,
    )
    run = Run(recipe, folder, callback)
    with run.resume() if resumed else run.start():
        return not run.train().stopped, run


def model_in(folder: Path) -> dict[str, torch.Tensor]:
    """Returns the model's tensors in the checkpoint."""
    tensors = safetensors.torch.load_file(folder / CHECKPOINT)
    return {name: tensor for name, tensor in tensors.items() if name.startswith("model/")}


def stop_after(*rounds: int):
    """Returns a callback that sends this process a signal after some rounds."""

    def callback(event: Event) -> None:
        if event.kind == "round" and event.trainer.epoch in rounds:
            os.kill(os.getpid(), signal.SIGTERM)

    return callback


@pytest.fixture
def whole(tmp_path):
    """The folder of an uninterrupted run."""
    finished, run = ran(tmp_path / "whole")
    assert finished
    assert isinstance(run.loop, CountingLoop)
    return tmp_path / "whole"


def test_each_round_has_a_line_and_the_objective_never_rises(whole):
    lines = metrics(whole)
    assert [line["event"] for line in lines] == ["round"] * ROUNDS
    assert [line["epoch"] for line in lines] == list(range(1, ROUNDS + 1))
    objectives = [line["objective"] for line in lines]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] < objectives[0] - 0.1
    assert {line["criterion"] for line in lines} == {"negative log-likelihood, nats per token"}
    assert not any("learning_rate" in line for line in lines)


def test_the_weights_kept_are_those_of_the_best_round(whole, tmp_path):
    lines = metrics(whole)
    best = min(range(ROUNDS), key=lambda number: lines[number]["valid_loss"])
    assert [line["best"] for line in lines][best:] == [True] + [False] * (ROUNDS - 1 - best)
    ran(tmp_path / "best", epochs=best + 1)
    assert (tmp_path / "best" / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()


def test_the_weights_of_the_last_round_are_kept_if_the_recipe_asks_for_them(tmp_path):
    costs = [3.0, 1.0, 2.0, 2.5]
    for keep, kept in (("best", 2), ("last", 4)):
        _, run = ran(tmp_path / keep, costs=list(costs), epochs=4, keep=keep)
        assert run.log.trainer.best_epoch == kept
        ran(tmp_path / f"{keep}-alone", costs=[4.0, 3.0, 2.0, 1.0], epochs=kept)
        assert (tmp_path / keep / WEIGHTS).read_bytes() == (tmp_path / f"{keep}-alone" / WEIGHTS).read_bytes()
        assert [line["best"] for line in metrics(tmp_path / keep)] == [True, True, False, False]


@pytest.mark.parametrize("stops", [(1,), (3,), (2, 3, 5), tuple(range(1, ROUNDS))])
def test_a_run_stopped_between_rounds_and_resumed_has_the_weights_of_an_uninterrupted_one(whole, tmp_path, stops):
    folder = tmp_path / "run"
    finished, run = ran(folder, stop_after(*stops))
    for number in stops:
        assert not finished
        assert run.loop.epochs == number
        finished, run = ran(folder, stop_after(*stops), resumed=True)
    assert finished
    assert model_in(folder).keys() == model_in(whole).keys()
    assert all(torch.equal(tensor, model_in(whole)[name]) for name, tensor in model_in(folder).items())
    assert (folder / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    assert metrics(folder) == metrics(whole)


def test_a_run_killed_within_a_round_repeats_that_round(whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    full_pass, calls = MixtureTask.full_pass, []

    def killed(task):
        calls.append(1)
        for number, batch in enumerate(full_pass(task)):
            if len(calls) == 4 and number == 2:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(MixtureTask, "full_pass", killed)
    with pytest.raises(KeyboardInterrupt):
        ran(folder)
    finished, _ = ran(folder, resumed=True)
    assert finished
    assert len(calls) == ROUNDS + 1
    assert all(torch.equal(tensor, model_in(whole)[name]) for name, tensor in model_in(folder).items())
    assert metrics(folder) == metrics(whole)


def test_a_finished_run_makes_no_round_when_it_is_resumed(whole):
    before = (whole / WEIGHTS).read_bytes(), metrics(whole)
    finished, run = ran(whole, costs=[], resumed=True)
    assert finished
    assert run.loop.epochs == ROUNDS
    assert run.log.trainer.round_figures["objective"] == before[1][-1]["objective"]
    assert ((whole / WEIGHTS).read_bytes(), metrics(whole)) == before


def test_rounds_end_when_none_was_better_for_so_long_and_are_counted_as_they_were(tmp_path):
    costs = [3.0, 2.0, 2.5, 2.1]
    finished, run = ran(tmp_path / "run", costs=list(costs), epochs=50, stop_patience=2)
    assert finished
    assert run.loop.epochs == len(metrics(tmp_path / "run")) == 4
    trainer = run.log.trainer
    assert (trainer.best_loss, trainer.best_step, trainer.best_epoch) == (2.0, 2, 2)
    finished, run = ran(tmp_path / "run", costs=[], epochs=50, stop_patience=2, resumed=True)
    assert finished
    assert run.loop.epochs == 4


def test_rounds_end_at_the_time_limit_and_are_not_resumed(tmp_path):
    finished, run = ran(tmp_path / "run", minutes=1e-9)
    assert finished
    assert run.loop.epochs == 1
    finished, run = ran(tmp_path / "run", minutes=1e-9, resumed=True)
    assert finished
    assert run.loop.epochs == 1


def test_a_criterion_that_is_not_finite_ends_the_run_and_keeps_the_checkpoint(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(InputError, match=r"the negative log-likelihood of the validation data is nan after round 3"):
        ran(folder, costs=[3.0, 2.0, math.nan, 1.0])
    assert len(metrics(folder)) == 2
    assert (folder / WEIGHTS).exists()
    _, run = ran(folder, costs=[1.5], epochs=3, resumed=True)
    assert run.loop.epochs == 3


def test_a_model_of_one_round_makes_one_however_many_epochs_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(MixtureOfUnigrams, "rounds", 1)
    finished, run = ran(tmp_path / "run")
    assert finished
    assert run.loop.epochs == 1
    assert "objective" in run.log.trainer.round_figures
    assert {path.name for path in (tmp_path / "run").iterdir()} == {INPUTS, RECIPE, WEIGHTS, METRICS, RESULT}
    (line,) = metrics(tmp_path / "run")
    assert line["event"] == "round"
    assert line["valid_loss"] > 0


def test_a_round_without_anything_to_count_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(MixtureTask, "full_pass", lambda task: iter(()))
    with pytest.raises(InputError, match="run: found nothing to count"):
        ran(tmp_path / "run")
    assert not (tmp_path / "run" / WEIGHTS).exists()


def test_ngrams_of_ones_own_text_need_no_validation_text(tmp_path):
    text = tmp_path / "my.txt"
    text.write_text("The cat sees the dog.\nA dog sees the old cat, too.\n" * 20, encoding="utf-8")
    changes = {"text.train": str(text)}
    result = train(read_recipe("kn5-text", changes), tmp_path / "kn5")
    assert (result.valid, result.criterion) == (None, None)
    assert "valid" not in str(result)
    bundle = read_model(tmp_path / "kn5")
    (rows,) = surprisals(bundle, ["The old dog sees the cat."])
    assert all(row.surprisal > 0 for row in rows)
    validated = train(read_recipe("kn5-text", {**changes, "text.valid": str(text)}), tmp_path / "validated")
    assert validated.valid is not None
    with pytest.raises(
        InputError, match=r"text\.valid: found null; expected a file, because prpn models are validated"
    ):
        read_recipe("prpn-toy", {"text.valid": None})


def test_only_a_model_of_one_round_is_trained_without_a_validation_text():
    """Without one, all rounds would be equally good, and the first of several would be kept."""
    text = {"train": "train.txt", "valid": None}
    assert recipe_from({"model": {"name": "ngram"}, "text": text}, "recipe.yaml").text.valid is None
    for name in ("dmv", "ccm", "lstm"):
        with pytest.raises(InputError, match=rf"text\.valid: found null; expected a file, because {name} models are"):
            recipe_from({"model": {"name": name}, "text": text}, "recipe.yaml")


def test_a_result_of_a_stopped_run_counts_its_rounds_or_its_steps():
    rounds, steps = (TrainingResult(Path("run"), steps, 2.0, 1.0, stopped=True) for steps in (0, 3))
    assert str(rounds).startswith("Training stopped after 2 rounds; a checkpoint is saved.")
    assert str(steps).startswith("Training stopped after 3 steps; a checkpoint is saved.")
