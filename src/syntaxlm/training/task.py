"""The interface between training loops and what is trained: a model with its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from syntaxlm.batches import Batches
from syntaxlm.models.abilities import Criterion
from syntaxlm.training.recipe import OptimiserSettings, RunSettings, ScheduleSettings


@dataclass(frozen=True)
class Validation:
    """The value of a model's criterion on the validation data.

    figures: values for metrics.jsonl, by key: "valid_loss", "valid_perplexity".
    """

    criterion: Criterion
    value: float
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """The value, negated if the criterion is maximised, so that lower is better."""
        return -self.value if self.criterion.maximise else self.value


class TaskRecipe(Protocol):
    """The settings that every recipe has."""

    @property
    def optimiser(self) -> OptimiserSettings: ...

    @property
    def schedule(self) -> ScheduleSettings: ...

    @property
    def run(self) -> RunSettings: ...

    def to_dict(self) -> dict[str, Any]: ...


class Task(ABC):
    """A model with its training and validation data.

    model: `TrainsByGradient` or `TrainsByCounting`, on the device of the run.
    rate_setting, clip_setting: names of the settings of learning rate and gradient clipping, for messages; "" if there
        is no such setting.
    """

    model: Any
    rate_setting = "optimiser.learning_rate"
    clip_setting = "optimiser.gradient_clip"

    @abstractmethod
    def batches(self, rank: int, ranks: int) -> Batches:
        """Return the training batches of one process.  rank, ranks: its number, and the number of processes."""

    @abstractmethod
    def validate(self) -> Validation:
        """Evaluate the present model on the validation data."""

    @abstractmethod
    def write_weights(self, folder: Path) -> None:
        """Write the model's weights to its folder, atomically. Called when they are the best so far."""

    def write_settings(self, folder: Path) -> None:  # noqa: B027
        """Write all other files of the model folder, before training."""

    def check_resumable(self, folder: Path) -> None:  # noqa: B027
        """Raise InputError if the data differs from that at the start of the run in the folder."""

    def full_pass(self) -> Iterable[Any]:
        """Return large batches of the whole training data, for models that are trained by counting."""
        return self.batches(0, 1).iterate(0)

    def set_epoch(self, epochs: float) -> None:  # noqa: B027
        """Set the number of epochs so far, for a model whose loss changes during training."""

    def rate_factor(self, batch: Any) -> float:
        """Return the factor of the learning rate for a batch."""
        return 1.0

    def figures(self) -> dict[str, Any]:
        """Return additional figures for the log of every validation."""
        return {}
