"""PRPN's layer norm, compiled and uncompiled, compared with its reference."""

from __future__ import annotations

import pytest
import torch

from syntaxlm.ops.layer_norm import fast, layer_norm, reference


def tensors(*shape: int) -> list[torch.Tensor]:
    """Rows, gain, bias, and an output gradient."""
    numbers = torch.Generator().manual_seed(0)
    shapes = shape, shape[-1:], shape[-1:], shape
    made = [torch.randn(*size, dtype=torch.float64, generator=numbers) for size in shapes]
    return [tensor.requires_grad_() for tensor in made[:3]] + made[3:]


@pytest.mark.parametrize("form", ["float64", "float32", "float32 without compiled code", "bfloat16 rows"])
@pytest.mark.parametrize("shape", [(1, 2), (4, 3, 5), (3, 700), (0, 6)])
def test_layer_norm_equals_the_reference_in_value_and_gradient(monkeypatch, shape, form):
    *inputs, outer = tensors(*shape)
    expected = reference.layer_norm(*inputs)
    wanted = torch.autograd.grad((expected * outer).sum(), inputs)
    if "without" in form:
        monkeypatch.setattr(fast, "usable", lambda *arguments: None)
    dtype = torch.float64 if form == "float64" else torch.float32
    rows, gain, bias = (tensor.detach().to(dtype).requires_grad_() for tensor in inputs)
    read = rows.bfloat16() if "bfloat16" in form else rows
    value = layer_norm(read, gain, bias)
    assert value.dtype == dtype
    found = torch.autograd.grad((value * outer.to(dtype)).sum(), (rows, gain, bias))
    tolerance = {"float64": 1e-10, "bfloat16 rows": 0.1}.get(form, 2e-4)
    if shape == (1, 2) and dtype == torch.float32:
        tolerance *= 10  # the gradient for two numbers is a difference of almost equal terms
    torch.testing.assert_close(value.double(), expected, rtol=0, atol=tolerance)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance * (1 + len(outer)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_row_gives_finite_values_and_gradients(dtype):
    rows = torch.full((1, 2, 6), 3.0, dtype=dtype, requires_grad=True)
    out = layer_norm(rows, torch.ones(6, dtype=dtype), torch.zeros(6, dtype=dtype))
    assert torch.isfinite(out).all()
    assert torch.isfinite(torch.autograd.grad(out.square().sum(), rows)[0]).all()


def test_non_contiguous_rows_are_read_correctly():
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).T
    gain, bias = torch.ones(6), torch.zeros(6)
    torch.testing.assert_close(layer_norm(rows, gain, bias), reference.layer_norm(rows, gain, bias))
