"""Optimisers and learning rate schedules."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings


def build_optimiser(model: nn.Module, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Returns the optimiser of a recipe: fused Adam or plain SGD."""
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
        """Records a loss. Returns whether the learning rate is reduced."""
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
        """Returns the learning rate after a number of epochs.  first: the learning rate of the first step."""
        decay = 1.0
        if settings.decay == "linear":
            left = 1 - min(1.0, epochs / settings.epochs)
            decay = min(1.0, left / (1 - settings.decay_from))
        return first * self.scale * decay
