"""Optimisers, learning rate schedules, and averaged SGD.

Averaged SGD starts when the validation loss stops improving (NT-ASGD; Merity, Keskar, Socher 2018, section 3, algorithm
1), and may be fine-tuned from the average (section 5). SGD continues with its own weights; their average is validated
and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings


def build_optimiser(model: nn.Module, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Return the optimiser of a recipe: fused Adam or plain SGD."""
    if settings.kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    return torch.optim.Adam(
        model.parameters(),
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


@dataclass
class Plateau:
    """Reduces the learning rate by a factor after `plateau_patience` validations without a better loss.

    With `plateau_repeats`, it is then reduced after every validation.
    """

    best: float | None = None  # lowest loss so far
    waited: int = 0  # validations since then, or since the last reduction
    scale: float = 1.0  # product of all reductions so far

    def seen(self, loss: float, settings: ScheduleSettings) -> bool:
        """Record a loss. Returns whether the learning rate is reduced."""
        margin = settings.plateau_threshold and settings.plateau_threshold * abs(self.best or 0)
        better = self.best is None or loss < self.best - margin
        self.best = loss if self.best is None else min(self.best, loss)
        if not (settings.plateau_repeats and self.scale < 1):
            self.waited = 0 if better else self.waited + 1
            if self.waited < settings.plateau_patience:
                return False
        self.waited = 0
        self.scale *= settings.plateau_factor
        return True

    def rate(self, first: float, epochs: float, settings: ScheduleSettings) -> float:
        """Return the learning rate after a number of epochs.  first: the learning rate of the first step."""
        decay = 1.0
        if settings.decay == "linear":
            left = 1 - min(1.0, epochs / settings.epochs)
            decay = min(1.0, left / (1 - settings.decay_from))
        return first * self.scale * decay


Change = Literal["begins", "restarts", "ends"]
"""The effect of a validation: averaging starts, fine-tuning starts (averaging restarts from the average), or the run
ends."""


@dataclass
class Averaging:
    """The state of weight averaging in a run.

    began: the optimiser step after which averaging started; None: it has not started.
    restarted: the optimiser step after which fine-tuning started with a new average; None: it has not started.
    losses: validation losses since the start of the run or of fine-tuning, nats per token, oldest first.
    """

    began: int | None = None
    restarted: int | None = None
    losses: list[float] = field(default_factory=list)

    def count(self, steps: int) -> int:
        """Return the number of averaged steps after `steps` optimiser steps; 0 if weights are not averaged."""
        since = self.began if self.restarted is None else self.restarted
        return 0 if since is None else steps - since

    def is_averaged(self, step: int) -> bool:
        """Return whether the weights that were validated after a step were averaged."""
        return self.began is not None and step > self.began

    def seen(self, loss: float, steps: int, epochs: float, settings: OptimiserSettings) -> Change | None:
        """Record the loss of a validation after `steps` optimiser steps and `epochs` epochs. Returns its effect."""
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
        """Return whether a loss is higher than the lowest earlier one, ignoring the last `patience` losses."""
        return patience is not None and len(self.losses) > patience and loss > min(self.losses[:-patience])

    def rate(self, settings: OptimiserSettings) -> float:
        """Return the learning rate before any reduction by the schedule."""
        averaged = settings.average_learning_rate if self.began is not None else None
        return settings.learning_rate if averaged is None else averaged


def _reached(epoch: int | None, epochs: float) -> bool:
    return epoch is not None and epochs >= epoch


class WeightAverage:
    """The average of a model's parameters over optimiser steps. Buffers are not averaged.

    means: averages by parameter name, tied parameters once; empty before the first step.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, count: int) -> None:
        """Add the present weights to the average.  count: number of averaged steps, including this one."""
        weights = self._weights()
        if count == 1:
            self.means = {name: weight.clone() for name, weight in weights.items()}
        else:
            torch._foreach_lerp_(list(self.means.values()), list(weights.values()), 1 / count)

    @contextmanager
    def as_weights(self) -> Iterator[None]:
        """Replace the model's weights by the average inside the context. Does nothing if there is no average."""
        own = {name: weight.clone() for name, weight in self._weights().items()} if self.means else {}
        self._put(self.means)
        try:
            yield
        finally:
            self._put(own)

    def begin(self) -> None:
        """Start a new average. If there is an earlier average, it becomes the model's weights."""
        self._put(self.means)
        self.means = {}

    def load(self, means: Mapping[str, Tensor]) -> None:
        """Restore averages by parameter name; an empty mapping starts a new average.

        Raises KeyError if some parameters are missing.
        """
        weights = self._weights() if means else {}
        self.means = {name: means[name].to(weight.device, copy=True) for name, weight in weights.items()}

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach() for name, weight in self.model.named_parameters()}

    def _put(self, values: Mapping[str, Tensor]) -> None:
        weights = self._weights()
        for name, value in values.items():
            weights[name].copy_(value)
