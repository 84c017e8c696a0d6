"""A recipe: all that a training run needs, read from YAML."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from syntaxlm.errors import InputError
from syntaxlm.models.registry import MODELS, ModelConfig
from syntaxlm.settings import override, read_settings, read_yaml
from syntaxlm.text.normaliser import Normaliser


@dataclass(frozen=True)
class VocabularySettings:
    """Which words of the training text the model knows."""

    minimum_count: int = 1  # occurrences; rarer words are unknown
    maximum_size: int | None = None  # words, special tokens included; the most frequent are kept


@dataclass(frozen=True)
class TextSettings:
    """The text and how it is read. Files are UTF-8, one sentence a line; relative to the working folder."""

    train: str  # file
    valid: str  # file; the best checkpoint is the one of lowest loss on it
    test: str | None = None  # file; only measured, at the end
    normaliser: Normaliser = field(default_factory=Normaliser)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)


@dataclass(frozen=True)
class BatchSettings:
    """How the training text is cut."""

    mode: Literal["sentences", "stream"] = "sentences"  # each sentence by itself, or one text with carried state
    token_budget: int = 2048  # sentences: tokens of a batch, padding included
    maximum_words: int | None = 150  # sentences: longer ones are left out of training, and counted
    batch_size: int = 64  # stream: parallel columns
    steps: int = 35  # stream: tokens of each column a batch has (the length of back-propagation through time)


@dataclass(frozen=True)
class OptimiserSettings:
    """Adam."""

    learning_rate: float = 3e-3  # at the first step
    beta1: float = 0.9  # decay of the gradient's mean
    beta2: float = 0.999  # decay of its square's mean
    epsilon: float = 1e-8  # added to the root of the square's mean
    weight_decay: float = 1e-6  # L2, added to the gradient
    clip: float = 1.0  # norm that the gradient is scaled down to


@dataclass(frozen=True)
class ScheduleSettings:
    """When the learning rate falls, and when training ends."""

    plateau_of: Literal["valid", "train"] = "valid"  # the loss that must improve
    plateau_patience: int = 2  # validations without a better loss before the rate falls
    plateau_factor: float = 0.5  # the rate is multiplied by this
    epochs: int = 20  # passes over the training text
    minutes: float | None = None  # training time after which it ends, whatever the epoch; None for no limit
    validations_per_epoch: int = 1  # the last one at the epoch's end


@dataclass(frozen=True)
class RunSettings:
    """How the run itself goes."""

    seed: int = 1
    precision: Literal["32", "bf16-mixed"] = "32"  # bf16-mixed: products in bfloat16, weights and states in float32
    accelerator: str = "auto"  # cpu, cuda, or whichever there is
    checkpoint_seconds: float = 120.0  # between checkpoints; a killed run loses at most the steps since the last
    log_steps: int = 100  # between lines of metrics.jsonl


@dataclass(frozen=True)
class Recipe:
    """Model, text, batches, optimiser, schedule, run: the sections of a recipe file."""

    model: Annotated[ModelConfig, Field(discriminator="name")]
    text: TextSettings
    batches: BatchSettings = field(default_factory=BatchSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run: RunSettings = field(default_factory=RunSettings)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def read_recipe(path: str | Path, overrides: list[tuple[str, str]] | None = None) -> Recipe:
    """The recipe of a YAML file with dotted overrides, ("model.layers", "3"). Raises InputError with every fault."""
    path = Path(path)
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: found {type(data).__name__}; expected the sections model, text, batches, ...")
    override(data, overrides or [])
    return recipe_from(data, str(path))


def recipe_from(data: dict[str, Any], source: str) -> Recipe:
    """The recipe of nested dicts. Raises InputError with every fault."""
    model = data.get("model")
    if isinstance(model, dict) and model.get("name") not in MODELS:
        found = model.get("name")
        raise InputError(f"{source}: model.name: found {found!r}; expected one of {', '.join(MODELS)}")
    recipe = read_settings(Recipe, data, source)
    faults = [
        f"{source}: {section}.{name}: found {value}; expected {what}"
        for section, name, what, right in _LIMITS
        if (value := getattr(getattr(recipe, section), name)) is not None and not right(value)
    ]
    if faults:
        raise InputError("\n".join(faults))
    return recipe


def _positive(value: float) -> bool:
    return value > 0


def _share(value: float) -> bool:
    return 0 <= value < 1


_LIMITS = [
    ("batches", "token_budget", "a positive number", _positive),
    ("batches", "maximum_words", "a positive number", _positive),
    ("batches", "batch_size", "a positive number", _positive),
    ("batches", "steps", "a positive number", _positive),
    ("optimiser", "learning_rate", "a positive number", _positive),
    ("optimiser", "beta1", "a number from 0 to under 1", _share),
    ("optimiser", "beta2", "a number from 0 to under 1", _share),
    ("optimiser", "epsilon", "a positive number", _positive),
    ("optimiser", "clip", "a positive number", _positive),
    ("schedule", "plateau_patience", "a positive number", _positive),
    ("schedule", "plateau_factor", "a positive number", _positive),
    ("schedule", "epochs", "a positive number", _positive),
    ("schedule", "minutes", "a positive number", _positive),
    ("schedule", "validations_per_epoch", "a positive number", _positive),
    ("run", "seed", "0 or more", lambda value: value >= 0),
    ("run", "checkpoint_seconds", "0 or more", lambda value: value >= 0),
    ("run", "log_steps", "a positive number", _positive),
]


def shipped_recipes() -> Path:
    """The folder of the recipes that come with the package: inside it when installed, beside it in a checkout."""
    installed = Path(__file__).parents[1] / "recipes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "recipes"


def find_recipe(name: str) -> Path:
    """The file a recipe's name stands for: a path, or the bare name of a shipped one. Raises InputError."""
    if Path(name).exists():
        return Path(name)
    shipped = shipped_recipes() / f"{name}.yaml"
    if shipped.exists():
        return shipped
    names = ", ".join(sorted(path.stem for path in shipped_recipes().glob("*.yaml")))
    raise InputError(f"{name}: no such recipe file. Shipped recipes, to be given by name: {names}")
