"""A recipe: all that a training run needs, read from YAML."""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from syntaxlm.errors import InputError
from syntaxlm.model_io import mode_settings
from syntaxlm.models.batches import Reads, TextMode
from syntaxlm.models.registry import ModelConfig, config_faults, reads
from syntaxlm.settings import Limits, range_faults, read_sections, read_settings
from syntaxlm.text.normaliser import Normaliser


@dataclass(frozen=True)
class VocabularySettings:
    """Which words of the training text the model knows."""

    minimum_count: int = 1  # occurrences; rarer words are unknown
    maximum_size: int | None = None  # words, special tokens included; the most frequent are kept


@dataclass(frozen=True)
class TextSettings:
    """The text and how it is read. Files are UTF-8, one sentence a line; relative to the working folder.

    For a dependency-tree model they are files, folders or patterns of dependency trees.
    """

    train: str  # file
    valid: str  # file; the best checkpoint is the one of lowest loss on it
    test: str | None = None  # file; only measured, at the end
    trees: str | None = None  # file, folder or pattern; gold trees of `train`, for models that learn from them
    trees_clean_up: str = "ptb-keep"  # name or file of the clean-up that leaves the words of `train` in the trees
    normaliser: Normaliser = field(default_factory=Normaliser)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)


@dataclass(frozen=True)
class BatchSettings:
    """How the training text is cut."""

    carry_state: bool = False  # text: read as one stream; else each sentence by itself
    predict_eos: bool = True  # text: whether ends of sentences are predicted
    token_budget: int = 2048  # sentences, trees: tokens of a batch
    maximum_words: int | None = 150  # sentences, trees: longer ones are left out of training, and counted
    batch_size: int = 64  # stream: parallel columns; trees: those of a batch, at most
    bptt: int = 35  # stream: tokens of each column a batch has (the length of back-propagation through time)
    variable_bptt: bool = False  # stream: each batch's steps are drawn around `bptt`, the rate in proportion to them


@dataclass(frozen=True)
class OptimiserSettings:
    """Adam or SGD, then averaged SGD where one of `average_patience`, `average_from_epoch`, `finetune_epoch` is set.

    Averaged SGD is plain SGD; the mean of its weights over all steps since it began is what is measured and kept.
    """

    kind: Literal["adam", "sgd"] = "adam"  # which, until weights are averaged
    learning_rate: float = 3e-3  # at the first step
    beta1: float = 0.9  # adam: decay of the gradient's mean
    beta2: float = 0.999  # adam: decay of its square's mean
    epsilon: float = 1e-8  # adam: added to the root of the square's mean
    weight_decay: float = 1e-6  # L2, added to the gradient
    loss_normalisation: Literal["tokens", "sentences"] = (
        "tokens"  # what the loss is a mean over, before its gradient is clipped
    )
    clip: float = 1.0  # norm that the gradient is scaled down to
    average_patience: int | None = None  # validations; averaging begins above the best loss but for the last so many
    average_from_epoch: int | None = None  # epochs after which averaging begins, if it has not; None: by patience alone
    averaged_rate: float | None = None  # learning rate from then on, its plateau begun anew; None: as it was
    finetune_epoch: int | None = None  # epochs; then on from the mean, averaged anew, until a loss as above ends it

    @property
    def averages(self) -> bool:
        """Whether anything begins the averaging of weights."""
        return any(one is not None for one in (self.average_patience, self.average_from_epoch, self.finetune_epoch))


@dataclass(frozen=True)
class ScheduleSettings:
    """When the learning rate falls, and when training ends."""

    plateau_of: Literal["valid", "train"] = "valid"  # the loss that must improve
    plateau_patience: int = 2  # validations without a better loss before the rate falls
    plateau_factor: float = 0.5  # the rate is multiplied by this
    decay: Literal["none", "linear"] = "none"  # linear: the rate falls evenly besides, to 0 at the end of all epochs
    epochs: int = 20  # passes over the training text
    minutes: float | None = None  # training time after which it ends, whatever the epoch; None for no limit
    stop_patience: int | None = None  # validations without a better one after which it ends; None: never for this
    validations_per_epoch: int = 1  # the last one at the epoch's end


@dataclass(frozen=True)
class RunSettings:
    """How the run itself goes."""

    seed: int = 1  # of all that is drawn at random: first weights, dropout, order of batches
    precision: Literal["32", "bf16-mixed"] = "32"  # bf16-mixed: products in bfloat16, weights and states in float32
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # auto: the fastest there is
    checkpoint_seconds: float = 120.0  # between checkpoints; a killed run loses at most the steps since the last
    log_steps: int = 100  # between lines of metrics.jsonl


