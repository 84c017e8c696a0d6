"""Training of language models from recipes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from syntaxlm.batches import Batches
from syntaxlm.core.errors import InputError
from syntaxlm.core.files import named_path, to_json
from syntaxlm.core.progress import status
from syntaxlm.core.settings import parse_yaml
from syntaxlm.models.abilities import (
    NATS_PER_TOKEN,
    AnnealsLoss,
    Criterion,
    HasLoss,
    Model,
    ParsesSentences,
    ScoresSentences,
    TrainsByGradient,
)
from syntaxlm.models.registry import build_model
from syntaxlm.models.structures import SpanMarginals
from syntaxlm.parsing.collapse import TreeFigures, tree_figures
from syntaxlm.scoring.engine import Scorer
from syntaxlm.scoring.perplexity import Corpus, LanguageModelScore, evaluate_language_model
from syntaxlm.storage.folder import (
    LABELS,
    VOCABULARY,
    ModelBundle,
    ModelSettings,
    read_model,
    write_settings,
    write_weights,
)
from syntaxlm.text.vocabulary import Vocabulary
from syntaxlm.training.counting import CountingLoop
from syntaxlm.training.data import TrainingData, fingerprint_texts, read_training_data
from syntaxlm.training.processes import process_group
from syntaxlm.training.recipe import Recipe, recipe_from
from syntaxlm.training.result import RESULT, CriterionValue, TrainingResult
from syntaxlm.training.run import Run, refuse_run
from syntaxlm.training.run_folder import METRICS, RECIPE, read_recipe_text
from syntaxlm.training.run_log import Event, ProgressCallback
from syntaxlm.training.task import Task, Validation

__all__ = ["METRICS", "RECIPE", "Event", "ProgressCallback", "read_run_recipe", "refuse_run", "resume", "train"]


NO_VALIDATION = Validation(Criterion("no criterion", "none"), 0.0)


def train(recipe: Recipe, folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Train the model of a recipe in a new folder.

    callback: called with the progress of the run.
    Raises InputError before anything is read if the folder already holds a run or cannot be written.
    """
    with process_group():
        run = _run(recipe, named_path(folder), callback)
        with run.start():
            return _trained(run, recipe)


def resume(folder: str | Path, callback: ProgressCallback | None = None) -> TrainingResult:
    """Resume a run from its last checkpoint, or from its start if it has none.

    callback: called with the progress of the run.
    Raises InputError if the folder holds no run, or if its files have changed.

    >>> result = syntaxlm.resume("my-run")
    """
    recipe = read_run_recipe(folder)
    with process_group():
        run = _run(recipe, named_path(folder), callback)
        with run.resume():
            return _trained(run, recipe)


def read_run_recipe(folder: str | Path) -> Recipe:
    """Read the recipe of the run in a folder. Raises InputError if there is none."""
    path = Path(folder) / RECIPE
    if not os.path.lexists(path):
        raise InputError(f"{folder}: no run to resume: {RECIPE} is missing")
    return recipe_from(parse_yaml(read_recipe_text(path), path), str(path))


