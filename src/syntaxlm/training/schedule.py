"""Optimisers and what changes their rate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings


def build_optimiser(model: nn.Module, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Adam with the recipe's settings, one fused pass over all weights; or plain SGD."""
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
    """Lowers the learning rate by a factor after `patience` validations without a better loss."""

    best: float | None = None  # lowest loss so far
    waited: int = 0
    scale: float = 1.0  # what the rate is multiplied by, so far

    def seen(self, loss: float, settings: ScheduleSettings) -> bool:
        """Takes note of a loss; returns whether the rate falls."""
        if self.best is None or loss < self.best:
            self.best, self.waited = loss, 0
            return False
        self.waited += 1
        if self.waited < settings.plateau_patience:
            return False
        self.waited = 0
        self.scale *= settings.plateau_factor
        return True

    def rate(self, first: float, epochs: float, settings: ScheduleSettings) -> float:
        """The learning rate after so many epochs, of the one at the first step."""
        decay = 1.0
        if settings.decay == "linear":
            left = 1 - min(1.0, epochs / settings.epochs)
            decay = min(1.0, left / (1 - settings.decay_from))
        return first * self.scale * decay
