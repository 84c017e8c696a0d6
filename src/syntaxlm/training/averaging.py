"""Averaged SGD, started once the validation loss no longer falls (NT-ASGD), and fine-tuning from the averaged weights.

Merity, Keskar, Socher 2018, section 3, algorithm 1; fine-tuning: section 5. Training continues with the weights of SGD;
what is measured and kept is their mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.training.recipe import OptimiserSettings

Change = Literal["begins", "restarts", "ends"]
"""What a validation brings about: averaging, fine-tuning (averaging anew, from the mean), the end of the run."""


@dataclass
class Averaging:
    """Where a run is with the averaging of its weights.

    began: the optimiser step after which the first mean began; None: weights are not averaged yet.
    restarted: the step after which fine-tuning began, and with it the mean anew; None: not yet.
    losses: of validations since the run or fine-tuning began, nats per token, oldest first.
    """

    began: int | None = None
    restarted: int | None = None
    losses: list[float] = field(default_factory=list)

    def count(self, steps: int) -> int:
        """How many steps are in the mean after so many optimiser steps; 0: weights are not averaged."""
        since = self.began if self.restarted is None else self.restarted
        return 0 if since is None else steps - since

    def is_averaged(self, step: int) -> bool:
        """Whether the weights measured after a step were averaged ones."""
        return self.began is not None and step > self.began

    def seen(self, loss: float, steps: int, epochs: float, settings: OptimiserSettings) -> Change | None:
        """Takes note of a validation after so many steps and epochs; returns what it brings about."""
        risen = self._has_risen(loss, settings.average_patience)
        self.losses.append(loss)
        if self.restarted is not None:
            return "ends" if risen else None
        if _reached(settings.finetune_epoch, epochs):
            self.began, self.restarted = steps if self.began is None else self.began, steps
            self.losses = []
            return "restarts"
        if self.began is None and (risen or _reached(settings.average_from_epoch, epochs)):
            self.began = steps
            return "begins"
        return None

    def _has_risen(self, loss: float, patience: int | None) -> bool:
        """Whether a loss is above the lowest of all before it but the last few."""
        return patience is not None and len(self.losses) > patience and loss > min(self.losses[:-patience])

    def rate(self, settings: OptimiserSettings) -> float:
        """The learning rate before any fall."""
        averaged = settings.average_learning_rate if self.began is not None else None
        return settings.learning_rate if averaged is None else averaged


def _reached(epoch: int | None, epochs: float) -> bool:
    return epoch is not None and epochs >= epoch


class WeightAverage:
    """The mean of a model's weights over optimiser steps. Parameters only: buffers stay the model's own.

    means: by parameter name, tied ones once; empty before the first step.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, count: int) -> None:
        """Takes the weights after an optimiser step into the mean; count: steps in it, this one included."""
        weights = self._weights()
        if count == 1:
            self.means = {name: weight.clone() for name, weight in weights.items()}
        else:
            torch._foreach_lerp_(list(self.means.values()), list(weights.values()), 1 / count)

    @contextmanager
    def as_weights(self) -> Iterator[None]:
        """The model has the averaged weights inside, its own again after. Where there is no mean: nothing."""
        own = {name: weight.clone() for name, weight in self._weights().items()} if self.means else {}
        self._put(self.means)
        try:
            yield
        finally:
            self._put(own)

    def begin(self) -> None:
        """Begins a mean, from the mean before as the model's weights where there is one."""
        self._put(self.means)
        self.means = {}

    def load(self, means: Mapping[str, Tensor]) -> None:
        """Continues from means by parameter name. Raises KeyError when some are missing; none at all begins anew."""
        weights = self._weights() if means else {}
        self.means = {name: means[name].to(weight.device, copy=True) for name, weight in weights.items()}

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.model.named_parameters()}

    def _put(self, values: Mapping[str, Tensor]) -> None:
        weights = self._weights()
        for name, value in values.items():
            weights[name].copy_(value)
