"""Checks used in tests of several models."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import TokenBatch
from syntaxlm.ops.backend import using

DIRECTIONS, STEP = 3, 1e-6


def losses(model: NeuralModel, batch: TokenBatch) -> list[float]:
    """The loss of the batch under two seeds of dropout."""
    result = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        result.append(model.loss(batch).total.item())
    return result


def check_dropout(model: NeuralModel, batch: TokenBatch) -> None:
    """Dropout has an effect in training only."""
    first, second = losses(model.train(), batch)
    assert first != second
    first, second = losses(model.eval(), batch)
    assert first == second


def check_against_reference(model: NeuralModel, batch: TokenBatch, penalties: int | None = None) -> None:
    """Loss and all gradients, in training, by ops and by their references. penalties: how many are expected."""

    def loss() -> Tensor:
        torch.manual_seed(5)
        found = model.loss(batch)
        assert penalties is None or len(found.penalties) == penalties
        return sum(found.penalties.values()) + found.total

    found = torch.autograd.grad(fast := loss(), list(model.parameters()))
    with using("reference"):
        slow = loss()
    expected = torch.autograd.grad(slow, list(model.parameters()))
    assert fast.item() == pytest.approx(slow.item(), abs=1e-10)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def assert_gradients_agree(model: nn.Module, loss: Callable[[], Tensor], step: float = STEP) -> None:
    """Gradients equal finite differences along random directions of all parameters together.

    loss: deterministic, of the model in float64; its gradient is stored in the parameters.

    Each parameter's direction is scaled by its gradient, so that every parameter contributes to the sum.
    """
    generator = torch.Generator().manual_seed(5)
    parameters = dict(model.named_parameters())
    assert all(weight.grad is not None for weight in parameters.values())
    for _ in range(DIRECTIONS):
        directions = {}
        for name, weight in parameters.items():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            slope = abs(float((weight.grad * drawn).sum()))
            directions[name] = drawn / max(slope, 0.1 * float(weight.grad.norm()), 0.1)
        expected = _difference(parameters, directions, loss, step)
        if sum(_slope(parameters[name], one) for name, one in directions.items()) != _near(expected):
            for name, one in directions.items():  # find the parameter
                assert _slope(parameters[name], one) == _near(_difference(parameters, {name: one}, loss, step)), name
            pytest.fail("the gradient of all parameters together differs from finite differences")


def _near(expected: float) -> object:
    return pytest.approx(expected, rel=1e-4, abs=1e-6)


def _slope(weight: nn.Parameter, direction: Tensor) -> float:
    assert weight.grad is not None
    return float((weight.grad * direction).sum())


def _difference(
    parameters: dict[str, nn.Parameter], directions: dict[str, Tensor], loss: Callable[[], Tensor], step: float
) -> float:
    values = []
    with torch.no_grad():
        for sign in (1, -1):
            for name, direction in directions.items():
                parameters[name].add_(sign * step * direction)
            values.append(float(loss()))
            for name, direction in directions.items():
                parameters[name].sub_(sign * step * direction)
    return (values[0] - values[1]) / (2 * step)