@dataclass(frozen=True)
class Recipe:
    """Model, text, batches, optimiser, schedule, run: the sections of a recipe file."""

    model: ModelConfig
    text: TextSettings
    batches: BatchSettings = field(default_factory=BatchSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run: RunSettings = field(default_factory=RunSettings)

    @property
    def reads(self) -> Reads:
        """What the model reads."""
        return reads(self.model)

    @property
    def mode(self) -> TextMode:
        """How text is read; trees have no ends that are predicted."""
        if self.reads == "trees":
            return TextMode(carry_state=False, predict_eos=False)
        return TextMode(self.batches.carry_state, self.batches.predict_eos)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def read_recipe(path: str | Path, overrides: list[tuple[str, str]] | None = None) -> Recipe:
    """The recipe of a YAML file, or of a shipped recipe's name, with dotted overrides, ("model.layers", "3").

    Raises InputError with every fault.
    """
    path = find_recipe(path)
    source = f"{path} and the settings given beside it" if overrides else str(path)
    return recipe_from(read_sections(path, overrides or [], "model, text, batches"), source)


def recipe_from(data: dict[str, Any], source: str) -> Recipe:
    """The recipe of nested dicts. Raises InputError with every fault."""
    recipe = read_settings(Recipe, _upgraded(data), source)
    outside = range_faults(_LIMITS, lambda name: attrgetter(name)(recipe))
    faults = [*config_faults(recipe.model), *outside, *_contradictions(recipe)]
    if faults:
        raise InputError("\n".join(f"{source}: {fault}" for fault in faults))
    return recipe


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """The settings under their present names: recipes of the first format had `batches.mode`."""
    batches = data.get("batches")
    if not isinstance(batches, dict) or "mode" not in batches:
        return data
    kept = {name: value for name, value in batches.items() if name != "mode"}
    upgraded = mode_settings(batches["mode"])
    if batches["mode"] == "trees":  # what the model reads says so
        upgraded = {}
    return data | {"batches": kept | upgraded}


def _contradictions(recipe: Recipe) -> list[str]:
    """Settings that others leave without a meaning."""
    faults, settings = [], recipe.optimiser
    supervision, trees = getattr(recipe.model, "supervision", 0.0), recipe.text.trees
    if trees is not None and not supervision:
        faults.append(f"text.trees: found {trees}; expected null, or a model with model.supervision above 0")
    if trees is None and supervision:
        faults.append(f"model.supervision: found {supervision}; expected 0, or text.trees to learn from")
    batches, is_trees = recipe.batches, recipe.reads == "trees"
    if is_trees and batches.carry_state:
        faults.append(f"batches.carry_state: found true; expected false: {recipe.model.name} models read trees")
    if is_trees and recipe.text.normaliser.units == "characters":
        faults.append("text.normaliser.units: found characters; expected words: trees are of words")
    if batches.carry_state and not batches.predict_eos:
        faults.append("batches.predict_eos: found false; expected true, or batches.carry_state false")
    if settings.loss_normalisation == "sentences" and batches.carry_state:
        faults.append("optimiser.loss_normalisation: found sentences; expected tokens, or batches.carry_state false")
    if batches.variable_bptt and not batches.carry_state:
        faults.append("batches.variable_bptt: found true; expected false, or batches.carry_state true")
    if settings.averaged_rate is not None and not settings.averages:
        faults.append(
            f"optimiser.averaged_rate: found {settings.averaged_rate}; expected null, or what begins the averaging:"
            " optimiser.average_patience, average_from_epoch or finetune_epoch"
        )
    last = settings.finetune_epoch
    if last is not None and settings.average_patience is None:
        faults.append(
            f"optimiser.finetune_epoch: found {last}; expected null, or optimiser.average_patience, which ends it"
        )
    if last is not None and settings.average_from_epoch is not None and last <= settings.average_from_epoch:
        faults.append(
            f"optimiser.finetune_epoch: found {last}; expected more than optimiser.average_from_epoch,"
            f" {settings.average_from_epoch}"
        )
    return faults


_POSITIVE = "a positive number", lambda value: 0 < value < math.inf
_SHARE = "a number from 0 to under 1", lambda value: 0 <= value < 1
_NOT_NEGATIVE = "0 or more", lambda value: value >= 0

_LIMITS: Limits = {
    "text.vocabulary.minimum_count": _POSITIVE,
    "text.vocabulary.maximum_size": _POSITIVE,
    "batches.token_budget": _POSITIVE,
    "batches.maximum_words": _POSITIVE,
    "batches.batch_size": _POSITIVE,
    "batches.bptt": _POSITIVE,
    "optimiser.learning_rate": _POSITIVE,
    "optimiser.beta1": _SHARE,
    "optimiser.beta2": _SHARE,
    "optimiser.epsilon": _POSITIVE,
    "optimiser.weight_decay": _NOT_NEGATIVE,
    "optimiser.clip": _POSITIVE,
    "optimiser.average_patience": _POSITIVE,
    "optimiser.average_from_epoch": _POSITIVE,
    "optimiser.averaged_rate": _POSITIVE,
    "optimiser.finetune_epoch": _POSITIVE,
    "schedule.plateau_patience": _POSITIVE,
    "schedule.plateau_factor": _POSITIVE,
    "schedule.epochs": _POSITIVE,
    "schedule.minutes": _POSITIVE,
    "schedule.stop_patience": _POSITIVE,
    "schedule.validations_per_epoch": _POSITIVE,
    "run.seed": (f"0 to {2**32 - 1}", lambda value: 0 <= value < 2**32),
    "run.checkpoint_seconds": _NOT_NEGATIVE,
    "run.log_steps": _POSITIVE,
}


def shipped_recipes() -> Path:
    """The folder of the recipes that come with the package: inside it when installed, beside it in a checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "recipes"


def find_recipe(name: str | Path) -> Path:
    """The file a recipe's name stands for: a path, or the bare name of a shipped one. Raises InputError."""
    if Path(name).exists():
        return Path(name)
    shipped = shipped_recipes() / f"{name}.yaml"
    if shipped.exists():
        return shipped
    names = sorted(path.stem for path in shipped_recipes().glob("*.yaml"))
    nearest = difflib.get_close_matches(str(name), names, 1)
    advice = f"Did you mean {nearest[0]}?" if nearest else f"Shipped recipes, to be given by name: {', '.join(names)}"
    raise InputError(f"{name}: no such recipe file. {advice}")
