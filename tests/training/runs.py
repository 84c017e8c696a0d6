"""What several tests of training share: interruptions, comparisons of runs, and a recipe for dependency trees."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from syntaxlm.core.yaml_files import yaml_text
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import CHECKPOINT, TrainingResult
from syntaxlm.training.run import METRICS, Event, resume, train

TREE_RNN = {"name": "tree-rnn", "embedding_size": 8, "hidden_size": 12, "label_size": 4}


def written(tmp_path: Path, data: dict) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml_text(data))
    return path


def stop_at(*steps: int, number: int = signal.SIGTERM):
    """Returns a callback that sends this process a signal after a step."""

    def watch(event: Event) -> None:
        if event.kind == "step" and event.trainer.steps in steps:
            os.kill(os.getpid(), number)

    return watch


def metrics(folder: Path, kind: str | None = None) -> list[dict]:
    """Returns the lines of metrics.jsonl without times.  kind: of the events; None: all."""
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    lines = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return [line for line in lines if kind in (None, line["event"])]


def content(folder: Path) -> tuple[dict[str, torch.Tensor], dict]:
    """Returns all tensors of the checkpoint, and its progress without times."""
    with safetensors.safe_open(folder / CHECKPOINT, "pt") as file:
        notes = file.metadata()
    progress = json.loads(notes["progress"])
    for name in ("seconds", "metrics_bytes"):
        progress.pop(name)
    return safetensors.torch.load_file(folder / CHECKPOINT), progress


def assert_same_run(one: Path, other: Path, with_optimiser: bool = True) -> None:
    """Resumed runs have bitwise equal weights, optimiser, carried state, random state, best weights and metrics."""
    (tensors, progress), (others, other_progress) = content(one), content(other)
    assert progress == other_progress
    assert tensors.keys() == others.keys()
    different = [name for name, tensor in tensors.items() if not torch.equal(tensor, others[name])]
    assert not different
    has_optimiser = any(name.startswith(("optimiser/", "average/")) for name in tensors)
    assert has_optimiser == with_optimiser, "neither Adam nor averaged SGD"
    assert (one / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()
    assert metrics(one) == metrics(other)


def assert_resumes(finished: TrainingResult, recipe: Recipe, *stops: int, with_optimiser: bool = True) -> None:
    """A run that is stopped after these steps and resumed each time ends bit for bit as the finished one."""
    broken = finished.folder.parent / "broken"
    assert train(recipe, broken, stop_at(stops[0])).steps == stops[0]
    for stop in stops[1:]:
        stopped = resume(broken, stop_at(stop))
        assert (stopped.stopped, stopped.steps) == (True, stop)
    result = resume(broken)
    assert not result.stopped
    assert (result.steps, result.valid) == (finished.steps, finished.valid)
    assert_same_run(finished.folder, broken, with_optimiser)


def tree_data(toy, **sections) -> dict:
    data: dict = {
        "model": TREE_RNN,
        "trees": {part: str(toy / f"{part}.conllu") for part in ("train", "valid", "test")},
        "batches": {"batch_size": 16},
        "optimiser": {
            "kind": "sgd",
            "learning_rate": 0.1,
            "weight_decay": 0.0,
            "loss_normalisation": "sentences",
            "gradient_clip": 5.0,
        },
        "schedule": {"epochs": 2},
        "run": {"accelerator": "cpu", "log_steps": 3},
    }
    return {name: values | sections.get(name, {}) for name, values in data.items()}


def tree_recipe(toy, **sections) -> Recipe:
    return recipe_from(tree_data(toy, **sections), "recipe.yaml")
