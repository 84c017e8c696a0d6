"""Model folders, described from settings and file sizes without reading weights, and lists of them and of recipes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from syntaxlm.core.errors import InputError, shortened
from syntaxlm.core.tensor_files import read_metadata
from syntaxlm.core.yaml_files import read_yaml
from syntaxlm.models.abilities import ParsesSentences, TrainsByCounting, abilities_of
from syntaxlm.models.registry import model_shapes
from syntaxlm.models.sizes import shapes_of
from syntaxlm.reports.report import Report
from syntaxlm.reports.tables import Column, Columns, ReportTable
from syntaxlm.reports.writers import plain
from syntaxlm.storage.bundled import bundled_folder, bundled_names, check_folder, find_model
from syntaxlm.storage.cards import read_card
from syntaxlm.storage.folder import (
    CLASSIFIER,
    CLASSIFIER_FORMAT,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    ModelSettings,
    PairClassifierSettings,
    read_config,
    structure_name,
)
from syntaxlm.storage.folder import FORMAT as MODEL_FORMAT
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.recipe_files import RECIPE_GROUPS, find_recipe, recipe_names
from syntaxlm.training.result import RESULT, read_result
from syntaxlm.training.run import RECIPE, read_run_recipe

_LONGEST_TEXT = 80  # characters of a training text
MODEL_FOLDERS = Columns(
    "model folders",
    "model folder",
    {
        "folder": Column("text", "folder"),
        "model_type": Column("text", "type of the model; missing after an error"),
        "abilities": Column("list of text", "abilities of the model"),
        "parameters": Column("integer", "number of parameters; missing for counted models and pair classifiers"),
        "bytes": Column("integer", "size of the weights on disk"),
        "licence": Column("text", "licence of the model, from its card"),
        "trained_on": Column("text", "training text, from the recipe of the folder or from its card"),
        "error": Column("text", "why the folder cannot be described"),
    },
)
BUNDLED_RECIPES = Columns(
    "bundled recipes",
    "recipe",
    {
        "name": Column("text", "name, for train, compare and focus"),
        "model_type": Column("text", "type of the model"),
        "group": Column("text", f"what one wants: {', '.join(RECIPE_GROUPS)}"),
        "purpose": Column("text", "what the recipe is for"),
    },
)


def list_models(folder: Path | None) -> Report:
    """Return a report of the model folders at and below a folder, or why one cannot be described.

    Args:
        folder: None: the current folder, with the bundled models first.

    Raises:
        InputError: for a folder that does not exist.
    """
    models = [] if folder else [describe(bundled_folder(name)) | {"folder": name} for name in bundled_names()]
    folder = folder or Path()
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for place, below, files in os.walk(folder):  # links are not followed
        below[:] = sorted(name for name in below if not name.startswith("."))
        if CONFIG in files or CLASSIFIER in files:
            try:
                models.append(describe(Path(place)))
            except InputError as error:
                models.append({"folder": str(Path(place)), "error": str(error).splitlines()[0]})
    cells = [
        [model["folder"], None, None, None, None, None, model["error"]]
        if "error" in model
        else [
            model["folder"], model["model_type"], model["parameters"], shown_size(model["bytes"]),
            model["licence"], model["trained_on"] or None, ", ".join(model["abilities"]),
        ]
        for model in models
    ]  # fmt: skip
    headings = dict.fromkeys(("model", "type", "parameters", "size", "licence", "trained on", "abilities"), "")
    return Report(
        MODEL_FOLDERS,
        [{name: model.get(name) for name in MODEL_FOLDERS} for model in models],
        {"schema_version": 1, "folder": str(folder), "models": models},
        tables=[ReportTable(headings, cells)],
        notes=[] if models else [f"{folder}: no model folders found"],
    )


def list_recipes() -> Report:
    """Return a report of the bundled recipes, by what they are for: the section `about` of each."""
    recipes = []
    for name in recipe_names():
        settings = read_yaml(find_recipe(name))
        recipes.append({"name": name, "model_type": settings["model"]["name"], **settings["about"]})

    order = list(RECIPE_GROUPS)
    recipes.sort(key=lambda recipe: order.index(recipe["group"]))  # by name in each group
    tables = [
        ReportTable.of(
            BUNDLED_RECIPES,
            [recipe for recipe in recipes if recipe["group"] == group],
            {"name": heading, "purpose": ""},
        )
        for group, heading in RECIPE_GROUPS.items()
    ]
    return Report(BUNDLED_RECIPES, recipes, {"schema_version": 1, "recipes": recipes}, tables=tables)


def shown_size(number: int) -> str:
    """Return a number of bytes in KiB or MiB."""
    return f"{number / 2**20:,.1f} MiB" if number >= 2**20 else f"{number / 2**10:,.1f} KiB"


def describe(folder: str | Path, full: bool = False) -> dict[str, Any]:
    """Return what a model folder holds, as snake_case figures.

    Args:
        full: with settings, normaliser, reading mode, vocabulary size, decoders, the perplexities of training, and what
            the model card states; or `card`, why the card cannot be read.

    Raises:
        InputError: where the folder holds no model, or damaged settings.
    """
    folder = find_model(folder)
    facts: dict[str, Any] = {"folder": str(folder)}
    card = _card_facts(folder)
    if (folder / CLASSIFIER).exists():
        return facts | _describe_classifier(folder, card, full)
    check_folder(folder)
    fitness = card.pop("psycholinguists", None)
    facts |= {"for_psycholinguists": fitness} if full and fitness else {}
    settings = read_config(ModelSettings, folder / CONFIG, MODEL_FORMAT)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    model = model_shapes(settings.model, len(vocabulary))
    recipe = read_run_recipe(folder) if (folder / RECIPE).exists() else None
    facts |= {
        "model_type": settings.model.name,
        "abilities": abilities_of(model),
        "parameters": None if isinstance(model, TrainsByCounting) else model.parameter_count,
        "bytes": _weight_bytes(folder),
        "trained_on": recipe.data.train if recipe else _stated_text(card),
        "licence": card.pop("licence", None),
    }
    if full:
        facts |= card | {
            "reads": model.reads,
            "carry_state": settings.carry_state,
            "predict_eos": settings.predict_eos,
            "vocabulary": len(vocabulary),
            "structure": structure_name(model),
            "decoders": list(model.decoders) if isinstance(model, ParsesSentences) else [],
            "settings": _plain(settings.model),
            "normaliser": _plain(settings.normaliser),
        }
        facts |= _training_figures(folder)
    return facts


def _describe_classifier(folder: Path, card: dict[str, Any], full: bool) -> dict[str, Any]:
    """Return what the folder of a pair classifier holds.

    Args:
        card: what its card states.
        full: with settings and what the card states, see `describe`.
    """
    settings = read_config(PairClassifierSettings, folder / CLASSIFIER, CLASSIFIER_FORMAT)
    abilities = ["logical inference" if settings.task == "logic" else "pair classification"]
    if isinstance(shapes_of(lambda: settings.build(1)).encoder, ParsesSentences):
        abilities.append("parsing")
    facts = {
        "model_type": settings.model.name,
        "abilities": abilities,
        "parameters": None,
        "bytes": _weight_bytes(folder),
        "trained_on": _stated_text(card),
        "licence": card.pop("licence", None),
    }
    return facts | card | {"settings": _plain(settings.model)} if full else facts


def _training_figures(folder: Path) -> dict[str, Any]:
    """Return the perplexities of training and the criterion, if the folder is that of a finished run."""
    if not (folder / RESULT).exists():
        return {}
    result = read_result(folder)
    scores = {"valid": result.valid, "test": result.test}
    figures: dict[str, Any] = {}
    if perplexity := {name: score.perplexity for name, score in scores.items() if score is not None}:
        figures["perplexity"] = perplexity
    if result.criterion is not None:
        figures["criterion"] = str(result.criterion)
    return figures


def _card_facts(folder: Path) -> dict[str, Any]:
    """Return what the model card states, if there is one, or `card`, why it cannot be read."""
    try:
        card = read_card(folder)
    except InputError as error:
        return {"card": str(error)}
    if card is None:
        return {}
    facts: dict[str, Any] = plain(card)
    return facts | {"results": [result.model_dump(exclude_defaults=True) for result in card.results]}


def _stated_text(card: dict[str, Any]) -> str | None:
    """Return the training text that a card states: the first sentence of its section "Training data"."""
    paragraph = " ".join((card.get("data") or "").partition("\n\n")[0].split())
    return shortened(paragraph.partition(". ")[0].rstrip("."), _LONGEST_TEXT) or None


def _weight_bytes(folder: Path) -> int:
    weights = folder / WEIGHTS
    if not weights.exists():
        raise InputError(
            f"{folder}: {WEIGHTS} is missing, because training has not reached its first validation. Resume it with"
            " syntaxlm train --resume"
        )
    read_metadata(weights)  # checks that the file has the size that its header states
    return weights.stat().st_size


def _plain(settings: Any) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(settings).items() if name != "name"}
