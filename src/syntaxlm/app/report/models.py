"""What model folders hold, for lists of them: described from settings and file sizes, without reading weights."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError
from syntaxlm.models.abilities import ParsesSentences, TrainsByCounting, abilities_of
from syntaxlm.models.registry import model_shapes
from syntaxlm.models.sizes import shapes_of
from syntaxlm.storage.bundled import find_model
from syntaxlm.storage.folder import (
    CLASSIFIER,
    CLASSIFIER_FORMAT,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    ModelSettings,
    PairClassifierSettings,
    check_folder,
    read_config,
    structure_name,
)
from syntaxlm.storage.folder import FORMAT as MODEL_FORMAT
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.result import RESULT, read_result
from syntaxlm.training.run import RECIPE, read_run_recipe


def model_folders(folder: str | Path) -> Iterator[Path]:
    """Yield the folders of models and classifiers at and below a folder, in alphabetical order. Links are not followed.

    Raises InputError for a folder that does not exist.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder")
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if CONFIG in files or CLASSIFIER in files:
            yield Path(place)


def describe(folder: str | Path, full: bool = False) -> dict[str, Any]:
    """Return what a model folder holds, as snake_case figures.

    full: with settings, normaliser, reading mode, vocabulary size, decoders and the perplexities of training.
    Raises InputError where the folder holds no model, or damaged settings.
    """
    folder = find_model(folder)
    if (folder / CLASSIFIER).exists():
        return _describe_classifier(folder, full)
    check_folder(folder)
    settings = read_config(ModelSettings, folder / CONFIG, MODEL_FORMAT)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    model = model_shapes(settings.model, len(vocabulary))
    recipe = read_run_recipe(folder) if (folder / RECIPE).exists() else None
    facts: dict[str, Any] = {
        "folder": str(folder),
        "model_type": settings.model.name,
        "abilities": abilities_of(model),
        "parameters": None if isinstance(model, TrainsByCounting) else model.parameter_count,
        "bytes": _weight_bytes(folder),
        "trained_on": recipe and recipe.data.train,
    }
    if full:
        facts |= {
            "reads": model.reads,
            "carry_state": settings.carry_state,
            "predict_eos": settings.predict_eos,
            "vocabulary": len(vocabulary),
            "structure": structure_name(model),
            "decoders": list(model.decoders) if isinstance(model, ParsesSentences) else [],
            "settings": _plain(settings.model),
            "normaliser": _plain(settings.normaliser),
        }
        if (folder / RESULT).exists():
            result = read_result(folder)
            scores = {"valid": result.valid, "test": result.test}
            facts["perplexity"] = {name: score.perplexity for name, score in scores.items() if score is not None}
    return facts


def _describe_classifier(folder: Path, full: bool) -> dict[str, Any]:
    settings = read_config(PairClassifierSettings, folder / CLASSIFIER, CLASSIFIER_FORMAT)
    facts: dict[str, Any] = {
        "folder": str(folder),
        "model_type": settings.model.name,
        "abilities": [
            "logical inference" if settings.task == "logic" else "pair classification",
            *(["parsing"] if isinstance(shapes_of(lambda: settings.build(1)).encoder, ParsesSentences) else []),
        ],
        "parameters": None,
        "bytes": _weight_bytes(folder),
        "trained_on": None,
    }
    return facts | ({"settings": _plain(settings.model)} if full else {})


def _weight_bytes(folder: Path) -> int:
    weights = folder / WEIGHTS
    if not weights.exists():
        raise InputError(f"{folder}: {WEIGHTS} is missing: training has not reached its first validation")
    return weights.stat().st_size


def _plain(settings: Any) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(settings).items() if name != "name"}
