"""Averaged SGD: when it starts, what is averaged, fine-tuning, random lengths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from syntaxlm.core.errors import InputError
from syntaxlm.storage.folder import distinct_tensors, read_model
from syntaxlm.training.checkpoint import Averaging
from syntaxlm.training.loop import GradientLoop, WeightAverage
from syntaxlm.training.recipe import OptimiserSettings
from syntaxlm.training.result import CHECKPOINT, RESULT, read_result
from syntaxlm.training.run import Event, Run, resume, train
from tests.training.runs import metrics

STREAM = {"context": "carry", "batch_size": 16}
NOISY = {
    "kind": "sgd",
    "learning_rate": 20.0,
    "gradient_clip": 0.25,
}  # the rate is so high that the average of the weights is much better


def changes(losses: list[float], settings: OptimiserSettings) -> list[str | None]:
    """Returns the effect of each validation, with one validation and ten steps per epoch."""
    averaging = Averaging()
    return [averaging.seen(loss, 10 * number, float(number), settings) for number, loss in enumerate(losses, 1)]


def test_averaging_begins_at_the_first_loss_above_the_lowest_before_the_last_n():
    settings = OptimiserSettings(average_patience=2)
    assert changes([5.0, 4.0, 4.5, 4.2, 3.0, 3.1, 3.2, 2.9, 3.1], settings) == [None] * 8 + ["begins"]
    assert changes([5.0, 4.0, 3.0, 4.5, 4.0, 3.1], settings)[3:] == [None, None, "begins"]
    assert changes([1.0, 9.0], settings) == changes([1.0, 9.0][::-1], settings) == [None, None]
    random = np.random.default_rng(0)
    for _ in range(200):
        patience, losses = int(random.integers(1, 5)), random.normal(0, 1, 12) - np.arange(12) * random.choice([0, 0.5])
        begins = next(
            (t for t in range(12) if t > patience and losses[t] > losses[: t - patience].min()), None
        )  # algorithm 1
        found = changes(losses.tolist(), OptimiserSettings(average_patience=patience))
        assert found == ["begins" if t == begins else None for t in range(12)]


def test_averaging_begins_at_an_epoch_or_before_it_and_once():
    settings = OptimiserSettings(average_from_epoch=3)
    assert changes([1.0, 2.0, 3.0, 4.0], settings) == [None, None, "begins", None]
    both = OptimiserSettings(average_from_epoch=3, average_patience=1)
    assert changes([1.0, 2.0, 3.0, 4.0], both) == [None, None, "begins", None]
    earlier = OptimiserSettings(average_from_epoch=5, average_patience=1)
    assert changes([2.0, 1.0, 3.0, 0.5, 0.4], earlier) == [None, None, "begins", None, None]


def test_fine_tuning_compares_its_own_losses_and_ends_the_run():
    settings = OptimiserSettings(average_patience=1, finetune_epoch=4)
    losses = [1.0, 2.0, 3.0, 3.0, 9.0, 8.0, 7.0, 7.5, 8.5]
    assert changes(losses, settings) == [None, None, "begins", "restarts", None, None, None, None, "ends"]
    assert changes([4.0, 3.0, 2.0, 1.0], settings) == [None, None, None, "restarts"]


def test_steps_are_counted_from_the_last_restart_and_averaged_weights_from_the_first():
    averaging = Averaging()
    assert (averaging.count(7), averaging.is_averaged(7)) == (0, False)
    averaging.began = 10
    assert [averaging.count(step) for step in (10, 11, 15)] == [0, 1, 5]
    averaging.restarted = 20
    assert [averaging.count(step) for step in (20, 21)] == [0, 1]
    assert [averaging.is_averaged(step) for step in (10, 11, 25)] == [False, True, True]


def test_the_average_is_the_mean_of_parameters_and_the_model_gets_its_own_back():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average, seen = WeightAverage(model), []
    for count in range(1, 8):
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_()
        model[1].running_mean.fill_(count)
        average.add(count)
        seen.append({name: weight.detach().double().clone() for name, weight in model.named_parameters()})
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def measure() -> None:
        with average.as_weights():
            inside.update({name: tensor.clone() for name, tensor in model.state_dict().items()})
            raise InputError("a loss without bounds")

    inside: dict[str, torch.Tensor] = {}
    with pytest.raises(InputError):
        measure()
    for name in seen[0]:
        mean = torch.stack([one[name] for one in seen]).mean(0)
        torch.testing.assert_close(inside[name].double(), mean, rtol=1e-5, atol=1e-6)
    assert torch.equal(inside["1.running_mean"], own["1.running_mean"])
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())


def watched(recipe, folder: Path) -> tuple[Run, list[dict[str, torch.Tensor]], list[tuple[Event, float]]]:
    """Trains a run; records the weights after each step, and the loss of the unaveraged weights at each validation."""
    weights, scores = [], []

    def watch(event: Event) -> None:
        if event.kind == "valid":
            raw = run.task._score(run.task.model, run.task.valid)
            scores.append((event, raw.loss))
        elif event.kind == "step":
            weights.append({name: one.detach().double().clone() for name, one in run.task.model.named_parameters()})

    run = Run(recipe, folder, watch)
    with run.start():
        run.train()
    return run, weights, scores


@pytest.mark.long
def test_averaged_weights_are_better_than_those_they_are_the_mean_of_and_are_kept(larger_toy, tmp_path):
    """SGD with a high rate: averaging starts during training, and the average has a lower loss at every validation."""
    schedule = {"epochs": 6, "validations_per_epoch": 3, "plateau_factor": 1.0}
    recipe = larger_toy.recipe("lstm", batches=STREAM, optimiser=NOISY | {"average_patience": 1}, schedule=schedule)
    run, weights, scores = watched(recipe, tmp_path / "run")
    began = run.log.trainer.averaging.began
    assert began is not None
    lines = metrics(tmp_path / "run", "valid")
    assert [line["averaging"] for line in lines].count("begins") == 1
    assert next(line["step"] for line in lines if line["averaging"] == "begins") == began
    assert [line["averaged_steps"] for line in lines] == [max(0, line["step"] - began) for line in lines]
    averaged = [(event.values["valid_loss"], raw) for event, raw in scores if event.values["averaged_steps"]]
    assert len(averaged) >= 3
    assert all(loss < raw for loss, raw in averaged)
    for name, mean in run.loop.average.means.items():
        every = torch.stack([one[name] for one in weights[began:]]).mean(0)
        torch.testing.assert_close(mean.double(), every, rtol=1e-4, atol=1e-5)
    best = min(lines, key=lambda line: line["valid_loss"])
    result = read_result(tmp_path / "run")
    assert result.valid.loss == pytest.approx(best["valid_loss"], rel=1e-9)
    assert result.averaged is (best["step"] > began)
    assert result.averaged, "the best weights are not averaged: nothing was gained"
    assert json.loads((tmp_path / "run" / RESULT).read_text())["averaged"] is True
    assert "averaged weights" in str(result)
    kept = distinct_tensors(read_model(tmp_path / "run").model)
    since, until = began, best["step"]
    for name in run.loop.average.means:
        every = torch.stack([one[name] for one in weights[since:until]]).mean(0)
        torch.testing.assert_close(kept[name].double(), every, rtol=1e-4, atol=1e-5)


def test_adam_gives_way_to_sgd_with_its_own_rate_and_a_fresh_plateau(toy, tmp_path):
    schedule = {"epochs": 3, "plateau_patience": 1, "plateau_factor": 0.5}
    optimiser = {"average_from_epoch": 1, "average_learning_rate": 0.5, "weight_decay": 0.0, "gradient_clip": 1e9}
    recipe = toy.recipe("lstm", optimiser=optimiser, schedule=schedule)
    run, weights, _ = watched(recipe, tmp_path / "run")
    assert isinstance(run.loop.optimisers[0], torch.optim.SGD)
    assert not run.loop.optimisers[0].state
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "valid")]
    assert rates[0] == 0.5
    assert rates[-1] in (0.5, 0.25, 0.125)
    for name, weight in run.task.model.named_parameters():  # the last step is the gradient times the rate
        torch.testing.assert_close(
            weights[-1][name], weights[-2][name] - rates[-2] * weight.grad.double(), rtol=1e-4, atol=1e-6
        )


def test_without_a_separate_rate_averaging_continues_with_the_present_rate(toy, tmp_path):
    schedule = {"epochs": 3, "decay": "linear"}
    optimiser = {"kind": "sgd", "learning_rate": 1.0, "average_from_epoch": 1}
    train(toy.recipe("lstm", optimiser=optimiser, schedule=schedule), tmp_path / "run")
    assert [line["learning_rate"] for line in metrics(tmp_path / "run", "valid")] == pytest.approx([2 / 3, 1 / 3, 0.0])


def test_fine_tuning_trains_on_from_the_mean_and_ends_at_a_loss_that_rose(toy, tmp_path):
    optimiser = NOISY | {"average_from_epoch": 1, "average_patience": 1, "finetune_epoch": 2}
    schedule = {"epochs": 60, "plateau_factor": 1.0}
    recipe = toy.recipe("lstm", batches=STREAM, optimiser=optimiser, schedule=schedule)
    run, _, scores = watched(recipe, tmp_path / "run")
    reported = [event.values["averaging"] for event, _ in scores]
    assert [one for one in reported if one] == ["begins", "restarts", "ends"]
    assert reported[-1] == "ends"
    assert len(reported) < 60
    restarted = next(place for place, one in enumerate(reported) if one == "restarts")
    event, raw = scores[restarted]
    assert raw == event.values["valid_loss"], "the weights trained on are not the averaged ones"
    assert all(raw != event.values["valid_loss"] for event, raw in scores[restarted + 1 :])
    steps = [line["step"] for line in metrics(tmp_path / "run", "valid")]
    counts = [line["averaged_steps"] for line in metrics(tmp_path / "run", "valid")]
    assert counts[restarted + 1 :] == [step - steps[restarted] for step in steps[restarted + 1 :]]
    assert run.log.trainer.finished
    assert resume(tmp_path / "run").steps == steps[-1]


def test_averaging_is_not_reported_where_no_setting_starts_it(toy, tmp_path):
    result = train(toy.recipe("lstm", schedule={"epochs": 1}), tmp_path / "run")
    assert all(line.keys().isdisjoint({"averaging", "averaged_steps"}) for line in metrics(tmp_path / "run", "valid"))
    assert not any(name.startswith("average/") for name in safetensors.torch.load_file(tmp_path / "run" / CHECKPOINT))
    assert result.to_dict()["averaged"] is False
    assert "averaged" not in str(result)


@pytest.mark.long
def test_each_random_length_has_its_own_rate(toy, tmp_path, monkeypatch):
    """The rate of a step is proportional to its length; validations report the base rate."""
    lengths, rates = [], []
    step = GradientLoop._step

    def telling(loop, batch):
        step(loop, batch)
        lengths.append(batch.targets.shape[0])
        rates.append(loop.optimisers[0].param_groups[0]["lr"])

    monkeypatch.setattr(GradientLoop, "_step", telling)
    batches = {"context": "carry", "batch_size": 4, "variable_bptt": True}
    result = train(toy.recipe("lstm", batches=batches, optimiser=NOISY, schedule={"epochs": 2}), tmp_path / "run")
    assert len(set(lengths)) > 5
    assert rates == pytest.approx([20.0 * length / 12 for length in lengths])
    assert [line["learning_rate"] for line in metrics(tmp_path / "run", "valid")] == [20.0, 20.0]
    first = next(number for number in range(1, result.steps) if sum(lengths[:number]) == sum(lengths[number:]))
    assert lengths[:first] != lengths[first:], "both epochs were cut alike"


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"optimiser": {"average_patience": 0}}, "optimiser.average_patience: found 0; expected an integer, 1 or more"),
        (
            {"optimiser": {"average_from_epoch": 0}},
            "optimiser.average_from_epoch: found 0; expected an integer, 1 or more",
        ),
        (
            {"optimiser": {"average_learning_rate": -1.0, "average_patience": 5}},
            "optimiser.average_learning_rate: found -1.0; expected a positive number",
        ),
        (
            {"optimiser": {"average_learning_rate": 30.0}},
            "optimiser.average_learning_rate: found 30.0; expected null, or a setting that starts averaging: "
            "optimiser.average_patience, average_from_epoch or finetune_epoch",
        ),
        (
            {"optimiser": {"finetune_epoch": 500}},
            "optimiser.finetune_epoch: found 500; expected null, or optimiser.average_patience, which ends it",
        ),
        (
            {"optimiser": {"finetune_epoch": 5, "average_from_epoch": 5, "average_patience": 1}},
            "optimiser.finetune_epoch: found 5; expected more than optimiser.average_from_epoch, 5",
        ),
        ({"optimiser": {"kind": "asgd"}}, "optimiser.kind: found \"asgd\"; expected 'adam', 'adamw' or 'sgd'"),
    ],
)
def test_contradictory_settings_are_reported(toy, sections, fault):
    with pytest.raises(InputError) as caught:
        toy.recipe("lstm", **sections)
    assert str(caught.value) == f"recipe.yaml: {fault}"
