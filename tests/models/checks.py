"""Checks used in tests of several models."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from syntaxlm.models.backbone import NeuralModel
from syntaxlm.models.batches import TokenBatch
from syntaxlm.ops.backend import using


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
