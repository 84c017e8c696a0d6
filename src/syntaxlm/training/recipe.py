"""Recipes: all settings of a training run, read from YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from syntaxlm.core.settings import (
    Count,
    Fraction,
    NonNegative,
    Overrides,
    Positive,
    Seed,
    Settings,
    Size,
    override,
    read_sections,
    read_settings,
)
from syntaxlm.models.batches import Reads, TextMode
from syntaxlm.models.registry import MODELS, ModelConfig
from syntaxlm.text.normaliser import Normaliser
from syntaxlm.training.recipe_files import find_recipe

ClassCount = Annotated[int, Field(ge=0, le=1000)]


@dataclass(frozen=True)
class VocabularySettings(Settings, section="text.vocabulary"):
    """The vocabulary, which is built from the training text."""

    minimum_count: Count = 1  # occurrences; rarer words are unknown
    maximum_size: Count | None = None  # words, special tokens included; the most frequent are kept; null: no limit
    unknown_classes: ClassCount = 0  # suffixes whose unknown words form classes, such as <unk:ing>; 0: no classes


@dataclass(frozen=True)
class TextSettings(Settings, section="text"):
    """The text and how it is read. Files are UTF-8, one sentence per line; paths are relative to the working directory.

    For a dependency-tree model they are files, folders or patterns of dependency trees.
    """

    train: str  # file
    valid: str  # file; the checkpoint with the lowest loss on it is kept
    test: str | None = None  # file; evaluated once, at the end
    trees: str | None = None  # file, folder or pattern; trees of `train`, for models that learn from them
    focus: tuple[
        str, ...
    ] = ()  # files of trees of `train`, one per parser; for grammars that are focused on their spans
    trees_preprocessing: str = "ptb-keep"  # name or file of the gold-tree preprocessing that gives the words of `train`
    normaliser: Normaliser = field(default_factory=Normaliser)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)


@dataclass(frozen=True)
class BatchSettings(Settings, section="batches"):
    """How the training text is split into batches."""

    carry_state: bool = False  # text: read as one stream; false: each sentence is read from an empty state
    predict_eos: bool = True  # text: whether ends of sentences are predicted
    token_budget: Count = 2048  # sentences, trees: tokens per batch
    maximum_words: Count | None = 150  # sentences, trees: longer ones are left out of training, and counted
    curriculum: tuple[Count, ...] = ()  # sentences: maximum words in epochs 1, 2, ...; after these, `maximum_words`
    batch_size: Size = 64  # stream: parallel columns; trees: trees per batch, at most
    bptt: Size = 35  # stream: tokens per column and batch, the length of back-propagation through time
    variable_bptt: bool = False  # stream: each batch's length is drawn around `bptt`; the rate changes in proportion


@dataclass(frozen=True)
class OptimiserSettings(Settings, section="optimiser"):
    """Adam or SGD; then averaged SGD, if one of `average_patience`, `average_from_epoch`, `finetune_epoch` is set.

    Averaged SGD is plain SGD; the mean of its weights over all steps since averaging began is validated and kept.
    """

    kind: Literal["adam", "sgd"] = "adam"  # the algorithm, until weights are averaged
    learning_rate: Positive = 3e-3  # at the first step, or after the warm-up
    warmup_steps: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0  # steps in which the rate rises linearly from 0
    beta1: Fraction = 0.9  # adam: decay rate of the mean of the gradient
    beta2: Fraction = 0.999  # adam: decay rate of the mean of the squared gradient
    epsilon: Positive = 1e-8  # adam: added to the square root of that mean
    weight_decay: NonNegative = 1e-6  # L2, added to the gradient
    loss_normalisation: Literal["tokens", "sentences"] = "tokens"  # the loss is a mean per token, or per sentence
    gradient_clip: Positive = 1.0  # largest norm of the gradient; larger ones are scaled down to it
    average_patience: Count | None = None  # averaging starts if the loss exceeds the best before the last n validations
    average_from_epoch: Count | None = None  # epochs after which averaging starts at the latest; null: by patience only
    average_learning_rate: Positive | None = None  # learning rate after averaging has started; null: unchanged
    finetune_epoch: Count | None = None  # epochs; then averaging restarts from the average until the loss rises again

    @property
    def averages(self) -> bool:
        """Whether any setting starts averaging."""
        return any(one is not None for one in (self.average_patience, self.average_from_epoch, self.finetune_epoch))

    def contradictions(self) -> list[str]:
        faults, last, first = [], self.finetune_epoch, self.average_from_epoch
        if self.average_learning_rate is not None and not self.averages:
            faults.append(
                f"average_learning_rate: found {self.average_learning_rate}; expected null, or a setting that starts"
                " averaging: optimiser.average_patience, average_from_epoch or finetune_epoch"
            )
        if last is not None and self.average_patience is None:
            faults.append(f"finetune_epoch: found {last}; expected null, or optimiser.average_patience, which ends it")
        if last is not None and first is not None and last <= first:
            faults.append(f"finetune_epoch: found {last}; expected more than optimiser.average_from_epoch, {first}")
        return faults


@dataclass(frozen=True)
class ScheduleSettings(Settings, section="schedule"):
    """When the learning rate is reduced, and when training ends."""

    plateau_loss: Literal["valid", "train"] = "valid"  # the loss that must improve
    plateau_patience: Count = 2  # validations without a better loss before the rate is reduced
    plateau_factor: Annotated[float, Field(gt=0, le=1)] = 0.5  # the rate is multiplied by this; 1: it is not reduced
    plateau_threshold: NonNegative = 0.0  # share of the best loss by which a loss must be lower to count as better
    plateau_repeats: bool = False  # after the first reduction, the rate is reduced after every validation
    decay: Literal["none", "linear"] = "none"  # linear: the rate also decreases linearly, to 0 at the end of all epochs
    decay_from: Fraction = 0.0  # linear decay: fraction of all epochs after which the rate starts to decrease
    keep: Literal["best", "last"] = "best"  # the weights kept: of the lowest validation loss, or of the last validation
    epochs: Count = 20  # passes over the training text
    minutes: Positive | None = None  # training time after which training ends, in any epoch; null: no limit
    stop_patience: Count | None = None  # validations without a better loss before training ends; null: no limit
    validations_per_epoch: Count = 1  # the last one at the end of the epoch


def _as_text(value: object) -> object:
    """YAML reads 32 as a number."""
    return str(value) if value == 32 and not isinstance(value, bool) else value


Precision = Annotated[Literal["32", "bf16-mixed"], BeforeValidator(_as_text)]


@dataclass(frozen=True)
class RunSettings(Settings, section="run"):
    """Settings of the run itself."""

    seed: Seed = 1  # random seed of initial weights, dropout and order of batches
    precision: Precision = "32"  # bf16-mixed: products in bfloat16, weights and states in float32
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # auto: the fastest one available
    checkpoint_seconds: NonNegative = 120.0  # time between checkpoints; a killed run loses the steps since the last one
    log_steps: Count = 100  # steps between lines of metrics.jsonl
    process_timeout: Positive = 1800.0  # seconds that a process of several waits for the others before the run ends


@dataclass(frozen=True)
class Recipe(Settings):
    """A recipe. Its sections are model, text, batches, optimiser, schedule and run."""

    model: ModelConfig
    text: TextSettings
    batches: BatchSettings = field(default_factory=BatchSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run: RunSettings = field(default_factory=RunSettings)

    @property
    def reads(self) -> Reads:
        """What the model reads: text, sentences or trees."""
        return MODELS[self.model.name].reads

    @property
    def mode(self) -> TextMode:
        """How text is read. Ends of sentences are not predicted in trees."""
        if self.reads == "trees":
            return TextMode(carry_state=False, predict_eos=False)
        return TextMode(self.batches.carry_state, self.batches.predict_eos)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def contradictions(self) -> list[str]:
        """Return a message for each setting that contradicts another section."""
        faults: list[str] = []
        if not MODELS[self.model.name].is_trained:
            advice = (
                "is trained as the encoder of a pair classifier; expected a recipe with a section pairs, not text"
                if MODELS[self.model.name].encoder
                else "is made of trained models by syntaxlm combine"
            )
            faults.append(
                f"model.name: found {self.model.name}; expected a model type that is trained on text."
                f" {self.model.name} {advice}"
            )
        supervision, trees = getattr(self.model, "supervision", 0.0), self.text.trees
        if trees is not None and not supervision:
            faults.append(f"text.trees: found {trees}; expected null, or a model with model.supervision above 0")
        if trees is None and supervision:
            faults.append(f"model.supervision: found {supervision}; expected 0, or text.trees to learn from")
        focus = getattr(self.model, "focus", 0.0)
        if self.text.focus and not focus:
            faults.append(
                f"text.focus: found {list(self.text.focus)}; expected [], or a model with model.focus above 0"
            )
        if focus and not self.text.focus:
            faults.append(f"model.focus: found {focus}; expected 0, or files of trees in text.focus")
        batches, is_trees = self.batches, self.reads == "trees"
        faults += self._sentence_contradictions()
        if is_trees and batches.carry_state:
            faults.append(f"batches.carry_state: found true; expected false: {self.model.name} models read trees")
        if is_trees and self.text.normaliser.units == "characters":
            faults.append(
                "text.normaliser.units: found characters; expected words, because dependency trees have words"
            )
        if batches.carry_state and not batches.predict_eos:
            faults.append("batches.predict_eos: found false; expected true, or batches.carry_state false")
        if self.optimiser.loss_normalisation == "sentences" and batches.carry_state:
            faults.append(
                "optimiser.loss_normalisation: found sentences; expected tokens, or batches.carry_state false"
            )
        if batches.curriculum and (is_trees or batches.carry_state):
            found = list(batches.curriculum)
            faults.append(
                f"batches.curriculum: found {found}; expected [], or batches.carry_state false and a model that reads"
                " text"
            )
        if batches.variable_bptt and not batches.carry_state:
            faults.append("batches.variable_bptt: found true; expected false, or batches.carry_state true")
        return faults

    def _sentence_contradictions(self) -> list[str]:
        """Return a message for each setting that does not fit a model that reads whole sentences."""
        batches, name = self.batches, self.model.name
        if self.reads != "sentences":
            return []
        faults = []
        if batches.carry_state:
            faults.append(f"batches.carry_state: found true; expected false: {name} models read whole sentences")
        if not batches.predict_eos:
            faults.append(f"batches.predict_eos: found false; expected true: {name} models read ends of sentences")
        return faults


def read_recipe(path: str | Path, overrides: Overrides | None = None) -> Recipe:
    """Read a recipe: a YAML file, or the name of a shipped recipe.

    overrides: settings that replace those of the recipe, nested or with dotted names or both:
        {"text.train": "train.txt", "schedule": {"epochs": 3}}. All other settings are unchanged. In a list of pairs, as
        the command line passes it, the values are YAML: ("model.layers", "3").
    Raises InputError with all errors of the recipe.

    >>> syntaxlm.read_recipe("prpn-toy", {"schedule.epochs": 3}).schedule.epochs
    3
    """
    path = find_recipe(path)
    by_dict = isinstance(overrides, Mapping)
    source = f"{path} and {'overrides' if by_dict else 'the settings of the command line'}" if overrides else str(path)
    return recipe_from(read_sections(path, overrides or {}, "model, text, batches"), source)


def with_overrides(recipe: Recipe, overrides: Overrides) -> Recipe:
    """Return the recipe with other settings, see `read_recipe`. Raises InputError with all errors."""
    data = recipe.to_dict()
    override(data, overrides)
    return recipe_from(data, "the recipe and its overrides")


def recipe_from(data: dict[str, Any], source: str) -> Recipe:
    """Return the recipe of nested dictionaries. Raises InputError with all errors.  source: the file, for messages."""
    return read_settings(Recipe, data, source)
