"""Optimisers and what changes their rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from syntaxlm.training.recipe import OptimiserSettings, ScheduleSettings


def build_optimiser(model: nn.Module, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Adam with the recipe's settings, one fused pass over all weights."""
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
    """Multiplies the learning rate by a factor after `patience` validations without a better loss."""

    best: float = math.inf
    waited: int = 0

    def seen(self, loss: float, optimiser: torch.optim.Optimizer, settings: ScheduleSettings) -> bool:
        """Takes note of a loss; returns whether the rate fell."""
        if loss < self.best:
            self.best, self.waited = loss, 0
            return False
        self.waited += 1
        if self.waited < settings.plateau_patience:
            return False
        self.waited = 0
        for group in optimiser.param_groups:
            group["lr"] *= settings.plateau_factor
        return True
