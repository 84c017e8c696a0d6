"""Where a stored report comes from: its commands, and the size of its model and of the text that it read.

`results/commands.yaml` has the commands. `python -m laboratory.pages.provenance` reads the recipes in them and writes
`results/sizes.json`: parameters of the models, without training them, and tokens of an epoch. It needs the texts of the
recipes in the current folder, and leaves out what has none there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from laboratory.pages.stored_results import RESULTS, Runs, all_stored, stored
from syntaxlm.cli import split_overrides
from syntaxlm.models.abilities import TrainsByGradient
from syntaxlm.training.language_model import LanguageModelTask, TextTask, TreeTask
from syntaxlm.training.recipe import SentenceBatchSettings, TextRecipe, TreeRecipe, read_recipe

_SIZED = ("model", "text", "batches")  # sections of a recipe that change parameters or tokens
_WSJ = "'WSJ/*.mrg'"
_TREEBANKS = {"wsj-half": "'WSJ/wsj_00*.mrg'", "dev": "'WSJ/wsj_00*.mrg'", "wsj-test": "'WSJ/wsj_01*.mrg'",
              "gum": "GUM/test.mrg"}  # fmt: skip


@cache
def commands() -> dict[str, dict[str, str]]:
    """laboratory/results/commands.yaml."""
    found: dict[str, dict[str, str]] = yaml.safe_load((RESULTS / "commands.yaml").read_text(encoding="utf-8"))
    return found


@cache
def sizes() -> dict[str, dict[str, Any]]:
    """laboratory/results/sizes.json: recipe, settings, parameters and tokens of an epoch, by the key of the command."""
    return stored("sizes")


def key(folder: str, name: str = "") -> str:
    """The entry of a run in laboratory/results/commands.yaml. Raises KeyError where it has none."""
    found = f"{folder}/{name}" if name else folder
    if found not in commands():
        raise KeyError(f"laboratory/results/commands.yaml: no entry {found}")
    return found


def recipe_of(place: str) -> tuple[str, dict[str, str]]:
    """The recipe of a run, and the settings of its model and text that the training command changes.

    place: a key of laboratory/results/commands.yaml.
    """
    entry = commands()[place]
    words, overrides = split_overrides(shlex.split(entry["train"]))
    settings = {name: value for name, value in overrides if name.split(".")[0] in _SIZED}
    return entry.get("recipe", words[2]), settings


def trained_places() -> list[str]:
    """All runs with a training command."""
    return [name for name, entry in commands().items() if "train" in entry]


def parameters(place: str, report: dict[str, Any]) -> int | None:
    """Of the model of a report of `train`; from the report, from results/sizes.json, or from results/compare."""
    own: int | None = report.get("parameters") or sizes().get(place, {}).get("parameters")
    return own or _compared(place, "parameters")


def epoch_tokens(place: str) -> int | None:
    """Predicted tokens of an epoch of a run; None where they are not known."""
    return sizes().get(place, {}).get("epoch_tokens") or _compared(place, "epoch_tokens")


def _compared(place: str, what: str) -> int | None:
    """A value of the recipe of a run in the comparisons of laboratory/results/compare."""
    if place not in trained_places():
        return None
    for report in all_stored("compare/*").values():
        for row in report["rows"]:
            if (row["recipe"], {}) == recipe_of(place):
                return int(row[what])
    return None


def evaluation(place: str, one: Runs, ending: str, decoder: str) -> list[str]:
    """The commands of a report of `evaluate parse`: of the training, and of the evaluation with this decoder."""
    entry = commands()[place]
    model = entry.get("model") or (words := shlex.split(entry["train"]))[words.index("-o") + 1]
    first, *others = model.split(" --also ")
    command = f"syntaxlm evaluate parse {first} {_TREEBANKS.get(ending, _WSJ)} --decoder {decoder}"
    if one.first["protocol"] != "wsj-test":
        command += f" --protocol {one.first['protocol']}"
    if ending.endswith("10"):
        command += " --max-words 10"
    command += "".join(f" --also {other}" for other in others)
    return [entry["train"], command] if "train" in entry else [command]


def _measured() -> Iterator[tuple[str, dict[str, Any]]]:
    """The size of each model and of its training text, for the texts that are there."""
    for name in trained_places():
        recipe_name, settings = recipe_of(name)
        recipe = read_recipe(recipe_name, list(settings.items()))
        if isinstance(recipe, TextRecipe | TreeRecipe) and Path(recipe.data.train).exists():
            task = (TextTask if isinstance(recipe, TextRecipe) else TreeTask)(recipe, torch.device("cpu"))
            if isinstance(task.model, TrainsByGradient):
                yield (
                    name,
                    {
                        "recipe": recipe_name,
                        "settings": settings,
                        "parameters": task.model.parameter_count,
                        "epoch_tokens": _tokens(task),
                    },
                )


def _tokens(task: LanguageModelTask) -> int:
    """Tokens that an epoch predicts, ends of sentences included where they are predicted."""
    recipe = task.recipe
    if isinstance(recipe, TreeRecipe):
        return len(task.train.text.ids)
    lengths = task.train.lengths
    if isinstance(recipe.batches, SentenceBatchSettings) and recipe.batches.maximum_words is not None:
        lengths = lengths[lengths <= recipe.batches.maximum_words]
    return int(lengths.sum()) + len(lengths) * recipe.mode.predict_eos


if __name__ == "__main__":
    text = json.dumps(dict(_measured()), indent=1) + "\n"
    (RESULTS / "sizes.json").write_text(text, encoding="utf-8")
