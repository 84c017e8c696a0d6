"""PRPN's layer norm: its parts with a hand-written backward, compared with its reference."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.ops.layer_norm import layer_norm_reference, normalise, normalise_backward
from tests.ops.harness import random


@pytest.mark.parametrize("shape", [(1, 2), (4, 5), (3, 700)])
def test_normalised_rows_and_their_gradient_equal_the_reference(shape):
    rows, outer = random(*shape).requires_grad_(), random(*shape, seed=1)
    one = torch.ones(shape[-1], dtype=torch.float64)
    expected = layer_norm_reference(rows, one, torch.zeros_like(one))
    normal, scale, factor = normalise(rows.detach())
    torch.testing.assert_close(normal, expected.detach(), rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad((expected * outer).sum(), rows)
    torch.testing.assert_close(normalise_backward(outer, normal, scale, factor), gradient, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_row_gives_finite_values_and_gradients(dtype):
    normal, scale, factor = normalise(torch.full((2, 6), 3.0, dtype=dtype))
    assert torch.isfinite(normal).all()
    assert torch.isfinite(normalise_backward(2 * normal, normal, scale, factor)).all()