class LanguageModelTask(Task):
    """A language model or a dependency-tree model, with its data."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        with status("reading the data"):
            self.data: TrainingData = read_training_data(recipe)
        model = build_model(recipe.model, len(self.data.vocabulary))
        self.data.setup(model)
        self.model: Model = self.placed(model, device)

    @staticmethod
    def placed(model: Model, device: torch.device) -> Model:
        """Move a model to the device of the run. Models that are trained by counting stay on the CPU."""
        return model.to(device) if isinstance(model, TrainsByGradient) else model

    def batches(self, rank: int, ranks: int) -> Batches:
        return self.data.batches(self.recipe, self.model, rank, ranks)

    def full_pass(self) -> Iterable[Any]:
        return self.data.full_pass(self.recipe)

    def set_epoch(self, epochs: float) -> None:
        if isinstance(self.model, AnnealsLoss):
            self.model.set_epoch(epochs)

    def rate_factor(self, batch: Any) -> float:
        """Return with variable bptt, the learning rate is proportional to the length of the batch (Merity et al.
        2018).
        """
        settings = self.recipe.batches
        return len(batch.tokens) / settings.bptt if settings.variable_bptt else 1.0

    def validate(self) -> Validation:
        """Evaluate the model's criterion; for models that score sentences, the negative log-likelihood per token.

        A model without either is trained by counting in one round; its criterion is 0.
        """
        if not isinstance(self.model, ScoresSentences):
            return self._validate_by_loss(self.model) if isinstance(self.model, HasLoss) else NO_VALIDATION
        loss = self.score(self.model, self.data.valid).loss
        figures = {"valid_loss": loss, "valid_perplexity": math.exp(min(loss, 700.0))}
        return Validation(NATS_PER_TOKEN, loss, figures)

    @torch.no_grad()
    def _validate_by_loss(self, model: HasLoss) -> Validation:
        """Compute the loss on the validation data in evaluation mode, for models without probabilities."""
        self.model.eval()
        total = count = 0.0
        for batch in self.data.validation_batches(self.recipe):
            loss = model.loss(batch.to(self.model.device))
            total, count = total + float(loss.total), count + loss.count
        value = total / count
        return Validation(model.criterion, value, {"valid_loss": value})

    def score(self, model: Model, corpus: Corpus) -> LanguageModelScore:
        """Evaluate a model on a corpus, which is read as in training."""
        scorer = Scorer(model, self.data.vocabulary, self.recipe.mode, self.recipe.model.name)
        return evaluate_language_model(scorer, corpus)

    def write_settings(self, folder: Path) -> None:
        write_settings(folder, self.settings, self.data.vocabulary, self.data.labels)

    def write_weights(self, folder: Path) -> None:
        write_weights(folder, self.model, self.data.vocabulary)

    def check_resumable(self, folder: Path) -> None:
        for name, found in ((VOCABULARY, self.data.vocabulary), (LABELS, self.data.labels)):
            path = folder / name
            if found is not None and path.exists() and Vocabulary.read(path) != found:
                what = "labels" if name == LABELS else "words"
                raise InputError(
                    f"{self.recipe.text.train}: changed since the run started: its {what} differ from those in {path}."
                    " Restore the file to resume the run, or start a new run."
                )

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.data.supervision is not None:
            found["supervised"] = self.data.supervision.count
        if self.data.focus:
            found["focused"] = [one.count for one in self.data.focus]
        if (trees := self.tree_figures(self.model)) is not None:
            found |= {name: value for name, value in vars(trees).items() if name != "sentences"}
        return found

    def tree_figures(self, model: Model) -> TreeFigures | None:
        """Return statistics of a grammar's trees on the validation text; None for other models."""
        if not isinstance(model, ParsesSentences) or model.structure_type is not SpanMarginals:
            return None
        return tree_figures(ModelBundle(model, self.settings, self.data.vocabulary), self.data.valid)

    @property
    def settings(self) -> ModelSettings:
        mode = self.recipe.mode
        return ModelSettings(self.recipe.model, self.recipe.text.normaliser, mode.carry_state, mode.predict_eos)


def _run(recipe: Recipe, folder: Path, callback: ProgressCallback | None) -> Run:
    return Run(
        recipe, folder, lambda device: LanguageModelTask(recipe, device), lambda: fingerprint_texts(recipe), callback
    )


def _trained(run: Run, recipe: Recipe) -> TrainingResult:
    """Train a prepared run. Unless it was interrupted, evaluates the best weights and write the result."""
    task, trainer = run.task, run.log.trainer
    assert isinstance(task, LanguageModelTask)
    if not trainer.finished and task.data.supervision is not None:
        run.log.report("trees", 1, {"supervision": task.data.supervision})
    for trees in () if trainer.finished else task.data.focus:
        run.log.report("trees", 1, {"supervision": trees})
    if not run.train():
        return TrainingResult(*run.place, stopped=True)
    best = task.placed(read_model(run.folder).model, run.processes.device)
    valid = test = criterion = None
    if isinstance(best, ScoresSentences):
        valid = task.score(best, task.data.valid)
        test = None if task.data.test is None else task.score(best, task.data.test)
    else:
        task.model = best
        found = task.validate()
        criterion = CriterionValue(found.criterion.name, found.criterion.unit, found.value)
    supervision = task.data.supervision
    result = TrainingResult(
        *run.place,
        valid,
        test,
        averaged=run.log.trainer.averaging.is_averaged(run.log.trainer.best_step),
        supervised=None if supervision is None else (supervision.count, len(task.data.train)),
        counted=run.loop.figures if isinstance(run.loop, CountingLoop) else None,
        trees=task.tree_figures(best),
        criterion=criterion,
    )
    run.write(to_json(result.to_dict(), indent=2) + "\n", RESULT)
    return result
