"""Gradients against finite differences, each parameter along a random direction."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


def assert_gradients_agree(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    """loss: deterministic, of the model in float64; its gradient is stored in the parameters."""
    generator = torch.Generator().manual_seed(5)
    for key, weight in model.named_parameters():
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight.add_(step * direction)
                values.append(float(loss()))
                weight.sub_(step * direction)
        expected = (values[0] - values[1]) / 2e-6
        assert weight.grad is not None, key
        assert float((weight.grad * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6), key
