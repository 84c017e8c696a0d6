"""What several rooms test with: the built-in corpus, small, and two tiny models trained on it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
import torch

from syntaxlm.data.toy import write_corpus
from syntaxlm.model_io import ModelBundle, read_model
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.trainer import train

# Property tests draw fewer examples unless the long tests run, too (make test-all).
hypothesis.settings.register_profile("short", max_examples=30, deadline=None)
hypothesis.settings.register_profile("long", max_examples=200, deadline=None)
hypothesis.settings.load_profile("long" if os.environ.get("SYNTAXLM_LONG_TESTS") else "short")

torch.set_num_threads(1)  # tiny products: more threads only wait for each other

MODELS = {
    "prpn": {
        "name": "prpn", "embedding_size": 12, "hidden_size": 16, "layers": 2, "memory_slots": 4, "look_back": 3,
        "residual_blocks": 1, "dropout": 0.2, "layer_dropout": 0.2, "recurrent_dropout": 0.2, "init_range": 0.1,
    },
    "lstm": {"name": "lstm", "embedding_size": 12, "hidden_size": 16, "layers": 2},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Toy:
    """A small built-in corpus in a folder, and recipes for it."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def recipe_data(self, model: str = "prpn", /, **sections: dict[str, Any]) -> dict[str, Any]:
        """A recipe as nested dicts: seconds of training; `sections` are put over it, setting by setting."""
        data: dict[str, Any] = {
            "model": MODELS[model],
            "text": {part: str(self.folder / f"{part}.txt") for part in ("train", "valid", "test")},
            "batches": {"token_budget": 256, "batch_size": 8, "bptt": 12},
            "optimiser": {"learning_rate": 0.01, "beta1": 0.0},
            "schedule": {"epochs": 2},
            "run": {"accelerator": "cpu", "log_steps": 3},
        }
        return {name: values | sections.get(name, {}) for name, values in data.items()}

    def recipe(self, model: str = "prpn", /, **sections: dict[str, Any]) -> Recipe:
        return recipe_from(self.recipe_data(model, **sections), "recipe.yaml")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """300 training sentences, 15 to validate and 15 to test on."""
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder, 300, seed=0)
    return Toy(folder)


@pytest.fixture(scope="session")
def trained(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Folders of two trained models, `prpn` and `lstm`. Nothing may be written into them."""
    root = tmp_path_factory.mktemp("trained")
    for name in MODELS:
        train(toy.recipe(name), root / name)
    return SimpleNamespace(**{name: root / name for name in MODELS})


@pytest.fixture
def prpn(trained: SimpleNamespace) -> ModelBundle:
    return read_model(trained.prpn)


@pytest.fixture
def lstm(trained: SimpleNamespace) -> ModelBundle:
    return read_model(trained.lstm)
