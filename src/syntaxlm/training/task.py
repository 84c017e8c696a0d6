"""What a run trains. The loops and the run shell know a task only, not what its model reads or predicts."""

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

    figures: for the log, by the keys of metrics.jsonl: "valid_loss", "valid_perplexity".
    """

    criterion: Criterion
    value: float
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """The value, lower being better."""
        return -self.value if self.criterion.maximise else self.value


class TaskRecipe(Protocol):
    """What a run needs of any recipe."""

    @property
    def optimiser(self) -> OptimiserSettings: ...

    @property
    def schedule(self) -> ScheduleSettings: ...

    @property
    def run(self) -> RunSettings: ...

    def to_dict(self) -> dict[str, Any]: ...


class Task(ABC):
    """A model with the data that it learns from and is validated on.

    model: `TrainsByGradient` or `TrainsByCounting`, on the device of the run.
    """

    model: Any

    @abstractmethod
    def batches(self, rank: int, ranks: int) -> Batches:
        """The training batches of one of several processes."""

    @abstractmethod
    def validate(self) -> Validation:
        """The criterion of the model as it is, in evaluation mode."""

    @abstractmethod
    def write_weights(self, folder: Path) -> None:
        """Writes the model's weights into its folder, atomically: they are the best so far."""

    def write_settings(self, folder: Path) -> None:  # noqa: B027
        """Writes what the folder needs besides weights, before training."""

    def check_resumable(self, folder: Path) -> None:  # noqa: B027
        """Raises InputError where the data is not what the run in a folder was started with."""

    def full_pass(self) -> Iterable[Any]:
        """The whole training data once, in batches as large as possible, for models that count."""
        return self.batches(0, 1).iterate(0)

    def set_epoch(self, epochs: float) -> None:  # noqa: B027
        """Sets the number of epochs passed, for a model whose loss changes in the course of training."""

    def rate_factor(self, batch: Any) -> float:
        """What the learning rate of a batch is multiplied by."""
        return 1.0

    def figures(self) -> dict[str, Any]:
        """Further figures for the log of every validation."""
        return {}
